// What people read: aligned columns, and colour where a terminal shows it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "once/view.h"

namespace once::cli {

class Output;

// Colour or nothing.
class Style {
 public:
  explicit Style(bool on) : on_(on) {}
  std::string bold(std::string_view text) const { return wrap("1", text); }
  std::string dim(std::string_view text) const { return wrap("2", text); }
  std::string state(State state) const;  // its name, in its colour
  std::string in_state(State state, std::string_view text) const;

 private:
  std::string wrap(std::string_view code, std::string_view text) const;
  bool on_;
};

// A state as a column's title.
std::string title(State state);

class Table {
 public:
  enum class Align { left, right };
  struct Column {
    std::string title{};
    Align align = Align::left;
  };
  struct Cell {
    Cell(std::string shown) : text(std::move(shown)) {}
    Cell(std::string plain, std::string shown) : text(std::move(plain)), styled(std::move(shown)) {}
    std::string text;      // what counts for the width
    std::string styled{};  // what is printed; empty: text
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void row(std::vector<Cell> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  std::string str(const Style& style) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace once::cli
