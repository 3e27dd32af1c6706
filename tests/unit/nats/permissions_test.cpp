// The roles of docs/nats-permissions.md on a server with the very configuration that stands there:
// what a role needs works, and the server refuses the rest, by name and at once.
#include <gmock/gmock.h>
#include <stdlib.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "once/zone.h"
#include "store/nats/client/jetstream_client.h"
#include "store/nats/nats_store.h"
#include "support/nats_server.h"

namespace once {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr const char* kRoles[] = {"publisher", "worker", "auditor", "retention", "admin"};

std::string configuration() {
  std::ifstream in(ONCE_NATS_PERMISSIONS);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const std::string fence = "```conf\n";
  const std::size_t begin = text.find(fence) + fence.size();
  return text.substr(begin, text.find("```", begin) - begin);
}

std::string password_of(std::string role) { return "password-of-" + role; }

NatsLogin login_of(const std::string& role) {
  return {.user = role, .password = password_of(role)};
}

template <class T>
void refused(const Result<T>& answer, const std::string& subject) {
  ASSERT_FALSE(answer) << "it was permitted: " << subject;
  EXPECT_EQ(answer.error().code, Code::store_unusable) << answer.error().message;
  EXPECT_FALSE(answer.error().in_doubt);
  EXPECT_THAT(answer.error().message,
              HasSubstr("Permissions Violation for Publish to \"" + subject));
}

class NatsPermissions : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::NatsServer::program().empty())
      GTEST_SKIP() << "THE STORE ON NATS IS NOT TESTED: there is no nats-server; tools/nats-server "
                      "fetches one";
    for (const std::string role : kRoles) {
      std::string variable = "ONCE_" + role + "_PASSWORD";
      for (char& c : variable) c = static_cast<char>(toupper(c));
      setenv(variable.c_str(), password_of(role).c_str(), 1);
    }
    restart_with(configuration());
  }
  void restart_with(const std::string& permissions) {
    server_ = std::make_unique<testing::NatsServer>(permissions);
  }
  testing::NatsServer& server() { return *server_; }
  Result<Zone> try_open(const std::string& role) {
    return Zone::open(server_->url(), {.nats = login_of(role)});
  }
  Zone as(const std::string& role) { return try_open(role).value(); }
  // The zone and a queue, as the admin makes them.
  void set_up() {
    Zone zone = as("admin");
    EXPECT_EQ(zone.queues().add(work()).value(), 0U);
  }
  static Queue work() {
    return {.name = "work", .topic = "orders.>", .attempts = 1, .backoff = {1ms}};
  }
  static Task task(const std::string& id) { return {.topic = "orders.new", .id = id}; }
  static Outcome complete(Context&) { return Outcome::completed(Body::json("17").value()); }
  void run_until_empty() {
    Zone zone = as("worker");
    Worker worker = zone.worker("work", complete).value();
    const auto ended = worker.run_until_empty();
    ASSERT_TRUE(ended) << ended.error().message;
  }

 private:
  std::unique_ptr<testing::NatsServer> server_;
};

TEST_F(NatsPermissions, OnlyTheAdminMakesAZone) {
  for (const std::string role : {"publisher", "worker", "auditor", "retention"})
    refused(try_open(role), "$JS.API.STREAM.CREATE.KV_once_main_meta");
  set_up();
  for (const std::string role : kRoles) EXPECT_TRUE(try_open(role)) << role;
}

TEST_F(NatsPermissions, AZoneOfAnOlderOnceWorksForAllRolesAndTheAdminSealsIt) {
  set_up();
  const auto mux =
      store::nats::RequestMux::open({.servers = {server().url()}, .login = login_of("admin")})
          .value();
  const store::nats::JetStreamClient client(*mux);
  const auto seals = [&] { return client.count("ONCE_main_OLD", "once-old.main.seal.*").value(); };
  EXPECT_EQ(seals(), 1U);
  client.purge("ONCE_main_OLD", "once-old.main.seal.*").value();
  client.purge("ONCE_main_COUNT", "once-count.main.seal.*").value();
  client.purge("KV_once_main_ledger", "$KV.once_main_ledger.seal.*").value();
  client.purge("KV_once_main_meta", "$KV.once_main_meta.marks").value();
  EXPECT_FALSE(as("publisher").publish(task("a")).value().duplicate);
  run_until_empty();
  EXPECT_EQ(as("auditor").status().value().queues[0].tasks.at(State::completed), 1U);
  EXPECT_EQ(seals(), 0U) << "they may not, and said nothing of it";
  EXPECT_TRUE(try_open("admin"));
  EXPECT_EQ(seals(), 1U);
  run_until_empty();
}

