// The store is a composition: each member owns one concern, and the store only forwards to them.
#include "store/nats/nats_store.h"

#include <array>

#include "core/names.h"
#include "store/nats/doctor/doctor.h"
#include "store/nats/doctor/log_audit.h"
#include "store/nats/doctor/verifier.h"
#include "store/nats/feed/clock_redelivery.h"
#include "store/nats/feed/sweep.h"
#include "store/nats/feed/task_feed.h"
#include "store/nats/log/appender.h"
#include "store/nats/queues/queue_editor.h"
#include "store/nats/queues/row_reader.h"
#include "store/nats/queues/unrouted_count.h"
#include "store/nats/retention/retention_rounds.h"

namespace once::store::nats {
namespace {

class NatsStore final : public Store {
 public:
  NatsStore(std::shared_ptr<ZoneConnection> zone, Identity identity, const NatsOptions& options)
      : zone_(std::move(zone)),
        uuid_(identity.uuid),
        redelivery_(options.clock ? ClockRedelivery::under(options.clock)
                                  : std::make_shared<Redelivery>()),
        watch_(*zone_->mux, options.patience, zone_->subjects),
        keys_(
            zone_->client, zone_->subjects, zone_->clock, *zone_->mux, watch_, uuid_,
            [this](StreamMessage message) { return values_.whole_record(std::move(message)); },
            [this] { return retention_.ages(); }) {
    if (identity.new_ledger) sole_writer_.pass_seal();
    watch_.begin(std::move(identity), options.look_every, [this] { news_.ring(); });
  }

  std::vector<Result<AppendResult>> append(std::span<const Append> items) override {
    return appender_.append(items);
  }
  Result<std::vector<Entry>> read(Sequence after, std::size_t limit,
                                  std::string_view filter) override {
    return log_.read(after, limit, filter);
  }
  Result<std::optional<Entry>> find(std::string_view id) override { return log_.find(id); }
  Result<Inventory> inventory(Sequence after, std::size_t limit) override {
    return audit_.inventory(after, limit);
  }
  Result<std::optional<Entry>> entry(std::string_view name, Sequence sequence) override {
    const auto queue = registry_.recall(name);
    if (!queue) return queue.error();
    return entries_.read(*queue, sequence);
  }

  std::vector<Result<SwapResult>> swap(std::span<const Swap> items) override {
    return ledger_.swap(items);
  }
  std::vector<Result<std::optional<Stored>>> get(std::span<const Address> items) override {
    return ledger_.get(items);
  }
  Result<Strays> strays(std::string_view queue, const std::string& after) override {
    return audit_.strays(queue, after);
  }

  CommitResult commit(std::span<const Swap> records, const Fetch& request) override {
    return feed_.commit(records, request);
  }
  Result<void> settle(std::span<const Settlement> items) override {
    return acknowledgements_.settle(items);
  }
  Result<OverlookedPage> overlooked(std::string_view queue, Sequence after,
                                    std::size_t limit) override {
    return sweep_.overlooked(queue, after, limit);
  }
  Result<void> wake(std::string_view queue, std::span<const Wake> items) override {
    return wakes_.wake(queue, items);
  }

  KeyValue& key_values() override { return keys_; }

  std::string uuid() override { return uuid_; }
  StoreTime now() override { return zone_->now(); }
  Time wall() override { return zone_->clock.wall(); }

  Result<QueueAdded> add_queue(const Queue& queue) override { return editor_.add(queue); }
  Result<bool> set_queue(const Queue& queue, const Queue& expected) override {
    return editor_.set(queue, expected);
  }
  Result<void> remove_queue(std::string_view name) override { return editor_.remove(name); }
  Result<std::vector<Queue>> queues() override {
    auto all = registry_.all();
    if (!all) return all.error();
    std::vector<Queue> definitions;
    for (KnownQueue& queue : *all) definitions.push_back(std::move(queue.definition));
    return definitions;
  }
  Result<std::unique_ptr<Membership>> join(std::string_view queue,
                                           std::string_view worker) override {
    return members_.join(queue, worker);
  }
  Result<std::uint64_t> workers(std::string_view name) override {
    const auto queue = registry_.must_know(name);
    if (!queue) return queue.error();
    return members_.workers(*queue);
  }
  Result<Counts> counts(std::string_view queue) override { return status_.counts(queue); }
  Result<bool> all_settled(std::string_view queue) override { return status_.all_settled(queue); }
  Result<std::uint64_t> unrouted() override { return unrouted_.count(); }
  Result<Page> rows(const RowFilter& filter, const Row* after, std::size_t limit) override {
    return rows_.rows(filter, after, limit);
  }

