// What happened, in order: the view shows the end of it, plain output each line as it comes.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "cli/demo/setting.h"

namespace once::cli::demo {

class Diary {
 public:
  struct Entry {
    double second{};  // since the beginning
    std::string text{};
  };

  explicit Diary(std::function<void(const Entry&)> told) : told_(std::move(told)) {}
  void say(std::string text);
  double seconds() const;                                     // since the beginning
  const std::deque<Entry>& last() const { return entries_; }  // the newest at the end

 private:
  std::function<void(const Entry&)> told_;
  Moment start_ = SteadyClock::now();
  std::deque<Entry> entries_;
};

}  // namespace once::cli::demo
