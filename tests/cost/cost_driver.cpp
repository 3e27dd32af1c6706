// One stage of the workload W1, for whoever counts from outside what it costs:
//   cost_driver publish STORE TASKS      in batches of 256
//   cost_driver backlog STORE            works off what "publish" left, 256 at a time
//   cost_driver sequential STORE         the same, one at a time
// Says how many tasks it was and how many flushes the stage itself needed: {"tasks":2000,"flushes":8}.
#include <once/once.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace {

std::atomic<long> flushes = 0;

}  // namespace

// These take the place of the C library's, for the shared libraries too: SQLite's flushes come here.
extern "C" int fsync(int file) {
  ++flushes;
  return static_cast<int>(::syscall(SYS_fsync, file));
}

extern "C" int fdatasync(int file) {
  ++flushes;
  return static_cast<int>(::syscall(SYS_fdatasync, file));
}

namespace {

constexpr std::size_t kBatch = 256;

// Spread like random ids, and the same in every run.
std::string id_of(std::uint32_t number) {
  char id[37];
  std::snprintf(id, sizeof id, "%08x-0000-4000-8000-%012x", number * 2654435761U, number);
  return id;
}

once::Body body_of_256_bytes() {
  std::string json =
      R"({"order":{"id":"7f9c","lines":[{"sku":"A-1","count":3}],"total":12.5},"note":")";
  json += std::string(256 - json.size() - 2, 'x') + "\"}";
  return once::Body::json(std::move(json)).value();
}

std::size_t publish(once::Zone& zone, std::size_t tasks) {
  const once::Body body = body_of_256_bytes();
  for (std::size_t from = 0; from < tasks; from += kBatch) {
    std::vector<once::Task> batch;
    for (std::size_t i = from; i < std::min(tasks, from + kBatch); ++i)
      batch.push_back({.topic = "cost", .id = id_of(static_cast<std::uint32_t>(i)), .body = body});
    for (const auto& receipt : zone.publish_batch(std::move(batch))) receipt.value();
  }
  return tasks;
}

std::size_t work(once::Zone& zone, int concurrency) {
  std::atomic<std::size_t> ran = 0;
  auto worker = zone.worker("cost",
                            [&ran](once::Context&) {
                              ++ran;
                              return once::Outcome::completed();
                            },
                            {.concurrency = concurrency})
                    .value();
  worker.run_until_empty().value();
  return ran;
}

std::size_t run(const std::string& stage, once::Zone& zone, std::size_t tasks) {
  if (stage == "publish") return publish(zone, tasks);
  return work(zone, stage == "backlog" ? 256 : 1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: cost_driver publish|backlog|sequential STORE [TASKS]\n";
    return 2;
  }
  try {
    const std::string stage = argv[1];
    once::Zone zone = once::Zone::open(argv[2]).value();
    if (stage == "publish") zone.queues().add({.name = "cost", .topic = "cost"}).value();
    const long before = flushes;
    const std::size_t tasks = run(stage, zone, argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 0);
    std::cout << R"({"tasks":)" << tasks << R"(,"flushes":)" << flushes - before << "}\n";
    return 0;
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
}
