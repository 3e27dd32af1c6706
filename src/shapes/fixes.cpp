// One row per code whose fix is a command. {name} is a fact of the finding; {worker} and {option} are
// made here. A row CODE/CASE comes before the row of its code.
#include "shapes/fixes.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "shapes/flow_json.h"

namespace once::cli {
namespace {

struct Fix {
  std::string_view key;
  std::string_view text;
};

constexpr std::string_view kDecide =
    "once doubt list --queue {queue}, then once doubt complete, retry or drop; --in-doubt probe or "
    "steps lets the queue decide by itself";

constexpr std::array kFixes = std::to_array<Fix>({
    // Tasks
    {"abandoned_attempt",
     "look at the worker that 'once inspect ID' names (stopped? cut off from the store?), and "
     "start "
     "another: {worker}"},
    {"overdue_retry", "start workers, or more of them: {worker}"},
    {"slow_attempt",
     "look at it (once inspect ID names its worker); a hang needs a bound: once queue set {queue} "
     "--timeout {bound}"},
    {"short_lease", "once queue set {queue} --lease 30s"},
    {"paused", "once queue resume {queue}"},
    {"nobody_works/flows", "start '{worker}'"},
    {"nobody_works", "{worker}, or once queue remove {queue} if nobody needs it"},
    {"doubt_unattended", kDecide},
    {"in_doubt", kDecide},
    {"dead_letters", "once dead list --queue {queue}, then once dead retry or drop"},
    {"record_lost",
     "a worker's sweep holds such tasks in doubt; then once doubt list --queue {queue}, and once "
     "doubt complete, retry or drop"},
    {"unrouted",
     "add a queue that takes them (once queue add NAME --topic FILTER): it finds them all"},
    {"contradiction/more", "once audit --deep lists all of them"},
    {"contradiction",
     "stop everything that uses the zone, keep a copy, and restore a backup (docs/effects.md, f); "
     "once audit --deep shows whether there is more"},
    {"ids_kept_briefly", "once retention --ids 30d, or longer than the latest retry"},
    // Runs of workflows
    {"failed_runs", "once flow runs --state failed, then once flow retry or cancel"},
    {"run_without_queue",
     "once queue add; or add a version of the workflow that names the right queue, cancel the run "
     "and start it anew"},
    {"run_event_fails",
     "mend what the error names; once list --queue once-flow --state retrying shows the events"},
    {"hopeless_run",
     "close the run (once flow cancel RUN), and start another (once flow start --unique)"},
    {"stuck_run",
     "once flow show RUN; upgrade all workers of the zone, then cancel the run (once flow cancel "
     "RUN) and start it anew"},
    // A SQLite file
    {"database_unchecked", "once doctor --deep reads all of it"},
    {"disk_nearly_full", "free some space, or keep less: once retention --bodies 1d"},
    {"side_file_rights",
     "chmod and chgrp it like the database: chmod --reference={database} {file}"},
    {"open_files_unseen", "run once doctor as root, or 'fuser -v {file}'"},
    // NATS JetStream
    {"stream_setting",
     "nats stream edit {stream} sets it back; one that is sealed, or whose storage or mirror was "
     "changed, comes from a backup"},
    {"nearly_full/own_stream", "nats stream edit {stream} --{option}=-1"},
    {"nearly_full/foreign_stream", "nats stream edit {stream} --{option} ..."},
    {"nearly_full/account", "raise the account's limit, or keep less: once retention"},
    {"nearly_full/server", "raise max_file_store, or keep less: once retention"},
    {"few_replicas", "nats stream edit {stream} --replicas 3"},
    {"consumer_edited",
     "start a worker of the queue, or set its lease again (once queue set {queue} --lease): either "
     "sets it back"},
    {"consumer_paused", "nats consumer resume {stream} {consumer}"},
    {"not_permitted", "run once doctor with a login that may (docs/nats-permissions.md)"},
    {"versions_unseen", "once doctor --monitor http://HOST:8222 for each, or nats server list"},
    {"sync_unknown",
     "once doctor --monitor http://HOST:8222 for each, or look for sync_interval in its "
     "configuration"},
    {"room_unknown",
     "once doctor --monitor http://HOST:8222 for each, or nats server report jetstream"},
    // Streams of others
    {"stream_discards_old", "nats stream edit {stream} --discard new"},
    {"stream_per_subject", "nats stream edit {stream} --max-msgs-per-subject=-1"},
    {"stream_age_below_retries",
     "nats stream edit {stream} --max-age 0, or fewer attempts (once queue set {queue} --attempts "
     "N)"},
    {"stream_max_age", "nats stream edit {stream} --max-age 0, or far above your longest outage"},
    {"stream_in_memory", "make it anew with --storage file; a stream cannot be changed to that"},
    {"stream_async", "make it anew without --persist-mode async"},
    {"stream_no_ack", "nats stream edit {stream} --ack"},
    {"stream_interest", "make it anew with --retention limits or work"},
    {"stream_rollup", "nats stream edit {stream} --no-allow-rollup"},
    {"stream_purgeable", "make it with --deny-purge and --deny-delete, which cannot be taken back"},
    {"single_server", "three nodes and --replicas 3, or backups"},
    {"other_consumer",
     "give it a queue of its own: once queue add NAME --stream {stream} --key {key}"},
    {"other_consumer_lock", "hold a lease in a ledger: once claim"},
});

// The facts of the finding, and what only the command knows.
Facts with_commands(const Facts& facts) {
  std::vector<Facts::Fact> all(facts.begin(), facts.end());
  all.push_back({"worker", facts["queue"] == kEventsQueue
                               ? "once flow work"
                               : facts.fill("once work {queue} -- CMD")});
  std::string option(facts["limit"]);  // max_bytes is --max-bytes of the tool `nats`
  std::replace(option.begin(), option.end(), '_', '-');
  all.push_back({"option", std::move(option)});
  return Facts(std::move(all));
}

}  // namespace

std::string fix_for(const Finding& finding) {
  const std::string in_case = finding.code + "/" + std::string(finding.facts["case"]);
  const auto* const row = std::find_if(kFixes.begin(), kFixes.end(), [&](const Fix& each) {
    return each.key == finding.code || each.key == in_case;
  });
  return row == kFixes.end() ? finding.fix : with_commands(finding.facts).fill(row->text);
}

}  // namespace once::cli
