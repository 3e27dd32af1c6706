#include "engine/intake.h"

#include <algorithm>

namespace once::engine {
namespace {

// How soon a delivery comes again that was not claimed because no handler was free for it.
constexpr Duration kSoon{50};

store::Address entry_address(const Queue& queue, core::Sequence sequence) {
  return {.kind = store::Address::Kind::entry, .queue = queue.name, .sequence = sequence};
}

}  // namespace

Intake::Intake(store::Store& store, Scheduler& scheduler, Scribe& scribe, encoding::KeyTemplate key,
               IntakeSettings settings)
    : store_(store),
      scheduler_(scheduler),
      scribe_(scribe),
      key_(std::move(key)),
      settings_(std::move(settings)) {}

Result<Flights> Intake::fetch(std::size_t limit, std::size_t handlers, Duration wait,
                              std::stop_token stop) {
  proposals_.clear();
  handlers_ = handlers;
  Moment claimed_at = scheduler_.now();
  auto deliveries = store_.fetch({.queue = settings_.queue.name,
                                  .limit = limit,
                                  .claimer = this,
                                  .wait = wait,
                                  .stop = std::move(stop)});
  if (!deliveries) {
    if (deliveries.error().in_doubt) return recover(claimed_at);
    return deliveries.error();
  }
  // The wait for something to claim is not part of the lease; the store's stamp is what counts, and
  // the claim was written at most one commit before now.
  if (wait > Duration{0}) claimed_at = scheduler_.now();
  Flights flights;
  std::vector<store::Delivery> unclaimed;
  for (store::Delivery& delivery : *deliveries) {
    if (!delivery.claimed) {
      unclaimed.push_back(std::move(delivery));
    } else if (delivery.stored->record.state == State::running) {
      store::Address at = *address(delivery.entry);
      flights.push_back(flight(std::move(delivery), std::move(at), claimed_at));
    }  // else it was the last attempt and is a dead letter now
  }
  if (!unclaimed.empty()) {
    if (auto answered = answer(std::move(unclaimed), claimed_at, flights); !answered) {
      // What was claimed runs; what could not be answered comes again by itself.
      if (flights.empty()) return answered.error();
    }
  }
  return flights;
}

std::optional<store::Address> Intake::address(const store::Entry& entry) {
  auto key = key_of(entry);
  if (!key) return std::nullopt;
  return store::Address{
      .queue = settings_.queue.name, .key = std::move(*key), .sequence = entry.sequence};
}

std::optional<core::Record> Intake::claim(const store::Entry& entry, const core::Stored* stored,
                                          core::Now now) {
  if (!entry.body) return std::nullopt;
  const bool doubtful =
      stored && (stored->record.in_doubt || stored->record.state == State::running);
  if (doubtful && handlers_ == 0) return std::nullopt;
  core::Nonce nonce;
  scheduler_.random_bytes(nonce.bytes.data(), nonce.bytes.size());
  core::Decision decision = core::decide(stored, command(entry, nonce), scribe_.policy(), now);
  if (decision.verdict == core::Verdict::claimed) {
    proposals_.push_back({entry.sequence, nonce});
    if (handlers_ > 0) --handlers_;
  }
  return std::move(decision.next);
}

core::Claim Intake::command(const store::Entry& entry, const core::Nonce& nonce) const {
  return {.sequence = entry.sequence,
          .digest = entry.digest,
          .worker = settings_.worker,
          .member = settings_.member,
          .nonce = nonce};
}

Result<std::string> Intake::key_of(const store::Entry& entry) const {
  return key_.key(entry.id, entry.topic, entry.body ? *entry.body : Body{}, entry.headers);
}

std::unique_ptr<Flight> Intake::flight(store::Delivery delivery, store::Address at,
                                       Moment claimed_at) {
  auto flight = std::make_unique<Flight>();
  flight->task = {.topic = std::move(delivery.entry.topic),
                  .id = std::move(delivery.entry.id),
                  .body = std::move(*delivery.entry.body),
                  .headers = std::move(delivery.entry.headers)};
  flight->sequence = delivery.entry.sequence;
  flight->digest = delivery.entry.digest;
  flight->published_at = delivery.entry.published_at;
  flight->address = std::move(at);
  flight->handle = std::move(delivery.handle);
  flight->stored = std::move(*delivery.stored);
  flight->nonce = flight->stored.record.nonce;
  flight->token = core::token_of(flight->stored.record, flight->stored.revision);
  flight->attempt = flight->stored.record.claims;
  flight->in_doubt = flight->stored.record.in_doubt;
  flight->claimed_at = flight->renewed_at = claimed_at;
  return flight;
}

Result<void> Intake::answer(std::vector<store::Delivery> unclaimed, Moment claimed_at,
                            Flights& flights) {
  std::vector<store::Settlement> settlements;
  for (store::Delivery& delivery : unclaimed) {
    const auto settle = [&](std::optional<Duration> again) {
      settlements.push_back({.queue = settings_.queue.name,
                             .sequence = delivery.entry.sequence,
                             .handle = delivery.handle,
                             .again = again});
    };
    const auto set_aside = [&](State state, std::string reason) {
      return scribe_.write({.at = entry_address(settings_.queue, delivery.entry.sequence),
                            .command = core::SetAside{.sequence = delivery.entry.sequence,
                                                      .digest = delivery.entry.digest,
                                                      .state = state,
                                                      .reason = std::move(reason)},
                            .handle = delivery.handle});
    };
    const auto key = key_of(delivery.entry);
    std::optional<Result<Written>> written;
    if (!delivery.entry.body) {
      if (delivery.stored && core::settled(delivery.stored->record.state)) {
        settle(std::nullopt);
        continue;
      }
      written = set_aside(State::cancelled, "the body was retired before this queue could run it");
    } else if (!key) {
      written = set_aside(State::dead, "no key: " + key.error().message);
    } else {
      core::Nonce nonce;
      scheduler_.random_bytes(nonce.bytes.data(), nonce.bytes.size());
      store::Address at{
          .queue = settings_.queue.name, .key = *key, .sequence = delivery.entry.sequence};
      const bool doubtful = delivery.stored && (delivery.stored->record.in_doubt ||
                                                delivery.stored->record.state == State::running);
      if (doubtful && handlers_ == 0) {
        settle(kSoon);
        continue;
      }
      written = scribe_.write({.at = at,
                               .known = delivery.stored,
                               .command = command(delivery.entry, nonce),
                               .handle = delivery.handle});
      if (*written) {
        const core::Decision& decision = (*written)->decision;
        switch (decision.verdict) {
          case core::Verdict::claimed:
          case core::Verdict::already_done:  // an unanswered write of this very claim
            delivery.stored = (*written)->stored;
            flights.push_back(flight(std::move(delivery), std::move(at), claimed_at));
            continue;
          case core::Verdict::held:
          case core::Verdict::not_due:
            settle(std::max(Duration{1}, decision.until - store_.now()));
            continue;
          case core::Verdict::duplicate_key:
            written =
                set_aside(State::duplicate, "same key as #" + std::to_string(decision.of.value));
            break;
          case core::Verdict::conflicting_key:
            written = set_aside(State::dead,
                                "conflicting_duplicate: the key '" + *key + "' belongs to #" +
                                    std::to_string(decision.of.value) + " with other content");
            break;
          case core::Verdict::exhausted: continue;
          default: settle(std::nullopt); continue;
        }
      }
    }
    if (!*written) return written->error();
    if ((*written)->decision.verdict == core::Verdict::already_done) settle(std::nullopt);
  }
  if (settlements.empty()) return {};
  return store_.settle(settlements);
}

// The commit's answer was lost. What it claimed is mine by its nonce, or it was not written at all
// and comes again.
Flights Intake::recover(Moment claimed_at) {
  Flights flights;
  for (const Proposal& proposal : std::exchange(proposals_, {})) {
    auto entries = store_.read(core::Sequence{proposal.sequence.value - 1}, 1, {});
    if (!entries) return flights;  // what is not found now comes again when its lease is over
    if (entries->empty() || entries->front().sequence != proposal.sequence) continue;
    store::Delivery delivery{.entry = std::move(entries->front())};
    auto at = address(delivery.entry);
    if (!at || !delivery.entry.body) continue;
    auto stored = std::move(store_.get(std::span(&*at, 1)).front());
    if (!stored) return flights;
    if (!*stored || (*stored)->record.nonce != proposal.nonce ||
        (*stored)->record.state != State::running)
      continue;
    delivery.stored = std::move(*stored);
    flights.push_back(flight(std::move(delivery), std::move(*at), claimed_at));
  }
  return flights;
}

}  // namespace once::engine
