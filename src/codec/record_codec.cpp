// A record and an order as bytes (wire.h has fields and checksum):
//
//   record  := 0x01 field* checksum      fields in ascending order, only attempt, step and action
//                                        (and the backoff of an own policy) repeated
//
//    1 sequence    2 digest (32 bytes)   3 state      4 claims    5 counted     6 in doubt (1)
//    7 nonce (16)  8 member              9 lease ms  10 delay ms                12 attempt
//   13 result as JSON text              14 result as bytes       15 result cut (1)
//   16 error      17 reason             18 since, ms since 1970
//   19 step       20 action               21 actions     22 probe (1)              23 cancel asked (1)
//   24 reply to   25 reply due (1)      26 own policy            27 offer          28 lapsed
//   29 started, ms of the store's time
//
//   attempt := field*
//    1 number  2 worker  3 token  4 started, ms since 1970  5 ended  6 ending  7 error  8 probing
//    9 log    10 nonce (16)
//   step    := field*
//    1 name    2 state   3 policy 4 attempt  5 runs  6 started, ms since 1970  7 ended
//    8 result as JSON text   9 result as bytes   10 result cut (1)   11 failed   12 error   13 call
//   action    := field*
//    1 act     2 at, ms since 1970   3 by   4 why   5 step   6 nonce (16)
//   reply to := field*
//    1 topic   2 id
//   own policy := field*
//    1 attempts   2 backoff ms   3 jitter permille, left out when 200   4 timeout ms
//    5 in doubt: its policy + 1
//   offer   := field*
//    1 worker   2 at, ms since 1970   3 the state before it   4 can probe (1)
//
//   order   := 0x01 field* checksum
//    1 kind    2 nonce (16)   3 at, ms since 1970   4 by   5 why   6 step
//    7 result as JSON text   8 result as bytes
//
// A field that has its default is left out. Durations and times are signed. Numbers of states:
// kStates below; of policies: kPolicies; of the others: the enumerations in core/record.h. Numbers
// are never given a second meaning.
#include "codec/record_codec.h"

#include <algorithm>
#include <array>
#include <limits>

#include "codec/wire.h"

