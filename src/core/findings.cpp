// What the doctor says. {name} is a fact of the finding; a part in [brackets] is left out if a fact
// in it is empty.
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
     "{attempts} let its lease go by and nobody has taken over; the oldest was heard of {age} ago",
     "its effect may have happened and nobody has recorded it; the task stands still until a "
     "worker "
     "comes, who runs it again or holds it as the queue says",
     "look at the worker that the attempt names (stopped? cut off from the store?), and start "
     "another"},
    {"overdue_retry", "{tasks} to be tried again and not begun, overdue by up to {age}",
     "nothing is lost or repeated, but these tasks stand still", "start workers, or more of them"},
    {"clock_jumped",
     "{tasks} stamped up to {age} ahead of the clock: it was set back, or was ahead",
     "leases and retries don't go by this clock, so nothing is lost or repeated by them; but a "
     "publish with a start or an expiry that is given as a time is held back, or cancelled, by as "
     "much",
     "set the clock right and keep it so (chrony, systemd-timesyncd)"},
    {"slow_attempt",
     "{attempts} running for up to {age}, more than ten times the queue's median of {median}",
     "one that hangs keeps its lease for ever, and its task is never tried again[; the queue's "
     "timeout of {timeout} will end it]",
     "look at the worker that the attempt names; a hang needs a bound: give the queue a timeout of "
     "{bound}"},
    {"short_lease", "the lease is {lease}",
     "a worker that stands still for that long (a busy machine, a slow disk) is taken for gone: "
     "its "
     "task is run beside it, and its own result is refused",
     "give the queue a lease of 30s"},
    {"paused", "it is paused, and {tasks} waiting[, the oldest for {oldest}]",
     "nothing is lost; nothing is run either", "resume the queue"},
    {"nobody_works", "{tasks} waiting[, the oldest for {oldest}], and no worker is there",
     "nothing is lost, but nothing is run: a task with an expiry is cancelled when its time is "
     "over",
     "start a worker of the queue, or remove the queue if nobody needs it"},
    {"nobody_works/flows", "{tasks} waiting[, the oldest for {oldest}], and no worker is there",
     "nothing is lost, but nothing is run: the runs of workflows stand still",
     "start a runner of workflows"},
    {"doubt_unattended", "{tasks} in doubt for more than a day, the oldest for {age}",
     "each may have happened or not, and it stays so: what did not happen is not done", kDecide},
    {"in_doubt", "{tasks} in doubt, held for a person", "each may have happened or not", kDecide},
    {"dead_letters", "{tasks}",
     "nothing is lost: they are kept, with their bodies, until somebody decides",
     "retry or drop each of them"},
    {"record_lost", "{tasks} that was handed over and done with, and whose record is gone",
     "somebody deleted the record, or the store lost it: the task may have run",
     "a worker's sweep holds such tasks in doubt; then complete, retry or drop each of them"},
    {"overlooked", "{tasks} that the store counts as handed over, and that no record settles",
     "nobody is handed them again by the store itself",
     "a worker of the queue sweeps them up, every minute; let one run"},
    {"unrouted", "{tasks} that no queue takes[: {topics}]",
     "they are kept and never run: a mistyped topic or filter looks like that",
     "add a queue that takes them: it finds them all"},
    {"contradiction", "{damage}", "{harm}",
     "stop everything that uses the zone, keep a copy, and restore a backup (docs/effects.md, f); "
     "a "
     "deep audit shows whether there is more"},
    {"contradiction/more", "{count} more like these", "see those above",
     "a deep audit lists all of them"},
    {"ids_kept_briefly", "an id is forgotten {kept} after its task is settled",
     "a publisher that retries later than that (a webhook, a restarted job) adds the task anew, "
     "and "
     "it runs again",
     "keep ids for 30 days, or longer than the latest retry"},
    {"unreadable/runs", "they cannot be read: {error}", "no run goes on, and no run is started",
     "put right what the message says; then look again"},
    {"unreadable", "it cannot be read: {error}",
     "what is damaged cannot be run or recorded either; what this login may not read is not seen",
     "put right what the message says; then look again"},
});

