// What is shown while the demo runs, as lines of text.
#pragma once

#include <string>

#include "cli/app/table.h"
#include "cli/demo/diary.h"
#include "cli/demo/fleet.h"
#include "cli/demo/publishers.h"

namespace once::cli::demo {

// Where the zone says that its tasks are.
struct Progress {
  std::uint64_t published{};
  std::uint64_t completed{};
  std::uint64_t unsettled{};
  std::uint64_t waiting{};  // of those
  std::uint64_t effects{};  // lines in the file
  std::uint64_t effects_again{};
  std::uint64_t plain_effects{};  // and those of the plain queue
  std::uint64_t plain_effects_again{};
};

struct Scene {
  const Setting& setting;
  const Fleet& fleet;
  const Publishers& publishers;
  const Diary& diary;
  Progress progress{};
  bool closing = false;  // no kills any more
  bool keys = false;
};

std::string view(const Scene& scene, const Style& style, std::size_t height);

}  // namespace once::cli::demo
