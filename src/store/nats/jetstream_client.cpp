#include "store/nats/jetstream_client.h"

#include <stdlib.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <random>
#include <thread>

#include "core/names.h"

namespace once::store::nats {
namespace {

using encoding::Json;

constexpr std::size_t kPage = 1000;
// Of what is read through: the server counts for each page what comes after it.
constexpr std::size_t kLargePage = 10'000;
// Bodies may be large; the one that goes beyond it comes too.
constexpr std::size_t kPageBytes = 8 << 20;
constexpr std::size_t kFew = 8;              // so many are asked of the leader one by one
constexpr std::size_t kMostSubjects = 1000;  // of one question; the server takes 1,024

constexpr int kNoMessage = 10037;
constexpr int kNoStream = 10059;
constexpr int kWrongLastSequence = 10071;
constexpr int kInFlight = 10164;
constexpr int kOtherConsumer = 10012;
constexpr int kNotDeleted = 10057;
constexpr std::array kNotThere{10037, 10043};
constexpr std::size_t npos = std::string::npos;
// What the server says of a write that it may still make.
constexpr std::array kUndecided{10158, kInFlight};
// What a cluster says that is choosing leaders or has too few nodes up.
constexpr std::array kNotNow{10004, 10005, 10007, 10008, 10009, 10118, 10119};
// Limits of the account, the server or the stream: of memory, files, messages or bytes.
constexpr std::array kFull{10002, 10023, 10028, 10047, 10077};
constexpr std::array kLargerThanAllowed{10054};
constexpr std::chrono::milliseconds kOutlast{5};  // between tries
// A work-queue stream hands a message to one consumer only.
constexpr std::array kTakenAlready{10099, 10100};
// JetStream's API level of nats-server 2.12.
constexpr std::uint64_t kLowestLevel = 2;

Error unavailable(const std::string& what) {
  return {.code = Code::store_unavailable,
          .message = "the NATS server " + what + "; the same call later may succeed",
          .retryable = true};
}

template <std::size_t count>
bool one_of(const std::array<int, count>& codes, int error) {
  return std::find(codes.begin(), codes.end(), error) != codes.end();
}

// What was not stored, by the server's own word.
Error not_stored(const JetStreamClient::Response& response) {
  const std::string words = response.text + " (" + std::to_string(response.error) + ")";
  if (one_of(kFull, response.error))
    return {.code = Code::store_unusable,
            .message = "the NATS server has no room: " + words +
                       "; nothing was stored. Raise the limit (max_file_store, the account's, or "
                       "max_bytes of the stream) or let retention make room, then the same call "
                       "goes on",
            .retryable = true};
  if (one_of(kLargerThanAllowed, response.error))
    return {.code = Code::too_large,
            .message = "the NATS server takes no message of that size: " + words +
                       "; nothing was stored. Raise max_msg_size of the stream, or send less"};
  return {.code = Code::store_unavailable,
          .message = "nothing was stored: " + words,
          .retryable = true};
}

// A header's value is the same in whatever way it was read.
std::string_view trimmed(std::string_view value) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!value.empty() && blank(value.front())) value.remove_prefix(1);
  while (!value.empty() && blank(value.back())) value.remove_suffix(1);
  return value;
}

Published too_large(std::size_t size, std::size_t most) {
  return {.kind = Published::Kind::failed,
          .text = "it has " + std::to_string(size) +
                  " bytes with its headers; this NATS server takes at most " +
                  std::to_string(most) + " (max_payload)",
          .too_large = true};
}

void read_headers(std::string_view block, StreamMessage& kept) {
  while (true) {
    const std::size_t end = block.find("\r\n");
    if (end == std::string_view::npos || end == 0) return;
    const std::string_view line = block.substr(0, end);
    block.remove_prefix(end + 2);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    kept.headers.emplace(line.substr(0, colon), trimmed(line.substr(colon + 1)));
  }
}

