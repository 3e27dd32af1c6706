#include "store/nats/keys/key_values.h"

#include <charconv>
#include <chrono>
#include <thread>

#include "codec/digest.h"
#include "store/nats/ledger/ledger_scan.h"
#include "store/nats/marks.h"
#include "store/nats/streams.h"

namespace once::store::nats {
namespace {

constexpr const char* kValueLives = "Once-Lives";
constexpr const char* kParts = "Once-Parts";
constexpr const char* kKey = "Once-Key";
constexpr std::size_t kValuePage = 1000;
constexpr Duration kYoung = std::chrono::minutes{10};  // longer than any write takes
constexpr int kTries = 16;                             // of a write that others are in the way of

std::uint64_t number_in(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = std::min(text.find(at), text.size());
    parts.push_back(text.substr(0, end));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

Error damaged_value(const std::string& what) {
  return {.code = Code::store_unusable,
          .message = what + ": restore a backup; nothing was changed"};
}

Error busy() {
  return {.code = Code::store_unavailable,
          .message = "others keep writing the same key; nothing was written: call again",
          .retryable = true};
}

// Most logins may not do it.
Error not_made(Error error) {
  if (!error.retryable)
    error.message =
        "the zone has no stream of values yet, and the workflows of an older version, if it has "
        "any, "
        "are not moved into it: " +
        error.message;
  return error;
}

}  // namespace

KeyValues::KeyValues(const JetStreamClient& client, const Subjects& subjects, ZoneClock& clock,
                     const RequestMux& mux, Watch& watch, std::string uuid,
                     FlowMove::ReadRecord read_record, std::function<Result<Retention>()> retention)
    : client_(client),
      subjects_(subjects),
      clock_(clock),
      mux_(mux),
      watch_(watch),
      uuid_(std::move(uuid)),
      stream_(subjects.kv_stream()),
      move_(client, subjects, clock, std::move(read_record), std::move(retention),
            [this](const KeyWrite& item) { return create(item); }) {}

// --- The stream -------------------------------------------------------------------------------

std::string KeyValues::seal() const { return subjects_.kv_root() + "seal." + uuid_; }

Result<KeyValues::Where> KeyValues::enter(Make make) {
  if (auto whole = watch_.values_are_whole(); !whole) return whole.error();
  if (entered_) return Where::here;
  const std::lock_guard lock(entering_);
  if (entered_) return Where::here;
  auto mark = client_.last(subjects_.meta_stream(), subjects_.meta("values"));
  if (!mark) return mark.error();
  if (!*mark) {
    if (make == Make::no) {
      const auto old = move_.find_old();
      if (!old) return old.error();
      return *old ? Where::old_place : Where::nowhere;
    }
    if (auto made = make_stream(); !made) return not_made(made.error());
    mark = client_.last(subjects_.meta_stream(), subjects_.meta("values"));
    if (!mark) return mark.error();
    if (!*mark) return busy();
  }
  if (auto whole = check_stream(**mark); !whole) return whole.error();
  move_.recall(**mark);
  entered_ = true;
  return Where::here;
}

Result<void> KeyValues::make_stream() {
  if (auto made = make_streams(client_, {kv_plan(subjects_)}); !made) return made.error();
  const PublishResult sealed = client_.publish({.subject = seal(), .headers = expecting(0)});
  if (sealed.kind != PublishResult::Kind::stored && sealed.kind != PublishResult::Kind::refused)
    return failure_of(sealed);
  if (auto moved = move_.run(); !moved) return moved;
  Outgoing first{
      .subject = subjects_.meta("values"), .data = move_.mark_text(0), .headers = expecting(0)};
  clock_.stamp(first.headers);
  const PublishResult marked = client_.publish(first);
  if (marked.kind == PublishResult::Kind::stored || marked.kind == PublishResult::Kind::refused)
    return {};
  return failure_of(marked);
}

Result<void> KeyValues::check_stream(const StreamMessage& mark) {
  const Plan plan = kv_plan(subjects_);
  const auto info =
      client_.stream_info(stream_, R"({"subjects_filter":)" + json_string(plan.seal + "*") + "}");
  if (!info) return info.error();
  const Error emptied = stream_emptied(subjects_, stream_);
  if (!*info) return emptied;
  if (const auto edits = edits_of({plan, **info}); !edits.empty())
    return stream_edited(stream_, edits.front());
  const std::uint64_t least = FlowMove::last_in(mark);
  const auto lacks = [&](const encoding::Json& now) {
    const encoding::Json* state = now.member("state");
    const encoding::Json* held = state ? state->member("subjects") : nullptr;
    return !held || !held->member(seal()) || number_of(*state, "last_seq").value_or(0) < least;
  };
  if (lacks(**info)) {
    const auto still = still_lacks(client_, plan, **info, lacks);
    if (!still) return still.error();
    if (*still) return emptied;
  }
  watch_.watch_values(text_of(**info, "created"), least);
  return {};
}

// --- Messages ---------------------------------------------------------------------------------

std::string KeyValues::subject_of(const Key& key) const {
  std::string subject = subjects_.kv_root() + "v";
  for (const std::string& each : key) subject += "." + token(each);
  return subject;
}

std::string KeyValues::parts_of(std::string_view value_subject) const {
  return subjects_.kv_root() + "p" +
         std::string(value_subject.substr(subjects_.kv_root().size() + 1)) + ".";
}

KeyValues::Head KeyValues::head_from(StreamMessage message) const {
  Head head{.value = {.revision = {message.sequence}, .stamp = clock_.stamp_of(message)}};
  if (const std::string* whole = message.header(kKey)) {
    head.key = split_key(from_token(*whole).value_or(std::string()));
  } else {
    const std::string_view tokens =
        std::string_view(message.subject).substr(subjects_.kv_root().size() + 2);
    for (const std::string_view each : split(tokens, '.'))
      head.key.push_back(from_token(each).value_or(std::string()));
  }
  if (const std::string* lives = message.header(kValueLives))
    head.value.lives = Duration{static_cast<Duration::rep>(number_in(*lives))};
  if (const std::string* parts = message.header(kParts)) {
    const auto words = split(*parts, ' ');
    if (words.size() == 3)
      head.parts = Parts{.digest = std::string(words[0]),
                         .size = number_in(words[1]),
                         .part_size = std::max<std::uint64_t>(number_in(words[2]), 1)};
  }
  head.value.bytes = std::move(message.data);
  return head;
}

Result<Outgoing> KeyValues::message_for(const KeyWrite& item) {
  Outgoing message{.subject = subject_of(item.key), .headers = expecting(item.expected.value)};
  if (message.subject.find("==") != std::string::npos)
    message.headers.emplace_back(kKey, escaped(joined(item.key)));
  if (item.lives) message.headers.emplace_back(kValueLives, std::to_string(item.lives->count()));
  clock_.stamp(message.headers);
  if (item.bytes.size() <= mux_.max_payload() / 2) {
    message.data = item.bytes;
    return message;
  }
  const auto parts = write_parts(message.subject, item);
  if (!parts) return parts.error();
  message.headers.emplace_back(kParts, parts->digest + " " + std::to_string(parts->size) + " " +
                                           std::to_string(parts->part_size));
  return message;
}

// --- Parts ------------------------------------------------------------------------------------

// Parts that the value already has are not written again: as long as the value has that revision,
// nobody removes them.
Result<KeyValues::Parts> KeyValues::write_parts(const std::string& subject, const KeyWrite& item) {
  const Parts parts{.digest = core::hex(encoding::sha256(item.bytes)),
                    .size = item.bytes.size(),
                    .part_size = mux_.max_payload() / 2};
  auto there = client_.last(stream_, subject);
  if (!there) return there.error();
  if (*there && (*there)->sequence == item.expected.value) {
    const Head head = head_from(std::move(**there));
    if (head.parts && head.parts->digest == parts.digest) return *head.parts;
  }
  std::vector<Outgoing> messages;
  for (std::uint64_t i = 0; i < parts.count(); ++i)
    clock_.stamp(messages
                     .emplace_back(Outgoing{
                         .subject = parts_of(subject) + parts.digest + "." + std::to_string(i),
                         .data = item.bytes.substr(i * parts.part_size, parts.part_size)})
                     .headers);
  for (const PublishResult& written : client_.publish(messages))
    if (written.kind != PublishResult::Kind::stored) return failure_of(written);
  return parts;
}

Result<std::string> KeyValues::read_parts(const std::string& subject, const Parts& parts) {
  std::string bytes;
  for (std::uint64_t i = 0; i < parts.count(); ++i) {
    auto part = client_.last(stream_, parts_of(subject) + parts.digest + "." + std::to_string(i));
    if (!part) return part.error();
    if (!*part)
      return damaged_value("a part of a large value in the stream " + stream_ + " is missing");
    bytes += (*part)->data;
  }
  if (core::hex(encoding::sha256(bytes)) != parts.digest)
    return damaged_value("a large value in the stream " + stream_ + " is not what was written");
  return bytes;
}

Result<std::optional<Value>> KeyValues::whole(const std::string& subject, Head head) {
  for (int tries = 0;; ++tries) {
    if (!head.parts) return std::optional(std::move(head.value));
    auto bytes = read_parts(subject, *head.parts);
    if (bytes) {
      head.value.bytes = std::move(*bytes);
      return std::optional(std::move(head.value));
    }
    // Parts go with their value: perhaps it is another by now, or gone.
    auto now = client_.last(stream_, subject);
    if (!now) return now.error();
    if (!*now) return std::optional<Value>{};
    if ((*now)->sequence == head.value.revision.value || tries == kTries) return bytes.error();
    head = head_from(std::move(**now));
  }
}

Result<void> KeyValues::drop_parts(const std::string& subject, std::uint64_t before) {
  return purge_before(parts_of(subject) + ">", before);
}

Result<void> KeyValues::purge_before(const std::string& filter, std::uint64_t before) {
  const auto purged =
      client_.call("STREAM.PURGE." + stream_, "{\"filter\":" + json_string(filter) +
                                                  ",\"seq\":" + std::to_string(before) + "}");
  if (!purged) return purged.error();
  if (purged->error != 0) return nats::refused("clearing the stream " + stream_, *purged);
  return {};
}

Result<std::set<std::string>> KeyValues::all_parts() const {
  std::set<std::string> all;
  for (std::size_t offset = 0;;) {
    const auto info = client_.stream_info(
        stream_, "{\"subjects_filter\":" + json_string(subjects_.kv_root() + "p.>") +
                     ",\"offset\":" + std::to_string(offset) + "}");
    if (!info) return info.error();
    const encoding::Json* state = *info ? (*info)->member("state") : nullptr;
    const encoding::Json* named = state ? state->member("subjects") : nullptr;
    if (!named || named->members().empty()) return all;
    for (const auto& [subject, count] : named->members())
      all.insert(subject.substr(0, subject.rfind('.') + 1));
    offset += named->members().size();
  }
}

// A writer may be between its parts and its message: what is young stays. Parts that somebody writes again
// have higher numbers than those that were seen.
Result<void> KeyValues::drop_old_parts(const std::set<std::string>& in_use,
                                       const std::set<std::string>& there) {
  for (const std::string& parts : there) {
    if (in_use.contains(parts)) continue;
    const auto newest = client_.last(stream_, parts + "*");
    if (!newest) return newest.error();
    if (!*newest || clock_.now() < clock_.stamp_of(**newest) + kYoung) continue;
    // A replica that lags behind may have told what is in use; the leader decides.
    const std::size_t digest = parts.rfind('.', parts.size() - 2) + 1;
    const std::size_t tokens = subjects_.kv_root().size() + 1;
    const auto value = client_.last(
        stream_, subjects_.kv_root() + "v" + parts.substr(tokens, digest - 1 - tokens));
    if (!value) return value.error();
    const std::string* used = *value ? (*value)->header(kParts) : nullptr;
    if (used && used->starts_with(parts.substr(digest, parts.size() - 1 - digest))) continue;
    if (auto dropped = purge_before(parts + "*", (*newest)->sequence + 1); !dropped) return dropped;
  }
  return {};
}

// --- Values -----------------------------------------------------------------------------------

std::vector<Result<std::optional<Value>>> KeyValues::get(std::span<const Key> keys) {
  using Answer = Result<std::optional<Value>>;
  if (keys.empty()) return {};
  auto there = enter(Make::no);
  std::vector<Answer> answers(keys.size(), std::optional<Value>{});
  if (there && *there == Where::old_place) {
    FlowMove::Found found = move_.get(keys);
    answers = std::move(found.values);
    // What was moved meanwhile may be another value by now.
    if (found.sealed) there = enter(Make::no);
  }
  if (!there) return std::vector<Answer>(keys.size(), there.error());
  if (*there != Where::here) return answers;
  answers = get_here(keys);
  if (move_.may_be_late()) add_late(keys, answers);
  return answers;
}

// Values of old processes, under keys that have none here.
void KeyValues::add_late(std::span<const Key> keys,
                         std::vector<Result<std::optional<Value>>>& answers) {
  std::vector<Key> missing;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (answers[i] && !*answers[i]) {
      missing.push_back(keys[i]);
      places.push_back(i);
    }
  if (missing.empty()) return;
  FlowMove::Found found = move_.get(missing);
  if (!found.sealed) {
    for (std::size_t k = 0; k < places.size(); ++k) answers[places[k]] = std::move(found.values[k]);
    return;
  }
  // A place is sealed before its key has a value here. Some may have got one since the first look.
  auto here = get_here(missing);
  for (std::size_t k = 0; k < places.size(); ++k)
    answers[places[k]] = here[k] && !*here[k] ? std::move(found.values[k]) : std::move(here[k]);
}

std::vector<Result<std::optional<Value>>> KeyValues::get_here(std::span<const Key> keys) {
  using Answer = Result<std::optional<Value>>;
  std::vector<std::string> subjects;
  for (const Key& key : keys) subjects.push_back(subject_of(key));
  subjects.push_back(seal());
  auto found = client_.last(stream_, subjects);
  if (found.back() && !*found.back())
    return std::vector<Answer>(keys.size(), stream_emptied(subjects_, stream_));
  const StoreTime now = clock_.now();
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!found[i]) {
      answers.emplace_back(found[i].error());
      continue;
    }
    std::optional<Head> head;
    if (*found[i]) head = head_from(std::move(**found[i]));
    if (!head || head->value.expired(now))
      answers.emplace_back(std::optional<Value>{});
    else
      answers.push_back(whole(subjects[i], std::move(*head)));
  }
  return answers;
}

