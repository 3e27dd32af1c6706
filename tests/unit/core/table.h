// Tables in text, so that they can be read next to the ones at the top of src/core/decide.cpp. A
// cell names the verdict and, after an arrow, the state that is written; without an arrow nothing
// is.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "core/decide.h"

namespace once::core::examples {

inline std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(' ');
  return first == std::string::npos ? ""
                                    : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

inline std::vector<std::vector<std::string>> rows_of(const std::string& table) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    if (trimmed(line).empty()) continue;
    std::istringstream cells(line);
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, '|');) rows.back().push_back(trimmed(cell));
  }
  return rows;
}

inline std::string in_words(const Decision& made) {
  std::string text{to_string(made.verdict)};
  if (made.next) text += " -> " + std::string(to_string(made.next->state));
  return text;
}

}  // namespace once::core::examples
