// once apply FILE [--dry-run] [--prune] [--force]
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/app/advice.h"
#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/app/session.h"
#include "cli/queue/declaration.h"
#include "shapes/json_line.h"
#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

struct ApplyOptions {
  std::string file{};
  bool dry_run = false;
  bool prune = false;
  bool force = false;
};

enum class Action { add, change, unchanged, remove, cannot };

std::string_view word(Action action) {
  switch (action) {
    case Action::add: return "add";
    case Action::change: return "change";
    case Action::unchanged: return "unchanged";
    case Action::remove: return "remove";
    case Action::cannot: return "cannot";
  }
  return "?";
}

// What is to be done about one queue, or one version of a workflow.
struct Item {
  Action action{};
  std::string name{};
  std::optional<std::uint32_t> version{};  // of a workflow
  std::vector<QueueChange> changes{};
  std::string about{};  // for people: what is added, or why it cannot be
  std::vector<FlowHint> hints{};
  const DeclaredQueue* queue = nullptr;
  const DeclaredFlow* flow = nullptr;
};

// What the zone has. Of a zone that is not there: nothing.
struct Found {
  std::vector<Queue> queues{};
  std::vector<FlowInfo> flows{};
  Retention retention{};
};

// Names that begin so are Once's own.
bool own(std::string_view name) { return name.starts_with("once-"); }

Result<Found> look_at(const Zone& zone) {
  auto queues = zone.queues().list();
  if (!queues) return queues.error();
  auto flows = zone.flows().list();
  if (!flows) return flows.error();
  auto retention = zone.retention();
  if (!retention) return retention.error();
  return Found{std::move(*queues), std::move(*flows), *retention};
}

class Planner {
 public:
  // `zone`: null when there is none yet.
  Planner(const Zone* zone, const ApplyOptions& options, Declaration& declared)
      : zone_(zone), options_(options), declared_(declared) {}

  // The items in the order in which they are done; mistakes go to the declaration.
  Result<std::vector<Item>> plan() {
    if (zone_ != nullptr) {
      auto found = look_at(*zone_);
      if (!found) return found.error();
      found_ = std::move(*found);
    }
    for (const DeclaredQueue& each : declared_.queues) plan_queue(each);
    auto rehearsal = Zone::open("memory:");
    if (!rehearsal) return rehearsal.error();
    rehearse_queues(*rehearsal);
    for (const DeclaredFlow& each : declared_.flows)
      if (auto planned = plan_flow(each, *rehearsal); !planned) return planned.error();
    if (options_.prune)
      if (auto pruned = plan_removals(); !pruned) return pruned.error();
    return std::move(items_);
  }

 private:
  void plan_queue(const DeclaredQueue& declared) {
    Item item{.action = Action::add, .name = declared.queue.name, .queue = &declared};
    const auto existing = find_queue(found_.queues, declared.queue.name);
    if (!existing) {
      item.about =
          declared.queue.ledger ? "a ledger-only queue" : "topic " + topic_text(declared.queue);
      items_.push_back(std::move(item));
      return;
    }
    Queue wanted = declared.queue;
    wanted.paused = existing->paused;  // that is for people, not for a file
    wanted.from = from_of(declared, *existing);
    item.changes = differences(*existing, wanted);
    item.action = item.changes.empty() ? Action::unchanged : Action::change;
    for (const QueueChange& change : item.changes) {
      if (!change.fixed) continue;
      item.action = Action::cannot;
      item.about += fmt::format("{}its {} is {}, not {}", item.about.empty() ? "" : ", ",
                                change.label, change.before, change.after);
    }
    if (item.action == Action::cannot)
      item.about += ": that is fixed for the life of a queue. Give it another name, or remove it";
    items_.push_back(std::move(item));
  }

  // `now` and a time mean what they meant when the queue was made.
  static std::optional<std::uint64_t> from_of(const DeclaredQueue& declared,
                                              const Queue& existing) {
    if (!declared.from || *declared.from == "start") return {};
    if (const auto sequence = parse_number(*declared.from)) return sequence;
    return existing.from;
  }

