#include "flow/definition/graph.h"

#include <algorithm>
#include <bitset>
#include <deque>
#include <map>
#include <set>

namespace once::encoding {
namespace {

using core::FlowStep;

// Resolves the names of steps to indexes.
class FlowGraph {
 public:
  FlowGraph(std::vector<NamedStep>& steps, Findings& findings)
      : steps_(steps), findings_(findings) {
    name_steps();
    for (std::size_t i = 0; i < steps_.size(); ++i) resolve(i);
    check_handlers();
    sort();
    if (order_.size() == steps_.size())
      find_ancestors();
    else
      tell_cycle();
  }

  void check_paths() {
    for (std::size_t i = 0; i < steps_.size(); ++i)
      for (const UsedPath& used : steps_[i].paths) check_path(i, used);
  }
  void check_output(const std::vector<UsedPath>& paths) {
    for (const UsedPath& used : paths)
      if (!used.path.step.empty()) place_of(used, "");
  }

  std::vector<FlowStep> ordered() const {
    std::vector<std::size_t> place(steps_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) place[order_[i]] = i;
    std::vector<FlowStep> out;
    for (const std::size_t index : order_) {
      FlowStep& step = out.emplace_back(steps_[index].step);
      for (std::size_t& other : step.depends_on) other = place[other];
      for (std::size_t& other : step.handles) other = place[other];
      if (step.on_failure) step.on_failure = place[*step.on_failure];
    }
    return out;
  }

  // Call it only for a definition without a finding.
  std::vector<std::string> hints(const ReadDefinition& read) const {
    std::vector<std::string> all;
    for (const std::size_t index : order_)
      for (const std::size_t needed : step(index).depends_on)
        if (runs_without_failure(index, needed)) all.push_back(when_skipped(index, needed));
    const auto kept_from = who_keeps_from_running();
    const bool object = read.definition.output.starts_with('{');
    for (const UsedPath& used : read.output_paths) {
      if (!used.no_default || used.path.step.empty()) continue;
      if (const auto when = when_missing(used, kept_from); !when.empty())
        all.push_back(when_without_output(used, when, object));
    }
    return all;
  }

 private:
  using Marks = std::bitset<core::kMostFlowSteps>;

  const FlowStep& step(std::size_t index) const { return steps_[index].step; }
  std::string name(std::size_t index) const { return short_quote(step(index).id); }
  void finding(std::size_t index, const std::string& what) {
    findings_.add(steps_[index].where, what);
  }

  void name_steps() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (step(i).id.empty()) continue;
      const auto [first, is_new] = places_.try_emplace(step(i).id, i);
      if (is_new)
        ids_.push_back(first->first);
      else
        findings_.add("", "step id " + name(i) + " is used twice (steps " +
                              std::to_string(first->second + 1) + " and " + std::to_string(i + 1) +
                              ")");
    }
  }

  std::optional<std::size_t> find(const std::string& id) const {
    const auto found = places_.find(id);
    return found == places_.end() ? std::nullopt : std::optional(found->second);
  }
  std::string meant(std::string_view id) const { return did_you_mean(id, ids_, '\''); }

  void resolve(std::size_t index) {
    for (const std::string& id : steps_[index].depends_on) {
      if (const auto other = find(id))
        steps_[index].step.depends_on.push_back(*other);
      else
        finding(index, "depends on " + short_quote(id) + ", which is no step" + meant(id));
    }
    const std::string& handler = steps_[index].on_failure;
    if (handler.empty()) return;
    if (const auto other = find(handler)) {
      steps_[index].step.on_failure = *other;
      steps_[*other].step.handles.push_back(index);
    } else {
      finding(index,
              "has on_failure " + short_quote(handler) + ", which is no step" + meant(handler));
    }
  }

  static std::string_view why_never_fails(const FlowStep& step) {
    if (step.kind == FlowStep::Kind::sleep) return "a sleep does not fail";
    if (step.kind == FlowStep::Kind::signal && step.timeout == Duration{0})
      return "a signal without a timeout does not fail";
    return {};
  }

