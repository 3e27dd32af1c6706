#include "power/life.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <random>
#include <stdexcept>
#include <utility>

#include "power/machine.h"
#include "power/witness.h"
#include "support/temp_folder.h"
#include "work/housekeeper.h"

namespace once::power {
namespace {

using namespace std::chrono_literals;

// From opening the zone to the cut. The farthest is some twenty commits away, and with them some
// checkpoints.
constexpr std::uint64_t kFarthestCut = 500;
constexpr std::uint64_t kNearCut = 40;
const By kBy{.who = "ann", .why = "she looked"};

Queue queue_of(const std::string& name) {
  Queue queue{.name = name, .topic = ">", .attempts = 4, .backoff = {1s, 2s}};
  if (name == "steps") {
    queue.topic = "orders.*";
    queue.in_doubt = InDoubt::steps;
  }
  if (name == "keyed") {
    queue.topic = "orders.new";
    queue.key = "{n}";
    queue.max_running = 2;
  }
  return queue;
}

class Life {
 public:
  explicit Life(const LifeOptions& options)
      : options_(options),
        random_(options.seed),
        witness_([this](std::string what) { complain(std::move(what)); }) {}

  LifeStory run() {
    for (cut_ = 1; cut_ <= options_.cuts && story_.wrong.empty(); ++cut_) {
      use_until_the_power_fails();
      look_at_what_is_left();
    }
    if (story_.wrong.empty()) finish();
    story_.receipts = witness_.receipts();
    story_.completions = witness_.completions();
    return std::move(story_);
  }

 private:
  using Action = void (Life::*)();

  void complain(std::string what) {
    story_.wrong.push_back(std::move(what) + " [life " + std::to_string(options_.seed) + ", cut " +
                           std::to_string(cut_) + " in " + where_ + "]");
  }
  bool chance(int percent) { return static_cast<int>(random_() % 100) < percent; }
  std::uint64_t pick(std::uint64_t count) { return random_() % count; }

  // --- Power ---------------------------------------------------------------------------------

  MachineOptions next_boot(std::uint64_t cut_at, bool passes_log_writes = false) {
    return {.disk = {.seed = random_(),
                     .cut_at = cut_at,
                     .passes_log_writes = passes_log_writes,
                     .ignores_syncs = options_.ignores_syncs},
            .synchronous = options_.synchronous,
            .boot_id = "boot " + std::to_string(++boots_)};
  }

  void use_until_the_power_fails() {
    // Files that were never synced may be gone as well.
    if (chance(20)) std::filesystem::remove(folder_ / "zone.db-lock");
    if (chance(20)) std::filesystem::remove(folder_ / "zone.db-members");
    const bool passes_log_writes = chance(40);
    const std::uint64_t farthest = passes_log_writes || chance(20) ? kNearCut : kFarthestCut;
    Machine machine(folder_.path(), image_, next_boot(1 + pick(farthest), passes_log_writes));
    machine_ = &machine;
    where_ = "nothing yet";
    if (succeeded(machine.open(), "opening")) use();
    workers_.clear();
    machine.close();
    if (!machine.disk().off()) machine.disk().cut();  // after everything was closed
    machine_ = nullptr;
    where_ = machine.disk().cut_in() + ", operation " + std::to_string(machine.disk().operations());
    ++story_.cuts[machine.disk().cut_in()];
    image_ = machine.disk().survived();
  }

  // On a copy of what is left, with the power on: it opens, and everything that was told is so.
  void look_at_what_is_left() {
    Machine machine(folder_.path(), image_, next_boot(0));
    if (const std::string integrity = machine.integrity(); integrity != "ok")
      return complain("SQLite says: " + integrity);
    if (const auto opened = machine.open(); !opened)
      return complain("the zone does not open: " + opened.error().message);
    try {
      witness_.check(machine.store());
    } catch (const Failure& failure) {
      complain(std::string("the zone cannot be read: ") + failure.what());
    }
  }