Result<std::optional<StreamMessage>> kept_of(Result<JetStreamClient::Response> response) {
  if (!response) return response.error();
  if (response->error == kNoMessage) return std::optional<StreamMessage>{};
  if (response->error != 0) return refused("reading a message", *response);
  const Json* message = response->json.member("message");
  if (!message) return unavailable("gave half an answer");
  StreamMessage kept{.subject = text_of(*message, "subject"),
                     .sequence = number_of(*message, "seq").value_or(0)};
  const auto time = time_from(text_of(*message, "time"));
  const auto headers = from_base64(text_of(*message, "hdrs"));
  auto data = from_base64(text_of(*message, "data"));
  if (!time || !headers || !data || kept.sequence == 0) return unavailable("gave half an answer");
  kept.time = *time;
  kept.data = std::move(*data);
  read_headers(*headers, kept);
  return std::optional<StreamMessage>(std::move(kept));
}

std::optional<StreamMessage> kept_of(const Message& message) {
  StreamMessage kept = kept_from(message);
  const auto* subject = kept.header("Nats-Subject");
  const auto* sequence = kept.header("Nats-Sequence");
  const auto* time = kept.header("Nats-Time-Stamp");
  const auto stamp = time ? time_from(*time) : std::nullopt;
  if (!subject || !sequence || !stamp) return std::nullopt;
  kept.subject = *subject;
  kept.sequence = std::strtoull(sequence->c_str(), nullptr, 10);
  kept.time = *stamp;
  return kept;
}

Outgoing api(const std::string& name, std::string body) {
  return {.subject = "$JS.API." + name, .data = std::move(body)};
}

Outgoing last_question(const std::string& stream, const std::string& subject) {
  return api("STREAM.MSG.GET." + stream, "{\"last_by_subj\":" + quoted(subject) + "}");
}

std::string page_question(const std::string& filter, std::uint64_t from, std::size_t limit) {
  return "{\"seq\":" + std::to_string(std::max<std::uint64_t>(from, 1)) +
         ",\"batch\":" + std::to_string(limit) + ",\"max_bytes\":" + std::to_string(kPageBytes) +
         ",\"next_by_subj\":" + quoted(filter) + "}";
}

}  // namespace

Error refused(const std::string& what, const JetStreamClient::Response& response) {
  const std::string words = what + " was refused by the NATS server: " + response.text + " (" +
                            std::to_string(response.error) + ")";
  if (one_of(kNotNow, response.error) || response.error == kNoStream)
    return {.code = Code::store_unavailable,
            .message = words + "; the same call later may succeed",
            .retryable = true};
  if (one_of(kFull, response.error))
    return {.code = Code::store_unusable,
            .message = words +
                       "; raise the limit (max_file_store, or the account's), then the same "
                       "call goes on",
            .retryable = true};
  return {.code = Code::store_unusable, .message = words};
}

std::vector<Difference> differences(const Json& wanted, const Json* echoed) {
  std::vector<Difference> all;
  for (const auto& [name, value] : wanted.members()) {
    const Json* found = echoed ? echoed->member(name) : nullptr;
    if (found && *found == value) continue;
    // What is off or zero may be left out.
    const bool nothing = (value.kind() == Json::Kind::boolean && !value.boolean()) ||
                         (value.kind() == Json::Kind::number && value.number() == 0);
    if (!found && nothing) continue;
    all.push_back({.field = name,
                   .found = found ? encoding::canonical(*found) : std::string("missing"),
                   .wanted = encoding::canonical(value)});
  }
  return all;
}

std::optional<Difference> difference(const Json& wanted, const Json* echoed) {
  auto all = differences(wanted, echoed);
  return all.empty() ? std::nullopt : std::optional(std::move(all.front()));
}

