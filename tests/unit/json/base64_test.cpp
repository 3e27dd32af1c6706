#include "json/base64.h"

#include <gtest/gtest.h>

namespace once::encoding {
namespace {

TEST(Base64, ReadsWhatItWrites) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(from_base64(base64(bytes)), bytes) << i;
    bytes += static_cast<char>(i);
  }
}

TEST(Base64, RefusesEveryOtherText) {
  for (const char* text : {"Z", "Zg", "Zg=", "Zm8", "Zg===", "====", "Z===", "Zg==Zg==", "Zm9v\n",
                           "Zm9-", "Zm 9", "Zh==", "Zm9="})
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
}

}  // namespace
}  // namespace once::encoding