constexpr std::array kRuns = std::to_array<FindingRow>({
    {"failed_runs", "{runs} in the state failed",
     "nothing is lost: they are kept, as they stand, until somebody decides",
     "retry or cancel each of them"},
    {"unreadable_run", "{runs} that cannot be read[: {why}]",
     "no runner can move the run, and nobody can end it",
     "use the version of Once that wrote the run; if the run is damaged, restore a backup"},
    {"run_without_queue", "{runs} with a step that has no queue[: {why}]",
     "the step is not begun, and its run waits without end",
     "add the queue; or add a version of the workflow that names the right queue, cancel the run "
     "and "
     "start it anew"},
    {"run_event_fails", "{runs} with an event that runners fail to handle[: {why}]",
     "the run stands still until an attempt at the event succeeds",
     "mend what the error names; the queue once-flow holds the events"},
    {"hopeless_run", "{runs} that was retried and cannot go on[: {why}]",
     "what is left of the run is never done", "cancel the run, and start another"},
    {"stuck_run",
     "{runs} that nothing will move: no event or timer of it waits, and no task of its steps is "
     "open",
     "what is left of the run is never done; a worker of an older version of Once that ran a step "
     "forgets to say so",
     "upgrade all workers of the zone, then cancel the run and start it anew"},
});

constexpr std::array kSqlite = std::to_array<FindingRow>({
    {"database_damaged", "SQLite finds the file damaged: {error}",
     "records may be missing or wrong: a task may be lost, or run again",
     "stop everything that uses it, keep a copy, then bring back a backup (read docs/effects.md, "
     "f, "
     "before a worker starts) or try sqlite3's .recover"},
    {"database_unchecked", "the file has {size} and was not checked for damage",
     "damage loses or repeats what it meets", "a deep look reads all of it"},
    {"not_wal", "the file is in journal mode {mode} instead of wal: another program set it",
     "who sets that also writes; readers and writers stand in each other's way until a write of "
     "Once's sets it back",
     "keep other programs off the file; the next write of Once's sets it back"},
    {"wal_large",
     "the write-ahead log has {size}, held open by a reader that does not end: {readers}",
     "it grows until the disk is full; then a completion cannot be recorded, and its task is in "
     "doubt or run again",
     "end that read transaction; the log starts over with the next writes"},
    {"wal_large/free", "the write-ahead log has {size}; nobody is seen to hold it now",
     "it grows until the disk is full; then a completion cannot be recorded, and its task is in "
     "doubt or run again",
     "nothing: the next writes start it over when no reader is in the way"},
    {"sqlite_wal_race",
     "SQLite 3.7.0 to 3.51.2 can damage a file when two connections checkpoint or write at the "
     "same "
     "moment",
     "none among Once's own connections, which do so only under its lock; another program on the "
     "file does not know that lock",
     "keep other programs off the file, or use SQLite 3.51.3 or newer everywhere"},
    {"volatile_file_system", "the folder is in memory (tmpfs)",
     "a restart of the machine takes every task and every record with it",
     "put the database on a disk"},
    {"container_layer", "the folder is on an overlay file system, as a container's own files are",
     "what lies there goes with the container", "put the database on a volume"},
    {"disk_nearly_full", "{free} are free",
     "on a full disk nothing is published, and a completion cannot be recorded: its task is in "
     "doubt "
     "or run again, though its effect has happened",
     "free some space, or keep bodies for less time"},
    {"side_file_rights", "not everybody who may use the database may use this file beside it",
     "for such users nothing works; nothing is lost or repeated",
     "give it the owner, group and mode of the database"},
    {"other_program", "{process} has the database open and may write to it",
     "what it writes or checkpoints beside Once's lock can damage the file, or change records "
     "behind "
     "Once's back",
     "end it; look at a copy instead (sqlite3 FILE \".backup COPY\")"},
    {"other_program/reads", "{process} has the database open for reading",
     "none; a long read makes the write-ahead log grow",
     "end it; look at a copy instead (sqlite3 FILE \".backup COPY\")"},
    {"open_files_unseen",
     "not all processes can be looked into, those of other users can't: whether they have the "
     "database open is not known",
     "another program that writes to or checkpoints the file can damage it",
     "look as root, or with 'fuser -v {file}'"},
    {"deleted_file", "{process} has this file open, and somebody deleted or replaced it",
     "what that process records there, and perhaps what it recorded before, is lost",
     "let that process end by SIGTERM; never delete a file beside a database in use"},
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
     "none; workers in other processes look every 50 ms instead of being woken",
     "sysctl fs.inotify.max_user_instances=1024"},
});

constexpr std::string_view kFull =
    "when it is full nothing is published, and a completion cannot be recorded: its task is in "
    "doubt "
    "or run again, though its effect has happened";
constexpr std::string_view kOneMore =
    "one failure more, and nothing can be published or recorded; with a damaged disk beside it, "
    "acknowledged writes are lost";
