#include "codec/nkey.h"

#include <gtest/gtest.h>

namespace once::encoding {
namespace {

// A seed of the tests of nats.c; its public key by the openssl command.
constexpr std::string_view kSeed = "SUAMK2FG4MI6UE3ACF3FK3OIQBCEIEZV7NSWFFEW63UXMRLFM2XLAXK4GY";

TEST(Nkey, ASeedHasItsPublicKey) {
  EXPECT_EQ(nkey_user(kSeed), "UAT6BWCSCWLUKJT6K6MBJJOEOTXZ5AJDOYKNEVRFC7VNO6OA43N4TRNO");
}

TEST(Nkey, WhatIsNoUsersSeedHasNone) {
  std::string damaged(kSeed);
  damaged[20] = damaged[20] == 'A' ? 'B' : 'A';
  EXPECT_FALSE(nkey_user(damaged)) << "the check sum";
  EXPECT_FALSE(nkey_user(kSeed.substr(1)));
  EXPECT_FALSE(nkey_user(std::string(kSeed) + "A2"));
  EXPECT_FALSE(nkey_user(""));
  EXPECT_FALSE(nkey_user("-----BEGIN USER NKEY SEED-----"));
  // An account's seed, of the same bytes.
  EXPECT_FALSE(nkey_user("SAAMK2FG4MI6UE3ACF3FK3OIQBCEIEZV7NSWFFEW63UXMRLFM2XLAXNP7I"));
}

}  // namespace
}  // namespace once::encoding
