// Which picture fits, what the labels say, and the same in DOT.
#include "cli/flow/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/flow/picture.h"
#include "cli/flow/print.h"
#include "shapes/values.h"

namespace once::cli {
namespace {

constexpr std::size_t kWidth = 120;      // of what is no terminal
constexpr std::size_t kMostDrawn = 100;  // steps; more are no picture that anybody could read

// The steps of a run by name.
class Looks {
 public:
  explicit Looks(const RunView* run) {
    if (run == nullptr) return;
    for (const RunStep& step : run->steps) looks_.emplace(step.step, look_of(step));
  }
  const StepLook* find(const std::string& step) const {
    const auto found = looks_.find(step);
    return found == looks_.end() ? nullptr : &found->second;
  }

 private:
  std::map<std::string, StepLook> looks_;
};

std::string name_of(const FlowView::Step& step) {
  return step.kind == StepKind::task ? step.step
                                     : fmt::format("{} ({})", step.step, to_string(step.kind));
}

FlowLabel label_of(const FlowView::Step& step, const StepLook* look, const Style& style) {
  if (look == nullptr) return {name_of(step), style.bold(name_of(step))};
  std::string text = fmt::format("{} {}", look->mark, name_of(step));
  std::string styled = style.in_state(look->colour, text);
  return {std::move(text), std::move(styled)};
}

std::optional<std::string> picture(const FlowView& flow, const Looks& looks, const Style& style,
                                   std::size_t width) {
  if (flow.steps.size() > kMostDrawn) return {};
  std::vector<FlowLabel> labels;
  for (const FlowView::Step& step : flow.steps)
    labels.push_back(label_of(step, looks.find(step.step), style));
  const FlowLayers layers = layers_of(flow);
  for (FlowWay way : {FlowWay::right, FlowWay::right_wide, FlowWay::down})
    if (auto drawn = picture_of(layers, labels, way); drawn && drawn->width <= width)
      return std::move(drawn->text);
  return {};
}

// What leads to each step, where there is no room for lines.
std::string listing(const FlowView& flow, const Looks& looks, const Style& style) {
  std::map<std::string, std::vector<std::string>> handled;
  for (const FlowView::Step& step : flow.steps)
    if (!step.on_failure.empty()) handled[step.on_failure].push_back(step.step);
  Table table({{"STEP"}, {"AFTER"}, {"ON FAILURE OF"}});
  for (const FlowView::Step& step : flow.steps) {
    const FlowLabel label = label_of(step, looks.find(step.step), style);
    table.row({Table::Cell(label.text, label.styled),
               fmt::format("{}", fmt::join(step.depends_on, ", ")),
               fmt::format("{}", fmt::join(handled[step.step], ", "))});
  }
  return table.str(style);
}

// What occurs, in words: the marks, and in a picture the other kind of line.
std::string legend(const FlowView& flow, const Looks& looks, const Style& style, bool drawn) {
  std::vector<std::string> words;
  bool failures = false;
  for (const FlowView::Step& step : flow.steps) {
    failures = failures || (drawn && !step.on_failure.empty());
    const StepLook* look = looks.find(step.step);
    if (look == nullptr) continue;
    std::string word = look_text(*look, style);
    if (std::find(words.begin(), words.end(), word) == words.end())
      words.push_back(std::move(word));
  }
  if (failures) words.push_back("┄▶ on failure");
  return words.empty() ? "" : fmt::format("\n{}\n", fmt::join(words, "   "));
}

std::string heading(const FlowView& flow, const RunView* run, const Style& style) {
  const std::string workflow = fmt::format("{} version {}", flow.workflow, flow.version);
  if (run == nullptr) return style.bold(workflow) + "\n\n";
  return fmt::format("{}  {}  {}\n\n", style.bold(printable(run->info.run)), workflow,
                     look_text(look_of(run->info.state), style));
}

// Within the quotes of DOT a backslash begins an escape.
std::string escaped(std::string_view text) {
  std::string out;
  for (char c : printable(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}
std::string dot_quoted(std::string_view text) { return fmt::format("\"{}\"", escaped(text)); }
std::string dot_quoted_lines(std::vector<std::string> lines) {
  for (std::string& line : lines) line = escaped(line);
  return fmt::format("\"{}\"", fmt::join(lines, "\\n"));
}

std::string_view fill_of(const StepLook* look) {
  if (look == nullptr) return "white";
  switch (look->colour) {
    case State::completed: return "palegreen";
    case State::dead: return "lightcoral";
    case State::running: return "lightskyblue";
    case State::retrying: return "khaki";
    case State::in_doubt: return "plum";
    case State::cancelled:
    case State::duplicate: return "lightgrey";
    case State::scheduled:
    case State::waiting: break;
  }
  return "white";
}

}  // namespace

std::string graph_text(const FlowView& flow, const RunView* run, const Style& style,
                       std::size_t width) {
  const Looks looks(run);
  auto drawn = picture(flow, looks, style, width == 0 ? kWidth : width);
  return heading(flow, run, style) + (drawn ? *drawn : listing(flow, looks, style)) +
         legend(flow, looks, style, drawn.has_value());
}

std::string graph_dot(const FlowView& flow, const RunView* run) {
  const Looks looks(run);
  std::string out = fmt::format("digraph {} {{\n", dot_quoted(run ? run->info.run : flow.workflow));
  out += "  rankdir=LR;\n  node [shape=box, style=\"rounded,filled\", fillcolor=white];\n";
  for (const FlowView::Step& step : flow.steps) {
    const StepLook* look = looks.find(step.step);
    std::vector<std::string> lines{step.step,
                                   fmt::format("{} {}", to_string(step.kind), step.detail)};
    if (look != nullptr) lines.push_back(look_text(*look, Style(false)));
    out += fmt::format("  {} [label={}, fillcolor={}];\n", dot_quoted(step.step),
                       dot_quoted_lines(lines), fill_of(look));
  }
  for (const FlowView::Step& step : flow.steps) {
    for (const std::string& from : step.depends_on)
      out += fmt::format("  {} -> {};\n", dot_quoted(from), dot_quoted(step.step));
    if (!step.on_failure.empty())
      out += fmt::format("  {} -> {} [style=dashed, label=\"on failure\"];\n",
                         dot_quoted(step.step), dot_quoted(step.on_failure));
  }
  return out + "}\n";
}

}  // namespace once::cli
