// Values are taken as text and parsed here, so that the message names the option and what it takes.
#include "cli/options.h"

#include <fmt/format.h>

#include "cli/values.h"

namespace once::cli {
namespace {

[[noreturn]] void refuse(const std::string& name, std::string_view given, std::string_view wanted) {
  throw CLI::ValidationError(fmt::format("{} takes {}, not \"{}\"", name, wanted, given),
                             CLI::ExitCodes::ValidationError);
}

}  // namespace

CLI::Option* add_text(CLI::App& app, const std::string& name, std::optional<std::string>& to,
                      const std::string& what, const std::string& help) {
  return app
      .add_option_function<std::string>(
          name, [&to](const std::string& value) { to = value; }, help)
      ->type_name(what);
}

CLI::Option* add_texts(CLI::App& app, const std::string& name, std::vector<std::string>& to,
                       const std::string& what, const std::string& help) {
  return app
      .add_option_function<std::vector<std::string>>(
          name, [&to](const std::vector<std::string>& values) { to = values; }, help)
      ->allow_extra_args(false)
      ->type_name(what);
}

CLI::Option* add_duration(CLI::App& app, const std::string& name, std::optional<Duration>& to,
                          const std::string& help, Duration least) {
  auto take = [&to, name, least](const std::string& value) {
    to = parse_duration(value);
    if (!to) refuse(name, value, "a duration such as 500ms, 30s, 2m, 1h30m or 7d");
    if (*to < least) refuse(name, value, fmt::format("at least {}", format_duration(least)));
  };
  return app.add_option_function<std::string>(name, take, help)->type_name("DURATION");
}

CLI::Option* add_number(CLI::App& app, const std::string& name, std::optional<std::uint64_t>& to,
                        const std::string& help, std::uint64_t least, std::uint64_t most) {
  auto take = [&to, name, least, most](const std::string& value) {
    to = parse_number(value);
    if (!to) refuse(name, value, "a whole number");
    if (*to < least) refuse(name, value, fmt::format("at least {}", least));
    if (*to > most) refuse(name, value, fmt::format("at most {}", most));
  };
  return app.add_option_function<std::string>(name, take, help)->type_name("N");
}

CLI::Option* add_moment(CLI::App& app, const std::string& name, std::optional<Time>& to,
                        const std::string& help) {
  auto take = [&to, name](const std::string& value) {
    if (auto ago = parse_duration(value)) {
      to = std::chrono::floor<Duration>(std::chrono::system_clock::now()) - *ago;
      return;
    }
    to = parse_time(value);
    if (!to)
      refuse(name, value, "a time such as 2024-05-01T09:30:00Z, a date, or 2h for so long ago");
  };
  return app.add_option_function<std::string>(name, take, help)->type_name("TIME");
}

void add_example(CLI::App& app, const std::string& lines) {
  app.footer(lines + "\n\nGlobal options (--store, --json, -q, -v) go anywhere: once --help");
}

}  // namespace once::cli
