// Logging in: each way works, what is wrong is told clearly and before anything is done, and no
// secret is in what is told.
#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "once/zone.h"
#include "support/nats_server.h"
#include "support/temp_folder.h"

namespace once {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

// With what JSON, the language of the login, has to escape.
constexpr const char* kPassword = R"(s3cret"\'{}:,pass)";
constexpr const char* kSeed = "SUAMK2FG4MI6UE3ACF3FK3OIQBCEIEZV7NSWFFEW63UXMRLFM2XLAXK4GY";
constexpr const char* kUserKey = "UAT6BWCSCWLUKJT6K6MBJJOEOTXZ5AJDOYKNEVRFC7VNO6OA43N4TRNO";

class NatsLogins : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::NatsServer::program().empty())
      GTEST_SKIP() << "THE STORE ON NATS IS NOT TESTED: there is no nats-server; tools/nats-server "
                      "fetches one";
  }
  void start(const std::string& configuration) {
    server_ = std::make_unique<testing::NatsServer>(configuration);
  }
  testing::NatsServer& server() { return *server_; }
  std::string url(const std::string& scheme = "nats") const {
    return scheme + server_->url().substr(4);
  }
  Result<Zone> open(NatsLogin login, const std::string& scheme = "nats") const {
    return Zone::open(url(scheme), {.nats = std::move(login)});
  }
  static void works(Result<Zone> zone) {
    ASSERT_TRUE(zone) << zone.error().message;
    EXPECT_TRUE(zone->publish({.topic = "orders", .id = "a"}));
  }
  static void refused(const Result<Zone>& zone, Code code, const std::string& says) {
    ASSERT_FALSE(zone) << says;
    EXPECT_EQ(zone.error().code, code) << zone.error().message;
    EXPECT_FALSE(zone.error().retryable);
    EXPECT_THAT(zone.error().message, HasSubstr(says));
    EXPECT_THAT(zone.error().message, HasSubstr("nothing was done"));
    for (const std::string secret : {"s3cret", kSeed})
      EXPECT_THAT(zone.error().message, Not(HasSubstr(secret)));
  }
  std::string file(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name) << content;
    return folder_ / name;
  }
  std::string path(const std::string& name) const { return folder_ / name; }

  // A certificate for the host, and its key, signed by NAME.pem and NAME.key of `by`; by itself when
  // it is empty.
  void make_certificate(const std::string& name, const std::string& host, const std::string& by) {
    file(name + ".ext", "subjectAltName=" + host + "\n");
    const std::string key =
        "openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout " + name +
        ".key -subj /CN=" + name;
    const std::string made =
        by.empty() ? key + " -x509 -days 2 -out " + name + ".pem"
                   : key + " -out " + name + ".csr && openssl x509 -req -days 2 -in " + name +
                         ".csr -CA " + by + ".pem -CAkey " + by + ".key -CAcreateserial -extfile " +
                         name + ".ext -out " + name + ".pem";
    const std::string command =
        "cd '" + folder_.path().string() + "' && (" + made + ") 2>" + name + ".log";
    ASSERT_EQ(system(command.c_str()), 0) << command;
  }
  std::string tls(const std::string& certificate, const std::string& more = {}) const {
    return "tls { cert_file: \"" + path(certificate + ".pem") + "\", key_file: \"" +
           path(certificate + ".key") + "\", ca_file: \"" + path("ca.pem") + "\"" + more + " }\n";
  }

 private:
  testing::TempFolder folder_;
  std::unique_ptr<testing::NatsServer> server_;
};

TEST_F(NatsLogins, ByNameAndPassword) {
  start(R"(authorization { user: "ad\"a", password: "s3cret\"\\'{}:,pass" })");
  works(open({.user = "ad\"a", .password = kPassword}));
  refused(open({.user = "ad\"a", .password = "s3cret-other"}), Code::store_unusable,
          "refused the login");
  refused(open({}), Code::store_unusable, "refused the login");
  refused(open({.token = "s3cret"}), Code::store_unusable, "refused the login");
}

TEST_F(NatsLogins, ByToken) {
  start(R"(authorization { token: "s3cret-token" })");
  works(open({.token = "s3cret-token"}));
  refused(open({.token = "s3cret-other"}), Code::store_unusable, "refused the login");
}

TEST_F(NatsLogins, ByNkeyWithAnInboxOfItsOwn) {
  start(std::string("authorization { users: [ { nkey: ") + kUserKey +
        ", permissions: { publish: \">\", subscribe: \"_INBOX_once." + kUserKey + ".>\" } } ] }");
  works(open({.nkey = file("seed", std::string(kSeed) + "\n")}));
  refused(open({.nkey = path("seed"), .inbox = "_INBOX_once.other"}), Code::store_unusable,
          "Permissions Violation for Subscription to \"_INBOX_once.other");
}

