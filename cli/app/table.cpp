// Alignment by characters, not bytes; colours do not count.
#include "cli/app/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cli/app/values.h"

namespace once::cli {
namespace {

constexpr std::size_t kGap = 2;     // between columns
constexpr std::size_t kLeast = 8;   // of a column that is cut
constexpr std::size_t kLabel = 13;  // before a value in once inspect

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

std::vector<std::size_t> Table::widths(std::size_t most) const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(display_width(column.title));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i].text));
    }
  }
  const auto over = [&] {
    return most > 0 && std::accumulate(widths.begin(), widths.end(), std::size_t{0}) +
                               kGap * (widths.size() - 1) >
                           most;
  };
  for (const bool ids : {false, true}) {
    while (over()) {
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

std::string Table::str(const Style& style) const {
  const std::vector<std::size_t> widths = this->widths(style.width());
  std::string out;
  auto print = [&](const std::vector<Cell>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string text = cut(cells[i].text, widths[i]);
      std::string shown = cells[i].styled.empty() ? text : cells[i].styled;
      if (const std::size_t at = shown.find(cells[i].text); at != std::string::npos) {
        shown.replace(at, cells[i].text.size(), text);
      }
      const std::string padding(widths[i] - display_width(text), ' ');
      const bool right = columns_[i].align == Align::right;
      const bool last = i + 1 == cells.size();
      if (right) out += padding;
      out += shown;
      if (!last) {
        if (!right) out += padding;
        out.append(kGap, ' ');
      }
    }
    out.erase(out.find_last_not_of(' ') + 1);  // an empty last cell leaves nothing behind
    out += '\n';
  };
  std::vector<Cell> titles;
  for (const Column& column : columns_) titles.emplace_back(column.title, style.bold(column.title));
  print(titles);
  for (const auto& row : rows_) print(row);
  return out;
}

std::string title(State state) {
  std::string name(to_string(state));
  for (char& c : name) {
    c = c == '_' ? ' ' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return name;
}

}  // namespace once::cli