Result<JetStreamClient::Response> JetStreamClient::response_of(RequestMux::Answer answer) const {
  using Kind = RequestMux::Answer::Kind;
  if (!answer.denied.empty()) return not_permitted(answer.denied);
  const std::string at = "at " + exchange_.where() + " ";
  if (answer.kind == Kind::unsent) {
    if (auto why = exchange_.barred(); why && use_ == RequestMux::Use::ordinary) return *why;
    return unavailable(at + "cannot be reached");
  }
  if (answer.kind == Kind::unknown) return unavailable(at + "did not answer");
  if (answer.status == 503) {
    exchange_.missed_something();
    return unavailable(at + "has no JetStream for this account, or no leader");
  }
  if (answer.messages.empty()) return unavailable(at + "gave no answer");
  auto json = encoding::parse_json(answer.messages.front().data(), encoding::Integers::rounded);
  if (!json)
    return Error{
        .code = Code::store_unusable,
        .message = "the NATS server answered with what is no JSON: " + json.error().message};
  Response response{.json = std::move(*json)};
  if (const Json* error = response.json.member("error")) {
    response.error = static_cast<int>(number_of(*error, "err_code").value_or(1));
    response.text = text_of(*error, "description");
    if (response.error == kNoStream) exchange_.missed_something();
  }
  return response;
}

namespace {

// {"stream":"NAME","seq":N}, which is what is answered almost always; zero: it is something else.
std::uint64_t plainly_stored(std::string_view answer) {
  constexpr std::string_view kBefore = R"({"stream":")";
  constexpr std::string_view kBetween = R"(","seq":)";
  if (!answer.starts_with(kBefore) || !answer.ends_with('}')) return 0;
  const std::size_t end = answer.find('"', kBefore.size());
  if (end == npos || !answer.substr(end).starts_with(kBetween)) return 0;
  const char* const last = answer.data() + answer.size() - 1;
  std::uint64_t sequence = 0;
  const auto read = std::from_chars(answer.data() + end + kBetween.size(), last, sequence);
  return read.ptr == last && read.ec == std::errc{} ? sequence : 0;
}

}  // namespace

Published JetStreamClient::published_from(RequestMux::Answer answer) const {
  if (answer.kind == RequestMux::Answer::Kind::answered && !answer.messages.empty())
    if (const std::uint64_t stored = plainly_stored(answer.messages.front().data()); stored != 0)
      return {.kind = Published::Kind::stored, .sequence = stored};
  const bool unsent = answer.kind == RequestMux::Answer::Kind::unsent;
  const bool denied = !answer.denied.empty();
  auto response = response_of(std::move(answer));
  if (unsent)
    return {.kind = Published::Kind::failed,
            .text = "the NATS server cannot be reached",
            .error = denied ? std::optional(response.error()) : exchange_.barred()};
  if (!response) return {.text = response.error().message};
  if (response->error == kWrongLastSequence) {
    const std::size_t digits = response->text.find_last_not_of("0123456789");
    return {.kind = Published::Kind::refused,
            .sequence = std::strtoull(response->text.c_str() + digits + 1, nullptr, 10)};
  }
  if (one_of(kUndecided, response->error))
    return {.text = response->text, .in_flight = response->error == kInFlight};
  if (response->error != 0)
    return {
        .kind = Published::Kind::failed, .text = response->text, .error = not_stored(*response)};
  const std::uint64_t sequence = number_of(response->json, "seq").value_or(0);
  if (sequence == 0) return {.text = "the NATS server acknowledged without a sequence"};
  return {.kind = Published::Kind::stored,
          .sequence = sequence,
          .value = text_of(response->json, "val")};
}

void JetStreamClient::outlast_others(std::span<const Outgoing> messages,
                                     std::vector<Published>& published) const {
  const auto deadline = std::chrono::steady_clock::now() + patience_;
  while (true) {
    std::vector<Outgoing> again;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < published.size(); ++i) {
      if (!published[i].in_flight) continue;
      again.push_back(messages[i]);
      places.push_back(i);
    }
    if (again.empty() || std::chrono::steady_clock::now() > deadline) return;
    std::this_thread::sleep_for(kOutlast);
    auto answers = ask(again);
    for (std::size_t k = 0; k < places.size(); ++k)
      published[places[k]] = published_from(std::move(answers[k]));
  }
}

