#include "exec/step_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "core/names.h"
#include "core/record.h"
#include "core/utf8.h"

namespace once::engine {

using step::Channel;
using step::Message;
using Kind = Message::Kind;

namespace {

constexpr std::size_t kMostAtOnce = 256;  // steps of one program

Message say(Kind kind, std::string why = {}) {
  Message message{.kind = kind};
  message.bytes = std::move(why);
  return message;
}

bool is_same_user(int socket) {
  ucred other{};
  socklen_t size = sizeof other;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 &&
         other.uid == ::geteuid();
}

}  // namespace

// One step, from its begin to its end or to the end of its client.
class StepServer::Conversation {
 public:
  Conversation(StepServer& server, Channel channel)
      : server_(server), steps_(*server.task_attempt_.steps), channel_(std::move(channel)) {}
  ~Conversation() {
    if (name_.empty()) return;
    const std::lock_guard lock(server_.mutex_);
    server_.names_.erase(name_);
  }

  void run() {
    while (auto message = channel_.receive()) {
      const Message reply = answer(*message);
      const bool heard = channel_.send(reply);
      // Nobody was told to run it, so that nothing can have happened. Unrecorded it is in doubt.
      if (!heard && reply.kind == Kind::run)
        static_cast<void>(
            steps_.fail(name_, "it was not started: the process that asked for it ended"));
      if (!heard || (reply.kind != Kind::run && reply.kind != Kind::ask)) return;
      at_ = reply.kind;
    }
  }

 private:
  Message answer(Message& message) {
    if (message.version != step::kVersion)
      return say(Kind::refused,
                 "this `once` and the worker's are of different versions; nothing was run; use the "
                 "one that $ONCE_BIN names");
    switch (message.kind) {
      case Kind::begin:
        if (at_ == Kind::none) return take_name(message);
        break;
      case Kind::asked:
        if (at_ == Kind::ask) return begin(true);
        break;
      case Kind::end:
        if (at_ != Kind::none) return end(message);
        break;
      case Kind::fail:
        if (at_ == Kind::run) return said(steps_.fail(name_, message.bytes));
        break;
      case Kind::hold:
        if (at_ == Kind::ask) return hold(message);
        break;
      default: break;
    }
    return say(Kind::refused, "the worker was asked something out of turn; nothing was recorded");
  }

  Message take_name(const Message& message) {
    if (auto sound = core::check_step_name(message.name); !sound)
      return say(Kind::refused, sound.error().message);
    {
      const std::lock_guard lock(server_.mutex_);
      if (!server_.names_.insert(message.name).second)
        return say(Kind::refused, "the step '" + message.name +
                                      "' is running in this attempt already; nothing was run; "
                                      "give each step a name of its own");
    }
    name_ = message.name;
    policy_ = message.policy;
    return begin(false);
  }

  Message begin(bool asked) {
    if (server_.stopping_) return program_ended();
    auto begun = steps_.begin(name_, policy_, asked);
    Message reply;
    reply.key = idempotency_key(server_.task_attempt_, name_);
    switch (begun.kind) {
      case Steps::BeginResult::Kind::run:
      case Steps::BeginResult::Kind::ask:
        reply.kind = begun.kind == Steps::BeginResult::Kind::run ? Kind::run : Kind::ask;
        reply.limit = server_.task_attempt_.max_result;
        break;
      case Steps::BeginResult::Kind::remembered:
        reply.kind = Kind::remembered;
        reply.cut = begun.result_cut;
        if (!reply.cut) reply.bytes = begun.result.text();
        break;
      case Steps::BeginResult::Kind::over:
      case Steps::BeginResult::Kind::refused:
        reply.kind = begun.kind == Steps::BeginResult::Kind::over ? Kind::over : Kind::refused;
        reply.bytes = begun.error ? begun.error->message : "the worker does not say why";
        break;
    }
    return reply;
  }

  Message end(Message& message) {
    const std::uint64_t sent = message.bytes.size();
    return said(steps_.end(name_, Body::bytes(std::move(message.bytes)),
                           message.cut ? sent + 1 : message.oversize));
  }

  Message hold(const Message& message) {
    if (server_.stopping_) return program_ended();
    std::string why = core::excerpt(message.bytes, core::kErrorKept);
    if (!core::valid_utf8(why)) why = "its probe did not answer";
    return say(Kind::over, steps_.hold(name_, std::move(why)).message);
  }

  static Message said(const Result<void>& recorded) {
    return recorded ? say(Kind::done) : say(Kind::over, recorded.error().message);
  }

  static Message program_ended() {
    return say(Kind::over, "the program has ended, and its steps with it");
  }

  StepServer& server_;
  Steps& steps_;
  Channel channel_;
  std::string name_{};
  std::optional<InDoubt> policy_{};
  Kind at_ = Kind::none;  // what the client was last told: run, ask or nothing yet
};

Result<void> StepServer::open(const std::string& path) {
  if (task_attempt_.steps == nullptr) return {};
  stop_ = store::FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (stop_) listening_ = step::listen_at(path);
  if (listening_) return {};
  return Error{Code::failed,
               "cannot make the socket " + path + ": " + std::strerror(errno) +
                   "; the program was not started; set TMPDIR to a folder in which sockets can "
                   "be made, then start the worker again",
               true};
}

void StepServer::accept() {
  store::FileDescriptor socket(
      ::accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket) {
    // A shortage of descriptors leaves the connection where it was: no reason to spin.
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) ::poll(nullptr, 0, 1);
    return;
  }
  if (!is_same_user(socket.get())) return;
  // An older `once step` sends up to a MiB, whatever the limit is.
  Channel channel(std::move(socket), std::max(task_attempt_.max_result, step::kOldLimit),
                  stop_.get());
  if (is_full()) {
    channel.send(say(Kind::refused, "more than " + std::to_string(kMostAtOnce) +
                                        " steps of one program at once; nothing was run"));
    return;
  }
  Connection& connection = connections_.emplace_back();
  try {
    connection.thread = std::jthread([this, &connection, channel = std::move(channel)]() mutable {
      Conversation(*this, std::move(channel)).run();
      connection.ended = true;
    });
  } catch (const std::system_error&) {
    connections_.pop_back();  // no thread to be had: the client sees that nobody answers
  }
}

bool StepServer::is_full() {
  connections_.remove_if([](const Connection& connection) { return connection.ended.load(); });
  return connections_.size() >= kMostAtOnce;
}

void StepServer::finish() {
  listening_.reset();
  stopping_ = true;
  if (stop_) ::eventfd_write(stop_.get(), 1);
  connections_.clear();
}

}  // namespace once::engine
