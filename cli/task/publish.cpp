// once publish TOPIC [BODY], once publish --batch FILE|-
#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "cli/app/commands.h"
#include "cli/app/input.h"
#include "cli/app/options.h"
#include "cli/app/session.h"
#include "cli/task/batch.h"
#include "cli/task/wait.h"
#include "shapes/task_json.h"
#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

struct PublishOptions {
  std::optional<std::string> topic{};
  std::optional<std::string> body{};
  std::optional<std::string> id{};
  std::optional<std::string> id_from{};
  bool unique = false;
  std::vector<std::string> headers{};
  bool raw = false;
  std::optional<Duration> delay{};
  std::optional<Time> at{}, expires{};
  std::optional<std::optional<Duration>> wait{};  // --wait, and --wait=D
  std::optional<std::string> batch{};
};

// A random UUID (version 4).
Result<std::string> random_id() {
  std::array<std::uint8_t, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return Error{.code = Code::failed,
                 .message = fmt::format("no random id to be had: {}; nothing was published",
                                        std::strerror(errno))};
  }
  return uuid_from(bytes);
}

Result<Body> body_of(const PublishOptions& options) {
  auto body = body_from(options.body, options.raw);
  if (body || body.error().code != Code::invalid_input) return body;
  Error error = body.error();
  const bool read = error.message.starts_with("JSON refused");
  error.message =
      read ? fmt::format(
                 "BODY is not JSON that can be published: {}; nothing was published. Text is "
                 "JSON in double quotes, --raw publishes bytes as they are",
                 error.message)
           : fmt::format("BODY: {}; nothing was published", error.message);
  return error;
}

Result<void> add_headers(const std::vector<std::string>& headers, Task& task) {
  for (const std::string& header : headers) {
    const std::size_t equals = header.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Error{.code = Code::invalid_input,
                   .message = fmt::format(
                       "--header takes NAME=VALUE, not \"{}\"; nothing was published", header)};
    }
    const std::string name = header.substr(0, equals);
    if (!task.headers.emplace(name, header.substr(equals + 1)).second) {
      return Error{
          .code = Code::invalid_input,
          .message = fmt::format("--header {} is given twice; nothing was published", name)};
    }
  }
  return {};
}

// Makes the id from --id-from. The errors of key_from() speak of a queue's key, so they are
// reworded.
Result<std::string> id_from(const std::string& id_template, const Task& task) {
  auto id = key_from(id_template, task);
  if (id) return id;
  Error error = id.error();
  for (const auto& [from, to] :
       {std::pair{"no key: ", ""}, std::pair{"key template ", "the template "},
        std::pair{", which the queue's key needs", ""},
        std::pair{"the queue's key", "the template"}, std::pair{"the same key", "the same id"}}) {
    const std::size_t at = error.message.find(from);
    if (at != std::string::npos) error.message.replace(at, std::strlen(from), to);
  }
  error.message = fmt::format("--id-from gives no id: {}; nothing was published", error.message);
  return error;
}

Result<Task> task_from(const PublishOptions& options) {
  Task task{.topic = *options.topic};
  auto body = body_of(options);
  if (!body) return body.error();
  task.body = std::move(*body);
  if (auto done = add_headers(options.headers, task); !done) return done.error();
  if (options.id) {
    if (options.id->empty()) {
      return Error{
          .code = Code::invalid_input,
          .message =
              "--id is empty; nothing was published. Leave it out to have the id made from the "
              "content"};
    }
    task.id = *options.id;
  } else if (options.id_from) {
    auto id = id_from(*options.id_from, task);
    if (!id) return id.error();
    task.id = std::move(*id);
  } else if (options.unique) {
    auto id = random_id();
    if (!id) return id.error();
    task.id = std::move(*id);
  }
  task.not_before = options.at;
  if (options.delay) task.not_before = now() + *options.delay;
  task.expires = options.expires;
  return task;
}

std::string for_people(const Receipt& receipt, bool id_from_content,
                       const std::optional<Time>& not_before) {
  if (!receipt.duplicate) {
    return fmt::format("published {} as #{}{}", printable(receipt.id), receipt.sequence,
                       not_before && *not_before > now()
                           ? fmt::format(", not to be run before {}", format_time(*not_before))
                           : "");
  }
  if (id_from_content) {
    return fmt::format("same content as #{}; --unique runs it again", receipt.sequence);
  }
  return fmt::format("duplicate of #{}: {} is in the log with this content", receipt.sequence,
                     printable(receipt.id));
}

