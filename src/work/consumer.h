// The pull interface of a queue: once/consumer.h describes it for callers. Every call reads the
// records that the handles name, asks decide(), and writes. So a Consumer has no state of its claims,
// and any process may go on with a claim.
#pragma once

#include <memory>
#include <mutex>

#include "codec/claim_handle.h"
#include "once/consumer.h"
#include "work/claim_slots.h"
#include "work/housekeeper.h"
#include "work/intake.h"
#include "work/kept_results.h"

namespace once::engine {

struct ConsumerSettings {
  Queue queue{};
  std::string name{};
  bool can_probe = false;
  bool keeps_house = true;  // the sweep and the retention
};

// Any thread may call. The store and the scheduler outlive it.
class Consumer {
 public:
  static Result<std::unique_ptr<Consumer>> make(store::Store& store, Scheduler& scheduler,
                                                ConsumerSettings settings);

  Result<std::vector<Offer>> offer(std::size_t most, Duration wait, std::stop_token stop,
                                   const std::optional<OfferFor>& to = {});
  Result<std::vector<Offer>> offer(std::size_t most, Duration wait, std::stop_token stop,
                                   const ChooseWorker& to);
  void withdraw(std::span<const std::string> claims);
  std::vector<Result<StartedTask>> start(std::span<const std::string> claims);
  std::vector<Result<RenewResult>> renew(std::span<const std::string> claims);
  Result<StepStart> begin_step(std::string_view claim, std::string_view name, StepOptions options);
  Result<void> end_step(std::string_view claim, std::string_view name, Body result,
                        std::string call);
  Result<void> fail_step(std::string_view claim, std::string_view name, std::string why,
                         std::string call);
  Result<void> hold_step(std::string_view claim, std::string_view name, std::string why,
                         std::string call);
  Settled settle(std::vector<Settlement> settlements, std::size_t next,
                 const std::optional<OfferFor>& to = {});

 private:
  using Handle = encoding::ClaimHandle;
  // Makes the command for the claim at `place`. `record` is null if there is none.
  using Make = std::function<core::Command(std::size_t place, const core::Nonce& nonce,
                                           const core::Record* record)>;

  Consumer(store::Store& store, Scheduler& scheduler, ConsumerSettings settings,
           encoding::KeyTemplate key, std::unique_ptr<store::Membership> membership);

  // What was written, and until when the claim's slot lasts if the write needed it.
  struct ClaimWrite : WriteResult {
    std::optional<core::StoreTime> slot_until{};
  };
  // A command that lets the claim run on needs its slot.
  enum class Needs { nothing, slot };
  // The claims that can be read, with their records and commands. The others have an answer already.
  struct Intents {
    std::vector<Intent> intents{};
    std::vector<std::size_t> places{};  // of the intents among the claims
    std::vector<core::Nonce> nonces{};  // of the intents
    std::vector<std::optional<Error>> errors{};
    std::vector<std::optional<ClaimSlot>> slots{};  // of the claims
  };
  Result<Handle> handle_of(std::string_view claim) const;
  std::string key_of(std::string_view claim, std::string_view step) const;  // idempotency key
  Intents intents_of(std::span<const std::string> claims, const Make& make, Needs needs);
  void keep_slots(Intents& made);
  void give_slots_back(const Intents& made, std::span<const Result<WriteResult>> written);
  void keep_results(const Intents& made, std::span<const Result<WriteResult>> written);
  // Writes one command per claim.
  std::vector<Result<ClaimWrite>> write(std::span<const std::string> claims, const Make& make,
                                        Needs needs = Needs::nothing);
  Result<ClaimWrite> write(std::string_view claim, const core::Command& command);
  Result<void> record_step(std::string_view claim, std::string_view name,
                           const core::Command& command);
  Result<store::Entry> entry_of(std::string_view claim) const;
  Result<StartedTask> start_answer(const std::string& claim, store::Entry entry,
                                   const Result<ClaimWrite>& written) const;
  StartedTask started(std::string claim, std::string key, Task task, core::Sequence sequence,
                      const core::Stored& stored,
                      const std::optional<core::StoreTime>& slot_until) const;
  Duration lease_left(const core::Stored& stored,
                      const std::optional<core::StoreTime>& slot_until) const;
  core::Command command_of(const Settlement& settlement, const core::Nonce& nonce) const;
  std::vector<Offer> offers_of(RunningTasks tasks);
  Offer offer_of(RunningTask& task, const std::optional<ClaimSlot>& slot) const;
  std::vector<std::optional<ClaimSlot>> slots_of(const RunningTasks& tasks);
  Result<std::vector<Offer>> offer_in_slots(std::size_t most, Duration wait, std::stop_token stop,
                                            const ChooseWorker& to);
  Result<std::vector<Offer>> offer_once(std::size_t most, Duration wait, std::stop_token stop,
                                        const ChooseWorker& to);
  void follow_definition();
  ChooseWorker chosen(const std::optional<OfferFor>& to) const;

  store::Store& store_;
  Scheduler& scheduler_;
  const ConsumerSettings settings_;
  const std::string zone_;
  const std::unique_ptr<store::Membership> membership_;
  LedgerWriter writer_;
  WorkerCounters counters_;
  Intake intake_;
  std::mutex mutex_;
  Moment followed_at_{};  // under mutex_
  ClaimSlots slots_;
  KeptResults kept_;
  std::optional<Housekeeper> housekeeper_;
};

}  // namespace once::engine
