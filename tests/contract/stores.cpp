// The stores that keep the contract. FaultyStore without a plan must be no different from what it
// wraps.
#include "contract/contract.h"
#include "store/memory/memory_store.h"
#include "store/sqlite/sqlite_store.h"
#include "support/faulty_store.h"

namespace once::contract {

std::vector<StoreUnderTest> stores() {
  using std::filesystem::path;
  return {
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
}

}  // namespace once::contract
