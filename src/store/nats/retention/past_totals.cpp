#include "store/nats/retention/past_totals.h"

#include <algorithm>
#include <set>

#include "codec/past_codec.h"

namespace once::store::nats {
namespace {

Result<core::Past> past_from(const std::optional<StreamMessage>& message) {
  if (!message) return core::Past{};
  return encoding::decode_past(message->data);
}

}  // namespace

Result<void> PastTotals::keep(const Takings& takings) {
  std::vector<std::string> open;
  for (const auto& [subject, edits] : takings) open.push_back(subject);
  while (!open.empty()) {
    const auto known = zone_.client.last(zone_.subjects.meta_stream(), open);
    std::vector<Outgoing> messages;
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (!known[i]) return known[i].error();
      auto past = past_from(*known[i]);
      if (!past) return past.error();
      for (const auto& edit : takings.at(open[i])) edit(*past);
      messages.push_back({.subject = open[i],
                          .data = encoding::encode(*past),
                          .headers = expecting(*known[i] ? (*known[i])->sequence : 0)});
    }
    const auto written = zone_.client.publish(messages);
    std::vector<std::string> again;  // another was faster
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (written[i].kind == PublishResult::Kind::stored) continue;
      if (written[i].kind != PublishResult::Kind::refused) return failure_of(written[i]);
      again.push_back(std::move(open[i]));
    }
    open = std::move(again);
  }
  return {};
}

void PastTotals::take_records(const KnownQueue& queue, std::uint64_t number, Row row,
                              Takings& takings) {
  takings[zone_.subjects.past(queue, number)].push_back(
      [number, time = zone_.now(), row = std::move(row)](core::Past& past) {
        past.take_records(number, published(row), accounted(row, time));
      });
}

Result<core::Sequences> PastTotals::taken_of(const KnownQueue& queue,
                                             std::span<const std::uint64_t> numbers) const {
  std::set<std::string> subjects;
  for (const std::uint64_t number : numbers) subjects.insert(zone_.subjects.past(queue, number));
  core::Sequences taken;
  if (subjects.empty()) return taken;
  const auto pieces = zone_.client.last_of_each(
      zone_.subjects.meta_stream(), std::vector<std::string>(subjects.begin(), subjects.end()));
  if (!pieces) return pieces.error();
  for (const auto& [subject, message] : *pieces) {
    const auto past = past_from(message);
    if (!past) return past.error();
    taken.add(past->records);
  }
  return taken;
}

Result<void> PastTotals::each(const KnownQueue& queue,
                              const std::function<void(const core::Past&)>& seen) const {
  return zone_.client.each(zone_.subjects.meta_stream(), zone_.subjects.past_root(queue) + "*", 1,
                           JetStreamClient::kToTheEnd,
                           [&](const StreamMessage& message) -> Result<void> {
                             const auto past = past_from(message);
                             if (!past) return past.error();
                             seen(*past);
                             return {};
                           });
}

Result<core::Past> PastTotals::of(const KnownQueue& queue) const {
  core::Past all;
  const auto read = each(queue, [&](const core::Past& past) {
    for (const auto& [hour, totals] : past.hours) all.hours[hour].add(totals);
    all.damaged = all.damaged || past.damaged;
  });
  if (!read) return read.error();
  return all;
}

// By what is not there it is decided, so the leader is asked.
Result<core::Sequences> PastTotals::missing_of(const core::Sequences& numbers) const {
  std::map<std::string, core::Sequences> by_piece;
  for (const auto& [first, last] : numbers.ranges())
    for (std::uint64_t from = first; from <= last;) {
      const std::uint64_t to = std::min(last, (from / Subjects::kRange + 1) * Subjects::kRange - 1);
      by_piece[zone_.subjects.gone(from)].add(from, to);
      from = to + 1;
    }
  std::vector<std::string> subjects;
  for (const auto& [subject, wanted] : by_piece) subjects.push_back(subject);
  const auto pieces = zone_.client.last(zone_.subjects.meta_stream(), subjects);
  std::vector<std::uint64_t> untold;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    if (!pieces[i]) return pieces[i].error();
    const auto past = past_from(*pieces[i]);
    if (!past) return past.error();
    for (const auto& [first, last] : by_piece[subjects[i]].ranges()) {
      const core::Sequences holes = past->ids.missing(first - 1, last);
      for (const auto& [from, to] : holes.ranges())
        for (std::uint64_t number = from; number <= to; ++number) untold.push_back(number);
    }
  }
  // What a retirement wrote has a number, too.
  core::Sequences missing;
  const auto messages = zone_.client.get(zone_.subjects.log_stream(), untold);
  for (std::size_t i = 0; i < untold.size(); ++i) {
    if (!messages[i]) return messages[i].error();
    if (!*messages[i]) missing.add(untold[i]);
  }
  return missing;
}

}  // namespace once::store::nats
