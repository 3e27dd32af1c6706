#include "store/nats/client/connection.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "store/nats/client/login.h"
#include "store/nats/client/request_mux.h"

namespace once::store::nats {
namespace {

using std::chrono::milliseconds;

constexpr int kBuffer = 256 << 10;  // bytes that are read at once
constexpr Duration kConnectWait{5'000};
constexpr Duration kWriteWait{5'000};
constexpr int kPingsOut = 2;
constexpr milliseconds kFirstReconnect{100};  // later ones wait longer
constexpr milliseconds kLastReconnect{2'000};

// Returns all servers as one text for messages: "nats://nats-1:4222, nats://nats-2:4222".
std::string tried(const std::vector<std::string>& servers) {
  std::string text;
  for (const std::string& server : servers) text += (text.empty() ? "" : ", ") + bare(server);
  return text;
}

bool is_refusal(natsStatus status) {
  return status == NATS_CONNECTION_AUTH_FAILED || status == NATS_NOT_PERMITTED;
}

std::string why_not(natsStatus status) {
  const char* text = nats_GetLastError(nullptr);
  std::string why = text && *text ? text : natsStatus_GetText(status);
  if (const std::size_t place = why.find("): "); why.starts_with('(') && place != why.npos)
    why.erase(0, place + 3);  // nats.c puts its source line first
  return why;
}

Error not_connected(natsStatus status, const std::string& where) {
  const std::string why = why_not(status);
  if (is_refusal(status))
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

bool uses_tls(const Servers& address) {
  return !address.login.tls_ca.empty() || !address.login.tls_cert.empty() ||
         std::any_of(address.servers.begin(), address.servers.end(),
                     [](const auto& server) { return server.starts_with("tls://"); });
}

natsStatus set_servers(natsOptions* options, const std::vector<std::string>& servers) {
  std::vector<const char*> urls;
  for (const std::string& server : servers) urls.push_back(server.c_str());
  return natsOptions_SetServers(options, urls.data(), static_cast<int>(urls.size()));
}

// nats.c writes the URL into a buffer of the caller.
std::string url_of(natsConnection* connection) {
  std::array<char, 1024> url{};
  if (natsConnection_GetConnectedUrl(connection, url.data(), url.size()) != NATS_OK) return {};
  return bare(url.data());
}

std::vector<std::string> discovered_by(natsConnection* connection) {
  char** servers = nullptr;
  int count = 0;
  if (natsConnection_GetDiscoveredServers(connection, &servers, &count) != NATS_OK) return {};
  std::vector<std::string> found;
  for (int i = 0; i < count; ++i) {
    found.emplace_back(servers[i]);
    std::free(servers[i]);
  }
  std::free(servers);
  return found;
}

}  // namespace

std::string bare(std::string_view url) {
  const std::size_t scheme = url.find("://");
  const std::size_t begin = scheme == std::string_view::npos ? 0 : scheme + 3;
  const std::size_t at = url.rfind('@');
  if (at == std::string_view::npos || at < begin) return std::string(url);
  return std::string(url.substr(0, begin)) + std::string(url.substr(at + 1));
}

natsStatus Connection::set_options(const Servers& address) {
  natsOptions* options = options_.get();
  natsStatus status = set_servers(options, servers_);
  const auto set = [&](natsStatus done) {
    if (status == NATS_OK) status = done;
  };
  set(natsOptions_SetTimeout(options, kConnectWait.count()));
  set(natsOptions_SetAllowReconnect(options, false));
  set(natsOptions_SetPingInterval(options, address.ping_every.count()));
  set(natsOptions_SetMaxPingsOut(options, kPingsOut));
  set(natsOptions_SetFailRequestsOnDisconnect(options, true));
  set(natsOptions_SetSendAsap(options, true));
  set(natsOptions_UseGlobalMessageDelivery(options, true));  // no thread per subscription
  set(natsOptions_SetWriteDeadline(options, kWriteWait.count()));
  set(natsOptions_SetIOBufSize(options, kBuffer));
  set(natsOptions_SetClosedCB(options, &on_closed, this));
  set(natsOptions_SetErrorHandler(options, &on_error, this));  // else nats.c prints errors
  return status;
}

Result<std::unique_ptr<Connection>> Connection::open(const Servers& address, Events events) {
  auto made = std::unique_ptr<Connection>(new Connection(std::move(events)));
  made->servers_ = address.servers;
  made->where_ = tried(address.servers);
  natsOptions* options = nullptr;
  if (const auto status = natsOptions_Create(&options); status != NATS_OK)
    return unreachable(status, made->where_);
  made->options_.reset(options);
  natsStatus status = made->set_options(address);
  const bool tls = uses_tls(address);
  if (!tls) made->loop_ = std::make_unique<SocketLoop>();
  if (made->loop_ && status == NATS_OK) status = made->loop_->serve(options);
  if (status != NATS_OK)
    return Error{.code = Code::invalid_input,
                 .message = "the NATS address " + made->where_ +
                            " cannot be used: " + natsStatus_GetText(status)};
  if (auto applied = apply(address.login, tls, options); !applied) return applied.error();
  if (status = made->connect(); status != NATS_OK) return not_connected(status, made->where_);
  made->thread_ = std::jthread(
      [self = made.get()](const std::stop_token& stop) { self->keep_connected(stop); });
  return made;
}

Connection::~Connection() {
  thread_ = {};  // stops it and waits for it
  if (loop_) {
    loop_->flush();
    loop_->stop();
  }
  if (const Handle connection = current()) natsConnection_Close(connection.get());
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return open_ <= 0; });
}

Connection::Handle Connection::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

// Makes the subscriptions before current_ is set, so before any thread can send.
natsStatus Connection::connect() {
  natsConnection* raw = nullptr;
  const natsStatus status = natsConnection_Connect(&raw, options_.get());
  if (status != NATS_OK) {
    const std::lock_guard lock(mutex_);
    if (is_refusal(status)) refused_ = why_not(status);
    return status;
  }
  const Handle made{ConnectionHandle(raw)};
  const std::lock_guard subscribing(subscribing_);
  {
    const std::lock_guard lock(mutex_);
    ++open_;
  }
  server_ = url_of(raw);
  max_payload_ = static_cast<std::size_t>(natsConnection_GetMaxPayload(raw));
  // A subscription fails only if the connection broke again. Then the next connect() makes it.
  for (Subscription* each : subscriptions_) static_cast<void>(each->attach(raw));
  const std::lock_guard lock(mutex_);
  current_ = made;
  refused_.clear();
  lost_ = natsConnection_IsClosed(raw);  // on_closed() may have run before current_ was set
  return NATS_OK;
}

void Connection::on_closed(natsConnection* connection, void* data) {
  auto* self = static_cast<Connection*>(data);
  const std::lock_guard lock(self->mutex_);
  if (self->current_.get() == connection) self->lost_ = true;
  --self->open_;
  self->changed_.notify_all();  // under the lock: the destructor may run right after it
}

void Connection::on_error(natsConnection*, natsSubscription*, natsStatus status, void* data) {
  const char* text = nats_GetLastError(nullptr);
  if (status == NATS_NOT_PERMITTED && text) static_cast<Connection*>(data)->events_.violation(text);
}

void Connection::keep_connected(const std::stop_token& stop) {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [&] { return lost_; })) return;
    }
    events_.lost(server_);
    give_up_current();
    if (!connect_again(stop)) return;
    events_.back(server_);
  }
}

