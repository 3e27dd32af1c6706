// Which hosts and origins may use a server without tokens.
#include "server/origin.h"

#include <gtest/gtest.h>

namespace once::server {
namespace {

bool refused(std::vector<Header> headers) {
  return foreign(Request{.headers = std::move(headers)}, {"127.0.0.1"}).has_value();
}

TEST(Origin, KnowsLoopbackAddresses) {
  for (const char* address : {"127.0.0.1", "127.1.2.3", "::1"}) EXPECT_TRUE(is_loopback(address));
  for (const char* address : {"0.0.0.0", "::", "128.0.0.1", "localhost", "127.0.0.1.evil.example",
                              "127.1", "", "::ffff:8.8.8.8"})
    EXPECT_FALSE(is_loopback(address)) << address;
}

TEST(Origin, RefusesForeignHosts) {
  for (const char* host : {"localhost", "LocalHost:7070", "127.0.0.1", "127.0.0.1:1", "[::1]:7070"})
    EXPECT_FALSE(refused({{"host", host}})) << host;
  for (const char* host : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "",
                           "[::1", "user@localhost", "0.0.0.0", "[::]:7070"})
    EXPECT_TRUE(refused({{"Host", host}})) << host;
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused({{"Host", "localhost"}, {"Host", "localhost"}}));
}

TEST(Origin, AllowsOnlyItsOwnPages) {
  const Header host{"Host", "127.0.0.1:7070"};
  EXPECT_FALSE(refused({host, {"Origin", "http://127.0.0.1:7070"}}));
  for (const char* origin :
       {"null", "", "http://127.0.0.1", "http://127.0.0.1:7071", "https://127.0.0.1:7070",
        "http://localhost:7070", "http://evil.example"})
    EXPECT_TRUE(refused({host, {"Origin", origin}})) << origin;
}

}  // namespace
}  // namespace once::server
