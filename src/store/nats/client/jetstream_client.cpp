#include "store/nats/client/jetstream_client.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "core/names.h"

namespace once::store::nats {
namespace {

using encoding::Json;

constexpr std::size_t kListPage = 1000;
// Of what is read through: the server counts for each page what comes after it.
constexpr std::size_t kLargePage = 10'000;
// Bodies may be large; the one that goes beyond it comes too.
constexpr std::size_t kPageBytes = 8 << 20;
constexpr std::size_t kFewRequests = 8;      // so many are asked of the leader one by one
constexpr std::size_t kMostSubjects = 1000;  // of one question; the server takes 1,024

constexpr int kNoMessage = 10037;
constexpr int kOtherConsumer = 10012;
constexpr int kNotDeleted = 10057;
constexpr std::array kNotThere{10037, 10043};
constexpr std::size_t npos = std::string::npos;
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

PublishResult too_large(std::size_t size, std::size_t most) {
  return {.kind = PublishResult::Kind::failed,
          .text = "it has " + std::to_string(size) +
                  " bytes with its headers; this NATS server takes at most " +
                  std::to_string(most) + " (max_payload)",
          .too_large = true};
}

// nullopt if there is no such message.
Result<std::optional<StreamMessage>> stream_message_of(const Result<ApiResponse>& response) {
  if (!response) return response.error();
  if (response->error == kNoMessage) return std::optional<StreamMessage>{};
  if (response->error != 0) return refused("reading a message", *response);
  const Json* message = response->json.member("message");
  auto stream_message = message ? stream_message_from(*message) : std::nullopt;
  if (!stream_message) return unavailable("gave half an answer");
  return stream_message;
}

Outgoing api(const std::string& name, std::string body) {
  return {.subject = "$JS.API." + name, .data = std::move(body)};
}

Outgoing last_question(const std::string& stream, const std::string& subject) {
  return api("STREAM.MSG.GET." + stream, "{\"last_by_subj\":" + json_string(subject) + "}");
}

std::string page_question(const std::string& filter, std::uint64_t from, std::size_t limit) {
  return "{\"seq\":" + std::to_string(std::max<std::uint64_t>(from, 1)) +
         ",\"batch\":" + std::to_string(limit) + ",\"max_bytes\":" + std::to_string(kPageBytes) +
         ",\"next_by_subj\":" + json_string(filter) + "}";
}

}  // namespace

Result<JetStreamClient::Response> JetStreamClient::response_of(RequestMux::Answer answer) const {
  using Kind = RequestMux::Answer::Kind;
  if (!answer.denied.empty()) return not_permitted(answer.denied);
  const std::string at = "at " + mux_.where() + " ";
  if (answer.kind == Kind::unsent) {
    if (auto why = mux_.barred(); why && use_ == RequestMux::Use::ordinary) return *why;
    return unavailable(at + "cannot be reached");
  }
  if (answer.kind == Kind::unknown) return unavailable(at + "did not answer");
  if (answer.status == 503) {
    mux_.missed_something();
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
    if (response.error == kNoStream) mux_.missed_something();
  }
  return response;
}

PublishResult JetStreamClient::published_from(RequestMux::Answer answer) const {
  if (answer.kind == RequestMux::Answer::Kind::answered && !answer.messages.empty())
    if (const std::uint64_t stored = plainly_stored(answer.messages.front().data()); stored != 0)
      return {.kind = PublishResult::Kind::stored, .sequence = stored};
  const bool unsent = answer.kind == RequestMux::Answer::Kind::unsent;
  const bool denied = !answer.denied.empty();
  auto response = response_of(std::move(answer));
  if (unsent)
    return {.kind = PublishResult::Kind::failed,
            .text = "the NATS server cannot be reached",
            .error = denied ? std::optional(response.error()) : mux_.barred()};
  if (!response) return {.text = response.error().message};
  return nats::published_from(*response);
}

void JetStreamClient::outlast_others(std::span<const Outgoing> messages,
                                     std::vector<PublishResult>& published) const {
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
                "{\"stream_name\":" + json_string(stream) + ",\"config\":" + config + "}");
  };
  auto response = create();
  if (response && response->error == kOtherConsumer) {
    // Another program made a consumer of that name with another start or filter. The new consumer
    // delivers everything again, and the ledger decides.
    if (auto gone = call("CONSUMER.DELETE." + stream + "." + name, ""); !gone) return gone.error();
    response = create();
  }
  if (!response) return response.error();
  if (std::find(kTakenAlready.begin(), kTakenAlready.end(), response->error) != kTakenAlready.end())
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
  return stream_message_of(
      call("STREAM.MSG.GET." + stream, "{\"seq\":" + std::to_string(sequence) + "}"));
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
  for (Result<Response>& response : call(questions)) found.push_back(stream_message_of(response));
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
    auto next = stream_message_of(call(
        "STREAM.MSG.GET." + stream, "{\"seq\":" + std::to_string(std::max<std::uint64_t>(from, 1)) +
                                        ",\"next_by_subj\":" + json_string(filter) + "}"));
    if (!next) return next.error();
    if (!*next) return false;
    std::vector<std::uint64_t> following;
    for (std::uint64_t each = (*next)->sequence + 1;
         each <= last && following.size() + 1 < std::min(limit - found, kListPage); ++each)
      following.push_back(each);
    from = (*next)->sequence + following.size() + 1;
    into.push_back(std::move(**next));
    ++found;
    for (auto& stream_message : get(stream, following)) {
      if (!stream_message) return stream_message.error();
      if (!*stream_message || !core::matches(filter, (*stream_message)->subject)) continue;
      into.push_back(std::move(**stream_message));
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
  for (Result<Response>& response : call(questions)) found.push_back(stream_message_of(response));
  return found;
}