namespace once::encoding {
namespace {

using core::Attempt;
using core::Ending;
using core::Offer;
using core::OperatorAction;
using core::Order;
using core::Record;
using core::ReplyTo;
using core::Step;
using core::TaskPolicy;

constexpr unsigned char kRecordVersion = 1;

// The place in this list is what is written, so that the enum may be put in another order.
constexpr std::array kStates = {
    State::waiting, State::running,   State::retrying,  State::in_doubt,  State::completed,
    State::dead,    State::cancelled, State::duplicate, State::scheduled,
};
constexpr std::array kPolicies = {InDoubt::retry, InDoubt::steps, InDoubt::hold, InDoubt::probe};

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
  kStep = 19,
  kAction = 20,
  kActions = 21,
  kProbe = 22,
  kCancelAsked = 23,
  kReply = 24,
  kReplyDue = 25,
  kOwn = 26,
  kOffer = 27,
  kLapsed = 28,
  kStarted = 29,
};

enum AttemptField : unsigned {
  kNumber = 1,
  kWorker = 2,
  kToken = 3,
  kStartedAt = 4,
  kEndedAt = 5,
  kEnding = 6,
  kAttemptError = 7,
  kProbing = 8,
  kLog = 9,
  kAttemptNonce = 10,
};

enum StepField : unsigned {
  kStepName = 1,
  kStepState = 2,
  kStepPolicy = 3,
  kStepAttempt = 4,
  kStepRuns = 5,
  kStepStartedAt = 6,
  kStepEndedAt = 7,
  kStepResultJson = 8,
  kStepResultBytes = 9,
  kStepResultCut = 10,
  kStepFailed = 11,
  kStepError = 12,
  kStepCall = 13,
};

enum ActionField : unsigned {
  kActionAct = 1,
  kActionAt = 2,
  kActionBy = 3,
  kActionWhy = 4,
  kActionStep = 5,
  kActionNonce = 6,
};

enum ReplyField : unsigned {
  kReplyTopic = 1,
  kReplyId = 2,
};

enum OwnField : unsigned {
  kOwnAttempts = 1,
  kOwnBackoff = 2,
  kOwnJitter = 3,
  kOwnTimeout = 4,
  kOwnInDoubt = 5,
};

enum OfferField : unsigned {
  kOfferWorker = 1,
  kOfferAt = 2,
  kOfferBefore = 3,
  kOfferCanProbe = 4,
};

enum OrderField : unsigned {
  kOrderKind = 1,
  kOrderNonce = 2,
  kOrderAt = 3,
  kOrderBy = 4,
  kOrderWhy = 5,
  kOrderStep = 6,
  kOrderResultJson = 7,
  kOrderResultBytes = 8,
  kOrderClaims = 9,
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

void put(unsigned field, const std::optional<Time>& value, std::string& out) {
  if (value) append_number_field(field, fold_sign(value->time_since_epoch().count()), out);
}
template <class Enum, std::size_t N>
void put(unsigned field, const std::array<Enum, N>& numbers, Enum value, std::string& out) {
  const auto number = std::find(numbers.begin(), numbers.end(), value) - numbers.begin();
  put(field, static_cast<std::uint64_t>(number), out);
}

// A result that may be there: its field follows from what it is.
void put_result(unsigned json_field, unsigned bytes_field, const Body& body, std::string& out) {
  append_bytes_field(body.is_json() ? json_field : bytes_field, body.text(), out);
}

void put_fields(const Attempt& attempt, std::string& out) {
  put(kNumber, std::uint64_t{attempt.number}, out);
  put(kWorker, attempt.worker, out);
  put(kToken, attempt.token.value, out);
  put(kStartedAt, attempt.started_at, out);
  put(kEndedAt, attempt.ended_at, out);
  put(kEnding, static_cast<std::uint64_t>(attempt.ending), out);
  put(kAttemptError, attempt.error, out);
  put(kProbing, std::uint64_t{attempt.probing}, out);
  put(kLog, attempt.log, out);
  put(kAttemptNonce, attempt.nonce, out);
}

void put_fields(const Step& step, std::string& out) {
  put(kStepName, step.name, out);
  put(kStepState, static_cast<std::uint64_t>(step.state), out);
  put(kStepPolicy, kPolicies, step.policy, out);
  put(kStepAttempt, std::uint64_t{step.attempt}, out);
  put(kStepRuns, std::uint64_t{step.runs}, out);
  put(kStepStartedAt, step.started_at, out);
  put(kStepEndedAt, step.ended_at, out);
  if (step.result != Body()) put_result(kStepResultJson, kStepResultBytes, step.result, out);
  put(kStepResultCut, std::uint64_t{step.result_cut}, out);
  put(kStepFailed, std::uint64_t{step.failed}, out);
  put(kStepError, step.error, out);
  put(kStepCall, step.call, out);
}

void put_fields(const OperatorAction& action, std::string& out) {
  put(kActionAct, static_cast<std::uint64_t>(action.act), out);
  put(kActionAt, action.at, out);
  put(kActionBy, action.by, out);
  put(kActionWhy, action.why, out);
  put(kActionStep, action.step, out);
  put(kActionNonce, action.nonce, out);
}

void put_fields(const ReplyTo& reply, std::string& out) {
  put(kReplyTopic, reply.topic, out);
  put(kReplyId, reply.id, out);
}

void put_fields(const TaskPolicy& own, std::string& out) {
  put(kOwnAttempts, std::uint64_t{own.attempts}, out);
  for (const Duration wait : own.backoff)
    append_number_field(kOwnBackoff, fold_sign(wait.count()), out);
  if (own.jitter_permille != core::kJitter)
    append_number_field(kOwnJitter, own.jitter_permille, out);
  put(kOwnTimeout, own.timeout, out);
  if (!own.in_doubt) return;
  const auto policy = std::find(kPolicies.begin(), kPolicies.end(), *own.in_doubt);
  append_number_field(kOwnInDoubt, static_cast<std::uint64_t>(policy - kPolicies.begin()) + 1, out);
}

void put_fields(const Offer& offer, std::string& out) {
  put(kOfferWorker, offer.worker, out);
  put(kOfferAt, offer.at, out);
  put(kOfferBefore, kStates, offer.before, out);
  put(kOfferCanProbe, std::uint64_t{offer.can_probe}, out);
}

template <class Part>
void put_part(unsigned field, const Part& part, std::string& out) {
  const std::size_t begin = out.size();
  put_fields(part, out);
  // The size stands before the part and is known only now: moving a few bytes is cheaper than a
  // second string.
  char head[2 * kLongestVarint];
  const char* const end = write_varint(
      out.size() - begin, write_varint(field * 2 + static_cast<unsigned>(WireKind::bytes), head));
  out.insert(begin, head, static_cast<std::size_t>(end - head));
}

template <class Part>
void put_all(unsigned field, const std::vector<Part>& parts, std::string& out) {
  for (const Part& part : parts) put_part(field, part, out);
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
  void to(core::StoreTime& target) {
    Duration since_start{};
    to(since_start);
    target = core::StoreTime{since_start};
  }
  void to(std::string& target) { target = bytes(); }
  void to(State& target) { target = kStates[number(kStates.size() - 1)]; }
  void to(InDoubt& target) { target = kPolicies[number(kPolicies.size() - 1)]; }
  void to(Ending& target) { to(target, Ending::released); }
  void to(Step::State& target) { to(target, Step::State::again); }
  void to(OperatorAction::Act& target) { to(target, OperatorAction::Act::step_completed); }
  void to(Order::Kind& target) { to(target, Order::Kind::complete_step); }
  void to(std::optional<InDoubt>& target) {
    const std::uint64_t place = number(kPolicies.size());
    if (place == 0) fits_ = false;
    if (fits_) target = kPolicies[place - 1];
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
  template <class Enum>
  void to(Enum& target, Enum last) {
    target = static_cast<Enum>(number(static_cast<std::uint64_t>(last)));
  }

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
    case kProbing: taker.to(attempt.probing); break;
    case kLog: taker.to(attempt.log); break;
    case kAttemptNonce: taker.to(attempt.nonce); break;
    default: break;  // of a newer writer
  }
  return taker.fits();
}

bool take(const WireField& field, Step& step) {
  FieldTaker taker(field);
  switch (field.number) {
    case kStepName: taker.to(step.name); break;
    case kStepState: taker.to(step.state); break;
    case kStepPolicy: taker.to(step.policy); break;
    case kStepAttempt: taker.to(step.attempt); break;
    case kStepRuns: taker.to(step.runs); break;
    case kStepStartedAt: taker.to(step.started_at); break;
    case kStepEndedAt: taker.to(step.ended_at.emplace()); break;
    case kStepResultJson: taker.to(step.result, true); break;
    case kStepResultBytes:
      if (step.result != Body()) return false;
      taker.to(step.result, false);
      break;
    case kStepResultCut: taker.to(step.result_cut); break;
    case kStepFailed: taker.to(step.failed); break;
    case kStepError: taker.to(step.error); break;
    case kStepCall: taker.to(step.call); break;
    default: break;  // of a newer writer
  }
  return taker.fits();
}

bool take(const WireField& field, OperatorAction& action) {
  FieldTaker taker(field);
  switch (field.number) {
    case kActionAct: taker.to(action.act); break;
    case kActionAt: taker.to(action.at); break;
    case kActionBy: taker.to(action.by); break;
    case kActionWhy: taker.to(action.why); break;
    case kActionStep: taker.to(action.step); break;
    case kActionNonce: taker.to(action.nonce); break;
    default: break;  // of a newer writer
  }
  return taker.fits();
}

bool take(const WireField& field, Order& order) {
  FieldTaker taker(field);
  switch (field.number) {
    case kOrderKind: taker.to(order.kind); break;
    case kOrderNonce: taker.to(order.nonce); break;
    case kOrderAt: taker.to(order.at); break;
    case kOrderBy: taker.to(order.by); break;
    case kOrderWhy: taker.to(order.why); break;
    case kOrderStep: taker.to(order.step); break;
    case kOrderResultJson: taker.to(order.result, true); break;
    case kOrderClaims: taker.to(order.claims); break;
    case kOrderResultBytes:
      if (order.result != Body()) return false;
      taker.to(order.result, false);
      break;
    default: break;  // of a newer writer
  }
  return taker.fits();
}

bool take(const WireField& field, ReplyTo& reply) {
  FieldTaker taker(field);
  switch (field.number) {
    case kReplyTopic: taker.to(reply.topic); break;
    case kReplyId: taker.to(reply.id); break;
    default: break;  // of a newer writer
  }
  return taker.fits();
}

bool take(const WireField& field, TaskPolicy& own) {
  FieldTaker taker(field);
  switch (field.number) {
    case kOwnAttempts: taker.to(own.attempts); break;
    case kOwnBackoff: taker.to(own.backoff.emplace_back()); break;
    case kOwnJitter: taker.to(own.jitter_permille); break;
    case kOwnTimeout: taker.to(own.timeout); break;
    case kOwnInDoubt: taker.to(own.in_doubt); break;
    default: break;  // of a newer writer
  }
  return taker.fits();
}

bool take(const WireField& field, Offer& offer) {
  FieldTaker taker(field);
  switch (field.number) {
    case kOfferWorker: taker.to(offer.worker); break;
    case kOfferAt: taker.to(offer.at); break;
    case kOfferBefore: taker.to(offer.before); break;
    case kOfferCanProbe: taker.to(offer.can_probe); break;
    default: break;  // of a newer writer
  }
  return taker.fits();
}

template <class Target>
bool take_all(std::string_view bytes, Target& target);

// `parts`: a vector, or an optional.
template <class Parts>
bool take_part(FieldTaker& taker, Parts& parts) {
  const std::string_view bytes = taker.bytes();
  if (!taker.fits()) return false;
  if constexpr (requires { parts.emplace_back(); })
    return take_all(bytes, parts.emplace_back());
  else
    return take_all(bytes, parts.emplace());
}

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
    case kAttempt: return take_part(taker, record.attempts);
    case kResultJson: taker.to(record.result.emplace(), true); break;
    case kResultBytes:
      if (record.result) return false;
      taker.to(record.result.emplace(), false);
      break;
    case kResultCut: taker.to(record.result_cut); break;
    case kError: taker.to(record.error); break;
    case kReason: taker.to(record.reason); break;
    case kSince: taker.to(record.since); break;
    case kStep: return take_part(taker, record.steps);
    case kAction: return take_part(taker, record.story);
    case kActions: taker.to(record.actions); break;
    case kProbe: taker.to(record.probe); break;
    case kCancelAsked: taker.to(record.cancel_asked); break;
    case kReply: return take_part(taker, record.reply);
    case kReplyDue: taker.to(record.reply_due); break;
    case kOwn: return take_part(taker, record.own);
    case kOffer: return take_part(taker, record.offer);
    case kLapsed: taker.to(record.lapsed); break;
    case kStarted: taker.to(record.started.emplace()); break;
    default: break;  // of a newer writer
  }
  return taker.fits();
}

