// What people read: aligned columns, and colour where a terminal shows it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "once/view.h"

namespace once::cli {

class Output;

// Colour or nothing, and how wide the terminal is.
class Style {
 public:
  explicit Style(bool on, std::size_t width = 0) : on_(on), width_(width) {}
  // Columns of the terminal. Zero if the output is no terminal: then nothing is cut.
  std::size_t width() const { return width_; }
  // At most a few lines of a terminal, then how many `bytes` there are; elsewhere all of the text.
  std::string shortened(std::string text, std::size_t bytes) const;
  // An error for a table's cell. A terminal shows the last line, which says most.
  std::string error_cell(std::string_view error) const;
  std::string bold(std::string_view text) const { return wrap("1", text); }
  std::string dim(std::string_view text) const { return wrap("2", text); }
  std::string state(State state) const;  // its name, in its colour
  std::string in_state(State state, std::string_view text) const;

 private:
  std::string wrap(std::string_view code, std::string_view text) const;
  bool on_;
  std::size_t width_;
};

// A state as a column's title.
std::string title(State state);

class Table {
 public:
  enum class Align { left, right };
  struct Column {
    std::string title{};
    Align align = Align::left;
    bool id = false;  // what a person copies: cut after the other columns
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
  // Fits into the terminal's width. If cutting left-aligned columns is not enough, titles are broken into
  // two lines. If that is not enough either, each row becomes a block of lines, so that no number
  // is cut.
  std::string str(const Style& style) const;

 private:
  using Row = std::vector<Cell>;
  using Widths = std::vector<std::size_t>;

  std::vector<Row> titles(const Style& style, bool broken) const;
  Widths widths(const std::vector<Row>& titles, std::size_t most) const;
  std::string line(const Row& cells, const Widths& widths) const;
  std::string lines(const std::vector<Row>& titles, const Widths& widths) const;
  std::size_t label_width() const;
  std::string blocks(const Style& style) const;
  bool cuttable(std::size_t column, bool ids) const {
    return columns_[column].align == Align::left && columns_[column].id == ids;
  }

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace once::cli
