// Once as one of the peers of bench/compare: the roles and lines that bench/compare/role.py tells of.
#include <fstream>
#include <iterator>
#include <mutex>
#include <thread>

#include "role.h"

namespace {

using namespace bench;

constexpr std::size_t kBatch = 500;  // unless told otherwise
constexpr int kPublishers = 256;

std::int64_t nanoseconds() {
  return std::chrono::nanoseconds(SteadyClock::now().time_since_epoch()).count();
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Makes the queue; `policy` is what happens to tasks whose worker died.
void prepare(const Options& options) {
  auto zone = open(options);
  say(R"({"ready":true})");
  if (!heard("go")) return;
  zone.queues()
      .add(with_options({.name = options.at("queue"), .topic = options.at("queue")}, options))
      .value();
  say("{}");
}

class Publisher {
 public:
  explicit Publisher(const Options& options)
      : options_(options),
        zone_(open(options)),
        body_(once::Body::json(text_of(options.at("body"))).value()),
        lines_(lines_of(options.at("ids"))) {}

  void play() {
    say(R"({"ready":true})");
    if (!heard("go")) return;
    const auto start = SteadyClock::now();
    const std::string& way = options_.at("way");
    if (way == "bulk")
      bulk();
    else if (way == "single")
      single();
    else
      paced();
    std::ostringstream answer;
    answer << R"({"seconds":)" << seconds_since(start) << R"(,"count":)" << lines_.size() << "}";
    say(answer.str());
    heard("end");
  }

 private:
  once::Task task(const std::string& id) const {
    return {.topic = options_.at("queue"), .id = id, .body = body_};
  }

  void bulk() {
    const std::size_t size = options_.contains("batch") ? std::stoul(options_.at("batch")) : kBatch;
    for (std::size_t from = 0; from < lines_.size(); from += size) {
      std::vector<once::Task> batch;
      for (std::size_t i = from; i < std::min(lines_.size(), from + size); ++i)
        batch.push_back(task(lines_[i]));
      for (const auto& receipt : zone_.publish_batch(std::move(batch))) receipt.value();
    }
  }

  void single() {
    std::atomic<std::size_t> next = 0;
    std::vector<std::jthread> publishers;
    for (int p = 0; p < kPublishers; ++p)
      publishers.emplace_back([&] {
        for (std::size_t i = next++; i < lines_.size(); i = next++)
          zone_.publish(task(lines_[i])).value();
      });
  }

  // Each line is a time in milliseconds and an id.
  void paced() {
    std::ofstream times(options_.at("times"));
    const auto start = SteadyClock::now();
    for (const std::string& line : lines_) {
      const std::string id = line.substr(line.find(' ') + 1);
      const std::chrono::duration<double, std::milli> due(std::stod(line));
      std::this_thread::sleep_until(start + due);
      times << "published " << id << ' ' << nanoseconds() << '\n';
      zone_.publish(task(id)).value();
    }
  }

  const Options& options_;
  once::Zone zone_;
  once::Body body_;
  std::vector<std::string> lines_;
};

class Worker {
 public:
  explicit Worker(const Options& options)
      : options_(options), zone_(open(options)), effects_(options) {}

  void play() {
    say(R"({"ready":true})");
    if (!heard("go")) return;
    const auto start = SteadyClock::now();
    const std::int64_t began = nanoseconds();
    last_ran_ = began;
    if (options_.contains("times"))
      work_timed();
    else
      worker().run_until_empty().value();
    answer(seconds_since(start), static_cast<double>(last_ran_ - began) / 1e9);
    heard("end");
  }

 private:
  once::Worker worker() {
    return zone_
        .worker(options_.at("queue"),
                [this](once::Context& context) {
                  ran(context.task().id);
                  return once::Outcome::completed();
                },
                {.concurrency = std::stoi(options_.at("concurrency"))})
        .value();
  }

  void ran(const std::string& id) {
    if (options_.contains("times")) {
      const std::scoped_lock lock(mutex_);
      started_.push_back(id);
      times_ << "start " << id << ' ' << nanoseconds() << '\n';
    }
    effects_.add(id);
    last_ran_ = nanoseconds();
  }

  // The worker counts what it has recorded. The n-th is taken for the n-th that started, which it is
  // unless several run at the same moment.
  void work_timed() {
    auto working = worker();
    std::stop_source stop;
    std::jthread run([&] { working.run(stop.get_token()).value(); });
    std::jthread follow([&](const std::stop_token& ended) { note_recorded(working, ended); });
    heard("stop");
    stop.request_stop();
    run.join();
    working.run_until_empty().value();  // what a slow disk has left
    follow.request_stop();
    follow.join();
    std::ofstream(options_.at("times")) << times_.str();
  }

  void note_recorded(const once::Worker& working, const std::stop_token& ended) {
    std::uint64_t noted = 0;
    while (true) {
      const bool last = ended.stop_requested();
      const std::uint64_t recorded = working.metrics().completed;
      const std::int64_t now = nanoseconds();
      {
        const std::scoped_lock lock(mutex_);
        for (; noted < recorded; ++noted)
          times_ << "recorded " << started_[noted] << ' ' << now << '\n';
      }
      if (last) return;
      std::this_thread::sleep_for(std::chrono::microseconds{20});
    }
  }

  // `ran`: until the last handler was called; the rest is its record and the word that nothing is left.
  void answer(double seconds, double ran) const {
    std::ostringstream text;
    text << R"({"seconds":)" << seconds << R"(,"ran":)" << ran << "," << effects_.json() << "}";
    say(text.str());
  }

  const Options& options_;
  once::Zone zone_;
  Effects effects_;
  std::atomic<std::int64_t> last_ran_ = 0;
  std::mutex mutex_;  // guards what follows
  std::vector<std::string> started_;
  std::ostringstream times_;
};

int play(const std::string& role, const Options& options) {
  if (role == "prepare")
    prepare(options);
  else if (role == "publish")
    Publisher(options).play();
  else if (role == "work")
    Worker(options).play();
  else if (role == "audit")
    audit(options);
  else
    return 2;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = options_of(argc, argv);
  try {
    return argc < 2 ? 2 : play(argv[1], options);
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
}