  // All that is declared, and what stays, in a zone that nobody sees: whatever Once refuses of it is a
  // mistake of the file.
  void rehearse_queues(Zone& rehearsal) {
    (void)rehearsal.set_retention(found_.retention);
    const auto add = [&](Queue queue) {
      queue.stream.clear();  // a zone in memory has none
      queue.from = {};
      return rehearsal.queues().add(queue);
    };
    for (const DeclaredQueue& each : declared_.queues)
      if (auto added = add(each.queue); !added)
        declared_.mistakes.push_back({each.at, with_advice(added.error())});
    if (options_.prune) return;
    for (const Queue& queue : found_.queues)
      if (!own(queue.name)) (void)add(queue);
  }

  Result<void> plan_flow(const DeclaredFlow& declared, Zone& rehearsal) {
    const FlowAdded& about = declared.about;
    Item item{.action = Action::add,
              .name = about.workflow,
              .version = about.version,
              .about = counted(about.steps, "step"),
              .flow = &declared};
    const bool there = std::any_of(found_.flows.begin(), found_.flows.end(), [&](const auto& each) {
      return each.workflow == about.workflow && each.version == about.version;
    });
    Flows flows = rehearsal.flows();
    if (there) {
      const auto existing = zone_->flows().definition(about.workflow, about.version);
      if (!existing) return existing.error();
      (void)flows.add(existing->json);
    }
    const auto added = flows.add(declared.json);
    if (added) {
      if (!added->added) item.action = Action::unchanged;
      item.hints = added->hints;
    } else if (added.error().code == Code::conflicting_duplicate) {
      item.action = Action::cannot;
      item.about = added.error().message;
    } else {
      declared_.mistakes.push_back({declared.at, with_advice(added.error())});
      return {};
    }
    items_.push_back(std::move(item));
    return {};
  }

  Result<void> plan_removals() {
    std::set<std::string> kept;
    for (const DeclaredFlow& each : declared_.flows) kept.insert(each.about.workflow);
    for (const FlowInfo& each : found_.flows)
      if (!kept.contains(each.workflow))
        if (auto planned = plan_removal(each); !planned) return planned;
    kept.clear();
    for (const DeclaredQueue& each : declared_.queues) kept.insert(each.queue.name);
    if (zone_ == nullptr) return {};
    const auto status = zone_->status();
    if (!status) return status.error();
    for (const QueueStatus& each : status->queues)
      if (!own(each.queue.name) && !kept.contains(each.queue.name)) plan_removal(each);
    return {};
  }

  Result<void> plan_removal(const FlowInfo& flow) {
    std::uint64_t active = 0;
    for (const RunPhase phase : {RunPhase::running, RunPhase::waiting}) {
      const auto runs = zone_->flows().runs(
          {.workflow = flow.workflow, .version = flow.version, .state = phase, .limit = kMostRuns});
      if (!runs) return runs.error();
      active += runs->size();
    }
    Item item{.action = Action::remove, .name = flow.workflow, .version = flow.version};
    if (active > 0) refuse_unless_forced(item, counted(active, "run") + " still going on");
    items_.push_back(std::move(item));
    return {};
  }

  void plan_removal(const QueueStatus& status) {
    std::uint64_t unsettled = 0;
    for (const auto& [state, tasks] : status.tasks)
      if (state != State::completed && state != State::cancelled && state != State::duplicate)
        unsettled += tasks;
    Item item{.action = Action::remove, .name = status.queue.name};
    if (unsettled > 0) refuse_unless_forced(item, counted(unsettled, "task") + " not done with");
    items_.push_back(std::move(item));
  }

  void refuse_unless_forced(Item& item, const std::string& has) const {
    item.about = "it has " + has;
    if (options_.force) return;
    item.action = Action::cannot;
    item.about += ": it is not removed without --force";
  }

  static constexpr std::size_t kMostRuns = 1'000'000;