Result<std::optional<KeyWriteResult>> KeyValues::refused(const KeyWrite& item,
                                                         const std::string& subject,
                                                         std::uint64_t& expected) {
  auto there = client_.last(stream_, subject);
  if (!there) return there.error();
  std::optional<Head> head;
  if (*there) head = head_from(std::move(**there));
  const bool absent = !head || head->value.expired(clock_.now());
  if (!item.expected && absent) {
    expected = head ? head->value.revision.value : 0;
    return std::optional<KeyWriteResult>{};
  }
  KeyWriteResult answer;
  if (absent) return std::optional(answer);
  auto current = whole(subject, std::move(*head));
  if (!current) return current.error();
  answer.current = std::move(*current);
  return std::optional(std::move(answer));
}

std::vector<Result<KeyWriteResult>> KeyValues::write(std::span<const KeyWrite> items) {
  using Answer = Result<KeyWriteResult>;
  if (items.empty()) return {};
  if (const auto there = enter(Make::yes); !there)
    return std::vector<Answer>(items.size(), there.error());
  WriteBatch batch = messages_for(items);
  for (int tries = 0; tries < kTries && !batch.open.empty(); ++tries) send(batch);
  std::vector<Answer> result;
  for (auto& answer : batch.answers) result.push_back(answer ? std::move(*answer) : Answer(busy()));
  return result;
}