// The fields that a kind of thing has; a newer writer may repeat those of its own.
constexpr std::uint64_t last_known(const Record&) { return kStarted; }
constexpr std::uint64_t last_known(const Attempt&) { return kAttemptNonce; }
constexpr std::uint64_t last_known(const Step&) { return kStepCall; }
constexpr std::uint64_t last_known(const OperatorAction&) { return kActionNonce; }
constexpr std::uint64_t last_known(const ReplyTo&) { return kReplyId; }
constexpr std::uint64_t last_known(const Offer&) { return kOfferCanProbe; }
constexpr std::uint64_t last_known(const TaskPolicy&) { return kOwnInDoubt; }
constexpr std::uint64_t last_known(const Order&) { return kOrderClaims; }

bool repeats(const Record&, std::uint64_t field) {
  return field == kAttempt || field == kStep || field == kAction;
}
bool repeats(const TaskPolicy&, std::uint64_t field) { return field == kOwnBackoff; }
template <class Other>
bool repeats(const Other&, std::uint64_t) {
  return false;
}

template <class Target>
bool take_all(std::string_view bytes, Target& target) {
  WireReader reader(bytes);
  std::uint64_t last = 0;
  while (!reader.at_end()) {
    const auto field = reader.next();
    if (!field || field->number < last || field->number == 0) return false;
    const bool may_repeat = field->number > last_known(target) || repeats(target, field->number);
    if (field->number == last && !may_repeat) return false;
    if (!take(*field, target)) return false;
    last = field->number;
  }
  return true;
}

