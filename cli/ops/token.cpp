// once token add|list|remove
#include <fmt/format.h>

#include <memory>

#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/app/session.h"
#include "shapes/json_line.h"
#include "shapes/values.h"
#include "tooling/text.h"
#include "tooling/tokens.h"

namespace once::cli {
namespace {

struct TokenOptions {
  std::string name{};
  std::vector<std::string> roles{}, topics{}, queues{};
  std::optional<Time> expires{};
};

std::vector<std::string> role_names(const AccessToken& token) {
  std::vector<std::string> names;
  for (const AccessRole role : token.roles) names.emplace_back(to_string(role));
  return names;
}

std::string json_texts(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(json_string(text));
  return json_array(quoted);
}

JsonLine& add_token_fields(JsonLine& line, const AccessToken& token) {
  line.text("name", token.name)
      .json("roles", json_texts(role_names(token)))
      .json("topics", json_texts(token.topics))
      .json("queues", json_texts(token.queues))
      .text("created", format_time(token.created));
  return line.text_or_null("expires", token.expires ? format_time(*token.expires) : "");
}

// --- add

Result<AccessToken> token_of(const TokenOptions& options) {
  AccessToken token{.name = options.name,
                    .topics = options.topics,
                    .queues = options.queues,
                    .created = now(),
                    .expires = options.expires};
  std::vector<std::string_view> known;
  for (const AccessRole role : kAccessRoles) known.push_back(to_string(role));
  if (options.roles.empty()) {
    return Error{.code = Code::invalid_input,
                 .message = fmt::format("token add needs --role ({}); nothing was added",
                                        fmt::join(known, ", "))};
  }
  for (const std::string& name : options.roles) {
    const auto role = access_role_from(name);
    if (!role) {
      return Error{.code = Code::invalid_input,
                   .message = fmt::format("--role takes {}, not \"{}\"; nothing was added",
                                          fmt::join(known, ", "), printable(name))};
    }
    token.roles.push_back(*role);
  }
  if (auto ok = check_token(token); !ok) return ok.error();
  return token;
}

int make_token(Session& session, const TokenOptions& options) {
  const auto token = token_of(options);
  if (!token) return session.fail(token.error());
  auto zone = session.open(Missing::create);
  if (!zone) return session.fail(zone.error());
  const auto secret = add_token(*zone, *token);
  if (!secret) return session.fail(secret.error());
  if (session.json) {
    JsonLine line;
    session.out.line(add_token_fields(line, *token).text("token", *secret).str());
    return kDone;
  }
  session.out.line(*secret);
  session.hint(
      fmt::format("this is the token of {}. Keep it secret; the zone has only its hash, and nobody "
                  "can show it again",
                  options.name));
  return kDone;
}

// --- list

std::string filters_text(const std::vector<std::string>& filters, const AccessToken& token) {
  if (!filters.empty()) return fmt::format("{}", fmt::join(filters, " "));
  return token.limited() ? "none" : "all";
}

std::string expiry_text(const AccessToken& token) {
  if (!token.expires) return "never";
  const std::string time = format_time(*token.expires);
  return token.expired(now()) ? time + " (expired)" : time;
}

int list_all_tokens(Session& session) {
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  const auto all = list_tokens(*zone);
  if (!all) return session.fail(all.error());
  Table table({{"TOKEN", Table::Align::left, true},
               {"ROLES"},
               {"TOPICS"},
               {"QUEUES"},
               {"CREATED"},
               {"EXPIRES"}});
  for (const AccessToken& token : all->tokens) {
    if (session.json) {
      JsonLine line;
      add_token_fields(line, token);
      session.out.line(line.boolean("expired", token.expired(now())).str());
    } else if (session.quiet) {
      session.out.line(token.name);
    }
    table.row({token.name, fmt::format("{}", fmt::join(role_names(token), " ")),
               filters_text(token.topics, token), filters_text(token.queues, token),
               format_time(token.created), expiry_text(token)});
  }
  for (const std::string& name : all->unreadable) {
    complain(
        fmt::format("the token {} cannot be read by this version, and no client can use it; "
                    "'once token remove {}' removes it",
                    printable(name), printable(name)));
  }
  if (session.json || session.quiet) return kDone;
  if (table.empty()) {
    session.hint("no tokens yet (once token add NAME --role ROLE)");
  } else {
    session.out.write(table.str(session.style()));
  }
  return kDone;
}

// --- remove

int remove_one_token(Session& session, const std::string& name) {
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  if (auto removed = remove_token(*zone, name); !removed) return session.fail(removed.error());
  if (session.json) {
    session.out.line(JsonLine{}.text("name", name).boolean("removed", true).str());
  } else {
    session.say(fmt::format("the token {} is removed; servers refuse it within a second", name));
  }
  const auto left = list_tokens(*zone);
  if (left && left->empty()) {
    session.hint(
        "the zone has no tokens now: servers on loopback and on Unix sockets answer everybody who "
        "reaches them, other servers answer nobody");
  }
  return kDone;
}

// --- The parser

void add_token_making(CLI::App& group, Session& session) {
  auto* app = add_command(group, "add", "Make a token and print it, once");
  auto options = std::make_shared<TokenOptions>();
  add_needed(*app, "NAME", options->name, "The token's name; it is `who` in the story of a task");
  add_texts(*app, "--role", options->roles, "ROLE",
            "publish, work, read, operate or forward; repeat it for several");
  add_texts(*app, "--topic", options->topics, "FILTER",
            "Limit it to these topics, such as orders.>; may be repeated");
  add_texts(*app, "--queue", options->queues, "FILTER",
            "Limit it to these queues: a name, or the beginning of names and\n"
            "a *, such as mail-*; may be repeated");
  add_coming(*app, "--expires", options->expires,
             "When it ends: a duration such as 90d, or a time");
  add_example(*app,
              "publish: publish tasks and wait for their results. work: run tasks. read: look at\n"
              "everything. operate: all of that, queues, and decisions about tasks. forward is\n"
              "for later. A token with --topic alone may not use queues, and one with --queue\n"
              "alone may not publish. docs/http.md has the whole table.\n"
              "\n"
              "Example:\n"
              "  once token add shop --role publish --topic 'orders.>' --expires 90d\n"
              "  once token add mailer --role work --queue mail\n"
              "  ONCE_TOKEN=$(once token add ada --role operate)");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return make_token(session, *options); };
  });
}

void add_token_listing(CLI::App& group, Session& session) {
  auto* app = add_command(group, "list", "List the tokens, without their secrets");
  add_example(*app, "Example:\n  once token list");
  when_given(*app,
             [&session] { session.command = [&session] { return list_all_tokens(session); }; });
}

void add_token_removing(CLI::App& group, Session& session) {
  auto* app = add_command(group, "remove", "Remove a token; servers refuse it within a second");
  auto name = std::make_shared<std::string>();
  add_needed(*app, "NAME", *name, "The token's name");
  add_example(*app, "Example:\n  once token remove shop");
  when_given(*app, [&session, name] {
    session.command = [&session, name] { return remove_one_token(session, *name); };
  });
}

}  // namespace

void add_token(CLI::App& root, Session& session) {
  auto* app = add_command(root, "token", "Add, list and remove tokens for once serve");
  need_command(*app);
  add_example(*app, "Example:\n  once token add shop --role publish --topic 'orders.>'");
  add_token_making(*app, session);
  add_token_listing(*app, session);
  add_token_removing(*app, session);
  show_commands(*app);
}

}  // namespace once::cli