RequestMux::PendingQuestion JetStreamClient::ask_directly(const std::string& stream,
                                                          std::string question) const {
  return mux_.begin_many(api("DIRECT.GET." + stream, std::move(question)), patience_);
}

// Returns how many messages are left after the page.
Result<std::uint64_t> JetStreamClient::read_directly(RequestMux::PendingQuestion asked,
                                                     std::vector<StreamMessage>& into) const {
  RequestMux::Answer answer = mux_.end_many(std::move(asked));
  if (!answer.denied.empty()) return not_permitted(answer.denied);
  if (answer.kind != RequestMux::Answer::Kind::answered) return unavailable("did not answer");
  if (answer.status == 404) return std::uint64_t{0};
  if (answer.status != 204)
    return unavailable("refused to read a page (" + std::to_string(answer.status) + ")");
  std::uint64_t more = 0;
  for (const Message& message : answer.messages) {
    auto stream_message = nats::read_directly(message);
    if (!stream_message) return unavailable("gave half an answer");
    const auto* pending = stream_message->header("Nats-Num-Pending");
    more = pending ? std::strtoull(pending->c_str(), nullptr, 10) : 0;
    into.push_back(std::move(*stream_message));
  }
  return more;
}

Result<bool> JetStreamClient::page(const std::string& stream, const std::string& filter,
                                   std::uint64_t from, std::size_t limit,
                                   std::vector<StreamMessage>& into) const {
  if (limit == 1) {
    auto next = stream_message_of(call(
        "STREAM.MSG.GET." + stream, "{\"seq\":" + std::to_string(std::max<std::uint64_t>(from, 1)) +
                                        ",\"next_by_subj\":" + json_string(filter) + "}"));
    if (!next) return next.error();
    if (*next) into.push_back(std::move(**next));
    return next->has_value();
  }
  return end_page(begin_page(stream, filter, from, limit), into);
}

RequestMux::PendingQuestion JetStreamClient::begin_page(const std::string& stream,
                                                        const std::string& filter,
                                                        std::uint64_t from,
                                                        std::size_t limit) const {
  return ask_directly(stream, page_question(filter, from, limit));
}

Result<bool> JetStreamClient::end_page(RequestMux::PendingQuestion asked,
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
  std::optional<RequestMux::PendingQuestion> asked = begin();
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
  if (subjects.size() <= kFewRequests) {
    for (auto& stream_message : last(stream, subjects)) {
      if (!stream_message) return stream_message.error();
      if (!*stream_message) continue;
      std::string subject = (*stream_message)->subject;
      found.insert_or_assign(std::move(subject), std::move(**stream_message));
    }
    return found;
  }
  const std::size_t room = mux_.max_payload() / 2;
  for (std::size_t next = 0; next < subjects.size();) {
    std::string list;
    for (std::size_t n = 0; next < subjects.size() && n < kMostSubjects && list.size() < room; ++n)
      list += (list.empty() ? "" : ",") + json_string(subjects[next++]);
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
  const auto read =
      each(stream, filter, 1, kToTheEnd, [&](StreamMessage stream_message) -> Result<void> {
        found.push_back(std::move(stream_message));
        return {};
      });
  if (!read) return read.error();
  return found;
}

std::vector<PublishResult> JetStreamClient::publish(std::span<const Outgoing> messages) const {
  std::vector<PublishResult> published;
  published.reserve(messages.size());
  for (RequestMux::Answer& answer : ask(messages)) {
    const std::size_t size = size_of(messages[published.size()]);
    if (answer.kind == RequestMux::Answer::Kind::unsent && size > mux_.max_payload())
      published.push_back(too_large(size, mux_.max_payload()));
    else
      published.push_back(published_from(std::move(answer)));
  }
  outlast_others(messages, published);
  return published;
}

PublishResult JetStreamClient::publish_together(std::vector<Outgoing> messages) const {
  return std::move(publish_together(std::move(messages), {}, {}).published.front());
}

JetStreamClient::Burst JetStreamClient::publish_together(
    std::vector<Outgoing> messages, const std::string& stream,
    std::span<const std::string> subjects) const {
  static std::atomic<std::uint64_t> last{std::random_device{}()};
  const std::string id = mux_.name() + "-" + std::to_string(++last);
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
  for (RequestMux::Answer& answer : mux_.ask(messages, questions, patience_))
    if (burst.last.size() < subjects.size())
      burst.last.push_back(stream_message_of(response_of(std::move(answer))));
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
      burst.last.push_back(stream_message_of(response_of(std::move(answer))));
    else
      burst.published.push_back(published_from(std::move(answer)));
  outlast_others(messages, burst.published);
  return burst;
}

PublishResult JetStreamClient::publish(const Outgoing& message) const {
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
        std::find(kNotThere.begin(), kNotThere.end(), response->error) != kNotThere.end() ||
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
    questions.push_back(api("STREAM.PURGE." + stream, "{\"filter\":" + json_string(filter) + "}"));
  for (const Result<Response>& response : call(questions)) {
    if (!response) return response.error();
    if (response->error != 0) return refused("clearing the stream " + stream, *response);
  }
  return {};
}

}  // namespace once::store::nats
