// What people do to tasks: retry, complete, drop, cancel.
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "api/zone_state.h"
#include "codec/digest.h"
#include "codec/key_template.h"
#include "codec/step_headers.h"
#include "core/names.h"
#include "flow/run_store.h"
#include "json/json.h"
#include "work/task_row.h"

namespace once::inline v1 {

std::string this_person() {
  passwd user{};
  passwd* found = nullptr;  // null: nobody has this number
  std::array<char, 16384> texts{};
  getpwuid_r(geteuid(), &user, texts.data(), texts.size(), &found);
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return (found ? std::string(found->pw_name) : std::to_string(geteuid())) + "@" + host;
}

namespace {

std::string named(std::string_view id, std::string_view queue) {
  return "task '" + std::string(id) + "' in queue '" + std::string(queue) + "'";
}

Error wrong_state(std::string_view id, std::string_view queue, State state, std::string_view can) {
  return {.code = Code::wrong_state,
          .message = named(id, queue) + " is " + std::string(to_string(state)) +
                     "; nothing was changed: " + std::string(can)};
}

constexpr std::string_view kCanRetry = "only a dead or in-doubt task can be retried";
constexpr std::string_view kCanComplete = "only an in-doubt task can be completed by hand";
constexpr std::string_view kCanDrop =
    "only a dead or in-doubt task can be dropped; an unsettled one can be cancelled";
constexpr std::string_view kCanCancel =
    "only an unsettled or in-doubt task can be cancelled; a dead one can be dropped";

// One task in one queue, as somebody is about to change it.
struct Target {
  Queue queue{};
  store::Row row{};
  State state{};
};

class Control {
 public:
  Control(detail::ZoneState& zone, std::string_view act, std::string_view id,
          std::string_view queue, const By& by, const ActOptions& options)
      : zone_(zone),
        id_(id),
        queue_(queue),
        who_(by.who.empty() ? this_person() : by.who),
        why_(by.why),
        seen_(options.claims),
        nonce_(nonce_for(act, options.idempotency_key)) {}

  Result<Target> find() const {
    auto queue = zone_.queue(queue_);
    if (!queue) return queue.error();
    Target target{.queue = std::move(*queue)};
    if (target.queue.ledger)
      if (auto ok = detail::ZoneState::not_own(queue_, "nothing was changed"); !ok)
        return ok.error();
    auto found = target.queue.ledger ? ledger_row(target.queue) : task_row(target.queue);
    if (!found) return found.error();
    target.row = std::move(*found);
    target.state = store::state_of(target.row, zone_.store->now());
    return target;
  }

  const core::Nonce& nonce() const { return nonce_; }
  const std::optional<std::uint32_t>& seen() const { return seen_; }

  Result<engine::WriteResult> write(const Target& target, core::Command command) const {
    engine::LedgerWriter writer(*zone_.store, core::policy_of(target.queue));
    return writer.write({.at = engine::address_of(target.row),
                         .known = target.row.stored,
                         .command = std::move(command)});
  }

  // A direct write that must end in `wanted`.
  Result<void> change(const Target& target, core::Command command, core::Verdict wanted,
                      std::string_view can) const {
    if (target.row.order && target.state == State::waiting)
      return wrong_state(id_, queue_, target.state,
                         "it is to be run again, and waits for a worker; it can be cancelled");
    auto written = write(target, std::move(command));
    if (!written) return written.error();
    if (written->decision.verdict == core::Verdict::wrong_state && claimed_since(written->stored))
      return stale(written->stored);
    const core::Verdict verdict = written->decision.verdict;
    if (verdict == wanted || verdict == core::Verdict::already_done) return {};
    return wrong_state(id_, queue_, written->stored ? written->stored->record.state : target.state,
                       can);
  }

