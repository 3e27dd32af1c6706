// What a question costs does not grow with the log: pages read their entries and the records of
// these, counting reads what was written since.
#include "unit/nats/nats_world.h"

namespace once::store::nats {
namespace {

using ::testing::SizeIs;

class NatsScale : public NatsWorld {
 protected:
  void SetUp() override {
    NatsWorld::SetUp();
    if (IsSkipped()) return;
    add("work", 1h);
    mux_ = RequestMux::open({.servers = {server().url()}}).value();
    listener_ = mux_->listen("$JS.API.>", [this] { ++heard_; }).value();
    JetStreamClient(*mux_).call("INFO", "").value();  // the subscription is there
  }

  std::vector<Sequence> publish_many(std::size_t count) {
    std::vector<Append> items;
    for (std::size_t i = 0; i < count; ++i) items.push_back(task("task-" + std::to_string(i)));
    std::vector<Sequence> sequences;
    for (auto& answer : store().append(items)) sequences.push_back(answer.value().sequence);
    return sequences;
  }
  void record(std::size_t first, std::size_t last, const std::vector<Sequence>& sequences,
              State state) {
    std::vector<Swap> swaps;
    for (std::size_t i = first; i < last; ++i)
      swaps.push_back(
          {.at = {.queue = "work", .key = "task-" + std::to_string(i), .sequence = sequences[i]},
           .record = {.sequence = sequences[i], .state = state, .lease = 1h}});
    for (auto& answer : store().swap(swaps)) ASSERT_TRUE(answer.value().written);
  }
  std::uint64_t count(State state) { return store().counts("work").value().tasks.at(state); }
  // How many questions the call puts to JetStream.
  template <class Call>
  int questions(Call call) {
    JetStreamClient(*mux_).call("INFO", "").value();
    const int before = heard_;
    call();
    JetStreamClient(*mux_).call("INFO", "").value();  // what was asked before is heard before
    return heard_ - before - 1;
  }
  std::vector<std::string> ids_in_log(std::size_t page) {
    std::vector<std::string> ids;
    for (Sequence after;;) {
      const auto entries = store().read(after, page, {}).value();
      if (entries.empty()) return ids;
      for (const Entry& each : entries) ids.push_back(each.id);
      after = entries.back().sequence;
    }
  }
  Retired retire_all(std::size_t page) {
    Retired total;
    Sequence after;
    do {
      const auto next = store().retire(after, page).value();
      total.bodies += next.retired.bodies;
      total.records += next.retired.records;
      total.ids += next.retired.ids;
      after = next.next;
    } while (after);
    return total;
  }

