// Keys of runs and what is read of them, over a store in which others act at the wrong moment, and
// which refuses what it cannot take.
#include <gmock/gmock.h>

#include "api/access.h"
#include "core/names.h"
#include "flow/event_log.h"
#include "flow/starter.h"
#include "once/flows.h"
#include "once/testing.h"
#include "store/memory/memory_store.h"
#include "support/faulty_store.h"

namespace once {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class WatchedStore final : public testing::FaultyStore {
 public:
  using testing::FaultyStore::FaultyStore;

  std::vector<Result<store::AppendResult>> append(std::span<const store::Append> items) override {
    if (!takes_starts && items.front().id.ends_with(".started"))
      return std::vector<Result<store::AppendResult>>(
          items.size(), Error{.code = Code::too_large, .message = "it has 2 bytes, and 1 is most"});
    return testing::FaultyStore::append(items);
  }
  std::vector<Result<store::KeyWriteResult>> write(
      std::span<const store::KeyWrite> items) override {
    if (items.front().key.front() == "flow" && before_definition)
      std::exchange(before_definition, {})();
    return testing::FaultyStore::write(items);
  }
  using testing::FaultyStore::get;
  std::vector<Result<std::optional<store::Value>>> get(std::span<const store::Key> keys) override {
    for (const store::Key& key : keys) values_read += key.front() == "value" ? 1 : 0;
    return testing::FaultyStore::get(keys);
  }
  Result<void> set_retention(const Retention& ages) override {
    if (before_retention) std::exchange(before_retention, {})();
    return testing::FaultyStore::set_retention(ages);
  }

  bool takes_starts = true;
  std::function<void()> before_definition{};
  std::function<void()> before_retention{};
  int values_read = 0;
};

class FlowKeyRecords : public ::testing::Test {
 protected:
  static Body json(std::string_view text) { return Body::json(text).value(); }
  void add_flow(const std::string& steps, const std::string& more = R"("key_ttl":"24h")") {
    flows_.add(R"({"name":"w","idempotency_key":"id",)" + more + R"(,"steps":[)" + steps + "]}")
        .value();
  }
  Result<Started> start() { return flows_.start("w", json(R"({"id":7})")); }
  std::optional<engine::StartKey> key() { return run_store_.key("w", "7").value(); }
  void settle() {
    auto runner = flows_.runner().value();
    while (runner.run_one().value()) continue;
  }
  // A key whose starter died, long ago.
  void leave_a_key() {
    const engine::StartKey left{.run = "w-1", .version = 1, .input = R"({"id":7})"};
    ASSERT_TRUE(run_store_.write("w", "7", left, {})->written);
    clock_->advance(11min);
  }
  void finish_starts() {
    starter_.finish_starts([] { return false; }).value();
  }
  // Its end was written by a runner that died over what comes next.
  void end_half(const std::string& run) {
    auto known = run_store_.run(run).value().value();
    core::FlowEvent event = core::event_in(known.state, core::FlowEvent::Kind::ended, 1);
    event.run_outcome = core::RunOutcome::cancelled;
    log_.append(engine::EventLog::entry_of(event)).value();
    ASSERT_TRUE(core::fold(known.state, event));
    ASSERT_TRUE(run_store_.write(known.state, known.revision)->written);
  }
  void forget(Duration age) {
    clock_->advance(age);
    zone_.retire().value();
  }

  std::shared_ptr<testing::VirtualClock> clock_ = std::make_shared<testing::VirtualClock>();
  std::shared_ptr<detail::ZoneState> impl_ = std::make_shared<detail::ZoneState>(
      std::make_unique<WatchedStore>(store::open_memory(clock_)));
  WatchedStore& store_ = static_cast<WatchedStore&>(*impl_->store);
  Zone zone_ = detail::Access::make<Zone>(impl_);
  Flows flows_ = zone_.flows();
  engine::RunStore run_store_{store_, *impl_->scheduler};
  engine::EventLog log_{store_, *impl_->scheduler};
  engine::FlowStarter starter_{store_, *impl_->scheduler, run_store_, log_};
};

constexpr const char* kGo = R"({"id":"go","signal":"go"})";

// --- Retention ----------------------------------------------------------------------------------

TEST_F(FlowKeyRecords, AWorkflowThatIsAddedWhileRecordsAreToBeShortenedIsSeen) {
  const Retention before = zone_.retention().value();
  store_.before_retention = [&] { add_flow(kGo); };
  const auto refused = zone_.set_retention({.bodies = 1h, .records = 1h, .ids = 1h});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("workflow 'w'"));
  EXPECT_EQ(zone_.retention().value(), before);
}

