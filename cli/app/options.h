// The commands' words to the parser, which they need not know: its header alone takes seconds to
// compile. Options have values of our own kinds: a bad value is one clear sentence.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "once/task.h"

namespace CLI {
class App;
class Option;
}

namespace once::cli {

CLI::App* add_command(CLI::App& to, const std::string& name, const std::string& help);
void need_command(CLI::App& app);   // it does nothing without one of its commands
void show_commands(CLI::App& app);  // those that it has, under their heading in its help
void when_given(CLI::App& app, std::function<void()> then);

void add_flag(CLI::App& app, const std::string& name, bool& to, const std::string& help);
// An argument that must be there.
void add_needed(CLI::App& app, const std::string& name, std::string& to, const std::string& help);
void hide_option(CLI::App& app, const std::string& name);  // from the help
CLI::Option* add_text(CLI::App& app, const std::string& name, std::optional<std::string>& to,
                      const std::string& what, const std::string& help);
// Once per use, never greedy: CLI11's own vectors swallow the words that follow.
CLI::Option* add_texts(CLI::App& app, const std::string& name, std::vector<std::string>& to,
                       const std::string& what, const std::string& help);
CLI::Option* add_duration(CLI::App& app, const std::string& name, std::optional<Duration>& to,
                          const std::string& help, Duration least = Duration{1});
// `--name` or `--name=D`: a flag, because an option would take the next word for its value.
CLI::Option* add_optional_duration(CLI::App& app, const std::string& name,
                                   std::optional<std::optional<Duration>>& to,
                                   const std::string& help);
CLI::Option* add_number(CLI::App& app, const std::string& name, std::optional<std::uint64_t>& to,
                        const std::string& help, std::uint64_t least = 0,
                        std::uint64_t most = std::numeric_limits<std::uint64_t>::max());
// The words that follow, as they are: CLI11's own vectors take `[a,b]` and `{}` apart.
CLI::Option* add_words(CLI::App& app, const std::string& name, std::vector<std::string>& to,
                       const std::string& help);
CLI::Option* add_time(CLI::App& app, const std::string& name, std::optional<Time>& to,
                      const std::string& help);
// A time, or a duration that means so long from now.
CLI::Option* add_coming(CLI::App& app, const std::string& name, std::optional<Time>& to,
                        const std::string& help);
// A time, or a duration that means so long ago.
CLI::Option* add_moment(CLI::App& app, const std::string& name, std::optional<Time>& to,
                        const std::string& help);

// For the end of a command's help.
void add_example(CLI::App& app, const std::string& lines);

}  // namespace once::cli
