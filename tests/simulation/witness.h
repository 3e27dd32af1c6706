// The independent checker of the promises P1 to P6. It shares nothing with decide(): it notes what
// publishers were told, what handlers did and said, and what became durable, and compares. Everything
// it knows of a record it saw being written; "the claimant" is the process that wrote the claim.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "simulation/process.h"
#include "simulation/sim_store.h"
#include "work/task_attempt.h"

namespace once::sim {

class FlowWitness;

class Witness {
 public:
  Witness(World& world, SimZone& zone, std::vector<Queue> queues);

  // --- Publishers ---------------------------------------------------------------------------

  // `content` stands for what the task says: equal when and only when topic and body are.
  void answered(const Process& publisher, const std::string& id, int content,
                const Result<Receipt>& answer);

  // --- The store ----------------------------------------------------------------------------

  // Who sees to the records of workflows, where there are any.
  void set_flows(FlowWitness& flows) { flows_ = &flows; }

  void appended(const store::Append& item);
  enum class Write { swap, claim };  // claim: decided and written in one step
  void wrote(Process& by, const store::Address& at, const store::Stored& now, Write how);
  void wrote(Process& by, const store::KeyWrite& value);
  // A delivery is about to be answered as done with, without a write.
  void acknowledged(const Process& by, const std::string& queue, core::Sequence sequence);
  // Something may have been forgotten.
  void retired();

  // --- Handlers -----------------------------------------------------------------------------

  void started(const Process& by, const engine::TaskAttempt& task_attempt);
  void said(const Process& by, const engine::TaskAttempt& task_attempt, Outcome::Kind word);
  // A write of the attempt's own ended it, or could not be made: its word does not count any more.
  void attempt_over(const engine::TaskAttempt& task_attempt);
  void probe_said(const engine::TaskAttempt& task_attempt, bool happened);
  void told_fenced(const Process& by, std::string_view id);
  // The same of a claim that began as an offer.
  void puller_told(std::uint64_t token);
  // The client of a claim that began as an offer was told a lease that ends then.
  void may_run_until(std::uint64_t token, Instant until);
  // The holder of this offer gives it back.
  void gives_back(const core::Nonce& nonce) { given_back_.insert(nonce); }
  // Its worker ended with an error: what it could not record is in doubt.
  void worker_failed(const Process& by);
  void interrupted(const Process& by);

  void effect(const engine::TaskAttempt& task_attempt);
  bool effect_happened(const engine::TaskAttempt& task_attempt) const;
  void step_effect(const engine::TaskAttempt& task_attempt, const std::string& step);
  bool step_happened(const engine::TaskAttempt& task_attempt, const std::string& step) const;
  void step_recorded(const engine::TaskAttempt& task_attempt, const std::string& step,
                     const std::string& result);
  void step_remembered(const engine::TaskAttempt& task_attempt, const std::string& step,
                       std::string_view result);

  // --- People -------------------------------------------------------------------------------

  // Somebody was told that this will be carried out; `tag` is why.
  void promised(const std::string& queue, const std::string& id, const std::string& tag);

  // --- At the end ---------------------------------------------------------------------------

  // Everything that any queue has is settled, and no order waits.
  bool all_settled() const;
  // After the faults have stopped and time has passed.
  void check_the_end();
  // After bodies or records were forgotten by their age.
  void check_after_ageing();

 private:
  using Place = std::pair<std::string, std::string>;  // queue and key

  struct Claim {
    Place place{};
    const Process* claimant = nullptr;
    bool pulled = false;  // begun by the start of an offer
    bool told = false;    // its puller was told that its word does not count
    std::string id{};
    std::uint32_t attempt{};
    bool started = false;
    bool over = false;
    std::optional<Outcome::Kind> word{};
    std::optional<bool> probed{};
    core::Ending recorded = core::Ending::running;
    const Process* runner = nullptr;  // pulled: the process in which its handler runs
    Instant until{};                  // pulled: the end of its lease, as its client knows it
  };
  struct Seen {
    core::Record record{};
    core::Revision revision{};
    core::StoreTime stamp{};
    const Process* claimant = nullptr;
    std::uint64_t token{};
    std::uint32_t used{};  // claims that count since a person's last order
    bool ordered = false;  // a person ordered it to run since the last attempt began
    bool pulled = false;   // held by whoever has its handle
  };
  struct Published {
    std::uint64_t sequence{};
    int content{};
    std::string digest{};
    int first_receipts{};  // that say "not a duplicate"
  };
  struct StepSeen {
    std::uint64_t begun{};
    std::uint64_t ran{};
    bool held = false;                    // when it is cut off
    std::optional<std::string> result{};  // it was told that this is recorded
  };

  static std::string text(const Place& place);
  const Queue& queue(const std::string& name) const;
  void broken(std::string what) { world_.broken(std::move(what)); }

  void check_lease(const Process& by, const Place& place, const Seen& before,
                   const store::Stored& now);
  void check_transition(const Place& place, const Seen& before, const core::Record& now);
  void check_ending(const Place& place, Seen& before, const store::Stored& now);
  void check_claim(const Process& by, const Place& place, const Seen* before,
                   const store::Stored& now, Write how);
  void check_steps(const Place& place, const Seen* before, const core::Record& now);
  void check_entry_record(const store::Address& at, const core::Record& now);
  void check_pulled_lease(const Process& by, const Place& place, const Seen& before,
                          const store::Stored& now);
  void check_offer(const Place& place, const Seen* before, const store::Stored& now);
  void check_slots(const Process& by, const std::string& queue);
  void check_max_running(const std::string& queue);

  void check_log();
  void check_rows(const Queue& queue);
  void check_audit();
  void check_words();
  void check_promises();
  void check_effects();
  void check_steps_at_end();
  // How often people have ordered the task to run again.
  std::uint64_t orders(const Place& place) const;

  World& world_;
  SimZone& zone_;
  FlowWitness* flows_ = nullptr;
  std::map<std::string, Queue> queues_;
  std::map<std::string, Published> published_;                 // by id
  std::map<Place, Seen> records_;                              // of tasks, by key
  std::map<std::pair<std::string, std::uint64_t>, Seen> own_;  // of entries
  std::map<Place, Seen> lone_;                                 // slots, elections
  std::map<std::uint64_t, Claim> claims_;                      // by token
  std::map<Place, std::uint64_t> effects_;
  std::map<std::string, std::uint64_t> audited_;  // tasks per queue, by the last audit
  std::map<std::pair<Place, std::string>, StepSeen> steps_;
  std::set<std::pair<const Process*, std::string>> fenced_;
  std::map<std::pair<const Process*, std::string>, int> handlers_;  // under way, by queue
  std::set<const Process*> lost_slots_;
  std::set<core::Nonce> given_back_;
  std::set<const Process*> failed_;
  std::set<const Process*> interrupted_;
  struct Promise {
    std::string queue;
    std::string id;
    std::string tag;
  };
  std::vector<Promise> promises_;
};

}  // namespace once::sim
