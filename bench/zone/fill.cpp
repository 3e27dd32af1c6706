// Fills a zone: tasks number FROM to COUNT, every twentieth published twice, all run by a handler that
// does nothing. Ids are random and come in ten sorted runs: their index ends as random order would leave
// it, and is written to from left to right ten times instead of everywhere all the time.
// Usage: once_fill URL COUNT [FROM]
#include <once/once.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace {

constexpr std::uint64_t kRuns = 10;
constexpr std::size_t kBatch = 1000;

std::vector<std::string> random_ids(std::uint64_t count, std::mt19937_64& chance) {
  std::vector<std::string> ids(count);
  for (std::string& id : ids) {
    char text[37];
    const auto word = [&] { return static_cast<unsigned>(chance()); };
    std::snprintf(text, sizeof text, "%08x-%04x-4%03x-8%03x-%08x%04x", word(), word() & 0xFFFFU,
                  word() & 0xFFFU, word() & 0xFFFU, word(), word() & 0xFFFFU);
    id = text;
  }
  return ids;
}

void publish(once::Zone& zone, const std::vector<std::string>& ids) {
  const auto body = once::Body::json(R"({"order":{"id":"7f9c","total":12.5},"note":")" +
                                     std::string(200, 'x') + "\"}")
                        .value();
  for (std::size_t first = 0; first < ids.size(); first += kBatch) {
    std::vector<once::Task> tasks;
    for (std::size_t i = first; i < std::min(ids.size(), first + kBatch); ++i)
      for (int times = i % 20 == 0 ? 2 : 1; times > 0; --times)
        tasks.push_back({.topic = "bench", .id = ids[i], .body = body});
    for (const auto& receipt : zone.publish_batch(std::move(tasks))) receipt.value();
  }
}

void fill(once::Zone& zone, std::uint64_t from, std::uint64_t count) {
  std::mt19937_64 chance(count);
  const std::uint64_t run = std::max<std::uint64_t>(kBatch, (count - from + kRuns - 1) / kRuns);
  for (; from < count; from += run) {
    auto ids = random_ids(std::min(run, count - from), chance);
    std::ranges::sort(ids);
    publish(zone, ids);
  }
}

void work_off(once::Zone& zone) {
  zone.worker("bench", [](once::Context&) { return once::Outcome::completed(); },
              {.concurrency = 256})
      .value()
      .run_until_empty()
      .value();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "Usage: once_fill URL COUNT [FROM]\n");
    return 2;
  }
  try {
    auto zone = once::Zone::open(argv[1]).value();
    zone.queues().add({.name = "bench", .topic = "bench"}).value();
    fill(zone, argc == 4 ? std::strtoull(argv[3], nullptr, 10) : 0,
         std::strtoull(argv[2], nullptr, 10));
    work_off(zone);
    return 0;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
  }
}
