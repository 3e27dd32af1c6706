// What one run of the demo is about: what it was asked for, where its files are, and what its parts
// agree on.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "once/task.h"

namespace once::cli::demo {

using SteadyClock = std::chrono::steady_clock;
using Moment = SteadyClock::time_point;

inline constexpr const char* kQueue = "agents";
inline constexpr const char* kTopic = "blog.write";
// What an agent does for a post, each a durable step that ends with its effect.
inline constexpr std::array kSteps{"research", "write", "push"};

struct Setting {
  Duration length{60'000};             // while this lasts, processes are killed
  Duration work{3'000};                // of one task, about
  std::size_t agents = 7;              // a process each
  std::optional<std::uint64_t> tasks;  // none: as many as there is time for
  std::uint64_t seed{};
  double cost_per_run = 3.5;
  std::string self{};                      // this executable
  std::string folder{};                    // of the run
  std::string url{};                       // of the zone
  std::vector<std::string> environment{};  // of the processes that are started

  std::string events() const { return folder + "/events"; }    // what agents tell the view
  std::string effects() const { return folder + "/effects"; }  // what is counted
  std::string plain_effects() const { return folder + "/plain-effects"; }
  std::string receipts() const { return folder + "/receipts"; }  // what publishers were answered
  std::string errors() const { return folder + "/errors"; }      // standard error of them all
};

// Everything that is left to chance.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t below(std::uint64_t end) { return engine_() % end; }
  bool one_in(std::uint64_t times) { return below(times) == 0; }
  // Between half of it and one and a half.
  Duration about(Duration middle) {
    return middle / 2 + Duration{below(static_cast<std::uint64_t>(middle.count()) + 1)};
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace once::cli::demo
