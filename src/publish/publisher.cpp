#include "publish/publisher.h"

#include <algorithm>

#include "codec/digest.h"
#include "core/names.h"
#include "publish/append.h"

namespace once::engine {
namespace {

constexpr std::size_t kPublishBatch = 1024;
constexpr Duration kLongest = std::chrono::hours{24 * 365 * 10};

Error conflict(const store::Append& item, const store::AppendResult& appended,
               std::optional<std::vector<std::string>> differs, const std::string& unread) {
  auto both = std::make_shared<Conflict>();
  both->id = item.id;
  both->sequence = appended.sequence.value;
  both->digest = encoding::text(appended.digest);
  both->given_digest = encoding::text(item.digest);
  both->differs = std::move(differs);
  std::string where;
  if (both->differs)
    for (const std::string& path : *both->differs)
      where += (where.empty() ? " (it differs in " : ", ") + path;
  if (!where.empty()) where += ")";
  if (!unread.empty())
    where =
        " (what differs is not known, because the other content could not be read: " + unread + ")";
  return {.code = Code::conflicting_duplicate,
          .message = "id '" + item.id + "' is already in the log as #" +
                     std::to_string(appended.sequence.value) + " with other content" + where +
                     "; nothing was added. Publish a changed task under an id of its own.",
          .conflict = std::move(both)};
}

Error not_published(Error error) {
  error.message += "; nothing was published";
  return error;
}

Error never_starts(std::string why) {
  return {.code = Code::invalid_input,
          .message = "the task could never start: " + std::move(why) + "; nothing was published"};
}

// To the second, because a moment has passed since the caller asked for `1h`.
std::string rough(Duration length) {
  using std::chrono::seconds;
  return duration_text(length < seconds{10} ? length : std::chrono::round<seconds>(length));
}

// Why the task could never start; nullopt if it can.
std::optional<Error> doomed(const Task& task, Time now) {
  if (!task.expires) return std::nullopt;
  const Duration lives = *task.expires - now;
  if (lives <= Duration{0})
    return never_starts("its expiry passed " + rough(-lives) +
                        " ago (expires must be in the future)");
  if (!task.not_before || *task.not_before < *task.expires) return std::nullopt;
  return never_starts("it may start " + rough(*task.not_before - now) + " from now, but expires " +
                      rough(lives) + " from now (expires must be after the start)");
}

}  // namespace

Publisher::Publisher(store::Store& store, Scheduler& scheduler)
    : store_(store),
      scheduler_(scheduler),
      combiner_(scheduler, kPublishBatch,
                [this](const auto& items) { return append_known(store_, items); }) {}

std::vector<Result<Receipt>> Publisher::publish(std::vector<Task> tasks) {
  std::vector<Result<Receipt>> receipts;
  receipts.reserve(tasks.size());
  for (std::size_t first = 0; first < tasks.size(); first += kPublishBatch) {
    const std::size_t last = std::min(tasks.size(), first + kPublishBatch);
    std::vector<store::Append> items;
    std::vector<std::optional<Error>> refused;
    for (std::size_t i = first; i < last; ++i) {
      auto item = prepare(std::move(tasks[i]));
      refused.push_back(item ? std::nullopt : std::optional(item.error()));
      if (item) items.push_back(std::move(*item));
    }
    // The combiner gets a copy, because receipt() needs the items to say what differs.
    const std::vector<Answer> answers =
        items.empty() ? std::vector<Answer>{} : combiner_.submit(items);
    std::size_t next = 0;
    for (std::optional<Error>& error : refused) {
      if (error) {
        receipts.emplace_back(std::move(*error));
        continue;
      }
      const Answer& answer = answers[next];
      receipts.push_back(answer ? receipt(items[next], *answer) : Result<Receipt>(answer.error()));
      ++next;
    }
  }
  return receipts;
}

PublisherMetrics Publisher::metrics() const {
  return {.accepted = accepted_.read(),
          .duplicates = duplicates_.read(),
          .conflicts = conflicts_.read()};
}

Result<store::Append> Publisher::prepare(Task task) {
  if (auto ok = core::check_topic(task.topic); !ok) return not_published(ok.error());
  if (auto ok = core::check_headers(task.headers); !ok) return not_published(ok.error());
  if (task.body.text().size() > core::kMaxBody)
    return Error{.code = Code::too_large,
                 .message = "the body has " + std::to_string(task.body.text().size()) +
                            " bytes; at most " + std::to_string(core::kMaxBody) +
                            " are allowed. Nothing was published: store it elsewhere and publish "
                            "where it is."};
  auto digest = encoding::content_digest(task.topic, task.body);
  if (!digest) return digest.error();
  if (task.id.empty()) task.id = encoding::text(*digest);
  if (auto ok = core::check_id(task.id); !ok) return not_published(ok.error());
  const Time now = store_.wall();
  if (auto error = doomed(task, now)) {
    // A publish that is repeated after the expiry still gets the receipt of the first one.
    const auto first = store_.find(task.id);
    if (!first) return first.error();
    if (!*first) return *error;
  }
  store::Append item{.id = std::move(task.id),
                     .topic = std::move(task.topic),
                     .body = std::move(task.body),
                     .headers = std::move(task.headers),
                     .digest = *digest};
  // A repeated publish may compute other durations. That is harmless, because the first entry
  // counts.
  if (task.not_before) item.delay = std::max(Duration{0}, *task.not_before - now);
  if (task.expires) item.lives = std::max(Duration{0}, *task.expires - now);
  if (item.delay > kLongest || item.lives.value_or(Duration{0}) > kLongest)
    return Error{.code = Code::invalid_input,
                 .message =
                     "the task's start and expiry may be at most ten years from now; nothing was "
                     "published"};
  scheduler_.random_bytes(item.nonce.bytes.data(), item.nonce.bytes.size());
  return item;
}

Result<Receipt> Publisher::receipt(const store::Append& item, const store::AppendResult& appended) {
  if (appended.verdict == core::AppendVerdict::conflict) {
    conflicts_.add();
    std::optional<std::vector<std::string>> differs;
    const auto original = store_.find(item.id);
    std::string unread;
    if (!original)
      unread = original.error().message;
    else if (*original && (*original)->body)
      differs = encoding::differing((*original)->topic, *(*original)->body, item.topic, item.body);
    return conflict(item, appended, std::move(differs), unread);
  }
  const bool duplicate = appended.verdict == core::AppendVerdict::duplicate;
  (duplicate ? duplicates_ : accepted_).add();
  return Receipt{.id = item.id,
                 .sequence = appended.sequence.value,
                 .digest = encoding::text(appended.digest),
                 .duplicate = duplicate,
                 .unrouted = appended.unrouted};
}

}  // namespace once::engine
