// The agents: each is a real `once work` process, killed with -9 and replaced a moment later. What
// they are at is known from what they write down themselves.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/demo/agent.h"
#include "cli/demo/child.h"
#include "cli/demo/diary.h"
#include "cli/demo/lines.h"

namespace once::cli::demo {

struct Agent {
  enum class Now { waiting, working, killed, turned_away };  // by a store that was busy
  Now now = Now::waiting;
  std::string name{};    // agent-3
  int life = 0;          // which process of that name it is
  std::string task{};    // that it is at, or was at when it went
  int attempt{};         // of that task
  std::size_t step = 0;  // of kSteps, from 1; zero: not begun
  std::string note{};    // resumed from whom, by whom
  Moment back{};         // gone: when it is replaced
  Child process{};

  bool gone() const { return now == Now::killed || now == Now::turned_away; }
  std::string worker() const { return name + '.' + std::to_string(life); }
};

class Fleet {
 public:
  Fleet(const Setting& setting, Diary& diary);

  Result<void> start();
  // Looks at what has happened since the last call, and replaces who is due.
  Result<void> tick();
  // kill -9 of its process; when it will be replaced. None: there is no process just now.
  std::optional<Moment> kill(std::size_t agent, std::string_view by = {});
  // The agents whose death would hurt.
  std::vector<std::size_t> working() const;
  void drain() const;  // lets them end
  bool ended();

  const std::vector<Agent>& agents() const { return agents_; }
  std::uint64_t kills() const { return killed_.size(); }
  const std::set<std::string>& killed() const { return killed_; }  // by their workers' names
  std::uint64_t resumed() const { return resumed_; }

 private:
  struct Holder {
    std::size_t agent{};
    std::string worker{};
    int attempt{};
    bool told = false;  // where the attempt went on
  };

  Result<void> replace(Agent& agent);
  void note_kill(Agent& agent, std::string_view by);
  Result<void> note_end(Agent& agent);
  void leave(Agent& agent, Agent::Now how, std::string_view told);
  Error ended_by_itself(const Agent& agent) const;
  void hear(const std::string& line);
  void begins(std::size_t agent, const std::string& task, int attempt);
  void at_step(std::size_t agent, const std::string& task, std::size_t step);

  const Setting& setting_;
  Diary& diary_;
  Tail events_;
  std::vector<Agent> agents_;
  std::map<std::string, Holder> holders_;  // by task
  std::map<std::string, Holder> before_;   // by task: who held it and went
  std::set<std::string> killed_;
  std::uint64_t resumed_ = 0;
};

}  // namespace once::cli::demo
