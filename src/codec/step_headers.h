// How the task of a workflow's step says so, in headers that nobody else may set:
//
//   Once-Run, Once-Step   the run and the step
//   Once-Reply            the topic of the event that tells how it ended
//   Once-Queue            which queue replies; others that take the task run it as their own
//   Once-Policy           {"attempts":5,"backoff":[2000],"jitter":200,"timeout":60000,"in_doubt":"hold"},
//                         each only when it is not the queue's
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
  std::string queue{};  // empty: whichever takes it
  std::optional<core::TaskPolicy> policy{};

  friend bool operator==(const StepTask&, const StepTask&) = default;
};

Headers step_headers(const StepTask& task);

// What they say to that queue; none: a task like any other.
std::optional<StepTask> read_step(const Headers& headers, std::string_view queue);

// Whether it is the task of that step.
bool is_task_of(const Headers& headers, std::string_view run, std::string_view step);

// Where the reply of a step goes.
core::ReplyTo reply_to(const StepTask& task);

}  // namespace once::encoding