TEST_F(FlowKeyRecords, WhoAddsAWorkflowWhileRecordsAreShortenedHearsOfIt) {
  store_.before_definition = [&] {
    zone_.set_retention({.bodies = 1h, .records = 1h, .ids = 1h}).value();
  };
  const auto refused = flows_.add(R"({"name":"w","steps":[{"id":"go","signal":"go"}]})");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_input);
  EXPECT_THAT(refused.error().message, HasSubstr("it was added all the same"));
  EXPECT_EQ(refused.error().reason, Reason::key_outlives_records);
  EXPECT_EQ(refused.error().facts["key_ttl"], "1d");
}

// What was too short before is no reason to refuse something else.
TEST_F(FlowKeyRecords, OtherAgesMayBeSetWhateverTheRecords) {
  add_flow(kGo);
  store_.set_retention({.bodies = 1h, .records = 1h, .ids = 1h}).value();
  zone_.set_retention({.bodies = 30min, .records = 2h, .ids = 1h}).value();
}

// --- A run that cannot begin --------------------------------------------------------------------

TEST_F(FlowKeyRecords, AKeyIsGivenBackWhenItsRunCannotBegin) {
  add_flow(kGo);
  store_.takes_starts = false;
  const auto refused = start();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::too_large);
  EXPECT_FALSE(refused.error().in_doubt);
  EXPECT_THAT(refused.error().message, HasSubstr("nothing was started"));
  EXPECT_FALSE(key());
  store_.takes_starts = true;
  const Started started = start().value();
  EXPECT_FALSE(started.duplicate);
  EXPECT_EQ(start().value().run, started.run);
  EXPECT_TRUE(start().value().duplicate);
}

TEST_F(FlowKeyRecords, AKeyThatWasLeftBehindIsGivenBackWhenItsRunCannotBegin) {
  add_flow(kGo);
  leave_a_key();
  store_.takes_starts = false;
  finish_starts();
  EXPECT_FALSE(key());
}

TEST_F(FlowKeyRecords, AKeyWhoseRunHasBegunIsNotGivenBack) {
  add_flow(kGo);
  leave_a_key();
  core::FlowEvent started{.run = "w-1", .workflow = "w", .version = 1, .key = "7"};
  started.value = R"({"id":7})";
  log_.append(engine::EventLog::entry_of(started)).value();
  store_.takes_starts = false;
  EXPECT_EQ(start().value().run, "w-1");
  finish_starts();
  EXPECT_EQ(key()->run, "w-1");
  EXPECT_FALSE(key()->ended);
}

// --- A run that is forgotten --------------------------------------------------------------------

TEST_F(FlowKeyRecords, TheEndOfAForgottenRunLetsTheTimeOfItsKeyBegin) {
  zone_.set_retention({.bodies = 240h, .records = 24h, .ids = 240h}).value();
  add_flow(kGo);
  const std::string run = start().value().run;
  settle();
  end_half(run);
  forget(25h);
  ASSERT_FALSE(run_store_.run(run).value());
  ASSERT_FALSE(key()->ended);
  settle();
  EXPECT_TRUE(key()->ended);
}

// Nothing but the id is left of how it began.
TEST_F(FlowKeyRecords, TheKeyOfAForgottenRunIsFoundByTheRunners) {
  zone_.set_retention({.bodies = 1h, .records = 24h, .ids = 240h}).value();
  add_flow(kGo);
  const std::string run = start().value().run;
  settle();
  end_half(run);
  forget(2h);
  forget(25h);
  settle();
  ASSERT_FALSE(key()->ended);
  finish_starts();
  EXPECT_TRUE(key()->ended);
  EXPECT_FALSE(run_store_.run(run).value()) << "it is not begun again";
  clock_->advance(25h);
  EXPECT_FALSE(start().value().duplicate);
}

// --- Outputs that lie elsewhere -----------------------------------------------------------------

TEST_F(FlowKeyRecords, OnlyWhoLooksAtOutputsReadsThem) {
  zone_.queues().add({.name = "q", .topic = "do.*"}).value();
  add_flow(R"({"id":"big","task":"do.big"},{"id":"flag","task":"do.flag"},
              {"id":"go","signal":"go","depends_on":["big","flag"],"skip_if":"steps.flag.no"})");
  const std::string run = start().value().run;
  settle();
  auto worker = zone_
                    .worker("q",
                            [](Context&) {
                              return Outcome::completed(
                                  json(R"({"text":")" + std::string(10'000, 'x') + "\"}"));
                            })
                    .value();
  while (worker.run_one().value()) continue;
  settle();
  store_.values_read = 0;
  ASSERT_EQ(flows_.runs({}).value().size(), 1U);
  EXPECT_EQ(store_.values_read, 1) << "a condition looks at the flag";
  store_.values_read = 0;
  flows_.signal(run, "go", {}, "1").value();
  EXPECT_EQ(store_.values_read, 1);
  store_.values_read = 0;
  EXPECT_TRUE(flows_.show(run).value().steps.at(0).output);
  EXPECT_GE(store_.values_read, 2);
}

}  // namespace
}  // namespace once
