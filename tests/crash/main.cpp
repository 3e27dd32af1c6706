#include <gtest/gtest.h>

#include "crash/child.h"

int main(int argc, char** argv) {
  if (argc > 2 && std::string(argv[1]) == "--child")
    return once::crash::run_role({argv + 2, argv + argc});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