KeyValues::WriteBatch KeyValues::messages_for(std::span<const KeyWrite> items) {
  WriteBatch batch{.items = items};
  batch.answers.resize(items.size());
  batch.messages.resize(items.size());
  const auto sealed = seal_old_places(items);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!sealed[i]) {
      batch.answers[i] = sealed[i].error();
      continue;
    }
    auto message = message_for(items[i]);
    if (!message) {
      batch.answers[i] = message.error();
      continue;
    }
    batch.messages[i] = std::move(*message);
    batch.open.push_back(i);
  }
  return batch;
}

// A key without a value may have had one before somebody emptied the stream. So the seal is read in the
// same burst, here and in get().
void KeyValues::send(WriteBatch& batch) {
  std::vector<Outgoing> sent;
  for (const std::size_t i : batch.open) sent.push_back(batch.messages[i]);
  const std::vector<std::string> seals{seal()};
  const std::uint64_t last = watch_.last_value();
  const auto burst = client_.publish(sent, stream_, seals);
  const bool unsealed = burst.last.front() && !*burst.last.front();
  std::vector<std::size_t> again;
  for (std::size_t k = 0; k < batch.open.size(); ++k) {
    const std::size_t i = batch.open[k];
    const PublishResult& written = burst.published[k];
    // A number that was there before this write: the stream was restored from an older copy.
    const bool emptied = unsealed || written.sequence <= last;
    if (written.kind == PublishResult::Kind::refused)
      batch.answers[i] = answer_refused(batch.items[i], batch.messages[i]);
    else
      batch.answers[i] = answer_published(written, emptied);
    if (!batch.answers[i]) again.push_back(i);
  }
  batch.open = std::move(again);
}

