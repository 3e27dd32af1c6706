// Every call of Once that can fail returns a Result, which holds a value or an Error.
// The Error says what happened, what Once did and did not do, and what the caller can do next.
// Expected outcomes, such as a duplicate or a held task, are values. An Error is always a failure.
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
  conflicting_duplicate,  // the id exists with other content; nothing was added
  invalid_input,          // the same call can never succeed
  too_large,              // a body or header exceeds the zone's limit
  queue_mismatch,         // the queue exists with another definition
  not_found,              // no such queue, task or record
  wrong_state,            // the state does not allow the operation; nothing was changed
  fenced,                 // another worker claimed the task; this worker must not write to it
  failed,                 // any other failure; see the message
  store_unavailable,      // locked or not reachable now; the same call may succeed later
  store_unusable,         // read-only, full, damaged, too new, or not a database
  outcome_unknown,        // the call may have succeeded; repeating the call is safe
  timed_out,              // the time limit of a wait expired
};

// Returns the name that the `once` command prints, such as "conflicting_duplicate".
std::string_view to_string(Code code);

// Both sides of a refused publish, or of a refused start of a run.
struct Conflict {
  std::string id{};                                   // of the task, or of the run that has the key
  std::string key{};                                  // idempotency key of the run
  std::uint64_t sequence{};                           // of the entry in the log
  std::string digest{};                               // "sha256:..." of the entry in the log
  std::string given_digest{};                         // "sha256:..." of the refused content
  std::optional<std::vector<std::string>> differs{};  // "$.amount"; nullopt if the body is retired
};

struct Error {
  Code code{};
  std::string message{};
  bool retryable = false;                      // the same call may succeed later
  bool in_doubt = false;                       // the call may have succeeded
  std::shared_ptr<const Conflict> conflict{};  // shared to keep copies of an Error cheap
};

// Result::value() throws a Failure if the result holds an Error.
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
  // Call these only if the result holds a value.
  T& operator*() { return std::get<0>(state_); }
  const T& operator*() const { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  // Call this only if the result holds an Error.
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
