// One row per route. tests/unit/server/openapi_test.cpp compares the rows with the routes.
#include "server/openapi.h"

namespace once::server {
namespace {

constexpr DescribedParameter kParameters[] = {
    {"id", "string", "The id of a task"},
    {"topic", "string", "The topic of a task"},
    {"queue", "string", "The name of a queue"},
    {"claim", "string", "A claim, as an offer names it"},
    {"step", "string", "The name of a step"},
    {"state", "State", "Only tasks in this state"},
    {"after", "string", "The \"after\" of the page before"},
    {"limit", "integer", "The most items of a page, at most 1000"},
    {"wait", "string", "How long to wait, such as 30s; at most 5m"},
    {"delay", "string", "Start the task no sooner than after this duration"},
    {"at", "string", "Start the task no sooner than at this time"},
    {"expires", "string", "A duration or a time after which the task must not start"},
    {"force", "boolean", "Remove the queue with its tasks"},
    {"quick", "boolean", "Leave out the metrics that need every task"},
    {"Idempotency-Key", "string", "The id of the task"},
};

const std::string_view kNdjson = "application/x-ndjson";

std::vector<Operation> for_publishers() {
  return {
      {"POST",
       "/v1/topics/{topic}",
       "publish",
       "Publish a task. The body of the request is its body",
       {{201, "Receipt"}, {200, "Receipt"}},
       "any",
       "application/json",
       true,
       {"Idempotency-Key"}},
      {"POST",
       "/v1/tasks:batch",
       "publishBatch",
       "Publish many tasks, one JSON object per line",
       {{200, "BatchAnswer", kNdjson}},
       "BatchLine",
       kNdjson},
  };
}

std::vector<Operation> for_readers() {
  return {
      {"GET", "/v1/tasks", "listTasks", "List tasks", {{200, "TaskList"}}},
      {"GET", "/v1/tasks/{id}", "inspectTask", "Show a task with its whole story", {{200, "Task"}}},
      {"GET",
       "/v1/tasks/{id}/result",
       "waitForResult",
       "Wait until a task is settled",
       {{200, "TaskResults"}, {202, "TaskResults"}}},
      {"GET", "/v1/log", "readLog", "Read the entries of the log in order", {{200, "Log"}}},
      {"GET", "/v1/status", "status", "Count the tasks of each queue by state", {{200, "Status"}}},
  };
}

std::vector<Operation> for_people() {
  return {
      {"POST",
       "/v1/tasks/{id}:cancel",
       "cancelTask",
       "Cancel a task that is not settled",
       {{200, "Decided"}},
       "Decision"},
      {"POST",
       "/v1/tasks/{id}:retry",
       "retryTask",
       "Run a dead or in-doubt task again",
       {{200, "Decided"}},
       "Decision"},
      {"POST",
       "/v1/tasks/{id}:complete",
       "completeTask",
       "Resolve an in-doubt task, or its step, as \"it happened\"",
       {{200, "Decided"}},
       "{...Decision, result?: any, step?: string}"},
      {"POST",
       "/v1/tasks/{id}:drop",
       "dropTask",
       "Give up a dead or in-doubt task",
       {{200, "Decided"}},
       "Decision"},
  };
}

std::vector<Operation> for_queues() {
  return {
      {"GET", "/v1/queues", "listQueues", "List the queues", {{200, "QueueList"}}},
      {"GET", "/v1/queues/{queue}", "showQueue", "Show a queue", {{200, "Queue"}}},
      {"PUT",
       "/v1/queues/{queue}",
       "addQueue",
       "Add a queue. The same request again changes nothing",
       {{201, "QueueAdded"}, {200, "QueueAdded"}},
       "QueueFields"},
      {"PATCH",
       "/v1/queues/{queue}",
       "changeQueue",
       "Change settings of a queue",
       {{200, "QueueChanged"}},
       "ChangeableQueueFields"},
      {"DELETE", "/v1/queues/{queue}", "removeQueue", "Remove a queue", {{200, "QueueRemoved"}}},
      {"POST",
       "/v1/queues/{queue}:pause",
       "pauseQueue",
       "Start no more tasks of a queue",
       {{200, "QueuePaused"}}},
      {"POST",
       "/v1/queues/{queue}:resume",
       "resumeQueue",
       "Start tasks of a paused queue again",
       {{200, "QueuePaused"}}},
  };
}

std::vector<Operation> for_workers() {
  return {
      {"POST",
       "/v1/queues/{queue}/claims",
       "offerTasks",
       "Wait for offers of tasks",
       {{200, "Offers"}},
       "Poll"},
      {"POST",
       "/v1/claims:start",
       "startClaims",
       "Start the tasks of offers",
       {{200, "StartedClaims"}},
       "Claims"},
      {"POST",
       "/v1/claims:renew",
       "renewClaims",
       "Prolong leases",
       {{200, "RenewedClaims"}},
       "Claims"},
      {"POST",
       "/v1/claims:settle",
       "settleClaims",
       "Settle claims and ask for the next offers",
       {{200, "SettledClaims"}},
       "Settlements"},
      {"POST",
       "/v1/claims/{claim}:complete",
       "completeClaim",
       "The task is done",
       {{200, "SettledClaim"}},
       "Verdict"},
      {"POST",
       "/v1/claims/{claim}:fail",
       "failClaim",
       "The task failed and may be tried again",
       {{200, "SettledClaim"}},
       "Verdict"},
      {"POST",
       "/v1/claims/{claim}:dead",
       "deadClaim",
       "The task can never be done",
       {{200, "SettledClaim"}},
       "Verdict"},
      {"POST",
       "/v1/claims/{claim}:unknown",
       "unknownClaim",
       "The worker cannot tell whether the task happened",
       {{200, "SettledClaim"}},
       "Verdict"},
      {"POST",
       "/v1/claims/{claim}:release",
       "releaseClaim",
       "Give an offer back",
       {{200, "SettledClaim"}},
       "Verdict"},
      {"POST",
       "/v1/claims/{claim}/steps/{step}:begin",
       "beginStep",
       "Begin a durable step",
       {{200, "StepBegun"}},
       "{call?: string, in_doubt?: 'retry' | 'hold' | 'probe', asked?: boolean}"},
      {"POST",
       "/v1/claims/{claim}/steps/{step}:end",
       "endStep",
       "Record the result of a step",
       {{200, "Recorded"}},
       "{result?: any, call?: string}"},
      {"POST",
       "/v1/claims/{claim}/steps/{step}:fail",
       "failStep",
       "Record that a step failed",
       {{200, "Recorded"}},
       "{why?: string, call?: string}"},
      {"POST",
       "/v1/claims/{claim}/steps/{step}:hold",
       "holdStep",
       "Hold the task until a person decides about a step",
       {{200, "Recorded"}},
       "{why?: string, call?: string}"},
  };
}

std::vector<Operation> for_operators() {
  return {
      {"GET", "/healthz", "health", "Whether the process is alive", {{200, "{ok: true}"}}},
      {"GET", "/readyz", "ready", "Whether the store answers", {{200, "{ready: true}"}}},
      {"GET",
       "/metrics",
       "metrics",
       "Metrics in the text format of Prometheus",
       {{200, "string", "text/plain"}}},
      {"GET", "/openapi.json", "openapi", "This document", {{200, "object"}}},
  };
}

}  // namespace

std::span<const DescribedParameter> described_parameters() { return kParameters; }

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = [] {
    std::vector<Operation> rows;
    for (auto* part :
         {for_publishers, for_readers, for_people, for_queues, for_workers, for_operators})
      for (Operation& each : part()) rows.push_back(std::move(each));
    return rows;
  }();
  return all;
}

}  // namespace once::server