  // Asking is one durable write, which brings the order to whatever worker comes.
  Result<void> order(core::Order order) const {
    auto target = find();
    if (!target) return target.error();
    if (engine::has_order(target->row, nonce_, zone_.store->now())) return {};
    if (claimed_since(target->row.stored)) return stale(target->row.stored);
    if (target->state != State::dead && target->state != State::in_doubt)
      return wrong_state(
          id_, queue_, target->state,
          target->row.order ? "it was asked for already, and waits for a worker" : kCanRetry);
    if (target->row.own)
      return Error{.code = Code::wrong_state,
                   .message = named(id_, queue_) +
                              " can't be retried: " + target->row.stored->record.reason +
                              ". Publish it anew under an id and key of its own, or drop it."};
    if (auto heard = check_run(*target); !heard) return heard;
    if (order.kind == core::Order::Kind::complete_step) {
      if (auto known = check_step(*target, order.step); !known) return known;
      if (auto fits = core::check_result(target->queue, order.result); !fits) return fits;
    }
    order.nonce = nonce_;
    order.claims = target->row.stored->record.claims;
    order.at = zone_.store->wall();
    order.by = who_;
    order.why = why_;
    if (target->queue.ledger)
      return change(*target, core::Retry{.order = std::move(order)}, core::Verdict::released,
                    kCanRetry);
    const store::Wake wake{.sequence = target->row.entry.sequence, .order = std::move(order)};
    if (auto woken = zone_.store->wake(target->queue.name, std::span(&wake, 1)); !woken)
      return woken.error();
    return taken(wake.order->nonce);
  }

  // Of two who ask at once one is heard: it waits, or has been carried out.
  Result<void> taken(const core::Nonce& mine) const {
    auto target = find();
    if (!target) return target.error();
    if (engine::has_order(target->row, mine, zone_.store->now())) return {};
    return wrong_state(id_, queue_, target->state, "somebody else was faster");
  }

  Result<State> cancel() const {
    while (true) {
      auto state = try_cancel();
      // A worker came to it between the look and the write.
      if (state || state.error().code != Code::wrong_state || !state.error().retryable)
        return state;
    }
  }

  Result<State> try_cancel() const {
    auto target = find();
    if (!target) return target.error();
    auto written = engine::cancel(*zone_.store, *zone_.scheduler, target->queue, target->row, who_,
                                  why_, nonce_, seen_);
    if (!written) return written.error();
    if (written->decision.verdict == core::Verdict::wrong_state && claimed_since(written->stored))
      return stale(written->stored);
    const State state = written->stored ? written->stored->record.state : target->state;
    if (written->decision.verdict == core::Verdict::wrong_state)
      return wrong_state(id_, queue_, state, kCanCancel);
    return state;
  }

  const std::string& who() const { return who_; }
  const std::string& why() const { return why_; }

 private:
  // The same act with the same key has the same nonce, by which the story knows it again.
  core::Nonce nonce_for(std::string_view act, const std::string& key) const {
    core::Nonce nonce;
    if (key.empty()) {
      zone_.scheduler->random_bytes(nonce.bytes.data(), nonce.bytes.size());
      return nonce;
    }
    std::string text;
    for (const std::string_view part : {act, queue_, id_, std::string_view(key)})
      text += std::to_string(part.size()) + ':' + std::string(part);
    return encoding::nonce_of(encoding::sha256(text));
  }

  static std::uint32_t claims_of(const std::optional<core::Stored>& stored) {
    return stored ? stored->record.claims : 0;
  }
  bool claimed_since(const std::optional<core::Stored>& stored) const {
    return seen_ && *seen_ != claims_of(stored);
  }
  Error stale(const std::optional<core::Stored>& stored) const {
    return {.code = Code::wrong_state,
            .message = named(id_, queue_) + " has been claimed " +
                       std::to_string(claims_of(stored)) + " times, and not " +
                       std::to_string(*seen_) +
                       " as the caller saw; nothing was changed: look at it again"};
  }

  Result<store::Row> ledger_row(const Queue& queue) const {
    const store::Address at{.queue = queue.name, .key = std::string(id_)};
    auto stored = std::move(zone_.store->get(std::span(&at, 1)).front());
    if (!stored) return stored.error();
    if (!*stored)
      return Error{.code = Code::not_found,
                   .message = "queue '" + queue.name + "' knows no key '" + std::string(id_) + "'"};
    store::Row row;
    row.queue = queue.name;
    row.key = id_;
    row.stored = std::move(*stored);
    return row;
  }

  Result<store::Row> task_row(const Queue& queue) const {
    if (!queue.stream.empty()) {
      auto row = zone_.foreign_row(id_, queue, true);
      if (!row) return row.error();
      if (*row) return std::move(**row);
      return Error{.code = Code::not_found,
                   .message = "queue '" + queue.name + "' knows no task '" + std::string(id_) +
                              "': name it " + queue.stream + ":SEQUENCE or by its key"};
    }
    auto entry = zone_.store->find(id_);
    if (!entry) return entry.error();
    if (!*entry)
      return Error{.code = Code::not_found,
                   .message = "no task has the id '" + std::string(id_) + "'"};
    auto row = engine::row_of(*zone_.store, **entry, queue);
    if (!row) return row.error();
    if (!*row)
      return Error{.code = Code::not_found,
                   .message = "queue '" + queue.name + "' does not have the task '" +
                              std::string(id_) + "'"};
    return std::move(**row);
  }