int publish_one(Session& session, const PublishOptions& options) {
  auto task = task_from(options);
  if (!task) return session.fail(task.error());
  const bool id_from_content = task->id.empty();
  const std::optional<Time> not_before = task->not_before;
  auto zone = session.open(Missing::create_file);
  if (!zone) return session.fail(zone.error());
  auto receipt = zone->publish(std::move(*task));
  if (!receipt) return session.fail(receipt.error());
  if (session.json) {
    JsonLine line;
    session.out.line(add_receipt(line, *receipt).str());
  } else {
    session.out.line(session.quiet ? printable(receipt->id)
                                   : for_people(*receipt, id_from_content, not_before));
  }
  if (receipt->unrouted) {
    session.hint(fmt::format(
        "no queue takes topic {0} yet; the task is kept (once queue add NAME --topic {0})",
        *options.topic));
  }
  if (!options.wait) return kDone;
  session.out.flush();
  return wait_until_settled(session, std::move(*zone),
                            {.id = receipt->id, .timeout = *options.wait});
}

int publish(Session& session, const PublishOptions& options) {
  if (!options.batch) {
    if (!options.topic) return session.usage("publish needs a TOPIC; see once publish --help");
    if ((options.id ? 1 : 0) + (options.id_from ? 1 : 0) + (options.unique ? 1 : 0) > 1) {
      return session.usage("give one of --id, --id-from and --unique; nothing was published");
    }
    if (options.delay && options.at) {
      return session.usage("give one of --delay and --at; nothing was published");
    }
    return publish_one(session, options);
  }
  if (options.wait) return session.usage("--wait is for one task, not for --batch");
  if (options.topic || options.id || options.id_from || options.unique || options.raw ||
      options.delay || options.at || options.expires || !options.headers.empty()) {
    return session.usage(
        "publish --batch takes topic, id, headers, raw bodies, delay, at and expires from its "
        "lines, not from the command line");
  }
  return publish_batch(session, *options.batch);
}

}  // namespace

void add_publish(CLI::App& root, Session& session) {
  auto* app = add_command(root, "publish", "Append a task to the log, once");
  auto options = std::make_shared<PublishOptions>();
  add_text(*app, "TOPIC", options->topic, "", "Dotted name, such as orders.new");
  add_text(*app, "BODY", options->body, "",
           "JSON text, @FILE, or - for standard input; none: null");
  add_text(*app, "--id", options->id, "ID", "The task's id; none: made from the content");
  add_text(*app, "--id-from", options->id_from, "TEMPLATE",
           "Make the id from the content, such as {order.id}:{$topic}");
  add_flag(*app, "--unique", options->unique, "A random id: never a duplicate");
  add_texts(*app, "--header", options->headers, "K=V", "A header; may be given again");
  add_flag(*app, "--raw", options->raw, "The body is bytes, not JSON");
  add_duration(*app, "--delay", options->delay, "Not to be run before so long from now",
               Duration{0});
  add_time(*app, "--at", options->at, "Not to be run before then");
  add_coming(*app, "--expires", options->expires,
             "Not to be begun after then: cancelled instead; 1h: an hour from now");
  add_optional_duration(*app, "--wait", options->wait,
                        "Wait until it is settled, then as once wait does; --wait=D: at most D");
  add_text(*app, "--batch", options->batch, "FILE",
           "Publish lines {\"id\",\"topic\",\"body\" or \"raw\",\"headers\",\"delay\" or \"at\",\n"
           "\"expires\"} from FILE or -; one JSON answer per line");
  add_example(*app,
              "Example:\n"
              "  once publish orders.new '{\"order\":17,\"amount\":5}' --id order-17\n"
              "  once publish orders.new @order.json --id-from '{order}'\n"
              "  once publish mail.reminder '{\"to\":\"ada\"}' --delay 1h --expires 1d\n"
              "  once publish orders.new @order.json --wait=30s\n"
              "  once publish --batch - < orders.ndjson");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return publish(session, *options); };
  });
}

}  // namespace once::cli
