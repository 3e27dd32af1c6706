#include "store/nats/log/appender.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/names.h"

namespace once::store::nats {

using core::AppendVerdict;

// The entry that the log has under an item's id: the item itself, or an earlier one.
struct AppendOutcome {
  AppendVerdict verdict{};
  Sequence sequence{};
  Digest digest{};
  Nonce nonce{};
  std::string topic{};
};

namespace {

using std::chrono::steady_clock;

constexpr std::size_t kWorthABatch = 4;  // fewer go one by one
constexpr int kAppendRounds = 6;         // of sending what is unknown or met something that is gone
constexpr std::chrono::milliseconds kBetweenAppends{50};

AppendOutcome accepted(const Append& item, std::uint64_t sequence) {
  return {.verdict = AppendVerdict::accepted,
          .sequence = {sequence},
          .digest = item.digest,
          .nonce = item.nonce,
          .topic = item.topic};
}

// once . zone . log|sys|old . id . rest
std::string id_token(std::string_view subject) {
  for (int i = 0; i < 3; ++i) subject.remove_prefix(subject.find('.') + 1);
  return std::string(subject.substr(0, subject.find('.')));
}

bool routed(const std::vector<KnownQueue>& queues, std::string_view topic) {
  return std::any_of(queues.begin(), queues.end(), [&](const KnownQueue& queue) {
    return !queue.definition.ledger && !queue.foreign() &&
           core::matches(queue.definition.topic, topic);
  });
}

Error entry_too_large(std::size_t size, std::size_t most) {
  return {.code = Code::too_large,
          .message = "the task has " + std::to_string(size) +
                     " bytes with its headers; this NATS server takes at most " +
                     std::to_string(most) + " (max_payload); nothing was added"};
}

}  // namespace

// The steps are in the order of run().
class Appender::Call {
 public:
  Call(Appender& appender, std::span<const Append> items)
      : appender_(appender), zone_(appender.zone_), items_(items), outcomes_(items.size()) {}

  std::vector<Result<AppendResult>> run() {
    // If an id occurs more than once in `items`, only the first is sent. meet_the_first() judges
    // the others.
    for (std::size_t i = 0; i < items_.size(); ++i)
      if (firsts_.try_emplace(items_[i].id, i).second) open_.push_back(i);
    // Asks for the queues now and reads the reply later, so that this shares the appends' round
    // trip.
    auto asked = appender_.registry_.begin_hint();
    const std::size_t singly = send_together();
    const auto deadline = steady_clock::now() + 2 * zone_.client.patience();
    for (int round = 0; round < kAppendRounds && !open_.empty() && steady_clock::now() < deadline;
         ++round) {
      if (round > 0) std::this_thread::sleep_for(kBetweenAppends);
      send_singly(round == 0 && singly > 0);
    }
    meet_the_first();
    const auto uncounted = appender_.log_.count_duplicates(duplicates_);
    auto queues = appender_.registry_.end_hint(std::move(asked));
    if (!queues)  // ask again: there may be a connection by now
      queues = appender_.registry_.end_hint(appender_.registry_.begin_hint());
    std::vector<Result<AppendResult>> answers;
    answers.reserve(items_.size());
    for (std::size_t i = 0; i < items_.size(); ++i)
      answers.push_back(answer_of(i, uncounted, queues));
    return answers;
  }

 private:
  std::size_t send_together();
  void send_singly(bool timed);
  void note_stored(std::size_t i, std::uint64_t sequence);
  void heard(std::size_t i, const PublishResult& published);
  void refused(std::size_t i, Result<std::optional<StreamMessage>> in_the_way);
  // If the outcome of one round is unknown, a refusal in a later round does not settle it.
  Error failed(std::size_t i, Error error) const {
    if (unknown_.contains(i) && !error.in_doubt) error = failure_of({.text = error.message});
    return error;
  }
  void meet_the_first();
  Result<AppendResult> answer_of(std::size_t i, const std::map<std::string_view, Error>& uncounted,
                                 const Result<std::vector<KnownQueue>>& queues) const;

