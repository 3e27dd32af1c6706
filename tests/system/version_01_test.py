#!/usr/bin/env -S python3 -B
"""The command of version 0.1 and the current command on one zone: keys keep their format, runs go on, and
no key gets a second run.

ONCE_01_BIN names the command of version 0.1. Without it, the test runs what tools/once-0.1 has built.
"""

import collections
import copy
import json
import os
import random
import sys
import threading
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / folder) for folder in ("system/support", "support")]
import nats_cluster  # noqa: E402
from real_processes import SystemTest, skip_loudly  # noqa: E402

ROOT = TESTS.parent
BUILT = ROOT / "build" / "once-0.1" / "once"
OLD = os.environ.get("ONCE_01_BIN") or (str(BUILT) if BUILT.exists() else None)
NONE = "VERSION 0.1 IS NOT TESTED: its command is missing; tools/once-0.1 builds it"

NOTE = 'echo "$ONCE_ID $ONCE_KEY $ONCE_IDEMPOTENCY_KEY" >> ran'
WORKFLOW = {
    "name": "w",
    "idempotency_key": "order.id",
    "steps": [
        {"id": "before", "task": "t", "queue": "q"},
        {"id": "go", "signal": "go", "depends_on": ["before"]},
        {"id": "after", "task": "t", "queue": "q", "depends_on": ["go"]},
    ],
}
KEYS = 20
STARTERS = 8

server = None


def setUpModule():
    global server
    if nats_cluster.program() is not None:
        server = nats_cluster.Cluster().__enter__()
        unittest.addModuleCleanup(server.end)


def order(number):
    return json.dumps({"order": {"id": number}})


class TwoVersions(SystemTest):
    """`self` runs the current command, `self.old` the command of version 0.1, both on one zone."""

    def setUp(self):
        super().setUp()
        self.use_store()
        self.old = copy.copy(self)
        self.old.binary = OLD
        self.assertRegex(self.old.ok("version").out, r"^once 0\.1\.")
        self.note = self.script("note", NOTE)

    def ran(self):
        """The tasks that programs have run: [id, key, idempotency key] of each."""
        return [line.split() for line in self.read("ran").splitlines()]

    def in_log(self):
        return [entry["id"] for entry in self.ok("log", "--json").lines]

    def runs(self):
        return self.ok("flow", "runs", "--limit", "1000", "--json").lines

    def run_state(self):
        """The state of the only run, as the current command sees it."""
        (only,) = self.runs()
        return only["state"]

    def add_workflow(self, once, workflow):
        (self.folder / "w.json").write_text(json.dumps(workflow))
        once.ok("flow", "add", "w.json")

    def is_sound(self):
        """Neither the audit nor the doctor sees damage."""
        audit = self.once("audit", "--deep")
        doctor = self.once("doctor", "--deep")
        self.assertEqual((0, 0), (audit.code, doctor.code), audit.out + audit.err + doctor.out)

    def stop(self, *processes):
        for process in processes:
            process.terminate()
        for process in processes:
            self.ends(process)

    def drive(self):
        """Drives all runs to their end by the current version."""
        worker = self.worker("new", "--concurrency", "4", "--", self.note)
        self.ends(self.background("flow", "work", "-q", "--until-empty"), seconds=90)
        self.stop(worker)


class OnSqlite(TwoVersions):
    on_jetstream = False

    def use_store(self):
        pass  # once.db in the test's folder

    def refused_by_old(self, *arguments):
        """Version 0.1 refuses every command on a file of the current version."""
        self.assertIn("was made by a newer version of Once", self.old.refused(5, *arguments))


class OnJetStream(TwoVersions):
    on_jetstream = True

    def use_store(self):
        if server is None:
            skip_loudly(self, nats_cluster.NONE)
        self.store = self.environment["ONCE_STORE"] = server.url(self.folder.name)
        for binary in [self.binary, OLD]:
            command = copy.copy(self)
            command.binary = binary
            if "build it with ONCE_NATS" in command.once("status").err:
                skip_loudly(self, f"{binary} was built without the store on NATS")

    def refused_by_old(self, *arguments):
        """Version 0.1 finds a definition that it cannot read."""
        said = self.old.refused(5, *arguments)
        self.assertIn("cannot be read", said)
        self.assertIn("newer", said)


