#include "cli/demo/fleet.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <csignal>

#include "cli/app/session.h"

namespace once::cli::demo {
namespace {

constexpr Duration kFleetAbsence{1'000};  // of an agent that is gone

bool was_killed(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }

// As on a slow disk; its successor may have more luck.
bool found_store_busy(int status) {
  return WIFEXITED(status) && (WEXITSTATUS(status) == kStore || WEXITSTATUS(status) == kUnknown);
}

int number_in(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::size_t place_of(std::string_view step) {
  return static_cast<std::size_t>(std::find(kSteps.begin(), kSteps.end(), step) - kSteps.begin()) +
         1;
}

}  // namespace

Fleet::Fleet(const Setting& setting, Diary& diary)
    : setting_(setting), diary_(diary), events_(setting.events()) {
  for (std::size_t i = 1; i <= setting.agents; ++i) {
    agents_.emplace_back();
    agents_.back().name = fmt::format("agent-{}", i);
  }
}

Result<void> Fleet::start() {
  for (Agent& agent : agents_) {
    if (auto started = replace(agent); !started) return started;
  }
  return {};
}

Result<void> Fleet::replace(Agent& agent) {
  ++agent.life;
  std::vector<std::string> work{"-q", "work", kQueue, "--worker", agent.worker(), "--"};
  for (std::string& word : agent_program(setting_, agent.worker())) work.push_back(std::move(word));
  auto process = Child::start(setting_, std::move(work));
  if (!process) return process.error();
  agent.process = std::move(*process);
  agent.now = Agent::Now::waiting;
  agent.task.clear();
  agent.note.clear();
  return {};
}

Result<void> Fleet::tick() {
  for (const std::string& line : events_.next()) hear(line);
  for (Agent& agent : agents_) {
    const bool runs = agent.process.running();
    if (!runs && !agent.gone()) {
      if (auto explained = note_end(agent); !explained) return explained;
    }
    if (runs || SteadyClock::now() < agent.back) continue;
    if (auto replaced = replace(agent); !replaced) return replaced;
    diary_.say(fmt::format("{} is back, as a new process", agent.name));
  }
  return {};
}

std::optional<Moment> Fleet::kill(std::size_t index, std::string_view by) {
  if (index >= agents_.size()) return {};
  Agent& agent = agents_[index];
  if (agent.gone() || !agent.process.running()) return {};
  agent.process.signal(SIGKILL);
  note_kill(agent, by);
  return agent.back;
}

void Fleet::note_kill(Agent& agent, std::string_view by) {
  killed_.insert(agent.worker());
  leave(agent, Agent::Now::killed, fmt::format("killed with -9{}", by));
}

// Of a process that the demo did not kill.
Result<void> Fleet::note_end(Agent& agent) {
  const int status = agent.process.status();
  if (was_killed(status)) {
    note_kill(agent, " by somebody else");
  } else if (found_store_busy(status)) {
    leave(agent, Agent::Now::turned_away,
          fmt::format("ended with exit {}, the store was busy,", WEXITSTATUS(status)));
  } else {
    return ended_by_itself(agent);
  }
  return {};
}

void Fleet::leave(Agent& agent, Agent::Now how, std::string_view told) {
  agent.back = SteadyClock::now() + kFleetAbsence;
  std::string where = " while it waited for a task";
  if (agent.now == Agent::Now::working) where = " in " + agent.task;
  if (agent.now == Agent::Now::working && agent.step > 0)
    where += fmt::format(", step {} of {} ({})", agent.step, kSteps.size(), kSteps[agent.step - 1]);
  diary_.say(fmt::format("{} {}{}", agent.name, told, where));
  agent.now = how;
  agent.note.clear();
}

Error Fleet::ended_by_itself(const Agent& agent) const {
  const std::vector<std::string> said = Tail(setting_.errors()).next();
  return {.code = Code::failed,
          .message = fmt::format("{} ended by itself, so the demo ends, too; nothing was counted; "
                                 "what was said last: {}",
                                 agent.name, said.empty() ? "nothing" : said.back())};
}

std::vector<std::size_t> Fleet::working() const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    if (agents_[i].now == Agent::Now::working) found.push_back(i);
  }
  return found;
}

void Fleet::drain() const {
  for (const Agent& agent : agents_) agent.process.signal(SIGTERM);
}

bool Fleet::ended() {
  return std::none_of(agents_.begin(), agents_.end(),
                      [](Agent& agent) { return agent.process.running(); });
}

// WHAT WORKER TASK ATTEMPT STEP. What the agent of a worker that is gone still wrote is about nobody.
void Fleet::hear(const std::string& line) {
  const std::vector<std::string> words = words_of(line);
  if (words.size() != 5) return;
  const auto found = std::find_if(agents_.begin(), agents_.end(),
                                  [&](const Agent& agent) { return agent.worker() == words[1]; });
  if (found == agents_.end() || found->gone()) return;
  const auto index = static_cast<std::size_t>(found - agents_.begin());
  if (words[0] == "begin") {
    begins(index, words[2], number_in(words[3]));
  } else if (words[0] == "step") {
    at_step(index, words[2], place_of(words[4]));
  } else if (words[0] == "end") {
    diary_.say(fmt::format("{} finished {}{}", found->name, words[2],
                           found->attempt > 1 ? fmt::format(", attempt {}", found->attempt) : ""));
    found->now = Agent::Now::waiting;
    found->task.clear();
    found->note.clear();
    holders_.erase(words[2]);
  }
}

void Fleet::begins(std::size_t index, const std::string& task, int attempt) {
  Agent& agent = agents_[index];
  agent.now = Agent::Now::working;
  agent.task = task;
  agent.attempt = attempt;
  agent.step = 0;
  agent.note.clear();
  if (const auto held = holders_.find(task); held != holders_.end()) before_[task] = held->second;
  holders_[task] = {index, agent.worker(), attempt};
  if (attempt == 1) diary_.say(fmt::format("{} began {}", agent.name, task));
}

// Steps that are done give their remembered results at once, so the first that is worked on tells
// where the attempt went on.
void Fleet::at_step(std::size_t index, const std::string& task, std::size_t step) {
  Agent& agent = agents_[index];
  agent.step = step;
  Holder& holder = holders_[task];
  if (agent.attempt == 1 || holder.told) return;
  holder.told = true;
  ++resumed_;
  const std::string where = step > 1 ? fmt::format("after step {}", step - 1) : "before step 1";
  std::string whose;  // unknown when it was killed before its program began
  if (const auto before = before_.find(task); before != before_.end()) {
    Agent& first = agents_[before->second.agent];
    whose = &first == &agent ? " from its earlier process" : " from " + first.name;
    if (first.gone() && first.worker() == before->second.worker)
      first.note = fmt::format("{} resumed by {}, {}", task, agent.name, where);
  }
  agent.note = fmt::format("resumed{} {}", whose, where);
  diary_.say(
      fmt::format("{} resumed {}{} {}, attempt {}", agent.name, task, whose, where, agent.attempt));
}

}  // namespace once::cli::demo
