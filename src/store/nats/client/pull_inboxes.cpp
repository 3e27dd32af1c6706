#include "store/nats/client/pull_inboxes.h"

#include <algorithm>

namespace once::store::nats {

void PullInboxes::open(Connection& connection, std::string root) {
  connection_ = &connection;
  root_ = std::move(root);
}

// `ending` is destroyed after the lock is released. The destructors of the subscriptions wait for
// their callbacks, and these need the mutex and the inboxes.
void PullInboxes::close() {
  std::list<Inbox> ending;
  const std::lock_guard lock(mutex_);
  ending.swap(inboxes_);
}

std::pair<PullInboxes::Inbox*, std::shared_ptr<PendingPull>> PullInboxes::free_inbox() {
  Inbox* inbox = nullptr;
  const auto pending = std::make_shared<PendingPull>();
  {
    const std::lock_guard lock(mutex_);
    const auto free = std::find_if(inboxes_.begin(), inboxes_.end(),
                                   [](const Inbox& each) { return !each.pending; });
    if (free != inboxes_.end() && free->subscription) {
      free->pending = pending;
      return {&*free, pending};
    }
    inbox = &inboxes_.emplace_back();
    inbox->subject = root_ + std::to_string(++last_number_);
    inbox->pending = pending;
  }
  auto subscribed = connection_->subscribe(inbox->subject + ".*", [this, inbox](Message message) {
    connection_->await_read();
    const Rung rung = receive(*inbox, std::move(message));
    if (rung.bell) rung.bell->ring();
    // No fetch waits for this message now. Another worker may get it.
    if (rung.give_back.empty()) return;
    send_({.subject = rung.give_back, .data = "-NAK"}, {});
    flush_();
  });
  const std::lock_guard lock(mutex_);
  if (subscribed) {
    inbox->subscription = std::move(*subscribed);
    return {inbox, pending};
  }
  inboxes_.remove_if([&](const Inbox& each) { return &each == inbox; });
  return {};
}

std::shared_ptr<PendingPull> PullInboxes::pull(const Outgoing& question, std::size_t wanted,
                                               std::shared_ptr<Bell> bell) {
  const auto [inbox, pending] = free_inbox();
  if (!inbox) return nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (pending->ended) return nullptr;  // the connection broke meanwhile
    pending->sent_at = std::chrono::steady_clock::now();
    pending->subject = question.subject;
    pending->wanted = wanted;
    pending->bell = std::move(bell);
    pending->number = ++last_number_;
  }
  if (send_(question, inbox->subject + "." + std::to_string(pending->number))) return pending;
  const std::lock_guard lock(mutex_);
  if (inbox->pending == pending) inbox->pending.reset();
  return nullptr;
}

// The subject of a status message names its pull. The subject of a delivery does not.
PullInboxes::Rung PullInboxes::receive(Inbox& inbox, Message message) {
  const std::lock_guard lock(mutex_);
  const int status = message.status();
  const std::shared_ptr<PendingPull> pending = inbox.pending;
  if (status != 0) {
    if (!pending || !message.subject().ends_with("." + std::to_string(pending->number))) return {};
    inbox.pending.reset();
    pending->status = status;
    pending->ended = true;
    return {.bell = pending->bell};
  }
  Rung rung;
  if (!pending || !pending->bell)
    rung.give_back = message.reply();
  else
    pending->messages.push_back(std::move(message));
  if (pending && --pending->wanted == 0) {
    pending->ended = true;
    rung.bell = pending->bell;
    inbox.pending.reset();
  }
  return rung;
}

std::vector<std::shared_ptr<Bell>> PullInboxes::end(const std::function<bool(PendingPull&)>& ends) {
  std::vector<std::shared_ptr<Bell>> bells;
  const std::lock_guard lock(mutex_);
  for (Inbox& inbox : inboxes_) {
    if (!inbox.pending || !ends(*inbox.pending)) continue;
    inbox.pending->ended = true;
    if (inbox.pending->bell) bells.push_back(inbox.pending->bell);
    inbox.pending.reset();
  }
  return bells;
}

void PullInboxes::connection_lost() {
  for (const auto& bell : end([](PendingPull&) { return true; })) bell->ring();
}

void PullInboxes::end_denied(const std::function<bool(const std::string&)>& is_about,
                             std::string_view text) {
  const auto ends = [&](PendingPull& pending) {
    if (!is_about(pending.subject)) return false;
    pending.denied = text;
    return true;
  };
  for (const auto& bell : end(ends)) bell->ring();
}

void PullInboxes::give_up(PendingPull& pending) {
  static_cast<void>(end([&](PendingPull& each) { return &each == &pending; }));
}

void PullInboxes::attend(PendingPull& pending, std::shared_ptr<Bell> bell) {
  const std::lock_guard lock(mutex_);
  pending.bell = std::move(bell);
}

bool PullInboxes::take(PendingPull& pending, std::vector<Message>& into) {
  flush_();
  const std::lock_guard lock(mutex_);
  for (Message& message : pending.messages) into.push_back(std::move(message));
  pending.messages.clear();
  return pending.ended;
}

int PullInboxes::status_of(const PendingPull& pending) {
  const std::lock_guard lock(mutex_);
  return pending.status;
}

std::string PullInboxes::denied(const PendingPull& pending) {
  const std::lock_guard lock(mutex_);
  return pending.denied;
}

}  // namespace once::store::nats
