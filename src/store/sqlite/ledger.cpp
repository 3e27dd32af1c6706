// The ledger: records by compare-and-swap on their revisions.
#include "store/sqlite/failure.h"
#include "store/sqlite/store_impl.h"

namespace once::store::sqlite {
namespace {

// Updates the pending row of the delivery that the swap answers. The new record says when the feed
// looks at the entry again.
void answer_delivery(WriteTransaction& transaction, const KnownQueue& queue, const Swap& item,
                     const Put& written) {
  if (written.place < 0) return;
  const Sequence sequence = item.at.sequence ? item.at.sequence : sequence_at(written.place);
  if (sequence_at(written.place) == sequence) {
    drop_answered(transaction, queue, sequence, item.handle);
  } else if (!item.handle.empty()) {
    // The record of the key is about another entry. This entry follows that record.
    const auto pending = pending_due(transaction, queue, sequence);
    if (!pending || handle_of(*pending) != item.handle) return;
    if (const auto again = core::look_again(item.record))
      set_pending(transaction, queue, sequence, transaction.now() + *again);
    else
      drop_answered(transaction, queue, sequence, item.handle);
  }
}

// The entry of the record, if the key of the record is the id of the entry.
Sequence entry_by_id(const KnownQueue& queue, const Address& at) {
  return at.kind == Address::Kind::task && queue.by_id() ? at.sequence : Sequence{};
}

// Swaps in one transaction. Most records of a batch are those of neighbouring entries.
class Swapper {
 public:
  Swapper(WriteTransaction& transaction, std::span<const Swap> items)
      : transaction_(transaction), batch_(transaction.db()) {
    if (items.size() < kFewItems) return;
    const KnownQueue* const queue = transaction.queues().find(items.front().at.queue);
    if (!queue) return;
    Sequence first{}, last{};
    for (const Swap& item : items) {
      const Sequence entry =
          item.at.queue == items.front().at.queue ? entry_by_id(*queue, item.at) : Sequence{};
      if (!entry) continue;
      if (!first || entry < first) first = entry;
      last = std::max(last, entry);
    }
    if (!first || last.value - first.value > 2 * items.size()) return;
    ahead_queue_ = queue;
    ahead_.emplace(transaction.db(), *queue, first, last);
  }

  SwapResult swap(const Swap& item, const PackedRecord& packed) {
    const KnownQueue& queue = transaction_.queues().get(item.at.queue);
    const Spot spot = this->spot(queue, item.at);
    const auto& current = spot.current();
    SwapResult result;
    if ((current ? current->revision : Revision{}) != item.expected) {
      batch_.flush();
      if (current)
        result.current = read_record(transaction_.db(), *current, transaction_.holders());
      return result;
    }
    const Put written = put(transaction_, queue, spot, item.record, packed, batch_);
    answer_delivery(transaction_, queue, item, written);
    result.written = true;
    Stored& stored = result.current.emplace();
    stored.record = item.record;
    stored.revision = written.revision;
    stored.stamp = written.stamp;
    stored.holder_gone = written.holder_gone;
    return result;
  }
  void finish() { batch_.flush(); }

 private:
  static constexpr std::size_t kFewItems = 4;

  Spot spot(const KnownQueue& queue, const Address& at) {
    const Sequence entry = ahead_queue_ == &queue ? entry_by_id(queue, at) : Sequence{};
    if (entry)
      if (auto rows = ahead_->take(queue, entry))
        return {.at = at, .place = place_of(queue.qid, entry), .rows = *rows};
    batch_.flush();  // an earlier item may have written the row
    return find_spot(transaction_.db(), queue, at);
  }

  WriteTransaction& transaction_;
  RowBatch batch_;
  const KnownQueue* ahead_queue_ = nullptr;
  std::optional<RowsAhead> ahead_{};  // of ahead_queue_
};

}  // namespace

std::vector<PackedRecord> encode_all(std::span<const Swap> items) {
  std::vector<PackedRecord> encoded;
  encoded.reserve(items.size());
  for (const Swap& item : items) encoded.push_back(packed(item.record));
  return encoded;
}

std::vector<Result<SwapResult>> swap_all(WriteTransaction& transaction, std::span<const Swap> items,
                                         std::span<const PackedRecord> encoded) {
  std::vector<Result<SwapResult>> answers;
  answers.reserve(items.size());
  Swapper swapper(transaction, items);
  for (std::size_t i = 0; i < items.size(); ++i) try {
      answers.emplace_back(swapper.swap(items[i], encoded[i]));
    } catch (const StatementFailure&) {
      throw;
    } catch (const Failure& failure) {
      answers.emplace_back(failure.error());
    }
  swapper.finish();
  return answers;
}

std::vector<Result<SwapResult>> SqliteStore::swap(std::span<const Swap> items) {
  if (items.empty()) return {};
  const auto encoded = encode_all(items);
  auto written = database_->write_shared(
      [&](WriteTransaction& transaction) { return swap_all(transaction, items, encoded); });
  if (written) return std::move(*written);
  return std::vector<Result<SwapResult>>(items.size(), written.error());
}

std::vector<Result<std::optional<Stored>>> SqliteStore::get(std::span<const Address> items) {
  using Answer = Result<std::optional<Stored>>;
  if (items.empty()) return {};
  auto found = database_->read([&](ReadTransaction& transaction) {
    std::vector<Answer> answers;
    answers.reserve(items.size());
    for (const Address& at : items) try {
        const KnownQueue& queue = transaction.queues().get(at.queue);
        const Spot spot = find_spot(transaction.db(), queue, at);
        std::optional<Stored> stored;
        if (const auto& current = spot.current())
          stored = read_record(transaction.db(), *current, transaction.holders());
        answers.emplace_back(std::move(stored));
      } catch (const StatementFailure&) {
        throw;
      } catch (const Failure& failure) {
        answers.emplace_back(failure.error());
      }
    return answers;
  });
  if (found) return std::move(*found);
  return std::vector<Answer>(items.size(), found.error());
}

}  // namespace once::store::sqlite
