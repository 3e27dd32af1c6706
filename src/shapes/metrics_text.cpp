// The names, and how they are written down.
#include "shapes/metrics_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

using Type = Family::Type;

std::string_view to_string(Type type) {
  switch (type) {
    case Type::counter: return "counter";
    case Type::gauge: return "gauge";
    case Type::histogram: return "histogram";
  }
  return "untyped";
}

double as_seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

double as_seconds(const std::optional<Duration>& duration) {
  return duration ? std::max(0.0, as_seconds(*duration)) : 0.0;
}

Labels with(Labels labels, std::string name, std::string value) {
  labels.emplace_back(std::move(name), std::move(value));
  return labels;
}

template <class Number>
void add(Family& to, Labels labels, Number value) {
  to.samples.push_back({to.name, std::move(labels), static_cast<double>(value)});
}

void add(Family& to, const Labels& labels, const Histogram& histogram) {
  std::uint64_t so_far = 0;
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    so_far += histogram.counts[i];
    const bool last = i == Histogram::kBounds.size();
    to.samples.push_back(
        {to.name + "_bucket",
         with(labels, "le", last ? "+Inf" : fmt::format("{}", as_seconds(Histogram::kBounds[i]))),
         static_cast<double>(so_far)});
  }
  to.samples.push_back({to.name + "_sum", labels, as_seconds(histogram.sum)});
  to.samples.push_back({to.name + "_count", labels, static_cast<double>(so_far)});
}

