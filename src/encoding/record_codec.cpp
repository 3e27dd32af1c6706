// A record as bytes (wire.h has fields and checksum):
//
//   record  := 0x01 field* checksum      fields in ascending order, only `attempt` repeated
//
//    1 sequence    2 digest (32 bytes)   3 state      4 claims    5 counted     6 in doubt (1)
//    7 nonce (16)  8 member              9 lease ms  10 delay ms                12 attempt
//   13 result as JSON text              14 result as bytes       15 result cut (1)
//   16 error      17 reason             18 since, ms since 1970
//
//   attempt := field*
//    1 number  2 worker  3 token  4 started, ms since 1970  5 ended  6 ending  7 error
//
// A field that has its default is left out. Durations and times are signed. Numbers of states:
// kStates below; of endings: core::Ending. Numbers are never given a second meaning.
#include "encoding/record_codec.h"

#include <algorithm>
#include <array>
#include <limits>

#include "encoding/wire.h"

namespace once::encoding {
namespace {

using core::Attempt;
using core::Ending;
using core::Record;

constexpr unsigned char kVersion = 1;

// The place in this list is what is written, so that the enum may be put in another order.
constexpr std::array kStates = {
    State::waiting, State::running,   State::retrying,  State::in_doubt,  State::completed,
    State::dead,    State::cancelled, State::duplicate, State::scheduled,
};

enum RecordField : unsigned {
  kSequence = 1,
  kDigest = 2,
  kState = 3,
  kClaims = 4,
  kCounted = 5,
  kInDoubt = 6,
  kNonce = 7,
  kMember = 8,
  kLease = 9,
  kDelay = 10,
  kAttempt = 12,
  kResultJson = 13,
  kResultBytes = 14,
  kResultCut = 15,
  kError = 16,
  kReason = 17,
  kSince = 18,
};

enum AttemptField : unsigned {
  kNumber = 1,
  kWorker = 2,
  kToken = 3,
  kStartedAt = 4,
  kEndedAt = 5,
  kEnding = 6,
  kAttemptError = 7,
};

void put(unsigned field, std::uint64_t value, std::string& out) {
  if (value != 0) append_number_field(field, value, out);
}
void put(unsigned field, Duration value, std::string& out) {
  put(field, fold_sign(value.count()), out);
}
void put(unsigned field, Time value, std::string& out) {
  put(field, value.time_since_epoch(), out);
}
void put(unsigned field, std::string_view value, std::string& out) {
  if (!value.empty()) append_bytes_field(field, value, out);
}
template <std::size_t N, class Tag>
void put(unsigned field, const core::Bytes<N, Tag>& value, std::string& out) {
  if (value == core::Bytes<N, Tag>{}) return;
  append_bytes_field(field, {reinterpret_cast<const char*>(value.bytes.data()), N}, out);
}

void put(const Attempt& attempt, std::string& out) {
  const std::size_t begin = out.size();
  put(kNumber, std::uint64_t{attempt.number}, out);
  put(kWorker, attempt.worker, out);
  put(kToken, attempt.token.value, out);
  put(kStartedAt, attempt.started_at, out);
  if (attempt.ended_at) {
    append_number_field(kEndedAt, fold_sign(attempt.ended_at->time_since_epoch().count()), out);
  }
  put(kEnding, static_cast<std::uint64_t>(attempt.ending), out);
  put(kAttemptError, attempt.error, out);

  // The size stands before the attempt and is known only now: moving a few bytes is cheaper than a
  // second string.
  std::string head;
  append_varint(kAttempt * 2 + static_cast<unsigned>(WireKind::bytes), head);
  append_varint(out.size() - begin, head);
  out.insert(begin, head);
}

// Takes values out of fields; the first that does not fit makes the record damaged.
class FieldTaker {
 public:
  explicit FieldTaker(const WireField& field) : field_(field) {}
  bool fits() const { return fits_; }

  void to(std::uint64_t& target) { target = number(std::numeric_limits<std::uint64_t>::max()); }
  void to(std::uint32_t& target) {
    target = static_cast<std::uint32_t>(number(std::numeric_limits<std::uint32_t>::max()));
  }
  void to(bool& target) { target = number(1) != 0; }
  void to(Duration& target) {
    target = Duration{unfold_sign(number(std::numeric_limits<std::uint64_t>::max()))};
  }
  void to(Time& target) {
    Duration since_epoch{};
    to(since_epoch);
    target = Time{since_epoch};
  }
  void to(std::string& target) { target = bytes(); }
  void to(State& target) { target = kStates[number(kStates.size() - 1)]; }
  void to(Ending& target) {
    target = static_cast<Ending>(number(static_cast<std::uint64_t>(Ending::released)));
  }
  template <std::size_t N, class Tag>
  void to(core::Bytes<N, Tag>& target) {
    const std::string_view given = bytes();
    if (given.size() != N) {
      fits_ = false;
      return;
    }
    std::copy(given.begin(), given.end(), target.bytes.begin());
  }
  void to(Body& target, bool json) {
    const std::string_view given = bytes();
    if (!json) {
      target = Body::bytes(std::string(given));
    } else if (auto body = Body::json(given)) {
      target = std::move(*body);
    } else {
      fits_ = false;
    }
  }

