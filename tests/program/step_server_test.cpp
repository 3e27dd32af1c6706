// The worker's end of steps, spoken to directly: whatever comes over the socket, and whenever, harms
// nobody but the step that said it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>

#include "exec/step_channel.h"
#include "program/steps.h"

namespace once::testing {
namespace {

using engine::step::Channel;
using engine::step::Message;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = Message::Kind;

Message message(Kind kind, const std::string& name = {}) {
  Message made{.kind = kind};
  made.name = name;
  return made;
}

// --- Messages -------------------------------------------------------------------------------

TEST(StepMessage, comes_as_it_went) {
  Message given{.kind = Kind::end};
  given.name = "a";
  given.policy = InDoubt::hold;
  given.key = "k";
  given.bytes = std::string("\0\377", 2);
  given.cut = true;
  given.limit = 7;
  given.oversize = 8;
  const auto frame = engine::step::encode(given);
  const auto taken = engine::step::decode(std::string_view(frame).substr(4));
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->kind, given.kind);
  EXPECT_EQ(taken->name, given.name);
  EXPECT_EQ(taken->policy, given.policy);
  EXPECT_EQ(taken->key, given.key);
  EXPECT_EQ(taken->bytes, given.bytes);
  EXPECT_TRUE(taken->cut);
  EXPECT_EQ(taken->limit, 7U);
  EXPECT_EQ(taken->oversize, 8U);
}

TEST(StepMessage, of_another_version_is_known_for_that) {
  Message given{.kind = Kind::begin};
  given.version = 2;
  const auto taken = engine::step::decode(engine::step::encode(given).substr(4));
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->version, 2U);
  EXPECT_EQ(taken->kind, Kind::none);
}

TEST(StepMessage, that_is_cut_short_or_of_no_kind_is_none) {
  auto given = message(Kind::begin, "name");
  given.policy = InDoubt::retry;
  const auto frame = engine::step::encode(given).substr(4);
  for (std::size_t size = 0; size < frame.size(); ++size)
    if (const auto taken = engine::step::decode(frame.substr(0, size))) {
      EXPECT_NE(taken->kind, Kind::none);
    }
  EXPECT_FALSE(engine::step::decode(""));
  for (const int kind : {0, 6, 15, 22, 99})
    EXPECT_FALSE(
        engine::step::decode(engine::step::encode({.kind = static_cast<Kind>(kind)}).substr(4)));
}

// --- The server -----------------------------------------------------------------------------

// A program that runs until it is let go, with its socket at hand.
class StepServer : public ::testing::Test {
 protected:
  void SetUp() override {
    attempt_.steps = &steps_;
    running_.emplace(stepping("echo $ONCE_SOCKET > $MARKS/socket; echo $$ > $MARKS/program; "
                              "while [ ! -e $MARKS/go ]; do sleep 0.01; done; "
                              "if [ -e $MARKS/last ]; then step last -- echo 1; fi"),
                     attempt_);
    program_ = marks_.await_pid("program");
    socket_ = contents(marks_.path() / "socket");
    socket_.pop_back();
  }
  void TearDown() override { end_program(); }

  engine::Report end_program() {
    std::ofstream(marks_.path() / "go") << 1;
    return running_->report();
  }
  // That a well-behaved step is served all the same.
  void expect_service() {
    std::ofstream(marks_.path() / "last") << 1;
    EXPECT_EQ(end_program().outcome.result(), *Body::json("1"));
    EXPECT_EQ(steps_.result("last"), "1\n");
  }
  store::FileDescriptor connect() { return engine::step::connect_to(socket_); }
  static void send(int fd, std::string_view bytes) {
    EXPECT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  static bool is_closed(int fd) {  // waits for that
    char byte = 0;
    return ::recv(fd, &byte, 1, 0) <= 0;
  }
  std::optional<Message> ask(Channel& channel, const Message& question) {
    EXPECT_TRUE(channel.send(question));
    return channel.receive();
  }

  const Marks marks_;
  FakeSteps steps_;
  Attempt attempt_;
  std::optional<Running> running_;
  pid_t program_ = 0;
  std::string socket_;
};

TEST_F(StepServer, hangs_up_on_nonsense) {
  const std::string frame = engine::step::encode(message(Kind::begin, "a"));
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(4, '\377'), std::string(4, '\0'),
        std::string("\x03\0\0\0abc", 7), std::string("\x01\0\0\0\xff", 5)}) {
    const auto socket = connect();
    ASSERT_TRUE(socket);
    send(socket.get(), bytes);
    EXPECT_TRUE(is_closed(socket.get()));
  }
  EXPECT_THAT(steps_.calls(), IsEmpty());
  expect_service();
}

TEST_F(StepServer, does_not_wait_for_the_rest_of_a_message) {
  const std::string frame = engine::step::encode(message(Kind::begin, "a"));
  const auto silent = connect();
  const auto half = connect();
  send(half.get(), frame.substr(0, frame.size() / 2));
  expect_service();  // and the end of the program is not kept up either
}

