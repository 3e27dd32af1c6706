// What the end of a process says, the same for a program and for the command of a step.
#pragma once

#include <cstring>
#include <string>

namespace once::engine {

inline constexpr int kDataError = 65;    // EX_DATAERR: never try again
inline constexpr int kIoError = 74;      // EX_IOERR: it may have happened
inline constexpr int kSignalBase = 128;  // a shell's way to say that a signal ended a command
inline constexpr int kLastSignal = 64;

// An exit that leaves open whether it happened.
inline bool is_no_verdict(int code) {
  return code == kIoError || (code > kSignalBase && code <= kSignalBase + kLastSignal);
}

inline std::string signal_name(int number) {
  const char* const name = ::sigabbrev_np(number);
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(number);
}

}  // namespace once::engine
