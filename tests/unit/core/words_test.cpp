#include "core/words.h"

#include <gtest/gtest.h>

namespace once::core {
namespace {

using namespace std::chrono_literals;

TEST(Words, Counts) {
  EXPECT_EQ(counted(0, "task"), "0 tasks");
  EXPECT_EQ(counted(1, "task"), "1 task");
}

TEST(Words, Sizes) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1023), "1023 B");
  EXPECT_EQ(size_text(1536), "1.5 KB");
  EXPECT_EQ(size_text(64U << 20U), "64 MB");
  EXPECT_EQ(size_text(3ULL << 40U), "3 TB");
}

TEST(Words, Times) {
  EXPECT_EQ(time_text(-1s), "0 ms");
  EXPECT_EQ(time_text(999ms), "999 ms");
  EXPECT_EQ(time_text(90s), "90 s");
  EXPECT_EQ(time_text(2min), "2 min");
  EXPECT_EQ(time_text(3h), "3 h");
  EXPECT_EQ(time_text(75h), "3 days");
}

TEST(Words, WhatWasMeant) {
  constexpr std::string_view kWords[] = {"depends_on", "on_failure", "timeout", "id"};
  EXPECT_EQ(nearest("depend_on", kWords), "depends_on");
  EXPECT_EQ(nearest("onfailure", kWords), "on_failure");
  EXPECT_EQ(nearest("timeuot", kWords), "timeout");
  EXPECT_EQ(nearest("timeout", kWords), "timeout");
  EXPECT_EQ(nearest("di", kWords), "id");
  EXPECT_EQ(nearest("x", kWords), std::nullopt);
  EXPECT_EQ(nearest("compensate", kWords), std::nullopt);
  EXPECT_EQ(nearest("a", {}), std::nullopt);
}

TEST(Words, LengthsOfTimeAsPeopleWriteThem) {
  constexpr std::pair<std::string_view, Duration> kGood[] = {
      {"0", 0ms},    {"500ms", 500ms}, {"30s", 30s},           {"2m", 2min},
      {"1h30m", 90min}, {"7d", 168h},  {"1d2h3m4s5ms", 93784005ms}};
  for (const auto& [text, time] : kGood) {
    const auto read = duration_from(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(*read, time) << text;
    EXPECT_EQ(duration_from(duration_text(time)).value(), time) << text;
  }
  for (const std::string_view bad : {"", "5", "-5s", "5 s", "30m1h", "1s1s", "1w", "1.5h", "s",
                                     "99999999999d", "99999999999999999999s", "36501d"}) {
    const auto read = duration_from(bad);
    ASSERT_FALSE(read) << bad;
    EXPECT_EQ(read.error().code, Code::invalid_input);
  }
  EXPECT_EQ(duration_text(90min), "1h30m");
  EXPECT_EQ(duration_text(0ms), "0s");
  EXPECT_EQ(duration_text(-1500ms), "-1s500ms");
}

}  // namespace
}  // namespace once::core
