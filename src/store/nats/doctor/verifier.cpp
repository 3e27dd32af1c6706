#include "store/nats/doctor/verifier.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "codec/digest.h"
#include "store/nats/keys/flow_move.h"

namespace once::store::nats {
namespace {

constexpr std::size_t kVerifiedAtOnce = 200;  // messages per call

std::string number(Sequence sequence) { return "#" + std::to_string(sequence.value); }

// "log 17": the stream, and the last message of it that was read.
struct Mark {
  bool ledger = false;
  std::uint64_t sequence{};

  static Mark from(const std::string& after) {
    Mark mark{.ledger = after.starts_with("ledger ")};
    if (const auto space = after.find(' '); space != std::string::npos)
      std::from_chars(after.data() + space + 1, after.data() + after.size(), mark.sequence);
    return mark;
  }
};

// once . zone . log|sys|old . id . rest
std::string id_root(std::string_view subject) {
  std::size_t dot = 0;
  for (int i = 0; i < 3; ++i) dot = subject.find('.', dot) + 1;
  return std::string(subject.substr(dot, subject.find('.', dot) - dot));
}

std::string digest_harm() {
  return "a handler gets what nobody published, or a true repetition is refused as a conflict";
}

}  // namespace

void Verifier::verify_task(const StreamMessage& message, std::vector<Damage>& damages) const {
  const auto entry = log_entry_from(message, zone_.clock);
  Damage damage{.sequence = {message.sequence}};
  const auto tell = [&](std::string what, std::string harm) {
    damage.what = std::move(what);
    damage.harm = std::move(harm);
    damages.push_back(damage);
  };
  if (!entry)
    return tell(entry.error().message, "the task does not run, and its queue stands still");
  const Entry& task = entry->entry;
  damage.sequence = task.sequence;
  damage.task = task.id;
  const bool retired = entry->stage != core::Stage::whole;
  const std::string subject = retired ? zone_.subjects.old(task.id, task.sequence)
                                      : zone_.subjects.log(task.id, task.topic);
  if (message.subject != subject)
    tell(number(task.sequence) + " lies under the subject " + message.subject +
             ", which is not the one of its id and topic",
         "a publish of the same id is accepted and runs a second time");
  if (retired) return;
  const auto digest = encoding::content_digest(task.topic, *task.body);
  if (!digest || *digest != task.digest)
    tell(number(task.sequence) + ": its topic and body do not match its digest", digest_harm());
}

// Of each id there is one message, or a task and what its retirement left when that was cut off.
Result<void> Verifier::verify_ids(std::span<const StreamMessage> page,
                                  std::vector<Damage>& damages) const {
  std::map<std::string, std::map<Sequence, std::string>> ids;  // sequences and ids, by their token
  const auto note = [&](const StreamMessage& message) {
    if (const auto entry = log_entry_from(message, zone_.clock))
      ids[id_root(message.subject)].try_emplace(entry->entry.sequence, entry->entry.id);
  };
  for (const StreamMessage& message : page) note(message);
  if (ids.empty()) return {};
  std::vector<std::string> filters;
  for (const auto& [root, entries] : ids)
    filters.push_back(zone_.subjects.all_of(entries.begin()->second));
  // The server tells the last message of each subject. The others of a subject are in the page.
  const auto found = zone_.client.last_of_each(zone_.subjects.log_stream(), filters);
  if (!found) return found.error();
  for (const auto& [subject, message] : *found) note(message);
  for (const auto& [root, entries] : ids) {
    if (entries.size() < 2) continue;
    const auto& [first, id] = *entries.begin();
    const Sequence last = entries.rbegin()->first;
    // An id may have been forgotten and published anew since the page was read.
    const auto there = log_.entry_at(first);
    if (!there) return there.error();
    if (!*there) continue;
    damages.push_back({.sequence = last,
                       .task = id,
                       .what = number(first) + " and " + number(last) + " have the same id",
                       .harm = "the task runs twice"});
  }
  return {};
}

Result<void> Verifier::verify_record(const KnownQueue& queue, const StreamMessage& message,
                                     std::vector<Damage>& damages) {
  if (FlowMove::is_sealed(message)) return {};
  const RecordPlace place = place_of(message);
  Damage damage{.queue = queue.definition.name, .sequence = place.sequence, .task = place.key};
  const auto tell = [&](std::string what, std::string harm) {
    damage.what = std::move(what);
    damage.harm = std::move(harm);
    damages.push_back(damage);
  };
  const auto stored = values_.whole_record(message);
  if (!stored && stored.error().code == Code::store_unusable) {
    tell("a record of the ledger cannot be read: " + stored.error().message,
         "the task does not run until the record is mended, or its result is lost");
    return {};
  }
  if (!stored) return stored.error();
  // Written anew or forgotten meanwhile: what is there now is looked at in its turn.
  if (!*stored || (*stored)->revision.value != message.sequence) return {};
  const core::Record& record = (*stored)->record;
  if (!damage.sequence) damage.sequence = record.sequence;
  std::optional<Digest> digest;
  const bool of_log = place.kind != 'l' && record.sequence && !queue.foreign();
  if (of_log) {
    const auto entry = log_.entry_at(record.sequence);
    if (!entry) return entry.error();
    if (*entry) {
      digest = (*entry)->entry.digest;
      if (place.kind == 'k' && queue.definition.key.empty() && !queue.definition.ledger &&
          place.key != (*entry)->entry.id)
        tell("the record of '" + place.key + "' is about " + number(record.sequence) +
                 ", which has the id '" + (*entry)->entry.id + "'",
             "one of the two tasks is taken for the other: it does not run, or runs again");
    }
  }
  const core::RecordNote noted{.state = record.state,
                               .member = record.member,
                               .sequence = place.sequence,
                               .revision = {message.sequence},
                               .digest = digest ? &*digest : nullptr};
  if (auto wrong = core::contradiction(record, noted); !wrong.empty())
    tell(number(record.sequence) + ": " + wrong, "the task may run again, or never");
  return {};
}

Result<void> Verifier::verify_records(std::span<const StreamMessage> page,
                                      std::vector<Damage>& damages) {
  const auto queues = registry_.all();
  if (!queues) return queues.error();
  for (const StreamMessage& message : page)
    for (const KnownQueue& queue : *queues)
      if (const std::string all = zone_.subjects.records(queue);
          message.subject.starts_with(std::string_view(all).substr(0, all.size() - 1)))
        if (auto looked = verify_record(queue, message, damages); !looked) return looked;
  return {};
}

Result<Store::VerifyPage> Verifier::verify(Store::Depth depth, const std::string& after) {
  Store::VerifyPage page;
  if (depth == Store::Depth::quick) return page;  // the server counts, and nobody can set it back
  const Mark mark = Mark::from(after);
  std::vector<StreamMessage> messages;
  const auto more = mark.ledger
                        ? zone_.client.page(zone_.subjects.ledger_stream(), ">", mark.sequence + 1,
                                            kVerifiedAtOnce, messages)
                        : zone_.client.page(zone_.subjects.log_stream(), zone_.subjects.whole_log(),
                                            mark.sequence + 1, kVerifiedAtOnce, messages);
  if (!more) return more.error();
  if (mark.ledger) {
    if (auto looked = verify_records(messages, page.damages); !looked) return looked.error();
  } else {
    for (const StreamMessage& message : messages) verify_task(message, page.damages);
    if (auto looked = verify_ids(messages, page.damages); !looked) return looked.error();
  }
  page.done = mark.ledger ? 0.5 : 0;
  if (*more && !messages.empty())
    page.next = (mark.ledger ? "ledger " : "log ") + std::to_string(messages.back().sequence);
  else if (!mark.ledger)
    page.next = "ledger 0";
  return page;
}

}  // namespace once::store::nats
