// The texts of the doctor. {name} is a fact of the finding. A part in [brackets] is left out if a
// fact in it is empty.
#include "core/findings.h"

#include <algorithm>
#include <array>

namespace once::core {
namespace {

constexpr std::string_view kDecide =
    "complete, retry or drop each of them; the policies probe and steps let the queue decide by "
    "itself";

constexpr std::array kTasks = std::to_array<FindingRow>({
    {"abandoned_attempt",
     "{attempts} let its lease expire and no worker has taken over; the oldest was last renewed "
     "{age} ago",
     "its effect may have happened and is not recorded; the task waits until a worker runs it "
     "again or holds it, as the queue's policy says",
     "check the worker that the attempt names (it may be stopped or unable to reach the store), "
     "and start another"},
    {"overdue_retry", "{tasks} due for a retry and not started, overdue by up to {age}",
     "nothing is lost or repeated, but these tasks do not run", "start workers, or more of them"},
    {"never_started", "{tasks} offered to workers many times in a row and never started",
     "nothing is lost or repeated, but these tasks run late: each offer ends by itself, and the "
     "task waits longer before the next one",
     "look at the workers that take offers over HTTP or by the pull interface: they claim more "
     "than "
     "they can run, or they never get the answers"},
    {"clock_jumped",
     "{tasks} stamped up to {age} ahead of the clock: the clock was set back, or was ahead",
     "leases and retries do not use this clock, so they lose or repeat nothing; but a task that is "
     "published with a start or expiry time starts late, or expires early, by as much",
     "correct the clock and keep it synchronised (chrony, systemd-timesyncd)"},
    {"slow_attempt",
     "{attempts} running for up to {age}, more than ten times the queue's median of {median}",
     "an attempt that hangs keeps its lease for ever, and its task is never retried[; the queue's "
     "timeout of {timeout} will end it]",
     "check the worker that the attempt names; to end attempts that hang, give the queue a timeout "
     "of {bound}"},
    {"short_lease", "the lease is {lease}",
     "a worker that pauses for that long (a busy machine, a slow disk) loses its task: another "
     "worker runs the task at the same time, and the first worker's result is refused",
     "give the queue a lease of 30s"},
    {"paused", "it is paused, and {tasks} waiting[, the oldest for {oldest}]",
     "nothing is lost, but no task runs", "resume the queue"},
    {"nobody_works", "{tasks} waiting[, the oldest for {oldest}], and no worker is running",
     "nothing is lost, but no task runs: a task with an expiry is cancelled when it expires",
     "start a worker of the queue, or remove the queue if it is not needed"},
    {"nobody_works/flows", "{tasks} waiting[, the oldest for {oldest}], and no worker is running",
     "nothing is lost, but the runs of workflows do not continue", "start a runner of workflows"},
    {"doubt_unattended", "{tasks} in doubt for more than a day, the oldest for {age}",
     "each may have happened or not; a task that did not happen stays undone until a person "
     "decides",
     kDecide},
    {"in_doubt", "{tasks} in doubt, held for a person", "each may have happened or not", kDecide},
    {"dead_letters", "{tasks}",
     "nothing is lost: they are kept, with their bodies, until a person decides",
     "retry or drop each of them"},
    {"record_lost", "{tasks} that was handed over and done with, and whose record is gone",
     "somebody deleted the record, or the store lost it: the task may have run",
     "a worker's sweep holds such tasks in doubt; then complete, retry or drop each of them"},
    {"overlooked", "{tasks} that the store counts as handed over, and that no record settles",
     "the store itself does not deliver them again",
     "run a worker of the queue; its sweep finds such tasks every minute"},
    {"unrouted", "{tasks} that no queue takes[: {topics}]",
     "they are kept and never run; a mistyped topic or filter has this effect",
     "add a queue that takes them: it finds them all"},
    {"contradiction", "{damage}", "{harm}",
     "stop everything that uses the zone, keep a copy, and restore a backup (docs/effects.md, f); "
     "a deep audit shows whether there is more"},
    {"contradiction/more", "{count} more like these", "see those above",
     "a deep audit lists all of them"},
    {"ids_kept_briefly", "an id is forgotten {kept} after its task is settled",
     "a publisher that retries later than that (a webhook, a restarted job) adds the task again, "
     "and it runs again",
     "keep ids for 30 days, or longer than the latest retry"},
    {"unreadable/runs", "they cannot be read: {error}", "no run continues, and no run is started",
     "correct what the message says; then check again"},
    {"unreadable", "it cannot be read: {error}",
     "damaged tasks cannot be run or recorded; what this login may not read is not checked",
     "correct what the message says; then check again"},
});

constexpr std::array kRuns = std::to_array<FindingRow>({
    {"failed_runs", "{runs} in the state failed",
     "nothing is lost: they are kept as they are until a person decides",
     "retry or cancel each of them"},
    {"unreadable_run", "{runs} that cannot be read[: {why}]",
     "no runner can continue the run, and it cannot be cancelled",
     "use the version of Once that wrote the run; if the run is damaged, restore a backup"},
    {"run_without_queue", "{runs} with a step that has no queue[: {why}]",
     "the step does not start, and its run waits for ever",
     "add the queue; or add a version of the workflow that names the right queue, cancel the run "
     "and start it again"},
    {"run_event_fails", "{runs} with an event that runners fail to handle[: {why}]",
     "the run does not continue until an attempt at the event succeeds",
     "correct what the error names; the queue once-flow has the events"},
    {"hopeless_run", "{runs} that was retried and cannot continue[: {why}]",
     "the rest of the run is never done", "cancel the run, and start another"},
    {"stuck_run",
     "{runs} that cannot continue: no event or timer of it waits, and no task of its steps is open",
     "the rest of the run is never done; a worker of an older version of Once runs a step without "
     "giving its reply",
     "upgrade all workers of the zone, then cancel the run and start it again"},
});

constexpr std::array kSqlite = std::to_array<FindingRow>({
    {"database_damaged", "SQLite finds the file damaged: {error}",
     "records may be missing or wrong: a task may be lost, or run again",
     "stop everything that uses it, keep a copy, then bring back a backup (read docs/effects.md, "
     "f, before a worker starts) or try sqlite3's .recover"},
    {"database_unchecked", "the file has {size} and was not checked for damage",
     "damage can lose or repeat tasks", "a deep look reads all of it"},
    {"not_wal", "the file is in journal mode {mode} instead of wal: another program set it",
     "a program that sets the mode also writes; readers and writers block each other until Once's "
     "next write sets it back",
     "keep other programs off the file; Once's next write sets the mode back"},
    {"wal_large",
     "the write-ahead log has {size}, held open by a reader that does not end: {readers}",
     "it grows until the disk is full; then a completion cannot be recorded, and its task is in "
     "doubt or runs again",
     "end that read transaction; the log starts over with the next writes"},
    {"wal_large/free", "the write-ahead log has {size}; no reader is known to hold it now",
     "it grows until the disk is full; then a completion cannot be recorded, and its task is in "
     "doubt or runs again",
     "nothing: the next writes start the log over when no reader blocks it"},
    {"sqlite_wal_race",
     "SQLite 3.7.0 to 3.51.2 can damage a file if two connections checkpoint or write at the same "
     "time",
     "none among Once's own connections, which do so only under its lock; other programs do not "
     "know that lock",
     "keep other programs off the file, or use SQLite 3.51.3 or newer everywhere"},
    {"volatile_file_system", "the folder is in memory (tmpfs)",
     "a restart of the machine deletes every task and every record", "put the database on a disk"},
    {"container_layer", "the folder is on an overlay file system, as a container's own files are",
     "the file is deleted with the container", "put the database on a volume"},
    {"disk_nearly_full", "{free} are free",
     "on a full disk nothing can be published, and a completion cannot be recorded: its task is in "
     "doubt or runs again, although its effect has happened",
     "free some space, or keep bodies for less time"},
    {"side_file_rights", "some users who may use the database may not use this file",
     "for these users every call fails; nothing is lost or repeated",
     "give it the owner, group and mode of the database"},
    {"other_program", "{process} has the database open and may write to it",
     "its writes and checkpoints ignore Once's lock; they can damage the file or change records "
     "without Once's rules",
     "end it; look at a copy instead (sqlite3 FILE \".backup COPY\")"},
    {"other_program/reads", "{process} has the database open for reading",
     "none; a long read makes the write-ahead log grow",
     "end it; look at a copy instead (sqlite3 FILE \".backup COPY\")"},
    {"open_files_unseen",
     "processes of other users cannot be inspected: whether they have the database open is unknown",
     "another program that writes to or checkpoints the file can damage it",
     "look as root, or with 'fuser -v {file}'"},
    {"deleted_file", "{process} has this file open, and the file was deleted or replaced",
     "what that process records there is lost, and earlier records may be lost too",
     "end that process with SIGTERM; never delete a side file of a database in use"},
    {"time_namespace", "the process has the database open and is in another time namespace",
     "none from this version on; version 0.1 moves the zone's time by the offset",
     "run processes of version 0.1 outside of time namespaces"},
    {"second_name", "{names}",
     "processes that use different names do not see each other: tasks run twice; Once refuses to "
     "work with the file",
     "{one_name}"},
    {"boot_unknown", "the kernel's boot id is hidden, as in containers of systemd-nspawn",
     "none; after a restart of the machine, leases may run to their end first",
     "show the kernel's boot id to the container"},
    {"no_inotify", "this user has no inotify instance left ({error})",
     "none; workers in other processes poll every 50 ms, because they cannot be woken",
     "sysctl fs.inotify.max_user_instances=1024"},
});

constexpr std::string_view kFull =
    "if it is full, nothing can be published, and a completion cannot be recorded: its task is in "
    "doubt or runs again, although its effect has happened";
constexpr std::string_view kOneMore =
    "after one more failure, nothing can be published or recorded; if a disk is also damaged, "
    "acknowledged writes are lost";
constexpr std::string_view kUsed = "{percent} % of {room} are used ({used} of {most})";

constexpr std::array kNats = std::to_array<FindingRow>({
    {"zone_emptied", "{error}", "no task starts in this zone, and the zone can only be examined",
     "stop the workers, then restore a backup of all streams of the zone, or accept the loss "
     "(docs/nats.md, \"When data was lost\")"},
    {"stream_setting",
     "{field} is {found} instead of {wanted}: no task starts until it is set back", "{harm}",
     "set it back at the server; a stream that is sealed, or whose storage or mirror was changed, "
     "comes from a backup"},
    {"nearly_full/own_stream", kUsed, kFull, "take {limit} off the stream"},
    {"nearly_full/foreign_stream", kUsed, kFull, "raise {limit} of the stream"},
    {"nearly_full/account", kUsed, kFull, "raise the account's limit, or keep tasks for less time"},
    {"nearly_full/server", kUsed, kFull, "raise max_file_store, or keep tasks for less time"},
    {"few_replicas", "{replicas} of its cluster's nodes holds it",
     "if that node is away, nothing works; if its disk is lost, everything is lost",
     "give the stream three replicas"},
    {"few_replicas/two", "{replicas} of its cluster's nodes hold it",
     "two replicas stop working if one of them is away", "give the stream three replicas"},
    {"replica_behind", "its replica on {node} is not current[, {lag} writes behind]", kOneMore,
     "bring that node back and wait until it is current"},
    {"replica_behind/away", "its replica on {node} is away[, {lag} writes behind]", kOneMore,
     "bring that node back and wait until it is current"},
    {"consumer_edited",
     "its consumer {consumer} on {stream} has {field} {found} instead of {wanted}", "{harm}",
     "start a worker of the queue, or set its lease again: either sets it back"},
    {"consumer_paused", "its consumer on {stream} is paused at the server",
     "nothing is lost, but nothing is delivered", "resume the consumer at the server"},
    {"consumer_missing", "its consumer on {stream} is missing: it was deleted",
     "nothing is delivered until a worker starts and makes the consumer again; the ledger prevents "
     "settled tasks from running again",
     "start a worker of the queue"},
    {"consumer_missing/foreign", "its consumer on {stream} is missing: it was deleted",
     "nothing is delivered until a worker starts and makes the consumer again; the ledger prevents "
     "settled tasks from running again. An interest or work-queue stream may drop messages that "
     "arrive meanwhile",
     "start a worker of the queue"},
    {"clock_offset", "this machine's clock is {apart} {side} the NATS server's",
     "leases and retries use the server's clock, so they lose or repeat nothing; but a task that "
     "is published with a start or expiry time starts late, or expires early, by as much",
     "correct both clocks and keep them synchronised (chrony, systemd-timesyncd)"},
    {"not_permitted", "it could not be checked: {error}", "a fault in it would not be found",
     "use a login that may read it (docs/nats-permissions.md)"},
    {"monitor_silent", "{error}", "that server's settings are unknown",
     "name its monitoring port (http: in its configuration)"},
    {"monitor_stranger", "the server {server} there holds none of the zone's streams",
     "its settings do not apply to the zone", "name the monitoring ports of {servers}"},
    {"mixed_versions", "the servers have different versions: {servers}",
     "a cluster is tested with one version; clusters with two versions are known to have lost "
     "writes",
     "finish the upgrade, one node after the other"},
    {"versions_unseen", "the version of {servers} is not visible: no stream is led there",
     "servers before 2.12 lose or repeat writes", "name the monitoring port of each"},
    {"sync_unknown", "sync_interval of {servers} is not visible to this login",
     "unless it is always, a power failure may lose the receipts and completions of the last 2 "
     "minutes, and completed tasks run again (docs/nats.md)",
     "name the monitoring port of each, or look for sync_interval in its configuration"},
    {"room_unknown",
     "not checked: the room in the file store of {servers} is not visible to this login",
     "when it is full, nothing can be published or recorded", "name the monitoring port of each"},
    {"sync_interval", "it flushes to disk every {interval}",
     "receipts come before the flush: if the machine loses power, tasks and completions of that "
     "time may be lost, and completed tasks run again",
     "sync_interval: always in the jetstream block of its configuration"},
    {"server_old", "it is nats-server {version}",
     "servers before 2.12 acknowledge tasks that they do not store, or let two writers win one "
     "compare-and-swap",
     "2.12 or newer on every node"},
});

constexpr std::array kForeignStreams = std::to_array<FindingRow>({
    {"stream_gone", "it does not exist any more",
     "the tasks that waited in it are lost, and nothing is delivered",
     "make it again, or remove the queue"},
    {"stream_gone/replaced", "it was deleted and made again: its sequences start at one",
     "the tasks that waited in it are lost, and nothing is delivered",
     "bind a queue of another name to it; removing this one forgets its keys"},
    {"stream_dropped", "removed before the queue received them: {messages} ({which})",
     "these tasks are lost: the stream dropped them, or a person deleted them",
     "publish them again, and check the stream's limits: docs/foreign-streams.md"},
    {"stream_discards_old", "{limit} is {value} with discard old",
     "if it is full, the oldest messages are dropped: waiting tasks are lost without an error",
     "set discard to new"},
    {"stream_limit", "{limit} is {value} with discard new",
     "if it is full, publishers are refused; a publisher that ignores the answer loses the task",
     "leave room, and let publishers check every acknowledgement"},
    {"stream_per_subject", "max_msgs_per_subject is {value}",
     "a newer message on a subject drops an older one that still waits: that task is lost",
     "take max_msgs_per_subject off the stream"},
    {"stream_age_below_retries",
     "max_age is {value}, and the attempts of a task may take {schedule}",
     "a message is dropped between two attempts: the task becomes a dead letter without a body",
     "take max_age off the stream, or give the queue fewer attempts"},
    {"stream_max_age", "max_age is {value}",
     "a task that waits longer (no worker, a long outage) is dropped without an error",
     "take max_age off the stream, or set it far above your longest outage"},
    {"stream_message_ttl", "allow_msg_ttl is on",
     "a message that is published with Nats-TTL is dropped when it expires, even if its task has "
     "not run",
     "let no publisher give tasks a TTL"},
    {"stream_in_memory", "storage is memory", "a restart of the server loses every waiting task",
     "make it again with storage file; an existing stream cannot be changed to that"},
    {"stream_async", "persist_mode is async",
     "a message is acknowledged before it is written, with any sync_interval: a server that dies "
     "loses it",
     "make it again without persist_mode async"},
    {"stream_no_ack", "no_ack is on",
     "publishers are not told whether a task was stored: a lost message is not sent again",
     "take no_ack off the stream"},
    {"stream_duplicate_window", "duplicate_window is {value}[, and the queue's key is {key}]",
     "inside it a second publish with the same Nats-Msg-Id is answered as stored whatever its "
     "content: other content is lost at the server. A retry after it is stored again, and the "
     "queue's ledger settles it as a duplicate for as long as retention keeps the key",
     "never use an id for other content"},
    {"stream_forgets_ids", "it is a work queue: what is acknowledged is deleted",
     "a restart of the server forgets the ids of deleted messages, even inside the window, and "
     "stores a retry again; the queue's ledger settles it as a duplicate",
     "nothing, as long as every consumer of it goes through a ledger"},
    {"stream_interest", "retention is interest",
     "a message that arrives while the queue's consumer is missing (deleted, not made yet) is "
     "dropped at once",
     "make it again with retention limits or workqueue"},
    {"stream_mirror", "it is a mirror",
     "it lags behind its origin; messages that the origin drops before they are copied never "
     "arrive",
     "bind the queue to the origin where that can be reached"},
    {"stream_sources", "it takes messages from other streams",
     "messages that those streams drop before they are copied never arrive; a message that arrives "
     "twice has one key and runs once",
     "check the settings of those streams too"},
    {"stream_sealed", "it is sealed", "nothing new is stored: publishers are refused",
     "publish to another stream"},
    {"stream_rollup", "allow_rollup_hdrs is on",
     "one message with Nats-Rollup deletes all waiting messages on its subject, or in the stream",
     "take allow_rollup_hdrs off the stream"},
    {"stream_purgeable", "messages may be purged or deleted",
     "a purge or deletion removes waiting tasks; a task that has started becomes a dead letter "
     "that says so",
     "make it with deny_purge and deny_delete, which cannot be undone"},
    {"stream_transform", "subjects are changed as messages are stored",
     "a filter of the queue for the old names matches nothing",
     "give the queue the names as they are stored"},
    {"single_server", "one server holds it", "if its disk is lost, the waiting tasks are lost",
     "three nodes and three replicas, or backups"},
    {"other_consumer", "another consumer takes messages of this stream",
     "work on its messages does not go through the queue's ledger: nothing prevents that work from "
     "being done twice",
     "give it a queue of its own"},
    {"other_consumer_backoff",
     "it has a backoff, and that overrides its ack_wait: its lease is {value}",
     "if the work takes longer, a second worker gets the message while the first still works on it",
     "leave the backoff out, or make its first value longer than the work takes"},
    {"other_consumer_max_deliver", "max_deliver is {value}",
     "after that many deliveries the message is never delivered again, without an error: the task "
     "is lost although it is stored",
     "max_deliver -1, with attempts and dead letters in a ledger"},
    {"other_consumer_no_ack", "its ack_policy is none",
     "a message counts as done when it is sent: a worker that dies loses it",
     "ack_policy explicit, and acknowledge after the work is recorded"},
    {"other_consumer_lock", "max_ack_pending is 1",
     "that is not a lock: a redelivery ignores it, and two workers work on one message",
     "hold a lease in a ledger"},
});

template <std::size_t... sizes>
constexpr auto one_table(const std::array<FindingRow, sizes>&... parts) {
  std::array<FindingRow, (sizes + ...)> all{};
  auto to = all.begin();
  ((to = std::copy(parts.begin(), parts.end(), to)), ...);
  return all;
}

constexpr std::array kRows = one_table(kTasks, kRuns, kSqlite, kNats, kForeignStreams);

}  // namespace

std::span<const FindingRow> finding_rows() { return kRows; }

Finding finding(std::string_view key, Severity severity, std::string about, Facts facts) {
  const std::size_t slash = key.find('/');
  Finding found{
      .code = std::string(key.substr(0, slash)), .severity = severity, .about = std::move(about)};
  const auto* const row = std::find_if(kRows.begin(), kRows.end(),
                                       [&](const FindingRow& each) { return each.key == key; });
  if (row != kRows.end()) {
    found.what = facts.fill(row->what);
    found.harm = facts.fill(row->harm);
    found.fix = facts.fill(row->fix);
  }
  found.facts = slash == std::string_view::npos
                    ? std::move(facts)
                    : together(facts, {{"case", std::string(key.substr(slash + 1))}});
  return found;
}

Facts together(const Facts& first, const Facts& second) {
  std::vector<Facts::Fact> all(first.begin(), first.end());
  all.insert(all.end(), second.begin(), second.end());
  return Facts(std::move(all));
}

}  // namespace once::core
