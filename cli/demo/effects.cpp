#include "cli/demo/effects.h"

#include "cli/demo/lines.h"

namespace once::cli::demo {

Effects effects_in(const std::string& path) {
  Effects effects;
  for (const std::string& line : Tail(path).next()) {
    std::vector<std::string> words = words_of(line);
    words.resize(4);
    ++effects.lines;
    effects.attempts[{words[0], words[1]}].push_back(words[2]);
  }
  return effects;
}

}  // namespace once::cli::demo
