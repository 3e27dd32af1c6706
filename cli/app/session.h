// One run of the command: the global options, the output, opening the zone, and how a failure
// becomes a message and an exit status.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/app/output.h"
#include "cli/app/table.h"
#include "once/zone.h"

namespace once::cli {

class JsonLine;

// The exit status. Scripts depend on these numbers.
enum Exit : int {
  kDone = 0,
  kFailed = 1,
  kUsage = 2,
  kConflict = 3,
  kFound = 4,  // audit or doctor found something
  kStore = 5,
  kNotFound = 6,
  kUnknown = 7,     // outcome unknown, or a wait ran out
  kNotClaimed = 8,  // done before, held by another, not due
};
Exit exit_of(const Error& error);

// What open() does if the store does not exist. Commands that do not define queues or workflows
// create a file, but no zone on a server. There, a missing zone most likely means that the server
// lost its data. With `await`, open() returns not_found, and a service waits for the store
// (patience.h).
enum class Missing { create, create_file, create_file_or_await, refuse, await };
// How long the command uses the zone. A command that stays longer prints the events of its
// connection. `to_examine` also opens a zone whose settings could lose tasks.
enum class Stays { briefly, longer, to_examine };
// Whether the store cannot be reached now and nothing was done. A command that stays longer tries
// again.
bool away(const Error& error);

class Session {
 public:
  std::string store{};  // --store; see url()
  NatsLogin nats{};     // --creds and similar options; open() adds those of the environment
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  std::vector<std::string> program{};  // the words after `--`
  std::function<int()> command{};      // the command that was parsed
  Output out{1};
  mutable bool opened = false;  // a store answered: an error about what is missing names it

  std::string url() const;           // --store, else $ONCE_STORE, else once.db
  std::string absolute_url() const;  // the same, valid in every working directory
  bool on_server() const;            // whether the store is a NATS server
  // Opens the zone. A missing database is an error of the store and not not_found, except with
  // `await`.
  Result<Zone> open(Missing missing, Stays stays = Stays::briefly) const;

  Style style() const;
  // Prints one line on standard error, with --json also an object on standard output. Returns the
  // exit status.
  int fail(const Error& error);
  // The same. The object begins with the fields of `about`.
  int fail(const Error& failed, JsonLine about);
  int usage(std::string message);  // fail() with invalid_input
  // Prints what was done on standard output, for people. Prints nothing with -q.
  void say(std::string_view text);
  // Prints a hint on standard error, for people. Prints nothing with -q.
  void hint(std::string_view text) const;
  // Ends the run. Returns a failure if standard output could not be written.
  int finish(int status);
};

// The fields of a failure, with those of a conflict when it is one. The message has the advice.
JsonLine& add_error(JsonLine& line, const Error& error);

// Writes one line to standard error.
void complain(std::string_view text);

}  // namespace once::cli
