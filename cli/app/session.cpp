// Stores by URL, failures by exit status.
#include "cli/app/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "cli/app/advice.h"
#include "cli/app/login.h"
#include "shapes/error_json.h"
#include "shapes/json_line.h"
#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

}  // namespace

Exit exit_of(const Error& error) {
  if (error.in_doubt) return kUnknown;
  switch (error.code) {
    case Code::conflicting_duplicate: return kConflict;
    case Code::invalid_input:
    case Code::too_large:
    case Code::queue_mismatch: return kUsage;
    case Code::not_found: return kNotFound;
    case Code::overloaded:
    case Code::store_unavailable:
    case Code::store_unusable: return kStore;
    case Code::outcome_unknown:
    case Code::timed_out: return kUnknown;
    case Code::wrong_state:
    case Code::fenced:
    case Code::failed: break;
  }
  return kFailed;
}

bool away(const Error& error) {
  return error.code == Code::store_unavailable && error.retryable && !error.in_doubt;
}

std::string Session::url() const {
  if (!store.empty()) return store;
  const std::string_view from_environment = environment("ONCE_STORE");
  return from_environment.empty() ? "once.db" : std::string(from_environment);
}

std::string Session::absolute_url() const {
  constexpr std::string_view kScheme = "sqlite:";
  std::string path = url();
  if (path.starts_with("memory:") || path.find("://") != std::string::npos) return path;
  if (path.starts_with(kScheme)) path.erase(0, kScheme.size());
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.string();
}

bool Session::on_server() const { return url().find("://") != std::string::npos; }

Result<Zone> Session::open(Missing missing, Stays stays) const {
  const bool awaits = missing == Missing::await || missing == Missing::create_file_or_await;
  const bool file = missing == Missing::create_file || missing == Missing::create_file_or_await;
  OpenOptions options{.create = missing == Missing::create || (file && !on_server()),
                      .nats = with_environment(nats)};
  options.allow_unsafe = stays == Stays::to_examine;
  if (stays == Stays::longer && !quiet) options.log = complain;
  auto zone = Zone::open(url(), std::move(options));
  if (zone) {
    opened = true;
    if (verbose) complain(fmt::format("store {}", absolute_url()));
    return zone;
  }
  Error error = zone.error();
  if (error.code == Code::not_found && !awaits) error.code = Code::store_unavailable;
  if (error.code == Code::failed) error.code = Code::store_unusable;
  return error;
}

Style Session::style() const {
  if (json || !out.is_terminal()) return Style(false);
  return Style(environment("NO_COLOR").empty() && environment("TERM") != "dumb", out.width());
}

JsonLine& add_error(JsonLine& line, const Error& error) {
  return add_error(line, error, with_advice(error));
}

int Session::fail(const Error& error) { return fail(error, JsonLine{}); }

int Session::fail(const Error& failed, JsonLine about) {
  out.flush();  // what was said before stays before
  Error error = failed;
  if (opened && error.code == Code::not_found) {
    error.message += fmt::format(" (in {})", absolute_url());
  }
  complain(with_advice(error));
  if (json) out.line(add_error(about, error).str());
  return exit_of(error);
}

int Session::usage(std::string message) {
  return fail({.code = Code::invalid_input, .message = std::move(message)});
}

void Session::say(std::string_view text) {
  if (!quiet) out.line(text);
}

void Session::hint(std::string_view text) const {
  if (!quiet) complain(text);
}

int Session::finish(int status) {
  if (out.flush() || out.error() == EPIPE) return status;
  complain(fmt::format("cannot write to standard output: {}; {}", std::strerror(out.error()),
                       status == kDone ? "the command was carried out, but its answer is lost"
                                       : "its answer is lost"));
  return status == kDone ? kFailed : status;
}

void complain(std::string_view text) {
  std::string line = "once: " + printable(text) + '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, rest.data(), rest.size());
    if (written < 0 && errno != EINTR) return;  // nowhere left to say so
    if (written > 0) rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace once::cli
