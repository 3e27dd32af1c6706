// Which hosts and origins may use a server without tokens.
#include "server/origin.h"

#include <gtest/gtest.h>

namespace once::server {
namespace {

bool refused(std::vector<Header> headers) {
  return foreign(Request{.headers = std::move(headers)}, Site{.hosts = {"127.0.0.1"}}).has_value();
}

bool refused(std::vector<Header> headers, const Site& site) {
  return foreign(Request{.headers = std::move(headers)}, site).has_value();
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

TEST(Origin, KnowsNoNamesOfAServerForOtherMachines) {
  const Site site{.hosts = {"0.0.0.0"}, .any_host = true, .tls = true};
  EXPECT_FALSE(refused({{"Host", "once.example.org"}}, site));
  EXPECT_FALSE(refused({{"Host", "h:7070"}, {"Origin", "https://h:7070"}}, site));
  EXPECT_TRUE(refused({{"Host", "h:7070"}, {"Origin", "http://h:7070"}}, site));
  EXPECT_TRUE(refused({{"Host", "h"}, {"Origin", "https://evil.example"}}, site));
  EXPECT_TRUE(refused({}, site));
  EXPECT_TRUE(refused({{"Host", "h"}, {"Host", "h"}}, site));
}

TEST(Origin, TakesTheHostThatAProxyForwards) {
  const Site site{.any_host = true, .behind_proxy = true};
  const Header host{"Host", "10.0.0.7:7070"};
  const Header forwarded{"X-Forwarded-Host", "once.example.org"};
  EXPECT_FALSE(refused({host, forwarded, {"Origin", "https://once.example.org"}}, site));
  EXPECT_FALSE(refused({host, {"Origin", "https://10.0.0.7:7070"}}, site));
  EXPECT_TRUE(refused({host, {"Origin", "https://once.example.org"}}, site));
  EXPECT_TRUE(refused({host, forwarded, {"Origin", "https://evil.example"}}, site));
  // Without a proxy, a client that sends the header gains nothing.
  EXPECT_TRUE(refused({host, forwarded, {"Origin", "https://once.example.org"}},
                      Site{.any_host = true, .tls = true}));
}

}  // namespace
}  // namespace once::server
