// once demo: a fleet of agents, publishers that retry, and kill -9 every second, for a minute. At the
// end everything is counted.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <limits>

#include "cli/app/commands.h"
#include "cli/app/login.h"
#include "cli/app/options.h"
#include "cli/app/temp_folder.h"
#include "cli/demo/result.h"
#include "cli/demo/show.h"
#include "shapes/values.h"
#include "tooling/bare_store_baseline.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

using namespace demo;
namespace fs = std::filesystem;

struct DemoOptions {
  std::optional<std::uint64_t> seconds{}, agents{}, tasks{}, seed{};
  std::optional<Duration> work{};
  std::optional<std::string> cost{};
  bool keep = false;
  bool plain = false;
};

bool on_server(std::string_view url) { return url.find("://") != std::string_view::npos; }

// A zone of the demo's own, unless the URL names one.
std::string with_zone(std::string url, std::uint64_t seed) {
  const std::size_t host = url.find("://") + 3;
  while (url.back() == '/') url.pop_back();
  return url.find('/', host) == std::string::npos ? fmt::format("{}/demo-{}", url, seed) : url;
}

bool paints(const Session& session, const DemoOptions& options) {
  const char* term = std::getenv("TERM");
  return !session.json && !options.plain && session.out.is_terminal() &&
         ::isatty(STDIN_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

// How a person would call this command from here.
std::string shown_command(const std::string& self) {
  const fs::path folder = fs::path(self).parent_path();
  const char* path = std::getenv("PATH");
  const std::string folders = fmt::format(":{}:", path == nullptr ? "" : path);
  if (folders.find(fmt::format(":{}:", folder.string())) != std::string::npos) return "once";
  std::error_code error;
  const fs::path near = fs::proximate(self, error);
  return error || near.empty() || *near.begin() == ".." ? self : near.string();
}

std::string what_next(const std::string& once) {
  return fmt::format(
      "\nGo on with a program of your own:\n"
      "  {0} queue add mine --topic 'my.>'\n"
      "  {0} publish my.first '{{\"hello\":\"world\"}}'\n"
      "  {0} work mine --until-empty -- cat\n",
      once);
}

// What the processes of the demo find in their environment: nothing of an outer Once but the login.
std::vector<std::string> environment_of(const Session& session, const Setting& setting) {
  std::vector<std::string> variables = as_environment(with_environment(session.nats));
  variables.push_back("ONCE_STORE=" + setting.url);
  variables.push_back("TMPDIR=" + setting.folder);
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    if (!variable.starts_with("ONCE_") && !variable.starts_with("TMPDIR="))
      variables.emplace_back(variable);
  }
  return variables;
}

// Attempts are many, because a task may be killed often; a lease is what a worker on a server is
// waited for when it is gone.
Queue queue_of(const Setting& setting) {
  return {.name = kQueue,
          .topic = kTopic,
          .key = "{post}",
          .lease = on_server(setting.url) ? Duration{3'000} : Duration{10'000},
          .attempts = 1'000,
          .backoff = {Duration{500}}};
}

class Demo {
 public:
  Demo(Session& session, Setting setting, TempFolder& folder, bool paint)
      : session_(session), setting_(std::move(setting)), folder_(folder), paint_(paint) {}

  int run(Signals& signals) {
    const OpenOptions options{.nats = with_environment(session_.nats)};
    if (on_server(setting_.url)) {
      auto remover = BareStoreBaseline::open(setting_.url, options);
      if (!remover) return session_.fail(remover.error());
      remover_ = std::move(*remover);
    }
    auto zone = Zone::open(setting_.url, options);
    const int status = zone ? run(signals, *zone) : session_.fail(zone.error());
    const auto cleared = clear(zone ? &*zone : nullptr);
    return !cleared && status == kDone ? session_.fail(cleared.error()) : status;
  }

 private:
  // A URL is shown only now: a store does not open by one that holds a password.
  int run(Signals& signals, Zone& zone) {
    if (!session_.json)
      session_.out.line(fmt::format("once demo, seed {}, folder {}{}", setting_.seed,
                                    setting_.folder,
                                    session_.store.empty() ? "" : ", store " + setting_.url));
    const auto entries = zone.tasks().log(0, 1);
    if (!entries) return session_.fail(entries.error());
    if (!entries->empty())
      return session_.usage(
          fmt::format("the store {} holds tasks; the demo needs one that is empty", setting_.url));
    if (auto added = zone.queues().add(queue_of(setting_)); !added)
      return session_.fail(added.error());
    Show show(session_, signals, zone, setting_, paint_);
    const auto ran = show.run();
    if (!ran) return session_.fail(ran.error());
    if (!*ran) {
      complain("interrupted; nothing was counted");
      return kFailed;
    }
    const auto counted = show.count();
    return counted ? conclude(*counted) : session_.fail(counted.error());
  }

  int conclude(const Counted& counted) {
    session_.out.write(session_.json ? result_lines(counted, setting_)
                                     : '\n' + result_table(counted, setting_, session_.style()));
    if (!counted.as_promised())
      return fail_with_files("this is not what Once promises: please report it, with what is in");
    if (!counted.in_time)
      return fail_with_files(fmt::format(
          "not finished in time, but no promise was broken: {} open when none had been completed "
          "for a minute or more; try fewer --agents, or a machine with less to do; the files are "
          "in",
          once::counted(counted.open, "task")));
    if (!session_.json) session_.out.write(what_next(shown_command(setting_.self)));
    return kDone;
  }

  int fail_with_files(std::string_view what) {
    folder_.keep();
    return session_.fail(
        {.code = Code::failed,
         .message = fmt::format("{} {}; the seed was {}", what, setting_.folder, setting_.seed)});
  }

  // On a server the zone goes again, but not one that was there or that others have begun to use.
  Result<void> clear(const Zone* zone) {
    if (!remover_) return {};
    const auto queues = zone != nullptr ? zone->queues().list() : std::vector<Queue>{};
    const bool ours = !remover_->found_zone() && queues && queues->size() <= 1;
    if (zone != nullptr && !ours)
      session_.hint(
          fmt::format("the zone {} was not made by the demo, or others use it: it stays "
                      "as it is now",
                      setting_.url));
    return remover_->clear(ours);
  }

  Session& session_;
  const Setting setting_;
  TempFolder& folder_;
  const bool paint_;
  // On a server: it knows whether the zone was there before, and removes it.
  std::unique_ptr<BareStoreBaseline> remover_;
};

Result<Setting> setting_from(const Session& session, const DemoOptions& options) {
  Setting setting;
  if (options.seconds) setting.length = std::chrono::seconds{*options.seconds};
  setting.work = options.work.value_or(setting.work);
  setting.agents = options.agents.value_or(setting.agents);
  setting.tasks = options.tasks;
  setting.seed = options.seed.value_or(std::random_device{}() % 1'000'000);
  if (options.cost) {
    const auto cost = parse_amount(*options.cost);
    if (!cost)
      return Error{.code = Code::invalid_input,
                   .message = fmt::format("--cost-per-run takes an amount such as 3.50, not '{}'",
                                          printable(*options.cost))};
    setting.cost_per_run = *cost;
  }
  if (session.store.starts_with("memory:"))
    return Error{.code = Code::invalid_input,
                 .message =
                     "the agents are processes of their own, which cannot share memory:; "
                     "leave --store out, or name a file or a server"};
  std::error_code error;
  setting.self = fs::read_symlink("/proc/self/exe", error).string();
  return setting;
}

int demo_command(Session& session, const DemoOptions& options) {
  auto setting = setting_from(session, options);
  if (!setting) return session.fail(setting.error());
  Signals signals(true);
  std::error_code error;
  TempFolder folder((fs::temp_directory_path(error) / "once-demo").string());
  if (folder.path().empty())
    return session.fail(
        {.code = Code::failed,
         .message = "cannot make a temporary folder; set TMPDIR to one that can be written to"});
  if (options.keep) folder.keep();
  setting->folder = folder.path();
  setting->url = session.store.empty() ? setting->folder + "/demo.db" : session.absolute_url();
  if (on_server(setting->url)) setting->url = with_zone(setting->url, setting->seed);
  setting->environment = environment_of(session, *setting);
  return Demo(session, std::move(*setting), folder, paints(session, options)).run(signals);
}

}  // namespace