constexpr std::string_view kUsed = "{percent} % of {room} are used ({used} of {most})";

constexpr std::array kNats = std::to_array<FindingRow>({
    {"zone_emptied", "{error}", "nothing new is begun in this zone, and it can only be examined",
     "stop the workers, then restore a backup of all streams of the zone, or accept the loss "
     "(docs/nats.md, \"When data was lost\")"},
    {"stream_setting",
     "{field} is {found} instead of {wanted}: nothing new is begun until it is set back", "{harm}",
     "set it back at the server; a stream that is sealed, or whose storage or mirror was changed, "
     "comes from a backup"},
    {"nearly_full/own_stream", kUsed, kFull, "take {limit} off the stream"},
    {"nearly_full/foreign_stream", kUsed, kFull, "raise {limit} of the stream"},
    {"nearly_full/account", kUsed, kFull, "raise the account's limit, or keep tasks for less time"},
    {"nearly_full/server", kUsed, kFull, "raise max_file_store, or keep tasks for less time"},
    {"few_replicas", "{replicas} of its cluster's nodes holds it",
     "when that node is away nothing goes on; when its disk is lost, everything is",
     "give the stream three replicas"},
    {"few_replicas/two", "{replicas} of its cluster's nodes hold it",
     "two replicas stand still when one of them is away", "give the stream three replicas"},
    {"replica_behind", "its replica on {node} is not current[, {lag} writes behind]", kOneMore,
     "bring that node back and wait until it is current"},
    {"replica_behind/away", "its replica on {node} is away[, {lag} writes behind]", kOneMore,
     "bring that node back and wait until it is current"},
    {"consumer_edited",
     "its consumer {consumer} on {stream} has {field} {found} instead of {wanted}", "{harm}",
     "start a worker of the queue, or set its lease again: either sets it back"},
    {"consumer_paused", "its consumer on {stream} is paused at the server",
     "nothing is lost, and nothing is handed over", "resume the consumer at the server"},
    {"consumer_missing", "its consumer on {stream} is not there: somebody deleted it",
     "nothing is handed over until a worker starts, which makes it anew; the ledger keeps what is "
     "settled from being run again",
     "start a worker of the queue"},
    {"consumer_missing/foreign", "its consumer on {stream} is not there: somebody deleted it",
     "nothing is handed over until a worker starts, which makes it anew; the ledger keeps what is "
     "settled from being run again. An interest or work-queue stream may drop what comes meanwhile",
     "start a worker of the queue"},
    {"clock_offset", "this machine's clock is {apart} {side} the NATS server's",
     "leases and retries go by the server's clock, so nothing is lost or repeated by them; but a "
     "publish with a start or an expiry that is given as a time is held back, or cancelled, by as "
     "much",
     "set both clocks right and keep them so (chrony, systemd-timesyncd)"},
    {"not_permitted", "it could not be looked at: {error}", "whatever is wrong with it is not seen",
     "look with a login that may (docs/nats-permissions.md)"},
    {"monitor_silent", "{error}", "what that server would tell of itself is not known",
     "name its monitoring port (http: in its configuration)"},
    {"monitor_stranger", "the server {server} there holds none of the zone's streams",
     "what it tells of itself says nothing about the zone",
     "name the monitoring ports of {servers}"},
    {"mixed_versions", "not all are of one version: {servers}",
     "a cluster is tested with one version; between two of them writes are known to have been lost",
     "finish the upgrade, one node after the other"},
    {"versions_unseen", "the version of {servers} is not visible: no stream is led there",
     "servers before 2.12 lose or repeat writes", "name the monitoring port of each"},
    {"sync_unknown", "sync_interval of {servers} is not visible to this login",
     "unless it is always, the last 2 minutes of receipts and completions may be gone when the "
     "machine loses power, and what was done is run again (docs/nats.md)",
     "name the monitoring port of each, or look for sync_interval in its configuration"},
    {"room_unknown",
     "not checked: the room in the file store of {servers} is not visible to this "
     "login",
     "when it is full, nothing can be published or recorded", "name the monitoring port of each"},
    {"sync_interval", "it flushes to disk every {interval}",
     "a receipt is given before that: when the machine loses power, tasks and completions of so "
     "long "
     "may be gone, and what was done is run again",
     "sync_interval: always in the jetstream block of its configuration"},
    {"server_old", "it is nats-server {version}",
     "servers before 2.12 acknowledge tasks that they don't store, or let two writers win one "
     "compare-and-swap",
     "2.12 or newer on every node"},
});