StreamMessage kept_from(const Message& message) {
  StreamMessage kept{.subject = std::string(message.subject()),
                     .data = std::string(message.data())};
  const char** names = nullptr;
  int count = 0;
  if (message.header_names(&names, &count))
    for (int i = 0; i < count; ++i)
      if (const auto value = message.header(names[i]))
        kept.headers.emplace(names[i], trimmed(*value));
  free(static_cast<void*>(names));
  return kept;
}

std::optional<Time> time_from(std::string_view text) {
  const auto digits = [&](std::size_t at, std::size_t count) {
    int value = -1;
    if (at + count <= text.size())
      std::from_chars(text.data() + at, text.data() + at + count, value);
    return value;
  };
  if (text.size() < 20 || text.back() != 'Z') return std::nullopt;
  using namespace std::chrono;
  const auto day = year{digits(0, 4)} / month{static_cast<unsigned>(digits(5, 2))} /
                   std::chrono::day{static_cast<unsigned>(digits(8, 2))};
  if (!day.ok()) return std::nullopt;
  std::string fraction(text[19] == '.' ? text.substr(20, text.size() - 21) : "");
  fraction.resize(3, '0');
  const Duration since = sys_days{day}.time_since_epoch() + hours{digits(11, 2)} +
                         minutes{digits(14, 2)} + seconds{digits(17, 2)} +
                         milliseconds{std::stoi(fraction)};
  return Time{since};
}

std::optional<std::string> from_base64(std::string_view text) {
  static const auto values = [] {
    std::array<std::int8_t, 256> table{};
    table.fill(-1);
    constexpr std::string_view kLetters =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (std::size_t i = 0; i < kLetters.size(); ++i)
      table[static_cast<unsigned char>(kLetters[i])] = static_cast<std::int8_t>(i);
    return table;
  }();
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string out;
  out.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::int8_t value = values[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    bits = bits << 6U | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> static_cast<unsigned>(count) & 0xFFU);
  }
  return out;
}

Error failure_of(const Published& published) {
  if (published.error) return *published.error;
  if (published.kind == Published::Kind::unknown)
    return {.code = Code::outcome_unknown,
            .message = "it is not known whether the NATS server stored it (" + published.text +
                       "); the same call again finds out",
            .retryable = true,
            .in_doubt = true};
  return {.code = published.too_large ? Code::too_large : Code::store_unavailable,
          .message = "nothing was stored: " + published.text,
          .retryable = !published.too_large};
}

std::size_t size_of(const Outgoing& message) {
  std::size_t size = message.data.size() + 16;
  for (const auto& [name, value] : message.headers) size += name.size() + value.size() + 4;
  return size;
}

Headers expecting(std::uint64_t last_sequence) {
  return {{"Nats-Expected-Last-Subject-Sequence", std::to_string(last_sequence)}};
}

std::string quoted(std::string_view text) {
  std::string out;
  encoding::append_canonical_string(text, out);
  return out;
}

std::optional<std::uint64_t> number_of(const Json& json, std::string_view member) {
  const Json* found = json.member(member);
  if (!found || found->kind() != Json::Kind::number || found->number() < 0) return std::nullopt;
  return static_cast<std::uint64_t>(found->number());
}

std::string text_of(const Json& json, std::string_view member) {
  const Json* found = json.member(member);
  return found && found->kind() == Json::Kind::string ? found->string() : std::string();
}

Result<JetStreamClient::Response> JetStreamClient::call(const std::string& name,
                                                        const std::string& body) const {
  const Outgoing question = api(name, body);
  return response_of(std::move(ask(std::span(&question, 1)).front()));
}

std::vector<Result<JetStreamClient::Response>> JetStreamClient::call(
    std::span<const Outgoing> questions) const {
  std::vector<Result<Response>> responses;
  responses.reserve(questions.size());
  for (RequestMux::Answer& answer : ask(questions))
    responses.push_back(response_of(std::move(answer)));
  return responses;
}

