// The streams and subjects of a zone on JetStream, and how names become subject tokens.
//
//   ONCE_<zone>_LOG          once.<zone>.log.<id>.<topic...>            the task: work item and
//                                                                       deduplication record in one
//                            once.<zone>.sys.<id>.<topic...>            the same for Once's own topics:
//                                                                       no queue's filter reaches it
//                            once.<zone>.old.<id>.<sequence>            an id whose body is retired
//   ONCE_<zone>_OLD          once-old.<zone>.<range>.<sequence>         which id that is; a range is
//                                                                       1,024 sequences
//   ONCE_<zone>_WAKE         once-wake.<zone>.<queue>.<generation>.<sequence>   look at it again; one
//                                                                       message per entry, gone when acked
//   ONCE_<zone>_COPY         once-copy.<zone>.<queue>.<generation>.<sequence>.<part>   a dead or held
//                                                                       message of a stream of others';
//                                                                       only where a queue is on one
//   ONCE_<zone>_COUNT        once-count.<zone>.dup.<id>                 duplicates, as a counter
//                            once-count.<zone>.member                   worker numbers, as a counter
//   KV_once_<zone>_ledger    $KV.once_<zone>_ledger.<queue>.<generation>.<k|e|l>.<key>
//   ONCE_<zone>_BLOB         once-blob.<zone>.<queue>.<generation>.<k|e|l>.<key>.<value>.<size>.<i>
//                                                                       large values; see value_chunks.h
//   ONCE_<zone>_KV           once-kv.<zone>.<v|p>.<token>...            values under keys; only where
//                                                                       there are workflows. See
//                                                                       key_values.h
//   KV_once_<zone>_meta      $KV.once_<zone>_meta.queue.<queue>         definitions
//                            $KV.once_<zone>_meta.zone, .retention
//                            $KV.once_<zone>_meta.worker.<queue>.<generation>.<number>
//                            $KV.once_<zone>_meta.past.<queue>.<generation>.<range>   totals of what
//                                                                       retention took
//                            $KV.once_<zone>_meta.gone.<range>          numbers of the log's stream that
//                                                                       it took
//                            $KV.once_<zone>_meta.marks                 see marks.h
//                            $KV.once_<zone>_meta.values                the mark of ONCE_<zone>_KV
//
// The ledger, WAKE, COUNT, OLD, BLOB and KV each hold a seal, <root>.seal.<UUID of the zone>.
//
// Each queue gets a random generation when it is added. So a later queue of the same name has other
// records, wakes and consumers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/names.h"
#include "store/store.h"

namespace once::store::nats {

// Encodes any bytes as one subject token. Each byte outside [A-Za-z0-9_-] becomes =XX. A token that
// would be too long becomes == and the SHA-256 of the bytes.
std::string token(std::string_view bytes);
// Decodes a token. Returns nullopt for a hashed token; a header of the message then has the bytes.
std::optional<std::string> from_token(std::string_view token);
// Like token(), and never hashed. That header uses it.
std::string escaped(std::string_view bytes);

// The header of the message that a worker writes when it leaves.
inline constexpr const char* kLeft = "Once-Left";

// Makes the generation of a new queue.
std::string random_generation();

// A queue as the store knows it.
struct KnownQueue {
  Queue definition{};
  std::string generation{};
  std::uint64_t revision{};  // of its definition
  std::string
      stream_made{};  // when the stream of others' was, that it is on; as the server says it

  // When the queue was added, no message of that stream was missing from this number on. Zero if
  // that is not known.
  std::uint64_t stream_whole{};

  // Whether the queue is on a stream of others.
  bool foreign() const { return !definition.stream.empty(); }
  // Whether the queue takes that entry of the zone's log.
  bool has(std::string_view topic, Sequence sequence) const;
  std::string consumer() const { return definition.name + "_" + generation; }
};

struct Subjects {
  std::string zone{};

  std::string log_stream() const { return "ONCE_" + zone + "_LOG"; }
  std::string wake_stream() const { return "ONCE_" + zone + "_WAKE"; }
  std::string copy_stream() const { return "ONCE_" + zone + "_COPY"; }
  std::string old_stream() const { return "ONCE_" + zone + "_OLD"; }
  std::string blob_stream() const { return "ONCE_" + zone + "_BLOB"; }
  std::string count_stream() const { return "ONCE_" + zone + "_COUNT"; }
  std::string kv_stream() const { return "ONCE_" + zone + "_KV"; }
  std::string kv_root() const { return "once-kv." + zone + "."; }
  std::string ledger_stream() const { return "KV_once_" + zone + "_ledger"; }
  std::string meta_stream() const { return "KV_once_" + zone + "_meta"; }
  // All streams that a zone may have. The meta bucket is last, because the zone exists as long as
  // its meta bucket does.
  std::vector<std::string> streams() const {
    return {log_stream(),  ledger_stream(), wake_stream(), copy_stream(), old_stream(),
            blob_stream(), count_stream(),  kv_stream(),   meta_stream()};
  }