  // The step of a run that is over for good has no one to hear how it ended.
  Result<void> check_run(const Target& target) const {
    if (!target.queue.stream.empty()) return {};
    const auto step = encoding::read_step(target.row.entry.headers, target.queue.name);
    if (!step) return {};
    const auto run = engine::RunStore(*zone_.store, *zone_.scheduler).run(step->run);
    if (!run) return run.error();
    const core::EndFact* const end = *run ? core::end_of((*run)->state) : nullptr;
    if (*run && (end == nullptr || core::failed((*run)->state))) return {};
    const std::string how = *run ? std::string(to_string(end->outcome)) : "forgotten";
    return Error{.code = Code::wrong_state,
                 .message = named(id_, queue_) + " is a step of run '" + step->run +
                            "', which is " + how +
                            ": the run would not hear of it; nothing was changed. It can be "
                            "dropped"};
  }

  Result<void> check_step(const Target& target, std::string_view name) const {
    const core::Record& record = target.row.stored->record;
    const core::Step* step = core::find_step(record, name);
    if (step && core::cut_off(record, *step)) return {};
    return Error{.code = step ? Code::wrong_state : Code::not_found,
                 .message = named(id_, queue_) + (step ? ": step '" : " has no step '") +
                            std::string(name) + (step ? "' is not in doubt" : "'") +
                            "; nothing was changed",
                 .reason = Reason::no_step_in_doubt,
                 .facts = {{"task", std::string(id_)},
                           {"queue", std::string(queue_)},
                           {"step", std::string(name)}}};
  }

  detail::ZoneState& zone_;
  const std::string_view id_;
  const std::string_view queue_;
  const std::string who_;
  const std::string why_;
  const std::optional<std::uint32_t> seen_;
  const core::Nonce nonce_;
};

}  // namespace

Result<void> Tasks::retry(std::string_view id, std::string_view queue, const By& by,
                          const ActOptions& options) {
  return Control(*state_, "retry", id, queue, by, options)
      .order({.kind = core::Order::Kind::retry});
}

// What a program that asks for the step is to be told: a JSON string as it is, nothing for null.
Result<void> Tasks::complete_step(std::string_view id, std::string_view queue,
                                  std::string_view step, Body result, const By& by,
                                  const ActOptions& options) {
  if (result.is_json()) {
    const auto json = encoding::parse_json(result.text());
    if (json && json->kind() == encoding::Json::Kind::string)
      result = Body::bytes(json->string());
    else if (json && json->kind() == encoding::Json::Kind::null)
      result = Body::bytes({});
  }
  return Control(*state_, "complete_step " + std::string(step), id, queue, by, options)
      .order({.kind = core::Order::Kind::complete_step,
              .step = std::string(step),
              .result = std::move(result)});
}

Result<void> Tasks::complete(std::string_view id, std::string_view queue, Body result, const By& by,
                             const ActOptions& options) {
  const Control control(*state_, "complete", id, queue, by, options);
  auto target = control.find();
  if (!target) return target.error();
  if (auto fits = core::check_result(target->queue, result); !fits) return fits;
  return control.change(*target,
                        core::Resolve{.nonce = control.nonce(),
                                      .result = std::move(result),
                                      .by = control.who(),
                                      .why = control.why(),
                                      .claims = control.seen()},
                        core::Verdict::completed, kCanComplete);
}

Result<void> Tasks::drop(std::string_view id, std::string_view queue, const By& by,
                         const ActOptions& options) {
  const Control control(*state_, "drop", id, queue, by, options);
  auto target = control.find();
  if (!target) return target.error();
  return control.change(*target,
                        core::Drop{.nonce = control.nonce(),
                                   .by = control.who(),
                                   .why = control.why(),
                                   .claims = control.seen()},
                        core::Verdict::cancelled, kCanDrop);
}

Result<State> Tasks::cancel(std::string_view id, std::string_view queue, const By& by,
                            const ActOptions& options) {
  return Control(*state_, "cancel", id, queue, by, options).cancel();
}

}  // namespace once::inline v1
