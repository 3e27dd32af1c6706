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

std::pair<PullInboxes::Inbox*, std::shared_ptr<Slot>> PullInboxes::free_inbox() {
  Inbox* inbox = nullptr;
  const auto slot = std::make_shared<Slot>();
  {
    const std::lock_guard lock(mutex_);
    const auto free = std::find_if(inboxes_.begin(), inboxes_.end(),
                                   [](const Inbox& each) { return !each.slot; });
    if (free != inboxes_.end() && free->subscription) {
      free->slot = slot;
      return {&*free, slot};
    }
    inbox = &inboxes_.emplace_back();
    inbox->subject = root_ + std::to_string(++last_number_);
    inbox->slot = slot;
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
    return {inbox, slot};
  }
  inboxes_.remove_if([&](const Inbox& each) { return &each == inbox; });
  return {};
}

std::shared_ptr<Slot> PullInboxes::pull(const Outgoing& question, std::size_t wanted,
                                        std::shared_ptr<Bell> bell) {
  const auto [inbox, slot] = free_inbox();
  if (!inbox) return nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (slot->ended) return nullptr;  // the connection broke meanwhile
    slot->sent_at = std::chrono::steady_clock::now();
    slot->subject = question.subject;
    slot->wanted = wanted;
    slot->bell = std::move(bell);
    slot->number = ++last_number_;
  }
  if (send_(question, inbox->subject + "." + std::to_string(slot->number))) return slot;
  const std::lock_guard lock(mutex_);
  if (inbox->slot == slot) inbox->slot.reset();
  return nullptr;
}

// The subject of a status message names its pull. The subject of a delivery does not.
PullInboxes::Rung PullInboxes::receive(Inbox& inbox, Message message) {
  const std::lock_guard lock(mutex_);
  const int status = message.status();
  const std::shared_ptr<Slot> slot = inbox.slot;
  if (status != 0) {
    if (!slot || !message.subject().ends_with("." + std::to_string(slot->number))) return {};
    inbox.slot.reset();
    slot->status = status;
    slot->ended = true;
    return {.bell = slot->bell};
  }
  Rung rung;
  if (!slot || !slot->bell)
    rung.give_back = message.reply();
  else
    slot->messages.push_back(std::move(message));
  if (slot && --slot->wanted == 0) {
    slot->ended = true;
    rung.bell = slot->bell;
    inbox.slot.reset();
  }
  return rung;
}

std::vector<std::shared_ptr<Bell>> PullInboxes::end(const std::function<bool(Slot&)>& ends) {
  std::vector<std::shared_ptr<Bell>> bells;
  const std::lock_guard lock(mutex_);
  for (Inbox& inbox : inboxes_) {
    if (!inbox.slot || !ends(*inbox.slot)) continue;
    inbox.slot->ended = true;
    if (inbox.slot->bell) bells.push_back(inbox.slot->bell);
    inbox.slot.reset();
  }
  return bells;
}

void PullInboxes::connection_lost() {
  for (const auto& bell : end([](Slot&) { return true; })) bell->ring();
}

void PullInboxes::end_denied(const std::function<bool(const std::string&)>& is_about,
                             std::string_view text) {
  const auto ends = [&](Slot& slot) {
    if (!is_about(slot.subject)) return false;
    slot.denied = text;
    return true;
  };
  for (const auto& bell : end(ends)) bell->ring();
}

void PullInboxes::give_up(Slot& slot) {
  static_cast<void>(end([&](Slot& each) { return &each == &slot; }));
}

void PullInboxes::attend(Slot& slot, std::shared_ptr<Bell> bell) {
  const std::lock_guard lock(mutex_);
  slot.bell = std::move(bell);
}

bool PullInboxes::take(Slot& slot, std::vector<Message>& into) {
  flush_();
  const std::lock_guard lock(mutex_);
  for (Message& message : slot.messages) into.push_back(std::move(message));
  slot.messages.clear();
  return slot.ended;
}

int PullInboxes::status_of(const Slot& slot) {
  const std::lock_guard lock(mutex_);
  return slot.status;
}

std::string PullInboxes::denied(const Slot& slot) {
  const std::lock_guard lock(mutex_);
  return slot.denied;
}

}  // namespace once::store::nats
