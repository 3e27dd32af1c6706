// What happens to a server and to the way to it while a zone is open: each is told as what it is, and
// nothing is lost or done twice.
#include <algorithm>
#include <mutex>
#include <thread>

#include "store/nats/subjects.h"
#include "support/eventually.h"
#include "support/tcp_proxy.h"
#include "unit/nats/nats_world.h"

namespace once::store::nats {
namespace {

using std::chrono::steady_clock;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr auto kSoon = 60s;

class NatsFaults : public NatsWorld {
 protected:
  void SetUp() override {
    NatsWorld::SetUp();
    if (!IsSkipped()) reopen(watchful());
  }
  void TearDown() override { close(); }  // it writes to the lines
  NatsOptions watchful() {
    return {.patience = 1s, .look_every = 100ms, .log = [this](std::string_view line) {
              const std::lock_guard lock(mutex_);
              lines_.emplace_back(line);
            }};
  }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  template <class Condition>
  static bool comes_true(Condition condition) {
    return testing::eventually(condition, kSoon);
  }
  // Appends until the answer is final: told that it cannot be, or accepted.
  Result<AppendResult> append_until_final(const Append& item) {
    const auto deadline = steady_clock::now() + kSoon;
    while (true) {
      auto answer = append(item);
      if (answer || !answer.error().retryable || steady_clock::now() > deadline) return answer;
      std::this_thread::sleep_for(10ms);
    }
  }
  // Until the zone is refused; the error.
  Error refusal() {
    Error error;
    int number = 0;
    EXPECT_TRUE(comes_true([&] {
      const auto answer = append(task("probe" + std::to_string(++number)));
      if (answer) return false;
      error = answer.error();
      return error.code == Code::store_unusable;
    })) << error.message;
    return error;
  }
  bool goes_on() {
    return comes_true([&] { return static_cast<bool>(append(task("probe"))); });
  }
  encoding::Json config_of(const std::string& stream) {
    return *raw("STREAM.INFO." + stream, "").member("config");
  }
  // Changes one field of a stream, as `nats stream edit` does.
  void edit(const std::string& stream, const std::string& field, const std::string& value) {
    const encoding::Json before = config_of(stream);
    std::string config = "{";
    for (const auto& [name, each] : before.members())
      if (name != field) config += nats::json_string(name) + ":" + encoding::canonical(each) + ",";
    const auto answer =
        raw("STREAM.UPDATE." + stream, config + nats::json_string(field) + ":" + value + "}");
    ASSERT_FALSE(answer.member("error")) << encoding::canonical(answer);
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

// --- Edited under us --------------------------------------------------------------------------

TEST_F(NatsFaults, AStreamThatIsEditedStopsNewWorkUntilItIsSetBack) {
  const struct {
    const char* stream;
    const char* field;
    const char* bad;
    const char* good;
    const char* harm;
  } cases[] = {
      {"ONCE_test_LOG", "max_age", "3600000000000", "0", "waiting tasks are lost"},
      {"ONCE_test_LOG", "discard", "\"old\"", "\"new\"", "waiting tasks are lost"},
      {"ONCE_test_LOG", "max_msgs_per_subject", "5", "-1", "dropped"},
      {"KV_once_test_ledger", "max_msgs_per_subject", "5", "1", "dropped"},
      {"KV_once_test_ledger", "max_age", "3600000000000", "0", "old ids may run again"},
  };
  add("work", 1h);
  for (const auto& each : cases) {
    SCOPED_TRACE(std::string(each.stream) + " " + each.field);
    const std::string id = std::string("begun ") + each.stream + each.field;
    publish(id);
    const auto delivery = fetch("work", 30s).at(0);
    const auto claimed = swap(record_of("work", delivery, State::running, 1h)).value();
    edit(each.stream, each.field, each.bad);
    const Error error = refusal();
    EXPECT_THAT(error.message, AllOf(HasSubstr(each.stream), HasSubstr(each.field),
                                     HasSubstr(each.harm), HasSubstr("nats stream edit")));
    EXPECT_FALSE(error.retryable);
    const auto fetched = store().fetch({.queue = "work", .wait = 30s});
    ASSERT_FALSE(fetched);
    EXPECT_EQ(fetched.error().message, error.message);
    EXPECT_TRUE(swap(record_of("work", delivery, State::completed, 1h, claimed.current->revision))
                    .value()
                    .written)
        << "what was begun is recorded";
    edit(each.stream, each.field, each.good);
    EXPECT_TRUE(goes_on());
    for (const Delivery& rest : fetch("work", 0s, 100))
      ASSERT_TRUE(swap(record_of("work", rest, State::completed, 1h)));
  }
}

TEST_F(NatsFaults, AFetchThatWaitsIsToldOfAnEdit) {
  add("work", 1h);
  std::thread editor([&] { edit("ONCE_test_LOG", "max_age", "3600000000000"); });
  const auto fetched = store().fetch({.queue = "work", .wait = kSoon});
  editor.join();
  ASSERT_FALSE(fetched);
  EXPECT_EQ(fetched.error().code, Code::store_unusable);
}

TEST_F(NatsFaults, ADenialThatCannotBeTakenBackIsTold) {
  edit("ONCE_test_LOG", "deny_delete", "true");
  EXPECT_THAT(refusal().message, AllOf(HasSubstr("deny_delete"), HasSubstr("retention")));
}

TEST_F(NatsFaults, AStreamThatIsDeletedIsMissedAndNotMadeAnew) {
  for (const char* stream : {"KV_once_test_ledger", "ONCE_test_LOG"}) {
    SCOPED_TRACE(stream);
    publish(std::string("kept before ") + stream);
    raw(std::string("STREAM.DELETE.") + stream, "");
    EXPECT_THAT(refusal().message, AllOf(HasSubstr(stream), HasSubstr("gone")));
    const auto fresh = open();
    ASSERT_FALSE(fresh) << "who comes later must not begin anew in half a zone";
    EXPECT_EQ(fresh.error().code, Code::store_unusable);
    EXPECT_THAT(fresh.error().message, HasSubstr(stream));
    EXPECT_TRUE(raw(std::string("STREAM.INFO.") + stream, "").member("error"));
    for (const std::string& each : Subjects{.zone = "test"}.streams())
      raw("STREAM.DELETE." + each, "");
    reopen(watchful());
  }
}

TEST_F(NatsFaults, AStreamThatIsMadeAnewIsNotTakenForTheOldOne) {
  publish("before");
  for (const char* stream : {"ONCE_test_LOG"}) {
    const std::string config = encoding::canonical(config_of(stream));
    raw(std::string("STREAM.DELETE.") + stream, "");
    ASSERT_FALSE(raw(std::string("STREAM.CREATE.") + stream, config).member("error"));
    EXPECT_THAT(refusal().message, AllOf(HasSubstr(stream), HasSubstr("made anew")));
  }
  const Swap item{.at = {.kind = Address::Kind::lone, .queue = "work", .key = "x"}};
  EXPECT_FALSE(swap(item)) << "nothing is recorded in a zone that is another one";
}

TEST_F(NatsFaults, AConsumerThatWasEditedIsSetBackByTheNextWorker) {
  add("work", 30s);
  publish("a");
  const std::string name =
      raw("CONSUMER.NAMES.ONCE_test_LOG", "").member("consumers")->items().at(0).string();
  const auto config = [&] {
    return *raw("CONSUMER.INFO.ONCE_test_LOG." + name, "").member("config");
  };
  const encoding::Json before = config();
  std::string edited = "{";
  for (const auto& [field, value] : before.members())
    if (field != "max_deliver")
      edited += nats::json_string(field) + ":" + encoding::canonical(value) + ",";
  raw("CONSUMER.CREATE.ONCE_test_LOG." + name,
      R"({"stream_name":"ONCE_test_LOG","config":)" + edited + R"("max_deliver":3}})");
  ASSERT_EQ(config().member("max_deliver")->number(), 3);
  const auto member = store().join("work", "worker").value();
  EXPECT_EQ(config().member("max_deliver")->number(), -1);
  EXPECT_THAT(fetch("work", 30s), SizeIs(1));
}

// --- Servers that go and come -----------------------------------------------------------------

TEST_F(NatsFaults, AServerThatRestartsIsFoundAgainAndTheLogSaysSo) {
  add("work", 30s);
  publish("a");
  server().kill();
  EXPECT_TRUE(comes_true([&] { return !lines().empty(); }));
  EXPECT_EQ(lines().front(), "connection to " + server().url() + " lost; trying again");
  server().start();
  EXPECT_TRUE(append_until_final(task("b")));
  EXPECT_THAT(lines(), Contains(AllOf(StartsWith("connected again to " + server().url() + " after"),
                                      ::testing::EndsWith(" s"))));
  EXPECT_TRUE(store().find("a").value());
}

TEST_F(NatsFaults, AServerThatLostItsDataIsNotTakenForTheZone) {
  add("work", 30s);
  publish("before");
  server().kill();
  server().wipe();
  server().start();
  const Error error = refusal();
  EXPECT_THAT(error.message, AllOf(HasSubstr("gone"), HasSubstr("lost its data")));
  EXPECT_FALSE(error.retryable);
  const auto fetched = store().fetch({.queue = "work", .wait = 30s});
  ASSERT_FALSE(fetched);
  EXPECT_EQ(fetched.error().code, Code::store_unusable);

  // Somebody begins anew there, and we are still those of the old zone.
  const auto another = open().value();
  EXPECT_TRUE(comes_true([&] {
    const auto answer = append(task("from the old one"));
    return !answer && answer.error().message.find("made anew") != std::string::npos;
  }));
  EXPECT_THAT(another->read({}, 100, {}).value(), SizeIs(0));
}

TEST_F(NatsFaults, AServerThatIsSilentAtTheStartIsGivenUpAfterABoundedTime) {
  server().pause();
  const auto began = steady_clock::now();
  const auto opened = open(1s);
  server().resume();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::store_unavailable);
  EXPECT_LT(steady_clock::now() - began, 30s);
}

// --- No room ----------------------------------------------------------------------------------

TEST_F(NatsFaults, AFullLogRefusesAndGoesOnWhenThereIsRoom) {
  publish("before");
  edit("ONCE_test_LOG", "max_bytes", "20000");
  const Append large = task("large", '"' + std::string(30'000, 'x') + '"');
  const auto full = append(large);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::store_unusable);
  EXPECT_TRUE(full.error().retryable);
  EXPECT_FALSE(full.error().in_doubt);
  EXPECT_THAT(full.error().message, AllOf(HasSubstr("no room"), HasSubstr("nothing was stored")));
  EXPECT_TRUE(store().find("before").value()) << "nothing was dropped for it";
  EXPECT_FALSE(store().find("large").value());
  edit("ONCE_test_LOG", "max_bytes", "-1");
  EXPECT_EQ(append(large).value().verdict, core::AppendVerdict::accepted);
}

TEST_F(NatsFaults, AFullLedgerKeepsTheClaimAndTakesTheCompletionWhenThereIsRoom) {
  add("work", 1h);
  publish("a");
  const auto delivery = fetch("work").at(0);
  const auto claimed = swap(record_of("work", delivery, State::running, 1h)).value();
  Swap done = record_of("work", delivery, State::completed, 1h, claimed.current->revision);
  done.record.result = Body::json('"' + std::string(30'000, 'x') + '"').value();
  edit("KV_once_test_ledger", "max_bytes", "20000");
  const auto full = swap(done);
  ASSERT_FALSE(full);
  EXPECT_TRUE(full.error().retryable);
  EXPECT_FALSE(full.error().in_doubt);
  EXPECT_THAT(full.error().message, HasSubstr("no room"));
  edit("KV_once_test_ledger", "max_bytes", "-1");
  EXPECT_TRUE(swap(done).value().written);
}

TEST_F(NatsFaults, AMessageLargerThanTheStreamAllowsIsTooLarge) {
  edit("ONCE_test_LOG", "max_msg_size", "1000");
  const auto refused = append(task("large", '"' + std::string(3'000, 'x') + '"'));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::too_large);
  EXPECT_THAT(refused.error().message, HasSubstr("max_msg_size"));
}

// --- The way to the server --------------------------------------------------------------------

class NatsPartition : public NatsFaults {
 protected:
  void SetUp() override {
    NatsFaults::SetUp();
    if (IsSkipped()) return;
    const std::string url = server().url();
    proxy_ = std::make_unique<testing::TcpProxy>(std::stoi(url.substr(url.rfind(':') + 1)));
    NatsOptions options = watchful();
    options.servers = {proxy_->url()};
    options.patience = 500ms;
    reopen(options);
  }
  testing::TcpProxy& proxy() { return *proxy_; }

 private:
  std::unique_ptr<testing::TcpProxy> proxy_;
};

TEST_F(NatsPartition, AnAppendWhoseAnswerIsLostIsFoundByItsNonce) {
  const Append item = task("a");
  proxy().hold_answers(true);
  const auto lost = append(item);
  ASSERT_FALSE(lost);
  EXPECT_TRUE(lost.error().in_doubt) << "it happened, and nobody said so";
  proxy().cut();
  proxy().hold_answers(false);
  EXPECT_EQ(append_until_final(item).value().verdict, core::AppendVerdict::accepted);
  const auto entry = store().find("a").value();
  EXPECT_EQ(entry->sequence, Sequence{1});
  EXPECT_EQ(entry->duplicates, 0U);
}

// As much as a server lets wait for a client: it cuts off who is behind by more.
TEST_F(NatsPartition, WhoIsSlowWithLargeTasksIsNotCutOff) {
  NatsOptions options = watchful();
  options.servers = {proxy().url()};
  options.patience = 20s;
  reopen(options);
  add("q", 30s);
  const std::string large = "\"" + std::string(1'000'000, 'x') + "\"";
  constexpr int kTasks = 90;
  for (int i = 0; i < kTasks; ++i) ASSERT_TRUE(append(task(std::to_string(i), large)));
  const int connections = proxy().taken();
  proxy().hold_answers(true);
  std::jthread later([&] {
    std::this_thread::sleep_for(1s);  // no condition: so long the client does not read
    proxy().hold_answers(false);
  });
  std::size_t handed_over = 0;
  while (handed_over < kTasks) {
    const auto some = fetch("q", 20s, kTasks);
    ASSERT_FALSE(some.empty());
    handed_over += some.size();
  }
  EXPECT_EQ(proxy().taken(), connections);
}

// The server's time is taken low by what its answer took: a task must not wait for that.
TEST_F(NatsPartition, ATaskIsHandedOverAtOnceByAStoreWhoseClockIsBehind) {
  add("q", 30s);
  NatsOptions options = watchful();
  options.servers = {proxy().url()};
  options.zone = "test";
  options.patience = 5s;
  const auto behind = open_nats(options).value();
  proxy().hold_answers(true);
  std::jthread later([&] {
    std::this_thread::sleep_for(1s);  // no condition: so far its clock is behind then
    proxy().hold_answers(false);
  });
  behind->now();
  later.join();
  publish("a");
  ASSERT_LT(behind->now(), store().find("a").value()->appended_at) << "else nothing is tested";
  EXPECT_THAT(behind->fetch({.queue = "q"}).value(), SizeIs(1));
}

TEST_F(NatsPartition, AnAppendThatNeverArrivedIsMadeByTheNextOne) {
  const Append item = task("a");
  proxy().hold_questions(true);
  const auto lost = append(item);
  ASSERT_FALSE(lost);
  EXPECT_TRUE(lost.error().in_doubt) << "for all that we know";
  proxy().cut();
  proxy().hold_questions(false);
  EXPECT_EQ(append_until_final(item).value().verdict, core::AppendVerdict::accepted);
  EXPECT_THAT(store().read({}, 10, {}).value(), SizeIs(1));
}

TEST_F(NatsPartition, ACompletionWhoseAnswerIsLostIsReadBack) {
  add("work", 1h);
  publish("a");
  const auto delivery = fetch("work", 30s).at(0);
  const auto claimed = swap(record_of("work", delivery, State::running, 1h)).value();
  const Swap done = record_of("work", delivery, State::completed, 1h, claimed.current->revision);
  proxy().hold_answers(true);
  const auto lost = swap(done);
  ASSERT_FALSE(lost);
  EXPECT_TRUE(lost.error().in_doubt);
  proxy().cut();
  proxy().hold_answers(false);
  std::optional<Stored> read;
  EXPECT_TRUE(comes_true([&] {
    auto answer = std::move(store().get(std::span(&done.at, 1)).front());
    if (!answer) return false;
    read = std::move(*answer);
    return true;
  }));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->record.state, State::completed);
}

TEST_F(NatsPartition, ASilentServerIsGivenUpAndFoundAgain) {
  publish("before");
  const int before = proxy().taken();
  proxy().hold_answers(true);
  proxy().hold_questions(true);
  EXPECT_TRUE(comes_true([&] { return !lines().empty(); })) << "nobody cut it: it was silent";
  EXPECT_THAT(lines().front(), HasSubstr("lost; trying again"));
  proxy().hold_answers(false);
  proxy().hold_questions(false);
  EXPECT_TRUE(append_until_final(task("after")));
  EXPECT_GT(proxy().taken(), before);
}

// An answer has some 130 bytes. The parser must not keep its first part for the next connection.
TEST_F(NatsPartition, AConnectionThatIsCutInsideAnAnswerIsMadeAgain) {
  for (int bytes = 1; bytes < 150; bytes += 13) {
    proxy().cut_after_answers(bytes);
    const Append item = task("a" + std::to_string(bytes));
    const auto answer = append_until_final(item);
    ASSERT_TRUE(answer) << "cut after " << bytes << " bytes: " << answer.error().message;
    EXPECT_EQ(answer->verdict, core::AppendVerdict::accepted);
    while (!proxy().has_cut_answers()) ASSERT_TRUE(goes_on()) << "cut after " << bytes << " bytes";
  }
}

TEST_F(NatsPartition, AConnectionThatIsCutAgainAndAgainLosesAndDoublesNothing) {
  constexpr std::size_t kTasks = 2'000;
  std::vector<Append> items;
  for (std::size_t i = 0; i < kTasks; ++i) items.push_back(task("task" + std::to_string(i)));
  std::atomic<bool> over{false};
  std::thread saboteur([&] {
    for (int cut = 0; !over && cut < 8; ++cut) {
      const int before = proxy().taken();
      proxy().cut();
      testing::eventually([&] { return over || proxy().taken() != before; });
      // No condition: each connection lives a little longer than the one before.
      std::this_thread::sleep_for(std::chrono::milliseconds{20 * cut});
    }
  });
  std::vector<Append> open = items;
  const auto deadline = steady_clock::now() + kSoon;
  while (!open.empty() && steady_clock::now() < deadline) {
    std::vector<Append> again;
    const auto answers = store().append(open);
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (answers[i]) {
        EXPECT_EQ(answers[i]->verdict, core::AppendVerdict::accepted) << open[i].id;
      } else {
        EXPECT_TRUE(answers[i].error().retryable) << answers[i].error().message;
        again.push_back(open[i]);
      }
    }
    open = std::move(again);
  }
  over = true;
  saboteur.join();
  EXPECT_THAT(open, SizeIs(0));
  std::vector<std::string> ids;
  Sequence after;
  while (true) {
    const auto page = store().read(after, 500, {});
    if (!page) continue;
    if (page->empty()) break;
    for (const Entry& entry : *page) ids.push_back(entry.id);
    after = page->back().sequence;
  }
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(ids.size(), kTasks);
  EXPECT_EQ(std::unique(ids.begin(), ids.end()), ids.end());
}

}  // namespace
}  // namespace once::store::nats