TEST_F(NatsPermissions, ThePublisherPublishesAndNothingElse) {
  set_up();
  Zone zone = as("publisher");
  EXPECT_FALSE(zone.publish(task("a")).value().duplicate);
  EXPECT_TRUE(zone.publish(task("a")).value().duplicate);
  Task other = task("a");
  other.body = Body::json("1").value();
  const Error conflict = zone.publish(other).error();
  EXPECT_EQ(conflict.code, Code::conflicting_duplicate);
  EXPECT_THAT(conflict.conflict->differs.value(), ElementsAre("$")) << conflict.message;
  std::vector<Task> many;
  for (int i = 0; i < 100; ++i) many.push_back(task("many-" + std::to_string(i)));
  for (const auto& receipt : zone.publish_batch(many)) EXPECT_TRUE(receipt);

  refused(zone.queues().add({.name = "more", .topic = ">"}), "$KV.once_main_meta.queue.more");
  refused(zone.queues().remove("work", {.force = true}), "$JS.API.");
  refused(zone.status(), "$JS.API.DIRECT.GET.ONCE_main_WAKE");
  refused(zone.tasks().inspect("a"), "$JS.API.");
  refused(zone.worker("work", complete), "once-count.main.member");
  refused(zone.set_retention({}), "$KV.once_main_meta.retention");
  refused(zone.retire(), "$JS.API.");
  refused(zone.tasks().cancel("a", "work", {}), "$JS.API.");
}

TEST_F(NatsPermissions, APublisherThatMayNotReadTheOtherContentIsToldSo) {
  std::string roles = configuration();
  const std::string right = "\"$JS.API.STREAM.MSG.GET.ONCE_main_COUNT\"";
  roles.erase(roles.find(right), right.size());
  restart_with(roles);
  set_up();
  Zone zone = as("publisher");
  zone.publish(task("a")).value();
  Task other = task("a");
  other.body = Body::json("1").value();
  const Error conflict = zone.publish(other).error();
  EXPECT_EQ(conflict.code, Code::conflicting_duplicate);
  EXPECT_FALSE(conflict.conflict->differs);
  EXPECT_THAT(conflict.message, HasSubstr("the other content could not be read"));
  EXPECT_THAT(conflict.message, HasSubstr("ONCE_main_COUNT"));
}

TEST_F(NatsPermissions, AWorkerRunsTasksOfQueuesThatAreThere) {
  set_up();
  Zone publisher = as("publisher");
  Zone admin = as("admin");
  for (int i = 0; i < 10; ++i) publisher.publish(task(std::to_string(i))).value();
  run_until_empty();
  EXPECT_EQ(admin.status().value().queues[0].tasks.at(State::completed), 10U);
  EXPECT_EQ(admin.status().value().queues[0].workers, 0U) << "it said good-bye";

  // A retry by a person comes as a wake, and is carried out once.
  publisher.publish(task("bad")).value();
  {
    Zone zone = as("worker");
    Worker worker = zone.worker("work", [](Context&) { return Outcome::dead("no"); }).value();
    EXPECT_TRUE(worker.run_until_empty());
  }
  EXPECT_TRUE(admin.tasks().retry("bad", "work", {}));
  run_until_empty();
  EXPECT_EQ(admin.tasks().inspect("bad").value().queues[0].state, State::completed);
}

