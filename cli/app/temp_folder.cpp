#include "cli/app/temp_folder.h"

#include <cstdlib>

namespace once::cli {

TempFolder::TempFolder(const std::string& begin) : path_(begin + ".XXXXXX") {
  if (::mkdtemp(path_.data()) == nullptr) path_.clear();
}

TempFolder::~TempFolder() {
  if (!kept_) remove();
}

void TempFolder::remove() const {
  std::error_code error;
  for (int i = 0; i < 100 && !path_.empty() && std::filesystem::exists(path_, error); ++i)
    std::filesystem::remove_all(path_, error);
}

}  // namespace once::cli
