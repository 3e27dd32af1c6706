// Which other processes have a database open, as far as /proc lets this user see.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

namespace once::store::sqlite {

struct OpenedBy {
  pid_t pid{};
  std::string name{};       // of the program
  bool writes = false;      // it is open for writing
  bool ours = false;        // it has a side file of Once's open too, or is this very program
  std::string deleted{};    // a file of the database that it has open and that has no name any more
  bool other_time = false;  // it is in another time namespace than this process
};

struct OpenFiles {
  std::vector<OpenedBy> others{};  // without this process; also those with a deleted file
  std::size_t looked_into{};       // processes
  std::size_t unseen{};            // processes that this user may not look into
};

// Never opens the files: closing a descriptor of them would drop SQLite's locks.
OpenFiles who_has_open(const std::string& database);

// Processes that read the database just now and keep its log from starting over.
std::vector<pid_t> who_reads(const std::string& database);

std::string program_name(pid_t pid);

}  // namespace once::store::sqlite
