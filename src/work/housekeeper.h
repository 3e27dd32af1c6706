// Runs the regular duties of a queue: the sweep and the retention. A lease elects one of the
// workers. The sweep wakes every entry that the feed would not deliver again although its record is
// not settled. An entry whose record was lost may have run, so it is held in doubt instead.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/scheduler.h"
#include "work/ledger_writer.h"

namespace once::engine {

// Where a sweep begins: after the entries that were settled at the last sweep. A person may have
// reopened some of them since, and scheduled entries were skipped. So a sweep begins at the start
// of the log once an hour, as often as retention reads everything.
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
  // Returns false if the duty was not finished. The duty must stop when `ending` returns true.
  std::function<bool(const std::function<bool()>& ending)> work{};
};

class Housekeeper {
 public:
  // `others` are the duties besides the sweep and the retention.
  Housekeeper(store::Store& store, Scheduler& scheduler, std::string queue, std::string worker,
              core::Member member, std::vector<Duty> others = {});
  ~Housekeeper();  // waits for the end of the current page

  // One round on the caller's thread, without an election. The sweep begins after `floor`, and moves
  // `floor` to the last entry before which all are settled. It returns how many entries it woke.
  static Result<std::uint64_t> sweep(store::Store& store, const std::string& queue,
                                     core::Sequence& floor, const std::function<bool()>& ending);
  static Result<Retired> retire(store::Store& store, const std::function<bool()>& ending);
  // The pause after a round that took that long. So rounds take at most a twentieth of the time.
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
  LedgerWriter writer_;
  const std::unique_ptr<Mutex> mutex_;
  const std::unique_ptr<Condition> wake_;
  SweepFloor floor_;
  std::vector<Duty> duties_;
  bool ending_ = false;  // under mutex_
  std::unique_ptr<Activity> activity_;
};

}  // namespace once::engine
