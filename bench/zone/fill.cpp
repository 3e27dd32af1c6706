// Fills a zone: COUNT tasks, every twentieth published twice, all run by a handler that does nothing.
// Usage: once_fill URL COUNT
#include <once/once.h>

#include <cstdio>
#include <cstdlib>

namespace {

void publish(once::Zone& zone, std::uint64_t count) {
  const auto body = once::Body::json(R"({"order":{"id":"7f9c","total":12.5},"note":")" +
                                     std::string(200, 'x') + "\"}")
                        .value();
  constexpr std::uint64_t kBatch = 1000;
  for (std::uint64_t first = 0; first < count; first += kBatch) {
    std::vector<once::Task> tasks;
    for (std::uint64_t i = first; i < std::min(count, first + kBatch); ++i)
      for (int times = i % 20 == 0 ? 2 : 1; times > 0; --times)
        tasks.push_back({.topic = "bench", .id = "task-" + std::to_string(i), .body = body});
    for (const auto& receipt : zone.publish_batch(std::move(tasks))) receipt.value();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "Usage: once_fill URL COUNT\n");
    return 2;
  }
  auto zone = once::Zone::open(argv[1]).value();
  zone.add({.name = "bench", .topic = "bench"}).value();
  publish(zone, std::strtoull(argv[2], nullptr, 10));
  zone.worker("bench", [](once::Context&) { return once::Outcome::completed(); },
              {.concurrency = 256})
      .value()
      .run_until_empty()
      .value();
  return 0;
}