  const Zone* zone_;
  const ApplyOptions& options_;
  Declaration& declared_;
  Found found_{};
  std::vector<Item> items_{};
};

// --- Telling -----------------------------------------------------------------------------------

std::string name_of(const Item& item) {
  return item.version ? fmt::format("workflow {}@{}", item.name, *item.version)
                      : "queue " + item.name;
}

std::string line_of(const Item& item) {
  std::string details = item.about;
  if (item.action == Action::change)
    for (const QueueChange& change : item.changes)
      details += fmt::format("{}{} {} -> {}", details.empty() ? "" : ", ", change.label,
                             change.before, change.after);
  const bool tell = !details.empty() && item.action != Action::unchanged;
  return fmt::format("{:<11}{}{}", word(item.action), printable(name_of(item)),
                     tell ? ": " + printable(details) : "");
}

std::string json_of(const Item& item) {
  JsonLine line;
  line.text("action", word(item.action)).text("kind", item.version ? "workflow" : "queue");
  line.text("name", item.name);
  if (item.version) line.number("version", *item.version);
  std::vector<std::string> changes;
  for (const QueueChange& change : item.changes) {
    std::string field = change.label;
    std::replace(field.begin(), field.end(), ' ', '_');
    changes.push_back(JsonLine{}
                          .text("field", field)
                          .text("before", change.before)
                          .text("after", change.after)
                          .str());
  }
  if (!changes.empty()) line.json("changes", json_array(changes));
  if (!item.about.empty() && item.action != Action::unchanged) line.text("about", item.about);
  return line.str();
}

void tell(Session& session, const Item& item) {
  session.out.line(session.json ? json_of(item) : line_of(item));
  for (const FlowHint& hint : item.hints) session.hint(with_advice(hint));
}

void tell_sum(Session& session, const std::vector<Item>& items, bool dry_run) {
  const auto count = [&](Action action) {
    return static_cast<std::uint64_t>(std::count_if(
        items.begin(), items.end(), [&](const Item& item) { return item.action == action; }));
  };
  const std::uint64_t same = count(Action::unchanged);
  if (session.json) {
    session.out.line(JsonLine{}
                         .number("added", count(Action::add))
                         .number("changed", count(Action::change))
                         .number("removed", count(Action::remove))
                         .number("unchanged", same)
                         .boolean("dry_run", dry_run)
                         .str());
  } else if (same == items.size()) {
    session.out.line("nothing changes");
  } else {
    session.out.line(fmt::format("{}{} added, {} changed, {} removed, {} unchanged",
                                 dry_run ? "dry run, nothing was changed: " : "",
                                 count(Action::add), count(Action::change), count(Action::remove),
                                 same));
  }
}

int tell_mistakes(Session& session, const std::string& file, const std::vector<Mistake>& mistakes) {
  int status = kUsage;
  for (const Mistake& mistake : mistakes) {
    JsonLine about;
    about.text("file", file).text_or_null("path", mistake.at.path);
    if (mistake.at.line) about.number("line", *mistake.at.line);
    status = session.fail(
        {.code = Code::invalid_input,
         .message = fmt::format("{}{}: {}{}", file == "-" ? "standard input" : printable(file),
                                mistake.at.line ? fmt::format(":{}", *mistake.at.line) : "",
                                mistake.at.path.empty() ? "" : printable(mistake.at.path) + ": ",
                                mistake.what)},
        std::move(about));
  }
  session.hint(
      fmt::format("{} in the file: nothing was changed", counted(mistakes.size(), "mistake")));
  return status;
}

// --- Doing -------------------------------------------------------------------------------------

Result<void> change(Zone& zone, const Queue& wanted) {
  auto changed = zone.queues().change(wanted.name, [&](Queue& queue) {
    Queue next = wanted;
    next.paused = queue.paused;
    next.from = queue.from;
    queue = std::move(next);
  });
  if (!changed) return changed.error();
  return {};
}