constexpr std::array kForeignStreams = std::to_array<FindingRow>({
    {"stream_gone", "it is not there any more", "what waited in it is lost, and nothing is fetched",
     "make it again, or remove the queue"},
    {"stream_gone/replaced", "it was deleted and made anew: it counts from one again",
     "what waited in it is lost, and nothing is fetched",
     "bind a queue of another name to it; removing this one forgets its keys"},
    {"stream_dropped", "gone, and never handed to the queue: {messages} ({which})",
     "those tasks are lost: the stream dropped them, or somebody deleted them",
     "publish them again, and see to the stream's limits: docs/foreign-streams.md"},
    {"stream_discards_old", "{limit} is {value} with discard old",
     "when it is full the oldest messages are dropped to make room: tasks that wait are lost "
     "without "
     "a word",
     "set discard to new"},
    {"stream_limit", "{limit} is {value} with discard new",
     "when it is full publishers are refused; who does not look at the answer loses the task",
     "leave room, and let publishers look at every acknowledgement"},
    {"stream_per_subject", "max_msgs_per_subject is {value}",
     "a newer message on a subject drops an older one that still waits: that task is lost",
     "take max_msgs_per_subject off the stream"},
    {"stream_age_below_retries",
     "max_age is {value}, and the attempts of a task may take {schedule}",
     "a message is dropped between two attempts: the task becomes a dead letter without a body",
     "take max_age off the stream, or give the queue fewer attempts"},
    {"stream_max_age", "max_age is {value}",
     "a task that waits for longer (no worker, a long outage) is dropped without a word",
     "take max_age off the stream, or set it far above your longest outage"},
    {"stream_message_ttl", "allow_msg_ttl is on",
     "a message that is published with Nats-TTL is dropped when its time is over, run or not",
     "let no publisher give tasks a TTL"},
    {"stream_in_memory", "storage is memory", "a restart of the server takes every task that waits",
     "make it anew with storage file; a stream cannot be changed to that"},
    {"stream_async", "persist_mode is async",
     "a message is acknowledged before it is written, whatever sync_interval says: a server that "
     "dies takes it along",
     "make it anew without persist_mode async"},
    {"stream_no_ack", "no_ack is on",
     "publishers are not told whether a task was stored: what is lost on the way is not sent again",
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
     "a message that comes while the queue's consumer is not there (deleted, not made yet) is "
     "dropped at once",
     "make it anew with retention limits or workqueue"},
    {"stream_mirror", "it is a mirror",
     "it lags behind its origin, and what the origin drops before it was copied never comes",
     "bind the queue to the origin where that can be reached"},
    {"stream_sources", "it takes messages from other streams",
     "what they drop before it was copied never comes; what comes by two ways has one key, and is "
     "run once",
     "look at the settings of those streams as well"},
    {"stream_sealed", "it is sealed", "nothing new is stored: publishers are refused",
     "publish to another stream"},
    {"stream_rollup", "allow_rollup_hdrs is on",
     "one message with Nats-Rollup takes all that wait on its subject, or in the stream, with it",
     "take allow_rollup_hdrs off the stream"},
    {"stream_purgeable", "messages may be purged or deleted",
     "who does so takes tasks that wait; what was begun becomes a dead letter that says so",
     "make it with deny_purge and deny_delete, which cannot be taken back"},
    {"stream_transform", "subjects are changed as messages are stored",
     "a filter of the queue's that was written for the old names matches nothing",
     "give the queue the names as they are stored"},
    {"single_server", "one server holds it", "what waits goes with its disk",
     "three nodes and three replicas, or backups"},
    {"other_consumer", "another consumer takes messages of this stream",
     "whoever works on what it delivers does so beside the queue's ledger: nothing keeps that work "
     "from being done twice",
     "give it a queue of its own"},
    {"other_consumer_backoff",
     "it has a backoff, and that overrides its ack_wait: its lease is {value}",
     "work that takes longer is handed to a second worker while the first is at it",
     "leave the backoff out, or make its first value longer than the work takes"},
    {"other_consumer_max_deliver", "max_deliver is {value}",
     "after so many deliveries the message is never handed over again, and nothing says so: the "
     "task "
     "is lost though it is stored",
     "max_deliver -1, with attempts and dead letters in a ledger"},
    {"other_consumer_no_ack", "its ack_policy is none",
     "a message counts as done when it was sent: a worker that dies loses it",
     "ack_policy explicit, and acknowledge after the work is recorded"},
    {"other_consumer_lock", "max_ack_pending is 1",
     "that is no lock: a redelivery goes past it, and two workers are at one message",
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