TEST_F(NatsPermissions, AWorkerDoesNothingElse) {
  set_up();
  as("publisher").publish(task("a")).value();
  run_until_empty();
  Zone zone = as("worker");
  EXPECT_EQ(zone.queues().add(work()).value(), 0U) << "it is there";
  refused(zone.queues().add({.name = "more", .topic = ">"}), "$KV.once_main_meta.queue.more");
  refused(zone.queues().pause("work"), "$KV.once_main_meta.queue.work");
  refused(zone.queues().remove("work", {.force = true}),
          "$JS.API.STREAM.MSG.DELETE.KV_once_main_meta");
  refused(zone.publish(task("b")), "once.main.log.b.orders.new");
  refused(zone.set_retention({}), "$KV.once_main_meta.retention");
  as("admin").set_retention({.bodies = 1ms, .records = 1ms, .ids = 1ms}).value();
  refused(zone.retire(), "$KV.once_main_meta.gone.0");
  EXPECT_TRUE(as("auditor").tasks().log(0, 10).value().at(0).body) << "nothing is lost by that";
}

// The worker that ended a step tells its workflow; nobody else makes events.
TEST_F(NatsPermissions, OnlyWorkersTellWorkflowsWhatHappened) {
  set_up();
  const auto tell = [&](const std::string& role, const std::string& id) {
    const auto store =
        store::open_nats({.servers = {server().url()}, .login = login_of(role)}).value();
    std::vector<store::Append> events;
    for (const char* step : {".a", ".b", ".c", ".d", ".e"})
      events.push_back({.id = id + step, .topic = "$once.flow.payment.step"});
    for (const auto& [nonce, verdict] :
         {std::pair{1, core::AppendVerdict::accepted}, {2, core::AppendVerdict::duplicate}}) {
      for (store::Append& event : events) event.nonce.bytes[0] = static_cast<std::uint8_t>(nonce);
      for (const auto& answer : store->append(events)) {
        if (!answer) return Result<void>(answer.error());
        EXPECT_EQ(answer->verdict, verdict) << role;
      }
    }
    return Result<void>();
  };
  for (const std::string role : {"worker", "admin"}) {
    const auto told = tell(role, role);
    EXPECT_TRUE(told) << role << ": " << told.error().message;
  }
  for (const std::string role : {"publisher", "auditor", "retention"})
    refused(tell(role, role), "once.main.sys." + role + "=2Ea.$once.flow.payment.step");
  EXPECT_THAT(as("auditor").tasks().log(0, 100).value(), SizeIs(10));
  EXPECT_THAT(as("auditor").tasks().log(0, 100, ">").value(), SizeIs(0));
}

// What the chapter on workflows says that a role needs beside what it has.
std::string with_more(std::string permissions, const std::string& role,
                      const std::vector<std::string>& subjects) {
  const std::string allow = "publish: { allow: [\n";
  std::string more;
  for (const std::string& subject : subjects) more += "          \"" + subject + "\"\n";
  const std::size_t user = permissions.find("user: " + role);
  return permissions.insert(permissions.find(allow, user) + allow.size(), more);
}

TEST_F(NatsPermissions, ARunnerAndAStarterNeedALittleMore) {
  const std::vector<std::string> values{
      "$JS.API.STREAM.INFO.ONCE_main_KV", "$JS.API.STREAM.MSG.GET.ONCE_main_KV",
      "$JS.API.DIRECT.GET.ONCE_main_KV", "$JS.API.STREAM.MSG.DELETE.ONCE_main_KV"};
  std::string roles = with_more(configuration(), "worker", {"once.main.log.>", "once-kv.main.>"});
  roles = with_more(std::move(roles), "worker", values);
  roles = with_more(std::move(roles), "publisher", values);
  roles =
      with_more(std::move(roles), "publisher",
                {"once.main.sys.>", "once-kv.main.v.key.>", "once-kv.main.v.run.>",
                 "$JS.API.STREAM.MSG.GET.KV_once_main_ledger",
                 "$JS.API.DIRECT.GET.KV_once_main_ledger", "$JS.API.STREAM.MSG.GET.ONCE_main_OLD"});
  restart_with(roles);
  set_up();
  Workflow flow("flow");
  flow.idempotency_key("id")
      .step({.id = "first", .task = "orders.first"})
      .step({.id = "wait", .depends_on = {"first"}, .signal = "go"})
      .step({.id = "last", .task = "orders.last", .depends_on = {"wait"}});
  ASSERT_TRUE(as("admin").flows().add(flow));

  Zone starter = as("publisher");
  Flows flows = starter.flows();
  const Body input = Body::json(R"({"id":1})").value();
  const auto started = flows.start("flow", input);
  ASSERT_TRUE(started) << started.error().message;
  EXPECT_TRUE(flows.start("flow", input).value().duplicate);
  const auto signalled = flows.signal(started->run, "go", Body(), "1");
  ASSERT_TRUE(signalled) << signalled.error().message;

  Zone zone = as("worker");
  Worker worker = zone.worker("work", complete).value();
  WorkflowRunner runner = zone.flows().runner().value();
  std::stop_source stop;
  std::jthread working([&] { EXPECT_TRUE(worker.run(stop.get_token())); });
  const auto ended = runner.run_until_empty();
  stop.request_stop();
  ASSERT_TRUE(ended) << ended.error().message;
  const auto view = as("auditor").flows().show(started->run);
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(view->info.state, RunPhase::completed);
  EXPECT_THAT(as("auditor").flows().events(started->run).value(), SizeIs(8));
}