class PlainKeys:
    """Version 0.1 would compute another key, so it must refuse a queue and a workflow with plain keys."""

    WORK = ["work", "q", "-q", "--until-empty"]

    def refused_and_unchanged(self, *arguments):
        before = self.in_log(), self.ran()
        self.refused_by_old(*arguments)
        self.assertEqual(before, (self.in_log(), self.ran()))

    def check_queue(self):
        self.queue("--key", "{order.id}")
        self.assertEqual("plain", self.ok("queue", "show", "q", "--json").line["key_format"])
        self.ok("publish", "t", order(17), "--id", "a")
        self.refused_and_unchanged(*self.WORK, "--", self.note)
        self.refused_and_unchanged(*self.WORK, "--topic", "t", "--key", "{order.id}", "--", self.note)
        self.settle(self.note)
        self.assertEqual([["a", "17"]], [task[:2] for task in self.ran()])

    def test_a_queue_in_a_new_zone(self):
        self.check_queue()

    def test_a_queue_in_a_zone_of_version_01(self):
        self.old.queue("--key", "{order.id}", name="other", topic="other")
        self.check_queue()
        self.assertEqual("escaped", self.ok("queue", "show", "other", "--json").line["key_format"])

    def test_a_queue_that_is_added_under_a_waiting_worker_of_version_01(self):
        """The worker serves another queue. It may end, but it must not take a task of the new queue."""
        self.old.queue("--key", "{order.id}", name="other", topic="other")
        self.old.background("work", "other", "-q", "--", self.note)
        self.until(lambda: self.old.status("other")["workers"] == 1, "the worker of 0.1 is there")
        self.check_queue()

    def test_a_publisher_of_version_01(self):
        """docs/keys.md: on JetStream its task is stored, and it says that it does not know."""
        self.queue("--key", "{order.id}")
        self.ok("publish", "t", order(17), "--id", "a")
        said = self.old.once("publish", "t", order(17), "--id", "b")
        self.assertEqual(7 if self.on_jetstream else 5, said.code, said.out)
        self.assertRegex(said.err, r"\Aonce: [^\n]+\n\Z")
        self.settle(self.note)
        self.assertEqual([["a", "17"]], [task[:2] for task in self.ran()], "the key ran once")
        self.assertEqual(["a", "b"] if self.on_jetstream else ["a"], self.in_log())

    def test_a_workflow(self):
        self.queue()
        self.add_workflow(self, WORKFLOW)
        (listed,) = self.ok("flow", "list", "--json").lines
        self.assertEqual("plain", listed["key_format"])
        run = self.ok("flow", "start", "w", order(17), "--json").line["run"]
        for arguments in [
            ("flow", "start", "w", order(17)),
            ("flow", "start", "w", order(18)),
            ("flow", "add", "w.json"),
            ("flow", "work", "-q", "--until-empty"),
        ]:
            with self.subTest(arguments=arguments):
                said = self.old.once(*arguments)
                self.assertNotEqual(0, said.code, said.out)
                self.assertRegex(said.err, r"\Aonce: [^\n]+\n\Z")
        self.assertEqual([(run, "17")], [(each["run"], each["key"]) for each in self.runs()])


