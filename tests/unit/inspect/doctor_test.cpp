// What the doctor asks of a store and what it makes of the answer, where the contract cannot see it.
#include "inspect/doctor.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/decide.h"
#include "store/memory/memory_store.h"
#include "support/faulty_store.h"
#include "work/ledger_writer.h"

namespace once::engine {
namespace {

using once::testing::FaultyStore;
using once::testing::Seam;

// Says of two tasks that they are overlooked, of one of them that it is not sure.
class Unsure : public FaultyStore {
 public:
  using FaultyStore::FaultyStore;
  Result<OverlookedPage> overlooked(std::string_view, core::Sequence, std::size_t) override {
    return OverlookedPage{.sequences = {{1}, {2}}, .perhaps = {{1}}};
  }
};

TEST(Doctor, LeavesOutWhatMayBeHandedOverAllTheSame) {
  Unsure store{store::open_memory(nullptr)};
  store.add_queue({.name = "q", .topic = "t"}).value();
  const Diagnosis diagnosis = diagnose(store, {}).value();
  const auto found =
      std::find_if(diagnosis.findings.begin(), diagnosis.findings.end(),
                   [](const Finding& finding) { return finding.code == "overlooked"; });
  ASSERT_NE(found, diagnosis.findings.end());
  EXPECT_TRUE(found->what.starts_with("1 task (#2)")) << found->what;
}

TEST(Doctor, ReadsALedgerOnlyQueueOnceAndNotToItsEnd) {
  FaultyStore store{store::open_memory(nullptr)};
  const Queue queue{.name = "q", .ledger = true};
  store.add_queue(queue).value();
  LedgerWriter writer{store, core::policy_of(queue)};
  for (int i = 0; i < 2'001; ++i)
    writer
        .write({.at = {.queue = queue.name, .key = std::to_string(i)},
                .command = core::Claim{.worker = "w"}})
        .value();
  const Diagnosis diagnosis = diagnose(store, {}).value();
  EXPECT_EQ(store.calls(Seam::rows), 1u);
  EXPECT_TRUE(
      std::any_of(diagnosis.checked.begin(), diagnosis.checked.end(), [](const std::string& line) {
        return line.starts_with("queue q: 2000 tasks looked at of 2001");
      }));
}

}  // namespace
}  // namespace once::engine
