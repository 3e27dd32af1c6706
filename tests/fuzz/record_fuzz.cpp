// Ledger records, orders and queue definitions, for libFuzzer: clang++
// -fsanitize=fuzzer,address,undefined.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "encoding_properties.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string complaint =
      once::fuzz::record_complaint({reinterpret_cast<const char*>(data), size});
  if (complaint.empty()) return 0;
  std::fprintf(stderr, "%s\n", complaint.c_str());
  std::abort();
}
