// What every call of Once answers: a value, or an Error that says what happened, what was and was
// not done, and what to do next. Expected answers (a duplicate, a task held by another) are values;
// an Error is a failure.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace once::inline v1 {

enum class Code {
  conflicting_duplicate,  // the id is known with other content; nothing was added
  invalid_input,          // the call can never succeed as it is
  too_large,              // a body or header above the zone's limit
  queue_mismatch,         // the queue exists with another definition
  not_found,              // no such queue, task or record
  wrong_state,            // the task is not where this can be done to it; nothing was changed
  fenced,                 // the task was reclaimed: this worker may not write to it any more
  failed,                 // none of the others; the message says what
  store_unavailable,      // not reachable now (locked, away): the same call later may succeed
  store_unusable,         // reachable and wrong: read-only, full, damaged, newer, not a database
  outcome_unknown,        // it may have happened; the same call again is safe
  timed_out,              // a wait ran out
};

// "conflicting_duplicate", "invalid_input", ... as the command prints them.
std::string_view to_string(Code code);

// Both sides of a refused publish, or of a refused start of a workflow.
struct Conflict {
  std::string id{};                                   // of the task, or of the run that has the key
  std::string key{};                                  // of a run
  std::uint64_t sequence{};                           // of the entry that is in the log
  std::string digest{};                               // "sha256:..." of that entry
  std::string given_digest{};                         // "sha256:..." of what was refused
  std::optional<std::vector<std::string>> differs{};  // "$.amount", ...; none: the body is retired
};

struct Error {
  Code code{};
  std::string message{};
  bool retryable = false;                      // the same call may succeed later
  bool in_doubt = false;                       // it may have been done
  std::shared_ptr<const Conflict> conflict{};  // shared so that an Error stays cheap to copy
};

// Thrown by Result::value() on a failure.
class Failure : public std::exception {
 public:
  explicit Failure(Error error) : error_(std::move(error)) {}
  const char* what() const noexcept override { return error_.message.c_str(); }
  const Error& error() const noexcept { return error_; }

 private:
  Error error_;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const noexcept { return state_.index() == 0; }
  T& value() & { return checked(), std::get<0>(state_); }
  const T& value() const& { return checked(), std::get<0>(state_); }
  T value() && { return checked(), std::move(std::get<0>(state_)); }
  // Only when there is a value.
  T& operator*() { return std::get<0>(state_); }
  const T& operator*() const { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  // Only when there is none.
  const Error& error() const { return std::get<1>(state_); }

 private:
  void checked() const {
    if (state_.index() != 0) throw Failure(std::get<1>(state_));
  }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  explicit operator bool() const noexcept { return !error_; }
  void value() const {
    if (error_) throw Failure(*error_);
  }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace once::inline v1
