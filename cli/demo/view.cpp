#include "cli/demo/view.h"

#include <fmt/format.h>

#include <algorithm>

namespace once::cli::demo {
namespace {

constexpr std::size_t kEvents = 12;  // shown at most

std::string doing(const Agent& agent, const Style& style) {
  switch (agent.now) {
    case Agent::Now::killed: return style.in_state(State::dead, "killed with -9");
    case Agent::Now::turned_away: return style.in_state(State::retrying, "store was busy");
    case Agent::Now::waiting: return style.dim("waits for a task");
    case Agent::Now::working: break;
  }
  if (agent.step == 0) return "begins";
  std::string bar;
  for (std::size_t i = 1; i <= kSteps.size(); ++i)
    bar += i < agent.step ? '#' : i == agent.step ? '>' : '.';
  return style.in_state(State::running, fmt::format("[{}] {}", bar, kSteps[agent.step - 1]));
}

std::string padded(const std::string& plain, const std::string& styled, std::size_t width) {
  return styled + std::string(width - std::min(width, plain.size()), ' ');
}

std::string row(std::size_t number, const Agent& agent, const Style& style) {
  const Style plain(false);
  const bool at_task = agent.now != Agent::Now::waiting;
  const std::string attempt =
      at_task && !agent.task.empty() ? fmt::format("{}", agent.attempt) : "";
  return fmt::format(" {}  {:<9} {:<10} {:>7}  {} {}\n", number, agent.name,
                     at_task ? agent.task : "", attempt,
                     padded(doing(agent, plain), doing(agent, style), 17),
                     style.in_state(agent.gone() ? State::retrying : State::completed, agent.note));
}

std::string head(const Scene& scene, const Style& style) {
  const std::string time =
      scene.closing ? "no more kills: what is open is finished"
                    : fmt::format("{:.0f} of {:.0f} s", scene.diary.seconds(),
                                  std::chrono::duration<double>(scene.setting.length).count());
  return fmt::format("{}  {}, seed {}\n\n", style.bold("once demo"), time, scene.setting.seed);
}

std::string agents(const Scene& scene, const Style& style) {
  std::string out =
      style.bold(fmt::format(" #  {:<9} {:<10} ATTEMPT  STEP", "AGENT", "TASK")) + '\n';
  for (std::size_t i = 0; i < scene.fleet.agents().size(); ++i)
    out += row(i + 1, scene.fleet.agents()[i], style);
  return out;
}

std::string totals(const Scene& scene) {
  const Progress& progress = scene.progress;
  return fmt::format(
      "\n published {}  completed {}  open {}  duplicates stopped at append {}\n"
      " killed with -9: agents {}, publishers {}  resumed {}\n"
      " effects in the file {}, again {}   (a plain queue beside it: {}, again {})\n\n",
      progress.published, progress.completed, progress.unsettled, scene.publishers.duplicates(),
      scene.fleet.kills(), scene.publishers.kills(), scene.fleet.resumed(), progress.effects,
      progress.effects_again, progress.plain_effects, progress.plain_effects_again);
}

std::string events(const Diary& diary, const Style& style, std::size_t most) {
  const auto& entries = diary.last();
  std::string out;
  for (std::size_t i = entries.size() - std::min(most, entries.size()); i < entries.size(); ++i)
    out += fmt::format(" {} {}\n", style.dim(fmt::format("{:5.1f}", entries[i].second)),
                       entries[i].text);
  return out;
}

std::string keys(const Scene& scene) {
  if (!scene.keys) return "";
  return fmt::format(
      "\n keys: 1-{} kill an agent, d publish a duplicate, c publish a conflict, q end\n",
      std::min<std::size_t>(9, scene.setting.agents));
}

std::size_t lines_of(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

std::string view(const Scene& scene, const Style& style, std::size_t height) {
  const std::string above = head(scene, style) + agents(scene, style) + totals(scene);
  const std::string below = keys(scene);
  const std::size_t used = lines_of(above) + lines_of(below);
  return above + events(scene.diary, style, height > used ? std::min(height - used, kEvents) : 0) +
         below;
}

}  // namespace once::cli::demo
