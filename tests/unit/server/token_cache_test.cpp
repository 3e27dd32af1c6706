// Tokens of a zone: adding, listing and removing them, and the server's list in memory.
#include "server/token_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/access.h"
#include "shapes/values.h"
#include "support/eventually.h"

namespace once::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

AccessToken named(std::string name) {
  return {.name = std::move(name), .roles = {AccessRole::read}, .created = cli::now()};
}

class Tokens : public ::testing::Test {
 protected:
  std::string add(const AccessToken& token) { return add_token(zone_, token).value(); }
  TokenCache cache(TokenCacheOptions options = {.read_again = Duration{5}}) {
    return TokenCache(zone_, list_tokens(zone_).value(), options);
  }
  Zone zone_ = Zone::open("memory:").value();
};

TEST_F(Tokens, AreKeptAsTheirHash) {
  AccessToken token = named("shop");
  token.roles = {AccessRole::work, AccessRole::publish, AccessRole::work};
  token.topics = {"orders.>"};
  token.queues = {"mail", "bulk-*"};
  token.expires = token.created + Duration{1000};
  const std::string secret = add(token);
  EXPECT_THAT(secret, StartsWith("once_"));
  EXPECT_EQ(secret.size(), 5U + 43U);
  EXPECT_NE(secret, add(named("other")));
  const auto all = list_tokens(zone_).value();
  ASSERT_EQ(all.tokens.size(), 2U);
  const AccessToken& kept = all.tokens.back();
  EXPECT_EQ(kept.name, "shop");
  EXPECT_EQ(kept.roles, (std::vector{AccessRole::publish, AccessRole::work}));
  EXPECT_EQ(kept.topics, token.topics);
  EXPECT_EQ(kept.queues, token.queues);
  EXPECT_EQ(kept.created, token.created);
  EXPECT_EQ(kept.expires, token.expires);
  EXPECT_EQ(kept.hash, token_hash(secret));
}

TEST_F(Tokens, HaveUniqueNamesUntilTheyAreRemoved) {
  const std::string secret = add(named("shop"));
  const auto again = add_token(zone_, named("shop"));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::wrong_state);
  EXPECT_TRUE(remove_token(zone_, "shop"));
  EXPECT_EQ(remove_token(zone_, "shop").error().code, Code::not_found);
  EXPECT_EQ(remove_token(zone_, "").error().code, Code::not_found);
  EXPECT_NE(add(named("shop")), secret);
}

TEST_F(Tokens, RefuseWhatMakesNoSense) {
  const auto refused = [&](auto change, std::string_view why) {
    AccessToken token = named("t");
    change(token);
    const auto added = add_token(zone_, token);
    ASSERT_FALSE(added) << why;
    EXPECT_EQ(added.error().code, Code::invalid_input);
    EXPECT_THAT(added.error().message, HasSubstr(std::string(why)));
    EXPECT_THAT(added.error().message, HasSubstr("nothing was added"));
  };
  refused([](AccessToken& t) { t.name = ""; }, "token name");
  refused([](AccessToken& t) { t.name = "a b"; }, "token name");
  refused([](AccessToken& t) { t.roles = {}; }, "needs a role");
  refused([](AccessToken& t) { t.topics = {"a..b"}; }, "a..b");
  refused([](AccessToken& t) { t.topics = {"$once.>"}; }, "belong to Once");
  refused([](AccessToken& t) { t.queues = {"a.b"}; }, "a.b");
  refused([](AccessToken& t) { t.queues = {""}; }, "queue filter");
  refused([](AccessToken& t) { t.queues = {"a*b"}; }, "a*b");
  refused([](AccessToken& t) { t.expires = t.created; }, "in the past");
  refused(
      [](AccessToken& t) {
        t.roles = {AccessRole::publish};
        t.queues = {"q"};
      },
      "role publish needs topics");
  refused(
      [](AccessToken& t) {
        t.roles = {AccessRole::work};
        t.topics = {"t"};
      },
      "role work needs queues");
  EXPECT_TRUE(list_tokens(zone_).value().empty());
}

