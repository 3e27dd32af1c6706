// The text of a claim: what is written is read, and nothing else is.
#include "codec/claim_handle.h"

#include <gtest/gtest.h>

namespace once::encoding {
namespace {

ClaimHandle example() {
  ClaimHandle handle{.zone = "7c1b",
                     .queue = "orders",
                     .key = std::string("k\0\xff/+=", 6),
                     .sequence = {17},
                     .delivery = "$JS.ACK.x.y.1.2.3"};
  handle.nonce.bytes.fill(0xAB);
  return handle;
}

TEST(ClaimHandle, IsReadAsItWasWritten) {
  const std::string written = text(example());
  EXPECT_EQ(
      written.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
      std::string::npos)
      << written;
  EXPECT_EQ(claim_handle(written).value(), example());
  ClaimHandle bare = example();
  bare.delivery.clear();
  EXPECT_EQ(claim_handle(text(bare)).value(), bare);
}

TEST(ClaimHandle, NamesASlotOnlyIfTheClaimHasOne) {
  ClaimHandle limited = example();
  EXPECT_EQ(claim_handle(text(limited))->slot, std::nullopt);
  for (const std::uint32_t slot : {0U, 1U, 1023U, 4'294'967'295U}) {
    limited.slot = slot;
    EXPECT_EQ(claim_handle(text(limited)).value(), limited);
  }
}

TEST(ClaimHandle, OfAnEarlierFormIsRead) {
  const std::string_view earlier =
      "AwQ3YzFiBQZvcmRlcnMHBmsA_y8rPQgRCxCrq6urq6urq6urq6urq6urDREkSlMuQUNLLngueS4xLjIuM0ZtPyQ";
  EXPECT_EQ(claim_handle(earlier).value(), example());
}

TEST(ClaimHandle, AnyOtherTextIsRefused) {
  const std::string written = text(example());
  for (std::size_t i = 0; i < written.size(); ++i) {
    std::string changed = written;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(claim_handle(changed)) << i;
    EXPECT_FALSE(claim_handle(std::string_view(written).substr(0, i))) << i;
  }
  for (const std::string& wrong : {std::string(), std::string("="), written + "=", written + "A",
                                   "+" + written, std::string(70'000, 'A')}) {
    const auto read = claim_handle(wrong);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, Code::invalid_input);
  }
  ClaimHandle unclaimed = example();
  unclaimed.nonce = {};
  EXPECT_FALSE(claim_handle(text(unclaimed)));
}

}  // namespace
}  // namespace once::encoding
