// once queue add|set|list|show|pause|resume|remove
#include <fmt/format.h>

#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/app/session.h"
#include "cli/queue/queue_options.h"
#include "shapes/json_line.h"
#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

struct Named {
  std::string name{};
  bool force = false;
  QueueOptions queue{};
};

int add(Session& session, const Named& options) {
  if (!options.queue.delivers() && !options.queue.ledger) {
    return session.usage(
        "queue add needs --topic FILTER, --stream STREAM or --ledger; see once queue add --help");
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
    session.say(fmt::format("queue {} is there already, with this definition", options.name));
  } else if (added->queue.ledger) {
    session.say(fmt::format("queue {0} is a ledger-only queue (once claim {0} KEY)", options.name));
  } else {
    session.say(fmt::format("queue {} takes {}: {} found in {}", options.name, added->queue.topic,
                            counted(added->found, "task"), source_text(added->queue)));
  }
  return kDone;
}

int list_queues(Session& session) {
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  auto queues = zone->queues().list();
  if (!queues) return session.fail(queues.error());
  Table table({{"QUEUE", Table::Align::left, true},
               {"TOPIC"},
               {"KEY"},
               {"LEASE"},
               {"ATTEMPTS", Table::Align::right},
               {"BACKOFF"},
               {"IN DOUBT"}});
  for (const Queue& queue : *queues) {
    if (session.json) {
      JsonLine line;
      session.out.line(add_fields(line, queue).str());
    }
    table.row({queue.paused ? queue.name + " (paused)" : queue.name, topic_text(queue),
               queue.key.empty() ? std::string("id") : printable(queue.key),
               format_duration(queue.lease), fmt::format("{}", effective_attempts(queue)),
               backoff_text(queue), std::string(to_string(queue.in_doubt))});
  }
  if (session.json) return kDone;
  if (session.quiet) {
    for (const Queue& queue : *queues) session.out.line(queue.name);
  } else if (table.empty()) {
    session.hint("no queues yet (once queue add NAME --topic FILTER)");
  } else {
    session.out.write(table.str(session.style()));
  }
  return kDone;
}

int show(Session& session, const std::string& name) {
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  auto queue = existing_queue(*zone, name);
  if (!queue) return session.fail(queue.error());
  if (session.json) {
    JsonLine line;
    session.out.line(add_fields(line, *queue).str());
    return kDone;
  }
  session.out.line(fmt::format("{:<13}{}", "queue", session.style().bold(queue->name)));
  for (const auto& [label, value] : described(*queue)) {
    session.out.line(fmt::format("{:<13}{}", label, value));
  }
  return kDone;
}

// "lease 1m (was 30s), attempts 5 (was 4)"
std::string changes(const Queue& before, const Queue& after) {
  std::string out;
  for (const QueueChange& change : differences(before, after)) {
    if (!out.empty()) out += ", ";
    out += fmt::format("{} {} (was {})", change.label, change.after, change.before);
  }
  return out;
}

int set(Session& session, const Named& options) {
  if (const auto fixed = options.queue.any_fixed()) {
    return session.usage(
        fmt::format("{} can't be changed once a queue exists; nothing was changed. Add a queue of "
                    "another name, or first remove this one (once queue remove {})",
                    *fixed, options.name));
  }
  if (!options.queue.any_changeable()) {
    return session.usage("queue set needs something to change; see once queue set --help");
  }
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  Queue before;
  Result<void> applied;
  const auto after = zone->queues().change(options.name, [&](Queue& queue) {
    before = queue;
    applied = apply(options.queue, queue);
  });
  if (!applied) return session.fail(applied.error());
  if (!after) return session.fail(after.error());
  if (session.json) {
    JsonLine line;
    session.out.line(add_fields(line, *after).boolean("changed", !(*after == before)).str());
  } else if (*after == before) {
    session.say(fmt::format("queue {} says so already", after->name));
  } else {
    session.say(fmt::format("queue {}: {}", after->name, changes(before, *after)));
  }
  return kDone;
}

Result<void> pause_one(Zone& zone, const std::string& name, bool paused) {
  auto changed = paused ? zone.queues().pause(name) : zone.queues().resume(name);
  if (!changed) return changed.error();
  return {};
}

int pause(Session& session, const std::vector<std::string>& names, bool paused) {
  const std::string_view verb = paused ? "pause" : "resume";
  if (names.empty()) {
    return session.usage(fmt::format("queue {0} needs a NAME; see once queue {0} --help", verb));
  }
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  int status = kDone;
  for (const std::string& name : names) {
    if (auto done = pause_one(*zone, name, paused); !done) {
      JsonLine about;
      const int failed = session.fail(done.error(), about.text("queue", name));
      if (status == kDone) status = failed;
    } else if (session.json) {
      session.out.line(JsonLine{}.text("queue", name).boolean("paused", paused).str());
    } else {
      session.say(
          paused
              ? fmt::format("queue {} is paused: what runs goes on, nothing new is claimed", name)
              : fmt::format("queue {} is resumed", name));
    }
  }
  return status;
}

