// One run of the command: the global options, where output goes, how a failure is told, and which
// exit status it has.
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

// What people script against.
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

// What becomes of a store that is not there. Commands that do not define queues or workflows make a
// file, but no zone on a server: there, a missing zone most likely means that the server lost its data.
// To await a store is to refuse with not_found, which a service waits on (patience.h).
enum class Missing { create, create_file, create_file_or_await, refuse, await };
// Who stays is told how its connection fares; who examines is let into a zone that loses tasks.
enum class Stays { briefly, longer, to_examine };
// The store cannot be reached just now, and nothing was done: who stays longer tries again.
bool away(const Error& error);

class Session {
 public:
  std::string store{};  // --store; see url()
  NatsLogin nats{};     // --creds and its like; the environment is asked when it is used
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  std::vector<std::string> program{};  // what follows `--` after `work`
  std::function<int()> command{};      // what parsing chose
  Output out{1};
  mutable bool opened = false;  // a store answered: an error about what is missing names it

  std::string url() const;           // --store, else $ONCE_STORE, else once.db
  std::string absolute_url() const;  // the same wherever a program changes to
  bool on_server() const;            // and not in a file
  // A failure to open is about the store, so a missing database that is not awaited is not `not_found`.
  Result<Zone> open(Missing missing, Stays stays = Stays::briefly) const;

  Style style() const;
  // One line on standard error, with --json also an object on standard output; the exit status.
  int fail(const Error& error);
  // The same; the object begins with what `about` holds.
  int fail(const Error& failed, JsonLine about);
  int usage(std::string message);  // fail() with invalid_input
  // For people, on standard output: what was done. Not with -q.
  void say(std::string_view text);
  // For people, on standard error; not with -q.
  void hint(std::string_view text) const;
  // Ends the run: what could not be written to standard output is a failure too.
  int finish(int status);
};

// The fields of a failure, with those of a conflict when it is one.
JsonLine& add_error(JsonLine& line, const Error& error);

// Writes one line to standard error.
void complain(std::string_view text);

}  // namespace once::cli
