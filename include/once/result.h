// Every call of Once that can fail returns a Result, which holds a value or an Error.
// The Error says what happened, what Once did and did not do, and what the caller can do next.
// Expected outcomes, such as a duplicate or a held task, are values. An Error is always a failure.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
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
  overloaded,             // too many asynchronous publishes wait; nothing was published
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

// Why a call failed, finer than Code. An Error has a reason if the caller can act on it. Behind
// each reason stand the names of the facts that the Error has.
enum class Reason {
  none,
  no_database,               // database: the file does not exist
  no_zone,                   // zone: the NATS server has no such zone
  no_queue,                  // queue
  no_workflow,               // workflow
  no_run,                    // run: unknown, or ended and forgotten
  no_queue_for_step,         // step, topic, queue: no queue takes the task of the step yet
  no_step_in_doubt,          // task, queue, step: the task has no such step, or it is not in doubt
  queue_differs,             // queue, set.NAME for each setting to change, pause, fixed
  queue_not_empty,           // queue, tasks
  queue_belongs_to_flows,    // queue
  queue_is_ledger_only,      // queue: no worker can run on it
  queue_is_not_ledger_only,  // queue: a LedgerClient cannot use it
  stream_needs_nats,         // queue, stream
  stream_replaced,           // queue, stream
  login_in_address,
  result_too_large,      // queue, limit
  result_incomplete,     // task, queue
  key_outlives_records,  // workflow, key_ttl
  run_cannot_begin,      // run, event
  run_failed,            // run: the failed run has the key
  claim_not_started,     // the claim is only offered
  step_under_way,        // step: another call has begun the step in this attempt
  step_cannot_repeat,    // run, step: the failed step of the run can never run again
  no_valid_token,        // a server knows no such token, or the request has none
  not_permitted,         // token, needs: the token does not permit the request
};

// Returns the name of the reason, such as "no_queue". A name never changes its meaning.
std::string_view to_string(Reason reason);

// Named values, such as queue = "mail". Copies share the values, so a copy is cheap.
class Facts {
 public:
  struct Fact {
    std::string name{};
    std::string value{};
  };

  Facts() = default;
  Facts(std::initializer_list<Fact> facts) : Facts(std::vector<Fact>(facts)) {}
  explicit Facts(std::vector<Fact> facts)
      : facts_(std::make_shared<const std::vector<Fact>>(std::move(facts))) {}

  bool empty() const { return all().empty(); }
  auto begin() const { return all().begin(); }
  auto end() const { return all().end(); }
  // Returns the value, or an empty text if there is no such fact.
  std::string_view operator[](std::string_view name) const;
  // Returns `text` with the value of the fact in place of each {name}. A part in [brackets] is left
  // out if a fact in it is empty.
  std::string fill(std::string_view text) const;

 private:
  const std::vector<Fact>& all() const;
  std::shared_ptr<const std::vector<Fact>> facts_;
};

struct Error {
  Code code{};
  std::string message{};
  bool retryable = false;                      // the same call may succeed later
  bool in_doubt = false;                       // the call may have succeeded
  std::shared_ptr<const Conflict> conflict{};  // shared to keep copies of an Error cheap
  Reason reason = Reason::none;
  Facts facts{};
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
class Result;

namespace detail {
template <class T>
inline constexpr bool is_result = false;
template <class T>
inline constexpr bool is_result<Result<T>> = true;
}  // namespace detail

// The result of a call: a value or an Error. The caller must look at it, or the compiler warns.
//
//   if (!receipt) return receipt.error();      // the usual way
//   const Receipt got = receipt.value();       // throws Failure instead
//   const auto text = Body::json(input).and_then([](const Body& body) { return body.at("a.b"); });
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const noexcept { return state_.index() == 0; }
  // Returns the value. Throws a Failure if the result holds an Error.
  T& value() & { return checked(), std::get<0>(state_); }
  const T& value() const& { return checked(), std::get<0>(state_); }
  T value() && { return checked(), std::move(std::get<0>(state_)); }
  // Returns the value, or `otherwise` if the result holds an Error.
  template <class U>
  T value_or(U&& otherwise) const& {
    return *this ? **this : static_cast<T>(std::forward<U>(otherwise));
  }
  template <class U>
  T value_or(U&& otherwise) && {
    return *this ? std::move(**this) : static_cast<T>(std::forward<U>(otherwise));
  }
  // Calls `f` with the value and returns the Result that `f` returns. If this result holds an
  // Error, and_then() returns that Error and does not call `f`.
  template <class F>
  auto and_then(F&& f) const& -> std::remove_cvref_t<std::invoke_result_t<F, const T&>> {
    static_assert(detail::is_result<std::remove_cvref_t<std::invoke_result_t<F, const T&>>>,
                  "the function of and_then() must return a Result");
    if (!*this) return error();
    return std::invoke(std::forward<F>(f), **this);
  }
  template <class F>
  auto and_then(F&& f) && -> std::remove_cvref_t<std::invoke_result_t<F, T>> {
    static_assert(detail::is_result<std::remove_cvref_t<std::invoke_result_t<F, T>>>,
                  "the function of and_then() must return a Result");
    if (!*this) return error();
    return std::invoke(std::forward<F>(f), std::move(**this));
  }
  // The same as and_then(), for a function that returns a plain value and cannot fail.
  template <class F>
  auto transform(F&& f) const& -> Result<std::remove_cvref_t<std::invoke_result_t<F, const T&>>> {
    if (!*this) return error();
    return std::invoke(std::forward<F>(f), **this);
  }
  template <class F>
  auto transform(F&& f) && -> Result<std::remove_cvref_t<std::invoke_result_t<F, T>>> {
    if (!*this) return error();
    return std::invoke(std::forward<F>(f), std::move(**this));
  }
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

// The result of a call that has nothing to return: success or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  explicit operator bool() const noexcept { return !error_; }
  void value() const {
    if (error_) throw Failure(*error_);
  }
  // Calls `f` without an argument and returns the Result that `f` returns. If this result holds an
  // Error, and_then() returns that Error and does not call `f`.
  template <class F>
  auto and_then(F&& f) const -> std::remove_cvref_t<std::invoke_result_t<F>> {
    static_assert(detail::is_result<std::remove_cvref_t<std::invoke_result_t<F>>>,
                  "the function of and_then() must return a Result");
    if (error_) return *error_;
    return std::invoke(std::forward<F>(f));
  }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace once::inline v1