int remove(Session& session, const Named& options) {
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  if (auto done = zone->queues().remove(options.name, {.force = options.force}); !done) {
    return session.fail(done.error());
  }
  if (session.json) {
    session.out.line(JsonLine{}.text("queue", options.name).boolean("removed", true).str());
  } else {
    session.say(
        fmt::format("queue {} is removed, and with it what it knew of its tasks. They stay in the "
                    "log: a queue that is added later runs them again, unless it starts --from now",
                    options.name));
  }
  return kDone;
}

CLI::App* add_named(CLI::App& group, const std::string& name, const std::string& help,
                    Named& options) {
  auto* command = add_command(group, name, help);
  add_needed(*command, "NAME", options.name, "The queue's name");
  return command;
}

void add_adding(CLI::App& group, Session& session, const std::shared_ptr<Named>& options) {
  auto* app = add_named(group, "add", "Make a queue; the same definition again is fine", *options);
  add_fixed_options(*app, options->queue);
  add_changeable_options(*app, options->queue);
  add_flag(*app, "--ledger", options->queue.ledger,
           "Without a topic: a ledger-only queue, for once claim");
  add_example(*app,
              "Example:\n"
              "  once queue add billing --topic 'orders.>' --key '{order.id}' --timeout 5m\n"
              "  once queue add audit --topic '>' --from now\n"
              "  once queue add webhooks --ledger\n"
              "  once queue add bills --stream ORDERS --key header:Nats-Msg-Id");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return add(session, *options); };
  });
}

void add_setting(CLI::App& group, Session& session, const std::shared_ptr<Named>& options) {
  auto* app =
      add_named(group, "set", "Change what is given of a queue; its workers follow", *options);
  add_changeable_options(*app, options->queue);
  // Known, to be refused with a reason, and not part of the help.
  add_fixed_options(*app, options->queue);
  add_flag(*app, "--ledger", options->queue.ledger, "");
  for (const char* fixed : {"--topic", "--key", "--from", "--stream", "--ledger"}) {
    hide_option(*app, fixed);
  }
  add_example(*app, "Example:\n  once queue set billing --attempts 10 --backoff 1m,10m");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return set(session, *options); };
  });
}

void add_listing(CLI::App& group, Session& session) {
  auto* app = add_command(group, "list", "List the queues");
  add_example(*app, "Example:\n  once queue list");
  when_given(*app, [&session] { session.command = [&session] { return list_queues(session); }; });
}

void add_showing(CLI::App& group, Session& session, const std::shared_ptr<Named>& options) {
  auto* app = add_named(group, "show", "Show a queue's definition", *options);
  add_example(*app, "Example:\n  once queue show billing");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return show(session, options->name); };
  });
}

void add_pausing(CLI::App& group, Session& session) {
  auto names = std::make_shared<std::vector<std::string>>();
  const auto pausing = [&](const std::string& verb, const std::string& help, bool paused) {
    auto* app = add_command(group, verb, help);
    add_words(*app, "NAME", *names, "The queues' names");
    add_example(*app, fmt::format("Example:\n  once queue {} billing", verb));
    when_given(*app, [&session, names, paused] {
      session.command = [&session, names, paused] { return pause(session, *names, paused); };
    });
  };
  pausing("pause", "Claim nothing more of these queues; what runs goes on", true);
  pausing("resume", "Claim from these queues again", false);
}

void add_removing(CLI::App& group, Session& session, const std::shared_ptr<Named>& options) {
  auto* app = add_named(group, "remove", "Remove a queue; its tasks stay in the log", *options);
  add_flag(*app, "--force", options->force, "Even with tasks that are not settled");
  add_example(*app, "Example:\n  once queue remove billing --force");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return remove(session, *options); };
  });
}

}  // namespace

void add_queue(CLI::App& root, Session& session) {
  auto* app = add_command(root, "queue", "Add, set, list, show, pause, resume and remove queues");
  need_command(*app);
  add_example(*app, "Example:\n  once queue add billing --topic 'orders.>'");
  auto options = std::make_shared<Named>();
  add_adding(*app, session, options);
  add_setting(*app, session, options);
  add_listing(*app, session);
  add_showing(*app, session, options);
  add_pausing(*app, session);
  add_removing(*app, session, options);
  show_commands(*app);
}

}  // namespace once::cli
