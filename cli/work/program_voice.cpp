#include "cli/work/program_voice.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "shapes/json_line.h"
#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

constexpr std::size_t kLongestLine = 3000;    // bytes of a line; what is longer is several lines
constexpr std::size_t kLongestEscaped = 500;  // the same, if each byte may take four
constexpr std::size_t kWidestId = 60;

std::string_view word_of(Outcome::Kind verdict) {
  switch (verdict) {
    case Outcome::Kind::completed: return "completed";
    case Outcome::Kind::failed: return "failed";
    case Outcome::Kind::dead: return "dead";
    case Outcome::Kind::unknown: return "unknown";
  }
  return "unknown";
}

// As printable(), but a tab does no harm.
std::string harmless(std::string_view line) {
  std::string out;
  while (true) {
    const auto tab = line.find('\t');
    out += printable(line.substr(0, tab));
    if (tab == line.npos) return out;
    out += '\t';
    line.remove_prefix(tab + 1);
  }
}

// Where to cut a line that is too long: not inside a character.
std::size_t cut_at(std::string_view line, std::size_t most) {
  if (line.size() <= most) return line.size();
  std::size_t at = most;
  while (at > most - 4 && (static_cast<unsigned char>(line[at]) & 0xC0) == 0x80) --at;
  return at;
}

}  // namespace

// One run of a program.
class Voice final : public ProgramListener {
 public:
  Voice(ProgramVoices& voices, const ProgramRun& run)
      : voices_(voices),
        queue_(run.queue),
        id_(run.task.id),
        attempt_(run.attempt),
        probe_(run.probe),
        mark_(fmt::format("[{} attempt {}{}] ", cut(printable(run.task.id), kWidestId), run.attempt,
                          run.probe ? " probe" : "")) {
    if (!voices_.log_dir_.empty()) open_file(voices_.log_dir_ + '/' + log_file_name(run));
    if (!voices_.ends_) return;
    if (voices_.json_)
      voices_.printer_.print(event("started").time("at", now()).str());
    else
      voices_.printer_.print(mark_ + "started at " + format_time(now()));
  }
  ~Voice() override {
    if (file_ >= 0) ::close(file_);
  }
  Voice(const Voice&) = delete;
  Voice& operator=(const Voice&) = delete;

  void output(std::string_view bytes) override { keep(bytes); }

  void errors(std::string_view bytes) override {
    keep(bytes);
    if (voices_.quiet_ && !voices_.json_) return;
    while (!bytes.empty()) {
      const auto newline = bytes.find('\n');
      const bool whole = newline != bytes.npos;
      partial_ += bytes.substr(0, newline);
      bytes.remove_prefix(whole ? newline + 1 : bytes.size());
      const std::size_t most = voices_.terminal_ ? kLongestEscaped : kLongestLine;
      std::string_view line = partial_;
      for (; line.size() > most; line.remove_prefix(cut_at(line, most)))
        say(line.substr(0, cut_at(line, most)));
      if (whole) say(line);
      partial_ = whole ? std::string() : std::string(line);
    }
  }

  void ended(const End& end) override {
    if (!partial_.empty()) say(partial_);
    partial_.clear();
    if (!voices_.ends_) return;
    if (voices_.json_) {
      voices_.printer_.print(event("ended")
                                 .time("at", now())
                                 .text("verdict", word_of(end.verdict))
                                 .text("how", end.how)
                                 .number("took_ms", static_cast<std::uint64_t>(end.took.count()))
                                 .str());
    } else {
      voices_.printer_.print(fmt::format("{}{} after {}: {}", mark_, word_of(end.verdict),
                                         format_duration(end.took), end.how));
    }
  }

 private:
  JsonLine event(std::string_view what) const {
    JsonLine line;
    line.text("event", what).text("queue", queue_).text("id", id_);
    line.number("attempt", static_cast<std::uint64_t>(attempt_));
    if (probe_) line.boolean("probe", true);
    return line;
  }

