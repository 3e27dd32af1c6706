// Alignment by characters, not bytes; colours do not count.
#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/values.h"

namespace once::cli {

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

std::string Table::str(const Style& style) const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(display_width(column.title));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i].text));
    }
  }
  std::string out;
  auto print = [&](const std::vector<Cell>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string padding(widths[i] - display_width(cells[i].text), ' ');
      const std::string& shown = cells[i].styled.empty() ? cells[i].text : cells[i].styled;
      const bool right = columns_[i].align == Align::right;
      const bool last = i + 1 == cells.size();
      if (right) out += padding;
      out += shown;
      if (!last) {
        if (!right) out += padding;
        out += "  ";
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