  // The power stays on, and everything runs to its end.
  void finish() {
    Machine machine(folder_.path(), image_, next_boot(0));
    machine_ = &machine;
    where_ = "nothing, at the end";
    ending_ = true;
    if (succeeded(machine.open(), "opening")) {
      for (int round = 0; round < 20; ++round) {
        for (const Queue& queue : machine.zone().queues().list().value())
          while (run_in(queue.name)) {
          }
        machine.pass(10min);
        witness_.pass(10min);
      }
      witness_.check(machine.store());
      if (witness_.queue_there("work").value_or(false))
        witness_.check_settled(machine.store(), "work");
    }
    workers_.clear();
    machine_ = nullptr;
  }

  // --- Use -----------------------------------------------------------------------------------

  Zone& zone() { return machine_->zone(); }
  bool on() const { return !machine_->disk().off(); }
  // True: done. An error without the power failing, or trouble of the disk's, is wrong.
  template <class T>
  bool succeeded(const Result<T>& result, const std::string& what) {
    if (result) return true;
    if (on() && !trouble_) complain(what + " fails: " + result.error().message);
    return false;
  }

  void use() {
    set_up();
    static constexpr std::pair<int, Action> kActions[] = {
        {14, &Life::publish_one},    {8, &Life::publish_many}, {8, &Life::publish_again},
        {3, &Life::publish_another}, {24, &Life::run_some},    {4, &Life::order_retry},
        {3, &Life::order_end},       {3, &Life::cancel},       {6, &Life::wait_a_moment},
        {3, &Life::wait_long},       {4, &Life::retire},       {3, &Life::sweep},
        {3, &Life::change_queues},   {4, &Life::restart},      {4, &Life::meet_trouble},
        {2, &Life::set_ages}};
    int weights = 0;
    for (const auto& [weight, action] : kActions) weights += weight;
    while (on() && story_.wrong.empty()) {
      auto dice = static_cast<int>(pick(static_cast<std::uint64_t>(weights)));
      const auto* chosen = std::begin(kActions);
      while ((dice -= chosen->first) >= 0) ++chosen;
      (this->*chosen->second)();
    }
  }

  void set_up() {
    // Checkpoints are for logs of megabytes, and a full disk is a reason to make more of them.
    machine_->disk().fill_up();
    meet(&Life::publish_one);
    for (const std::string name : {"work", "steps"})
      if (on() && !witness_.queue_there(name).value_or(false)) add(name);
  }

  // --- Publishing ------------------------------------------------------------------------------

