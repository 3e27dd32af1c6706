#!/usr/bin/env -S python3 -B
"""once doubt list, show, complete, retry, drop; wait for a task in doubt; work --probe."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from once_command import OnceTest, steady  # noqa: E402


class Doubt(OnceTest):
    def setUp(self):
        super().setUp()
        self.ok("queue", "add", "q", "--topic", "t", "--in-doubt", "hold")
        # The first attempt may have happened.
        self.program = self.script("perhaps", '[ $ONCE_ATTEMPT = 1 ] && exit 74; echo "$ONCE_ATTEMPT $ONCE_IN_DOUBT"')

    def hold(self, *tasks):
        for task in tasks:
            self.ok("publish", "t", "--id", task)
        self.work(exits=1)

    def work(self, exits):
        return self.drained("work", "q", "--worker", "w", "--until-empty", "--", self.program, exits=exits)

    def queue(self, task):
        (queue,) = self.ok("inspect", task, "--json").line["queues"]
        return queue

    def held(self):
        return [item["id"] for item in self.ok("doubt", "list", "--json").lines]

    def test_list_and_show(self):
        self.hold("a", "b")
        self.assertEqual(["a", "b"], self.held())
        self.assertIn("doubt", self.ok("doubt", "show", "a").out)
        self.assertEqual(self.ok("inspect", "a", "--json").line, self.ok("doubt", "show", "a", "--json").line)
        self.refused(6, "doubt", "show", "nope")
        self.assertEqual(2, self.ok("status", "--json").lines[0]["in_doubt"])
        self.assertIn("IN DOUBT", self.ok("status").out)

    def test_wait_says_how_to_resolve_it(self):
        self.hold("a")
        message = self.refused(7, "wait", "a")
        self.assertIn("once doubt show a", message)
        answer = self.once("wait", "a", "--json")
        self.assertEqual(7, answer.code)
        self.assertEqual(("in_doubt", None), (answer.lines[0]["state"], answer.lines[0]["result"]))
        self.assertEqual(("outcome_unknown", True), (answer.lines[1]["error"], answer.lines[1]["in_doubt"]))

    def test_complete(self):
        self.hold("a", "b", "c")
        answer = self.ok("doubt", "complete", "a", "--result", '{"x": 1}', "--reason", "seen", "--by", "ada", "--json")
        self.assertEqual({"id": "a", "queue": "q", "outcome": "completed"}, answer.line)
        self.assertEqual('{"x": 1}\n', self.ok("wait", "a").out)
        action = self.queue("a")["story"][-1]
        self.assertEqual(("completed", "ada", "seen"), tuple(action[n] for n in ("what", "by", "why")))
        (self.folder / "result.json").write_text("[7]")
        self.ok("doubt", "complete", "b", "--result", "@result.json")
        self.assertEqual([7], self.queue("b")["result"])
        self.ok("doubt", "complete", "c")
        self.assertEqual(("completed", None), tuple(self.queue("c")[n] for n in ("state", "result")))
        self.assertIn("completed in queue q", self.refused(1, "doubt", "complete", "a"))
        self.assertEqual([], self.held())

    def test_retry_and_drop(self):
        self.hold("a", "b")
        self.assertIn("is woken; a worker of the queue will run it", self.ok("doubt", "retry", "a").out)
        self.assertEqual("waiting", self.queue("a")["state"])
        self.work(exits=0)
        self.assertEqual("2 1\n", self.ok("wait", "a").out)
        self.ok("doubt", "drop", "b", "--reason", "not wanted")
        self.assertEqual("cancelled", self.queue("b")["state"])
        self.refused(1, "doubt", "drop", "a")
        self.refused(1, "dead", "retry", "b")

    def test_by_filter(self):
        self.hold("a", "b", "c")
        self.refused(2, "doubt", "complete", "--queue", "q")
        self.assertEqual(3, len(self.ok("doubt", "retry", "--all", "--dry-run").out.splitlines()))
        self.ok("doubt", "complete", "--limit", "1", "--yes")
        self.ok("doubt", "retry", "--error", "exit 74", "--limit", "1", "--yes")
        self.ok("doubt", "drop", "--topic", "t", "--yes")
        self.assertEqual(
            {"a": "completed", "b": "waiting", "c": "cancelled"},
            {item["id"]: item["state"] for item in self.ok("list", "--json").lines},
        )


class Steps(OnceTest):
    def setUp(self):
        super().setUp()
        self.ok("queue", "add", "q", "--topic", "t", "--in-doubt", "steps")
        self.ok("publish", "t", "--id", "a")
        self.program = self.script(
            "steps",
            'set -e; first=$("$ONCE_BIN" step write -- echo draft)\n'
            '"$ONCE_BIN" step push -- sh -c "[ \\$ONCE_ATTEMPT = 1 ] && exit 74; echo ran" > pushed\n'
            'echo "$first and $(cat pushed)"\n',
        )
        self.work(exits=1)

    def work(self, exits):
        self.drained("work", "q", "-q", "--worker", "w", "--until-empty", "--", self.program, exits=exits)

    def queue(self):
        (queue,) = self.ok("inspect", "a", "--json").line["queues"]
        return queue

    def test_inspect_shows_steps(self):
        queue = self.queue()
        self.assertEqual("in_doubt", queue["state"])
        write, push = queue["steps"]
        self.assertEqual(
            ["step", "state", "policy", "runs", "attempt", "started_at", "ended_at"], list(write)[:7]
        )
        self.assertEqual(("write", "done", 1, 1), tuple(write[n] for n in ("step", "state", "runs", "attempt")))
        self.assertEqual(("push", "in_doubt", "hold"), tuple(push[n] for n in ("step", "state", "policy")))
        self.assertIsNone(push["ended_at"])
        self.golden("inspect-steps.txt", steady(self.ok("doubt", "show", "a").out))

    def test_complete_a_step(self):
        self.refused(6, "doubt", "complete", "a", "--step", "deploy")
        self.refused(1, "doubt", "complete", "a", "--step", "write")
        self.refused(6, "doubt", "complete", "a", "--step", "deploy", "--dry-run")
        foreseen = self.ok("doubt", "complete", "a", "--step", "push", "--dry-run").out
        self.assertIn("would go on after step push", foreseen)
        self.assertEqual("in_doubt", self.queue()["state"])
        said = self.ok("doubt", "complete", "a", "--step", "push", "--raw", "--result", "4f1c", "--reason", "in the log").out
        self.assertIn("goes on after step push", said)
        self.work(exits=0)
        queue = self.queue()
        self.assertEqual("completed", queue["state"])
        self.assertEqual("draft and 4f1c\n", self.ok("wait", "a").out)
        self.assertEqual(("push", "in the log"), tuple(queue["story"][-1][n] for n in ("step", "why")))

    def test_retry_a_step(self):
        self.assertIn("no step deploy", self.refused(6, "doubt", "retry", "a", "--step", "deploy"))
        self.assertIn("done, not in doubt", self.refused(1, "doubt", "retry", "a", "--step", "write"))
        self.assertEqual("in_doubt", self.queue()["state"])
        self.ok("doubt", "retry", "a", "--step", "push")
        self.work(exits=0)
        self.assertEqual("draft and ran\n", self.ok("wait", "a").out)


class Probe(OnceTest):
    def held_by_a_probe(self, *probe, exits):
        self.ok("queue", "add", "q", "--topic", "t", "--in-doubt", "probe", "--backoff", "1ms")
        self.ok("publish", "t", "--id", "a")
        program = self.script("perhaps", "[ $ONCE_ATTEMPT = 1 ] && exit 74; echo again")
        return self.drained("work", "q", "--until-empty", *probe, "--", program, exits=exits)

    def test_it_happened(self):
        answer = self.held_by_a_probe("--probe", "echo '\"'$ONCE_ID happened'\"'", exits=0)
        self.assertNotIn("--probe", answer.err)
        self.assertEqual('"a happened"\n', self.ok("wait", "a").out)
        self.assertIn("a probe says", self.ok("inspect", "a").out)

    def test_it_did_not(self):
        self.held_by_a_probe("--probe", "exit 1", exits=0)
        self.assertEqual("again\n", self.ok("wait", "a").out)

    def test_nobody_knows(self):
        self.held_by_a_probe("--probe", "echo who knows >&2; exit 3", exits=1)
        self.refused(7, "wait", "a")

    def test_without_a_probe_it_is_held_and_hinted_at(self):
        self.assertIn("--probe CMD", self.held_by_a_probe(exits=1).err)
        self.refused(7, "wait", "a")

    def test_a_probe_that_nobody_asks_is_hinted_at(self):
        hint = self.ok("work", "q", "--topic", "t", "--until-empty", "--probe", "true", "--", "true").err
        self.assertIn("once queue set q --in-doubt probe", hint)


if __name__ == "__main__":
    unittest.main()
