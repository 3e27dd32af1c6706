// Drives a fuzzer without libFuzzer: every file of the corpus folder, then mutations of them and
// noise from a fixed seed, so that ordinary builds with any compiler run the same inputs each time.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr int kMutationsPerInput = 2000;
constexpr std::size_t kNoiseSize = 64;

void feed(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

std::string mutated(std::string input, std::mt19937& random) {
  const auto below = [&](std::size_t bound) { return std::size_t{random()} % bound; };
  const auto byte = [&] { return static_cast<char>(below(256)); };
  for (std::size_t change = below(4) + 1; change > 0; --change) {
    const std::size_t at = below(input.size() + 1);
    switch (below(4)) {
      case 0: input.insert(at, 1, byte()); break;
      case 1: input.erase(at, below(8)); break;
      case 2: input.insert(at, input.substr(below(input.size() + 1), below(16))); break;
      default:
        if (at < input.size()) input[at] = byte();
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> inputs = {""};
  for (int i = 1; i < argc; ++i) {
    for (const auto& file : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream stream(file.path(), std::ios::binary);
      inputs.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
    }
  }
  if (inputs.size() == 1) {
    std::cerr << "replay: no input; give the folder of a corpus\n";
    return EXIT_FAILURE;
  }
  std::mt19937 random(20240229);  // NOLINT(cert-msc51-cpp): the same inputs each time
  inputs.push_back(mutated(std::string(kNoiseSize, '\0'), random));
  for (const std::string& input : inputs) {
    feed(input);
    for (int i = 0; i < kMutationsPerInput; ++i) feed(mutated(input, random));
  }
  std::cout << inputs.size() * (kMutationsPerInput + 1) << " inputs\n";
}
