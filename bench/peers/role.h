// What the programs of Once share that play a role of bench/compare/role.py: the lines that they speak with the
// driver, the files that the driver wrote, and the effects that they count.
#pragma once

#include <fcntl.h>
#include <once/once.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace bench {

using SteadyClock = std::chrono::steady_clock;
using Options = std::map<std::string, std::string>;

// The words `--name value` from argv[2] on.
inline Options options_of(int argc, char** argv) {
  Options options;
  for (int i = 2; i + 1 < argc; i += 2)
    options[std::string(argv[i]).substr(2)] = argv[i + 1];  // without its dashes
  return options;
}

inline double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

inline std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

inline bool heard(std::string_view word) {
  std::string line;
  while (std::getline(std::cin, line))
    if (line == word) return true;
  return false;
}

inline void say(const std::string& json) { std::cout << json << std::endl; }

inline once::Zone open(const Options& options) {
  return once::Zone::open(options.at("url")).value();
}

// The queue with the lease and the in-doubt policy that the driver asks for.
inline once::Queue with_options(once::Queue queue, const Options& options) {
  if (options.contains("lease")) queue.lease = once::Duration{std::stol(options.at("lease"))};
  if (options.contains("policy")) {
    if (options.at("policy") == "hold") queue.in_doubt = once::InDoubt::hold;
    queue.window = 0;  // otherwise more effects are in flight than there are handlers
  }
  return queue;
}

// How often each id of the file `--ids` ran. With `--effects`, each effect is also a line of that file.
class Effects {
 public:
  explicit Effects(const Options& options)
      : file_(options.contains("effects")
                  ? ::open(options.at("effects").c_str(), O_WRONLY | O_APPEND | O_CREAT, 0644)
                  : -1) {
    for (const std::string& line : lines_of(options.at("ids")))
      runs_.try_emplace(line.substr(line.find(' ') + 1), 0);  // the whole line when it is an id
  }
  Effects(const Effects&) = delete;
  Effects& operator=(const Effects&) = delete;
  ~Effects() {
    if (file_ >= 0) ::close(file_);
  }

  void add(const std::string& id) {
    if (file_ >= 0) {
      const std::string line = id + "\n";
      if (::write(file_, line.data(), line.size()) != std::ssize(line)) std::abort();
    }
    if (runs_.find(id)->second++ == 0) ++ran_;
  }

  std::size_t ids() const { return runs_.size(); }
  std::size_t ran() const { return ran_; }
  // The members `never` and `twice` of a worker's answer.
  std::string json() const {
    std::size_t twice = 0;
    for (const auto& [id, count] : runs_) twice += count > 1 ? 1U : 0U;
    std::ostringstream text;
    text << R"("never":)" << runs_.size() - ran_ << R"(,"twice":)" << twice;
    return text.str();
  }

 private:
  const int file_;
  std::unordered_map<std::string, std::atomic<int>> runs_;
  std::atomic<std::size_t> ran_{0};
};

// Says what the ledger records of the queue.
inline void audit(const Options& options) {
  auto zone = open(options);
  say(R"({"ready":true})");
  if (!heard("go")) return;
  const auto audit =
      zone.audit({.by = once::AuditOptions::Period::all, .queue = options.at("queue")}).value();
  once::Totals totals;
  for (const once::AuditLine& line : audit.lines) totals.add(line.totals);
  std::ostringstream answer;
  answer << R"({"completed":)" << totals.in(once::State::completed) << R"(,"in_doubt":)"
         << totals.in(once::State::in_doubt) << R"(,"completed_twice":)" << totals.completed_twice
         << R"(,"reruns":)" << totals.all_reruns() << R"(,"unexplained":)"
         << totals.rerun(once::Rerun::unexplained) + audit.discrepancies.size() + audit.unlisted
         << "}";
  say(answer.str());
}

}  // namespace bench
