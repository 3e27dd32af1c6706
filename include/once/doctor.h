// What could lose or repeat a task in a zone, as far as it can be seen: the values behind `once
// doctor`. docs/doctor.md lists every finding.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace once::inline v1 {

// Worst first.
enum class Severity {
  hazard,   // it loses or repeats tasks, or will when something ordinary happens
  warning,  // it may, or something stands still; somebody should look
  unknown,  // what matters cannot be seen from here; `fix` says how to find out
  note,     // good to know, nothing to do
};
std::string_view to_string(Severity severity);

struct Finding {
  std::string code{};  // stable, such as `wal_large`
  Severity severity = Severity::note;
  std::string about{};  // the queue, stream, server or file
  std::string what{};
  std::string harm{};  // how it can lose or repeat a task
  std::string fix{};
};

struct DoctorOptions {
  std::string queue{};  // empty: every queue
  bool deep = false;    // also what reads the whole store
  // Where NATS servers are monitored, such as `http://localhost:8222`; what is not visible over an
  // ordinary connection is asked there.
  std::vector<std::string> monitors{};
};

struct Diagnosis {
  std::vector<Finding> findings{};     // worst first
  std::vector<std::string> checked{};  // what was looked at, a line each
};

// Hazards and warnings.
std::size_t serious(const Diagnosis& diagnosis);

// What no software can see or close, in one sentence.
std::string_view open_window();

}  // namespace once::inline v1