  Task new_task() {
    static constexpr const char* kTopics[] = {"orders.new", "orders.old", "mail"};
    Task task{.topic = kTopics[pick(3)],
              .id = std::to_string(pick(1'000'000)) + "-" + std::to_string(++last_id_),
              .body = Body::json("{\"n\":" + std::to_string(last_id_) + ",\"text\":\"" +
                                 std::string(pick(chance(5) ? 9'000 : 200), 'x') + "\"}")
                          .value()};
    witness_.asked(task);
    return task;
  }

  void publish(std::vector<Task> tasks, bool again) {
    auto answers = tasks.size() == 1 ? std::vector{zone().publish(tasks.front())}
                                     : zone().publish_batch(std::move(tasks));
    for (const auto& answer : answers)
      if (succeeded(answer, "publishing")) witness_.told(*answer, again);
  }

  void publish_one() { publish({new_task()}, false); }

  void publish_many() {
    std::vector<Task> tasks;
    for (std::uint64_t i = 2 + pick(9); i > 0; --i) tasks.push_back(new_task());
    publish(std::move(tasks), false);
  }

  std::string any_id() {
    return witness_.ids().empty() ? "" : witness_.ids()[pick(witness_.ids().size())];
  }

  void publish_again() {
    const std::string id = any_id();
    if (id.empty() || witness_.may_be_forgotten(id)) return;
    const bool duplicate = witness_.has_receipt(id);
    publish({witness_.task(id)}, duplicate);
  }

  // Under a known id: refused.
  void publish_another() {
    const std::string id = any_id();
    if (id.empty() || witness_.may_be_forgotten(id) || !witness_.has_receipt(id)) return;
    const auto answer = zone().publish({.topic = "other", .id = id});
    if (answer)
      complain("'" + id + "' was accepted with other content");
    else if (answer.error().code != Code::conflicting_duplicate)
      succeeded(answer, "publishing a conflict");
  }

  // --- Running ---------------------------------------------------------------------------------

  void run_some() {
    const std::string queue = pick(3) != 0 ? "work" : pick(2) != 0 ? "steps" : "keyed";
    if (!witness_.queue_there(queue).value_or(false)) return;
    for (std::uint64_t i = 1 + pick(3); i > 0; --i)
      if (!run_in(queue)) return;
    if (chance(20)) workers_.erase(queue);
  }

  struct Said {
    std::string id{};
    int attempt = 0;
    Outcome outcome{};
    bool threw = false;
  };

  // True: something ran and was recorded.
  bool run_in(const std::string& queue) {
    if (!on() || !story_.wrong.empty()) return false;
    if (!workers_.contains(queue)) {
      auto worker =
          zone().worker(queue, [this, queue](Context& context) { return handle(queue, context); },
                        {.name = "worker"});
      if (!succeeded(worker, "joining")) return false;
      workers_.emplace(queue, std::move(*worker));
    }
    said_.reset();
    const auto ran = workers_.at(queue).run_one();
    if (!succeeded(ran, "running") || !*ran) return false;
    if (said_) recorded(queue, *said_);
    return true;
  }

  void recorded(const std::string& queue, const Said& said) {
    Witness::Word& word = witness_.word(queue, said.id);
    if (said.threw) {
      word.ended[said.attempt] = "failed";
      return;
    }
    switch (said.outcome.kind()) {
      case Outcome::Kind::completed:
        word.state = State::completed;
        word.result = said.outcome.result().text();
        word.ended[said.attempt] = "completed";
        witness_.completed();
        break;
      case Outcome::Kind::dead:
        word.state = State::dead;
        word.ended[said.attempt] = "dead";
        break;
      case Outcome::Kind::failed: word.ended[said.attempt] = "failed"; break;
      case Outcome::Kind::unknown: word.ended[said.attempt] = "unknown"; break;
    }
  }

  // Some results lie outside their records, on pages of their own.
  std::string large(std::string text) {
    if (chance(15)) text.resize(9'000 + pick(60'000), '.');
    return text;
  }

  Outcome handle(const std::string& queue, Context& context) {
    witness_.begins(queue, context);
    Said said{.id = context.task().id, .attempt = context.attempt()};
    if (queue == "steps") run_steps(queue, context);
    const int dice = ending_ ? 0 : static_cast<int>(pick(100));
    if (dice < 65)
      said.outcome = Outcome::completed(Body::bytes(large("done " + said.id)));
    else if (dice < 80)
      said.outcome = Outcome::failed("not now");
    else if (dice < 88)
      said.outcome = Outcome::dead("never");
    else if (dice < 95)
      said.outcome = Outcome::unknown("nobody knows");
    else
      said.threw = true;
    said_ = said;
    if (said.threw) throw std::runtime_error("thrown");
    return said.outcome;
  }

  void run_steps(const std::string& queue, Context& context) {
    const std::string id = context.task().id;
    for (const std::string name : {"first", "second"}) {
      // Some lie outside their records, on pages of their own.
      const std::string word =
          std::hash<std::string>{}(id + name) % 4 == 0 ? name + std::string(20'000, '.') : name;
      const auto body = [&] {
        witness_.step_runs(queue, id, name);
        return word;
      };
      const auto policy = chance(50) ? std::optional(InDoubt::retry) : std::nullopt;
      if (context.step(name, body, policy) != word)
        complain("'" + id + "': step " + name + " remembers something else");
      witness_.step_done(queue, id, name);
    }
  }

  // --- People ----------------------------------------------------------------------------------

  // A task in that queue in one of those states.
  std::optional<std::string> find(const std::string& queue, std::initializer_list<State> states) {
    std::vector<std::string> found;
    for (const State state : states) {
      const auto list = zone().tasks().list({.queue = queue, .state = state, .limit = 20});
      if (!succeeded(list, "listing")) return std::nullopt;
      for (const ListItem& item : *list) found.push_back(item.id);
    }
    if (found.empty()) return std::nullopt;
    return found[pick(found.size())];
  }
  std::string any_queue() { return pick(2) != 0 ? "work" : "steps"; }

  void order_retry() {
    const std::string queue = any_queue();
    const auto id = find(queue, {State::dead, State::in_doubt});
    if (!id) return;
    Witness::Word& word = witness_.word(queue, *id);
    word.state.reset();
    word.retry_ordered = succeeded(zone().tasks().retry(*id, queue, kBy), "ordering a retry");
  }

  void order_end() {
    const std::string queue = any_queue();
    const bool complete = chance(50);
    const auto id =
        complete ? find(queue, {State::in_doubt}) : find(queue, {State::in_doubt, State::dead});
    if (!id) return;
    Witness::Word& word = witness_.word(queue, *id);
    word.state.reset();
    word.retry_ordered = false;
    word.result = "\"by hand\"";
    const auto ended =
        complete ? zone().tasks().complete(*id, queue, Body::json(word.result).value(), kBy)
                 : zone().tasks().drop(*id, queue, kBy);
    if (!succeeded(ended, "ending by hand")) return;
    word.state = complete ? State::completed : State::cancelled;
  }

  void cancel() {
    const std::string queue = any_queue();
    const auto id = find(queue, {State::waiting, State::retrying, State::in_doubt});
    if (!id) return;
    Witness::Word& word = witness_.word(queue, *id);
    word.state.reset();
    word.retry_ordered = false;
    const auto state = zone().tasks().cancel(*id, queue, kBy);
    if (succeeded(state, "cancelling") && *state == State::cancelled) word.state = State::cancelled;
  }

  // --- Time, and what comes with it ------------------------------------------------------------

  void pass(Duration time) {
    machine_->pass(time);
    witness_.pass(time);
  }
  void wait_a_moment() { pass(3s); }
  void wait_long() { pass(70min); }
  void retire() { succeeded(zone().retire(), "retiring"); }

  void sweep() {
    core::Sequence floor{};
    succeeded(engine::Housekeeper::sweep(machine_->store(), "work", floor, [] { return false; }),
              "sweeping");
  }

  void set_ages() {
    const Retention ages{.bodies = 1h, .records = chance(50) ? 1h : 2h, .ids = 1h};
    witness_.ages_asked(ages);
    if (succeeded(zone().set_retention(ages), "setting ages")) witness_.ages_told(ages);
  }

  void add(const std::string& name) {
    witness_.queue_is(name, std::nullopt);
    if (succeeded(zone().queues().add(queue_of(name)), "adding " + name))
      witness_.queue_is(name, true);
  }

  void change_queues() {
    const std::string name = "keyed";
    if (!witness_.queue_there(name).value_or(false)) return add(name);
    workers_.erase(name);
    if (!on()) return;
    witness_.queue_is(name, std::nullopt);
    if (succeeded(zone().queues().remove(name, {.force = true}), "removing"))
      witness_.queue_is(name, false);
  }

  // The last one to leave puts the log into the file and deletes it.
  void restart() {
    workers_.clear();
    machine_->close();
    succeeded(machine_->open(), "opening again");
  }

  void meet(Action action) {
    trouble_ = true;
    (this->*action)();
    trouble_ = false;
    machine_->disk().calm();
  }

  void meet_trouble() {
    if (chance(50))
      machine_->disk().fill_up();
    else
      machine_->disk().fail_syncs(1);
    meet(chance(60) ? &Life::publish_one : &Life::run_some);
  }

  const LifeOptions options_;
  std::mt19937_64 random_;
  testing::TempFolder folder_;
  Image image_;
  LifeStory story_;
  Witness witness_;
  Machine* machine_ = nullptr;  // that is on
  std::map<std::string, Worker> workers_;
  std::optional<Said> said_;
  std::string where_ = "nothing yet";
  int cut_ = 0;
  int boots_ = 0;
  int last_id_ = 0;
  bool trouble_ = false;
  bool ending_ = false;
};

}  // namespace

LifeStory live(const LifeOptions& options) { return Life(options).run(); }

}  // namespace once::power