TEST_F(StepServer, does_not_wait_for_one_who_never_reads) {
  steps_.answer(FakeSteps::Kind::remembered, Body::bytes(std::string(1 << 20, 'x')));
  const auto deaf = connect();
  send(deaf.get(), engine::step::encode(message(Kind::begin, "a")));
  EXPECT_TRUE(eventually([&] { return steps_.calls().size() == 1; }));
  steps_.answer(FakeSteps::Kind::run);
  expect_service();
}

TEST_F(StepServer, refuses_another_version) {
  Channel channel(connect(), 1 << 20);
  auto question = message(Kind::begin, "a");
  question.version = 2;
  const auto answer = ask(channel, question);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->kind, Kind::refused);
  EXPECT_THAT(answer->bytes, HasSubstr("ONCE_BIN"));
  EXPECT_THAT(steps_.calls(), IsEmpty());
}

TEST_F(StepServer, refuses_what_is_out_of_turn) {
  for (const auto kind : {Kind::asked, Kind::end, Kind::fail, Kind::hold, Kind::run, Kind::done}) {
    Channel channel(connect(), 1 << 20);
    EXPECT_EQ(ask(channel, message(kind, "a"))->kind, Kind::refused);
  }
  EXPECT_THAT(steps_.calls(), IsEmpty());
  for (const auto kind : {Kind::begin, Kind::asked, Kind::hold}) {
    Channel channel(connect(), 1 << 20);
    EXPECT_EQ(
        ask(channel, message(Kind::begin, "a" + std::to_string(static_cast<int>(kind))))->kind,
        Kind::run);
    EXPECT_EQ(ask(channel, message(kind, "b"))->kind, Kind::refused);
  }
  EXPECT_THAT(steps_.calls(), ElementsAre("begin a1", "begin a2", "begin a5"));
}

TEST_F(StepServer, refuses_a_bad_name) {
  for (const std::string& name : {std::string(), std::string(129, 'n'), std::string("a\nb"),
                                  std::string("\377"), std::string("a\0b", 3)}) {
    Channel channel(connect(), 1 << 20);
    EXPECT_EQ(ask(channel, message(Kind::begin, name))->kind, Kind::refused);
  }
  EXPECT_THAT(steps_.calls(), IsEmpty());
}

TEST_F(StepServer, takes_one_end_per_step) {
  Channel channel(connect(), 1 << 20);
  EXPECT_EQ(ask(channel, message(Kind::begin, "a"))->kind, Kind::run);
  EXPECT_EQ(ask(channel, message(Kind::end))->kind, Kind::done);
  channel.send(message(Kind::end));
  EXPECT_FALSE(channel.receive());
  EXPECT_THAT(steps_.calls(), ElementsAre("begin a", "end a"));
}

TEST_F(StepServer, serves_many_at_once_and_refuses_too_many) {
  std::vector<Channel> channels;
  for (int i = 0; i < 256; ++i) {
    channels.emplace_back(connect(), 1 << 20);
    ASSERT_EQ(ask(channels.back(), message(Kind::begin, std::to_string(i)))->kind, Kind::run);
  }
  Channel one_more(connect(), 1 << 20);
  EXPECT_EQ(one_more.receive()->kind, Kind::refused);
  for (auto& channel : channels) EXPECT_EQ(ask(channel, message(Kind::end))->kind, Kind::done);
  channels.clear();
  expect_service();
}

TEST_F(StepServer, ends_with_the_program) {
  Channel channel(connect(), 1 << 20);
  EXPECT_EQ(ask(channel, message(Kind::begin, "a"))->kind, Kind::run);
  const auto idle = connect();
  EXPECT_EQ(end_program().outcome.kind(), Outcome::Kind::completed);
  channel.send(message(Kind::end));
  EXPECT_FALSE(channel.receive());
  EXPECT_TRUE(is_closed(idle.get()));
  EXPECT_FALSE(connect());
  EXPECT_THAT(steps_.calls(), ElementsAre("begin a"));
}

TEST_F(StepServer, waits_for_what_is_being_recorded) {
  steps_.block("end");
  Channel channel(connect(), 1 << 20);
  EXPECT_EQ(ask(channel, message(Kind::begin, "a"))->kind, Kind::run);
  channel.send(message(Kind::end));
  ASSERT_TRUE(eventually([&] { return steps_.is_blocked(); }));
  std::ofstream(marks_.path() / "go") << 1;
  const std::jthread later([&] {
    EXPECT_TRUE(eventually([&] { return !alive(program_); }));
    steps_.unblock();
  });
  running_->report();
  EXPECT_THAT(steps_.calls(), ElementsAre("begin a", "end a"));
}

}  // namespace
}  // namespace once::testing
