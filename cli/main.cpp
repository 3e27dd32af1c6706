// The `once` command: global options, then one of the commands. A supervisor first of all, because a
// worker starts this same executable once per program.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <exception>

#include "cli/app/commands.h"
#include "cli/app/login.h"
#include "cli/app/options.h"
#include "cli/app/session.h"
#include "cli/app/usage.h"
#include "cli/demo/agent.h"
#include "once/version.h"
#include "tooling/program.h"

namespace once::cli {
namespace {

class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() {
    label("Positionals", "Arguments");
    label("SUBCOMMAND", "COMMAND");
    label("REQUIRED", "(needed)");
    column_width(28);
  }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = CLI::Formatter::make_usage(app, std::move(name));
    if (takes_program(*app)) {
      usage.erase(usage.find_last_not_of('\n') + 1);
      usage += " -- CMD ARGS...\n";
    }
    return usage;
  }
  // A group that is hidden leaves an empty line behind.
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string help = CLI::Formatter::make_help(app, std::move(name), mode);
    const std::size_t gap = help.find("\n\n\n");
    return gap == std::string::npos ? help : help.erase(gap, 1);
  }
};

void add_commands(CLI::App& app, Session& session) {
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help", "Print this help and end");
  app.set_version_flag("--version", fmt::format("once {}", version()), "Print the version and end");
  app.add_option("--store", session.store,
                 "The zone: a path or sqlite:PATH, or nats://HOST:PORT[/ZONE] (or tls://);\n"
                 "else $ONCE_STORE, else once.db")
      ->type_name("URL");
  app.add_flag("--json", session.json, "One JSON object per line on standard output");
  app.add_flag("-q,--quiet", session.quiet,
               "Print ids or nothing, and no hints or progress on\nstandard error");
  app.add_flag("-v,--verbose", session.verbose, "Say more on standard error");
  add_login(app, session.nats);
  app.fallthrough();
  app.require_subcommand(1);
  add_publish(app, session);
  add_queue(app, session);
  add_apply(app, session);
  add_work(app, session);
  add_step(app, session);
  add_status(app, session);
  add_list(app, session);
  add_inspect(app, session);
  add_log(app, session);
  add_wait(app, session);
  add_cancel(app, session);
  add_dead(app, session);
  add_doubt(app, session);
  add_claim(app, session);
  add_renew(app, session);
  add_complete(app, session);
  add_fail(app, session);
  add_flow(app, session);
  add_canonical(app, session);
  add_audit(app, session);
  add_retention(app, session);
  add_metrics(app, session);
  add_doctor(app, session);
  add_serve(app, session);
  add_token(app, session);
  add_bench(app, session);
  add_demo(app, session);
  add_version(app, session);
  add_completion(app, session);
  add_help(app, session);
  show_commands(app);
  app.footer(
      "Example:\n"
      "  once queue add mail --topic 'mail.>'\n"
      "  once publish mail.welcome '{\"to\":\"ada@example.org\"}' --id welcome-ada\n"
      "  once work mail --until-empty -- ./send-mail\n"
      "  once status\n"
      "\n"
      "once help COMMAND says more about a command. docs/json.md describes what --json prints.\n"
      "\n"
      "Exit status: 0 done (a duplicate too), 1 failed, 2 usage, 3 conflicting duplicate,\n"
      "4 audit, doctor or apply --dry-run found something, 5 store not reachable or not usable,\n"
      "6 no such thing, 7 outcome unknown or a wait ran out: the same command again is safe,\n"
      "8 not claimed.");
}

// Fills in the session's command; an exit status: there is nothing more to do.
std::optional<int> parse(CLI::App& app, Session& session, std::vector<std::string> arguments) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  const std::vector<std::string> before(arguments.begin(), dashes);
  session.json = std::find(before.begin(), before.end(), "--json") != before.end();
  if (arguments.empty()) {
    session.out.write(app.help());
    return kUsage;
  }
  const auto word = command_word(app, before);
  const auto known = command_names(app);
  if (word && std::find(known.begin(), known.end(), *word) == known.end()) {
    // The word may be the value of a mistyped option, and a secret.
    const auto option = unknown_option(app, before);
    return session.usage(option ? no_such_option(app, *option) : unknown_command(app, *word));
  }
  if (word && takes_program(*app.get_subcommand(*word))) {
    if (dashes != arguments.end()) session.program.assign(dashes + 1, arguments.end());
    arguments = before;
  }

  arguments = with_empty_values(std::move(arguments));
  std::reverse(arguments.begin(), arguments.end());  // as the parser wants them
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    session.out.write(app.help());
    return kDone;
  } catch (const CLI::CallForVersion& version) {
    session.out.line(version.what());
    return kDone;
  } catch (const CLI::ParseError& error) {
    return session.usage(explain(app, error));
  }
  if (const auto* given = app.get_option("--store"); given->count() > 0 && session.store.empty()) {
    return session.usage("--store takes a path or a URL; it is empty");
  }
  return {};
}

int run(Session& session, const std::vector<std::string>& arguments) {
  CLI::App app{"Runs every task exactly once.", "once"};  // completion reads it to the end
  add_commands(app, session);
  const auto ended = parse(app, session, arguments);
  if (!ended) return session.command();
  // A step's exit status is its program's; a mistyped one must not be taken for that.
  return *ended != kDone && command_word(app, arguments) == "step" ? kStepFailed : *ended;
}

// A descriptor that was closed by whoever started us would otherwise be given to the next file that
// is opened, and output would end up in the database. These fail on use instead.
void occupy_standard_files() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) != -1) continue;
    if (::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) ::_exit(kFailed);
  }
}

int main(int argc, char** argv) {
  occupy_standard_files();
  std::signal(SIGPIPE, SIG_IGN);
  Session session;
  int status = kFailed;
  try {
    status = run(session, std::vector<std::string>(argv + 1, argv + argc));
  } catch (const Failure& failure) {
    status = session.fail(failure.error());
  } catch (const std::exception& error) {
    status = session.fail({.code = Code::failed, .message = error.what()});
  }
  return session.finish(status);
}

}  // namespace
}  // namespace once::cli

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--supervisor")
    return once::supervisor_main(argc, argv);
  if (argc > 1 && once::cli::demo::is_part(argv[1])) return once::cli::demo::part_main(argc, argv);
  return argc > 0 ? once::cli::main(argc, argv) : once::cli::kUsage;
}
