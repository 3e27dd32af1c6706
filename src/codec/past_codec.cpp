// The past of a range of tasks as bytes (wire.h has fields and checksum):
//
//   past    := 0x01 field* checksum
//    1 range of records   2 range of ids   3 hour   4 damaged (1)
//   range   := varint(first) varint(last - first)
//   hour    := field*
//    1 hours since 1970, signed   2 published   3 duplicates at append   4 duplicates by the ledger
//    5 attempts   6 completed twice   7 states   8 re-runs   9 to start   10 sum of these, ms
//   11 to record  12 sum of these, ms
//   states, re-runs, to start, to record := varint*      by number of the enumeration or bound
//
// A field that is zero is left out. States are numbered as in once/view.h, re-runs and bounds as in
// once/audit.h: new ones come at the end.
#include "codec/past_codec.h"

#include "codec/wire.h"

namespace once::encoding {
namespace {

constexpr char kPastVersion = 1;

enum PastField : unsigned { kRecords = 1, kIds = 2, kHour = 3, kDamaged = 4 };
enum HourField : unsigned {
  kWhich = 1,
  kPublished = 2,
  kAtAppend = 3,
  kByLedger = 4,
  kAttempts = 5,
  kTwice = 6,
  kStates = 7,
  kReruns = 8,
  kToStart = 9,
  kToStartSum = 10,
  kToRecord = 11,
  kToRecordSum = 12,
};

void put(unsigned field, std::uint64_t value, std::string& out) {
  if (value != 0) append_number_field(field, value, out);
}

template <std::size_t N>
void put(unsigned field, const std::array<std::uint64_t, N>& values, std::string& out) {
  if (values == std::array<std::uint64_t, N>{}) return;
  std::string bytes;
  for (const std::uint64_t value : values) append_varint(value, bytes);
  append_bytes_field(field, bytes, out);
}

void put(unsigned field, const core::Sequences& sequences, std::string& out) {
  for (const auto& [first, last] : sequences.ranges()) {
    std::string bytes;
    append_varint(first, bytes);
    append_varint(last - first, bytes);
    append_bytes_field(field, bytes, out);
  }
}

std::string hour_bytes(std::int64_t hour, const Totals& totals) {
  std::string out;
  put(kWhich, fold_sign(hour), out);
  put(kPublished, totals.published, out);
  put(kAtAppend, totals.duplicates_at_append, out);
  put(kByLedger, totals.duplicates_by_ledger, out);
  put(kAttempts, totals.attempts, out);
  put(kTwice, totals.completed_twice, out);
  put(kStates, totals.states, out);
  put(kReruns, totals.reruns, out);
  put(kToStart, totals.to_start.counts, out);
  put(kToStartSum, fold_sign(totals.to_start.sum.count()), out);
  put(kToRecord, totals.to_record.counts, out);
  put(kToRecordSum, fold_sign(totals.to_record.sum.count()), out);
  return out;
}

// Fewer than there are: an older version did not know the rest. More: a newer one does.
template <std::size_t N>
bool take(std::string_view bytes, std::array<std::uint64_t, N>& into) {
  VarintReader reader(bytes);
  for (std::size_t i = 0; !reader.at_end(); ++i) {
    const auto value = reader.next();
    if (!value) return false;
    if (i < N) into[i] = *value;
  }
  return true;
}

bool take(std::string_view bytes, core::Sequences& into) {
  VarintReader reader(bytes);
  const auto first = reader.next();
  const auto length = first ? reader.next() : std::nullopt;
  if (!length || !reader.at_end() || *first + *length < *first || *first + *length == UINT64_MAX)
    return false;
  into.add(*first, *first + *length);
  return true;
}

bool take_hour(std::string_view bytes, core::Past& into) {
  std::int64_t hour = 0;
  Totals totals;
  for (WireReader reader(bytes); !reader.at_end();) {
    const auto field = reader.next();
    if (!field) return false;
    switch (field->number) {
      case kWhich: hour = unfold_sign(field->value); break;
      case kPublished: totals.published = field->value; break;
      case kAtAppend: totals.duplicates_at_append = field->value; break;
      case kByLedger: totals.duplicates_by_ledger = field->value; break;
      case kAttempts: totals.attempts = field->value; break;
      case kTwice: totals.completed_twice = field->value; break;
      case kToStartSum: totals.to_start.sum = Duration{unfold_sign(field->value)}; break;
      case kToRecordSum: totals.to_record.sum = Duration{unfold_sign(field->value)}; break;
      case kStates:
        if (!take(field->bytes, totals.states)) return false;
        break;
      case kReruns:
        if (!take(field->bytes, totals.reruns)) return false;
        break;
      case kToStart:
        if (!take(field->bytes, totals.to_start.counts)) return false;
        break;
      case kToRecord:
        if (!take(field->bytes, totals.to_record.counts)) return false;
        break;
      default: break;  // a newer version's
    }
  }
  into.hours[hour].add(totals);
  return true;
}

bool take_fields(std::string_view bytes, core::Past& into) {
  for (WireReader reader(bytes); !reader.at_end();) {
    const auto field = reader.next();
    if (!field) return false;
    if (field->number == kRecords && !take(field->bytes, into.records)) return false;
    if (field->number == kIds && !take(field->bytes, into.ids)) return false;
    if (field->number == kHour && !take_hour(field->bytes, into)) return false;
    if (field->number == kDamaged) into.damaged = field->value != 0;
  }
  return true;
}

}  // namespace

std::string encode(const core::Past& past) {
  std::string out(1, kPastVersion);
  put(kRecords, past.records, out);
  put(kIds, past.ids, out);
  for (const auto& [hour, totals] : past.hours)
    append_bytes_field(kHour, hour_bytes(hour, totals), out);
  put(kDamaged, std::uint64_t{past.damaged}, out);
  append_checksum(out);
  return out;
}

Result<core::Past> decode_past(std::string_view bytes) {
  const auto content = checked(bytes);
  if (content && !content->empty() && content->front() > kPastVersion)
    return Error{.code = Code::store_unusable,
                 .message =
                     "the totals of the past were written by a newer version of Once; "
                     "nothing was changed; use that version"};
  core::Past past;
  if (content && !content->empty() && content->front() == kPastVersion &&
      take_fields(content->substr(1), past))
    return past;
  return core::Past{.damaged = true};
}

}  // namespace once::encoding