TEST_F(Tokens, AreNotNeededWhereTheZoneHasNone) {
  EXPECT_EQ(cache().find("").value(), nullptr);
  EXPECT_EQ(cache().find(token_hash("once_guess")).value(), nullptr);
  const auto required = cache({.required = true}).find("");
  ASSERT_FALSE(required);
  EXPECT_EQ(required.error().reason, Reason::no_valid_token);
}

TEST_F(Tokens, AreFoundByTheHashOfTheirSecret) {
  const std::string secret = add(named("shop"));
  const TokenCache known = cache();
  EXPECT_EQ(known.find(token_hash(secret)).value()->name, "shop");
  for (const std::string& other : {std::string(), token_hash(secret + "x"), token_hash(""), secret})
    EXPECT_EQ(known.find(other).error().reason, Reason::no_valid_token);
}

TEST_F(Tokens, EndWhenTheyExpire) {
  AccessToken token = named("short");
  token.expires = token.created + Duration{50};
  const std::string hash = token_hash(add(token));
  const TokenCache known = cache();
  EXPECT_TRUE(testing::eventually([&] { return !known.find(hash); }));
  EXPECT_THAT(known.find(hash).error().message, HasSubstr("short expired at"));
  // An expired token still means that the zone has tokens.
  EXPECT_FALSE(known.find(""));
}

TEST_F(Tokens, AreReadAgain) {
  const TokenCache known = cache();
  EXPECT_TRUE(known.find(""));
  const std::string hash = token_hash(add(named("shop")));
  EXPECT_TRUE(testing::eventually([&] { return !known.find(""); }));
  EXPECT_TRUE(known.find(hash));
  EXPECT_TRUE(remove_token(zone_, "shop"));
  EXPECT_TRUE(testing::eventually([&] { return known.find(hash).value_or(nullptr) == nullptr; }));
}

// A newer version may limit a token by a member that this version does not know.
TEST_F(Tokens, OfAnotherVersionAreRefusedAndStillCount) {
  const std::string hash = token_hash("once_secret");
  const std::string known =
      R"({"created":1,"hash":")" + hash + R"(","queues":[],"roles":["read"],"topics":[])";
  auto& values = detail::Access::state(zone_)->store->key_values();
  int number = 0;
  for (const std::string& bytes :
       {known + R"(,"networks":["10.0.0.0/8"]})", known + R"(,"expires":"soon"})", std::string("{"),
        std::string("[]"), R"({"created":1,"hash":")" + hash + R"(","queues":[],"topics":[]})"}) {
    const store::KeyWrite item{.key = {"token", "t" + std::to_string(++number)}, .bytes = bytes};
    ASSERT_TRUE(values.write({&item, 1}).front());
  }
  const auto all = list_tokens(zone_).value();
  EXPECT_TRUE(all.tokens.empty());
  EXPECT_EQ(all.unreadable.size(), 5U);
  EXPECT_EQ(cache().find(hash).error().reason, Reason::no_valid_token);
  EXPECT_TRUE(remove_token(zone_, "t1"));
  const store::KeyWrite item{.key = {"token", "t1"}, .bytes = known + "}"};
  ASSERT_TRUE(values.write({&item, 1}).front());
  EXPECT_EQ(cache().find(hash).value()->name, "t1");
}

TEST_F(Tokens, HoldOnlyForAWhileIfTheStoreIsAway) {
  const std::string hash = token_hash(add(named("shop")));
  const TokenCache known = cache({.read_again = Duration{3'600'000}, .longest_away = Duration{20}});
  EXPECT_TRUE(testing::eventually([&] { return !known.find(hash); }));
  EXPECT_EQ(known.find(hash).error().code, Code::store_unavailable);
  EXPECT_TRUE(known.find(hash).error().retryable);
}

}  // namespace
}  // namespace once::server
