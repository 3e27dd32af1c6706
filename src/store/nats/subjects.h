// Where a zone's things lie on JetStream, and how names become subject tokens.
//
//   ONCE_<zone>_LOG          once.<zone>.log.<id>.<topic...>            the task: work item and
//                                                                       deduplication record in one
//                            once.<zone>.sys.<id>.<topic...>            the same for Once's own topics:
//                                                                       no queue's filter reaches it
//                            once.<zone>.old.<id>.<sequence>            an id whose body is retired
//   ONCE_<zone>_OLD          once-old.<zone>.<range>.<sequence>         which id that is; a range is
//                                                                       1,024 sequences
//   ONCE_<zone>_WAKE         once-wake.<zone>.<queue>.<generation>.<sequence>   look at it again; one
//                                                                       slot per entry, gone when acked
//   ONCE_<zone>_COPY         once-copy.<zone>.<queue>.<generation>.<sequence>.<part>   a dead or held
//                                                                       message of a stream of others';
//                                                                       only where a queue is on one
//   ONCE_<zone>_COUNT        once-count.<zone>.dup.<id>                 duplicates, as a counter
//                            once-count.<zone>.member                   worker numbers, as a counter
//   KV_once_<zone>_ledger    $KV.once_<zone>_ledger.<queue>.<generation>.<k|e|l>.<key>
//   ONCE_<zone>_BLOB         once-blob.<zone>.<queue>.<generation>.<k|e|l>.<key>.<value>.<size>.<i>
//                                                                       large values; see values.h
//   KV_once_<zone>_meta      $KV.once_<zone>_meta.queue.<queue>         definitions
//                            $KV.once_<zone>_meta.zone, .retention
//                            $KV.once_<zone>_meta.worker.<queue>.<generation>.<number>
//                            $KV.once_<zone>_meta.past.<queue>.<generation>.<range>   totals of what
//                                                                       retention took
//                            $KV.once_<zone>_meta.gone.<range>          numbers of the log's stream that
//                                                                       it took
//                            $KV.once_<zone>_meta.marks                 see marks.h
//
// The ledger, WAKE, COUNT, OLD and BLOB each hold a seal, <root>.seal.<UUID of the zone>.
//
// A queue's generation is random and made with it: a queue of the same name that comes later has
// other records, wakes and consumers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/names.h"
#include "store/store.h"

namespace once::store::nats {

// One subject token for any bytes, and no two for the same: what is not [A-Za-z0-9_-] becomes =XX;
// what would get too long becomes == and its SHA-256.
std::string token(std::string_view bytes);
// The bytes; none for a hashed token: they stand in a header then.
std::optional<std::string> from_token(std::string_view token);
// Like token(), and never hashed: for that header.
std::string escaped(std::string_view bytes);

// The header of a worker's last word.
inline constexpr const char* kLeft = "Once-Left";

// A queue as the store knows it.
struct KnownQueue {
  Queue definition{};
  std::string generation{};
  std::uint64_t revision{};  // of its definition
  std::string
      stream_made{};  // when the stream of others' was, that it is on; as the server says it

  // From this message on, none was missing in that stream when the queue was added; zero: not noted.
  std::uint64_t stream_whole{};

  // On a stream of others'.
  bool foreign() const { return !definition.stream.empty(); }
  // Whether it takes an entry of the zone's log.
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
  std::string ledger_stream() const { return "KV_once_" + zone + "_ledger"; }
  std::string meta_stream() const { return "KV_once_" + zone + "_meta"; }
  // All that a zone may have. The meta bucket goes last: while it is there, so is the zone.
  std::vector<std::string> streams() const {
    return {log_stream(), ledger_stream(), wake_stream(),  copy_stream(),
            old_stream(), blob_stream(),   count_stream(), meta_stream()};
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
  // Retired ids lie behind the tasks in the stream; notes by ranges of sequences tell which there are
  // in a page of the log. They are written first and go last. In the log itself every range would be
  // one more token for an append to look behind.
  static constexpr std::uint64_t kRange = 1024;
  static std::uint64_t range_of(Sequence sequence) { return sequence.value / kRange; }
  std::string old_note(Sequence sequence) const {
    return old_root(range_of(sequence)) + std::to_string(sequence.value);
  }
  std::string old_notes(std::uint64_t range) const { return old_root(range) + "*"; }
  std::string whole_log() const { return "once." + zone + ".>"; }
  // Every writer of an id checks this one filter, letter by letter the same.
  std::string all_of(std::string_view id) const {
    return "once." + zone + ".*." + token(id) + ".>";
  }

  std::string wake(const KnownQueue& queue, Sequence sequence) const {
    return wake_root(queue) + std::to_string(sequence.value);
  }
  std::string wakes(const KnownQueue& queue) const { return wake_root(queue) + ">"; }

  // Where a queue takes its tasks from.
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

  // Beside the record of that subject.
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
  // Where the server repeats what was written to a definition, once it is written.
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