Result<KeyWriteResult> KeyValues::answer_published(const PublishResult& written, bool emptied) {
  if (written.kind != PublishResult::Kind::stored) return failure_of(written);
  if (emptied) {
    static_cast<void>(client_.remove(stream_, written.sequence));
    return stream_emptied(subjects_, stream_);
  }
  watch_.note_value(written.sequence);
  return KeyWriteResult{.written = true, .revision = {written.sequence}};
}

std::optional<Result<KeyWriteResult>> KeyValues::answer_refused(const KeyWrite& item,
                                                                Outgoing& message) {
  std::uint64_t expected = 0;
  auto there = refused(item, message.subject, expected);
  if (!there) return there.error();
  if (*there) return std::move(**there);
  message.headers.front() = expecting(expected).front();
  return std::nullopt;
}

Result<bool> KeyValues::remove(const Key& key, core::Revision revision) {
  const auto there = enter(Make::no);
  if (!there) return there.error();
  if (*there != Where::here) return false;
  const std::string subject = subject_of(key);
  auto message = client_.get(stream_, revision.value);
  if (!message) return message.error();
  if (!*message || (*message)->subject != subject) return false;
  const bool parted = (*message)->header(kParts) != nullptr;
  auto removed = client_.remove(stream_, revision.value);
  if (removed && *removed && parted)
    if (auto dropped = drop_parts(subject, revision.value); !dropped) return dropped.error();
  return removed;
}

