// once queue add|list|show|remove
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/json_line.h"
#include "cli/options.h"
#include "cli/queue_definition.h"
#include "cli/session.h"
#include "cli/values.h"

namespace once::cli {
namespace {

struct Named {
  std::string name{};
  bool force = false;
  QueueOptions queue{};
};

int add(Session& session, const Named& options) {
  if (!options.queue.topic) {
    return session.usage("queue add needs --topic FILTER; see once queue add --help");
  }
  auto queue = queue_from(options.name, options.queue);
  if (!queue) return session.fail(queue.error());
  auto zone = session.open(Missing::create);
  if (!zone) return session.fail(zone.error());
  auto added = add_queue(*zone, std::move(*queue), options.queue.from);
  if (!added) return session.fail(added.error());
  if (session.json) {
    JsonLine line;
    add_fields(line, added->queue);
    session.out.line(line.boolean("added", !added->existed).number("found", added->found).str());
  } else if (added->existed) {
    session.out.line(fmt::format("queue {} is there already, with this definition", options.name));
  } else {
    session.out.line(fmt::format("queue {} takes {}: {} found in the log", options.name,
                                 added->queue.topic, counted(added->found, "task")));
  }
  return kDone;
}

int list(Session& session) {
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  auto queues = zone->queues();
  if (!queues) return session.fail(queues.error());
  Table table(
      {{"QUEUE"}, {"TOPIC"}, {"KEY"}, {"LEASE"}, {"ATTEMPTS", Table::Align::right}, {"BACKOFF"}});
  for (const Queue& queue : *queues) {
    if (session.json) {
      JsonLine line;
      session.out.line(add_fields(line, queue).str());
    }
    table.row({queue.name, printable(queue.topic),
               queue.key.empty() ? std::string("id") : printable(queue.key),
               format_duration(queue.lease), fmt::format("{}", effective_attempts(queue)),
               backoff_text(queue)});
  }
  if (session.json) return kDone;
  if (table.empty()) {
    session.hint("no queues yet (once queue add NAME --topic FILTER)");
  } else {
    session.out.write(table.str(session.style()));
  }
  return kDone;
}

int show(Session& session, const std::string& name) {
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  auto queues = zone->queues();
  if (!queues) return session.fail(queues.error());
  const auto queue = find_queue(*queues, name);
  if (!queue) {
    return session.fail({.code = Code::not_found,
                         .message = fmt::format("there is no queue {} (once queue list)", name)});
  }
  if (session.json) {
    JsonLine line;
    session.out.line(add_fields(line, *queue).str());
    return kDone;
  }
  auto row = [&](std::string_view label, std::string_view value) {
    session.out.line(fmt::format("{:<13}{}", label, value));
  };
  row("queue", session.style().bold(queue->name));
  row("topic", printable(queue->topic));
  row("key", queue->key.empty() ? "the task's id" : printable(queue->key));
  row("lease", format_duration(queue->lease));
  row("timeout", queue->timeout.count() > 0 ? format_duration(queue->timeout) : "none");
  row("attempts", fmt::format("{}", effective_attempts(*queue)));
  row("backoff", backoff_text(*queue));
  row("in doubt", "retry");
  row("max running", queue->max_running > 0 ? fmt::format("{}", queue->max_running) : "no limit");
  row("window", fmt::format("{}", queue->window));
  row("same key", queue->same_key == SameKey::ignore ? "ignore" : "duplicate");
  row("from", queue->from ? fmt::format("#{}", *queue->from) : "start");
  return kDone;
}

int remove(Session& session, const Named& options) {
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  if (auto done = zone->remove_queue(options.name, options.force); !done) {
    return session.fail(done.error());
  }
  session.out.line(
      session.json ? JsonLine{}.text("queue", options.name).boolean("removed", true).str()
                   : fmt::format("queue {} is removed; its tasks stay in the log", options.name));
  return kDone;
}

}  // namespace

void add_queue(CLI::App& root, Session& session) {
  auto* app = root.add_subcommand("queue", "Add, list, show and remove queues");
  app->require_subcommand(1);
  add_example(*app, "Example:\n  once queue add billing --topic 'orders.>'");
  auto options = std::make_shared<Named>();
  auto named = [&](const std::string& name, const std::string& help) {
    auto* command = app->add_subcommand(name, help);
    command->add_option("NAME", options->name, "The queue's name")->required()->type_name("");
    return command;
  };

  auto* adding = named("add", "Make a queue; the same definition again is fine");
  add_queue_options(*adding, options->queue);
  add_example(*adding,
              "Example:\n"
              "  once queue add billing --topic 'orders.>' --key '{order.id}' --timeout 5m\n"
              "  once queue add audit --topic '>' --from now");
  adding->callback([&session, options] {
    session.command = [&session, options] { return add(session, *options); };
  });

  auto* listing = app->add_subcommand("list", "List the queues");
  add_example(*listing, "Example:\n  once queue list");
  listing->callback([&session] { session.command = [&session] { return list(session); }; });

  auto* showing = named("show", "Show a queue's definition");
  add_example(*showing, "Example:\n  once queue show billing");
  showing->callback([&session, options] {
    session.command = [&session, options] { return show(session, options->name); };
  });

  auto* removing = named("remove", "Remove a queue; its tasks stay in the log");
  removing->add_flag("--force", options->force, "Even with tasks that are not settled");
  add_example(*removing, "Example:\n  once queue remove billing --force");
  removing->callback([&session, options] {
    session.command = [&session, options] { return remove(session, *options); };
  });
  for (CLI::App* command : app->get_subcommands({})) command->group("Commands");
}

}  // namespace once::cli
