// Mistyped commands and options: which one, where, and what was probably meant.
#include "cli/app/usage.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

const CLI::App& deepest(const CLI::App& root) {
  const CLI::App* app = &root;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().back();
  return *app;
}

// What other programs call a command of `once`, and what it is called here.
struct Elsewhere {
  std::string_view words;  // with a space after each
  std::string_view hint;
};
constexpr Elsewhere kElsewhere[] = {
    {"rm delete del remove ", "`once queue remove NAME` removes a queue, `once cancel ID` a task"},
    {"drop purge flush clear ",
     "`once dead drop` gives up dead tasks, `once cancel` tasks that are not settled"},
    {"kill stop abort terminate ", "`once cancel ID` cancels a task, `once flow cancel RUN` a run"},
    {"retry requeue replay redrive rerun ",
     "`once dead retry ID` runs a dead task again, `once doubt retry ID` one in doubt, "
     "`once flow retry RUN` a run"},
    {"show get describe view ",
     "`once inspect ID` shows a task, `once queue show NAME` a queue, `once flow show RUN` a run"},
    {"ls tasks jobs ", "`once list` lists tasks, `once queue list` queues, `once flow runs` runs"},
    {"ps running ", "`once list --state running` lists what runs, `once status` counts"},
    {"top watch monitor ", "`once status --watch` shows the queues every second"},
    {"info stats stat summary ", "`once status` counts the tasks of every queue"},
    {"logs history events ",
     "`once inspect ID` tells a task's story, `once log` prints what was published"},
    {"tail follow ", "`once log -f` follows what is published"},
    {"enqueue push send submit put produce dispatch schedule add ",
     "`once publish TOPIC BODY` adds a task, `once queue add NAME` a queue"},
    {"create new ", "`once queue add NAME` makes a queue, `once publish TOPIC BODY` a task"},
    {"run exec worker workers consume subscribe process start ",
     "`once work QUEUE` runs a program per task, `once flow start WORKFLOW` starts a run"},
    {"pop pull dequeue lease lock ",
     "`once work QUEUE` runs a program per task, `once claim QUEUE KEY` claims a key"},
    {"ack done success finish ", "`once complete QUEUE KEY` records that a claimed key is done"},
    {"nack reject error ", "`once fail QUEUE KEY` records that a claimed key failed"},
    {"heartbeat extend touch ", "`once renew QUEUE KEY` keeps a claimed key"},
    {"dlq deadletter deadletters dead-letter dead-letters failed failures ",
     "`once dead list` lists the dead tasks"},
    {"indoubt in-doubt in_doubt unknown ", "`once doubt list` lists the tasks in doubt"},
    {"queues topics ", "`once queue list` lists the queues"},
    {"pause resume unpause ", "`once queue pause NAME` and `once queue resume NAME`"},
    {"workflow workflows flows runs ", "`once flow list` lists workflows, `once flow runs` runs"},
    {"approve signal ", "`once flow approve RUN STEP` and `once flow signal RUN NAME`"},
    {"check health ping verify fsck ",
     "`once doctor` looks for dangers, `once audit` reconciles every task"},
    {"gc prune expire vacuum ", "`once retention` says how long settled tasks are kept"},
    {"man usage ", "`once help`"},
};
// The same within a group: the first of these that the group has.
constexpr Elsewhere kWithin[] = {
    {"rm delete del remove purge discard ", "remove drop cancel"},
    {"create new make register load import ", "add"},
    {"ls ", "list runs"},
    {"ps running ", "runs list"},
    {"update edit change modify alter ", "set"},
    {"requeue replay redrive rerun again ", "retry"},
    {"get describe inspect info view status ", "show"},
    {"run begin launch trigger ", "start"},
    {"ack done resolve confirm ", "complete"},
    {"stop kill abort ", "cancel pause drop"},
    {"unpause continue ", "resume"},
    {"dump cat print ", "export show"},
    {"log logs history ", "events show"},
    {"plot draw dot ", "graph"},
};

bool has_word(std::string_view words, std::string_view word) {
  for (std::size_t at = 0; at < words.size(); at = words.find(' ', at) + 1) {
    if (words.substr(at, words.find(' ', at) - at) == word) return true;
  }
  return false;
}

std::string words_of_others(const CLI::App& app, std::string_view word) {
  if (app.get_parent() == nullptr) {
    for (const auto& [words, hint] : kElsewhere) {
      if (has_word(words, word)) return fmt::format("{}; see once --help", hint);
    }
    return {};
  }
  const auto names = command_names(app);
  for (const auto& [words, here] : kWithin) {
    if (!has_word(words, word)) continue;
    for (std::string_view rest = here; !rest.empty();) {
      const std::string_view name = rest.substr(0, rest.find(' '));
      if (std::find(names.begin(), names.end(), name) != names.end()) {
        return fmt::format("here it is `{} {}`; see {} --help", full_name(app), name,
                           full_name(app));
      }
      rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    }
  }
  return {};
}