class EscapedKeys:
    """A queue of version 0.1 keeps its format, so a task keeps its key after the upgrade."""

    def test_duplicates_are_known_and_idempotency_keys_are_the_same(self):
        self.old.queue("--key", "{order.id}", "--attempts", "1")
        self.old.ok("publish", "t", order(17), "--id", "completed")
        self.old.ok("publish", "t", order("A 19"), "--id", "dead")
        fails_once = self.script("fails_once", NOTE + '; [ "$ONCE_ID" != dead ] || exit 65')
        self.old.once("work", "q", "-q", "--until-empty", "--", fails_once)
        by_old = self.ran()
        self.assertEqual([["completed", "=17"], ["dead", "A%2019"]], sorted(task[:2] for task in by_old))
        self.assertEqual(2, len({key for _, _, key in by_old}))
        self.old.ok("publish", "t", order(18), "--id", "waiting")

        self.assertEqual("completed", self.story("completed")["state"])
        self.assertEqual("escaped", self.ok("queue", "show", "q", "--json").line["key_format"])
        self.assertTrue(self.ok("publish", "t", order(17), "--id", "completed", "--json").line["duplicate"])
        for task, number in [("again", 17), ("waits-again", 18), ("text", "17")]:
            self.ok("publish", "t", order(number), "--id", task)
        self.ok("dead", "retry", "dead")
        self.settle(self.note)
        by_new = self.ran()[len(by_old) :]
        self.assertEqual(
            [["dead", "A%2019"], ["text", "17"], ["waiting", "=18"]], sorted(task[:2] for task in by_new)
        )
        self.assertIn(next(task for task in by_old if task[0] == "dead"), by_new)
        for task in ["again", "waits-again"]:
            self.assertEqual("duplicate", self.story(task)["state"])
        self.after_the_upgrade()
        self.is_sound()


class Runs:
    """A run that version 0.1 has started goes on, and its key stays its own."""

    def setUp(self):
        super().setUp()
        self.old.queue()
        self.add_workflow(self.old, WORKFLOW)
        self.first = self.old.ok("flow", "start", "w", order(17), "--json").line["run"]
        self.runner = self.old.background("flow", "work", "-q")
        self.old_worker = self.old.worker("old", "--", self.note)
        self.until(self.waits_for_the_signal, "the run waits for its signal", 60)

    def waits_for_the_signal(self):
        (run,) = self.old.ok("flow", "runs", "--json").lines
        return run["state"] == "waiting" and run["steps_done"] == 1

    def starts_nothing(self, number):
        """A start by version 0.1 fails, or it names the first run."""
        said = self.old.once("flow", "start", "w", order(number), "--json")
        if said.code == 0:
            self.assertEqual((self.first, True), (said.line["run"], said.line["duplicate"]))
        else:
            self.assertRegex(said.err, r"\Aonce: [^\n]+\n\Z")

    def is_a_duplicate(self):
        again = self.ok("flow", "start", "w", order(17), "--json").line
        self.assertEqual((self.first, True), (again["run"], again["duplicate"]))

    def finish(self):
        self.is_a_duplicate()
        other = json.dumps({"order": {"id": 17}, "more": 1})
        self.assertIn(self.first, self.refused(3, "flow", "start", "w", other))
        self.starts_nothing(17)
        self.ok("flow", "signal", self.first, "go", "--id", "s")
        self.drive()
        self.assertEqual("completed", self.run_state())
        steps = [f"{self.first}.{step}" for step in ["before", "after"]]
        self.assertEqual(steps, [task[0] for task in self.ran()])
        self.assertEqual(steps, [task[2] for task in self.ran()], "their idempotency keys")

        self.is_a_duplicate()
        self.starts_nothing(17)
        self.starts_nothing(18)
        self.assertEqual([(self.first, "=17")], [(run["run"], run["key"]) for run in self.runs()])
        second = self.ok("flow", "start", "w", order(18), "--json").line
        self.assertFalse(second["duplicate"])
        self.starts_nothing(18)
        self.assertEqual({self.first, second["run"]}, {run["run"] for run in self.runs()})

    def test_after_the_processes_of_version_01_have_ended(self):
        self.stop(self.runner, self.old_worker)
        self.assertEqual("waiting", self.run_state())
        self.finish()

    def test_beside_processes_of_version_01(self):
        self.finish()

    def test_nothing_is_damaged_after_the_move(self):
        self.stop(self.runner, self.old_worker)
        self.is_sound()
        self.is_a_duplicate()
        self.is_sound()


