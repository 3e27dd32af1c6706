// The values behind `once doctor`, which looks for conditions that could lose or repeat a task.
// The doctor reports only conditions that it can see. docs/doctor.md lists every finding.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "once/result.h"

namespace once::inline v1 {

// In order from worst to least.
enum class Severity {
  hazard,   // loses or repeats tasks now, or will after an ordinary event
  warning,  // may lose or repeat tasks, or work has stopped; a person should look
  unknown,  // the doctor cannot check this; `fix` says how to find out
  note,     // for information; no action is needed
};
std::string_view to_string(Severity severity);

struct Finding {
  std::string code{};  // stable, such as `wal_large`
  Severity severity = Severity::note;
  std::string about{};  // the queue, stream, server or file
  std::string what{};   // the condition
  std::string harm{};   // how the condition can lose or repeat a task
  std::string fix{};    // the `once` command prints the commands to type instead
  Facts facts{};        // the names and numbers of the finding, such as `queue`
};

struct DoctorOptions {
  std::string queue{};  // empty means every queue
  bool deep = false;    // also runs checks that read the whole store
  // Monitoring URLs of NATS servers, such as `http://localhost:8222`. The doctor asks them for
  // values that an ordinary connection cannot read.
  std::vector<std::string> monitors{};
};

struct Diagnosis {
  std::vector<Finding> findings{};     // worst first
  std::vector<std::string> checked{};  // one line per check that ran
};

// Returns how many findings are hazards or warnings.
std::size_t serious(const Diagnosis& diagnosis);

}  // namespace once::inline v1
