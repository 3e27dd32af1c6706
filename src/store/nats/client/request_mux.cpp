#include "store/nats/client/request_mux.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

#include "json/json_string.h"
#include "store/nats/client/login.h"

namespace once::store::nats {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kWindow = 1024;      // questions in progress at the same time
constexpr std::size_t kTogether = 64;      // questions that are written at once
constexpr Duration kReconnectWait{2'000};  // how long a question waits for a server that is away

}  // namespace

Error not_permitted(const std::string& denied) {
  return {.code = Code::store_unusable,
          .message = "the NATS server refuses this (" + denied +
                     "); nothing was done: docs/nats-permissions.md says what each role needs"};
}

Result<std::unique_ptr<RequestMux>> RequestMux::open(const Servers& address) {
  auto made = std::unique_ptr<RequestMux>(new RequestMux);
  RequestMux* self = made.get();
  made->log_ = address.log;
  auto connected = Connection::open(
      address, {.lost = [self](const std::string& server) { self->connection_lost(server); },
                .back = [self](const std::string& server) { self->connection_back(server); },
                .violation = [self](std::string_view text) { self->heard_violation(text); }});
  if (!connected) return connected.error();
  made->connection_ = std::move(*connected);
  const auto prefix = inbox_of(address.login);
  if (!prefix) return prefix.error();
  if (auto opened = made->open_inbox(*prefix); !opened) return opened.error();
  return made;
}

Result<void> RequestMux::open_inbox(const std::string& prefix) {
  natsInbox* inbox = nullptr;
  if (const natsStatus status = natsInbox_Create(&inbox); status != NATS_OK)
    return unreachable(status, where());
  const std::string_view unique = inbox;
  inbox_ = prefix + std::string(unique.substr(unique.rfind('.')));
  natsInbox_Destroy(inbox);
  auto subscribed = connection_->subscribe(inbox_ + ".*", [this](Message message) {
    connection_->await_read();
    const std::lock_guard lock(mutex_);
    receive(std::move(message));
  });
  if (!subscribed) return subscribed.error();
  inbox_subscription_ = std::move(*subscribed);
  pulls_.open(*connection_, inbox_ + ".pull.");
  return connection_->confirm();  // the server reports a violation before it answers this
}

// The subscriptions end first, because their callbacks use the connection.
RequestMux::~RequestMux() {
  inbox_subscription_.reset();
  pulls_.close();
  connection_.reset();
}

std::size_t RequestMux::max_payload() const { return connection_->max_payload(); }

bool RequestMux::send(const Outgoing& message, const std::string& reply, Use use,
                      std::vector<MessageHandle>* sent) {
  if (!(use == Use::examining ? may_examine_ : may_ask_)) return false;
  return connection_->send(message, reply, sent);
}

void RequestMux::flush() { connection_->flush(); }

void RequestMux::wait_for_connection(steady_clock::time_point until, Use use) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, until, [&] { return may_send(use) || (connected_ && barred_); });
}

bool RequestMux::may_send(Use use) const {
  return connected_ && (use == Use::examining || (admitted_ == connections_ && !barred_));
}

// With mutex_ held, after each change.
void RequestMux::note_may_send() {
  may_ask_ = may_send(Use::ordinary);
  may_examine_ = may_send(Use::examining);
  changed_.notify_all();
}

void RequestMux::set_connection_check(std::function<void()> look) {
  const std::lock_guard lock(mutex_);
  look_ = std::move(look);
  if (!look_) admitted_ = connections_;
  note_may_send();
}

std::uint64_t RequestMux::connection() {
  const std::lock_guard lock(mutex_);
  return connected_ ? connections_ : 0;
}

void RequestMux::admit(std::uint64_t connection, std::optional<Error> why_not) {
  const std::lock_guard lock(mutex_);
  if (connection != connections_) return;
  admitted_ = connection;
  barred_ = std::move(why_not);
  note_may_send();
}

void RequestMux::missed_something() {
  const std::lock_guard lock(mutex_);
  if (look_) look_();
}

