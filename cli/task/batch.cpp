// NDJSON in, one answer line per task line out, in order, after the task is durable. Lines that
// arrive together are published together.
#include "cli/task/batch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>

#include "cli/app/advice.h"
#include "cli/app/input.h"
#include "cli/app/session.h"
#include "shapes/batch_line.h"
#include "shapes/task_json.h"
#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

struct Answer {
  std::uint64_t line{};
  Result<Receipt> receipt;
};

class Batch {
 public:
  Batch(Session& session, Zone zone) : session_(session), zone_(std::move(zone)) {}

  // False: the answers cannot be written any more.
  bool publish(const std::vector<Line>& lines) {
    for (const Answer& answer : answers_to(lines)) tell(answer);
    const bool heard = session_.out.flush();
    show_progress();
    return heard;
  }

  int finish() {
    clear_progress();
    if (failures_ > 0) {
      complain(fmt::format("{} of {} not published; the first is line {}: {}", failures_,
                           counted(lines_, "line"), first_failed_, first_message_));
    }
    if (unrouted_ > 0) {
      session_.hint(
          fmt::format("no queue takes the topic of {} yet, such as {}; they are kept "
                      "(once queue add NAME --topic FILTER)",
                      counted(unrouted_, "task"), unrouted_topic_));
    }
    return status_;
  }

  std::uint64_t last_line() const { return last_line_; }

 private:
  std::vector<Answer> answers_to(const std::vector<Line>& lines) {
    std::vector<Answer> answers;
    std::vector<Task> tasks;
    std::vector<std::size_t> places;  // of the tasks' answers
    topics_.clear();
    for (const Line& line : lines) {
      last_line_ = line.number;
      const bool blank = line.text.find_first_not_of(" \t\r") == std::string::npos;
      if (blank && !line.too_long) continue;
      auto task = line.too_long ? Result<Task>(too_long()) : task_from(line.text);
      if (!task) {
        answers.push_back({line.number, task.error()});
        continue;
      }
      places.push_back(answers.size());
      answers.push_back({line.number, Receipt{}});
      topics_.push_back(task->topic);
      tasks.push_back(std::move(*task));
    }
    if (tasks.empty()) return answers;
    auto receipts = zone_.publish_batch(std::move(tasks));
    for (std::size_t i = 0; i < receipts.size(); ++i) {
      if (receipts[i] && receipts[i]->unrouted) {
        ++unrouted_;
        unrouted_topic_ = topics_[i];
      }
      answers[places[i]].receipt = std::move(receipts[i]);
    }
    return answers;
  }

  static Error too_long() {
    return {
        .code = Code::too_large,
        .message = fmt::format("longer than {} MiB; the line was not published", kMaxInput >> 20)};
  }

  void tell(const Answer& answer) {
    ++lines_;
    JsonLine line;
    line.number("line", answer.line);
    if (answer.receipt) {
      add_receipt(line, *answer.receipt);
    } else {
      const Error& error = answer.receipt.error();
      add_error(line, error);
      note(exit_of(error));
      if (failures_++ == 0) {
        first_failed_ = answer.line;
        first_message_ = with_advice(error);
      }
    }
    if (session_.json)
      session_.out.line(line.str());
    else if (answer.receipt)
      session_.out.line(printable(answer.receipt->id));
  }

  // The worst that occurred is the exit status, in the order that people script against.
  void note(Exit exit) {
    constexpr std::array<int, 6> kOrder{kStore, kUnknown, kConflict, kUsage, kFailed, kDone};
    auto rank = [&](int status) { return std::find(kOrder.begin(), kOrder.end(), status); };
    const int known = rank(exit) == kOrder.end() ? kFailed : exit;
    if (rank(known) < rank(status_)) status_ = known;
  }

  void show_progress() {
    const auto now = std::chrono::steady_clock::now();
    if (session_.quiet || ::isatty(STDERR_FILENO) != 1 || session_.out.is_terminal()) return;
    if (now - shown_ < std::chrono::seconds{1}) return;
    shown_ = now;
    progress_ = true;
    fmt::print(stderr, "\r{}", counted(lines_, "line"));
  }

  void clear_progress() {
    if (progress_) fmt::print(stderr, "\r\x1b[K");
  }

  Session& session_;
  Zone zone_;
  std::vector<std::string> topics_;  // of the tasks being published
  std::uint64_t lines_ = 0;
  std::uint64_t last_line_ = 0;
  std::uint64_t failures_ = 0;
  std::uint64_t first_failed_ = 0;
  std::string first_message_;
  std::uint64_t unrouted_ = 0;
  std::string unrouted_topic_;
  int status_ = kDone;
  std::chrono::steady_clock::time_point shown_ = std::chrono::steady_clock::now();
  bool progress_ = false;
};

}  // namespace

int publish_batch(Session& session, const std::string& path) {
  session.json = session.json || !session.quiet;
  auto file = InputFile::open(path);
  if (!file) {
    Error error = file.error();
    error.message += "; nothing was published";
    return session.fail(error);
  }
  auto zone = session.open(Missing::create_file);
  if (!zone) return session.fail(zone.error());
  Batch batch(session, std::move(*zone));
  LineReader reader(std::move(*file));
  for (;;) {
    auto lines = reader.next();
    if (!lines) {
      batch.finish();
      return session.fail(lines.error());
    }
    if (lines->empty()) return batch.finish();
    if (!batch.publish(*lines)) {
      batch.finish();
      complain(
          fmt::format("the answers cannot be written ({}): stopped after line {}, which was "
                      "published if it could be; the same command again is safe",
                      std::strerror(session.out.error()), batch.last_line()));
      return kFailed;
    }
  }
}

}  // namespace once::cli
