// The stores that keep the contract. FaultyStore without a plan must be no different from what it
// wraps.
#include "contract/contract.h"
#include "store/memory/memory_store.h"
#include "store/sqlite/sqlite_store.h"
#include "support/faulty_store.h"
#ifdef ONCE_NATS
#include "store/nats/nats_store.h"
#include "store/nats/subjects.h"
#include "support/nats_server.h"
#endif

namespace once::contract {
namespace {

#ifdef ONCE_NATS
// One server, or one cluster, for all tests of the process; each test has a zone of its own.
std::vector<std::string> one_node() {
  static testing::NatsServer server;
  return {server.url()};
}

std::vector<std::string> small_node() {
  static testing::NatsServer server("max_payload: 64KB");
  return {server.url()};
}

std::vector<std::string> three_nodes() {
  static testing::NatsCluster cluster;
  return cluster.urls();
}

// Takes the zones away again when their test is over: a cluster has a Raft group for each of their
// streams.
class Cleaner final : public ::testing::EmptyTestEventListener {
 public:
  static Cleaner& get() {
    static auto* cleaner = [] {
      auto* made = new Cleaner;
      ::testing::UnitTest::GetInstance()->listeners().Append(made);  // which owns it
      return made;
    }();
    return *cleaner;
  }
  void clean_up(const store::NatsOptions& options) { zones_[options.zone] = options.servers; }
  void OnTestEnd(const ::testing::TestInfo&) override {
    for (const auto& [zone, servers] : zones_) {
      const store::nats::Subjects subjects{.zone = zone};
      const auto mux = store::nats::RequestMux::open({.servers = servers});
      if (!mux) continue;
      std::vector<store::nats::Outgoing> questions;
      for (const std::string& stream : subjects.streams())
        questions.push_back({.subject = "$JS.API.STREAM.DELETE." + stream});
      static_cast<void>(store::nats::JetStreamClient(**mux).call(questions));
    }
    zones_.clear();
  }

 private:
  std::map<std::string, std::vector<std::string>> zones_;  // and where they are
};

StoreUnderTest on_nats(std::string name, std::vector<std::string> (*servers)()) {
  const auto open = [servers](const std::filesystem::path& folder, std::shared_ptr<Clock> clock) {
    store::NatsOptions options;
    options.servers = servers();
    options.zone = folder.filename();
    options.clock = std::move(clock);
    Cleaner::get().clean_up(options);
    return store::open_nats(options).value();
  };
  return {.name = std::move(name), .open = open, .persists = true, .knows_who_left = false};
}

TEST(NatsContract, HasAServerToBeTestedOn) {
  if (testing::NatsServer::program().empty())
    GTEST_SKIP() << "THE STORE ON NATS IS NOT TESTED: there is no nats-server; tools/nats-server "
                    "fetches one";
}
#endif

}  // namespace

std::vector<StoreUnderTest> stores() {
  using std::filesystem::path;
  std::vector<StoreUnderTest> all{
      {.name = "memory",
       .open = [](const path&, std::shared_ptr<Clock> clock) { return store::open_memory(clock); },
       .persists = false,
       .knows_who_left = true},
      {.name = "faulty_memory",
       .open = [](const path&, std::shared_ptr<Clock> clock) -> std::unique_ptr<Store> {
         return std::make_unique<testing::FaultyStore>(store::open_memory(clock));
       },
       .persists = false,
       .knows_who_left = true},
      {.name = "sqlite",
       .open =
           [](const path& folder, std::shared_ptr<Clock> clock) {
             store::SqliteOptions options;
             options.path = folder / "zone.db";
             options.clock = clock;
             return store::open_sqlite(options).value();
           },
       .persists = true,
       .knows_who_left = true},
  };
#ifdef ONCE_NATS
  if (!testing::NatsServer::program().empty()) {
    all.push_back(on_nats("nats", one_node));
    all.push_back(on_nats("nats_three_nodes", three_nodes));
  }
#endif
  return all;
}

std::vector<StoreUnderTest> stores_of_small_messages() {
#ifdef ONCE_NATS
  if (!testing::NatsServer::program().empty()) return {on_nats("nats", small_node)};
#endif
  return {};
}

}  // namespace once::contract