  Appender& appender_;
  ZoneConnection& zone_;
  const std::span<const Append> items_;
  std::vector<std::optional<Result<AppendOutcome>>> outcomes_;
  std::map<std::string_view, std::size_t> firsts_;  // by id
  std::vector<std::size_t> open_;                   // to be sent
  std::set<std::size_t> unknown_;                   // may be stored
  std::map<std::string_view, std::uint64_t> duplicates_;
};

// Sends some items in atomic batches. Returns how many items go one by one.
std::size_t Appender::Call::send_together() {
  const std::size_t singly = appender_.choice_.singly(open_.size());
  if (singly >= open_.size()) return singly;
  const auto begun = steady_clock::now();
  const auto together = appender_.append_together(items_, std::span(open_).subspan(singly));
  appender_.choice_.took(true, open_.size() - singly, steady_clock::now() - begun);
  unknown_ = together.unknown;
  for (const auto& [i, sequence] : together.stored) note_stored(i, sequence);
  std::erase_if(open_, [&](std::size_t i) { return together.stored.contains(i); });
  return singly;
}

void Appender::Call::send_singly(bool timed) {
  const std::size_t most = zone_.mux->max_payload();
  std::vector<Outgoing> messages;
  std::vector<std::size_t> sent;
  for (const std::size_t i : std::exchange(open_, {})) {
    Outgoing message = appender_.message_of(items_[i]);
    if (const std::size_t size = size_of(message); size > most) {
      outcomes_[i] = entry_too_large(size, most);
      continue;
    }
    messages.push_back(std::move(message));
    sent.push_back(i);
  }
  const auto begun = steady_clock::now();
  const auto published = zone_.client.publish(messages);
  if (timed) appender_.choice_.took(false, sent.size(), steady_clock::now() - begun);
  std::vector<std::uint64_t> others;
  for (const PublishResult& each : published)
    if (each.kind == PublishResult::Kind::refused) others.push_back(each.sequence);
  auto in_the_way = zone_.client.get(zone_.subjects.log_stream(), others);
  auto next = in_the_way.begin();
  for (std::size_t k = 0; k < sent.size(); ++k) {
    if (published[k].kind == PublishResult::Kind::refused)
      refused(sent[k], std::move(*next++));
    else
      heard(sent[k], published[k]);
  }
}

void Appender::Call::note_stored(std::size_t i, std::uint64_t sequence) {
  appender_.watch_.note_task(sequence);
  outcomes_[i] = accepted(items_[i], sequence);
}

void Appender::Call::heard(std::size_t i, const PublishResult& published) {
  if (published.kind == PublishResult::Kind::stored) {
    note_stored(i, published.sequence);
  } else if (published.kind == PublishResult::Kind::failed) {
    outcomes_[i] = failed(i, failure_of(published));
  } else {  // unknown: the next round sends the same message again, which finds out
    unknown_.insert(i);
    outcomes_[i] = failure_of(published);
    open_.push_back(i);
  }
}

void Appender::Call::refused(std::size_t i, Result<std::optional<StreamMessage>> in_the_way) {
  auto there = appender_.log_.entry_of(std::move(in_the_way));
  if (!there) {
    outcomes_[i] = failed(i, there.error());
  } else if (!*there) {  // retired or forgotten since: send again
    open_.push_back(i);
  } else {
    LogEntry& entry = **there;
    outcomes_[i] = AppendOutcome{.verdict = core::judge_append(items_[i].nonce, items_[i].digest,
                                                               entry.nonce, entry.entry.digest),
                                 .sequence = entry.entry.sequence,
                                 .digest = entry.entry.digest,
                                 .nonce = entry.nonce,
                                 .topic = std::move(entry.entry.topic)};
  }
}

void Appender::Call::meet_the_first() {
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const std::size_t first = firsts_.at(items_[i].id);
    if (i != first) outcomes_[i] = outcomes_[first];
    if (!outcomes_[i] || !*outcomes_[i]) continue;
    AppendOutcome& outcome = **outcomes_[i];
    if (i != first)
      outcome.verdict =
          core::judge_append(items_[i].nonce, items_[i].digest, outcome.nonce, outcome.digest);
    if (outcome.verdict == AppendVerdict::duplicate) ++duplicates_[items_[i].id];
  }
}

