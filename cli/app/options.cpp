// Values are taken as text and parsed here, so that the message names the option and what it takes.
#include "cli/app/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "shapes/values.h"

namespace once::cli {
namespace {

[[noreturn]] void refuse(const std::string& name, std::string_view given, std::string_view wanted) {
  throw CLI::ValidationError(fmt::format("{} takes {}, not \"{}\"", name, wanted, given),
                             CLI::ExitCodes::ValidationError);
}

// A number without its unit is the mistake that is made most.
std::string duration_words(std::string_view given) {
  const std::string words = "a duration such as 500ms, 30s, 2m, 1h30m or 7d";
  return parse_number(given)
             ? fmt::format("{0} (write {1}s for seconds, {1}m for minutes)", words, given)
             : words;
}

}  // namespace

CLI::App* add_command(CLI::App& to, const std::string& name, const std::string& help) {
  return to.add_subcommand(name, help);
}

void need_command(CLI::App& app) { app.require_subcommand(1); }

void show_commands(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands({})) command->group("Commands");
}

void when_given(CLI::App& app, std::function<void()> then) { app.callback(std::move(then)); }

void add_flag(CLI::App& app, const std::string& name, bool& to, const std::string& help) {
  app.add_flag(name, to, help);
}

void add_needed(CLI::App& app, const std::string& name, std::string& to, const std::string& help) {
  app.add_option(name, to, help)->required()->type_name("");
}

void hide_option(CLI::App& app, const std::string& name) { app.get_option(name)->group(""); }

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
    if (!to) refuse(name, value, duration_words(value));
    if (*to < least) refuse(name, value, fmt::format("at least {}", format_duration(least)));
  };
  return app.add_option_function<std::string>(name, take, help)->type_name("DURATION");
}

CLI::Option* add_optional_duration(CLI::App& app, const std::string& name,
                                   std::optional<std::optional<Duration>>& to,
                                   const std::string& help) {
  const CLI::callback_t take = [&to, name](const CLI::results_t& values) {
    to.emplace();
    if (values.back() == "true") return true;  // as the parser says that there is none
    *to = parse_duration(values.back());
    if (!*to) {
      refuse(name, values.back(), fmt::format("a duration after =, such as {}=30s", name));
    }
    return true;
  };
  return app.add_option(name, take, help)
      ->expected(0)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
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

CLI::Option* add_words(CLI::App& app, const std::string& name, std::vector<std::string>& to,
                       const std::string& help) {
  const CLI::callback_t take = [&to](const CLI::results_t& words) {
    to = words;
    return true;
  };
  // Only an option that still wants words is given the next one as it is, and only the policy to
  // take all is content with fewer.
  constexpr int kMost = CLI::detail::expected_max_vector_size;
  return app.add_option(name, take, help)
      ->expected(kMost, kMost)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("");
}

CLI::Option* add_time(CLI::App& app, const std::string& name, std::optional<Time>& to,
                      const std::string& help) {
  auto take = [&to, name](const std::string& value) {
    to = parse_time(value);
    if (!to) {
      refuse(name, value,
             parse_duration(value)
                 ? "a time such as 2024-05-01T09:30:00Z, or a date (--delay takes "
                   "a duration)"
                 : "a time such as 2024-05-01T09:30:00Z, or a date");
    }
  };
  return app.add_option_function<std::string>(name, take, help)->type_name("TIME");
}

CLI::Option* add_coming(CLI::App& app, const std::string& name, std::optional<Time>& to,
                        const std::string& help) {
  auto take = [&to, name](const std::string& value) {
    to = parse_coming(value, now());
    if (!to) {
      refuse(name, value,
             "a duration such as 30s or 7d from now, or a time such as 2024-05-01T09:30:00Z");
    }
  };
  return app.add_option_function<std::string>(name, take, help)->type_name("D|TIME");
}

CLI::Option* add_moment(CLI::App& app, const std::string& name, std::optional<Time>& to,
                        const std::string& help) {
  auto take = [&to, name](const std::string& value) {
    to = parse_past(value, now());
    if (!to)
      refuse(name, value, "a time such as 2024-05-01T09:30:00Z, a date, or 2h for so long ago");
  };
  return app.add_option_function<std::string>(name, take, help)->type_name("TIME");
}

void add_example(CLI::App& app, const std::string& lines) {
  app.footer(lines + "\n\nGlobal options (--store, --json, -q, -v) go anywhere: once --help");
}

}  // namespace once::cli