void add_demo(CLI::App& root, Session& session) {
  auto* app = add_command(root, "demo", "Watch agents being killed for a minute, and count");
  auto options = std::make_shared<DemoOptions>();
  add_number(*app, "--seconds", options->seconds, "How long processes are killed (60)", 1, 86'400);
  add_number(*app, "--agents", options->agents, "Agents, a process each (7)", 1, 64);
  add_number(*app, "--tasks", options->tasks, "How many tasks (as many as there is time for)", 1,
             100'000);
  add_duration(*app, "--work", options->work, "What an agent takes for a task, about (3s)",
               Duration{30});
  add_number(*app, "--seed", options->seed, "Decides who is killed, and when (a random one)", 0,
             std::numeric_limits<std::uint32_t>::max());
  add_text(*app, "--cost-per-run", options->cost, "N", "What a run costs, for the table (3.50)");
  add_flag(*app, "--keep", options->keep, "Keep the folder with what was counted");
  add_flag(*app, "--plain", options->plain, "A line per event, on a terminal too");
  add_example(
      *app,
      "Agents are `once work` processes, killed with -9 at random about every second and\n"
      "replaced; each task is three durable steps, and the effect of each is a line in a file.\n"
      "Publishers are `once publish --batch` processes that are killed and send everything\n"
      "again. Beside it the same work and the same kills on a plain queue that leases,\n"
      "redelivers and takes acknowledgements. At the end all is counted: the lines, the\n"
      "receipts, the log and the ledger. A promise that was broken is exit 1.\n"
      "\n"
      "On a terminal: 1 to 7 kill an agent, d publishes a duplicate, c a conflict, q ends.\n"
      "Everything is in a temporary folder; with --store nats://HOST in a zone of the demo's\n"
      "own, which is removed afterwards, or in the zone that the URL names, if it is empty.\n"
      "\n"
      "Examples:\n"
      "  once demo\n"
      "  once demo --seconds 20 --seed 7 --plain\n"
      "  once demo --store nats://localhost:4222");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return demo_command(session, *options); };
  });
}

}  // namespace once::cli
