// How the well-known recipes lose or repeat tasks. Each fault is first provoked on bare JetStream,
// done as the recipe says; then the same happens to Once, which survives it. Recipes 15 and 16 need
// processes that are killed: tests/system/nats_recipes_test.py.

#include <atomic>
#include <thread>

#include "once/testing.h"
#include "unit/nats/zone_world.h"

namespace once::store::nats {
namespace {

using std::chrono::steady_clock;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Recipes = ZoneWorld;

// Runs longer than a lease, keeping it by renewal as a handler does.
void run_for(Duration time) { std::this_thread::sleep_for(time); }

TEST_F(Recipes, R01_BackoffOverridesAckWait) {
  const Bare jetstream = bare();
  jetstream.stream("JOBS", "jobs");
  jetstream.consumer(
      "JOBS", "c",
      R"(,"ack_wait":300000000000,"max_deliver":5,"backoff":[200000000,300000000000])");
  jetstream.publish("jobs", "a");
  ASSERT_TRUE(jetstream.pull("JOBS", "c", 5s));
  EXPECT_TRUE(jetstream.pull("JOBS", "c", 30s)) << "not after 5 minutes: two executions";

  add_queue({.lease = 3s, .backoff = {10ms}});
  publish_task("a").value();
  std::atomic<int> running{0};
  std::atomic<int> runs{0};
  std::atomic<bool> beside{false};
  const auto handler = [&](Context&) {
    ++runs;
    if (++running > 1) beside = true;
    run_for(4s);
    --running;
    return Outcome::completed();
  };
  {
    std::jthread other([&] { worker(handler, "other").run_until_empty().value(); });
    worker(handler).run_until_empty().value();
  }
  EXPECT_EQ(runs, 1);
  EXPECT_FALSE(beside);
  const auto info = raw("CONSUMER.INFO.ONCE_test_LOG." + consumer_on("ONCE_test_LOG"), "");
  const encoding::Json& config = *info.member("config");
  EXPECT_FALSE(config.member("backoff"));
  EXPECT_EQ(number_of(config, "ack_wait"), 3'000'000'000U);
}

TEST_F(Recipes, R02_MsgIdOnAWorkQueueIsForgottenByARestart) {
  const Headers id{{"Nats-Msg-Id", "a"}};
  {
    const Bare jetstream = bare();
    jetstream.stream("JOBS", "jobs", R"(,"retention":"workqueue","duplicate_window":120000000000)");
    jetstream.consumer("JOBS", "c");
    jetstream.publish("jobs", "a", id);
    jetstream.answer(jetstream.pull("JOBS", "c", 5s).value());
  }
  add_queue({});
  const Receipt first = publish_task("a").value();
  EXPECT_THAT(run_all(), ElementsAre("a"));

  server().stop();
  server().start();
  const Bare jetstream = bare();
  EXPECT_FALSE(jetstream.publish("jobs", "a", id).duplicate) << "within the window";
  EXPECT_TRUE(jetstream.pull("JOBS", "c", 5s)) << "runs again";

  const Receipt again = publish_task("a").value();
  EXPECT_TRUE(again.duplicate);
  EXPECT_EQ(again.sequence, first.sequence);
  EXPECT_THAT(run_all(), IsEmpty());
}

TEST_F(Recipes, R02_MsgIdIsForgottenAfterItsWindow) {
  const Bare jetstream = bare();
  jetstream.stream("JOBS", "jobs", R"(,"duplicate_window":100000000)");
  const Headers id{{"Nats-Msg-Id", "a"}};
  jetstream.publish("jobs", "a", id);
  const auto deadline = steady_clock::now() + 30s;
  while (jetstream.publish("jobs", "a", id).duplicate) ASSERT_LT(steady_clock::now(), deadline);

  // A year later, the task's body gone.
  const auto clock = std::make_shared<testing::VirtualClock>();
  Zone later = Zone::open(server().url() + "/later", {.clock = clock}).value();
  later.queues().add({.name = "q", .topic = "t"}).value();
  later.set_retention({.bodies = 1h, .records = 1h, .ids = 24h * 1000}).value();
  const Receipt first = later.publish({.topic = "t", .id = "a"}).value();
  int runs = 0;
  const auto run = [&] {
    return later
        .worker("q",
                [&](Context&) {
                  ++runs;
                  return Outcome::completed();
                })
        .value()
        .run_one()
        .value();
  };
  EXPECT_TRUE(run());
  for (int month = 0; month < 12; ++month) {
    clock->advance(24h * 31);
    later.retire().value();
  }
  ASSERT_FALSE(later.tasks().log(0, 10).value().at(0).body) << "it was to be retired by now";
  const Receipt again = later.publish({.topic = "t", .id = "a"}).value();
  EXPECT_TRUE(again.duplicate);
  EXPECT_EQ(again.sequence, first.sequence);
  EXPECT_FALSE(run());
  EXPECT_EQ(runs, 1);
}

TEST_F(Recipes, R03_MsgIdWithOtherContentIsDroppedWithAPositiveAck) {
  const Bare jetstream = bare();
  jetstream.stream("JOBS", "jobs");
  const Headers id{{"Nats-Msg-Id", "a"}};
  jetstream.publish("jobs", R"({"amount":1})", id);
  EXPECT_TRUE(jetstream.publish("jobs", R"({"amount":2})", id).duplicate)
      << "acknowledged and gone";
  EXPECT_EQ(jetstream.messages("JOBS"), 1U);

  add_queue({});
  publish_task("a", R"({"amount":1})").value();
  const auto refused = publish_task("a", R"({"amount":2})");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::conflicting_duplicate);
  EXPECT_THAT(refused.error().conflict->differs.value(), ElementsAre("$.amount"));
  const auto elsewhere = publish_task("a", R"({"amount":1})", "t.other");
  ASSERT_FALSE(elsewhere) << "nor under another topic";
  EXPECT_EQ(elsewhere.error().code, Code::conflicting_duplicate);
  EXPECT_THAT(zone().tasks().log(0, 10).value(), SizeIs(1));
}

TEST_F(Recipes, R04_ReadExecuteWriteLetsTwoWorkersPass) {
  {
    const Bare jetstream = bare();
    jetstream.stream("KV_done", "$KV.done.>");
    const auto first = jetstream.get("KV_done", "$KV.done.a");
    const auto second = jetstream.get("KV_done", "$KV.done.a");
    EXPECT_TRUE(!first && !second) << "both read before either wrote, and both execute";
  }
  // Each task is delivered to two workers, who race for it.
  add_queue({.lease = 300ms});
  constexpr int kTasks = 20;
  for (int i = 0; i < kTasks; ++i) publish_task("a" + std::to_string(i)).value();
  const auto deliveries = [&] {
    std::map<std::string, Delivery> all;
    while (all.size() < kTasks)
      for (Delivery& each : fetch("q", 30s, kTasks)) all.insert_or_assign(each.entry.id, each);
    return all;
  };
  const auto firsts = deliveries();
  const auto seconds = deliveries();
  const auto other = open().value();
  for (const auto& [id, first] : firsts) {
    const Swap mine = record_of("q", first, State::running, 30s);
    const Swap theirs = record_of("q", seconds.at(id), State::running, 30s);
    std::optional<Result<SwapResult>> answer;
    std::jthread race([&] { answer = std::move(other->swap(std::span(&theirs, 1)).front()); });
    const bool won = swap(mine).value().written;
    race.join();
    EXPECT_NE(won, answer->value().written) << id;
  }
}

TEST_F(Recipes, R04_ARecordThatGoesBeforeItsMessageLetsItRunAgain) {
  const Bare jetstream = bare();
  jetstream.stream("JOBS", "jobs");
  jetstream.stream("KV_done", "$KV.done.>", R"(,"max_age":100000000,"duplicate_window":100000000)");
  jetstream.publish("jobs", "a");
  jetstream.put("$KV.done.a", "completed");
  const auto deadline = steady_clock::now() + 30s;
  while (jetstream.get("KV_done", "$KV.done.a")) ASSERT_LT(steady_clock::now(), deadline);
  EXPECT_EQ(jetstream.messages("JOBS"), 1U) << "and nothing says that it was done";

  const auto clock = std::make_shared<testing::VirtualClock>();
  Zone aged = Zone::open(server().url() + "/aged", {.clock = clock}).value();
  aged.queues().add({.name = "q", .topic = "t"}).value();
  aged.set_retention({.bodies = 24h * 7, .records = 72h}).value();
  aged.publish({.topic = "t", .id = "a"}).value();
  int runs = 0;
  const auto run = [&] {
    return aged
        .worker("q",
                [&](Context&) {
                  ++runs;
                  return Outcome::completed();
                })
        .value()
        .run_one()
        .value();
  };
  EXPECT_TRUE(run());
  clock->advance(24h * 6);
  aged.retire().value();
  // Everything comes again.
  remove_consumer("ONCE_aged_LOG");
  run();
  run();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(aged.tasks().inspect("a").value().queues.at(0).state, State::completed);
}

TEST_F(Recipes, R05_MaxAckPendingOneIsNoLock) {
  const Bare jetstream = bare();
  jetstream.stream("JOBS", "jobs");
  jetstream.consumer("JOBS", "c", R"(,"ack_wait":200000000,"max_ack_pending":1)");
  jetstream.publish("jobs", "a");
  ASSERT_TRUE(jetstream.pull("JOBS", "c", 5s));
  EXPECT_TRUE(jetstream.pull("JOBS", "c", 30s)) << "two hold it at once";

  add_queue({.lease = 3s, .max_running = 1});
  for (int i = 0; i < 4; ++i) publish_task("a" + std::to_string(i)).value();
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  std::atomic<int> runs{0};
  const auto handler = [&](Context& context) {
    const int now = ++running;
    if (now > most) most = now;
    ++runs;
    run_for(context.task().id == "a0" ? 4s : 50ms);
    --running;
    return Outcome::completed();
  };
  {
    std::vector<std::jthread> workers;
    for (const char* name : {"one", "two", "three"})
      workers.emplace_back([&, name] { worker(handler, name).run_until_empty().value(); });
  }
  EXPECT_EQ(most, 1);
  EXPECT_EQ(runs, 4);
}

TEST_F(Recipes, R05_ADelayedNakBlocksWhatIsBehindIt) {
  const Bare jetstream = bare();
  jetstream.stream("JOBS", "jobs");
  jetstream.consumer("JOBS", "c", R"(,"max_ack_pending":1)");
  jetstream.publish("jobs", "a");
  jetstream.publish("jobs", "b");
  jetstream.answer(jetstream.pull("JOBS", "c", 5s).value(), R"(-NAK {"delay":3600000000000})");
  EXPECT_FALSE(jetstream.pull("JOBS", "c", 500ms)) << "b waits for an hour";

  add_queue({.attempts = 2, .backoff = {1h}, .max_running = 1});
  publish_task("a").value();
  publish_task("b").value();
  std::vector<std::string> ran;
  Worker one = worker([&](Context& context) {
    ran.push_back(context.task().id);
    return context.task().id == "a" ? Outcome::failed("not now") : Outcome::completed();
  });
  const auto deadline = steady_clock::now() + 30s;
  while (ran.size() < 2 && steady_clock::now() < deadline) one.run_one().value();
  EXPECT_THAT(ran, ElementsAre("a", "b"));
}

TEST_F(Recipes, R06_DiscardOldAndMaxAgeLoseWaitingTasks) {
  const Bare jetstream = bare();
  jetstream.stream("ONE_EACH", "each", R"(,"max_msgs_per_subject":1,"discard":"old")");
  jetstream.publish("each", "a");
  jetstream.publish("each", "b");
  EXPECT_EQ(jetstream.messages("ONE_EACH"), 1U) << "a is gone, and was acknowledged";
  jetstream.stream("AGED", "aged", R"(,"max_age":100000000,"duplicate_window":100000000)");
  jetstream.publish("aged", "a");
  const auto deadline = steady_clock::now() + 30s;
  while (jetstream.messages("AGED") > 0) ASSERT_LT(steady_clock::now(), deadline);

  add_queue({});
  for (const char* id : {"a", "b", "c"}) publish_task(id).value();
  // Somebody wants the same for Once's log. Who opens it is told before anything is lost.
  const auto edit = [&](const std::string& more) {
    return raw("STREAM.UPDATE.ONCE_test_LOG",
               R"({"name":"ONCE_test_LOG","subjects":["once.test.>"],"storage":"file",)"
               R"("retention":"limits","allow_direct":true,"allow_atomic":true,)" +
                   more + "}");
  };
  for (const auto& [setting, field] :
       {std::pair{R"("max_msgs_per_subject":1,"discard":"old")", "discard"},
        std::pair{R"("max_msgs_per_subject":-1,"discard":"new","max_age":3600000000000)",
                  "max_age"}}) {
    ASSERT_FALSE(edit(setting).member("error"));
    const auto refused = Zone::open(server().url() + "/test");
    ASSERT_FALSE(refused) << setting;
    EXPECT_EQ(refused.error().code, Code::store_unusable);
    EXPECT_THAT(refused.error().message, HasSubstr(field));
  }
  ASSERT_FALSE(edit(R"("max_msgs_per_subject":-1,"discard":"new")").member("error"));
  EXPECT_THAT(run_all(), ElementsAre("a", "b", "c"));
}

TEST_F(Recipes, R07_MaxDeliverIsNoDeadLetter) {
  const Bare jetstream = bare();
  jetstream.stream("JOBS", "jobs", R"(,"retention":"workqueue")");
  jetstream.consumer("JOBS", "c", R"(,"max_deliver":3)");
  jetstream.publish("jobs", "a");
  for (int i = 0; i < 3; ++i) jetstream.answer(jetstream.pull("JOBS", "c", 5s).value(), "-NAK");
  EXPECT_FALSE(jetstream.pull("JOBS", "c", 500ms));
  EXPECT_EQ(jetstream.messages("JOBS"), 1U) << "stuck for ever, and nobody was told";

  add_queue({.attempts = 3});
  publish_task("a").value();
  worker([](Context&) { return Outcome::failed("the printer burns"); }).run_until_empty().value();
  EXPECT_EQ(view("a").state, State::dead);
  EXPECT_THAT(outcomes("a"), ElementsAre("failed", "failed", "failed"));
  EXPECT_THAT(view("a").error, HasSubstr("the printer burns"));
  EXPECT_THAT(zone().tasks().list({.queue = "q", .state = State::dead}).value(), SizeIs(1));
  zone().tasks().retry("a", "q", {.who = "ann", .why = "there is a new printer"}).value();
  EXPECT_THAT(run_all(), ElementsAre("a"));
  EXPECT_EQ(view("a").state, State::completed);
}

TEST_F(Recipes, R08_ALateAckSettlesASuccessorsTask) {
  const Bare jetstream = bare();
  jetstream.stream("JOBS", "jobs");
  jetstream.consumer("JOBS", "c", R"(,"ack_wait":200000000)");
  jetstream.publish("jobs", "a");
  const auto late = jetstream.pull("JOBS", "c", 5s).value();
  ASSERT_TRUE(jetstream.pull("JOBS", "c", 30s)) << "the next worker's";
  jetstream.answer(late);
  EXPECT_EQ(jetstream.unanswered("JOBS", "c"), 0U);
  EXPECT_FALSE(jetstream.pull("JOBS", "c", 1s)) << "the next worker died, and nothing redelivers";

  const Queue queue{.lease = 300ms};
  add_queue(queue);
  const Receipt a = publish_task("a").value();
  const Delivery slow = fetch("q", 30s).at(0);
  claimed_by_one_that_dies(queue);
  const Settlement ack{.queue = "q", .sequence = {a.sequence}, .handle = slow.handle};
  store().settle(std::span(&ack, 1)).value();
  EXPECT_EQ(sweep(), 1U);
  EXPECT_THAT(run_all(), ElementsAre("a"));
  EXPECT_THAT(outcomes("a"), ElementsAre("lost", "completed"));
}

TEST_F(Recipes, R09_AnAckBecauseSomebodyElseIsInProgressLosesTheTask) {
  const Bare jetstream = bare();
  jetstream.stream("JOBS", "jobs", R"(,"retention":"workqueue")");
  jetstream.stream("KV_state", "$KV.state.>");
  jetstream.consumer("JOBS", "c", R"(,"ack_wait":200000000)");
  jetstream.publish("jobs", "a");
  ASSERT_TRUE(jetstream.pull("JOBS", "c", 5s));
  jetstream.put("$KV.state.a", "in progress");  // and then it dies
  const auto again = jetstream.pull("JOBS", "c", 30s).value();
  if (jetstream.get("KV_state", "$KV.state.a") == "in progress") jetstream.answer(again);
  EXPECT_EQ(jetstream.messages("JOBS"), 0U) << "nobody will do it";

  const Queue queue{.lease = 1s};
  add_queue(queue);
  publish_task("a").value();
  claimed_by_one_that_dies(queue);
  EXPECT_THAT(run_all(), ElementsAre("a"));
  EXPECT_THAT(outcomes("a"), ElementsAre("lost", "completed"));
}

TEST_F(Recipes, R10_AFailedRecordIsAckedAwayByTheRedelivery) {
  const Bare jetstream = bare();
  jetstream.stream("JOBS", "jobs", R"(,"retention":"workqueue")");
  jetstream.stream("KV_state", "$KV.state.>");
  jetstream.consumer("JOBS", "c");
  jetstream.publish("jobs", "a");
  jetstream.put("$KV.state.a", "failed");
  jetstream.answer(jetstream.pull("JOBS", "c", 5s).value(), "-NAK");
  const auto again = jetstream.pull("JOBS", "c", 5s).value();
  if (jetstream.get("KV_state", "$KV.state.a"))
    jetstream.answer(again);  // "it has a record: seen before"
  EXPECT_EQ(jetstream.messages("JOBS"), 0U) << "never retried";

  add_queue({.attempts = 3});
  publish_task("a").value();
  worker([](Context& context) {
    return context.attempt() < 3 ? Outcome::failed("not yet") : Outcome::completed();
  })
      .run_until_empty()
      .value();
  EXPECT_THAT(outcomes("a"), ElementsAre("failed", "failed", "completed"));
}

TEST_F(Recipes, R10_ACatchBlockOverwritesCompletedByFailed) {
  const Bare jetstream = bare();
  jetstream.stream("KV_state", "$KV.state.>", R"(,"max_msgs_per_subject":1)");
  jetstream.put("$KV.state.a", "completed");
  jetstream.put("$KV.state.a", "failed");  // the reply to the caller threw
  EXPECT_EQ(jetstream.get("KV_state", "$KV.state.a"), "failed");

  add_queue({.attempts = 3, .ledger = true});
  LedgerClient ledger = zone().ledger("q").value();
  const ClaimResult claimed = ledger.claim("a").value();
  EXPECT_EQ(ledger.complete("a", claimed.token).value(), State::completed);
  const auto failed = ledger.fail("a", claimed.token, "the reply to the caller threw");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::fenced);
  EXPECT_EQ(ledger.claim("a").value().kind, ClaimResult::Kind::completed);
}

TEST_F(Recipes, R11_CompletingWithWhateverRevisionIsCurrentIsNoFence) {
  const Bare jetstream = bare();
  jetstream.stream("KV_state", "$KV.state.>", R"(,"max_msgs_per_subject":1)");
  jetstream.publish("$KV.state.a", "claimed by one", expecting(0));
  const auto others = jetstream.publish("$KV.state.a", "claimed by two", expecting(1));
  jetstream.publish("$KV.state.a", "completed by one", expecting(others.sequence));
  EXPECT_EQ(jetstream.get("KV_state", "$KV.state.a"), "completed by one") << "while two runs";

  add_queue({.ledger = true});
  LedgerClient one = zone().ledger("q", {.name = "one"}).value();
  LedgerClient two = zone().ledger("q", {.name = "two"}).value();
  const ClaimResult lost = one.claim("a", 200ms).value();
  ClaimResult taken{.kind = ClaimResult::Kind::held};
  const auto deadline = steady_clock::now() + 30s;
  while (taken.kind == ClaimResult::Kind::held && steady_clock::now() < deadline)
    taken = two.claim("a", 1h).value();
  ASSERT_EQ(taken.kind, ClaimResult::Kind::claimed);
  EXPECT_GT(taken.token, lost.token);
  for (const auto& fenced : {one.complete("a", lost.token), one.renew("a", lost.token),
                             one.fail("a", lost.token, "no")}) {
    ASSERT_FALSE(fenced);
    EXPECT_EQ(fenced.error().code, Code::fenced);
  }
  EXPECT_EQ(two.complete("a", taken.token).value(), State::completed);
}

TEST_F(Recipes, R12_KeysThatTheClientRefusesAtRunTime) {
  {
    natsConnection* connection = nullptr;
    ASSERT_EQ(natsConnection_ConnectTo(&connection, server().url().c_str()), NATS_OK);
    const ConnectionHandle owner(connection);
    jsCtx* js = nullptr;
    ASSERT_EQ(natsConnection_JetStream(&js, connection, nullptr), NATS_OK);
    kvConfig config;
    kvConfig_Init(&config);
    config.Bucket = "jobs";
    kvStore* bucket = nullptr;
    ASSERT_EQ(js_CreateKeyValue(&bucket, js, &config), NATS_OK);
    EXPECT_NE(kvStore_CreateString(nullptr, bucket, "invoice:1", "claimed"), NATS_OK);
    kvStore_Destroy(bucket);
    jsCtx_Destroy(js);
  }
  add_queue({});
  const std::vector<std::string> odd{"invoice:1",
                                     "a.b",
                                     ".",
                                     "..",
                                     "*",
                                     ">",
                                     "a b",
                                     "a=20b",
                                     "ä€😀",
                                     "a/b\\c",
                                     "a%",
                                     "$KV.x",
                                     std::string(1024, ':')};
  for (const std::string& id : odd) EXPECT_FALSE(publish_task(id).value().duplicate) << id;
  for (const std::string& id : odd) EXPECT_TRUE(publish_task(id).value().duplicate) << id;
  EXPECT_THAT(run_all(), ::testing::UnorderedElementsAreArray(odd));
  for (const std::string& id : odd) EXPECT_EQ(view(id).state, State::completed) << id;
  const auto broken = publish_task("a\r\nPUB x 1\r\n");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, Code::invalid_input);
}