  Result<Retention> retention() override { return retention_.ages(); }
  Result<void> set_retention(const Retention& ages) override { return retention_.set(ages); }
  Result<RetirePage> retire(Sequence after, std::size_t limit) override {
    return retention_.retire(after, limit);
  }
  Result<core::Past> past(std::string_view name) override {
    const auto queue = registry_.must_know(name);
    if (!queue) return queue.error();
    return past_.of(*queue);
  }

  Result<VerifyPage> verify(Depth depth, const std::string& after) override {
    return verifier_.verify(depth, after);
  }
  Result<Examination> examine(const DoctorOptions& options) override {
    return doctor_.examine(options);
  }

 private:
  // Each member uses only those before it.
  const std::shared_ptr<ZoneConnection>
      zone_;  // shared with memberships, which may outlive the store
  const std::string uuid_;
  const std::shared_ptr<Redelivery> redelivery_;  // shared by the stores under one clock
  QueueNews news_{*zone_};
  SoleWriter sole_writer_;

  Watch watch_;
  QueueRegistry registry_{*zone_, watch_};
  TaskLog log_{*zone_};
  PastTotals past_{*zone_};
  ValueChunks values_{*zone_};
  ForeignStreams foreign_{*zone_, values_, past_};
  EntryReader entries_{log_, foreign_};
  QueueConsumers consumers_{*zone_, foreign_, *redelivery_};
  QueueEditor editor_{*zone_, registry_, consumers_, foreign_, watch_};
  Members members_{zone_, registry_, consumers_, watch_};
  Appender appender_{*zone_, registry_, log_, watch_};

  Acknowledgements acknowledgements_{*zone_, *redelivery_};
  RecordPlaces places_{*zone_, log_, entries_, watch_, uuid_};
  RecordLedger ledger_{*zone_,   registry_,    places_,           values_,
                       foreign_, sole_writer_, acknowledgements_, watch_};
  Puller puller_{*zone_, consumers_, watch_, acknowledgements_, *redelivery_};
  Claims claims_{*zone_, ledger_, watch_, *redelivery_};
  Handover handover_{*zone_, entries_, foreign_, *redelivery_, acknowledgements_, claims_};
  TaskFeed feed_{registry_, members_,          watch_,    news_,
                 puller_,   acknowledgements_, handover_, ledger_};
  Wakes wakes_{*zone_, registry_, entries_};

  CountsKeeper keeper_{*zone_};
  Sweep sweep_{*zone_, registry_, consumers_, foreign_, wakes_, keeper_, watch_};
  QueueStatus status_{*zone_, registry_, members_, consumers_,  foreign_,
                      wakes_, past_,     keeper_,  sole_writer_};
  RowReader rows_{*zone_, registry_, log_, past_, values_, status_};
  UnroutedCount unrouted_{*zone_, registry_};
  KeyValues keys_;
  RetentionRounds retention_{*zone_, registry_, log_, foreign_, past_, keys_};
  Doctor doctor_{*zone_, registry_, consumers_, foreign_, members_, watch_};
  LogAudit audit_{*zone_, registry_, log_, past_};
  Verifier verifier_{*zone_, registry_, log_, values_};
};

// Sets the zone's clock to at least the time of the last write: the server's time of that write, or
// the stamp in it if the clock is given.
Result<void> set_clock(ZoneConnection& zone, const Identity& identity) {
  if (!zone.clock.given()) {
    zone.clock.at_least(identity.last_write);
    return {};
  }
  const Subjects& subjects = zone.subjects;
  const std::array<std::pair<std::string, std::string>, 2> stamped{
      {{subjects.ledger_stream(), subjects.all_records()},
       {subjects.log_stream(), subjects.whole_log()}}};
  for (const auto& [stream, filter] : stamped) {
    const auto message = zone.client.last(stream, filter);
    if (!message) return message.error();
    if (*message) zone.clock.at_least(zone.clock.stamp_of(**message));
  }
  return {};
}

}  // namespace
}  // namespace once::store::nats

namespace once::store {

Result<std::unique_ptr<Store>> open_nats(const NatsOptions& options) {
  using namespace nats;
  if (auto ok = core::check_name(options.zone, "zone"); !ok) return ok.error();
  auto mux = RequestMux::open({.servers = options.servers,
                               .login = options.login,
                               .log = options.log,
                               .ping_every = options.patience});
  if (!mux) return mux.error();
  auto zone = std::make_shared<ZoneConnection>(std::move(*mux), options);
  if (auto checked = zone->client.check_server(); !checked) return checked.error();
  auto identity = open_streams(zone->client, zone->subjects, options.create, options.allow_unsafe);
  if (!identity) return identity.error();
  if (auto set = set_clock(*zone, *identity); !set) return set.error();
  return std::unique_ptr<Store>(
      std::make_unique<NatsStore>(std::move(zone), std::move(*identity), options));
}

}  // namespace once::store
