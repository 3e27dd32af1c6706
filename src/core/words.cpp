#include "core/words.h"

#include <algorithm>
#include <array>
#include <utility>

namespace once::core {

std::string counted(std::uint64_t number, std::string_view noun) {
  return std::to_string(number) + ' ' + std::string(noun) + (number == 1 ? "" : "s");
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits{" B", " KB", " MB", " GB", " TB"};
  std::size_t unit = 0;
  std::uint64_t tenths = bytes * 10;
  for (; tenths >= 10'240 && unit + 1 < kUnits.size(); ++unit) tenths /= 1024;
  std::string text = std::to_string(tenths / 10);
  if (tenths < 100 && tenths % 10 != 0) text += '.' + std::to_string(tenths % 10);
  return text + std::string(kUnits[unit]);
}

std::string time_text(Duration time) {
  using namespace std::chrono;
  const auto in = [](Duration::rep count, std::string_view unit) {
    return std::to_string(count) + std::string(unit);
  };
  time = std::max(time, Duration{0});
  if (time < seconds{1}) return in(time.count(), " ms");
  if (time < minutes{2}) return in(floor<seconds>(time).count(), " s");
  if (time < hours{2}) return in(floor<minutes>(time).count(), " min");
  if (time < hours{48}) return in(floor<hours>(time).count(), " h");
  return in(floor<hours>(time).count() / 24, " days");
}

}  // namespace once::core