  std::string log(std::string_view id, std::string_view topic) const {
    return log_root(topic) + token(id) + "." + std::string(topic);
  }
  std::string logs(std::string_view filter) const {
    return log_root(filter) + "*." + std::string(filter);
  }
  std::string old(std::string_view id, Sequence sequence) const {
    return "once." + zone + ".old." + token(id) + "." + std::to_string(sequence.value);
  }
  std::string olds() const { return "once." + zone + ".old.>"; }
  // The message of a retired id has a later number than the tasks around it. So a page of the log
  // needs notes that name the retired ids of a range of sequences. A note is written before its
  // retired id and removed after it. The notes have a stream of their own, because a range in the
  // log's subjects would make the check of each append more expensive.
  static constexpr std::uint64_t kRange = 1024;
  static std::uint64_t range_of(Sequence sequence) { return sequence.value / kRange; }
  std::string old_note(Sequence sequence) const {
    return old_root(range_of(sequence)) + std::to_string(sequence.value);
  }
  std::string old_notes(std::uint64_t range) const { return old_root(range) + "*"; }
  std::string whole_log() const { return "once." + zone + ".>"; }
  // The filter over everything that an id ever had. All writers of an id must use this exact text.
  std::string all_of(std::string_view id) const {
    return "once." + zone + ".*." + token(id) + ".>";
  }

  std::string wake(const KnownQueue& queue, Sequence sequence) const {
    return wake_root(queue) + std::to_string(sequence.value);
  }
  std::string wakes(const KnownQueue& queue) const { return wake_root(queue) + ">"; }

  // The stream and the filter from which a queue takes its tasks.
  std::string source_stream(const KnownQueue& queue) const {
    return queue.foreign() ? queue.definition.stream : log_stream();
  }
  std::string source_filter(const KnownQueue& queue) const {
    return queue.foreign() ? queue.definition.topic : logs(queue.definition.topic);
  }

  std::string copy_root(const KnownQueue& queue) const {
    return "once-copy." + zone + "." + token(queue.definition.name) + "." + queue.generation + ".";
  }
  std::string copy(const KnownQueue& queue, Sequence sequence) const {
    return copy_root(queue) + std::to_string(sequence.value) + ".";
  }

  std::string duplicates(std::string_view id) const {
    return "once-count." + zone + ".dup." + token(id);
  }
  std::string members() const { return "once-count." + zone + ".member"; }

  std::string record(const KnownQueue& queue, const store::Address& at) const;
  std::string records(const KnownQueue& queue) const { return record_root(queue) + ">"; }

  // The subjects of the large values of the record with that subject.
  std::string chunk(std::string_view record, std::string_view value, std::uint64_t i) const {
    return blob_root(record) + std::string(value) + "." + std::to_string(i);
  }
  std::string chunks(std::string_view record) const { return blob_root(record) + ">"; }
  std::string chunks(const KnownQueue& queue) const { return chunks_root(queue) + ">"; }

  std::string meta(std::string_view key) const {
    return "$KV.once_" + zone + "_meta." + std::string(key);
  }
  std::string queue(std::string_view name) const { return meta("queue.") + token(name); }
  std::string worker_root(const KnownQueue& queue) const {
    return meta("worker.") + token(queue.definition.name) + "." + queue.generation + ".";
  }
  std::string past_root(const KnownQueue& queue) const {
    return meta("past.") + token(queue.definition.name) + "." + queue.generation + ".";
  }
  std::string past(const KnownQueue& queue, std::uint64_t number) const {
    return past_root(queue) + std::to_string(number / kRange);
  }
  std::string gone(std::uint64_t number) const {
    return meta("gone.") + std::to_string(number / kRange);
  }
  // Every record of every queue, and every large value, without the seal.
  std::string all_records() const { return ledger_root() + "*.*.>"; }
  std::string all_chunks() const { return "once-blob." + zone + ".*.*.>"; }
  std::string ledger_seal() const { return ledger_root() + "seal."; }
  // The server republishes each write of a queue's definition here. See QueueNews.
  std::string news() const { return "once-news." + zone + ".>"; }

 private:
  std::string log_root(std::string_view topic) const {
    return "once." + zone + (core::own_topic(topic) ? ".sys." : ".log.");
  }
  std::string old_root(std::uint64_t range) const {
    return "once-old." + zone + "." + std::to_string(range) + ".";
  }
  std::string wake_root(const KnownQueue& queue) const {
    return "once-wake." + zone + "." + token(queue.definition.name) + "." + queue.generation + ".";
  }
  std::string ledger_root() const { return "$KV.once_" + zone + "_ledger."; }
  std::string record_root(const KnownQueue& queue) const {
    return ledger_root() + token(queue.definition.name) + "." + queue.generation + ".";
  }
  std::string chunks_root(const KnownQueue& queue) const {
    return "once-blob." + zone + "." + token(queue.definition.name) + "." + queue.generation + ".";
  }
  std::string blob_root(std::string_view record) const {
    return "once-blob." + zone + "." + std::string(record.substr(ledger_root().size())) + ".";
  }
};

}  // namespace once::store::nats