TEST_F(NatsPermissions, AWorkerLeavesRetentionToWhoMay) {
  set_up();
  Zone publisher = as("publisher");
  publisher.publish(task("a")).value();
  run_until_empty();
  as("admin").set_retention({.bodies = 1ms, .records = 1ms, .ids = 1ms}).value();
  Zone zone = as("worker");
  Worker worker = zone.worker("work", complete).value();
  std::stop_source stop;
  Result<void> ended;
  std::thread running([&] { ended = worker.run(stop.get_token()); });
  // Its turn comes, it may not, and that is put off like a turn that was done.
  const auto store =
      store::open_nats({.servers = {server().url()}, .login = login_of("admin")}).value();
  const store::Address turn{
      .kind = store::Address::Kind::lone, .queue = "work", .key = "retention"};
  const auto put_off = [&] {
    const auto stored = std::move(store->get(std::span(&turn, 1)).front()).value();
    return stored && stored->record.state == State::retrying &&
           core::look_again(stored->record).value_or(0ms) > 30min;
  };
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (!put_off() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(put_off());
  publisher.publish(task("b")).value();
  EXPECT_TRUE(as("auditor").tasks().wait("b", "work", 60s)) << "it works on";
  stop.request_stop();
  running.join();
  EXPECT_TRUE(ended);
  EXPECT_TRUE(as("auditor").tasks().log(0, 10).value().at(0).body);
}

TEST_F(NatsPermissions, AWorkerWhoseConsumerIsGoneSaysWhatItLacks) {
  set_up();
  {
    const auto mux =
        store::nats::RequestMux::open({.servers = {server().url()}, .login = login_of("admin")})
            .value();
    const store::nats::JetStreamClient client(*mux);
    const auto defined = client.last("KV_once_main_meta", "$KV.once_main_meta.queue.work").value();
    client.call("CONSUMER.DELETE.ONCE_main_LOG.work_" + *defined->header("Once-Generation"), "")
        .value();
  }
  as("publisher").publish(task("a")).value();
  {
    Zone zone = as("worker");
    refused(zone.worker("work", complete), "$JS.API.CONSUMER.CREATE.ONCE_main_");
  }
  as("admin").queues().add(work()).value();
  run_until_empty();
  EXPECT_EQ(as("admin").tasks().inspect("a").value().queues[0].state, State::completed);
}

// Without it every task would be delivered again for ever.
TEST_F(NatsPermissions, AWorkerThatMayNotAnswerDeliveriesEndsAndSaysSo) {
  std::string lacking = configuration();
  const std::string line = "\"$JS.ACK.ONCE_main_LOG.>\"";
  lacking.erase(lacking.find(line), line.size());
  restart_with(lacking);
  Queue queue = work();
  queue.lease = 1s;
  as("admin").queues().add(queue).value();
  as("publisher").publish(task("a")).value();
  Zone zone = as("worker");
  int runs = 0;
  Worker worker = zone.worker("work",
                              [&](Context& context) {
                                ++runs;
                                return complete(context);
                              })
                      .value();
  std::stop_source never;
  refused(worker.run(never.get_token()), "$JS.ACK.ONCE_main_LOG.work_");
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(as("auditor").tasks().inspect("a").value().queues[0].state, State::completed);
}

TEST_F(NatsPermissions, TheAuditorReadsAndNothingElse) {
  set_up();
  Zone publisher = as("publisher");
  publisher.publish(task("a")).value();
  publisher.publish(task("a")).value();
  publisher.publish({.topic = "elsewhere", .id = "b"}).value();
  run_until_empty();
  Zone zone = as("auditor");
  EXPECT_EQ(zone.status().value().queues[0].tasks.at(State::completed), 1U);
  EXPECT_EQ(zone.status().value().unrouted, 1U);
  EXPECT_THAT(zone.tasks().list({}).value(), SizeIs(1));
  EXPECT_EQ(zone.tasks().inspect("a").value().duplicates, 1U);
  EXPECT_THAT(zone.tasks().log(0, 10).value(), SizeIs(2));
  EXPECT_EQ(zone.tasks().wait("a", "work", 10s).value().result().text(), "17");
  EXPECT_TRUE(zone.retention());
  EXPECT_TRUE(zone.audit().value().discrepancies.empty());
  EXPECT_TRUE(zone.queues().list());
  for (const Finding& finding : zone.doctor().value().findings)
    EXPECT_TRUE(finding.code != "not_permitted" && finding.code != "unreadable") << finding.what;

  refused(zone.publish(task("c")), "once.main.log.c.orders.new");
  refused(zone.queues().add({.name = "more", .topic = ">"}), "$KV.once_main_meta.queue.more");
  refused(zone.worker("work", complete), "once-count.main.member");
  refused(zone.set_retention({}), "$KV.once_main_meta.retention");
  as("publisher").publish(task("d")).value();
  refused(zone.tasks().cancel("d", "work", {}), "$KV.once_main_ledger.work.");
  refused(zone.queues().remove("work", {.force = true}),
          "$JS.API.STREAM.MSG.DELETE.KV_once_main_meta");
  EXPECT_THAT(zone.tasks().log(0, 10).value(), SizeIs(3)) << "nothing was added";
}

TEST_F(NatsPermissions, RetentionForgetsAndNothingElse) {
  set_up();
  as("publisher").publish(task("a")).value();
  run_until_empty();
  Zone zone = as("retention");
  zone.set_retention({.bodies = 1ms, .records = 1ms, .ids = 1ms}).value();
  EXPECT_EQ(zone.retention().value().ids, 1ms);
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (!as("auditor").tasks().log(0, 10).value().empty()) {
    const auto retired = zone.retire();
    ASSERT_TRUE(retired) << retired.error().message;
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
  refused(zone.publish(task("a")), "once.main.log.a.orders.new");
  refused(zone.queues().add({.name = "more", .topic = ">"}), "$KV.once_main_meta.queue.more");
  refused(zone.worker("work", complete), "once-count.main.member");
  refused(zone.status(), "$JS.API.DIRECT.GET.ONCE_main_WAKE");
  EXPECT_FALSE(as("publisher").publish(task("a")).value().duplicate) << "the id is forgotten";
}

TEST_F(NatsPermissions, TheAdminDoesItAll) {
  Zone zone = as("admin");
  zone.queues().add(work()).value();
  zone.publish(task("a")).value();
  EXPECT_TRUE(zone.queues().change("work", [](Queue& queue) { queue.lease = 5s; }));
  EXPECT_EQ(zone.tasks().cancel("a", "work", {}).value(), State::cancelled);
  EXPECT_TRUE(zone.set_retention({}));
  EXPECT_TRUE(zone.retire());
  EXPECT_TRUE(zone.status());
  EXPECT_TRUE(zone.queues().remove("work", {.force = true}));
}

TEST_F(NatsPermissions, NobodyHearsAnothersAnswers) {
  set_up();
  for (const std::string role : kRoles) {
    NatsLogin login = login_of(role);
    for (const std::string inbox : {"_INBOX", "_INBOX_once.other", "_INBOX_once"}) {
      login.inbox = inbox;
      const auto opened = Zone::open(server().url(), {.nats = login});
      ASSERT_FALSE(opened) << role << " " << inbox;
      EXPECT_EQ(opened.error().code, Code::store_unusable);
      EXPECT_THAT(opened.error().message,
                  HasSubstr("Permissions Violation for Subscription to \"" + inbox));
    }
  }
}

}  // namespace
}  // namespace once
