// once-sim: runs seeds until one breaks a promise, and tells how.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "simulation/simulation.h"

namespace once::sim {
namespace {

constexpr const char* kUsage =
    "Usage: once-sim [--flows | --pullers] [--seeds N] [--from SEED] [--expect-violation PROMISE]\n"
    "       once-sim [--flows | --pullers] --seed SEED [--trace]\n"
    "\n"
    "Simulates publishers, workers and people over a store on which everything goes wrong, and "
    "checks\n"
    "the promises P1 to P6, and F1 to F7 of workflows. A seed gives the same run each time.\n"
    "\n"
    "  --flows                     workflows in every seed; another run each\n"
    "  --pullers                   consumers in every seed, over a network that loses calls\n"
    "  --seeds N                   how many seeds (default 1000)\n"
    "  --from SEED                 the first one (default 1)\n"
    "  --seed SEED                 this one only\n"
    "  --trace                     print everything that happens\n"
    "  --expect-violation PROMISE  the first promise that is broken must be this one (P5), and "
    "one\n"
    "                              must be: for mutants\n";

using Detail = Trace::Detail;

struct Options {
  With with = With::nothing;
  std::uint64_t from = 1;
  std::uint64_t seeds = 1000;
  bool one = false;
  bool trace = false;
  std::string expected{};  // the promise that must be broken; empty: none may be
};

struct Run {
  std::uint64_t hash{};
  std::uint64_t steps{};
  std::optional<std::string> violation{};
};

// A run that broke a promise is left as it stands: its fibers are in the middle of something.
Run run_seed(std::uint64_t seed, Trace::Detail detail, With with) {
  auto simulation = std::make_unique<Simulation>(seed, detail, with);
  simulation->run();
  const Run run{simulation->trace().hash(), simulation->steps(), simulation->violation()};
  for (const std::string& line : simulation->trace().lines()) std::printf("%s\n", line.c_str());
  if (run.violation) static_cast<void>(simulation.release());
  return run;
}

int tell(std::uint64_t seed, const std::string& violation, With with) {
  std::printf("seed %llu breaks a promise; its last events:\n\n",
              static_cast<unsigned long long>(seed));
  static_cast<void>(run_seed(seed, Detail::short_end, with));
  std::printf("\n%s\nreplay: once-sim%s --seed %llu --trace\n", violation.c_str(),
              with == With::flows     ? " --flows"
              : with == With::pullers ? " --pullers"
                                      : "",
              static_cast<unsigned long long>(seed));
  return 1;
}

int run_all(const Options& options) {
  const auto began = std::chrono::steady_clock::now();
  std::uint64_t steps = 0;
  for (std::uint64_t seed = options.from; seed < options.from + options.seeds; ++seed) {
    const Run run = run_seed(seed, Detail::none, options.with);
    steps += run.steps;
    if (run.violation && !options.expected.empty()) {
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), run.violation->c_str());
      if (run.violation->starts_with(options.expected + ':')) return 0;
      std::printf("expected was a violation of %s\n", options.expected.c_str());
      return 1;
    }
    if (run.violation) return tell(seed, *run.violation, options.with);
    if ((seed - options.from) % 500 == 0 &&
        run_seed(seed, Detail::none, options.with).hash != run.hash) {
      std::printf("seed %llu does not run the same way twice\n",
                  static_cast<unsigned long long>(seed));
      return 1;
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  std::printf(
      "%llu seeds from %llu: no promise was broken; %.0f seeds per second, %llu steps each\n",
      static_cast<unsigned long long>(options.seeds), static_cast<unsigned long long>(options.from),
      static_cast<double>(options.seeds) / took.count(),
      static_cast<unsigned long long>(steps / options.seeds));
  return options.expected.empty() ? 0 : 1;
}

int run_one(const Options& options) {
  const Run run =
      run_seed(options.from, options.trace ? Detail::everything : Detail::none, options.with);
  std::printf(
      "seed %llu: %s (hash %016llx, %llu steps)\n", static_cast<unsigned long long>(options.from),
      run.violation ? run.violation->c_str() : "no promise was broken",
      static_cast<unsigned long long>(run.hash), static_cast<unsigned long long>(run.steps));
  return run.violation ? 1 : 0;
}

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--trace") {
      options.trace = true;
    } else if (word == "--flows") {
      options.with = With::flows;
    } else if (word == "--pullers") {
      options.with = With::pullers;
    } else if (word == "--expect-violation" && i + 1 < argc) {
      options.expected = argv[++i];
    } else if ((word == "--seeds" || word == "--from" || word == "--seed") && i + 1 < argc) {
      char* end = nullptr;
      const std::uint64_t value = std::strtoull(argv[++i], &end, 10);
      if (end == argv[i] || *end != '\0') return false;
      (word == "--seeds" ? options.seeds : options.from) = value;
      if (word == "--seed") options.one = true;
    } else {
      return false;
    }
  }
  return options.seeds > 0;
}

}  // namespace
}  // namespace once::sim

int main(int argc, char** argv) {
  once::sim::Options options;
  if (!once::sim::parse(argc, argv, options)) {
    std::fputs(once::sim::kUsage, stderr);
    return 2;
  }
  const int status = options.one ? once::sim::run_one(options) : once::sim::run_all(options);
  std::fflush(stdout);
  // What a broken run left behind is no leak worth telling of.
  if (status == 1 || !options.expected.empty()) _exit(status);
  return status;
}