  std::string_view bytes() {
    if (field_.kind != WireKind::bytes) fits_ = false;
    return field_.bytes;
  }

 private:
  std::uint64_t number(std::uint64_t highest) {
    if (field_.kind == WireKind::number && field_.value <= highest) return field_.value;
    fits_ = false;
    return 0;
  }

  const WireField& field_;
  bool fits_ = true;
};

bool take(const WireField& field, Attempt& attempt) {
  FieldTaker taker(field);
  switch (field.number) {
    case kNumber: taker.to(attempt.number); break;
    case kWorker: taker.to(attempt.worker); break;
    case kToken: taker.to(attempt.token.value); break;
    case kStartedAt: taker.to(attempt.started_at); break;
    case kEndedAt: taker.to(attempt.ended_at.emplace()); break;
    case kEnding: taker.to(attempt.ending); break;
    case kAttemptError: taker.to(attempt.error); break;
    default: break;  // of a newer writer
  }
  return taker.fits();
}

template <class Target>
bool take_all(std::string_view bytes, Target& target);

bool take(const WireField& field, Record& record) {
  FieldTaker taker(field);
  switch (field.number) {
    case kSequence: taker.to(record.sequence.value); break;
    case kDigest: taker.to(record.digest); break;
    case kState: taker.to(record.state); break;
    case kClaims: taker.to(record.claims); break;
    case kCounted: taker.to(record.counted); break;
    case kInDoubt: taker.to(record.in_doubt); break;
    case kNonce: taker.to(record.nonce); break;
    case kMember: taker.to(record.member.value); break;
    case kLease: taker.to(record.lease); break;
    case kDelay: taker.to(record.delay); break;
    case kAttempt: {
      const std::string_view bytes = taker.bytes();
      return taker.fits() && take_all(bytes, record.attempts.emplace_back());
    }
    case kResultJson: taker.to(record.result.emplace(), true); break;
    case kResultBytes:
      if (record.result) return false;
      taker.to(record.result.emplace(), false);
      break;
    case kResultCut: taker.to(record.result_cut); break;
    case kError: taker.to(record.error); break;
    case kReason: taker.to(record.reason); break;
    case kSince: taker.to(record.since); break;
    default: break;  // of a newer writer
  }
  return taker.fits();
}

template <class Target>
bool take_all(std::string_view bytes, Target& target) {
  constexpr bool kOfRecord = std::is_same_v<Target, Record>;
  WireReader reader(bytes);
  std::uint64_t last = 0;
  while (!reader.at_end()) {
    const auto field = reader.next();
    if (!field || field->number < last || field->number == 0) return false;
    const std::uint64_t last_known = kOfRecord ? +kSince : +kAttemptError;
    const bool may_repeat = field->number > last_known || (kOfRecord && field->number == kAttempt);
    if (field->number == last && !may_repeat) return false;
    if (!take(*field, target)) return false;
    last = field->number;
  }
  return true;
}

Error damaged(std::string_view what) {
  return Error{.code = Code::store_unusable,
               .message = "a ledger record is damaged (" + std::string(what) +
                          "); nothing was changed: restore the store from a backup"};
}

}  // namespace

std::string encode(const Record& record) {
  std::size_t size = 160 + record.error.size() + record.reason.size();
  if (record.result) size += record.result->text().size();
  for (const Attempt& attempt : record.attempts) {
    size += 48 + attempt.worker.size() + attempt.error.size();
  }
  std::string out;
  out.reserve(size);
  out += static_cast<char>(kVersion);
  put(kSequence, record.sequence.value, out);
  put(kDigest, record.digest, out);
  const auto state = std::find(kStates.begin(), kStates.end(), record.state);
  put(kState, static_cast<std::uint64_t>(state - kStates.begin()), out);
  put(kClaims, std::uint64_t{record.claims}, out);
  put(kCounted, std::uint64_t{record.counted}, out);
  put(kInDoubt, std::uint64_t{record.in_doubt}, out);
  put(kNonce, record.nonce, out);
  put(kMember, record.member.value, out);
  put(kLease, record.lease, out);
  put(kDelay, record.delay, out);
  for (const Attempt& attempt : record.attempts) put(attempt, out);
  if (record.result) {
    append_bytes_field(record.result->is_json() ? kResultJson : kResultBytes, record.result->text(),
                       out);
  }
  put(kResultCut, std::uint64_t{record.result_cut}, out);
  put(kError, record.error, out);
  put(kReason, record.reason, out);
  put(kSince, record.since, out);
  append_checksum(out);
  return out;
}

Result<Record> decode(std::string_view bytes) {
  if (bytes.empty()) return damaged("it is empty");
  const unsigned version = static_cast<unsigned char>(bytes.front());
  if (version > kVersion) {
    return Error{.code = Code::store_unusable,
                 .message = "a ledger record was written by a newer once (format " +
                            std::to_string(version) + ", this one reads up to " +
                            std::to_string(kVersion) +
                            "); nothing was changed: use that once or a newer one"};
  }
  if (version != kVersion) return damaged("there is no format 0");
  const auto content = checked(bytes);
  if (!content || content->empty()) return damaged("its checksum does not fit");
  Record record;
  if (!take_all(content->substr(1), record)) return damaged("its fields cannot be read");
  return record;
}

}  // namespace once::encoding
