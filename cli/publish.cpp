// once publish TOPIC [BODY], once publish --batch FILE|-
#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "cli/batch.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/json_line.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/values.h"

namespace once::cli {
namespace {

struct Options {
  std::optional<std::string> topic{};
  std::optional<std::string> body{};
  std::optional<std::string> id{};
  std::optional<std::string> id_from{};
  bool unique = false;
  std::vector<std::string> headers{};
  bool raw = false;
  std::optional<std::string> batch{};
};

// A random UUID (version 4).
Result<std::string> random_id() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return Error{.code = Code::failed,
                 .message = fmt::format("no random id to be had: {}; nothing was published",
                                        std::strerror(errno))};
  }
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);
  std::string id;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) id += '-';
    id += fmt::format("{:02x}", bytes[i]);
  }
  return id;
}

Result<Body> body_from(const Options& options) {
  std::string text;
  if (!options.body) {
    if (!options.raw) return Body{};
  } else if (*options.body == "-" || options.body->starts_with('@')) {
    auto read = read_all(*options.body == "-" ? "-" : options.body->substr(1));
    if (!read) return read.error();
    text = std::move(*read);
  } else {
    text = *options.body;
  }
  if (options.raw) return Body::bytes(std::move(text));
  auto body = Body::json(text);
  if (body || body.error().code != Code::invalid_input) return body;
  Error error = body.error();
  error.message += "; nothing was published (--raw publishes bytes as they are)";
  return error;
}

Result<void> add_headers(const std::vector<std::string>& headers, Task& task) {
  for (const std::string& header : headers) {
    const std::size_t equals = header.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Error{.code = Code::invalid_input,
                   .message = fmt::format("--header takes NAME=VALUE, not \"{}\"", header)};
    }
    const std::string name = header.substr(0, equals);
    if (!task.headers.emplace(name, header.substr(equals + 1)).second) {
      return Error{.code = Code::invalid_input,
                   .message = fmt::format("--header {} is given twice", name)};
    }
  }
  return {};
}

Result<Task> task_from(const Options& options) {
  Task task{.topic = *options.topic};
  auto body = body_from(options);
  if (!body) return body.error();
  task.body = std::move(*body);
  if (auto done = add_headers(options.headers, task); !done) return done.error();
  if (options.id) {
    if (options.id->empty()) {
      return Error{.code = Code::invalid_input,
                   .message = "--id is empty; leave it out to have the id made from the content"};
    }
    task.id = *options.id;
  } else if (options.id_from) {
    auto id = key_from(*options.id_from, task);
    if (!id) {
      Error error = id.error();
      error.message = "--id-from: " + error.message + "; nothing was published";
      return error;
    }
    task.id = std::move(*id);
  } else if (options.unique) {
    auto id = random_id();
    if (!id) return id.error();
    task.id = std::move(*id);
  }
  return task;
}

std::string for_people(const Receipt& receipt, bool id_from_content) {
  if (!receipt.duplicate) {
    return fmt::format("published {} as #{}", printable(receipt.id), receipt.sequence);
  }
  if (id_from_content) {
    return fmt::format("same content as #{}; --unique runs it again", receipt.sequence);
  }
  return fmt::format("duplicate of #{}: {} is in the log with this content", receipt.sequence,
                     printable(receipt.id));
}

int publish_one(Session& session, const Options& options) {
  auto task = task_from(options);
  if (!task) return session.fail(task.error());
  const bool id_from_content = task->id.empty();
  auto zone = session.open(Missing::create);
  if (!zone) return session.fail(zone.error());
  auto receipt = zone->publish(std::move(*task));
  if (!receipt) return session.fail(receipt.error());
  if (session.json) {
    session.out.line(JsonLine{}
                         .text("id", receipt->id)
                         .number("sequence", receipt->sequence)
                         .boolean("duplicate", receipt->duplicate)
                         .text("digest", receipt->digest)
                         .str());
  } else {
    session.out.line(for_people(*receipt, id_from_content));
  }
  if (receipt->unrouted) {
    session.hint(fmt::format(
        "no queue takes topic {0} yet; the task is kept (once queue add NAME --topic {0})",
        *options.topic));
  }
  return kDone;
}

int publish(Session& session, const Options& options) {
  if (!options.batch) {
    if (!options.topic) return session.usage("publish needs a TOPIC; see once publish --help");
    if ((options.id ? 1 : 0) + (options.id_from ? 1 : 0) + (options.unique ? 1 : 0) > 1) {
      return session.usage("publish takes one of --id, --id-from and --unique");
    }
    return publish_one(session, options);
  }
  if (options.topic || options.id || options.id_from || options.unique || options.raw ||
      !options.headers.empty()) {
    return session.usage(
        "publish --batch takes topic, id, headers and raw bodies from its lines, not from the "
        "command line");
  }
  return publish_batch(session, *options.batch);
}

}  // namespace

void add_publish(CLI::App& root, Session& session) {
  auto* app = root.add_subcommand("publish", "Append a task to the log, once");
  auto options = std::make_shared<Options>();
  add_text(*app, "TOPIC", options->topic, "", "Dotted name, such as orders.new");
  add_text(*app, "BODY", options->body, "",
           "JSON text, @FILE, or - for standard input; none: null");
  add_text(*app, "--id", options->id, "ID", "The task's id; none: made from the content");
  add_text(*app, "--id-from", options->id_from, "TEMPLATE",
           "Make the id from the content, such as {order.id}:{$topic}");
  app->add_flag("--unique", options->unique, "A random id: never a duplicate");
  add_texts(*app, "--header", options->headers, "K=V", "A header; may be given again");
  app->add_flag("--raw", options->raw, "The body is bytes, not JSON");
  add_text(*app, "--batch", options->batch, "FILE",
           "Publish lines {\"id\",\"topic\",\"body\" or \"raw\",\"headers\"} from FILE or -;\n"
           "one JSON answer per line");
  add_example(*app,
              "Example:\n"
              "  once publish orders.new '{\"order\":17,\"amount\":5}' --id order-17\n"
              "  once publish orders.new @order.json --id-from '{order}'\n"
              "  once publish --batch - < orders.ndjson");
  app->callback([&session, options] {
    session.command = [&session, options] { return publish(session, *options); };
  });
}

}  // namespace once::cli
