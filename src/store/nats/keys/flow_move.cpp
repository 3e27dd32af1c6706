#include "store/nats/keys/flow_move.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "codec/record_codec.h"
#include "store/moved_flows.h"
#include "store/nats/log/entry_codec.h"

namespace once::store::nats {
namespace {

constexpr const char* kMoved = "Once-Moved";    // of a definition: it was replaced
constexpr const char* kNoRecords = "new";       // of kMoved: no old process knew the queue
constexpr const char* kSealed = "Once-Sealed";  // of a record: its stamp
constexpr char kUnreadable = '\xff';            // what a sealed record begins with
constexpr int kMoveRounds = 50;
constexpr std::chrono::milliseconds kBetweenMoves{20};

Error not_yet() {
  return {.code = Code::store_unavailable,
          .message =
              "the workflows of an older version are not moved yet; nothing was done: the "
              "same call again goes on",
          .retryable = true};
}

// When the record was written that the seal replaced.
StoreTime stamp_of(const StreamMessage& sealed) {
  return StoreTime{Duration{std::strtoll(sealed.header(kSealed)->c_str(), nullptr, 10)}};
}

// A seal where there is no record to be copied.
Outgoing blank_seal(const std::string& subject, Headers headers) {
  headers.emplace_back(kSealed, "0");
  return {.subject = subject, .data = std::string(1, kUnreadable), .headers = std::move(headers)};
}

// Without what the server reads.
Headers own_headers(const StreamMessage& stream_message) {
  Headers headers;
  for (const auto& [name, value] : stream_message.headers)
    if (!name.starts_with("Nats-")) headers.emplace_back(name, value);
  return headers;
}

}  // namespace

bool was_moved(const StreamMessage& definition) {
  if (definition.header(kMoved)) return true;
  const std::string name = last_token(definition.subject);
  return std::find(kMovedQueues.begin(), kMovedQueues.end(), name) != kMovedQueues.end() &&
         definition.data.find("\"ledger\":true") != std::string::npos;
}

Result<bool> FlowMove::find_old() {
  std::vector<std::string> definitions;
  for (const std::string_view name : kMovedQueues) definitions.push_back(subjects_.queue(name));
  definitions.push_back(subjects_.queue(core::kFlowQueue));  // it has notes
  std::map<std::string, std::string> found;
  for (const auto& stream_message : client_.last(subjects_.meta_stream(), definitions)) {
    if (!stream_message) return stream_message.error();
    if (!*stream_message) continue;
    const std::string name = last_token((*stream_message)->subject);
    const std::string* generation = (*stream_message)->header("Once-Generation");
    if (!generation || (name != core::kFlowQueue && !was_moved(**stream_message))) continue;
    const std::string* moved = (*stream_message)->header(kMoved);
    if (!moved || *moved != kNoRecords) found[name] = *generation;
  }
  const bool old = found.size() > found.count(std::string(core::kFlowQueue));
  if (!old) found.clear();
  const std::lock_guard lock(mutex_);
  generations_ = std::move(found);
  return old;
}

// In another generation an old process would not find the records, and take runs for forgotten.
Result<void> FlowMove::replace_definition(std::string_view name) {
  const std::string subject = subjects_.queue(name);
  for (int round = 0; round < kMoveRounds; ++round) {
    const auto stream_message = client_.last(subjects_.meta_stream(), subject);
    if (!stream_message) return stream_message.error();
    if (*stream_message && (!was_moved(**stream_message) || (*stream_message)->header(kMoved)))
      return {};
    const std::string* generation =
        *stream_message ? (*stream_message)->header("Once-Generation") : nullptr;
    if (*stream_message && !generation) return not_yet();
    Outgoing message{
        .subject = subject,
        .data = encoding::encode_queue({.name = std::string(name), .topic = "$once.moved"}),
        .headers = expecting(*stream_message ? (*stream_message)->sequence : 0)};
    message.headers.emplace_back("Once-Generation", generation ? *generation : random_generation());
    message.headers.emplace_back(kMoved, generation ? "1" : kNoRecords);
    const PublishResult written = client_.publish(message);
    if (written.kind == PublishResult::Kind::stored) return {};
    if (written.kind != PublishResult::Kind::refused) return failure_of(written);
  }
  return not_yet();
}

Result<void> FlowMove::run() {
  {
    const std::lock_guard lock(mutex_);
    began_ = clock_.now();
  }
  for (const std::string_view name : kMovedQueues)
    if (auto replaced = replace_definition(name); !replaced) return replaced;
  const auto old = find_old();
  if (!old) return old.error();
  if (!*old) return {};
  const auto ages = ages_();
  if (!ages) return ages.error();
  std::vector<std::string> queues(kMovedQueues.begin(), kMovedQueues.end());
  queues.emplace_back(core::kFlowQueue);
  for (const std::string& name : queues) {
    Result<bool> done = !old_queue(name);
    for (int round = 0; done && !*done; ++round) {
      if (round > 0) std::this_thread::sleep_for(kBetweenMoves);
      done = round < kMoveRounds ? move_records(name, *ages) : Result<bool>(not_yet());
    }
    if (!done) return done.error();
  }
  return {};
}

bool FlowMove::is_sealed(const StreamMessage& record) { return record.header(kSealed) != nullptr; }

std::optional<KnownQueue> FlowMove::old_queue(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto generation = generations_.find(name);
  if (generation == generations_.end()) return std::nullopt;
  return KnownQueue{.definition = {.name = name}, .generation = generation->second};
}

std::optional<std::string> FlowMove::old_subject(const Key& key) const {
  const auto at = old_place(key);
  const auto queue = at ? old_queue(at->queue) : std::nullopt;
  return queue ? std::optional(subjects_.record(*queue, *at)) : std::nullopt;
}

// A message that is written under the same filter ends what is read. A replica that has it has all that
// was acknowledged before it, and so had the leader that wrote it. False: a record was written meanwhile,
// or a replica answered that lags behind.
Result<bool> FlowMove::move_records(const std::string& name, const Retention& ages) {
  const KnownQueue queue = old_queue(name).value();
  const bool events = name == core::kFlowQueue;
  const Address end{.kind = events ? Address::Kind::lone : Address::Kind::task,
                    .queue = name,
                    .key = events ? "runs." : "."};
  const PublishResult ended = client_.publish(blank_seal(subjects_.record(queue, end), {}));
  if (ended.kind != PublishResult::Kind::stored) return failure_of(ended);
  std::uint64_t seen = 0;
  bool all = true;
  const auto read = client_.each(
      subjects_.ledger_stream(), subjects_.records(queue), 1, JetStreamClient::kToTheEnd,
      [&](StreamMessage stream_message) -> Result<void> {
        seen = stream_message.sequence;
        const RecordPlace place = place_of(stream_message);
        if (events ? place.kind != 'l' || !is_flow_note(place.key) : place.kind != 'k') return {};
        auto sealed = seal(std::move(stream_message));
        if (!sealed) return sealed.error();
        if (!*sealed) {
          all = false;
          return {};
        }
        return stamp_of(**sealed) < began_ ? copy(name, std::move(**sealed), ages)
                                           : copy_late(name, std::move(**sealed), ages);
      });
  if (!read) return read.error();
  return all && seen >= ended.sequence;
}

Result<std::optional<StreamMessage>> FlowMove::seal(StreamMessage stream_message) const {
  if (stream_message.header(kSealed)) return std::optional(std::move(stream_message));
  const std::string stamp =
      std::to_string(clock_.stamp_of(stream_message).time_since_epoch().count());
  Outgoing message{.subject = stream_message.subject,
                   .data = kUnreadable + stream_message.data,
                   .headers = expecting(stream_message.sequence)};
  for (auto& header : own_headers(stream_message)) message.headers.push_back(std::move(header));
  message.headers.emplace_back(kSealed, stamp);
  const PublishResult written = client_.publish(message);
  if (written.kind == PublishResult::Kind::refused) return std::optional<StreamMessage>{};
  if (written.kind != PublishResult::Kind::stored) return failure_of(written);
  stream_message.sequence = written.sequence;
  stream_message.headers.emplace(kSealed, stamp);
  stream_message.data.insert(stream_message.data.begin(), kUnreadable);
  return std::optional(std::move(stream_message));
}

Result<std::optional<std::pair<Key, Value>>> FlowMove::value_of(const std::string& queue,
                                                                StreamMessage stream_message,
                                                                const Retention& ages) const {
  using Pair = std::optional<std::pair<Key, Value>>;
  StoreTime stamp = clock_.stamp_of(stream_message);
  const RecordPlace place = place_of(stream_message);
  const std::uint64_t sequence = stream_message.sequence;
  if (stream_message.header(kSealed)) {
    if (stream_message.data.size() < 2) return Pair{};  // there was no record
    stamp = stamp_of(stream_message);
    stream_message.data.erase(0, 1);
  }
  const auto stored = read_record_(std::move(stream_message));
  if (!stored) return stored.error();
  if (!*stored) return Pair{};
  auto moved = moved_value(queue, place.key, (*stored)->record, stamp, ages);
  if (!moved) return Pair{};
  return Pair(std::in_place, std::move(moved->key),
              Value{.bytes = std::move(moved->bytes),
                    .revision = {sequence | kOldRevision},
                    .stamp = stamp,
                    .lives = moved->lives});
}

Result<void> FlowMove::copy(const std::string& queue, StreamMessage sealed,
                            const Retention& ages) const {
  auto found = value_of(queue, std::move(sealed), ages);
  if (!found) return found.error();
  if (!*found) return {};
  auto& [key, value] = **found;
  KeyWrite moved{.key = std::move(key), .bytes = std::move(value.bytes), .lives = value.lives};
  if (moved.lives) moved.lives = std::max(value.stamp + *moved.lives - clock_.now(), Duration{0});
  return create_(moved);
}

// The process that sealed it may have died before it copied it, or may be about to copy it. Afterwards it is
// blank, so that nobody copies it again after its value expired.
Result<void> FlowMove::copy_late(const std::string& queue, StreamMessage sealed,
                                 const Retention& ages) const {
  if (sealed.data.size() < 2) return {};
  const Outgoing nothing = blank_seal(sealed.subject, expecting(sealed.sequence));
  if (auto copied = copy(queue, std::move(sealed), ages); !copied) return copied;
  static_cast<void>(client_.publish(nothing));
  return {};
}

// --- Late records -----------------------------------------------------------------------------

StoreTime FlowMove::moved_at() const {
  const std::lock_guard lock(mutex_);
  return moved_at_;
}

bool FlowMove::may_be_late() const {
  const std::lock_guard lock(mutex_);
  return !generations_.empty() && clock_.now() < moved_at_ + kSealFor;
}

bool FlowMove::counts(const StreamMessage& stream_message) const {
  return !stream_message.header(kSealed) || stamp_of(stream_message) >= moved_at();
}

FlowMove::Found FlowMove::get(std::span<const Key> keys) const {
  Found found{.values = {keys.size(), Result<std::optional<Value>>(std::optional<Value>{})}};
  std::vector<std::string> subjects;
  std::vector<std::size_t> asked;
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (auto subject = old_subject(keys[i])) {
      subjects.push_back(std::move(*subject));
      asked.push_back(i);
    }
  auto messages = client_.last(subjects_.ledger_stream(), subjects);
  std::optional<Result<Retention>> ages;
  for (std::size_t k = 0; k < asked.size(); ++k) {
    auto& value = found.values[asked[k]];
    if (!messages[k]) value = messages[k].error();
    if (!messages[k] || !*messages[k]) continue;
    found.sealed = found.sealed || (*messages[k])->header(kSealed);
    if (!counts(**messages[k])) continue;
    if (!ages) ages = ages_();
    auto old = *ages ? value_of(old_place(keys[asked[k]])->queue, std::move(**messages[k]), **ages)
                     : Result<std::optional<std::pair<Key, Value>>>(ages->error());
    if (!old)
      value = old.error();
    else if (*old && !(*old)->second.expired(clock_.now()))
      value = std::optional(std::move((*old)->second));
  }
  return found;
}

Result<KeyPage> FlowMove::list(const KeyList& query) const {
  KeyPage page;
  const auto at = old_place(query.prefix);
  const auto queue = at ? old_queue(at->queue) : std::nullopt;
  if (!queue) return page;
  const auto ages = ages_();
  if (!ages) return ages.error();
  const std::string filter = subjects_.records(*queue);
  std::uint64_t last = 0;
  if (is_old(query.after)) last = std::strtoull(query.after.c_str() + kOldPage.size(), nullptr, 10);
  const auto next = [&] { return std::string(kOldPage) + std::to_string(last); };
  std::vector<StreamMessage> found;
  const auto more = client_.page(subjects_.ledger_stream(), filter, last + 1,
                                 std::max<std::size_t>(query.limit, 2), found);
  if (!more) return more.error();
  if (!found.empty()) last = found.back().sequence;
  if (!*more || found.empty()) {
    // A replica may answer and lag behind: the leader says what the last record is.
    const auto newest = client_.last(subjects_.ledger_stream(), filter);
    if (!newest) return newest.error();
    if (*newest && (*newest)->sequence > last) page.next = next();
    if (found.empty() && !page.next.empty()) std::this_thread::sleep_for(kBetweenMoves);
  } else {
    page.next = next();
  }
  for (StreamMessage& stream_message : found) {
    const RecordPlace place = place_of(stream_message);
    const bool events = at->kind == Address::Kind::lone;
    if (events ? place.kind != 'l' || !is_flow_note(place.key) : place.kind != 'k') continue;
    if (!counts(stream_message)) continue;
    auto value = value_of(at->queue, std::move(stream_message), *ages);
    if (!value && value.error().code == Code::store_unusable)
      page.unreadable.emplace_back(Key{query.prefix.front(), place.key}, value.error());
    else if (!value)
      return value.error();
    if (!value || !*value) continue;
    const Key& key = (*value)->first;
    if (key.size() > query.prefix.size() &&
        std::equal(query.prefix.begin(), query.prefix.end(), key.begin()) &&
        !(query.lasting && (*value)->second.lives) && !(*value)->second.expired(clock_.now()))
      page.values.push_back(std::move(**value));
  }
  return page;
}

std::vector<Result<void>> FlowMove::seal_places(std::span<const Key> keys) const {
  std::vector<Result<void>> answers(keys.size());
  std::vector<Outgoing> seals;
  std::vector<std::size_t> sealed;
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (const auto subject = old_subject(keys[i])) {
      seals.push_back(blank_seal(*subject, expecting(0)));
      sealed.push_back(i);
    }
  if (seals.empty()) return answers;
  const auto published = client_.publish(seals);
  for (std::size_t k = 0; k < sealed.size(); ++k) {
    if (published[k].kind == PublishResult::Kind::refused)
      answers[sealed[k]] = seal_place(keys[sealed[k]], seals[k].subject);
    else if (published[k].kind != PublishResult::Kind::stored)
      answers[sealed[k]] = failure_of(published[k]);
  }
  return answers;
}

// There is a record, or a seal.
Result<void> FlowMove::seal_place(const Key& key, const std::string& subject) const {
  for (int round = 0; round < kMoveRounds; ++round) {
    auto stream_message = client_.last(subjects_.ledger_stream(), subject);
    if (!stream_message) return stream_message.error();
    if (!*stream_message) {
      const PublishResult written = client_.publish(blank_seal(subject, expecting(0)));
      if (written.kind == PublishResult::Kind::stored) return {};
      if (written.kind != PublishResult::Kind::refused) return failure_of(written);
      continue;
    }
    auto sealed = seal(std::move(**stream_message));
    if (!sealed) return sealed.error();
    if (!*sealed) continue;
    if ((*sealed)->data.size() < 2 || !counts(**sealed)) return {};
    const auto ages = ages_();
    if (!ages) return ages.error();
    return copy_late(old_place(key)->queue, std::move(**sealed), *ages);
  }
  return not_yet();
}

// --- The mark ---------------------------------------------------------------------------------

std::string FlowMove::mark_text(std::uint64_t last) const {
  const std::lock_guard lock(mutex_);
  const StoreTime at = moved_at_ > StoreTime{} ? moved_at_ : began_;
  std::string old;
  for (const auto& [name, generation] : generations_)
    old += (old.empty() ? "" : ",") + json_string(name) + ":" + json_string(generation);
  return "{\"last\":" + std::to_string(last) +
         ",\"moved_at\":" + std::to_string(at.time_since_epoch().count()) + ",\"old\":{" + old +
         "}}";
}

void FlowMove::recall(const StreamMessage& mark) {
  const auto json = encoding::parse_json(mark.data);
  if (!json) return;
  const std::lock_guard lock(mutex_);
  generations_.clear();
  if (const encoding::Json* old = json->member("old"))
    for (const auto& [name, generation] : old->members()) generations_[name] = generation.string();
  moved_at_ =
      StoreTime{Duration{static_cast<Duration::rep>(number_of(*json, "moved_at").value_or(0))}};
}

std::uint64_t FlowMove::last_in(const StreamMessage& mark) {
  const auto json = encoding::parse_json(mark.data);
  return json ? number_of(*json, "last").value_or(0) : 0;
}

}  // namespace once::store::nats