Result<AppendResult> Appender::Call::answer_of(
    std::size_t i, const std::map<std::string_view, Error>& uncounted,
    const Result<std::vector<KnownQueue>>& queues) const {
  if (!outcomes_[i]) return failure_of({});
  if (!*outcomes_[i]) return outcomes_[i]->error();
  const AppendOutcome& found = **outcomes_[i];
  if (found.verdict == AppendVerdict::duplicate)
    if (const auto error = uncounted.find(items_[i].id); error != uncounted.end())
      return error->second;
  // The task is in the log, but it is unknown whether a queue takes it. The caller appends again.
  if (!queues) return failure_of({.text = queues.error().message});
  return AppendResult{.verdict = found.verdict,
                      .sequence = found.sequence,
                      .digest = found.digest,
                      .unrouted = !routed(*queues, found.topic)};
}

std::vector<Result<AppendResult>> Appender::append(std::span<const Append> items) {
  if (items.empty()) return {};
  if (auto may = watch_.may_begin(); !may)
    return std::vector<Result<AppendResult>>(items.size(), may.error());
  return Call(*this, items).run();
}

Outgoing Appender::message_of(const Append& item) const {
  Outgoing message = task_message(zone_.subjects, item);
  zone_.clock.stamp(message.headers);
  return message;
}

std::optional<bool> Appender::leave_out_known(std::span<const Append> items,
                                              std::vector<std::size_t>& batch) const {
  std::vector<std::string> filters;
  for (const std::size_t i : batch) filters.push_back(zone_.subjects.all_of(items[i].id));
  const auto there = zone_.client.last_of_each(zone_.subjects.log_stream(), filters);
  if (!there) return std::nullopt;
  std::set<std::string> ids;
  for (const auto& [subject, message] : *there) ids.insert(id_token(subject));
  std::erase_if(batch, [&](std::size_t i) { return ids.contains(token(items[i].id)); });
  return !ids.empty();
}

std::vector<Outgoing> Appender::messages_of(std::span<const Append> items,
                                            std::vector<std::size_t>& batch) const {
  const std::size_t most = zone_.mux->max_payload();
  std::vector<Outgoing> messages;
  std::erase_if(batch, [&](std::size_t i) {
    Outgoing message = message_of(items[i]);
    if (size_of(message) + JetStreamClient::kBatchHeaders > most) return true;
    messages.push_back(std::move(message));
    return false;
  });
  return messages;
}

// The server stores all of a batch or nothing. It refuses the batch if one of the ids is in the
// log.
bool Appender::append_batch(std::span<const Append> items, std::vector<std::size_t> batch,
                            bool look_first, Together& together) const {
  bool met = false;
  for (int round = 0; round < 2 && !batch.empty(); ++round) {
    if (look_first || round > 0) {
      const auto known = leave_out_known(items, batch);
      if (!known) break;
      met = met || *known;
    }
    auto messages = messages_of(items, batch);
    if (batch.size() < kWorthABatch) break;
    const PublishResult published = zone_.client.publish_together(std::move(messages));
    if (published.kind == PublishResult::Kind::refused) {
      met = true;
      continue;
    }
    if (published.kind == PublishResult::Kind::stored)
      for (std::size_t k = 0; k < batch.size(); ++k)
        together.stored[batch[k]] = published.sequence - batch.size() + 1 + k;
    if (published.kind == PublishResult::Kind::unknown)
      together.unknown.insert(batch.begin(), batch.end());
    break;
  }
  return met;
}

// The caller then sends each item that was not stored, or that may have been stored, one by one. An
// id is in at most one batch at a time.
Appender::Together Appender::append_together(std::span<const Append> items,
                                             std::span<const std::size_t> open) {
  Together together;
  std::vector<std::size_t> mine;
  bool look_first = false;
  {
    const std::lock_guard lock(mutex_);
    look_first = met_duplicates_;
    for (const std::size_t i : open)
      if (in_batches_.insert(items[i].id).second) mine.push_back(i);
  }
  bool met = false;
  for (std::size_t first = 0; first < mine.size(); first += JetStreamClient::kMostInBatch) {
    const auto some = std::span(mine).subspan(first);
    const auto these = some.first(std::min(some.size(), JetStreamClient::kMostInBatch));
    met = append_batch(items, {these.begin(), these.end()}, look_first, together) || met;
  }
  const std::lock_guard lock(mutex_);
  // A batch with an unknown outcome may still be in progress. Its ids stay in in_batches_, so from
  // now on they are sent one by one.
  for (const std::size_t i : mine)
    if (!together.unknown.contains(i)) in_batches_.erase(items[i].id);
  if (!mine.empty()) met_duplicates_ = met;
  return together;
}

}  // namespace once::store::nats
