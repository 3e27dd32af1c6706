// Metrics by the conventions of Prometheus: `once_worker_...` is what one process counts, everything
// else what the zone knows, so that no sum counts a thing twice.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "once/metrics.h"
#include "once/zone.h"

namespace once::cli {

using Labels = std::vector<std::pair<std::string, std::string>>;

struct Sample {
  std::string name{};  // the family's, in a histogram with a suffix
  Labels labels{};
  double value{};
};

struct Family {
  enum class Type { counter, gauge, histogram };
  std::string name{};
  Type type = Type::counter;
  std::string help{};
  std::vector<Sample> samples{};
};
using Families = std::vector<Family>;

Families worker_families(const WorkerMetrics& metrics, bool store_up);
Families status_families(const Status& status);
Families audit_families(const Audit& audit);  // by Period::all

// What `once metrics` prints. The audit reads every task, and `quick` leaves it out.
Result<Families> zone_families(const Zone& zone, bool quick,
                               std::function<void(double)> progress = {});

// The text format, version 0.0.4.
std::string prometheus_text(const Families& families);

}  // namespace once::cli
