// The rules for ids, topics, filters and names, and how a filter matches.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "once/result.h"
#include "once/task.h"

namespace once::core {

inline constexpr std::size_t kMaxId = 1024;
inline constexpr std::size_t kMaxStepName = 128;
inline constexpr std::size_t kMaxTopic = 512;
inline constexpr std::size_t kMaxBody = 1 << 20;
inline constexpr std::size_t kMaxHeaders = 64 << 10;  // all names and values of a task together

Result<void> check_id(std::string_view id);        // UTF-8, 1 to 1,024 bytes, no controls
Result<void> check_key(std::string_view key);      // the same, for KeyFormat::plain
Result<void> check_topic(std::string_view topic);  // dotted, no spaces, controls or wildcards
Result<void> check_filter(
    std::string_view filter);  // a topic in which tokens may be * and the last >
Result<void> check_name(std::string_view name, std::string_view what);  // [A-Za-z0-9_-]{1,64}
Result<void> check_step_name(std::string_view name);  // UTF-8, 1 to 128 bytes, no controls
Result<void> check_stream(std::string_view name);     // a name of a stream that NATS accepts
Result<void> check_headers(const std::map<std::string, std::string>& headers);
Result<void> check_queue(const Queue& queue);  // all but the key template

// "ORDERS:17" is the id of a task of a stream of others. sequence_in() returns the 17. It returns
// nullopt if the id is not of this form.
std::string stream_task_id(std::string_view stream, std::uint64_t sequence);
std::optional<std::uint64_t> sequence_in(std::string_view stream, std::string_view id);

// Names that belong to Once. Topics and filters under `$once.` and the queue once-flow serve
// workflows. Older versions kept workflows in the four ledgers (store/moved_flows.h), so no queue
// may have one of their names. Events still name once-values as the place of a large output.
inline constexpr std::string_view kFlowQueue = "once-flow";     // the events of runs
inline constexpr std::string_view kFlowsLedger = "once-flows";  // definitions
// Runs. The audit still reports them under this name.
inline constexpr std::string_view kRunsLedger = "once-runs";
inline constexpr std::string_view kKeysLedger = "once-keys";      // which run a key has
inline constexpr std::string_view kValuesLedger = "once-values";  // outputs too large for their run
bool own_topic(std::string_view topic);
bool own_queue(std::string_view name);

// Only Once's own filters match Once's own topics. So no queue of a user runs them.
bool matches(std::string_view filter, std::string_view topic);
// Whether `filter` matches every topic that `other` matches. `other` is a topic or a filter.
bool covers(std::string_view filter, std::string_view other);

}  // namespace once::core
