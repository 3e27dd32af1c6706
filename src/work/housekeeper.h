// What some worker must do now and then, elected by a lease: the sweep, which wakes every entry
// that the feed counts as done while the ledger does not, and the retention. An entry whose record
// was lost is held in doubt instead: it may have run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/scheduler.h"
#include "work/ledger_writer.h"

namespace once::engine {

// Where a sweep begins: behind what was settled when it was last looked at. A person may have opened
// some of that again since, and what is scheduled was passed over, so it falls to the start once an
// hour, as often as retention reads everything.
class SweepFloor {
 public:
  core::Sequence& at(Moment now);

 private:
  core::Sequence floor_{};
  Moment falls_at_{};
};

struct Duty {
  std::string name{};
  Duration every{};
  // False: it was not done to the end. `ending` says that it is time to stop.
  std::function<bool(const std::function<bool()>& ending)> work{};
};

class Housekeeper {
 public:
  // `others`: what is to be done beside the sweep and the retention.
  Housekeeper(store::Store& store, Scheduler& scheduler, std::string queue, std::string worker,
              core::Member member, std::vector<Duty> others = {});
  ~Housekeeper();  // ends after the page it is at

  // One round on the caller's thread, without an election. The sweep begins after `floor`, and moves
  // it to where everything before is settled; it answers how many entries it woke.
  static Result<std::uint64_t> sweep(store::Store& store, const std::string& queue,
                                     core::Sequence& floor, const std::function<bool()>& ending);
  static Result<Retired> retire(store::Store& store, const std::function<bool()>& ending);
  // When a duty is due again that took that long: rounds take a twentieth of the time at most.
  static Duration rest(Duration every, Duration took);

 private:
  void run();
  void attend(const Duty& duty);
  bool ending();

  store::Store& store_;
  Scheduler& scheduler_;
  const std::string queue_;
  const std::string worker_;
  const core::Member member_;
  LedgerWriter scribe_;
  const std::unique_ptr<Mutex> mutex_;
  const std::unique_ptr<Condition> wake_;
  SweepFloor floor_;
  std::vector<Duty> duties_;
  bool ending_ = false;  // under mutex_
  std::unique_ptr<Activity> activity_;
};

}  // namespace once::engine