Result<void> JetStreamClient::check_server() const {
  const auto info = call("INFO", "");
  if (!info) return info.error();
  if (info->error != 0) return refused("asking about JetStream", *info);
  const Json* about = info->json.member("api");
  const std::uint64_t level = about ? number_of(*about, "level").value_or(0) : 0;
  if (level >= kLowestLevel) return {};
  return Error{.code = Code::store_unusable,
               .message =
                   "this NATS server is older than 2.12: such servers acknowledge tasks that they "
                   "do not store, or let two writers win one compare-and-swap; use 2.12 or newer"};
}

Result<JetStreamClient::Response> JetStreamClient::make_consumer(const std::string& stream,
                                                                 const std::string& name,
                                                                 const std::string& config) const {
  const auto wanted = encoding::parse_json(config);
  if (!wanted) return wanted.error();
  const auto create = [&] {
    return call("CONSUMER.CREATE." + stream + "." + name,
                "{\"stream_name\":" + quoted(stream) + ",\"config\":" + config + "}");
  };
  auto response = create();
  if (response && response->error == kOtherConsumer) {
    // Somebody made one of that name that begins or filters otherwise. Ours delivers everything
    // again, and the ledger decides.
    if (auto gone = call("CONSUMER.DELETE." + stream + "." + name, ""); !gone) return gone.error();
    response = create();
  }
  if (!response) return response.error();
  if (one_of(kTakenAlready, response->error))
    return Error{.code = Code::invalid_input,
                 .message = "the stream " + stream +
                            " is a work queue, and another consumer takes some of these subjects "
                            "already (" +
                            response->text +
                            "): a message there goes to one consumer only. Nothing was made: give "
                            "the queue a filter of its own, or remove that consumer"};
  if (response->error != 0) return refused("the consumer " + name, *response);
  // After a restart, the server's first answer to an update carries the old settings (seen in 2.15).
  const auto deadline = std::chrono::steady_clock::now() + patience_;
  while (const auto differs = difference(*wanted, response->json.member("config"))) {
    if (std::chrono::steady_clock::now() > deadline)
      return Error{.code = Code::store_unusable,
                   .message = "the consumer " + name + " on " + stream + " has " + differs->field +
                              " " + differs->found + " instead of " + differs->wanted +
                              ", though the NATS server said that it was set: tasks could be lost "
                              "or repeated. Look for a limit of the account or the server that "
                              "overrides it, then the same call again sets it"};
    std::this_thread::sleep_for(kOutlast);
    response = call("CONSUMER.INFO." + stream + "." + name, "");
    if (!response) return response.error();
    if (response->error != 0) return refused("the consumer " + name, *response);
  }
  return response;
}

Result<std::optional<StreamMessage>> JetStreamClient::get(const std::string& stream,
                                                          std::uint64_t sequence) const {
  return kept_of(call("STREAM.MSG.GET." + stream, "{\"seq\":" + std::to_string(sequence) + "}"));
}

std::vector<Result<std::optional<StreamMessage>>> JetStreamClient::get(
    const std::string& stream, std::span<const std::uint64_t> sequences) const {
  std::vector<Outgoing> questions;
  questions.reserve(sequences.size());
  for (const std::uint64_t sequence : sequences)
    questions.push_back(
        api("STREAM.MSG.GET." + stream, "{\"seq\":" + std::to_string(sequence) + "}"));
  std::vector<Result<std::optional<StreamMessage>>> found;
  found.reserve(sequences.size());
  for (Result<Response>& response : call(questions)) found.push_back(kept_of(std::move(response)));
  return found;
}

Result<std::optional<Json>> JetStreamClient::stream_info(const std::string& stream,
                                                         const std::string& body) const {
  auto response = call("STREAM.INFO." + stream, body);
  if (!response) return response.error();
  if (response->error == kNoStream) return std::optional<Json>{};
  if (response->error != 0) return refused("looking at the stream " + stream, *response);
  return std::optional<Json>(std::move(response->json));
}

