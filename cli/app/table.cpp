// Alignment by characters, not bytes; colours do not count.
#include "cli/app/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "shapes/values.h"

namespace once::cli {
namespace {

constexpr std::size_t kGap = 2;     // between columns
constexpr std::size_t kLeast = 8;   // of a column that is cut
constexpr std::size_t kLabel = 13;  // before a value in once inspect
constexpr std::size_t kIndent = 2;  // of the lines of a block below its first

std::size_t total(const std::vector<std::size_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), std::size_t{0}) + kGap * (widths.size() - 1);
}

// The text of a cell, cut to the width, in its colours.
std::string shown(const Table::Cell& cell, std::size_t width) {
  const std::string text = cut(cell.text, width);
  std::string styled = cell.styled.empty() ? text : cell.styled;
  if (const std::size_t at = styled.find(cell.text); at != std::string::npos) {
    styled.replace(at, cell.text.size(), text);
  }
  return styled;
}

// A title in two lines, broken at the space that makes it narrowest. Without a space, the first line
// is empty.
std::pair<std::string, std::string> broken_title(const std::string& title) {
  std::size_t best = std::string::npos;
  const auto width = [&](std::size_t space) { return std::max(space, title.size() - space - 1); };
  for (std::size_t at = title.find(' '); at != std::string::npos; at = title.find(' ', at + 1)) {
    if (best == std::string::npos || width(at) < width(best)) best = at;
  }
  if (best == std::string::npos) return {"", title};
  return {title.substr(0, best), title.substr(best + 1)};
}

std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return text;
}

}  // namespace

std::string Style::wrap(std::string_view code, std::string_view text) const {
  if (!on_ || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

std::string Style::state(State state) const { return in_state(state, to_string(state)); }

std::string Style::in_state(State state, std::string_view text) const {
  switch (state) {
    case State::completed: return wrap("32", text);
    case State::running: return wrap("36", text);
    case State::retrying: return wrap("33", text);
    case State::in_doubt: return wrap("35", text);
    case State::dead: return wrap("31", text);
    case State::cancelled:
    case State::duplicate: return wrap("2", text);
    case State::scheduled:
    case State::waiting: break;
  }
  return std::string(text);
}

std::string Style::shortened(std::string text, std::size_t bytes) const {
  constexpr std::size_t kLines = 3;
  const std::size_t most = kLines * width_;
  if (display_width(text) <= most || width_ == 0) return text;
  const std::string note = fmt::format(" ({} bytes; --json shows all)", bytes);
  return cut(text, most - std::min(most - 1, note.size() + kLabel)) + note;
}

std::string Style::error_cell(std::string_view error) const {
  while (!error.empty() && (error.back() == '\n' || error.back() == '\r')) error.remove_suffix(1);
  const std::size_t newline = error.rfind('\n');
  if (width_ > 0 && newline != std::string_view::npos) error.remove_prefix(newline + 1);
  return printable(error);
}

std::vector<Table::Row> Table::titles(const Style& style, bool broken) const {
  std::vector<Row> out(broken ? 2 : 1);
  for (const Column& column : columns_) {
    const auto [first, second] =
        broken ? broken_title(column.title) : std::pair(std::string(), column.title);
    if (broken) out.front().emplace_back(first, style.bold(first));
    out.back().emplace_back(second, style.bold(second));
  }
  return out;
}

Table::Widths Table::widths(const std::vector<Row>& titles, std::size_t most) const {
  Widths widths(columns_.size());
  for (const auto* rows : {&titles, &rows_}) {
    for (const Row& row : *rows) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        widths[i] = std::max(widths[i], display_width(row[i].text));
      }
    }
  }
  for (const bool ids : {false, true}) {
    while (most > 0 && total(widths) > most) {
      std::size_t widest = 0;
      for (std::size_t i = 1; i < widths.size(); ++i) {
        if (cuttable(i, ids) && (!cuttable(widest, ids) || widths[i] > widths[widest])) widest = i;
      }
      if (!cuttable(widest, ids) || widths[widest] <= kLeast) break;
      --widths[widest];
    }
  }
  return widths;
}

std::string Table::line(const Row& cells, const Widths& widths) const {
  std::string out;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::size_t width = display_width(cut(cells[i].text, widths[i]));
    const std::string padding(widths[i] - width, ' ');
    const bool right = columns_[i].align == Align::right;
    const bool last = i + 1 == cells.size();
    if (right) out += padding;
    out += shown(cells[i], widths[i]);
    if (!last) {
      if (!right) out += padding;
      out.append(kGap, ' ');
    }
  }
  out.erase(out.find_last_not_of(' ') + 1);  // an empty last cell leaves nothing behind
  return out + '\n';
}

std::string Table::lines(const std::vector<Row>& titles, const Widths& widths) const {
  std::string out;
  for (const auto* rows : {&titles, &rows_}) {
    for (const Row& row : *rows) out += line(row, widths);
  }
  return out;
}

// What the labels of a block and the space around them take.
std::size_t Table::label_width() const {
  std::size_t widest = 0;
  for (const Column& column : columns_) widest = std::max(widest, display_width(column.title));
  return kIndent + widest + kGap;
}

std::string Table::blocks(const Style& style) const {
  const std::size_t before = label_width();
  std::string out;
  for (const Row& row : rows_) {
    if (!out.empty()) out += '\n';
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row[i].text.empty()) continue;
      std::string label(i == 0 ? 0 : kIndent, ' ');
      label += lower_case(columns_[i].title);
      label.append(before - display_width(label), ' ');
      const std::string value = shown(row[i], style.width() - before);
      out += (i == 0 ? style.bold(label) : label) + value + '\n';
    }
  }
  return out;
}

std::string Table::str(const Style& style) const {
  const std::size_t most = style.width();
  const std::vector<Row> plain = titles(style, false);
  const Widths widths = this->widths(plain, most);
  if (most == 0 || total(widths) <= most) return lines(plain, widths);
  const std::vector<Row> broken = titles(style, true);
  const Widths narrower = this->widths(broken, most);
  // On a terminal that is too narrow even for blocks, a table is as good as anything.
  if (total(narrower) <= most || label_width() + kLeast > most) return lines(broken, narrower);
  return blocks(style);
}

std::string title(State state) {
  std::string name(to_string(state));
  for (char& c : name) {
    c = c == '_' ? ' ' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return name;
}

}  // namespace once::cli