// In words, which option was given twice or without its value; none: that is not what is wrong.
std::optional<std::string> misused(const CLI::App& app, const CLI::ParseError& error) {
  const std::string_view message = error.what();
  const bool missing = error.get_name() == "ArgumentMismatch" && message.ends_with(" missing");
  if (missing) return fmt::format("{} needs a value", message.substr(0, message.find(':')));
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent()) {
    for (const CLI::Option* option : at->get_options()) {
      const auto most = static_cast<std::size_t>(option->get_items_expected_max());
      if (most == 0 || option->get_positional()) continue;
      if (option->count() > most) {
        return fmt::format("{} is given {} times; it can be given once", option->get_name(),
                           option->count());
      }
    }
  }
  return {};
}

}  // namespace

std::string full_name(const CLI::App& app) {
  std::string name = app.get_name();
  for (const CLI::App* up = app.get_parent(); up != nullptr; up = up->get_parent()) {
    name = up->get_name() + ' ' + name;
  }
  return name;
}

std::optional<std::string> command_word(const CLI::App& app,
                                        const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const CLI::Option* option = app.get_option_no_throw(arguments[i]);
    if (option != nullptr && option->get_items_expected_max() > 0) {
      ++i;
    } else if (arguments[i].empty() || arguments[i].front() != '-') {
      return arguments[i];
    }
  }
  return {};
}

std::optional<std::string> unknown_option(const CLI::App& app,
                                          const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    const std::string name = argument.substr(0, argument.find('='));
    if (name.starts_with("--") && app.get_option_no_throw(name) == nullptr) return name;
  }
  return {};
}

bool takes_program(const CLI::App& command) {
  const std::string name = full_name(command);
  return name == "once work" || name == "once step";
}

std::vector<std::string> with_empty_values(std::vector<std::string> arguments) {
  std::vector<std::string> out;
  bool options = true;
  for (std::string& argument : arguments) {
    if (argument == "--") options = false;
    // An optional value has no word of its own; a blank one is refused by the option.
    if (options && argument == "--wait=") argument += ' ';
    const bool split = options && argument.size() > 3 && argument.starts_with("--") &&
                       argument.find('=') == argument.size() - 1;
    if (split) argument.pop_back();
    out.push_back(std::move(argument));
    if (split) out.emplace_back();
  }
  return out;
}

std::optional<std::string> did_you_mean(std::string_view word,
                                        const std::vector<std::string>& candidates) {
  const std::vector<std::string_view> views(candidates.begin(), candidates.end());
  const auto best = nearest(word, views);
  return best ? std::optional<std::string>(*best) : std::nullopt;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent()) {
    for (const CLI::Option* option : at->get_options()) {
      if (hidden(*option)) continue;
      for (const std::string& name : option->get_lnames()) {
        if (std::find(names.begin(), names.end(), "--" + name) == names.end()) {
          names.push_back("--" + name);
        }
      }
    }
  }
  return names;
}

bool hidden(const CLI::Option& option) { return option.get_group().empty(); }

std::string unknown_command(const CLI::App& app, std::string_view word) {
  if (const std::string hint = words_of_others(app, word); !hint.empty()) {
    return fmt::format("no such command: {}; {}", printable(word), hint);
  }
  const auto meant = did_you_mean(word, command_names(app));
  return fmt::format("no such command: {}; {}see {} --help", printable(word),
                     meant ? fmt::format("did you mean {}? ", *meant) : "", full_name(app));
}

std::string no_such_option(const CLI::App& app, const std::string& option) {
  const std::string name = full_name(app);
  const auto meant = did_you_mean(option, option_names(app));
  if (meant == option) return fmt::format("{} goes after {}", option, name);
  return fmt::format("no such option: {}; {}see {} --help", printable(option),
                     meant ? fmt::format("did you mean {}? ", *meant) : "", name);
}

std::string explain(const CLI::App& root, const CLI::ParseError& error) {
  const CLI::App& app = deepest(root);
  const std::string name = full_name(app);
  // What nobody took says more than what is missing because of it.
  for (const std::string& word : root.remaining(true)) {
    if (word == "--") continue;
    if (word.size() > 1 && word.front() == '-') {
      return no_such_option(app, word.substr(0, word.find('=')));
    }
    if (!app.get_subcommands({}).empty()) return unknown_command(app, word);
    if (takes_program(app)) {
      return fmt::format("the program to run comes after `--`: once {} ... -- {}; see {} --help",
                         app.get_name(), printable(word), name);
    }
    const CLI::Option* wait = app.get_option_no_throw("--wait");
    if (wait != nullptr && wait->count() > 0 && parse_duration(word)) {
      return fmt::format("one word too many: {0}; --wait takes its time after =, as in --wait={0}",
                         word);
    }
    return fmt::format("one word too many: {}; see {} --help", printable(word), name);
  }
  if (!app.get_subcommands({}).empty()) {
    return fmt::format("a command is missing: {}; see {} --help",
                       fmt::join(command_names(app), ", "), name);
  }
  if (const auto option = misused(app, error))
    return fmt::format("{}; see {} --help", *option, name);
  return fmt::format("{}; see {} --help", error.what(), name);
}

}  // namespace once::cli
