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

SwapResult swap_one(WriteTransaction& transaction, const Swap& item, const PackedRecord& packed) {
  const KnownQueue& queue = transaction.queues().get(item.at.queue);
  const Spot spot = find_spot(transaction.db(), queue, item.at);
  const auto& current = spot.current();
  if ((current ? current->revision : Revision{}) != item.expected) {
    SwapResult refused;
    if (current) refused.current = read_record(transaction.db(), *current, transaction.holders());
    return refused;
  }
  Put written = put(transaction, queue, spot, item.record, packed);
  answer_delivery(transaction, queue, item, written);
  return {.written = true, .current = std::move(written.stored)};
}

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
  for (std::size_t i = 0; i < items.size(); ++i) try {
      answers.emplace_back(swap_one(transaction, items[i], encoded[i]));
    } catch (const StatementFailure&) {
      throw;
    } catch (const Failure& failure) {
      answers.emplace_back(failure.error());
    }
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
