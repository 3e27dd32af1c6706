// A publisher inside a service: it publishes without blocking the thread that serves requests.
//
//   example_publisher STORE < REQUESTS
//
// Each line of standard input is one request: an id and a JSON body. The service answers each
// request when its result arrives. At most 16 publishes are in flight. When Once refuses a further
// one, the service waits for the next result and tries again.
// Kill the process and start it again with the same requests: each id is still in the log once.
#include <once/once.h>

#include <condition_variable>
#include <iostream>
#include <mutex>
#include <string>

namespace {

// Counts the results. The zone calls answered() on its publishing thread.
class Answers {
 public:
  void answered(const std::string& id, const once::Result<once::Receipt>& result) {
    const std::lock_guard lock(mutex_);
    ++results_;
    if (result && !result->duplicate) {
      ++accepted_;
    } else if (result) {
      ++duplicates_;
    } else {
      ++refused_;
      std::cout << id << ": " << to_string(result.error().code) << std::endl;
    }
    if (results_ == 1) std::cout << "first result" << std::endl;
    changed_.notify_one();
  }
  std::uint64_t results() {
    const std::lock_guard lock(mutex_);
    return results_;
  }
  void wait_for_more_than(std::uint64_t seen) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return results_ > seen; });
  }
  void print() const {
    std::cout << accepted_ << " accepted, " << duplicates_ << " duplicates, " << refused_
              << " refused\n";
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t results_ = 0, accepted_ = 0, duplicates_ = 0, refused_ = 0;
};

// Returns false if Once refuses the task now and accepts it later.
bool publish(once::Zone& zone, Answers& answers, const std::string& id, const once::Body& body) {
  const auto accepted = zone.publish_async(
      {.topic = "requests", .id = id, .body = body},
      [&answers, id](once::Result<once::Receipt> result) { answers.answered(id, result); });
  if (accepted) return true;
  if (accepted.error().code == once::Code::overloaded) return false;
  throw once::Failure(accepted.error());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: example_publisher STORE < REQUESTS\n";
    return 2;
  }
  Answers answers;
  {
    auto zone = once::Zone::open(argv[1], {.async = {.publishes = 16}}).value();
    zone.queues().add({.name = "requests", .topic = "requests"}).value();
    std::string id;
    for (std::string text; std::cin >> id && std::getline(std::cin, text);) {
      const auto body = once::Body::json(text).value();
      std::uint64_t seen = answers.results();
      while (!publish(zone, answers, id, body)) {
        answers.wait_for_more_than(seen);
        seen = answers.results();
      }
    }
  }  // The destructor of the zone returns after the last result.
  answers.print();
}