// The next match is asked for; what follows it is read in one burst, and kept as far as it matches.
Result<bool> JetStreamClient::leader_page(const std::string& stream, const std::string& filter,
                                          std::uint64_t from, std::size_t limit,
                                          std::vector<StreamMessage>& into) const {
  const auto info = stream_info(stream);
  if (!info) return info.error();
  const Json* state = *info ? (*info)->member("state") : nullptr;
  const std::uint64_t last = state ? number_of(*state, "last_seq").value_or(0) : 0;
  std::size_t found = 0;
  while (found < limit) {
    if (from > last) return false;
    auto next = kept_of(call("STREAM.MSG.GET." + stream,
                             "{\"seq\":" + std::to_string(std::max<std::uint64_t>(from, 1)) +
                                 ",\"next_by_subj\":" + quoted(filter) + "}"));
    if (!next) return next.error();
    if (!*next) return false;
    std::vector<std::uint64_t> following;
    for (std::uint64_t each = (*next)->sequence + 1;
         each <= last && following.size() + 1 < std::min(limit - found, kPage); ++each)
      following.push_back(each);
    from = (*next)->sequence + following.size() + 1;
    into.push_back(std::move(**next));
    ++found;
    for (auto& kept : get(stream, following)) {
      if (!kept) return kept.error();
      if (!*kept || !core::matches(filter, (*kept)->subject)) continue;
      into.push_back(std::move(**kept));
      ++found;
    }
  }
  return true;
}

Result<std::optional<StreamMessage>> JetStreamClient::last(const std::string& stream,
                                                           const std::string& subject) const {
  return std::move(last(stream, std::span(&subject, 1)).front());
}

std::vector<Result<std::optional<StreamMessage>>> JetStreamClient::last(
    const std::string& stream, std::span<const std::string> subjects) const {
  std::vector<Outgoing> questions;
  questions.reserve(subjects.size());
  for (const std::string& subject : subjects) questions.push_back(last_question(stream, subject));
  std::vector<Result<std::optional<StreamMessage>>> found;
  found.reserve(subjects.size());
  for (Result<Response>& response : call(questions)) found.push_back(kept_of(std::move(response)));
  return found;
}

RequestMux::Asked JetStreamClient::ask_directly(const std::string& stream,
                                                std::string question) const {
  return exchange_.begin_many(api("DIRECT.GET." + stream, std::move(question)), patience_);
}

// Answers how many more there are.
Result<std::uint64_t> JetStreamClient::read_directly(RequestMux::Asked asked,
                                                     std::vector<StreamMessage>& into) const {
  RequestMux::Answer answer = exchange_.end_many(std::move(asked));
  if (!answer.denied.empty()) return not_permitted(answer.denied);
  if (answer.kind != RequestMux::Answer::Kind::answered) return unavailable("did not answer");
  if (answer.status == 404) return std::uint64_t{0};
  if (answer.status != 204)
    return unavailable("refused to read a page (" + std::to_string(answer.status) + ")");
  std::uint64_t more = 0;
  for (const Message& message : answer.messages) {
    auto kept = kept_of(message);
    if (!kept) return unavailable("gave half an answer");
    const auto* pending = kept->header("Nats-Num-Pending");
    more = pending ? std::strtoull(pending->c_str(), nullptr, 10) : 0;
    into.push_back(std::move(*kept));
  }
  return more;
}

Result<bool> JetStreamClient::page(const std::string& stream, const std::string& filter,
                                   std::uint64_t from, std::size_t limit,
                                   std::vector<StreamMessage>& into) const {
  if (limit == 1) {
    auto next = kept_of(call("STREAM.MSG.GET." + stream,
                             "{\"seq\":" + std::to_string(std::max<std::uint64_t>(from, 1)) +
                                 ",\"next_by_subj\":" + quoted(filter) + "}"));
    if (!next) return next.error();
    if (*next) into.push_back(std::move(**next));
    return next->has_value();
  }
  return end_page(begin_page(stream, filter, from, limit), into);
}