TEST_F(NatsLogins, WhatCannotBeALoginIsToldBeforeAnythingIsSaid) {
  start("");
  const std::string seed = file("seed", kSeed);
  const std::string other = file("other", "s3cret\n");
  const std::string half = file("half.creds", std::string("-----BEGIN USER NKEY SEED-----\n") +
                                                  kSeed + "\n------END USER NKEY SEED------\n");
  const struct {
    NatsLogin login;
    const char* says;
  } cases[] = {
      {{.user = "ada"}, "a NATS user without a password"},
      {{.password = "s3cret"}, "a NATS password without a user"},
      {{.user = "ada", .password = "s3cret", .token = "s3cret"}, "more than one login"},
      {{.creds = seed, .nkey = seed}, "more than one login"},
      {{.nkey = path("missing")}, "the nkey file cannot be read: No such file"},
      {{.nkey = kSeed}, "the nkey file cannot be read: No such file"},
      {{.nkey = "/"}, "the nkey file cannot be read"},
      {{.nkey = other}, "the nkey file holds no seed"},
      {{.creds = path("missing")}, "the creds file cannot be read: No such file"},
      {{.creds = other}, "the creds file holds no user JWT"},
      {{.creds = half}, "the creds file holds no user JWT"},
      {{.tls_ca = path("missing")}, "the tls-ca file cannot be read: No such file"},
      {{.tls_ca = other}, "the tls-ca file holds no certificates"},
      {{.tls_cert = other}, "a tls-cert without its tls-key"},
      {{.tls_key = other}, "a tls-key without its tls-cert"},
      {{.tls_cert = other, .tls_key = other}, "no certificate and its key"},
      {{.inbox = "a.>"}, "without wildcards"},
  };
  for (const auto& [login, says] : cases) refused(open(login), Code::invalid_input, says);
}

TEST_F(NatsLogins, AnAddressHoldsNoLogin) {
  for (const char* address :
       {"nats://ada:s3cret@127.0.0.1:4222", "tls://s3cret@127.0.0.1", "nats://a:s3cret/x@h",
        "nats://127.0.0.1:4222,ada:s3cret@127.0.0.1:4223/zone"}) {
    const auto zone = Zone::open(address);
    refused(zone, Code::invalid_input, "a NATS address holds no login");
    EXPECT_EQ(zone.error().reason, Reason::login_in_address);
  }
}

TEST_F(NatsLogins, TlsTrustsOnlyTheGivenAuthorityAndTheRightHost) {
  make_certificate("ca", "", "");
  make_certificate("foreign", "", "");
  make_certificate("server", "IP:127.0.0.1", "ca");
  make_certificate("elsewhere", "DNS:elsewhere.example", "ca");
  start(tls("server"));
  works(open({.tls_ca = path("ca.pem")}, "tls"));
  works(open({.tls_ca = path("ca.pem")}, "nats"));
  refused(open({.tls_ca = path("foreign.pem")}, "tls"), Code::store_unusable, "no TLS");
  refused(open({}, "tls"), Code::store_unusable, "no TLS");
  start(tls("elsewhere"));
  refused(open({.tls_ca = path("ca.pem")}, "tls"), Code::store_unusable, "no TLS");
  start("");
  refused(open({}, "tls"), Code::store_unusable, "speaks no TLS");
  refused(open({.tls_ca = path("ca.pem")}, "nats"), Code::store_unusable, "speaks no TLS");
}

TEST_F(NatsLogins, ByCertificate) {
  make_certificate("ca", "", "");
  make_certificate("server", "IP:127.0.0.1", "ca");
  make_certificate("client", "email:worker@example.org", "ca");
  start(tls("server", ", verify_and_map: true") +
        R"(authorization { users: [ { user: "worker@example.org", permissions: {
             publish: ">", subscribe: "_INBOX_mine.>" } } ] })");
  const NatsLogin login{.tls_ca = path("ca.pem"),
                        .tls_cert = path("client.pem"),
                        .tls_key = path("client.key"),
                        .inbox = "_INBOX_mine"};
  works(open(login, "tls"));
  const auto without = open({.tls_ca = path("ca.pem")}, "tls");
  ASSERT_FALSE(without);
  EXPECT_TRUE(without.error().code == Code::store_unusable ||
              without.error().code == Code::store_unavailable)
      << without.error().message;
}

// nats.c gives a login up that is refused twice.
TEST_F(NatsLogins, OneThatIsRevokedEndsTheStoreWithTheReason) {
  const auto write = [&](const std::string& password) {
    return file("login.conf", "authorization { user: ada, password: " + password + " }\n");
  };
  // A server looks for it beside its own configuration, which is in a folder beside ours.
  const std::filesystem::path included = write("s3cret-before");
  start("include ../" + (included.parent_path().filename() / included.filename()).string());
  auto zone = open({.user = "ada", .password = "s3cret-before"});
  ASSERT_TRUE(zone) << zone.error().message;
  server().stop();
  write("s3cret-after");
  server().start();
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  auto published = zone->publish({.topic = "orders", .id = "a"});
  while (!published && published.error().retryable) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << published.error().message;
    std::this_thread::sleep_for(10ms);
    published = zone->publish({.topic = "orders", .id = "a"});
  }
  ASSERT_FALSE(published);
  EXPECT_EQ(published.error().code, Code::store_unusable);
  EXPECT_THAT(published.error().message, HasSubstr("Authorization Violation"));
  EXPECT_THAT(published.error().message, Not(HasSubstr("s3cret")));
  works(open({.user = "ada", .password = "s3cret-after"}));
}

}  // namespace
}  // namespace once
