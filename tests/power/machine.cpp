#include "power/machine.h"

#include <sqlite3.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <stdexcept>

#include "api/access.h"
#include "store/sqlite/sqlite_store.h"

namespace once::power {
namespace {

// For a single thread: nobody else ever holds a mutex, and who waits finds that the time has come.
class OneThread final : public engine::Scheduler {
 public:
  explicit OneThread(std::uint64_t seed) : random_(seed) {}

  engine::Moment now() override { return now_; }
  std::unique_ptr<engine::Mutex> mutex() override { return std::make_unique<NoMutex>(*this); }
  // Keepers watch over handlers that take longer than these.
  std::unique_ptr<engine::Activity> spawn(std::function<void()>) override {
    return std::make_unique<engine::Activity>();
  }
  double random() override { return static_cast<double>(random_() >> 11U) * 0x1.0p-53; }
  void random_bytes(std::uint8_t* to, std::size_t size) override {
    for (std::size_t i = 0; i < size; ++i) to[i] = static_cast<std::uint8_t>(random_());
  }

 private:
  class NoMutex final : public engine::Mutex {
   public:
    explicit NoMutex(OneThread& scheduler) : scheduler_(scheduler) {}
    void lock() override {}
    void unlock() override {}
    std::unique_ptr<engine::Condition> condition() override {
      return std::make_unique<Wait>(scheduler_);
    }

   private:
    OneThread& scheduler_;
  };
  class Wait final : public engine::Condition {
   public:
    explicit Wait(OneThread& scheduler) : scheduler_(scheduler) {}
    void wait(std::optional<engine::Moment> deadline) override {
      if (!deadline) throw std::logic_error("waits for another thread, and there is none");
      scheduler_.now_ = std::max(scheduler_.now_, *deadline);
    }
    void notify_one() override {}
    void notify_all() override {}

   private:
    OneThread& scheduler_;
  };

  std::mt19937_64 random_;
  engine::Moment now_{std::chrono::hours{1}};
};

}  // namespace

Machine::Machine(std::filesystem::path folder, const Image& image, MachineOptions options)
    : folder_(std::move(folder)),
      boot_id_(std::move(options.boot_id)),
      disk_(image, options.disk),
      vfs_(disk_, std::move(options.synchronous)),
      // What the clock says after the power came back is anybody's guess.
      clock_(std::make_shared<testing::VirtualClock>(
          Time{Duration{options.disk.seed % 1'700'000'000'000}})) {}

Machine::~Machine() { close(); }

Result<void> Machine::open() {
  show_file();
  auto opened = store::open_sqlite({.path = path(), .clock = clock_, .boot_id = boot_id_});
  if (!opened) return opened.error();
  store_ = opened->get();
  zone_ = detail::Access::make<Zone>(std::make_shared<detail::ZoneState>(
      std::move(*opened), std::make_unique<OneThread>(disk_.seed() + disk_.operations())));
  return {};
}

void Machine::close() {
  store_ = nullptr;
  zone_.reset();
}

// The store looks at the file by itself before SQLite opens it.
void Machine::show_file() {
  if (!disk_.exists(path())) {
    std::filesystem::remove(path());
    return;
  }
  std::ofstream shown(path(), std::ios::trunc);
  if (disk_.size(path()) > 0) shown << "is on the disk that lies";
}

std::string Machine::integrity() {
  sqlite3* db = nullptr;
  std::string answer;
  int code = sqlite3_open(path().c_str(), &db);
  if (code == SQLITE_OK)
    code = sqlite3_exec(
        db, "PRAGMA integrity_check",
        [](void* to, int, char** values, char**) {
          static_cast<std::string*>(to)->append(values[0]);
          return 0;
        },
        &answer, nullptr);
  if (code != SQLITE_OK) answer = sqlite3_errmsg(db);
  sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  sqlite3_close(db);
  return answer;
}

}  // namespace once::power
