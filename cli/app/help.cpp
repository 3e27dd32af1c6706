// once help [COMMAND...]: what `--help` after that command prints.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/app/session.h"
#include "cli/app/usage.h"

namespace once::cli {
namespace {

int help(Session& session, const CLI::App& root, const std::vector<std::string>& words) {
  const CLI::App* at = &root;
  for (const std::string& word : words) {
    const auto known = command_names(*at);
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      return session.usage(unknown_command(*at, word));
    }
    at = at->get_subcommand(word);
  }
  // Not help(): that prints the help of the command that was parsed, which is this one.
  session.out.write(at->get_formatter()->make_help(at, full_name(*at), CLI::AppFormatMode::Normal));
  return kDone;
}

}  // namespace

void add_help(CLI::App& root, Session& session) {
  auto* app = add_command(root, "help", "Print the help of a command");
  auto words = std::make_shared<std::vector<std::string>>();
  add_words(*app, "COMMAND", *words, "The command, such as queue add; none: all of them");
  add_example(*app, "Example:\n  once help queue add");
  when_given(*app, [&session, &root, words] {
    session.command = [&session, &root, words] { return help(session, root, *words); };
  });
}

}  // namespace once::cli