std::optional<Error> RequestMux::barred() {
  const std::lock_guard lock(mutex_);
  return connected_ ? barred_ : std::nullopt;
}

void RequestMux::connection_lost(const std::string& server) {
  std::string line;
  {
    const std::lock_guard lock(mutex_);
    connected_ = false;
    note_may_send();
    lost_at_ = steady_clock::now();
    if (log_) line = "connection to " + server + " lost; trying again";
    for (const auto& [first, burst] : bursts_)
      for (std::size_t i = 0; i < burst->sent; ++i)
        if (!burst->ended[i]) burst->end(i);
  }
  pulls_.connection_lost();
  if (!line.empty()) log_(line);
}

void RequestMux::connection_back(const std::string& server) {
  std::string line;
  {
    const std::lock_guard lock(mutex_);
    connected_ = true;
    ++connections_;
    if (look_)
      look_();
    else
      admitted_ = connections_;
    const auto away = std::chrono::round<std::chrono::seconds>(steady_clock::now() - lost_at_);
    if (log_)
      line = "connected again to " + server + " after " + std::to_string(away.count()) + " s";
    note_may_send();
  }
  if (!line.empty()) log_(line);
}

// Runs on the callback thread of nats.c. nats.c truncates a long text, so the subject in it may be
// only the beginning of one of ours. If several questions went to that subject, the server does not
// say which one it means. Then all of them end. Permissions may have changed between them, so the
// outcome of each is unknown.
void RequestMux::heard_violation(std::string_view text) {
  const std::size_t quote = text.find('"');
  if (quote == std::string_view::npos) return;
  const std::string_view said = text.substr(quote);
  // Without permission for the inbox, no question gets a reply.
  const bool all = text.find("Subscription") < quote && said.find(inbox_) != std::string_view::npos;
  const auto is_about = [&](const std::string& subject) {
    return all || encoding::json_string(subject).starts_with(said);
  };
  pulls_.end_denied(is_about, text);
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<Burst*, std::size_t>> meant;
  for (const auto& [first, burst] : bursts_)
    for (std::size_t i = 0; i < burst->sent; ++i)
      if (!burst->ended[i] && is_about(burst->questions[i].subject)) meant.emplace_back(burst, i);
  const bool lost = all || meant.size() > 1;
  for (const auto& [burst, i] : meant) {
    burst->answers[i].denied = text;
    if (!lost) burst->answers[i].kind = Answer::Kind::unsent;
    burst->end(i);
  }
}

// With mutex_ held.
void RequestMux::receive(Message message) {
  const std::string_view subject = message.subject();
  std::uint64_t number = 0;
  std::from_chars(subject.data() + subject.rfind('.') + 1, subject.data() + subject.size(), number);
  auto found = bursts_.upper_bound(number);
  if (found == bursts_.begin()) return;
  Burst& burst = *(--found)->second;
  const std::uint64_t index = number - burst.first;
  if (index >= burst.ended.size() || burst.ended[index]) return;
  Answer& answer = burst.answers[index];
  const int status = message.status();
  if (status != 0)
    answer.status = status;
  else
    answer.messages.push_back(std::move(message));
  if (status == 0 && burst.many) return;  // the status message ends it and wakes its thread
  answer.kind = Answer::Kind::answered;
  burst.end(index);
}

void RequestMux::wait_for(Burst& burst, std::size_t enough, steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  burst.enough = enough;
  burst.woken.wait_until(lock, deadline, [&] { return burst.done >= enough; });
}

void RequestMux::send_all(Burst& burst, steady_clock::time_point deadline, Use use) {
  const std::string inbox = inbox_ + ".";
  for (std::size_t i = 0; i < burst.questions.size(); ++i) {
    if (i > 0 && i % kTogether == 0) flush();
    if (i >= kWindow && i % (kWindow / 2) == 0) wait_for(burst, i - kWindow / 2, deadline);
    burst.sent = i + 1;
    if (send(burst.questions[i], inbox + std::to_string(burst.first + i), use, &burst.messages))
      continue;
    const std::lock_guard lock(mutex_);
    burst.answers[i].kind = Answer::Kind::unsent;
    burst.answers[i].denied = connection_->refused();
    if (!burst.ended[i]) burst.end(i);
  }
  flush();
}

