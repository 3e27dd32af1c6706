// The tests, and the processes they are made of: this executable is also the supervisor, the worker and
// the step.
#include <gtest/gtest.h>

#include <string_view>

#include "program/harness.h"
#include "program/steps.h"
#include "tooling/program.h"

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "--supervisor") return once::supervisor_main(argc, argv);
  if (mode == "--worker") return once::testing::worker_main(argc, argv);
  if (mode == "--step") return once::testing::step_main(argc, argv);
  once::testing::store_url();  // one for this process and its workers
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
