// Tasks as JSON. The commands print these objects with --json, and the HTTP server sends them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "once/zone.h"
#include "shapes/json_line.h"

namespace once::cli {

// What happens next, and what a person can type about it.
std::string next_text(const NextView& next);

// A key of a ledger-only queue has no entry in the log.
bool in_log(const TaskView& task);
// The run and the step of a workflow's task; empty for any other task.
std::string run_of(const LogEntry& entry);
std::string step_of(const LogEntry& entry);

// The answer to a publish: id, sequence, duplicate, digest.
JsonLine& add_receipt(JsonLine& line, const Receipt& receipt);
std::string steps_json(const std::vector<StepView>& steps);
// A task with its whole story.
std::string task_json(const TaskView& task);
// An entry of the log.
std::string entry_json(const LogEntry& entry);

// When a scheduled task starts and expires. A ListItem does not contain these times.
struct Schedule {
  std::optional<Time> not_before{}, expires{};
};
Schedule schedule_of(const Zone& zone, const ListItem& item);
std::string item_json(const ListItem& item, const Schedule& schedule);

// How a task ended in one queue.
std::string result_json(std::string_view id, std::string_view queue, std::string_view state,
                        const Outcome& outcome);
// What a person's action did to a task in one queue.
std::string action_json(std::string_view id, std::string_view queue, std::string_view outcome,
                        bool dry_run = false);

}  // namespace once::cli