  void say(std::string_view line) {
    if (!voices_.printer_.has_room()) return voices_.printer_.lose(1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (voices_.json_)
      voices_.printer_.print(event("stderr").text("text", line).str());
    else
      voices_.printer_.print(mark_ + (voices_.terminal_ ? harmless(line) : std::string(line)));
  }

  void open_file(std::string path) {
    path_ = std::move(path);
    // A pipe without a reader would hold up the program: only a file is written to.
    file_ = ::open(path_.c_str(),
                   O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    struct stat opened {};
    if (file_ >= 0 && (::fstat(file_, &opened) != 0 || !S_ISREG(opened.st_mode))) errno = EINVAL;
    if (file_ < 0 || !S_ISREG(opened.st_mode)) give_up_file();
  }

  void keep(std::string_view bytes) {
    while (file_ >= 0 && !bytes.empty()) {
      const ssize_t size = ::write(file_, bytes.data(), bytes.size());
      if (size >= 0)
        bytes.remove_prefix(static_cast<std::size_t>(size));
      else if (errno != EINTR)
        give_up_file();
    }
  }

  void give_up_file() {
    complain(
        fmt::format("cannot write {}: {}; the program of task {} goes on, and the rest of what it "
                    "writes is not in that file",
                    path_, std::strerror(errno), cut(printable(id_), kWidestId)));
    if (file_ >= 0) ::close(file_);
    file_ = -1;
  }

  ProgramVoices& voices_;
  const std::string queue_;
  const std::string id_;
  const int attempt_;
  const bool probe_;
  const std::string mark_;
  std::string path_{};
  int file_ = -1;
  std::string partial_{};  // a line whose end has not come
};

Result<std::unique_ptr<ProgramVoices>> ProgramVoices::open(const Session& session,
                                                           std::string log_dir) {
  std::error_code error;
  if (!log_dir.empty()) std::filesystem::create_directories(log_dir, error);
  if (!error && !log_dir.empty() && ::access(log_dir.c_str(), W_OK | X_OK) != 0)
    error = std::error_code(errno, std::generic_category());
  if (error)
    return Error{
        .code = Code::invalid_input,
        .message = fmt::format("cannot write to the folder '{}' of --log-dir: {}; nothing was "
                               "run; name a folder that this user may write to",
                               log_dir, error.message())};
  return std::unique_ptr<ProgramVoices>(new ProgramVoices(session, std::move(log_dir)));
}

ProgramVoices::ProgramVoices(const Session& session, std::string log_dir)
    : log_dir_(std::move(log_dir)),
      json_(session.json),
      quiet_(session.quiet),
      terminal_(!json_ && ::isatty(STDERR_FILENO) == 1),
      ends_(json_ || (!quiet_ && (terminal_ || session.verbose))),
      printer_(json_ ? STDOUT_FILENO : STDERR_FILENO, [json = json_](std::uint64_t lines) {
        if (json) return JsonLine{}.text("event", "missing").number("lines", lines).str();
        return fmt::format(
            "once: {} of standard error not shown: nobody reads so fast; --log-dir "
            "keeps all of it",
            counted(lines, "line"));
      }) {}

std::unique_ptr<ProgramListener> ProgramVoices::listen(const ProgramRun& run) {
  return std::make_unique<Voice>(*this, run);
}

std::string log_file_name(const ProgramRun& run) {
  constexpr std::size_t kMost = 150;  // of a name, which may have 255
  const auto safe = [](std::string_view text) {
    std::string out;
    for (const char c : text) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '-' || c == '_' ||
                         (c == '.' && !out.empty());
      if (plain)
        out += c;
      else
        out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return out;
  };
  std::string id = safe(run.task.id);
  if (id.size() > kMost) {
    std::uint64_t hash = 14695981039346656037U;  // FNV-1a
    for (const char c : run.task.id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
    id = fmt::format("{}%~{:016x}", id.substr(0, kMost), hash);
  }
  return fmt::format("{}.{}.{}{}.log", safe(run.queue), id, run.attempt, run.probe ? ".probe" : "");
}

}  // namespace once::cli