// Names, ids and hosts are anybody's text: what is not UTF-8 is replaced.
std::string label_value(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const char first = text.front();
    if (length == 0) {
      out += "\xef\xbf\xbd";
    } else if (first == '\n') {
      out += "\\n";
    } else if (first == '"' || first == '\\') {
      out += '\\';
      out += first;
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string text(const Labels& labels) {
  if (labels.empty()) return {};
  std::vector<std::string> parts;
  for (const auto& [name, value] : labels) {
    parts.push_back(fmt::format("{}=\"{}\"", name, label_value(value)));
  }
  return fmt::format("{{{}}}", fmt::join(parts, ","));
}

// A count that is there from the start, as zero, is one whose growth can be seen.
void add_idle_queues(const Status& status, Audit& audit) {
  for (const QueueStatus& queue : status.queues) {
    const bool counted =
        std::any_of(audit.lines.begin(), audit.lines.end(),
                    [&](const AuditLine& line) { return line.queue == queue.queue.name; });
    if (!counted) audit.lines.push_back({.queue = queue.queue.name});
  }
}

}  // namespace

Families worker_families(const WorkerMetrics& metrics, bool store_up) {
  const Labels labels{{"queue", metrics.queue}, {"worker", metrics.worker}};
  Families families;
  const auto one = [&](std::string name, Type type, std::string help, std::uint64_t value) {
    Family family{std::move(name), type, std::move(help)};
    add(family, labels, value);
    families.push_back(std::move(family));
  };
  one("once_worker_claims_total", Type::counter, "Tasks that this worker took, every attempt one.",
      metrics.claims);
  one("once_worker_reclaims_total", Type::counter,
      "Claims after an attempt that was lost with its worker or its lease.", metrics.reclaims);
  one("once_worker_completed_total", Type::counter, "Attempts recorded as completed.",
      metrics.completed);
  one("once_worker_retries_total", Type::counter,
      "Attempts that did not complete and are to be followed by another.", metrics.retries);
  one("once_worker_in_doubt_total", Type::counter, "Tasks recorded as in doubt: held for a person.",
      metrics.in_doubt);
  one("once_worker_dead_total", Type::counter, "Tasks recorded as dead letters.", metrics.dead);
  one("once_worker_cancelled_total", Type::counter, "Tasks recorded as cancelled or expired.",
      metrics.cancelled);
  one("once_worker_given_back_total", Type::counter,
      "Claims that were never begun or interrupted by the worker's end.", metrics.given_back);
  one("once_worker_fenced_total", Type::counter,
      "Attempts that could not be recorded because another took the task over.", metrics.fenced);

  Family hits{"once_worker_dedup_hits_total", Type::counter,
              "Deliveries that the ledger stopped from running a task again or beside another."};
  const Labels ledger = with(labels, "layer", "ledger");
  add(hits, with(ledger, "reason", "settled"), metrics.stopped_settled);
  add(hits, with(ledger, "reason", "held"), metrics.stopped_held);
  add(hits, with(ledger, "reason", "same_key"), metrics.stopped_same_key);
  families.push_back(std::move(hits));

  one("once_worker_running_tasks", Type::gauge, "Tasks whose handler runs now.", metrics.running);
  one("once_worker_store_up", Type::gauge, "1 while the store answers this worker, else 0.",
      store_up ? 1 : 0);

  Family to_start{"once_worker_start_seconds", Type::histogram,
                  "From publish (or not-before) to the first start, of tasks first started here."};
  add(to_start, labels, metrics.to_start);
  families.push_back(std::move(to_start));
  Family to_record{"once_worker_record_seconds", Type::histogram,
                   "From publish (or not-before) to the completion recorded by this worker."};
  add(to_record, labels, metrics.to_record);
  families.push_back(std::move(to_record));
  return families;
}

Families status_families(const Status& status) {
  Family tasks{"once_queue_tasks", Type::gauge, "Tasks of the queue by state."};
  Family waiting{"once_queue_oldest_waiting_seconds", Type::gauge,
                 "Age of the task that has waited longest; 0: none waits."};
  Family in_doubt{"once_queue_oldest_in_doubt_seconds", Type::gauge,
                  "Age of the task that has been in doubt longest; 0: none is."};
  Family workers{"once_queue_workers", Type::gauge, "Workers of the queue that are alive."};
  Family paused{"once_queue_paused", Type::gauge, "1 while the queue is paused, else 0."};
  Family unrouted{"once_unrouted_tasks", Type::gauge, "Tasks that no queue takes."};
  for (const QueueStatus& queue : status.queues) {
    const Labels labels{{"queue", queue.queue.name}};
    for (const auto& [state, count] : queue.tasks) {
      add(tasks, with(labels, "state", std::string(once::to_string(state))), count);
    }
    add(waiting, labels, as_seconds(queue.oldest_waiting));
    add(in_doubt, labels, as_seconds(queue.oldest_in_doubt));
    add(workers, labels, queue.workers);
    add(paused, labels, queue.queue.paused ? 1 : 0);
  }
  add(unrouted, {}, status.unrouted);
  return {tasks, waiting, in_doubt, workers, paused, unrouted};
}

Families audit_families(const Audit& audit) {
  Family published{"once_tasks_published_total", Type::counter,
                   "Tasks published, by queue that takes them; none: no queue does."};
  Family duplicates{"once_duplicates_total", Type::counter,
                    "Duplicates stopped: publishes answered with the task that was there (append), "
                    "tasks whose key was known (ledger)."};
  Family attempts{"once_attempts_total", Type::counter, "Attempts that began to run."};
  Family reruns{"once_reruns_total", Type::counter, "Attempts after the first, by reason."};
  Family twice{"once_completed_twice_total", Type::counter,
               "Tasks with more than one completion: must be 0."};
  Family discrepancies{"once_audit_discrepancies", Type::gauge,
                       "What the audit cannot explain: must be 0."};
  Family to_start{"once_task_start_seconds", Type::histogram,
                  "From publish (or not-before) to the first start."};
  Family to_record{"once_task_record_seconds", Type::histogram,
                   "From publish (or not-before) to the recorded completion."};
  for (const AuditLine& line : audit.lines) {
    const Totals& totals = line.totals;
    const Labels labels{{"queue", line.queue}};
    add(published, labels, totals.published);
    add(duplicates, with(labels, "layer", "append"), totals.duplicates_at_append);
    if (line.queue.empty()) continue;  // unrouted: nothing more happens to them
    add(duplicates, with(labels, "layer", "ledger"), totals.duplicates_by_ledger);
    add(attempts, labels, totals.attempts);
    for (std::size_t i = 0; i < totals.reruns.size(); ++i) {
      add(reruns, with(labels, "reason", std::string(once::to_string(static_cast<Rerun>(i)))),
          totals.reruns[i]);
    }
    add(twice, labels, totals.completed_twice);
    add(to_start, labels, totals.to_start);
    add(to_record, labels, totals.to_record);
  }
  add(discrepancies, {}, audit.discrepancies.size() + audit.unlisted);
  return {published, duplicates, attempts, reruns, twice, discrepancies, to_start, to_record};
}

Result<Families> zone_families(const Zone& zone, bool quick, std::function<void(double)> progress) {
  const auto status = zone.status();
  if (!status) return status.error();
  Families families = status_families(*status);
  if (quick) return families;
  auto audit = zone.audit({.by = AuditOptions::Period::all, .progress = std::move(progress)});
  if (!audit) return audit.error();
  add_idle_queues(*status, *audit);
  for (Family& family : audit_families(*audit)) families.push_back(std::move(family));
  return families;
}

std::string prometheus_text(const Families& families) {
  std::string out;
  for (const Family& family : families) {
    if (family.samples.empty()) continue;
    out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", family.name, family.help, family.name,
                       to_string(family.type));
    for (const Sample& sample : family.samples) {
      out += fmt::format("{}{} {}\n", sample.name, text(sample.labels), sample.value);
    }
  }
  return out;
}

}  // namespace once::cli
