// One child process that dies with its parent: its output is kept, and passed on as it comes.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "exec/head.h"
#include "store/file_descriptor.h"

namespace once::engine {

// Keeps the signals that ask to stop, for as long as it lives, to be read and not to be died of.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  int descriptor() const { return descriptor_.get(); }
  struct Signal {
    int number = 0;
    pid_t sender = 0;
  };
  std::optional<Signal> next() const;  // SIGCHLD too; none: there is none now
  std::optional<int> pending_stop() const;
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_{};
  store::FileDescriptor descriptor_{};
};

class StepProcess {
 public:
  struct Options {
    std::string path{};
    std::vector<std::string> arguments{};
    std::vector<std::string> variables{};
    std::uint64_t limit{};    // of its output, see Head
    bool passes_on = true;    // the output, as it comes
    bool reads_input = true;  // false: it finds its standard input empty
  };
  struct End {
    int start_error = 0;  // errno: it never ran
    int status = 0;       // as wait() says
    Head output;
    int output_error = 0;             // errno of passing it on
    std::optional<int> stopped_by{};  // a signal that was passed on to it
  };
  StepProcess(const HeldSignals& signals, const Options& options)
      : signals_(signals), options_(options), end_{.output = Head(options.limit)} {}
  End run();

 private:
  bool start();
  [[noreturn]] void become(pid_t parent, int output, int failure, char* const* arguments,
                           char* const* variables) const;
  void watch();
  void take_signals();
  bool read_some();
  void pass_some_on();

  const HeldSignals& signals_;
  const Options& options_;
  pid_t pid_ = -1;
  bool exited_ = false;
  store::FileDescriptor output_{};
  std::string waiting_{};  // read and not yet passed on
  End end_;
};

// Writes all of it to standard output; errno, or zero.
int write_out(std::string_view bytes);

}  // namespace once::engine