std::vector<RequestMux::Answer> RequestMux::ask(std::span<const Outgoing> before,
                                                std::span<const Outgoing> questions, Duration wait,
                                                Use use) {
  if (questions.empty()) return {};
  const auto deadline = steady_clock::now() + wait;
  wait_for_connection(steady_clock::now() + std::min(wait, kReconnectWait), use);
  for (const Outgoing& message : before) {
    if (send(message, {}, use)) continue;
    std::vector<Answer> unsent(questions.size());
    for (Answer& answer : unsent) answer.kind = Answer::Kind::unsent;
    return unsent;
  }
  Burst burst{.questions = questions};
  begin(burst);
  send_all(burst, deadline, use);
  wait_for(burst, questions.size(), deadline);
  return end(burst);
}

void RequestMux::begin(Burst& burst) {
  burst.answers = std::vector<Answer>(burst.questions.size());
  burst.ended = std::vector<bool>(burst.questions.size());
  const std::lock_guard lock(mutex_);
  burst.first = last_question_ + 1;
  last_question_ += burst.questions.size();
  bursts_.emplace(burst.first, &burst);
}

std::vector<RequestMux::Answer> RequestMux::end(Burst& burst) {
  const std::lock_guard lock(mutex_);
  bursts_.erase(burst.first);
  return std::move(burst.answers);
}

struct RequestMux::PendingQuestion::Question {
  Outgoing question{};
  Duration wait{};
  steady_clock::time_point deadline{};
  Burst burst{};
};

RequestMux::PendingQuestion::PendingQuestion(RequestMux& mux, Outgoing question, Duration wait)
    : mux_(mux),
      question_(new Question{
          .question = std::move(question), .wait = wait, .deadline = steady_clock::now() + wait}) {
  Burst& burst = question_->burst;
  burst.questions = std::span(&question_->question, 1);
  burst.many = true;
  mux_.begin(burst);
  mux_.send_all(burst, question_->deadline, Use::ordinary);
}

RequestMux::PendingQuestion::PendingQuestion(PendingQuestion&&) noexcept = default;

RequestMux::PendingQuestion::~PendingQuestion() {
  if (question_) mux_.end(question_->burst);
}

RequestMux::PendingQuestion RequestMux::begin_many(Outgoing question, Duration wait) {
  wait_for_connection(steady_clock::now() + std::min(wait, kReconnectWait));
  return {*this, std::move(question), wait};
}

RequestMux::Answer RequestMux::end_many(PendingQuestion asked) {
  Burst& burst = asked.question_->burst;
  auto deadline = asked.question_->deadline;
  // On a slow line, the deadline moves on as long as messages arrive.
  for (std::size_t came = 0;;) {
    wait_for(burst, 1, deadline);
    const std::lock_guard lock(mutex_);
    const std::size_t there = burst.answers.front().messages.size();
    if (burst.done > 0 || there == came) break;
    came = there;
    deadline = steady_clock::now() + asked.question_->wait;
  }
  return std::move(end(burst).front());
}

std::vector<RequestMux::Answer> RequestMux::ask(std::span<const Outgoing> questions, Duration wait,
                                                Use use) {
  return ask({}, questions, wait, use);
}

void RequestMux::tell(const std::string& subject, std::string data) {
  const Outgoing message{.subject = subject, .data = std::move(data)};
  tell(std::span(&message, 1));
}

void RequestMux::tell(std::span<const Outgoing> messages) {
  for (const Outgoing& message : messages) send(message, {});
  flush();
}

Result<std::unique_ptr<Subscription>> RequestMux::listen(const std::string& subject,
                                                         std::function<void()> heard) {
  return connection_->subscribe(subject, [heard = std::move(heard)](Message) { heard(); });
}

}  // namespace once::store::nats