  void check_handlers() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const auto& handled = step(i).handles;
      if (handled.empty()) continue;
      if (!steps_[i].depends_on.empty())
        finding(i, "is on_failure of " + name(handled[0]) +
                       " and has depends_on; give the dependencies to " + name(handled[0]));
      const bool can_run = std::any_of(handled.begin(), handled.end(), [&](std::size_t other) {
        return why_never_fails(step(other)).empty();
      });
      if (can_run) continue;
      std::vector<std::string> names;
      for (const std::size_t other : handled) names.push_back(name(other));
      finding(i, "can never run: only " + joined(names, ", ") +
                     (names.size() == 1 ? " names" : " name") + " it as on_failure, and " +
                     std::string(why_never_fails(step(handled[0]))));
    }
  }

  // The steps that this step waits for.
  std::vector<std::size_t> before(std::size_t index) const {
    std::vector<std::size_t> all = step(index).depends_on;
    all.insert(all.end(), step(index).handles.begin(), step(index).handles.end());
    return all;
  }

  void sort() {
    std::vector<std::size_t> open(steps_.size());
    std::vector<std::vector<std::size_t>> after(steps_.size());
    std::set<std::size_t> ready;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const auto needed = before(i);
      open[i] = needed.size();
      for (const std::size_t other : needed) after[other].push_back(i);
      if (needed.empty()) ready.insert(i);
    }
    while (!ready.empty()) {
      const std::size_t next = *ready.begin();
      ready.erase(ready.begin());
      order_.push_back(next);
      for (const std::size_t other : after[next])
        if (--open[other] == 0) ready.insert(other);
    }
  }

  // The shortest way from a step back to itself. Empty if there is none.
  std::vector<std::size_t> cycle_through(std::size_t start) const {
    constexpr std::size_t kUnseen = core::kMostFlowSteps;
    std::vector<std::size_t> came_from(steps_.size(), kUnseen);
    std::deque<std::size_t> next{start};
    while (!next.empty()) {
      const std::size_t index = next.front();
      next.pop_front();
      for (const std::size_t other : before(index)) {
        if (other == start) {
          std::vector<std::size_t> way{index};
          while (way.back() != start) way.push_back(came_from[way.back()]);
          std::reverse(way.begin(), way.end());
          return way;
        }
        if (came_from[other] != kUnseen) continue;
        came_from[other] = index;
        next.push_back(other);
      }
    }
    return {};
  }

  void tell_cycle() {
    Marks sorted;
    for (const std::size_t index : order_) sorted.set(index);
    std::vector<std::size_t> shortest;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (sorted[i]) continue;
      const auto cycle = cycle_through(i);
      if (!cycle.empty() && (shortest.empty() || cycle.size() < shortest.size())) shortest = cycle;
    }
    std::string path;
    Marks in_cycle;
    for (const std::size_t index : shortest) {
      path += step(index).id + " -> ";
      in_cycle.set(index);
    }
    findings_.add("", "steps depend on each other: " + path + step(shortest[0]).id);
    for (std::size_t i = 0; i < steps_.size(); ++i)
      if (!sorted[i] && !in_cycle[i]) tell_stuck(i, sorted, in_cycle);
  }

  void tell_stuck(std::size_t index, const Marks& sorted, const Marks& in_cycle) {
    const auto needed = before(index);
    const auto cyclic = std::find_if(needed.begin(), needed.end(),
                                     [&](std::size_t other) { return in_cycle[other]; });
    const auto stuck = std::find_if(needed.begin(), needed.end(),
                                    [&](std::size_t other) { return !sorted[other]; });
    if (cyclic != needed.end())
      finding(index, "can never run: it depends on " + name(*cyclic) + ", which is in that cycle");
    else
      finding(index, "can never run: it depends on " + name(*stuck) + ", which never does");
  }

  void find_ancestors() {
    ancestors_.resize(steps_.size());
    for (const std::size_t index : order_)
      for (const std::size_t other : before(index)) {
        ancestors_[index] |= ancestors_[other];
        ancestors_[index].set(other);
      }
  }

  std::optional<std::size_t> place_of(const UsedPath& used, const std::string& where) {
    const auto found = find(used.path.step);
    if (!found)
      findings_.add(where, used.field + " has the path " + short_quote(used.text) + ", and " +
                               short_quote(used.path.step) + " is no step" + meant(used.path.step));
    return found;
  }

  void check_path(std::size_t index, const UsedPath& used) {
    if (used.path.step.empty()) return;
    const auto other = place_of(used, steps_[index].where);
    if (!other || ancestors_.empty()) return;
    const auto& handled = step(index).handles;
    if (used.path.root == FlowPath::Root::errors) {
      if (std::find(handled.begin(), handled.end(), *other) == handled.end())
        finding(index, used.field + " uses the error of " + name(*other) +
                           ", which only its on_failure step can");
    } else if (*other == index) {
      finding(index, used.field + " uses the step's own output, which is there when it is over");
    } else if (!ancestors_[index][*other]) {
      finding(index, used.field + " uses the output of " + name(*other) + ", which " +
                         (ancestors_[*other][index] ? "comes after it" : how_to_depend_on(index)));
    }
  }

  // A step that handles failures has no dependencies of its own.
  std::string how_to_depend_on(std::size_t index) const {
    const auto& handled = step(index).handles;
    return "it does not depend on; add it to depends_on" +
           (handled.empty() ? "" : " of " + name(handled[0]));
  }

  // Whether the step depends on a handler of failures and has no condition for a run without a
  // failure.
  bool runs_without_failure(std::size_t index, std::size_t needed) const {
    const auto& handled = step(needed).handles;
    if (handled.empty()) return false;
    const auto one_of_them = [&](std::size_t other) {
      return std::find(handled.begin(), handled.end(), other) != handled.end();
    };
    const auto& others = step(index).depends_on;
    if (std::any_of(others.begin(), others.end(), one_of_them)) return false;
    const auto& paths = steps_[index].paths;
    return std::none_of(paths.begin(), paths.end(), [&](const UsedPath& used) {
      if (used.field != "skip_if" || used.path.step.empty()) return false;
      const std::size_t place = places_.at(used.path.step);
      return place == needed || one_of_them(place);
    });
  }

  // The output of a failed step is missing. The output of any other step is at least null.
  std::string when_skipped(std::size_t index, std::size_t needed) const {
    const auto& handled = step(needed).handles;
    const bool one = handled.size() == 1;
    return "step " + name(index) + ": depends on " + name(needed) +
           ", which is skipped when nothing failed, and then runs all the same; if it is not to, "
           "give it \"skip_if\": {\"path\": \"steps." +
           (one ? step(handled[0]).id + "\", \"exists\": true}"
                : step(needed).id + "\", \"equals\": null}, and " + name(needed) +
                      " an output other than null");
  }

  bool may_be_handled(std::size_t index) const {
    return step(index).on_failure && why_never_fails(step(index)).empty();
  }

  // For each step: a step whose failure leaves it unreached, even if the failure is handled.
  std::vector<std::optional<std::size_t>> who_keeps_from_running() const {
    std::vector<std::optional<std::size_t>> who(steps_.size());
    for (const std::size_t index : order_)
      for (const std::size_t needed : step(index).depends_on)
        if (!who[index]) who[index] = may_be_handled(needed) ? needed : who[needed];
    return who;
  }

  // In which case a completed run has no value at the path. Empty if the steps show no such case.
  // The output of a step that was skipped or not reached is null.
  std::string when_missing(const UsedPath& used,
                           const std::vector<std::optional<std::size_t>>& kept_from) const {
    const auto handled = [&](std::size_t index) {
      return name(index) + " fails and " + name(*step(index).on_failure) + " handles it";
    };
    const std::size_t place = places_.at(used.path.step);
    if (used.path.root == FlowPath::Root::errors) return name(place) + " does not fail";
    if (may_be_handled(place)) return handled(place);
    if (!used.deep) return {};
    if (kept_from[place]) return handled(*kept_from[place]);
    const bool skipped = !step(place).skip_if.empty() || !step(place).handles.empty();
    return skipped ? name(place) + " is skipped" : "";
  }

  static std::string when_without_output(const UsedPath& used, const std::string& when,
                                         bool object) {
    const std::string member = "{\"path\": \"" + used.text + "\", \"default\": null}";
    return "output: there is nothing at " + short_quote(used.text) + " when " + when +
           ", and the run then fails when all its steps are done; " +
           (object
                ? "give it a default: " + member
                : "make it an object with a default: {\"" + used.path.step + "\": " + member + "}");
  }

  std::vector<NamedStep>& steps_;
  Findings& findings_;
  std::map<std::string, std::size_t> places_;
  std::vector<std::string_view> ids_;
  std::vector<std::size_t> order_;
  std::vector<Marks> ancestors_;  // empty if there is a cycle
};

}  // namespace

CheckedSteps check_steps(ReadDefinition& read, Findings& findings) {
  FlowGraph graph(read.steps, findings);
  graph.check_paths();
  graph.check_output(read.output_paths);
  if (!findings.empty()) return {};
  return {.ordered = graph.ordered(), .hints = graph.hints(read)};
}

}  // namespace once::encoding
