// The minute itself: drives the fleet, the publishers and the kills, and shows what happens.
#pragma once

#include <optional>

#include "cli/app/session.h"
#include "cli/app/signals.h"
#include "cli/demo/count.h"
#include "cli/demo/terminal.h"
#include "cli/demo/view.h"

namespace once::cli::demo {

class Show {
 public:
  // `paint`: on a terminal, with keys; otherwise a line per event.
  Show(Session& session, Signals& signals, Zone& zone, const Setting& setting, bool paint);

  // Until every task is settled, or none was completed for long, and the fleet has ended. False: a
  // signal came, or nobody reads.
  Result<bool> run();
  Result<Counted> count() const;

 private:
  Result<bool> play();
  Result<bool> finish();
  Duration patience() const;  // without a task that is completed
  Result<void> act(Moment now);
  bool more_wanted(Moment now) const;
  void kill_one(Moment now);
  void kill(std::size_t agent, std::string_view by = {});
  Result<bool> ask_zone();  // false: the store is away, so nothing new is known
  void take_keys();
  void publish_again(std::string_view title, std::string_view who);
  Scene scene() const;
  void tell(const Diary::Entry& entry);

  Session& session_;
  Signals& signals_;
  Zone& zone_;
  const Setting& setting_;
  const bool paint_;
  Diary diary_;
  Random random_;  // of the kills
  Random publishers_random_;
  Fleet fleet_;
  PlainQueue plain_queue_;
  PlainFleet plain_fleet_;
  Publishers publishers_;
  Progress progress_;
  Moment end_{};     // of the kills
  Moment latest_{};  // when what is open is given up; moves on with each completed task
  Moment next_kill_{};
  Moment next_question_{};
  bool closing_ = false;       // no kills any more
  bool ended_by_key_ = false;  // nothing new is published either
  bool settled_ = false;
  bool conflict_sent_ = false;
  std::uint64_t conflicts_ = 0;       // refused
  std::optional<Terminal> terminal_;  // last: it is restored before anything else goes
};

}  // namespace once::cli::demo
