#include "cli/demo/publishers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "shapes/json_line.h"

namespace once::cli::demo {
namespace {

constexpr std::size_t kPublishBatch = 4;    // posts
constexpr Duration kPace{150};              // between two lines
constexpr Duration kPublisherAbsence{500};  // of a killed publisher
constexpr int kMostLives = 3;               // for one batch

// What an id ends with that stands for a post that has one already.
constexpr std::string_view kAgain = "-again";

}  // namespace

std::string post_of(const std::string& id) {
  return id.ends_with(kAgain) ? id.substr(0, id.size() - kAgain.size()) : id;
}

Task Post::task(std::string_view title) const {
  const std::string own = title.empty() ? "About " + name : std::string(title);
  const std::string body = JsonLine{}.text("post", name).text("title", own).str();
  return {.topic = kTopic, .id = id, .body = Body::json(body).value()};
}

std::string Post::line() const {
  return JsonLine{}.text("id", id).text("topic", kTopic).body("body", "raw", task().body).str();
}

std::optional<Answer> answer_from(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("sequence") || !json.contains("duplicate")) return {};
  return Answer{json.at("id").get<std::string>(), json.at("sequence").get<std::uint64_t>(),
                json.at("duplicate").get<bool>()};
}

Publishers::Publishers(const Setting& setting, Diary& diary, Random& random,
                       std::function<void(const std::string&)> answered)
    : setting_(setting),
      diary_(diary),
      random_(random),
      told_(std::move(answered)),
      receipts_(setting.receipts()) {
  for (std::size_t i = 0; i < publishers_.size(); ++i)
    publishers_[i].name = fmt::format("publisher-{}", i + 1);
}

bool Publishers::busy() const {
  return std::any_of(publishers_.begin(), publishers_.end(),
                     [](const Publisher& publisher) { return !publisher.batch.empty(); });
}

Result<void> Publishers::tick(bool more, bool kills) {
  read_answers();
  for (Publisher& publisher : publishers_) {
    if (publisher.feed >= 0) {
      feed(publisher);
    } else if (publisher.process.running()) {
      continue;  // it publishes what it was fed
    } else if (publisher.sent > 0) {
      look(publisher);
    } else if (SteadyClock::now() >= publisher.next) {
      if (publisher.batch.empty() && more) plan(publisher);
      if (publisher.batch.empty()) continue;
      if (auto begun = begin(publisher, kills); !begun) return begun;
    }
  }
  return {};
}

void Publishers::plan(Publisher& publisher) {
  const std::uint64_t left = setting_.tasks ? *setting_.tasks - made_ : kPublishBatch;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(kPublishBatch, left); ++i) {
    const std::string name = fmt::format("post-{}", ++made_);
    publisher.batch.push_back({name, name});
    if (random_.one_in(8)) publisher.batch.push_back({name, name});
    if (random_.one_in(10)) publisher.batch.push_back({name + std::string(kAgain), name});
  }
  publisher.lives = 0;
}

Result<void> Publishers::begin(Publisher& publisher, bool kills) {
  int ends[2];
  const int receipts =
      ::open(setting_.receipts().c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (receipts < 0 || ::pipe2(ends, O_CLOEXEC) != 0) {
    if (receipts >= 0) ::close(receipts);
    return Error{.code = Code::failed, .message = "cannot write to " + setting_.receipts()};
  }
  auto process =
      Child::start(setting_, {"-q", "--json", "publish", "--batch", "-"}, ends[0], receipts);
  ::close(ends[0]);
  ::close(receipts);
  publisher.feed = ends[1];
  if (!process) {
    close(publisher);
    return process.error();
  }
  publisher.process = std::move(*process);
  publisher.dies_after.reset();
  if (kills && ++publisher.lives < kMostLives && random_.one_in(4))
    publisher.dies_after = 1 + random_.below(publisher.batch.size());
  return {};
}

void Publishers::feed(Publisher& publisher) {
  const Moment now = SteadyClock::now();
  if (now < publisher.next) return;
  publisher.next = now + random_.about(kPace);
  if (publisher.dies_after == publisher.sent) {
    publisher.process.signal(SIGKILL);
    ++kills_;
    diary_.say(fmt::format("{} killed with -9 after {} of {} lines; it will send all of them again",
                           publisher.name, publisher.sent, publisher.batch.size()));
    publisher.next = now + kPublisherAbsence;
    close(publisher);
    return;
  }
  if (publisher.sent == publisher.batch.size()) {
    close(publisher);
    return;
  }
  const std::string line = publisher.batch[publisher.sent++].line() + '\n';
  // A pipe that nobody reads any more tells itself by its process's end.
  [[maybe_unused]] const ssize_t written = ::write(publisher.feed, line.data(), line.size());
}

// The process has ended. Unless it says that all is published, its successor begins at the top.
void Publishers::look(Publisher& publisher) {
  publisher.sent = 0;
  if (publisher.process.status() == 0) publisher.batch.clear();
}

void Publishers::close(Publisher& publisher) {
  if (publisher.feed >= 0) ::close(publisher.feed);
  publisher.feed = -1;
}

void Publishers::stop() {
  for (Publisher& publisher : publishers_) {
    close(publisher);
    publisher = {};
  }
  read_answers();
}

void Publishers::read_answers() {
  for (const std::string& line : receipts_.next()) {
    const auto answer = answer_from(line);
    if (!answer) continue;
    ++answers_;
    told_(answer->id);
    if (!answer->duplicate) {
      answered_.push_back({answer->id, post_of(answer->id)});
      continue;
    }
    ++duplicates_;
    diary_.say(fmt::format("{} was published again: it is #{} already, nothing was added",
                           answer->id, answer->sequence));
  }
}

}  // namespace once::cli::demo
