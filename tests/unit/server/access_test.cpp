// The table of roles and routes, the filters of tokens, and the Authorization header.
#include "server/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "server/api.h"

namespace once::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

AccessToken with(std::vector<AccessRole> roles, std::vector<std::string> topics = {},
                 std::vector<std::string> queues = {}) {
  return {.name = "t",
          .roles = std::move(roles),
          .topics = std::move(topics),
          .queues = std::move(queues)};
}

class Access : public testing::Test {
 protected:
  Zone zone_ = Zone::open("memory:").value();
  std::vector<Route> routes_ = all_routes(zone_);
};

TEST_F(Access, EveryRouteHasExactlyOneRow) {
  std::multiset<std::string> rows;
  for (const Rule& rule : access_rules())
    rows.insert(std::string(rule.method) + ' ' + std::string(rule.pattern));
  std::set<std::string> routes;
  for (const Route& route : routes_) {
    const std::string name = route.method + ' ' + route.pattern;
    EXPECT_EQ(rows.count(name), 1U) << name;
    routes.insert(name);
  }
  for (const std::string& row : rows) EXPECT_TRUE(routes.contains(row)) << "no route: " << row;
}

TEST_F(Access, ARouteWithoutARowIsRefusedToEveryRole) {
  const AccessToken all = with({kAccessRoles.begin(), kAccessRoles.end()});
  const Route unknown{.method = "GET", .pattern = "/v1/secrets"};
  const auto refused = may_call(&all, unknown);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, Reason::not_permitted);
  // The same pattern with another method has no row either.
  EXPECT_FALSE(may_call(&all, Route{.method = "PATCH", .pattern = "/v1/log"}));
  EXPECT_TRUE(may_call(nullptr, unknown));
}

TEST_F(Access, OperateMayDoEverythingAndForwardNothing) {
  const AccessToken operate = with({AccessRole::operate});
  const AccessToken forward = with({AccessRole::forward});
  for (const Route& route : routes_) {
    EXPECT_TRUE(may_call(&operate, route)) << route.pattern;
    const bool probe = route.pattern == "/healthz" || route.pattern == "/readyz" ||
                       route.pattern == "/openapi.json";
    EXPECT_EQ(static_cast<bool>(may_call(&forward, route)), probe) << route.pattern;
  }
}

TEST_F(Access, OnlyOperateChangesQueuesAndDecides) {
  for (const Route& route : routes_) {
    if (route.method == "GET" || route.pattern.starts_with("/v1/claims") ||
        route.pattern.ends_with("/claims") || route.pattern.starts_with("/v1/topics") ||
        route.pattern == "/v1/tasks:batch" || route.pattern.find("/keys/") != std::string::npos ||
        route.pattern == "/v1/flows/{workflow}:start" ||
        route.pattern == "/v1/runs/{run}/signals/{signal}")
      continue;
    const AccessToken others = with({AccessRole::publish, AccessRole::work, AccessRole::read});
    const auto refused = may_call(&others, route);
    ASSERT_FALSE(refused) << route.pattern;
    EXPECT_THAT(refused.error().message, HasSubstr("role operate"));
    EXPECT_EQ(refused.error().facts["needs"], "operate");
  }
}

TEST_F(Access, ReadingNeverChangesAnything) {
  const AccessToken read = with({AccessRole::read});
  for (const Route& route : routes_)
    EXPECT_EQ(static_cast<bool>(may_call(&read, route)), route.method == "GET") << route.pattern;
}

TEST(AccessFilters, LimitATokenToWhatTheyMatch) {
  const AccessToken topics = with({AccessRole::operate}, {"orders.*", "mail.>"});
  EXPECT_TRUE(may_use_topic(&topics, "orders.new"));
  EXPECT_TRUE(may_use_topic(&topics, "orders.*"));
  EXPECT_TRUE(may_use_topic(&topics, "mail.a.>"));
  for (const char* topic : {"orders", "orders.new.now", "orders.>", "order.new", ">", "*.new", "",
                            "mail", "$once.flow"})
    EXPECT_FALSE(may_use_topic(&topics, topic)) << topic;
  EXPECT_FALSE(may_use_queue(&topics, "mail"));  // topics alone give no queue

  const AccessToken queues = with({AccessRole::operate}, {}, {"mail", "bulk-*"});
  for (const char* queue : {"mail", "bulk-", "bulk-1"})
    EXPECT_TRUE(may_use_queue(&queues, queue)) << queue;
  for (const char* queue : {"mail2", "Mail", "bulk", "", "bulk*"})
    EXPECT_FALSE(may_use_queue(&queues, queue)) << queue;
  EXPECT_FALSE(may_use_topic(&queues, "mail.new"));

  const AccessToken all = with({AccessRole::operate});
  EXPECT_TRUE(may_use_topic(&all, "any.thing"));
  EXPECT_TRUE(may_use_queue(&all, "any"));
  const AccessToken every = with({AccessRole::operate}, {">"});
  EXPECT_TRUE(may_use_topic(&every, "a.b"));
  EXPECT_FALSE(may_use_topic(&every, "$once.flow"));
}

TEST(AccessWho, IsTheNameOfTheToken) {
  Request request;
  EXPECT_EQ(who_of(request, {}).value(), "");
  EXPECT_EQ(who_of(request, "ada").value(), "ada");
  request.caller = std::make_shared<const AccessToken>(with({AccessRole::operate}));
  EXPECT_EQ(who_of(request, {}).value(), "t");
  EXPECT_EQ(who_of(request, "t").value(), "t");
  for (const char* other : {"ada", "", "T"}) EXPECT_FALSE(who_of(request, other)) << other;
}

std::optional<std::string_view> bearer(std::vector<Header> headers) {
  static Request request;
  request = Request{.headers = std::move(headers)};
  return bearer_of(request);
}

TEST(AccessHeader, IsOneBearerToken) {
  EXPECT_EQ(bearer({{"Authorization", "Bearer once_x"}}), "once_x");
  EXPECT_EQ(bearer({{"authorization", "bEARER   once_x"}}), "once_x");
  for (const char* value : {"", "Bearer", "Bearer ", "Basic b25jZQ==", "once_x", "Bearer\tonce_x",
                            "Token once_x", " Bearer once_x"})
    EXPECT_EQ(bearer({{"Authorization", value}}).value_or(""), "") << value;
  EXPECT_EQ(bearer({{"X-Authorization", "Bearer once_x"}}), std::nullopt);
  EXPECT_EQ(bearer({{"Authorization", "Bearer a"}, {"authorization", "Bearer a"}}), std::nullopt);
}

}  // namespace
}  // namespace once::server
