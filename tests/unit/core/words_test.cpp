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

}  // namespace
}  // namespace once::core