 private:
  std::unique_ptr<RequestMux> mux_;
  std::atomic<int> heard_{0};
  std::unique_ptr<Subscription> listener_;
};

TEST_F(NatsScale, APageAtTheEndOfALongLogReadsThatPage) {
  constexpr std::size_t kTasks = 20'000;
  const auto sequences = publish_many(kTasks);
  record(kTasks - 300, kTasks - 100, sequences, State::completed);
  const Sequence late = sequences[kTasks - 200];
  constexpr int kFew = 8;
  EXPECT_LE(questions([&] { EXPECT_THAT(store().read(late, 100, {}).value(), SizeIs(100)); }),
            kFew);
  Row last{.entry = {.sequence = late}, .queue = "work"};
  EXPECT_LE(questions([&] {
              EXPECT_THAT(store().rows({.queue = "work"}, &last, 100).value().rows, SizeIs(100));
            }),
            10);
  EXPECT_LE(questions([&] { store().retire(late, 100).value(); }), 12);

  EXPECT_EQ(count(State::completed), 200U);
  record(0, 10, sequences, State::completed);
  EXPECT_LE(questions([&] { EXPECT_EQ(count(State::completed), 210U); }), 20);
  EXPECT_LE(questions([&] { store().overlooked("work", {}, 100).value(); }), 12);
  EXPECT_EQ(store().unrouted().value(), 0U);
  EXPECT_LE(questions([&] { EXPECT_EQ(store().unrouted().value(), 0U); }), 6);
}

TEST_F(NatsScale, RetiredEntriesKeepTheirPlacesInPagesOfAnySize) {
  constexpr std::size_t kTasks = 2'500;
  const auto sequences = publish_many(kTasks);
  record(0, 1'500, sequences, State::completed);
  record(1'500, 1'501, sequences, State::dead);
  const auto all = ids_in_log(500);
  EXPECT_THAT(all, SizeIs(kTasks));
  EXPECT_EQ(count(State::completed), 1'500U);
  store().set_retention({.bodies = 0ms, .records = 1h, .ids = 1h}).value();
  EXPECT_EQ(retire_all(400).bodies, 1'500U);
  EXPECT_EQ(count(State::completed), 1'500U);
  EXPECT_EQ(count(State::waiting), kTasks - 1'501);
  EXPECT_EQ(ids_in_log(500), all);
  EXPECT_EQ(ids_in_log(77), all);
  const auto dead = store().rows({.queue = "work", .state = State::dead}, nullptr, 10).value();
  ASSERT_THAT(dead.rows, SizeIs(1));
  EXPECT_EQ(dead.rows[0].entry.sequence, sequences[1'500]);
  store().set_retention({.bodies = 0ms, .records = 0ms, .ids = 1h}).value();
  EXPECT_EQ(retire_all(400).records, 1'500U);
  EXPECT_EQ(count(State::completed), 0U);
  EXPECT_EQ(ids_in_log(500), all) << "ids are kept";
  store().set_retention({.bodies = 0ms, .records = 0ms, .ids = 0ms}).value();
  EXPECT_EQ(retire_all(400).ids, 1'500U);
  EXPECT_THAT(ids_in_log(500), SizeIs(kTasks - 1'500));
  EXPECT_EQ(count(State::waiting), kTasks - 1'501);
}

// Retired ids lie behind the tasks: they are passed by in pages, not one by one.
TEST_F(NatsScale, AmongManyRetiredEntriesOneIsReadAtOnceAndTheEndIsFoundInPages) {
  constexpr std::size_t kTasks = 2'000;
  const auto sequences = publish_many(kTasks);
  record(0, kTasks - 1, sequences, State::completed);
  store().set_retention({.bodies = 0ms, .records = 1h, .ids = 1h}).value();
  EXPECT_EQ(retire_all(500).bodies, kTasks - 1);
  EXPECT_LE(questions([&] {
              const auto one = store().read(sequences[9], 1, {}).value();
              ASSERT_THAT(one, SizeIs(1));
              EXPECT_EQ(one[0].id, "task-10");
            }),
            12);
  EXPECT_LE(
      questions([&] { EXPECT_THAT(store().read(sequences.back(), 1, {}).value(), SizeIs(0)); }),
      40);
  append({.id = "run.started", .topic = "$once.flow.payment.started"}).value();
  EXPECT_LE(questions([&] {
              const auto one = store().read(sequences.back(), 1, {}).value();
              ASSERT_THAT(one, SizeIs(1));
              EXPECT_EQ(one[0].id, "run.started");
            }),
            40);
}

TEST_F(NatsScale, ARecordUnderAKeyIsFoundAndDroppedWithoutTheBody) {
  Queue keyed;
  keyed.name = "keyed";
  keyed.topic = ">";
  keyed.key = "{doc}";
  store().add_queue(keyed).value();
  store().remove_queue("work").value();
  const Sequence sequence = append(task("a", R"({"doc":"d1"})")).value().sequence;
  const Swap item{.at = {.queue = "keyed", .key = "d1", .sequence = sequence},
                  .record = {.sequence = sequence, .state = State::completed}};
  ASSERT_TRUE(swap(item).value().written);
  store().set_retention({.bodies = 0ms, .records = 1h, .ids = 1h}).value();
  EXPECT_EQ(retire_all(10).bodies, 1U);
  const auto rows = store().rows({.queue = "keyed"}, nullptr, 10).value().rows;
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].key, "d1");
  EXPECT_EQ(rows[0].stored->record.state, State::completed);
  store().set_retention({.bodies = 0ms, .records = 0ms, .ids = 1h}).value();
  EXPECT_EQ(retire_all(10).records, 1U);
  EXPECT_FALSE(store().get(std::span(&item.at, 1)).front().value());
}

TEST_F(NatsScale, WhatIsRemovedBesideUsIsNotCountedAnyMore) {
  const auto sequences = publish_many(20);
  record(0, 10, sequences, State::completed);
  EXPECT_EQ(count(State::completed), 10U);
  raw("STREAM.PURGE.KV_once_test_ledger", R"({"filter":"$KV.once_test_ledger.work.*.k.task-3"})");
  EXPECT_EQ(count(State::completed), 9U);
  EXPECT_EQ(count(State::waiting), 11U);
  raw("STREAM.PURGE.ONCE_test_LOG", R"({"filter":"once.test.log.task-15.>"})");
  EXPECT_EQ(count(State::waiting), 10U);
}

}  // namespace
}  // namespace once::store::nats