Result<void> carry_out(Zone& zone, const Item& item, bool force) {
  switch (item.action) {
    case Action::add:
      if (item.flow != nullptr) {
        auto added = zone.flows().add(item.flow->json);
        if (!added) return added.error();
      } else {
        auto added = add_queue(zone, item.queue->queue, item.queue->from);
        if (!added) return added.error();
      }
      return {};
    case Action::change: return change(zone, item.queue->queue);
    case Action::remove:
      if (item.version) return zone.flows().remove(item.name, *item.version);
      return zone.queues().remove(item.name, {.force = force});
    case Action::unchanged:
    case Action::cannot: break;
  }
  return {};
}

// There is no zone yet, and nothing else is wrong.
bool missing(const Error& error) {
  return error.code == Code::store_unavailable && !error.retryable && !error.in_doubt;
}

// What cannot be done keeps everything from being done.
int refuse(Session& session, const std::vector<Item>& items) {
  std::uint64_t all = 0;
  for (const Item& item : items) {
    if (item.action != Action::cannot) continue;
    ++all;
    tell(session, item);
  }
  return session.fail(
      {.code = Code::queue_mismatch,
       .message = fmt::format("{} cannot be done: nothing was changed",
                              all == 1 ? "1 thing" : fmt::format("{} things", all))});
}

int apply(Session& session, const ApplyOptions& options) {
  if (options.force && !options.prune)
    return session.usage("--force goes with --prune: it removes what still has tasks or runs");
  auto declared = read_declaration(options.file);
  if (!declared) return session.fail(declared.error());
  if (!declared->mistakes.empty()) return tell_mistakes(session, options.file, declared->mistakes);
  auto zone = session.open(Missing::refuse);
  if (!zone && !missing(zone.error())) return session.fail(zone.error());
  auto items = Planner(zone ? &*zone : nullptr, options, *declared).plan();
  if (!items) return session.fail(items.error());
  if (!declared->mistakes.empty()) return tell_mistakes(session, options.file, declared->mistakes);
  const auto any = [&](auto matches) { return std::any_of(items->begin(), items->end(), matches); };
  if (any([](const Item& item) { return item.action == Action::cannot; }))
    return refuse(session, *items);
  if (!zone && !options.dry_run) zone = session.open(Missing::create);
  if (!zone && !options.dry_run) return session.fail(zone.error());
  for (const Item& item : *items) {
    if (!options.dry_run)
      if (auto done = carry_out(*zone, item, options.force); !done)
        return session.fail(done.error(), JsonLine{}.text("name", item.name));
    tell(session, item);
  }
  tell_sum(session, *items, options.dry_run);
  const bool changes = any([](const Item& item) { return item.action != Action::unchanged; });
  return options.dry_run && changes ? kFound : kDone;
}

}  // namespace

void add_apply(CLI::App& root, Session& session) {
  auto* app = add_command(root, "apply", "Make queues and workflows what a file declares");
  auto options = std::make_shared<ApplyOptions>();
  add_needed(*app, "FILE", options->file, "The declaration, TOML or JSON; - for standard input");
  add_flag(*app, "--dry-run", options->dry_run,
           "Say what would change, and change nothing; exit 4: something would");
  add_flag(*app, "--prune", options->prune,
           "Remove the queues and workflows that the file does not name");
  add_flag(*app, "--force", options->force,
           "With --prune: even those that still have tasks or runs");
  add_example(*app,
              "A queue takes the settings of once queue add, with _ for -; what is left out has\n"
              "its default. A mistake in the file, or something that cannot be changed, keeps\n"
              "everything from being changed. The same file again changes nothing.\n"
              "\n"
              "Example of a file:\n"
              "  [[queue]]\n"
              "  name = \"billing\"\n"
              "  topic = \"orders.>\"\n"
              "  lease = \"1m\"\n"
              "\n"
              "  [[workflow]]\n"
              "  file = \"payment.json\"\n"
              "\n"
              "Example:\n"
              "  once apply once.toml --dry-run\n"
              "  once apply once.toml --prune");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return apply(session, *options); };
  });
}

}  // namespace once::cli
