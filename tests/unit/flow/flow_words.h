// Workflows, events and actions in words, so that tests of them read as tables.
//
//   definition  "charge!refund refund settled:signal/7d<charge cool:sleep/10m<settled"
//               id [:kind] [/time] [<dependencies] [!on_failure] [?yes: skip_if holds, ?no: it does not]
//   events      "started, charge failed 1, charge completed 2, signal paid, timer cool 1, run timer 1,
//               admit 1, rate_retry charge 1, retried 2 charge=1, ended 1 failed"
//   actions     "start charge, retry charge of round 2, arm cool 1 for 10m, end cool 1 completed,
//               arm run 1 for 2h, end run 1 failed by charge, call off charge, call off timer cool 1,
//               call off run timer 1, finish 1"; a start that was refused before ends in "again"
#pragma once

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "flow/rules/facts.h"
#include "unit/core/table.h"

namespace once::core::flow_words {

inline std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) {
    part = examples::trimmed(part);
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

inline FlowStep step_from(const std::string& word, const FlowDefinition& so_far,
                          std::string& handler) {
  const std::string marks = ":/<!?";
  FlowStep step;
  const auto end = word.find_first_of(marks);
  step.id = word.substr(0, end);
  step.topic = "t." + step.id;
  for (std::size_t at = end; at < word.size();) {
    const std::size_t next = std::min(word.find_first_of(marks, at + 1), word.size());
    const std::string value = word.substr(at + 1, next - at - 1);
    switch (word[at]) {
      case ':':
        for (const auto kind :
             {FlowStep::Kind::sleep, FlowStep::Kind::signal, FlowStep::Kind::approval})
          if (to_string(kind) == value) step.kind = kind;
        break;
      case '/': step.timeout = step.sleep = duration_from(value).value(); break;
      case '<':
        for (const std::string& id : split(value, ','))
          step.depends_on.push_back(index_of(so_far, id).value());
        break;
      case '!': handler = value; break;
      case '?': step.skip_if = value; break;
    }
    at = next;
  }
  if (step.kind == FlowStep::Kind::signal) step.signal = "for_" + step.id;
  return step;
}

inline FlowDefinition definition_from(const std::string& text) {
  FlowDefinition definition;
  definition.name = "payment";
  std::vector<std::pair<std::size_t, std::string>> handlers;
  for (const std::string& word : split(text, ' ')) {
    std::string handler;
    definition.steps.push_back(step_from(word, definition, handler));
    if (!handler.empty()) handlers.emplace_back(definition.steps.size() - 1, handler);
  }
  for (const auto& [step, handler] : handlers) {
    const std::size_t place = index_of(definition, handler).value();
    definition.steps[step].on_failure = place;
    definition.steps[place].handles.push_back(step);
  }
  return definition;
}

inline FlowEvent event_in(FlowEvent::Kind kind, std::uint32_t n = 0, std::string step = {}) {
  FlowEvent event;
  event.kind = kind;
  event.run = "r";
  event.workflow = "payment";
  event.n = n;
  event.step = std::move(step);
  return event;
}

inline std::uint32_t number_from(const std::string& text) {
  return static_cast<std::uint32_t>(std::stoul(text));
}

inline FlowEvent event_from(const std::string& text) {
  using Kind = FlowEvent::Kind;
  const auto words = split(text, ' ');
  const std::string& first = words.at(0);
  if (first == "started") {
    FlowEvent event = event_in(Kind::started);
    event.version = 1;
    event.value = "{}";
    return event;
  }
  if (first == "signal") {
    FlowEvent event = event_in(Kind::signal);
    event.signal = words.at(1);
    event.signal_id = words.size() > 2 ? words[2] : "1";
    event.value = '"' + event.signal + " " + event.signal_id + '"';
    return event;
  }
  if (first == "run") return event_in(Kind::timer, number_from(words.at(2)));
  if (first == "timer") return event_in(Kind::timer, number_from(words.at(2)), words.at(1));
  if (first == "admit") return event_in(Kind::admit, number_from(words.at(1)));
  if (first == "rate_retry")
    return event_in(Kind::rate_retry, number_from(words.at(2)), words.at(1));
  if (first == "retried") {
    FlowEvent event = event_in(Kind::retried, number_from(words.at(1)));
    for (std::size_t i = 2; i < words.size(); ++i) {
      const auto equals = words[i].find('=');
      event.voided[words[i].substr(0, equals)] = number_from(words[i].substr(equals + 1));
    }
    return event;
  }
  if (first == "ended") {
    FlowEvent event = event_in(Kind::ended, number_from(words.at(1)));
    event.run_outcome = flow_outcome_from(words.at(2)).value();
    if (event.run_outcome == RunOutcome::failed) event.step = "charge";
    return event;
  }
  FlowEvent event = event_in(Kind::step, number_from(words.at(2)), first);
  event.outcome = flow_outcome_from(words.at(1)).value();
  if (event.outcome == StepOutcome::completed)
    event.value = '"' + first + '"';
  else
    event.error = "it broke";
  return event;
}

// Their sequences are their places in the text, from 1.
inline std::vector<FlowEvent> events_from(const std::string& text) {
  std::vector<FlowEvent> events;
  for (const std::string& part : split(text, ',')) {
    events.push_back(event_from(part));
    events.back().sequence = Sequence{events.size()};
    events.back().at = Time(std::chrono::seconds(events.size()));
  }
  return events;
}

inline RunState folded(const std::vector<FlowEvent>& events) {
  RunState state;
  for (const FlowEvent& event : events) fold(state, event);
  return state;
}

inline const Judge& judge() {
  static const Judge by_word{.of = [](const RunState&) {
    return [](const FlowStep& step, const Judge::Unreached&) { return step.skip_if == "yes"; };
  }};
  return by_word;
}

class ActionWords {
 public:
  explicit ActionWords(const FlowDefinition& definition) : definition_(definition) {}

  std::string operator()(const StartTask& start) const {
    return "start " + id(start.step) + again(start.tries);
  }
  std::string operator()(const RetryTask& retry) const {
    return "retry " + id(retry.step) + " of round " + std::to_string(retry.round) +
           again(retry.tries);
  }
  std::string operator()(const StartWait& wait) const {
    return "arm " + id(wait.step) + " " + std::to_string(wait.n) + " for " +
           duration_text(wait.after) + again(wait.tries);
  }
  std::string operator()(const EndStep& end) const {
    return "end " + id(end.step) + " " + std::to_string(end.n) + " " +
           std::string(to_string(end.outcome)) + again(end.tries);
  }
  std::string operator()(const ArmRunTimer& timer) const {
    return "arm run " + std::to_string(timer.round) + " for " + duration_text(timer.after);
  }
  std::string operator()(const EndRun& end) const {
    return "end run " + std::to_string(end.round) + " " + std::string(to_string(end.outcome)) +
           (end.step.empty() ? "" : " by " + end.step);
  }
  std::string operator()(const CallOff& off) const { return "call off " + id(off.step); }
  std::string operator()(const CallOffTimer& off) const {
    return (off.step ? "call off timer " + id(*off.step) : "call off run timer") + " " +
           std::to_string(off.n);
  }
  std::string operator()(const Finish& finish) const {
    return "finish " + std::to_string(finish.round);
  }

 private:
  const std::string& id(std::size_t step) const { return definition_.steps[step].id; }
  static std::string again(const FlowTries& tries) { return tries == FlowTries{} ? "" : " again"; }

  const FlowDefinition& definition_;
};

inline std::string in_words(const FlowDefinition& definition,
                            const std::vector<FlowAction>& actions) {
  std::string text;
  for (const FlowAction& action : actions)
    text += (text.empty() ? "" : ", ") + std::visit(ActionWords(definition), action);
  return text.empty() ? "nothing" : text;
}

// "charge completed, refund skipped: completed"
inline std::string in_words(const FlowDefinition& definition, const RunStanding& standing) {
  std::string text;
  for (std::size_t i = 0; i < standing.steps.size(); ++i)
    text += (i == 0 ? "" : ", ") + definition.steps[i].id + " " +
            std::string(to_string(standing.steps[i].status));
  return text + ": " + std::string(to_string(standing.phase));
}

}  // namespace once::core::flow_words