// `name` begins a sentence: "a ledger record".
Error damaged(std::string_view name, std::string_view what) {
  return Error{.code = Code::store_unusable,
               .message = std::string(name) + " is damaged (" + std::string(what) +
                          "); nothing was changed: restore the store from a backup"};
}

template <class Target>
Result<Target> decode_as(std::string_view name, std::string_view bytes) {
  if (bytes.empty()) return damaged(name, "it is empty");
  const unsigned version = static_cast<unsigned char>(bytes.front());
  if (version > kRecordVersion) {
    return Error{.code = Code::store_unusable,
                 .message = std::string(name) + " was written by a newer once (format " +
                            std::to_string(version) + ", this one reads up to " +
                            std::to_string(kRecordVersion) +
                            "); nothing was changed: use that once or a newer one"};
  }
  if (version != kRecordVersion) return damaged(name, "there is no format 0");
  const auto content = checked(bytes);
  if (!content || content->empty()) return damaged(name, "its checksum does not fit");
  Target target;
  if (!take_all(content->substr(1), target)) return damaged(name, "its fields cannot be read");
  return target;
}

std::size_t size_of(const Record& record) {
  std::size_t size = 160 + record.error.size() + record.reason.size();
  if (record.result) size += record.result->text().size();
  for (const Attempt& attempt : record.attempts)
    size += 48 + attempt.worker.size() + attempt.error.size() + attempt.log.size();
  for (const Step& step : record.steps)
    size += 48 + step.name.size() + step.result.text().size() + step.error.size();
  for (const OperatorAction& action : record.story)
    size += 48 + action.by.size() + action.why.size() + action.step.size();
  if (record.reply) size += 16 + record.reply->topic.size() + record.reply->id.size();
  if (record.own) size += 32 + 6 * record.own->backoff.size();
  if (record.offer) size += 32 + record.offer->worker.size();
  return size;
}

}  // namespace

