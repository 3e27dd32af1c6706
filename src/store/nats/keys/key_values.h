// Values under keys, in a stream of their own. A key is a subject; a value's revision is the sequence of
// its message. A larger value lies in parts, which are written before the message that names them.
//
//   once-kv.<zone>.v.<token>...               a value; headers Once-Lives, Once-Parts, Once-Key
//   once-kv.<zone>.p.<token>....<digest>.<i>  part i of a large value
//   once-kv.<zone>.seal.<UUID>                see marks.h
//   $KV.once_<zone>_meta.values               the zone has this stream, and it ended at that sequence
//
// The stream is made with the first value, because zones of older versions have none and most logins
// may not make one. The process that makes it moves the workflows of an older version first; see
// flow_move.h.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <set>

#include "store/key_value.h"
#include "store/nats/client/jetstream_client.h"
#include "store/nats/keys/flow_move.h"
#include "store/nats/subjects.h"
#include "store/nats/watch.h"
#include "store/nats/zone_clock.h"

namespace once::store::nats {

class KeyValues final : public KeyValue {
 public:
  // All of these outlive it.
  KeyValues(const JetStreamClient& client, const Subjects& subjects, ZoneClock& clock,
            const RequestMux& mux, Watch& watch, std::string uuid, FlowMove::ReadRecord read_record,
            std::function<Result<Retention>()> retention);

  std::vector<Result<std::optional<Value>>> get(std::span<const Key> keys) override;
  std::vector<Result<KeyWriteResult>> write(std::span<const KeyWrite> items) override;
  Result<bool> remove(const Key& key, core::Revision revision) override;
  Result<KeyPage> list(const KeyList& query) override;

  // Answers how many there were, and moves the mark.
  Result<std::uint64_t> remove_expired();

 private:
  // Where the bytes of a large value are.
  struct Parts {
    std::string digest{};
    std::uint64_t size{};
    std::uint64_t part_size{};
    std::uint64_t count() const { return (size + part_size - 1) / part_size; }
  };
  struct Head {
    Key key{};
    Value value{};  // without the bytes that lie in parts
    std::optional<Parts> parts{};
  };

  // Where the zone has its values. Only Make::yes makes the stream, and moves what is in the old place.
  enum class Make { no, yes };
  enum class Where { nowhere, old_place, here };
  Result<Where> enter(Make make);
  Result<void> make_stream();
  Result<void> check_stream(const StreamMessage& mark);
  std::string subject_of(const Key& key) const;
  std::string parts_of(std::string_view value_subject) const;
  std::string seal() const;
  Head head_from(StreamMessage message) const;
  // The value with the bytes of its parts. nullopt: it was removed or replaced meanwhile.
  Result<std::optional<Value>> whole(const std::string& subject, Head head);
  Result<std::string> read_parts(const std::string& subject, const Parts& parts);
  Result<Outgoing> message_for(const KeyWrite& item);
  Result<Parts> write_parts(const std::string& subject, const KeyWrite& item);
  // Writes on their way into the stream.
  struct WriteBatch {
    std::span<const KeyWrite> items{};
    std::vector<std::optional<Result<KeyWriteResult>>>
        answers{};                     // of each item; nullopt: none yet
    std::vector<Outgoing> messages{};  // of each item
    std::vector<std::size_t> open{};   // items without an answer
  };
  WriteBatch messages_for(std::span<const KeyWrite> items);
  // Sends the open items once. Those that are to be sent again stay open.
  void send(WriteBatch& batch);
  // `emptied`: somebody emptied the stream, or restored an older copy.
  Result<KeyWriteResult> answer_published(const PublishResult& written, bool emptied);
  // nullopt: the message, which is changed for that, is to be sent again.
  std::optional<Result<KeyWriteResult>> answer_refused(const KeyWrite& item, Outgoing& message);
  // Reads what refused a write. nullopt: the write is to be sent again, over `expected`.
  Result<std::optional<KeyWriteResult>> refused(const KeyWrite& item, const std::string& subject,
                                                std::uint64_t& expected);
  // Parts that were written before the value's message.
  Result<void> drop_parts(const std::string& subject, std::uint64_t before);
  Result<void> purge_before(const std::string& filter, std::uint64_t before);
  // The parts of values that were replaced, or never written. `in_use`: what the subjects of parts that
  // values have begin with.
  Result<void> drop_old_parts(const std::set<std::string>& in_use,
                              const std::set<std::string>& there);
  Result<std::set<std::string>> all_parts() const;  // what their subjects begin with
  Result<void> create(const KeyWrite& item);
  std::vector<Result<std::optional<Value>>> get_here(std::span<const Key> keys);
  void add_late(std::span<const Key> keys, std::vector<Result<std::optional<Value>>>& answers);
  Result<void> add_late(const KeyList& query, KeyPage& page);
  // Of each write; see flow_move.h.
  std::vector<Result<void>> seal_old_places(std::span<const KeyWrite> items);
  Result<void> move_mark(std::uint64_t last);

  const JetStreamClient& client_;
  const Subjects& subjects_;
  ZoneClock& clock_;
  const RequestMux& mux_;
  Watch& watch_;
  const std::string uuid_;
  const std::string stream_;
  FlowMove move_;
  std::mutex entering_;
  std::atomic<bool> entered_ = false;
};

}  // namespace once::store::nats
