// A folder of this run's own, removed with what is in it.
#pragma once

#include <filesystem>
#include <string>

namespace once::cli {

class TempFolder {
 public:
  // `begin`: its path, to which a random end is added.
  explicit TempFolder(const std::string& begin);
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }  // empty: it could not be made
  // What runs may still write there, so removing takes as often as it takes.
  void remove() const;
  void keep() { kept_ = true; }

 private:
  std::string path_;
  bool kept_ = false;
};

}  // namespace once::cli
