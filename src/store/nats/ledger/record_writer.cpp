#include "store/nats/ledger/record_writer.h"

#include <algorithm>
#include <chrono>
#include <set>

namespace once::store::nats {
namespace {

using std::chrono::steady_clock;

}  // namespace

bool RecordWriter::part_changed(std::span<const Outgoing> records, std::vector<std::size_t>& batch,
                                std::vector<std::size_t>& singly) const {
  std::vector<std::string> subjects;
  for (const std::size_t i : batch) subjects.push_back(records[i].subject);
  const auto there = zone_.client.last_of_each(zone_.subjects.ledger_stream(), subjects);
  if (!there) return false;
  std::erase_if(batch, [&](std::size_t i) {
    const auto found = there->find(records[i].subject);
    const std::uint64_t revision = found == there->end() ? 0 : found->second.sequence;
    const bool changed = records[i].headers.front() != expecting(revision).front();
    if (changed) singly.push_back(i);
    return changed;
  });
  return true;
}

// One conflict makes the server refuse the whole batch. Then the records are read, from any
// replica. Records that seem to have changed go one by one, and the rest is sent as a batch again.
// If the outcome of a batch is unknown, it is unknown for each record.
void RecordWriter::write_batch(std::span<const Outgoing> records, std::vector<std::size_t> batch,
                               std::span<const std::string> definitions,
                               JetStreamClient::Burst& burst,
                               std::vector<std::size_t>& singly) const {
  for (int round = 0; round < 2 && batch.size() >= 2; ++round) {
    std::vector<Outgoing> messages;
    for (const std::size_t i : batch) messages.push_back(records[i]);
    auto answer = zone_.client.publish_together(std::move(messages), zone_.subjects.meta_stream(),
                                                definitions);
    if (burst.last.empty()) burst.last = std::move(answer.last);
    definitions = {};
    const PublishResult& written = answer.published.front();
    // Another write on one of the subjects is in progress. A single write can wait for it.
    if (written.kind == PublishResult::Kind::failed || written.in_flight) break;
    if (written.kind != PublishResult::Kind::refused) {
      for (std::size_t k = 0; k < batch.size(); ++k) {
        burst.published[batch[k]] = written;
        burst.published[batch[k]].sequence = written.sequence - batch.size() + 1 + k;
      }
      return;
    }
    if (!part_changed(records, batch, singly)) break;
  }
  singly.insert(singly.end(), batch.begin(), batch.end());
}

JetStreamClient::Burst RecordWriter::write_singly(std::span<const Outgoing> records,
                                                  std::span<const std::string> definitions) {
  const auto begun = steady_clock::now();
  auto burst = zone_.client.publish(records, zone_.subjects.meta_stream(), definitions);
  choice_.took(false, records.size(), steady_clock::now() - begun);
  return burst;
}

JetStreamClient::Burst RecordWriter::write(std::span<const Outgoing> records,
                                           std::span<const std::string> definitions) {
  const std::size_t few = choice_.singly(records.size());
  if (few == records.size()) return write_singly(records, definitions);
  // A batch must not have a record twice: the server would not check the second write against the
  // first.
  const std::size_t most = zone_.mux->max_payload();
  JetStreamClient::Burst burst{.published = std::vector<PublishResult>(records.size())};
  std::set<std::string_view> subjects;
  std::vector<std::size_t> together;
  std::vector<std::size_t> singly;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const bool fits = size_of(records[i]) + JetStreamClient::kBatchHeaders <= most;
    const bool first = subjects.insert(records[i].subject).second;
    (i >= few && fits && first ? together : singly).push_back(i);
  }
  const std::size_t planned = singly.size();
  const auto begun = steady_clock::now();
  for (std::size_t next = 0; next < together.size(); next += JetStreamClient::kMostInBatch) {
    const auto some = std::span(together).subspan(next);
    const auto batch = some.first(std::min(some.size(), JetStreamClient::kMostInBatch));
    write_batch(records, {batch.begin(), batch.end()},
                burst.last.empty() ? definitions : std::span<const std::string>{}, burst, singly);
  }
  choice_.took(true, together.size(), steady_clock::now() - begun);
  // If the batch could not be sent, the definitions were not read either.
  const bool asked = burst.last.size() == definitions.size() &&
                     std::all_of(burst.last.begin(), burst.last.end(),
                                 [](const auto& each) { return static_cast<bool>(each); });
  if (singly.empty() && asked) return burst;
  std::vector<Outgoing> rest;
  for (const std::size_t i : singly) rest.push_back(records[i]);
  const auto begun_singly = steady_clock::now();
  auto one_by_one = zone_.client.publish(rest, zone_.subjects.meta_stream(),
                                         asked ? std::span<const std::string>{} : definitions);
  if (planned == singly.size()) choice_.took(false, planned, steady_clock::now() - begun_singly);
  if (!asked) burst.last = std::move(one_by_one.last);
  for (std::size_t k = 0; k < singly.size(); ++k)
    burst.published[singly[k]] = std::move(one_by_one.published[k]);
  return burst;
}

}  // namespace once::store::nats
