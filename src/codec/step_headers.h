// The headers that mark a task as the step of a workflow. Publishers cannot set them:
//
//   Once-Run, Once-Step   the run and the step
//   Once-Reply            the topic of the event that tells how it ended
//   Once-Queue            the queue that replies; in other queues the task is an ordinary task
//   Once-Policy           {"attempts":5,"backoff":[2000],"jitter":200,"timeout":60000,"in_doubt":"hold"},
//                         each field only if it differs from the queue's policy
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/record.h"

namespace once::encoding {

using Headers = std::map<std::string, std::string>;

struct StepTask {
  std::string run{};
  std::string step{};
  std::string reply{};  // the topic
  std::string queue{};  // empty: any queue that takes the task
  std::optional<core::TaskPolicy> policy{};

  friend bool operator==(const StepTask&, const StepTask&) = default;
};

Headers step_headers(const StepTask& task);

// Reads the headers for that queue. nullopt if the task is no step there.
std::optional<StepTask> read_step(const Headers& headers, std::string_view queue);

// Whether the headers are those of that step's task.
bool is_task_of(const Headers& headers, std::string_view run, std::string_view step);

// Where the reply of a step goes.
core::ReplyTo reply_to(const StepTask& task);

}  // namespace once::encoding
