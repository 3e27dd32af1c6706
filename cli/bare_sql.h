// The yardstick of `once bench`: the same work as bare SQL on the same disk, with the same
// durability and nothing of Once's checks. What Once costs is the ratio to it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace once::cli {

class BareSql {
 public:
  // Makes the file. Throws std::runtime_error with SQLite's message; so does everything below.
  explicit BareSql(const std::string& path);
  ~BareSql();
  BareSql(const BareSql&) = delete;
  BareSql& operator=(const BareSql&) = delete;

  // One transaction each. A known id is left out.
  void publish(const std::string* ids, std::size_t count, const std::string& body);
  void claim(std::size_t from, std::size_t count);
  void complete(std::size_t from, std::size_t count);

 private:
  void run(const char* sql);
  struct Impl;
  Impl* impl_;
};

}  // namespace once::cli
