#include "flow/event_log.h"

#include "codec/digest.h"
#include "core/names.h"
#include "flow/definition/event.h"
#include "publish/append.h"
#include "work/task_row.h"

namespace once::engine {
namespace {

constexpr std::size_t kEventBatch = 1024;

}  // namespace

EventLog::EventLog(store::Store& store, Scheduler& scheduler)
    : store_(store),
      scheduler_(scheduler),
      combiner_(scheduler, kEventBatch,
                [this](const auto& items) { return append_known(store_, items); }) {}

store::Append EventLog::entry_of(const core::FlowEvent& event, Duration delay) {
  return {.id = core::event_id(event),
          .topic = core::event_topic(event.workflow, event.kind),
          .body = encoding::event_body(event),
          .delay = delay};
}

Result<void> EventLog::check(const core::FlowEvent& event) {
  const store::Append item = entry_of(event);
  if (const auto digest = encoding::content_digest(item.topic, item.body); !digest)
    return digest.error();
  return {};
}

std::vector<Result<store::AppendResult>> EventLog::append(std::vector<store::Append> items,
                                                          Again again) {
  std::vector<std::optional<Error>> refused(items.size());
  std::vector<store::Append> sent;
  for (std::size_t i = 0; i < items.size(); ++i) {
    store::Append& item = items[i];
    const auto digest = encoding::content_digest(item.topic, item.body);
    if (!digest) {
      refused[i] = digest.error();
      continue;
    }
    item.digest = *digest;
    if (again == Again::same)
      item.nonce = encoding::nonce_of(item.digest);
    else
      scheduler_.random_bytes(item.nonce.bytes.data(), item.nonce.bytes.size());
    sent.push_back(std::move(item));
  }
  std::vector<Result<store::AppendResult>> found;
  if (!sent.empty()) found = combiner_.submit(std::move(sent));
  std::vector<Result<store::AppendResult>> answers;
  answers.reserve(items.size());
  auto next = found.begin();
  for (std::optional<Error>& error : refused)
    answers.push_back(error ? Result<store::AppendResult>(std::move(*error)) : std::move(*next++));
  return answers;
}

Result<store::AppendResult> EventLog::append(store::Append item, Again again) {
  std::vector<store::Append> one;
  one.push_back(std::move(item));
  return std::move(append(std::move(one), again).front());
}

Result<std::optional<core::FlowEvent>> EventLog::find(std::string_view id) {
  auto entry = store_.find(id);
  if (!entry) return entry.error();
  if (!*entry || !(*entry)->body) return std::optional<core::FlowEvent>{};
  auto event = encoding::decode_event((*entry)->id, (*entry)->topic, *(*entry)->body,
                                      (*entry)->sequence, (*entry)->published_at);
  if (!event) return event.error();
  return std::optional<core::FlowEvent>(std::move(*event));
}

Result<bool> EventLog::handled(std::string_view id) {
  auto entry = store_.find(id);
  if (!entry) return entry.error();
  if (!*entry) return true;
  auto row = row_at(store_, (*entry)->sequence, {.name = std::string(core::kFlowQueue)});
  if (!row) return row.error();
  if (!*row) return !(*entry)->body;  // retention removes the body before the record
  return (*row)->stored && core::settled((*row)->stored->record.state);
}

}  // namespace once::engine