// In the order of writes, so that a value that is written during the listing comes once more at its end.
// A replica may answer and lag behind: the leader says what the last value is.
Result<KeyPage> KeyValues::list(const KeyList& query) {
  const auto there = enter(Make::no);
  if (!there) return there.error();
  KeyPage page;
  if (*there == Where::nowhere) return page;
  if (*there == Where::old_place) return move_.list(query);
  const bool first = query.after.empty() || FlowMove::is_old(query.after);
  if (first && move_.may_be_late())
    if (auto added = add_late(query, page); !added) return added.error();
  const std::string filter = subject_of(query.prefix) + ".>";
  std::uint64_t from = first ? 1 : number_in(query.after);
  for (int round = 0; round < kRoundsToFollow; ++round) {
    std::vector<StreamMessage> found;
    const auto more = client_.page(stream_, filter, from, std::min(query.limit, kValuePage), found);
    if (!more) return more.error();
    if (!found.empty()) from = found.back().sequence + 1;
    for (StreamMessage& message : found) {
      std::string subject = message.subject;
      Head head = head_from(std::move(message));
      if (head.value.expired(clock_.now()) || (query.lasting && head.value.lives)) continue;
      Key key = head.key;
      auto value = whole(subject, std::move(head));
      if (!value && value.error().code == Code::store_unusable)
        page.unreadable.emplace_back(std::move(key), value.error());
      else if (!value)
        return value.error();
      else if (*value)
        page.values.emplace_back(std::move(key), std::move(**value));
    }
    if (*more && !found.empty()) {
      page.next = std::to_string(from);
      return page;
    }
    const std::vector<std::string> ends{filter, seal()};
    const auto last = client_.last(stream_, ends);
    const auto& newest = last.front();
    if (!newest) return newest.error();
    if (last.back() && !*last.back()) return stream_emptied(subjects_, stream_);
    if (!*newest || (*newest)->sequence < from) return page;
    if (!page.values.empty() || !page.unreadable.empty()) {
      page.next = std::to_string(from);
      return page;
    }
    std::this_thread::sleep_for(kUntilReplicasFollow);
  }
  return busy();
}

