#include "store/nats/request_mux.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

#include "json/json.h"
#include "store/nats/login.h"

namespace once::store::nats {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kWindow = 1024;      // questions under way at a time
constexpr int kBuffer = 256 << 10;         // bytes that are read at once
constexpr Duration kReconnectWait{2'000};  // how long a question waits for a server that is away
constexpr Duration kConnectWait{5'000};
constexpr Duration kWriteWait{5'000};
constexpr int kPingsOut = 2;
constexpr std::int64_t kFirstReconnect = 100;  // ms; later ones wait longer
constexpr std::int64_t kLastReconnect = 2'000;

// Without what stands before an @: that is nobody's to read.
std::string bare(std::string_view url) {
  const std::size_t scheme = url.find("://");
  const std::size_t begin = scheme == std::string_view::npos ? 0 : scheme + 3;
  const std::size_t at = url.rfind('@');
  if (at == std::string_view::npos || at < begin) return std::string(url);
  return std::string(url.substr(0, begin)) + std::string(url.substr(at + 1));
}

// "nats://nats-1:4222, nats://nats-2:4222": each server that is tried.
std::string tried(const Servers& address) {
  std::string text;
  for (const std::string& server : address.servers)
    text += (text.empty() ? "" : ", ") + bare(server);
  return text;
}

Error unreachable(natsStatus status, const std::string& where) {
  return {.code = Code::store_unavailable,
          .message = "the NATS server at " + where + " cannot be reached (" +
                     natsStatus_GetText(status) +
                     "); nothing was done: is it running, and is the address right?",
          .retryable = true};
}

Error not_connected(natsStatus status, const std::string& where) {
  const char* text = nats_GetLastError(nullptr);
  std::string why = text && *text ? text : natsStatus_GetText(status);
  if (const std::size_t place = why.find("): "); why.starts_with('(') && place != why.npos)
    why.erase(0, place + 3);  // in the source of nats.c
  if (status == NATS_CONNECTION_AUTH_FAILED || status == NATS_NOT_PERMITTED)
    return {.code = Code::store_unusable,
            .message = "the NATS server at " + where + " refused the login (" + why +
                       "); nothing was done: check the user and password, token, creds or nkey"};
  if (status == NATS_SECURE_CONNECTION_WANTED)
    return {.code = Code::store_unusable,
            .message =
                "the NATS server at " + where +
                " speaks no TLS, and nothing is said to it without; nothing was done: set TLS up "
                "there, or use nats:// without TLS files"};
  if (status == NATS_SSL_ERROR)
    return {.code = Code::store_unusable,
            .message = "there is no TLS with the NATS server at " + where + " (" + why +
                       "); nothing was done: check tls-ca, tls-cert and the host's name"};
  return unreachable(status, where);
}

}  // namespace

Error not_permitted(const std::string& denied) {
  return {.code = Code::store_unusable,
          .message = "the NATS server refuses this (" + denied +
                     "); nothing was done: docs/nats-permissions.md says what each role needs"};
}

void Bell::ring() {
  {
    const std::lock_guard lock(mutex_);
    ++rings_;
  }
  rung_.notify_all();
}

std::uint64_t Bell::rings() const {
  const std::lock_guard lock(mutex_);
  return rings_;
}

void Bell::wait_until(std::uint64_t seen, steady_clock::time_point until,
                      const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  rung_.wait_until(lock, stop, until, [&] { return rings_ != seen; });
}

// A subscription whose callback is known to be over when it is destroyed.
class RequestMux::Subscription final : public RequestMux::Listener {
 public:
  using Heard = std::function<void(Message)>;
  static Result<std::unique_ptr<Subscription>> open(natsConnection* connection,
                                                    const std::string& where,
                                                    const std::string& subject, Heard heard) {
    auto made = std::unique_ptr<Subscription>(new Subscription(std::move(heard)));
    natsSubscription* raw = nullptr;
    natsStatus status =
        natsConnection_Subscribe(&raw, connection, subject.c_str(), &on_message, made.get());
    if (status != NATS_OK) return unreachable(status, where);
    made->handle_.reset(raw);
    status = natsSubscription_SetPendingLimits(raw, -1, -1);
    if (status == NATS_OK) status = natsSubscription_SetOnCompleteCB(raw, &on_complete, made.get());
    if (status != NATS_OK) return unreachable(status, where);
    made->completes_ = true;
    return made;
  }
  ~Subscription() override {
    if (!handle_) return;
    static_cast<void>(natsSubscription_Unsubscribe(handle_.get()));
    handle_.reset();
    if (!completes_) return;
    std::unique_lock lock(mutex_);
    over_.wait(lock, [&] { return done_; });
  }

 private:
  explicit Subscription(Heard heard) : heard_(std::move(heard)) {}
  static void on_message(natsConnection*, natsSubscription*, natsMsg* raw, void* self) {
    static_cast<Subscription*>(self)->heard_(Message(MessageHandle(raw)));
  }
  static void on_complete(void* self) {
    auto* subscription = static_cast<Subscription*>(self);
    const std::lock_guard lock(subscription->mutex_);
    subscription->done_ = true;
    subscription->over_.notify_all();  // under the lock: the object may be gone right after
  }

  Heard heard_;
  SubscriptionHandle handle_;
  bool completes_ = false;
  std::mutex mutex_;
  std::condition_variable over_;
  bool done_ = false;
};

Result<std::unique_ptr<RequestMux>> RequestMux::open(const Servers& address) {
  auto made = std::unique_ptr<RequestMux>(new RequestMux);
  made->log_ = address.log;
  natsOptions* raw_options = nullptr;
  if (const auto status = natsOptions_Create(&raw_options); status != NATS_OK)
    return unreachable(status, tried(address));
  const OptionsHandle options(raw_options);
  const auto on_disconnected = [](natsConnection*, void* self) {
    static_cast<RequestMux*>(self)->connection_lost();
  };
  const auto on_reconnected = [](natsConnection*, void* self) {
    static_cast<RequestMux*>(self)->connection_back();
  };
  const auto reconnect_delay = [](natsConnection*, int attempts, void*) {
    return std::min(kFirstReconnect * std::max(attempts, 1), kLastReconnect);
  };
  const auto on_closed = [](natsConnection* connection, void* self) {
    auto* exchange = static_cast<RequestMux*>(self);
    const char* why = nullptr;
    static_cast<void>(natsConnection_GetLastError(connection, &why));
    const std::lock_guard lock(exchange->mutex_);
    exchange->closed_ = true;
    exchange->closed_why_ = why && *why ? why : "the connection is closed";
    exchange->changed_.notify_all();
  };
  // Without a handler of ours nats.c would print these.
  const auto on_error = [](natsConnection*, natsSubscription*, natsStatus status, void* self) {
    const char* text = nats_GetLastError(nullptr);
    if (status == NATS_NOT_PERMITTED && text) static_cast<RequestMux*>(self)->heard_violation(text);
  };
  made->where_ = tried(address);
  std::vector<const char*> servers;
  for (const std::string& server : address.servers) servers.push_back(server.c_str());
  natsStatus status =
      natsOptions_SetServers(raw_options, servers.data(), static_cast<int>(servers.size()));
  const auto set = [&](natsStatus done) {
    if (status == NATS_OK) status = done;
  };
  set(natsOptions_SetTimeout(raw_options, kConnectWait.count()));
  set(natsOptions_SetMaxReconnect(raw_options, -1));
  set(natsOptions_SetCustomReconnectDelay(raw_options, reconnect_delay, nullptr));
  set(natsOptions_SetPingInterval(raw_options, address.ping_every.count()));
  set(natsOptions_SetMaxPingsOut(raw_options, kPingsOut));
  set(natsOptions_SetReconnectBufSize(raw_options, 0));
  set(natsOptions_SetFailRequestsOnDisconnect(raw_options, true));
  set(natsOptions_SetSendAsap(raw_options, true));
  set(natsOptions_UseGlobalMessageDelivery(raw_options, true));  // no thread per subscription
  set(natsOptions_SetWriteDeadline(raw_options, kWriteWait.count()));
  set(natsOptions_SetDisconnectedCB(raw_options, on_disconnected, made.get()));
  set(natsOptions_SetReconnectedCB(raw_options, on_reconnected, made.get()));
  set(natsOptions_SetClosedCB(raw_options, on_closed, made.get()));
  set(natsOptions_SetErrorHandler(raw_options, on_error, made.get()));
  set(natsOptions_SetIOBufSize(raw_options, kBuffer));
  if (status != NATS_OK)
    return Error{.code = Code::invalid_input,
                 .message = "the NATS address " + made->where_ +
                            " cannot be used: " + natsStatus_GetText(status)};
  const bool tls = std::any_of(address.servers.begin(), address.servers.end(),
                               [](const auto& server) { return server.starts_with("tls://"); });
  if (auto applied = apply(address.login, tls, raw_options); !applied) return applied.error();
  const auto prefix = inbox_of(address.login);
  if (!prefix) return prefix.error();
  natsConnection* raw = nullptr;
  if (status = natsConnection_Connect(&raw, raw_options); status != NATS_OK) {
    made->closed_ = true;
    return not_connected(status, made->where_);
  }
  made->connection_.reset(raw);
  made->server_ = made->connected_to();

  natsInbox* inbox = nullptr;
  if (status = natsInbox_Create(&inbox); status != NATS_OK)
    return unreachable(status, made->where_);
  const std::string_view unique = inbox;
  made->inbox_ = *prefix + std::string(unique.substr(unique.rfind('.')));
  natsInbox_Destroy(inbox);
  auto subscribed = Subscription::open(raw, made->where_, made->inbox_ + ".*",
                                       [self = made.get()](Message message) {
                                         const std::lock_guard lock(self->mutex_);
                                         self->receive(std::move(message));
                                       });
  if (!subscribed) return subscribed.error();
  made->inbox_subscription_ = std::move(*subscribed);
  // A server that does not permit it says so before it answers this.
  const char* violation = nullptr;
  if (status = natsConnection_FlushTimeout(raw, kConnectWait.count()); status != NATS_OK)
    return not_connected(status, made->where_);
  if (natsConnection_GetLastError(raw, &violation) == NATS_NOT_PERMITTED)
    return not_permitted(violation);
  return made;
}

RequestMux::~RequestMux() {
  inbox_subscription_.reset();
  {
    // Callbacks go through the list until the connection is closed; who waits for them must not hold
    // what they need.
    std::list<PullInbox> ending;
    {
      const std::lock_guard lock(mutex_);
      ending.swap(pull_inboxes_);
    }
  }
  if (!connection_) return;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  natsConnection_Close(connection_.get());
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_; });
  lock.unlock();
  connection_.reset();
}

std::size_t RequestMux::max_payload() const {
  return static_cast<std::size_t>(natsConnection_GetMaxPayload(connection_.get()));
}

bool RequestMux::send(const Outgoing& message, const std::string& reply, Use use) {
  if (!(use == Use::examining ? may_examine_ : may_ask_)) return false;
  natsMsg* raw = nullptr;
  if (natsMsg_Create(&raw, message.subject.c_str(), reply.empty() ? nullptr : reply.c_str(),
                     message.data.data(), static_cast<int>(message.data.size())) != NATS_OK)
    return false;
  const MessageHandle handle(raw);
  for (const auto& [name, value] : message.headers)
    if (natsMsgHeader_Set(raw, name.c_str(), value.c_str()) != NATS_OK) return false;
  return natsConnection_PublishMsg(connection_.get(), raw) == NATS_OK;
}

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

void RequestMux::guard(std::function<void()> look) {
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

std::string RequestMux::connected_to() const {
  std::array<char, 1024> url{};
  if (natsConnection_GetConnectedUrl(connection_.get(), url.data(), url.size()) != NATS_OK)
    return {};
  return bare(url.data());
}

void RequestMux::connection_lost() {
  std::vector<std::shared_ptr<Bell>> bells;
  std::string line;
  {
    const std::lock_guard lock(mutex_);
    connected_ = false;
    note_may_send();
    lost_at_ = steady_clock::now();
    if (log_ && !closing_) line = "connection to " + server_ + " lost; trying again";
    for (const auto& [first, burst] : bursts_)
      for (std::size_t i = 0; i < burst->sent; ++i)
        if (!burst->ended[i]) burst->end(i);
    for (PullInbox& inbox : pull_inboxes_) {
      if (!inbox.slot) continue;
      inbox.slot->ended = inbox.slot->lost = true;
      if (inbox.slot->bell) bells.push_back(inbox.slot->bell);
      inbox.slot.reset();
    }
  }
  for (const auto& bell : bells) bell->ring();
  if (!line.empty()) log_(line);
}

void RequestMux::connection_back() {
  const std::string server = connected_to();
  std::string line;
  {
    const std::lock_guard lock(mutex_);
    connected_ = true;
    ++connections_;
    if (look_)
      look_();
    else
      admitted_ = connections_;
    if (!server.empty()) server_ = server;
    const auto away = std::chrono::round<std::chrono::seconds>(steady_clock::now() - lost_at_);
    if (log_)
      line = "connected again to " + server_ + " after " + std::to_string(away.count()) + " s";
    note_may_send();
  }
  if (!line.empty()) log_(line);
}

void RequestMux::end_denied(Slot& slot, std::string_view text,
                            std::vector<std::shared_ptr<Bell>>& bells) {
  slot.ended = true;
  slot.denied = text;
  if (slot.bell) bells.push_back(slot.bell);
}

// On a thread of nats.c, which cuts a long text: its subject may be the beginning of one of ours.
// When several questions went to that subject, which of them the server means is not said: they all
// end, and as permissions may change in between, each is lost rather than known not to have happened.
void RequestMux::heard_violation(std::string_view text) {
  const std::size_t quote = text.find('"');
  if (quote == std::string_view::npos) return;
  const std::string_view said = text.substr(quote);
  const auto is_about = [&](const std::string& subject) {
    std::string quoted;
    encoding::append_canonical_string(subject, quoted);
    return quoted.starts_with(said);
  };
  // Without its inbox a question has no answer.
  const bool all = text.find("Subscription") < quote && said.find(inbox_) != std::string_view::npos;
  std::vector<std::shared_ptr<Bell>> bells;
  {
    const std::lock_guard lock(mutex_);
    std::vector<std::pair<Burst*, std::size_t>> meant;
    for (const auto& [first, burst] : bursts_)
      for (std::size_t i = 0; i < burst->sent; ++i)
        if (!burst->ended[i] && (all || is_about(burst->questions[i].subject)))
          meant.emplace_back(burst, i);
    for (PullInbox& inbox : pull_inboxes_) {
      if (!inbox.slot || !(all || is_about(inbox.slot->subject))) continue;
      end_denied(*inbox.slot, text, bells);
      inbox.slot.reset();
    }
    const bool lost = all || meant.size() > 1;
    for (const auto& [burst, i] : meant) {
      burst->answers[i].denied = text;
      if (!lost) burst->answers[i].kind = Answer::Kind::unsent;
      burst->end(i);
    }
  }
  for (const auto& bell : bells) bell->ring();
}

void RequestMux::ring(Rung rung) {
  std::sort(rung.bells.begin(), rung.bells.end());
  rung.bells.erase(std::unique(rung.bells.begin(), rung.bells.end()), rung.bells.end());
  for (const auto& bell : rung.bells) bell->ring();
  // Nobody fetches just now: somebody else may.
  for (std::string& reply : rung.give_back) tell(reply, "-NAK");
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
  if (status == 0 && burst.many) return;  // who waits for a page is woken once
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
    if (i >= kWindow && i % (kWindow / 2) == 0) wait_for(burst, i - kWindow / 2, deadline);
    burst.sent = i + 1;
    if (send(burst.questions[i], inbox + std::to_string(burst.first + i), use)) continue;
    const std::lock_guard lock(mutex_);
    burst.answers[i].kind = Answer::Kind::unsent;
    burst.answers[i].denied = closed_why_;
    if (!burst.ended[i]) burst.end(i);
  }
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
  burst.first = last_slot_ + 1;
  last_slot_ += burst.questions.size();
  bursts_.emplace(burst.first, &burst);
}

std::vector<RequestMux::Answer> RequestMux::end(Burst& burst) {
  const std::lock_guard lock(mutex_);
  bursts_.erase(burst.first);
  return std::move(burst.answers);
}

struct RequestMux::Asked::Question {
  Outgoing question{};
  Duration wait{};
  steady_clock::time_point deadline{};
  Burst burst{};
};

RequestMux::Asked::Asked(RequestMux& exchange, Outgoing question, Duration wait)
    : exchange_(exchange),
      question_(new Question{
          .question = std::move(question), .wait = wait, .deadline = steady_clock::now() + wait}) {
  Burst& burst = question_->burst;
  burst.questions = std::span(&question_->question, 1);
  burst.many = true;
  exchange_.begin(burst);
  exchange_.send_all(burst, question_->deadline, Use::ordinary);
}

RequestMux::Asked::Asked(Asked&&) noexcept = default;

RequestMux::Asked::~Asked() {
  if (question_) exchange_.end(question_->burst);
}

RequestMux::Asked RequestMux::begin_many(Outgoing question, Duration wait) {
  wait_for_connection(steady_clock::now() + std::min(wait, kReconnectWait));
  return {*this, std::move(question), wait};
}

RequestMux::Answer RequestMux::end_many(Asked asked) {
  Burst& burst = asked.question_->burst;
  auto deadline = asked.question_->deadline;
  // A slow line is no reason to give up, as long as something comes.
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

RequestMux::Answer RequestMux::ask(const Outgoing& question, Duration wait) {
  return std::move(ask(std::span(&question, 1), wait).front());
}

RequestMux::Answer RequestMux::ask_many(const Outgoing& question, Duration wait) {
  return end_many(begin_many(question, wait));
}

void RequestMux::tell(const std::string& subject, std::string data) {
  const Outgoing message{.subject = subject, .data = std::move(data)};
  tell(std::span(&message, 1));
}

void RequestMux::tell(std::span<const Outgoing> messages) {
  for (const Outgoing& message : messages) send(message, {});
}

std::pair<RequestMux::PullInbox*, std::shared_ptr<Slot>> RequestMux::free_inbox() {
  PullInbox* inbox = nullptr;
  const auto slot = std::make_shared<Slot>();
  {
    const std::lock_guard lock(mutex_);
    const auto free = std::find_if(pull_inboxes_.begin(), pull_inboxes_.end(),
                                   [](const PullInbox& each) { return !each.slot; });
    if (free != pull_inboxes_.end() && free->subscription) {
      free->slot = slot;
      return {&*free, slot};
    }
    inbox = &pull_inboxes_.emplace_back();
    inbox->subject = inbox_ + ".pull." + std::to_string(++last_slot_);
    inbox->slot = slot;
  }
  auto subscribed = Subscription::open(connection_.get(), where_, inbox->subject + ".*",
                                       [this, inbox](Message message) {
                                         Rung rung;
                                         {
                                           const std::lock_guard lock(mutex_);
                                           receive_pulled(*inbox, std::move(message), rung);
                                         }
                                         ring(std::move(rung));
                                       });
  if (!subscribed) {
    const std::lock_guard lock(mutex_);
    pull_inboxes_.remove_if([&](const PullInbox& each) { return &each == inbox; });
    return {};
  }
  const std::lock_guard lock(mutex_);
  inbox->subscription = std::move(*subscribed);
  return {inbox, slot};
}

std::shared_ptr<Slot> RequestMux::pull(const Outgoing& question, std::size_t wanted,
                                       std::shared_ptr<Bell> bell) {
  const auto [inbox, slot] = free_inbox();
  if (!inbox) return nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (slot->ended) return nullptr;  // the connection broke meanwhile
    slot->sent_at = steady_clock::now();
    slot->subject = question.subject;
    slot->wanted = wanted;
    slot->bell = std::move(bell);
    slot->number = ++last_slot_;
  }
  if (send(question, inbox->subject + "." + std::to_string(slot->number))) return slot;
  const std::lock_guard lock(mutex_);
  if (inbox->slot == slot) inbox->slot.reset();
  return nullptr;
}

void RequestMux::give_up(Slot& slot) {
  const std::lock_guard lock(mutex_);
  slot.ended = true;
  for (PullInbox& inbox : pull_inboxes_)
    if (inbox.slot.get() == &slot) inbox.slot.reset();
}

// With mutex_ held. The server's word names the pull that it is about; a delivery does not.
void RequestMux::receive_pulled(PullInbox& inbox, Message message, Rung& rung) {
  const int status = message.status();
  const std::shared_ptr<Slot> slot = inbox.slot;
  if (status != 0) {
    if (slot && message.subject().ends_with("." + std::to_string(slot->number)))
      end_pull(inbox, status, rung);
    return;
  }
  if (!slot || !slot->bell) {
    rung.give_back.emplace_back(message.reply());
  } else {
    slot->messages.push_back(std::move(message));
    if (rung.bells.empty() || rung.bells.back() != slot->bell) rung.bells.push_back(slot->bell);
  }
  if (slot && --slot->wanted == 0) {
    slot->ended = true;
    inbox.slot.reset();
  }
}

// With mutex_ held.
void RequestMux::end_pull(PullInbox& inbox, int status, Rung& rung) {
  const auto slot = std::exchange(inbox.slot, nullptr);
  if (!slot) return;
  slot->status = status;
  slot->ended = true;
  if (slot->bell) rung.bells.push_back(slot->bell);
}

void RequestMux::attend(Slot& slot, std::shared_ptr<Bell> bell) {
  const std::lock_guard lock(mutex_);
  slot.bell = std::move(bell);
}

bool RequestMux::take(Slot& slot, std::vector<Message>& into) {
  const std::lock_guard lock(mutex_);
  for (Message& message : slot.messages) into.push_back(std::move(message));
  slot.messages.clear();
  return slot.ended;
}

int RequestMux::status_of(const Slot& slot) {
  const std::lock_guard lock(mutex_);
  return slot.status;
}

std::string RequestMux::denied(const Slot& slot) {
  const std::lock_guard lock(mutex_);
  return slot.denied;
}

Result<std::unique_ptr<RequestMux::Listener>> RequestMux::listen(const std::string& subject,
                                                                 std::function<void()> heard) {
  auto made = Subscription::open(connection_.get(), where_, subject,
                                 [heard = std::move(heard)](Message) { heard(); });
  if (!made) return made.error();
  return std::unique_ptr<Listener>(std::move(*made));
}

}  // namespace once::store::nats