void Connection::give_up_current() {
  if (loop_) loop_->forget();
  Handle broken;
  const std::lock_guard lock(mutex_);
  broken.swap(current_);
  for (std::string& server : discovered_by(broken.get()))
    if (std::find(servers_.begin(), servers_.end(), server) == servers_.end())
      servers_.push_back(std::move(server));
}

bool Connection::connect_again(const std::stop_token& stop) {
  static_cast<void>(set_servers(options_.get(), servers_));
  for (auto wait = kFirstReconnect; !stop.stop_requested();
       wait = std::min(wait + kFirstReconnect, kLastReconnect)) {
    if (connect() == NATS_OK) return true;
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, stop, wait, [] { return false; });
  }
  return false;
}

bool Connection::send(const Outgoing& message, const std::string& reply,
                      std::vector<MessageHandle>* sent) {
  const Handle connection = current();
  if (!connection) return false;
  const SocketLoop::Sending gathering;
  const int size = static_cast<int>(message.data.size());
  if (message.headers.empty()) {
    const natsStatus status =
        reply.empty() ? natsConnection_Publish(connection.get(), message.subject.c_str(),
                                               message.data.data(), size)
                      : natsConnection_PublishRequest(connection.get(), message.subject.c_str(),
                                                      reply.c_str(), message.data.data(), size);
    return status == NATS_OK;
  }
  natsMsg* raw = nullptr;
  if (natsMsg_Create(&raw, message.subject.c_str(), reply.empty() ? nullptr : reply.c_str(),
                     message.data.data(), size) != NATS_OK)
    return false;
  MessageHandle handle(raw);
  for (const auto& [name, value] : message.headers)
    if (natsMsgHeader_Set(raw, name.c_str(), value.c_str()) != NATS_OK) return false;
  const bool well = natsConnection_PublishMsg(connection.get(), raw) == NATS_OK;
  if (sent) sent->push_back(std::move(handle));
  return well;
}

void Connection::flush() {
  if (loop_) loop_->flush();
}

void Connection::await_read() {
  if (loop_) loop_->await_read();
}

Result<std::unique_ptr<Subscription>> Connection::subscribe(const std::string& subject,
                                                            Subscription::Heard heard) {
  const std::lock_guard subscribing(subscribing_);
  std::unique_ptr<Subscription> made(
      new Subscription(subject, std::move(heard), [this](Subscription* ended) {
        const std::lock_guard lock(subscribing_);
        subscriptions_.erase(ended);
      }));
  const Handle connection = current();
  const natsStatus status = connection ? made->attach(connection.get()) : NATS_OK;
  // If the connection is broken, the next connect() makes the subscription.
  if (status != NATS_OK && !natsConnection_IsClosed(connection.get()))
    return unreachable(status, where_);
  subscriptions_.insert(made.get());
  return made;
}

Result<void> Connection::confirm() {
  const Handle connection = current();
  if (!connection) return unreachable(NATS_CONNECTION_CLOSED, where_);
  if (const auto status = natsConnection_FlushTimeout(connection.get(), kConnectWait.count());
      status != NATS_OK)
    return not_connected(status, where_);
  const char* violation = nullptr;
  if (natsConnection_GetLastError(connection.get(), &violation) == NATS_NOT_PERMITTED)
    return not_permitted(violation);
  return {};
}

std::string Connection::refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

}  // namespace once::store::nats
