// What the parser makes of a command line, and what a person is told when it makes nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
class ParseError;
}

namespace once::cli {

// The first word that is not a global option or its value; none: there is no command.
std::optional<std::string> command_word(const CLI::App& app,
                                        const std::vector<std::string>& arguments);
// The first long option before the command that is not a global one.
std::optional<std::string> unknown_option(const CLI::App& app,
                                          const std::vector<std::string>& arguments);

// Commands that run a program, which follows `--`.
bool takes_program(const CLI::App& command);

// `--id=` as two words: the parser would take the next word for the value.
std::vector<std::string> with_empty_values(std::vector<std::string> arguments);

// The candidate that is a typing error away from `word`, if there is one.
std::optional<std::string> did_you_mean(std::string_view word,
                                        const std::vector<std::string>& candidates);

std::string full_name(const CLI::App& app);  // "once queue add"
std::vector<std::string> command_names(const CLI::App& app);
std::vector<std::string> option_names(const CLI::App& app);  // long ones, its parents' too
bool hidden(const CLI::Option& option);                      // not for the help

// One sentence for a failed parse.
std::string explain(const CLI::App& root, const CLI::ParseError& error);
std::string unknown_command(const CLI::App& app, std::string_view word);
std::string no_such_option(const CLI::App& app, const std::string& option);

}  // namespace once::cli
