#include "power/witness.h"

#include <algorithm>

#include "codec/digest.h"

namespace once::power {
namespace {

constexpr std::size_t kPage = 500;

std::string in(const std::string& queue, const std::string& id) {
  return "'" + id + "' in " + queue + ": ";
}

}  // namespace

Duration Witness::Known::touched() const {
  Duration last = published;
  for (const auto& [queue, word] : words) last = std::max(last, word.touched);
  return last;
}

// --- Publishing -------------------------------------------------------------------------------

void Witness::asked(const Task& task) {
  auto [found, is_new] = tasks_.try_emplace(task.id);
  if (is_new) ids_.push_back(task.id);
  found->second.task = task;
  found->second.published = elapsed_;
}

bool Witness::has_receipt(const std::string& id) const { return tasks_.at(id).receipt.has_value(); }

void Witness::told(const Receipt& receipt, bool duplicate_for_sure) {
  ++receipts_;
  Known& known = tasks_.at(receipt.id);
  const std::string what =
      "the receipt of '" + receipt.id + "' #" + std::to_string(receipt.sequence) + ": ";
  const auto [owner, first] = sequences_.try_emplace(receipt.sequence, receipt.id);
  if (!first && owner->second != receipt.id)
    complain_(what + "the sequence was given to '" + owner->second + "' before");
  if (known.receipt) {
    if (known.receipt->sequence != receipt.sequence || known.receipt->digest != receipt.digest)
      complain_(what + "it was #" + std::to_string(known.receipt->sequence) + " before");
    if (!receipt.duplicate) complain_(what + "accepted once more");
  }
  if (duplicate_for_sure || receipt.duplicate) ++known.duplicates;
  if (!known.receipt) known.receipt = receipt;
}

void Witness::ages_asked(const Retention& ages) {
  told_ages_.reset();
  ages_ = {.bodies = std::min(ages_.bodies, ages.bodies),
           .records = std::min(ages_.records, ages.records),
           .ids = std::min(ages_.ids, ages.ids)};
}

bool Witness::may_be_forgotten(const std::string& id) const {
  return elapsed_ - tasks_.at(id).touched() >= ages_.bodies + ages_.records + ages_.ids;
}

// --- Running ----------------------------------------------------------------------------------

Witness::Word& Witness::word(const std::string& queue, const std::string& id) {
  Word& word = tasks_.at(id).words[queue];
  word.touched = elapsed_;
  return word;
}

void Witness::begins(const std::string& queue, const Context& context) {
  const std::string& id = context.task().id;
  if (!tasks_.contains(id)) return complain_(in(queue, id) + "runs, and nobody published it");
  if (context.token() <= last_token_)
    complain_(in(queue, id) + "token " + std::to_string(context.token()) + " was given before");
  last_token_ = std::max(last_token_, context.token());
  const Known& known = tasks_.at(id);
  if (known.receipt && known.receipt->sequence != context.sequence())
    complain_(in(queue, id) + "runs under another sequence than its receipt says");
  Word& said = word(queue, id);
  if (said.state)
    complain_(in(queue, id) + "runs again, and was " + std::string(to_string(*said.state)));
  if (context.attempt() <= said.attempt)
    complain_(in(queue, id) + "attempt " + std::to_string(context.attempt()) + " began before");
  said.attempt = context.attempt();
  said.retry_ordered = false;
}

void Witness::step_runs(const std::string& queue, const std::string& id, const std::string& step) {
  if (word(queue, id).steps.contains(step))
    complain_(in(queue, id) + "step " + step + " runs again, and was done");
}

void Witness::step_done(const std::string& queue, const std::string& id, const std::string& step) {
  word(queue, id).steps.insert(step);
}

void Witness::queue_is(const std::string& name, std::optional<bool> there) {
  if (there)
    queues_[name] = *there;
  else
    queues_.erase(name);
  // What is added anew runs everything anew.
  if (!there || !*there)
    for (auto& [id, known] : tasks_) known.words.erase(name);
}

std::optional<bool> Witness::queue_there(const std::string& name) const {
  const auto found = queues_.find(name);
  return found == queues_.end() ? std::nullopt : std::optional(found->second);
}

// --- Comparing --------------------------------------------------------------------------------

void Witness::check(store::Store& store) {
  check_log(store);
  check_queues(store);
  if (const auto ages = store.retention().value(); told_ages_ && ages != *told_ages_)
    complain_("the retention that was set is gone");
}

void Witness::check_log(store::Store& store) {
  std::map<std::string, store::Entry> log;
  core::Sequence after{};
  for (auto page = store.read(after, kPage, {}).value(); !page.empty();
       page = store.read(after, kPage, {}).value()) {
    after = page.back().sequence;
    for (store::Entry& entry : page) {
      std::string id = entry.id;
      if (!log.try_emplace(id, std::move(entry)).second) complain_("'" + id + "' is there twice");
    }
  }
  for (const auto& [id, known] : tasks_) {
    if (!known.receipt) continue;
    const std::string what =
        "the receipt of '" + id + "' #" + std::to_string(known.receipt->sequence) + ": ";
    const auto found = log.find(id);
    if (found == log.end()) {
      if (!may_be_forgotten(id)) complain_(what + "lost");
      continue;
    }
    const store::Entry& entry = found->second;
    if (entry.sequence.value != known.receipt->sequence)
      complain_(what + "it is #" + std::to_string(entry.sequence.value) + " now");
    if (encoding::text(entry.digest) != known.receipt->digest) complain_(what + "another digest");
    if (entry.body && *entry.body != known.task.body) complain_(what + "another body");
    if (entry.duplicates < known.duplicates) complain_(what + "a duplicate is not counted");
  }
}

void Witness::check_queues(store::Store& store) {
  std::set<std::string> there;
  for (const Queue& queue : store.queues().value()) there.insert(queue.name);
  for (const auto& [name, expected] : queues_) {
    if (there.contains(name) != expected)
      complain_("queue " + name +
                (expected ? " was added and is gone" : " was removed and is there"));
  }
  for (const std::string& name : there) {
    check_rows(store, name);
    queue_is(name, true);
  }
}

std::vector<store::Row> Witness::rows(store::Store& store, const std::string& queue) {
  std::vector<store::Row> all;
  while (true) {
    const store::Row after = all.empty() ? store::Row{} : all.back();
    auto page = store.rows({.queue = queue}, all.empty() ? nullptr : &after, kPage).value();
    for (store::Row& row : page.rows) all.push_back(std::move(row));
    if (!page.more) return all;
  }
}

void Witness::check_rows(store::Store& store, const std::string& queue) {
  std::map<State, std::uint64_t> counted;
  std::map<std::string, store::Row> by_id;
  for (store::Row& row : rows(store, queue)) {
    ++counted[store::state_of(row, store.now())];
    std::string id = row.entry.id;
    by_id.try_emplace(std::move(id), std::move(row));
  }
  // Of the others, retention takes rows and leaves the count.
  const auto counts = store.counts(queue).value().tasks;
  for (const State state : {State::scheduled, State::waiting, State::running, State::retrying,
                            State::in_doubt, State::dead})
    if (counts.at(state) != counted[state])
      complain_(queue + " counts " + std::to_string(counts.at(state)) + " " +
                std::string(to_string(state)) + ", and there are " +
                std::to_string(counted[state]));
  for (const auto& [id, known] : tasks_) {
    const auto said = known.words.find(queue);
    if (said == known.words.end()) continue;
    const auto row = by_id.find(id);
    if (row != by_id.end() && row->second.stored)
      check_row(queue, id, said->second, row->second);
    else if (elapsed_ - known.touched() < ages_.bodies + ages_.records && said->second.attempt > 0)
      complain_(in(queue, id) + "ran, and has no record");
  }
}

void Witness::check_row(const std::string& queue, const std::string& id, const Word& word,
                        const store::Row& row) {
  const core::Record& record = row.stored->record;
  const std::string now = std::string(to_string(record.state)) + " now";
  if (word.state && *word.state != record.state)
    complain_(in(queue, id) + "was " + std::string(to_string(*word.state)) + " and is " + now);
  if (word.state == State::completed && record.result && record.result->text() != word.result)
    complain_(in(queue, id) + "has another result");
  if (static_cast<int>(record.claims) < word.attempt)
    complain_(in(queue, id) + "attempt " + std::to_string(word.attempt) + " began, and is " + now +
              " without it");
  for (const core::Attempt& attempt : record.attempts) {
    const auto ended = word.ended.find(static_cast<int>(attempt.number));
    if (ended != word.ended.end() && ended->second != to_string(attempt.ending))
      complain_(in(queue, id) + "attempt " + std::to_string(attempt.number) + " ended as " +
                ended->second + ", and is " + std::string(to_string(attempt.ending)));
  }
  for (const std::string& step : word.steps) {
    const core::Step* const found = core::find_step(record, step);
    if (!found || found->state != core::Step::State::done)
      complain_(in(queue, id) + "step " + step + " was done");
  }
  if (word.retry_ordered && !row.order && static_cast<int>(record.claims) <= word.attempt)
    complain_(in(queue, id) + "the order to run it again is lost");
}

void Witness::check_settled(store::Store& store, const std::string& queue) {
  std::map<std::string, State> states;
  for (const store::Row& row : rows(store, queue))
    states[row.entry.id] = store::state_of(row, store.now());
  for (const auto& [id, known] : tasks_) {
    if (!known.receipt) continue;
    const auto found = states.find(id);
    const bool well =
        found == states.end()
            ? may_be_forgotten(id) || elapsed_ - known.touched() >= ages_.bodies + ages_.records
            : core::settled(found->second);
    if (!well) complain_(in(queue, id) + "is not settled in the end");
  }
}

}  // namespace once::power