Result<void> KeyValues::add_late(const KeyList& query, KeyPage& page) {
  KeyList late = query;
  do {
    auto found = move_.list(late);
    if (!found) return found.error();
    std::move(found->values.begin(), found->values.end(), std::back_inserter(page.values));
    std::move(found->unreadable.begin(), found->unreadable.end(),
              std::back_inserter(page.unreadable));
    late.after = std::move(found->next);
  } while (!late.after.empty());
  return {};
}

Result<std::uint64_t> KeyValues::remove_expired() {
  const auto there = enter(Make::no);
  if (!there) return there.error();
  if (*there != Where::here) return std::uint64_t{0};
  // Before the values, so that a value that is written meanwhile is seen with its parts.
  const auto parts = all_parts();
  if (!parts) return parts.error();
  std::set<std::string> in_use;
  std::vector<std::uint64_t> expired;
  std::vector<std::pair<std::string, std::uint64_t>> parted;
  std::uint64_t last = 0;
  const auto read =
      client_.each(stream_, subjects_.kv_root() + "v.>", 1, JetStreamClient::kToTheEnd,
                   [&](StreamMessage message) -> Result<void> {
                     last = message.sequence;
                     const std::string subject = message.subject;
                     const Head head = head_from(std::move(message));
                     if (head.parts) in_use.insert(parts_of(subject) + head.parts->digest + ".");
                     if (!head.value.expired(clock_.now())) return {};
                     expired.push_back(head.value.revision.value);
                     if (head.parts) parted.emplace_back(subject, head.value.revision.value);
                     return {};
                   });
  if (!read) return read.error();
  const auto removed = client_.remove(stream_, expired);
  if (!removed) return removed.error();
  for (const auto& [subject, revision] : parted)
    if (auto dropped = drop_parts(subject, revision); !dropped) return dropped.error();
  if (auto dropped = drop_old_parts(in_use, *parts); !dropped) return dropped.error();
  if (auto moved = move_mark(last); !moved) return moved.error();
  return *removed;
}

Result<void> KeyValues::create(const KeyWrite& item) {
  auto message = message_for(item);
  if (!message) return message.error();
  const PublishResult written = client_.publish(*message);
  if (written.kind == PublishResult::Kind::stored || written.kind == PublishResult::Kind::refused)
    return {};
  return failure_of(written);
}

std::vector<Result<void>> KeyValues::seal_old_places(std::span<const KeyWrite> items) {
  std::vector<Result<void>> answers(items.size());
  std::vector<Key> keys;
  std::vector<std::size_t> places;
  const bool late = move_.may_be_late();
  for (std::size_t i = 0; i < items.size(); ++i)
    if (FlowMove::is_old(items[i].expected) || (!items[i].expected && late)) {
      keys.push_back(items[i].key);
      places.push_back(i);
    }
  auto sealed = move_.seal_places(keys);
  for (std::size_t k = 0; k < places.size(); ++k) answers[places[k]] = std::move(sealed[k]);
  return answers;
}

// A mark that is behind only notices less, so a refusal does not matter.
Result<void> KeyValues::move_mark(std::uint64_t last) {
  const auto mark = client_.last(subjects_.meta_stream(), subjects_.meta("values"));
  if (!mark) return mark.error();
  if (!*mark || FlowMove::last_in(**mark) >= last) return {};
  Outgoing next{.subject = subjects_.meta("values"),
                .data = move_.mark_text(last),
                .headers = expecting((*mark)->sequence)};
  static_cast<void>(client_.publish(next));
  return {};
}

}  // namespace once::store::nats