std::string encode(const Record& record) {
  std::string out;
  out.reserve(size_of(record));
  out += static_cast<char>(kRecordVersion);
  put(kSequence, record.sequence.value, out);
  put(kDigest, record.digest, out);
  put(kState, kStates, record.state, out);
  put(kClaims, std::uint64_t{record.claims}, out);
  put(kCounted, std::uint64_t{record.counted}, out);
  put(kInDoubt, std::uint64_t{record.in_doubt}, out);
  put(kNonce, record.nonce, out);
  put(kMember, record.member.value, out);
  put(kLease, record.lease, out);
  put(kDelay, record.delay, out);
  put_all(kAttempt, record.attempts, out);
  if (record.result) put_result(kResultJson, kResultBytes, *record.result, out);
  put(kResultCut, std::uint64_t{record.result_cut}, out);
  put(kError, record.error, out);
  put(kReason, record.reason, out);
  put(kSince, record.since, out);
  put_all(kStep, record.steps, out);
  put_all(kAction, record.story, out);
  put(kActions, std::uint64_t{record.actions}, out);
  put(kProbe, std::uint64_t{record.probe}, out);
  put(kCancelAsked, std::uint64_t{record.cancel_asked}, out);
  if (record.reply) put_part(kReply, *record.reply, out);
  put(kReplyDue, std::uint64_t{record.reply_due}, out);
  if (record.own) put_part(kOwn, *record.own, out);
  if (record.offer) put_part(kOffer, *record.offer, out);
  put(kLapsed, std::uint64_t{record.lapsed}, out);
  if (record.started)
    append_number_field(kStarted, fold_sign(record.started->time_since_epoch().count()), out);
  append_checksum(out);
  return out;
}

Result<Record> decode(std::string_view bytes) {
  return decode_as<Record>("a ledger record", bytes);
}

std::string encode(const Order& order) {
  std::string out(1, static_cast<char>(kRecordVersion));
  put(kOrderKind, static_cast<std::uint64_t>(order.kind), out);
  put(kOrderNonce, order.nonce, out);
  put(kOrderAt, order.at, out);
  put(kOrderBy, order.by, out);
  put(kOrderWhy, order.why, out);
  put(kOrderStep, order.step, out);
  if (order.result != Body()) put_result(kOrderResultJson, kOrderResultBytes, order.result, out);
  put(kOrderClaims, order.claims, out);
  append_checksum(out);
  return out;
}

Result<Order> decode_order(std::string_view bytes) {
  return decode_as<Order>("a person's order for a task", bytes);
}

}  // namespace once::encoding