TEST_F(Recipes, R13_CheckStartThenCreateIsUnprotected) {
  const Bare jetstream = bare();
  jetstream.stream("KV_state", "$KV.state.>");
  int started = 0;
  for (int i = 0; i < 2; ++i)
    if (!jetstream.get("KV_state", "$KV.state.a")) ++started;  // both check and start
  EXPECT_EQ(jetstream.client().publish({.subject = "$KV.state.a", .headers = expecting(0)}).kind,
            PublishResult::Kind::stored);
  EXPECT_EQ(jetstream.client().publish({.subject = "$KV.state.a", .headers = expecting(0)}).kind,
            PublishResult::Kind::refused)
      << "and nobody looks at that";
  EXPECT_EQ(started, 2);

  add_queue({});
  publish_task("a").value();
  State when_it_began{};
  worker([&](Context&) {
    when_it_began = view("a").state;
    return Outcome::completed();
  })
      .run_until_empty()
      .value();
  EXPECT_EQ(when_it_began, State::running) << "the claim is recorded before anything runs";
}

TEST_F(Recipes, R13_ATaskWithoutAKeyDoesNotRunUnprotected) {
  add_queue({.key = "{order.id}"});
  publish_task("with", R"({"order":{"id":7}})").value();
  publish_task("without", R"({"order":{}})").value();
  publish_task("last", R"({"order":{"id":8}})").value();
  EXPECT_THAT(run_all(), ElementsAre("with", "last"));
  EXPECT_EQ(view("without").state, State::dead);
  EXPECT_THAT(view("without").reason + view("without").error, HasSubstr("order.id"));
}

