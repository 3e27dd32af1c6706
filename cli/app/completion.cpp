// once completion bash|zsh|fish: written from the parser itself, so that it cannot fall behind.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/app/session.h"
#include "cli/app/usage.h"

namespace once::cli {
namespace {

// A command by its place below `once`: "", "/queue", "/queue/add".
struct Place {
  std::string path{};
  const CLI::App* app = nullptr;
};

void collect(const CLI::App& app, const std::string& path, std::vector<Place>& to) {
  to.push_back({path, &app});
  for (const CLI::App* command : app.get_subcommands({})) {
    collect(*command, path + '/' + command->get_name(), to);
  }
}

std::string words_at(const Place& place) {
  std::vector<std::string> words = command_names(*place.app);
  if (place.path == "/completion") words = {"bash", "zsh", "fish"};
  for (const std::string& option : option_names(*place.app)) words.push_back(option);
  return fmt::format("{}", fmt::join(words, " "));
}

// The patterns of a shell's case that lead from one command to the next.
std::string paths_of(const std::vector<Place>& places) {
  std::vector<std::string> paths;
  for (const Place& place : places) {
    if (!place.path.empty()) paths.push_back(place.path);
  }
  return fmt::format("{}", fmt::join(paths, "|"));
}

std::string bash(const std::vector<Place>& places) {
  std::string out =
      "# bash completion of once; load it with: source <(once completion bash)\n"
      "_once() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} place= words= i\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    if [[ ${COMP_WORDS[i]} == -- ]]; then\n"
      "      COMPREPLY=($(compgen -c -f -- \"$cur\"))\n"
      "      return\n"
      "    fi\n"
      "    case \"$place/${COMP_WORDS[i]}\" in\n";
  out += fmt::format("      {}) place=\"$place/${{COMP_WORDS[i]}}\" ;;\n", paths_of(places));
  out += "    esac\n  done\n  case \"$place\" in\n";
  for (const Place& place : places) {
    out += fmt::format("    '{}') words='{}' ;;\n", place.path, words_at(place));
  }
  out +=
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
      "}\n"
      "complete -o default -F _once once\n";
  return out;
}

std::string zsh(const std::vector<Place>& places) {
  std::string out =
      "#compdef once\n"
      "# zsh completion of once; load it with: source <(once completion zsh)\n"
      "_once() {\n"
      "  local place= word\n"
      "  for word in ${words[2,CURRENT-1]}; do\n"
      "    if [[ $word == -- ]]; then\n"
      "      _files\n"
      "      return\n"
      "    fi\n"
      "    case \"$place/$word\" in\n";
  out += fmt::format("      ({}) place=\"$place/$word\" ;;\n", paths_of(places));
  out += "    esac\n  done\n  case \"$place\" in\n";
  for (const Place& place : places) {
    out += fmt::format("    ('{}') compadd -- {} ;;\n", place.path, words_at(place));
  }
  out +=
      "  esac\n"
      "  [[ $words[CURRENT] == -* ]] || _files\n"
      "}\n"
      "compdef _once once\n";
  return out;
}

std::string fish_quoted(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::string out = "'";
  for (char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + '\'';
}

std::string fish(const std::vector<Place>& places) {
  std::string out =
      "# fish completion of once; load it with: once completion fish | source\n"
      "function __once_at\n"
      "  set -l place ''\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    switch \"$place/$word\"\n";
  std::string paths;
  for (const Place& place : places) {
    if (!place.path.empty()) paths += ' ' + place.path;
  }
  out += fmt::format("      case{}\n", paths);
  out +=
      "        set place \"$place/$word\"\n"
      "    end\n"
      "  end\n"
      "  test \"$place\" = \"$argv[1]\"\n"
      "end\n";
  for (const Place& place : places) {
    const std::string condition = fmt::format("complete -c once -n \"__once_at '{}'\"", place.path);
    for (const CLI::App* command : place.app->get_subcommands({})) {
      out += fmt::format("{} -f -a {} -d {}\n", condition, command->get_name(),
                         fish_quoted(command->get_description()));
    }
    if (place.path == "/completion") out += condition + " -f -a 'bash zsh fish'\n";
    for (const CLI::App* at = place.app; at != nullptr; at = at->get_parent()) {
      for (const CLI::Option* option : at->get_options()) {
        if (hidden(*option) || (at != place.app && option == at->get_help_ptr())) continue;
        for (const std::string& name : option->get_lnames()) {
          out += fmt::format("{} -l {}{} -d {}\n", condition, name,
                             option->get_items_expected_max() > 0 ? " -r" : "",
                             fish_quoted(option->get_description()));
        }
      }
    }
  }
  return out;
}

}  // namespace

void add_completion(CLI::App& root, Session& session) {
  auto* app = root.add_subcommand("completion", "Print a completion script for a shell");
  auto shell = std::make_shared<std::string>();
  app->add_option("SHELL", *shell, "bash, zsh or fish")->required()->type_name("");
  add_example(*app, "Example:\n  source <(once completion bash)");
  app->callback([&session, shell, &root] {
    session.command = [&session, shell, &root]() -> int {
      std::vector<Place> places;
      collect(root, "", places);
      if (*shell == "bash") {
        session.out.write(bash(places));
      } else if (*shell == "zsh") {
        session.out.write(zsh(places));
      } else if (*shell == "fish") {
        session.out.write(fish(places));
      } else {
        return session.usage("completion is there for bash, zsh and fish, not \"" + *shell + '"');
      }
      return kDone;
    };
  });
}

}  // namespace once::cli
