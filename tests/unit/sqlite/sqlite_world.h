// What the tests of the SQLite store share: a zone in a folder of its own, a second process, and a
// look at the file behind the store's back.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>

#include "once/testing.h"
#include "store/sqlite/sqlite_store.h"
#include "support/temp_folder.h"

namespace once::sqlite_test {

using namespace std::chrono_literals;
using core::Member;
using core::Record;
using core::Sequence;
using store::Address;
using store::Append;
using store::Entry;
using store::Store;

// Longer than anything takes on a busy machine.
inline constexpr auto kLongEnough = 60s;

inline std::unique_ptr<Store> open_zone(const std::filesystem::path& path,
                                        std::shared_ptr<Clock> clock = {},
                                        Duration lock_wait = 30s) {
  store::SqliteOptions options;
  options.path = path;
  options.clock = std::move(clock);
  options.lock_wait = lock_wait;
  return store::open_sqlite(options).value();
}

inline Append task(std::string id, std::string body = "{}", std::string topic = "orders.new") {
  Append item{.id = std::move(id), .topic = std::move(topic), .body = Body::bytes(std::move(body))};
  const std::size_t hash = std::hash<std::string>{}(item.id);
  for (std::size_t i = 0; i < sizeof hash; ++i)
    item.nonce.bytes[i] = static_cast<std::uint8_t>(hash >> (8 * i));
  return item;
}

inline Result<store::AppendResult> append(Store& store, const Append& item) {
  return std::move(store.append(std::span(&item, 1)).front());
}

inline Queue queue_of(std::string name) {
  Queue queue;
  queue.name = std::move(name);
  queue.topic = ">";
  return queue;
}

// Claims by the rules of the core.
class RuleClaimer final : public store::Claimer {
 public:
  explicit RuleClaimer(Queue queue, Member member = {})
      : queue_(std::move(queue)), member_(member) {}
  std::optional<Address> address(const Entry& entry) override {
    return Address{.queue = queue_.name, .key = entry.id, .sequence = entry.sequence};
  }
  std::optional<Record> claim(const Entry& entry, const core::Stored* stored,
                              const core::Order* order, core::Now now) override {
    const auto random = std::random_device{}();
    core::Claim claim{.sequence = entry.sequence,
                      .digest = entry.digest,
                      .worker = "tester",
                      .member = member_,
                      .not_before = entry.not_before()};
    if (order) claim.order = *order;
    std::memcpy(claim.nonce.bytes.data(), &random, sizeof random);
    return core::decide(stored, claim, core::policy_of(queue_), now).next;
  }

 private:
  Queue queue_;
  Member member_;
};

inline std::vector<store::Delivery> claim(Store& store, const Queue& queue, Member member = {},
                                          Duration wait = {}) {
  RuleClaimer claimer(queue, member);
  return store.fetch({.queue = queue.name, .claimer = &claimer, .wait = wait}).value();
}

inline Address address_of(const Queue& queue, const Entry& entry) {
  return {.queue = queue.name, .key = entry.id, .sequence = entry.sequence};
}

inline std::optional<core::Stored> get(Store& store, const Address& at) {
  return std::move(store.get(std::span(&at, 1)).front()).value();
}

inline void complete(Store& store, const Queue& queue, const store::Delivery& delivery) {
  store::Swap done{.at = address_of(queue, delivery.entry),
                   .expected = delivery.stored.value().revision,
                   .record = delivery.stored->record,
                   .handle = delivery.handle};
  done.record.state = State::completed;
  ASSERT_TRUE(store.swap(std::span(&done, 1)).front().value().written);
}

// Runs a statement on the file as another program would.
inline void behind_its_back(const std::filesystem::path& path, const std::string& sql) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  sqlite3_busy_timeout(db, 10'000);
  EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(db);
  sqlite3_close(db);
}

// Makes a file of this version one of version 5, and one of version 3.
inline constexpr const char* kToVersion5 =
    "DROP TRIGGER queue_moved; DROP TABLE kv; ALTER TABLE ledger DROP COLUMN owes;"
    "PRAGMA user_version = 5;";
inline constexpr const char* kToVersion3 =
    "DROP TRIGGER queue_moved; DROP TABLE kv; ALTER TABLE ledger DROP COLUMN owes;"
    "DROP TRIGGER value_goes; DROP TABLE value; ALTER TABLE ledger DROP COLUMN own_size;"
    "DROP INDEX ledger_due; ALTER TABLE ledger DROP COLUMN watched;"
    "ALTER TABLE queue DROP COLUMN swept; ALTER TABLE queue DROP COLUMN lapse;"
    "CREATE INDEX ledger_due ON ledger (qid, due) WHERE due IS NOT NULL;"
    "CREATE INDEX ledger_alone ON ledger (qid, stamp) WHERE place < 0 AND state IN (5, 7);"
    "PRAGMA user_version = 3;";

// A pipe to say one thing over, from process to process.
class Signal {
 public:
  Signal() {
    if (pipe(ends_.data()) != 0) throw std::runtime_error("no pipe");
  }
  ~Signal() {
    close(ends_[0]);
    close(ends_[1]);
  }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  void give() const {
    const char byte = 1;
    if (write(ends_[1], &byte, 1) != 1) throw std::runtime_error("the pipe is broken");
  }
  // False: nothing came in time.
  bool take(std::chrono::milliseconds wait = kLongEnough) const {
    pollfd source{.fd = ends_[0], .events = POLLIN, .revents = 0};
    if (poll(&source, 1, static_cast<int>(wait.count())) != 1) return false;
    char byte = 0;
    return read(ends_[0], &byte, 1) == 1;
  }

 private:
  std::array<int, 2> ends_{};
};

// Another process. It starts as a copy of this one: start it while this one has no store open and
// no other threads.
class Child {
 public:
  explicit Child(const std::function<void()>& body) {
    std::fflush(nullptr);  // or the child says it all again
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) throw std::runtime_error("no process");
    if (pid_ > 0) return;
    // A child whose parent leaves by _exit() would keep the test's output open, and ctest waiting.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    int status = 0;
    try {
      body();
    } catch (...) {
      status = 1;
    }
    _exit(status);
  }
  ~Child() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  // Its exit status; -1: it was killed.
  int join() {
    int status = 0;
    waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void end() {
    kill(pid_, SIGKILL);
    join();
  }
  void wait_until_stopped() const {
    int status = 0;
    waitpid(pid_, &status, WUNTRACED);
    ASSERT_TRUE(WIFSTOPPED(status));
  }

 private:
  pid_t pid_ = 0;
};

}  // namespace once::sqlite_test