TEST_F(Recipes, R14_AcknowledgedIsNotFsynced) {
  // A receipt outlives the process. What power loss does to it is up to sync_interval.
  add_queue({});
  std::vector<Task> tasks;
  for (int i = 0; i < 300; ++i) tasks.push_back({.topic = "t", .id = std::to_string(i)});
  std::map<std::string, std::uint64_t> receipts;
  for (const auto& receipt : zone().publish_batch(tasks))
    receipts[receipt.value().id] = receipt->sequence;
  server().kill();
  server().start();
  std::map<std::string, std::uint64_t> found;
  for (const LogEntry& entry : answered([&] { return zone().tasks().log(0, 1000); }).value())
    found[entry.id] = entry.sequence;
  EXPECT_EQ(found, receipts);
}

// `persist_mode: async` acknowledges before anything is written; kill -9 loses it. The server refuses
// it for streams with atomic batches; Once refuses it for the others.
TEST_F(Recipes, R14_AStreamThatAcknowledgesBeforeItWritesIsRefused) {
  const Bare jetstream = bare();
  for (const std::string stream : {"ONCE_test_WAKE", "KV_once_test_meta", "ONCE_test_COUNT"}) {
    const std::string config =
        encoding::canonical(*jetstream.api("STREAM.INFO." + stream).member("config"));
    const auto make_again = [&](const std::string& with) {
      jetstream.api("STREAM.DELETE." + stream);
      jetstream.api("STREAM.CREATE." + stream, "{" + with + config.substr(1));
    };
    make_again(R"("persist_mode":"async",)");
    const auto opened = Zone::open(server().url() + "/test");
    ASSERT_FALSE(opened) << stream;
    EXPECT_EQ(opened.error().code, Code::store_unusable);
    EXPECT_THAT(opened.error().message, HasSubstr("persist_mode"));
    EXPECT_THAT(opened.error().message, HasSubstr(stream));
    make_again("");
  }
  const auto lost = Zone::open(server().url() + "/test");
  ASSERT_FALSE(lost) << "the new streams do not hold the zone's data";
  EXPECT_THAT(lost.error().message, ::testing::Not(HasSubstr("persist_mode")));
}

}  // namespace
}  // namespace once::store::nats