class StartsAtTheSameTime:
    """Starters of both versions start the same keys: one run per key, and every answer names that run."""

    def start_all(self, old_starts_first):
        """Every starter starts every key, in an order of its own. The current version begins after so many
        starts by version 0.1, so the zone is moved under the starters of version 0.1. Returns
        (version, key, answer) of each start."""
        answers, lock, may_begin = [], threading.Lock(), threading.Event()

        def count():
            if len(answers) >= old_starts_first:
                may_begin.set()

        def start(number):
            command, version = (self.old, "0.1") if number % 2 else (self, "new")
            keys = list(range(KEYS))
            random.Random(number).shuffle(keys)
            if version == "new":
                may_begin.wait(60)
            for key in keys:
                said = command.once("flow", "start", "w", order(key), "--json")
                with lock:
                    answers.append((version, key, said))
                    count()

        count()
        starters = [threading.Thread(target=start, args=(number,)) for number in range(STARTERS)]
        for starter in starters:
            starter.start()
        for starter in starters:
            starter.join(240)
        self.assertEqual(STARTERS * KEYS, len(answers))
        return answers

    def runs_per_key(self):
        return collections.Counter(run["key"] for run in self.runs())

    def check(self, old_starts_first):
        self.old.queue()
        self.add_workflow(self.old, {**WORKFLOW, "steps": [{"id": "a", "task": "t", "queue": "q"}]})
        answers = self.start_all(old_starts_first)
        # A starter of 0.1 that the move overtakes leaves the record of its run to a runner.
        self.assertLessEqual(set(self.runs_per_key().values()), {1})
        self.drive()
        self.assertEqual({f"={key}": 1 for key in range(KEYS)}, dict(self.runs_per_key()))
        run_of = {run["key"]: run["run"] for run in self.runs()}
        first = collections.Counter()
        for version, key, said in answers:
            if said.code != 0:
                self.assertEqual("0.1", version, said.err)
                self.assertRegex(said.err, r"\Aonce: [^\n]+\n\Z")
                continue
            self.assertEqual(run_of[f"={key}"], said.line["run"], (version, key))
            first[key] += not said.line["duplicate"]
        self.assertLessEqual(max(first.values()), 1, "two starters were told that they began the run")
        self.assertEqual(sorted(f"{run}.a" for run in run_of.values()), sorted(task[0] for task in self.ran()))
        self.assertEqual({"completed"}, {run["state"] for run in self.runs()})

    def test_both_versions_begin_at_the_same_time(self):
        self.check(0)

    def test_version_01_has_begun_some_keys(self):
        self.check(KEYS // 2)

    def test_version_01_has_begun_most_keys(self):
        self.check(2 * KEYS)


class PlainKeysOnSqlite(PlainKeys, OnSqlite):
    pass


class PlainKeysOnJetStream(PlainKeys, OnJetStream):
    pass


class EscapedKeysOnSqlite(EscapedKeys, OnSqlite):
    def after_the_upgrade(self):
        self.refused_by_old("publish", "t", order(17), "--id", "late")
        self.refused_by_old("work", "q", "-q", "--until-empty", "--", self.note)


class EscapedKeysOnJetStream(EscapedKeys, OnJetStream):
    def after_the_upgrade(self):
        """Both versions may work on this queue: they compute the same keys."""
        before = self.ran()
        self.old.ok("publish", "t", order(17), "--id", "late")
        self.old.ok("publish", "t", order("17"), "--id", "late-text")
        self.old.settle(self.note)
        self.assertEqual(before, self.ran())
        for task in ["late", "late-text"]:
            self.assertEqual("duplicate", self.story(task)["state"])


class RunsOnSqlite(Runs, OnSqlite):
    def finish(self):
        super().finish()
        self.refused_by_old("flow", "start", "w", order(17))
        self.refused_by_old("flow", "work", "-q", "--until-empty")


class RunsOnJetStream(Runs, OnJetStream):
    pass


class StartsOnSqlite(StartsAtTheSameTime, OnSqlite):
    pass


class StartsOnJetStream(StartsAtTheSameTime, OnJetStream):
    pass


if __name__ == "__main__":
    if OLD is None:
        print(f"SKIPPED: {NONE}", file=sys.stderr)
        sys.exit(nats_cluster.SKIPPED)
    unittest.main()