RequestMux::Asked JetStreamClient::begin_page(const std::string& stream, const std::string& filter,
                                              std::uint64_t from, std::size_t limit) const {
  return ask_directly(stream, page_question(filter, from, limit));
}

Result<bool> JetStreamClient::end_page(RequestMux::Asked asked,
                                       std::vector<StreamMessage>& into) const {
  const auto more = read_directly(std::move(asked), into);
  if (!more) return more.error();
  return *more > 0;
}

Result<void> JetStreamClient::each(const std::string& stream, const std::string& filter,
                                   std::uint64_t from, std::uint64_t up_to,
                                   const std::function<Result<void>(StreamMessage)>& seen) const {
  if (from > up_to) return {};
  const auto begin = [&] {
    const std::uint64_t most = std::min<std::uint64_t>(up_to - from, kLargePage - 1) + 1;
    return begin_page(stream, filter, from, most);
  };
  std::optional<RequestMux::Asked> asked = begin();
  while (asked) {
    std::vector<StreamMessage> found;
    const auto more = end_page(std::move(*asked), found);
    asked.reset();
    if (!more) return more.error();
    if (!found.empty()) from = found.back().sequence + 1;
    if (*more && !found.empty() && from <= up_to) asked.emplace(begin());
    for (StreamMessage& each : found) {
      if (each.sequence > up_to) return {};
      if (auto done = seen(std::move(each)); !done) return done;
    }
  }
  return {};
}

Result<std::uint64_t> JetStreamClient::count(const std::string& stream, const std::string& filter,
                                             std::uint64_t from) const {
  std::vector<StreamMessage> first;
  const auto more = read_directly(ask_directly(stream, page_question(filter, from, 1)), first);
  if (!more) return more.error();
  return *more + first.size();
}

Result<std::map<std::string, StreamMessage>> JetStreamClient::last_of_each(
    const std::string& stream, std::span<const std::string> subjects) const {
  std::map<std::string, StreamMessage> found;
  if (subjects.size() <= kFew) {
    for (auto& kept : last(stream, subjects)) {
      if (!kept) return kept.error();
      if (!*kept) continue;
      std::string subject = (*kept)->subject;
      found.insert_or_assign(std::move(subject), std::move(**kept));
    }
    return found;
  }
  const std::size_t room = exchange_.max_payload() / 2;
  for (std::size_t next = 0; next < subjects.size();) {
    std::string list;
    for (std::size_t n = 0; next < subjects.size() && n < kMostSubjects && list.size() < room; ++n)
      list += (list.empty() ? "" : ",") + quoted(subjects[next++]);
    std::vector<StreamMessage> some;
    const auto read = read_directly(ask_directly(stream, "{\"multi_last\":[" + list + "]}"), some);
    if (!read) return read.error();
    for (StreamMessage& each : some) {
      std::string subject = each.subject;
      found.insert_or_assign(std::move(subject), std::move(each));
    }
  }
  return found;
}

Result<std::vector<StreamMessage>> JetStreamClient::all(const std::string& stream,
                                                        const std::string& filter) const {
  std::vector<StreamMessage> found;
  const auto read = each(stream, filter, 1, kToTheEnd, [&](StreamMessage kept) -> Result<void> {
    found.push_back(std::move(kept));
    return {};
  });
  if (!read) return read.error();
  return found;
}

std::vector<Published> JetStreamClient::publish(std::span<const Outgoing> messages) const {
  std::vector<Published> published;
  published.reserve(messages.size());
  for (RequestMux::Answer& answer : ask(messages)) {
    const std::size_t size = size_of(messages[published.size()]);
    if (answer.kind == RequestMux::Answer::Kind::unsent && size > exchange_.max_payload())
      published.push_back(too_large(size, exchange_.max_payload()));
    else
      published.push_back(published_from(std::move(answer)));
  }
  outlast_others(messages, published);
  return published;
}

Published JetStreamClient::publish_together(std::vector<Outgoing> messages) const {
  return std::move(publish_together(std::move(messages), {}, {}).published.front());
}

