#include "cli/demo/diary.h"

namespace once::cli::demo {
namespace {
constexpr std::size_t kRemembered = 50;  // more than a terminal has lines for
}

double Diary::seconds() const {
  return std::chrono::duration<double>(SteadyClock::now() - start_).count();
}

void Diary::say(std::string text) {
  entries_.push_back({seconds(), std::move(text)});
  if (entries_.size() > kRemembered) entries_.pop_front();
  if (told_) told_(entries_.back());
}

}  // namespace once::cli::demo
