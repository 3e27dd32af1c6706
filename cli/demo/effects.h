// What the agents did outside: a line `TASK STEP ATTEMPT WORKER` per effect.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace once::cli::demo {

struct Effects {
  std::uint64_t lines{};
  // By task and step, the attempts that wrote its lines, in their order.
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> attempts{};

  // Lines of a step that had its line already.
  std::uint64_t again() const { return lines - attempts.size(); }
};

Effects effects_in(const std::string& path);

}  // namespace once::cli::demo