JetStreamClient::Burst JetStreamClient::publish_together(
    std::vector<Outgoing> messages, const std::string& stream,
    std::span<const std::string> subjects) const {
  static std::atomic<std::uint64_t> last{std::random_device{}()};
  const std::string id = exchange_.name() + "-" + std::to_string(++last);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    messages[i].headers.emplace_back("Nats-Batch-Id", id);
    messages[i].headers.emplace_back("Nats-Batch-Sequence", std::to_string(i + 1));
  }
  messages.back().headers.emplace_back("Nats-Batch-Commit", "1");
  std::vector<Outgoing> questions;
  for (const std::string& subject : subjects) questions.push_back(last_question(stream, subject));
  questions.push_back(std::move(messages.back()));
  messages.pop_back();
  Burst burst;
  for (RequestMux::Answer& answer : exchange_.ask(messages, questions, patience_))
    if (burst.last.size() < subjects.size())
      burst.last.push_back(kept_of(response_of(std::move(answer))));
    else
      burst.published.push_back(published_from(std::move(answer)));
  return burst;
}

JetStreamClient::Burst JetStreamClient::publish(std::span<const Outgoing> messages,
                                                const std::string& stream,
                                                std::span<const std::string> subjects) const {
  std::vector<Outgoing> questions;
  questions.reserve(subjects.size() + messages.size());
  for (const std::string& subject : subjects) questions.push_back(last_question(stream, subject));
  questions.insert(questions.end(), messages.begin(), messages.end());
  Burst burst;
  for (RequestMux::Answer& answer : ask(questions))
    if (burst.last.size() < subjects.size())
      burst.last.push_back(kept_of(response_of(std::move(answer))));
    else
      burst.published.push_back(published_from(std::move(answer)));
  outlast_others(messages, burst.published);
  return burst;
}

Published JetStreamClient::publish(const Outgoing& message) const {
  return std::move(publish(std::span(&message, 1)).front());
}

Result<bool> JetStreamClient::remove(const std::string& stream, std::uint64_t sequence) const {
  const auto removed = remove(stream, std::span(&sequence, 1));
  if (!removed) return removed.error();
  return *removed == 1;
}

Result<std::uint64_t> JetStreamClient::remove(const std::string& stream,
                                              std::span<const std::uint64_t> sequences) const {
  const auto removed = remove_each(stream, sequences);
  if (!removed) return removed.error();
  return static_cast<std::uint64_t>(std::count(removed->begin(), removed->end(), true));
}

Result<std::vector<bool>> JetStreamClient::remove_each(
    const std::string& stream, std::span<const std::uint64_t> sequences) const {
  std::vector<Outgoing> questions;
  for (const std::uint64_t sequence : sequences)
    questions.push_back(api("STREAM.MSG.DELETE." + stream,
                            "{\"seq\":" + std::to_string(sequence) + ",\"no_erase\":true}"));
  std::vector<bool> removed;
  for (const Result<Response>& response : call(questions)) {
    if (!response) return response.error();
    const bool not_there =
        one_of(kNotThere, response->error) ||
        (response->error == kNotDeleted && response->text.find("no message found") != npos);
    if (response->error != 0 && !not_there) return refused("deleting a message", *response);
    removed.push_back(response->error == 0);
  }
  return removed;
}

Result<void> JetStreamClient::purge(const std::string& stream, const std::string& filter) const {
  return purge(stream, std::span(&filter, 1));
}

Result<void> JetStreamClient::purge(const std::string& stream,
                                    std::span<const std::string> filters) const {
  std::vector<Outgoing> questions;
  for (const std::string& filter : filters)
    questions.push_back(api("STREAM.PURGE." + stream, "{\"filter\":" + quoted(filter) + "}"));
  for (const Result<Response>& response : call(questions)) {
    if (!response) return response.error();
    if (response->error != 0) return refused("clearing the stream " + stream, *response);
  }
  return {};
}

}  // namespace once::store::nats
