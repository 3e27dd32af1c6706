#!/usr/bin/env -S python3 -B
"""once apply: what a file declares comes true, once, and what is wrong with it changes nothing."""

import json
import os
import signal
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from once_command import NATS, OnceTest  # noqa: E402

TOML = """
[[queue]]
name = "billing"
topic = "orders.>"
key = "{order.id}"
lease = "1m"
backoff = ["10s", "1m"]

[[queue]]
name = "hooks"
ledger = true

[[workflow]]
file = "payment.json"

[[workflow]]
name = "hello"
[[workflow.steps]]
id = "greet"
task = "orders.greet"
"""
PAYMENT = {"name": "payment", "steps": [{"id": "pay", "task": "orders.pay"}]}


class Apply(OnceTest):
    def setUp(self):
        super().setUp()
        self.write("payment.json", PAYMENT)
        self.write("once.toml", TOML)

    def write(self, name, content):
        (self.folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
        return name

    def declare(self, *queues, flows=()):
        return self.write("once.json", {"queue": list(queues), "workflow": list(flows)})

    def actions(self, *arguments, code=0):
        answer = self.once("apply", *arguments, "--json")
        self.assertEqual(code, answer.code, (answer.out, answer.err))
        return [f"{each['action']} {each['name']}" for each in answer.lines if "action" in each]

    def queues(self):
        if not NATS and not (self.folder / "once.db").exists():
            return None
        answer = self.once("queue", "list", "--json")
        return {each["queue"]: each for each in answer.lines if not each.get("queue", "once-").startswith("once-")}

    def mistakes(self, name="once.toml"):
        answer = self.once("apply", name, "-q")
        self.assertEqual(2, answer.code, (answer.out, answer.err))
        self.assertEqual("", answer.out)
        self.assertFalse(self.queues())
        return answer.err.splitlines()

    # --- What comes true

    def test_queues_and_workflows_are_there_afterwards_and_the_same_again_changes_nothing(self):
        self.assertEqual(["add billing", "add hooks", "add payment", "add hello"], self.actions("once.toml"))
        billing = self.queues()["billing"]
        self.assertEqual(
            ("orders.>", "{order.id}", "1m", ["10s", "1m"], 3),
            tuple(billing[name] for name in ("topic", "key", "lease", "backoff", "attempts")),
        )
        self.assertTrue(self.queues()["hooks"]["ledger"])
        names = [each["workflow"] for each in self.ok("flow", "list", "--json").lines]
        self.assertEqual(["hello", "payment"], sorted(names))
        again = ["unchanged billing", "unchanged hooks", "unchanged payment", "unchanged hello"]
        self.assertEqual(again, self.actions("once.toml"))
        self.assertEqual(again, self.actions("once.toml", "--dry-run"))
        self.assertEqual("nothing changes", self.ok("apply", "once.toml").out.splitlines()[-1])

    def test_json_has_the_same_shape(self):
        self.ok("apply", "once.toml")
        name = self.declare(
            {"name": "billing", "topic": "orders.>", "key": "{order.id}", "lease": "1m", "backoff": "10s,1m"},
            {"name": "hooks", "ledger": True},
            flows=[{"file": "payment.json"}],
        )
        self.assertEqual(["unchanged billing", "unchanged hooks", "unchanged payment"], self.actions(name))

    def test_standard_input(self):
        answer = self.once("apply", "-", "--json", stdin='{"queue":[{"name":"a","topic":"t"}]}')
        self.assertEqual((0, "add"), (answer.code, answer.lines[0]["action"]))
        self.assertEqual(["a"], list(self.queues()))

    def test_what_changes_is_said_with_old_and_new(self):
        self.ok("apply", "once.toml")
        self.write("once.toml", TOML.replace('lease = "1m"', 'lease = "2m"\nmax_running = 3'))
        dry = self.once("apply", "once.toml", "--dry-run")
        self.assertEqual(4, dry.code)
        self.assertIn("change     queue billing: lease 1m -> 2m, max running no limit -> 3\n", dry.out)
        self.assertIn("dry run, nothing was changed: 0 added, 1 changed, 0 removed, 3 unchanged", dry.out)
        self.assertEqual("1m", self.queues()["billing"]["lease"])
        done = self.ok("apply", "once.toml", "--json").lines[0]
        self.assertEqual(
            [
                {"field": "lease", "before": "1m", "after": "2m"},
                {"field": "max_running", "before": "no limit", "after": "3"},
            ],
            done["changes"],
        )
        self.assertEqual(("2m", 3), (self.queues()["billing"]["lease"], self.queues()["billing"]["max_running"]))

    def test_a_setting_that_is_left_out_has_its_default_and_a_pause_stays(self):
        self.ok("apply", "once.toml")
        self.ok("queue", "set", "billing", "--lease", "5m", "--window", "4")
        self.ok("queue", "pause", "billing")
        self.assertIn("change billing", self.actions("once.toml"))
        billing = self.queues()["billing"]
        self.assertEqual(("1m", 0, True), (billing["lease"], billing["window"], billing["paused"]))

    def test_a_dry_run_makes_no_zone(self):
        self.assertEqual(
            ["add billing", "add hooks", "add payment", "add hello"], self.actions("once.toml", "--dry-run", code=4)
        )
        if not NATS:
            self.assertFalse((self.folder / "once.db").exists())
        self.assertFalse(self.queues())

    def test_from_now_means_what_it_meant_when_the_queue_was_made(self):
        name = self.declare({"name": "late", "topic": "t", "from": "now"})
        self.assertEqual(["add late"], self.actions(name))
        self.ok("publish", "t", "-q")
        self.assertEqual(["unchanged late"], self.actions(name))

    # --- What cannot be

    def test_what_is_fixed_keeps_everything_from_being_changed(self):
        self.ok("apply", "once.toml")
        changed = TOML.replace("orders.>", "sales.>").replace('name = "hooks"', 'name = "more"')
        answer = self.once("apply", self.write("once.toml", changed))
        self.assertEqual(2, answer.code)
        self.assertIn("cannot     queue billing: its topic is orders.>, not sales.>", answer.out)
        self.assertIn("1 thing cannot be done: nothing was changed", answer.err)
        self.assertNotIn("more", self.queues())

    def test_a_version_of_a_workflow_never_changes(self):
        self.ok("apply", "once.toml")
        self.write("payment.json", {**PAYMENT, "steps": [{"id": "pay", "task": "orders.other"}]})
        self.assertEqual(["cannot payment"], self.actions("once.toml", code=2)[:1])
        self.write("payment.json", {**PAYMENT, "version": 2})
        self.assertIn("add payment", self.actions("once.toml"))
        self.assertEqual(2, len([x for x in self.ok("flow", "list", "--json").lines if x["workflow"] == "payment"]))

    def test_all_mistakes_of_a_file_are_told_at_once_with_their_lines(self):
        self.write(
            "once.toml",
            "[[queue]]\n"
            'name = "a"\n'
            'topic = "t"\n'
            'leese = "30s"\n'
            "[[queue]]\n"
            'name = "b"\n'
            'topic = "t"\n'
            "lease = 30\n"
            'attempts = "many"\n'
            "[[queue]]\n"
            'name = "c"\n'
            "[[queue]]\n"
            'topic = "t"\n'
            "[[queue]]\n"
            'name = "d"\n'
            'topic = "t"\n'
            'in_doubt = "maybe"\n'
            "[[workflow]]\n"
            'file = "none.json"\n'
            "[queues]\n",
        )
        told = self.mistakes()
        for place, part in [
            ("once.toml:4: queue[0].leese:", "did you mean lease?"),
            ("once.toml:8: queue[1].lease:", "takes a duration such as"),
            ("once.toml:9: queue[1].attempts:", 'takes a whole number from 1 to 1000000, not "many"'),
            ("once.toml:10: queue[2]:", "needs a topic, a stream or ledger = true"),
            ("once.toml:12: queue[3]:", "a queue needs a name"),
            ("once.toml:14: queue[4]:", 'in_doubt takes retry, steps, probe or hold, not "maybe"'),
            ("once.toml:19: workflow[0].file:", "none.json"),
            ("once.toml:20: queues:", "did you mean queue?"),
        ]:
            self.assertTrue(any(place in line and part in line for line in told), (place, part, told))
        self.assertEqual(8, len(told), told)

    def test_what_the_zone_would_refuse_is_a_mistake_of_the_file(self):
        self.write(
            "once.toml",
            '[[queue]]\nname = "a b"\ntopic = "t"\n'
            '[[queue]]\nname = "ok"\ntopic = "t..x"\n'
            '[[queue]]\nname = "c"\ntopic = "u"\n'
            '[[queue]]\nname = "d"\ntopic = "u"\n'
            '[[workflow]]\nname = "w"\n[[workflow.steps]]\nid = "s"\ntask = "u"\n',
        )
        told = self.mistakes()
        self.assertEqual(3, len(told), told)
        self.assertIn("once.toml:1: queue[0]:", told[0])

    def test_names_that_are_declared_twice(self):
        queue = {"name": "a", "topic": "t"}
        name = self.declare(queue, queue, flows=[PAYMENT, {"file": "payment.json"}])
        told = self.mistakes(name)
        self.assertIn("queue[1]: queue a is declared twice", told[0])
        self.assertIn("workflow[1].file: workflow payment version 1 is declared twice", told[1])

    def test_what_is_no_declaration(self):
        for text, part in [
            ("{", "this is no JSON: at line 1"),
            ('[[queue]\nname = "a"', "this is no TOML: line 1"),
            ('{"queue":{"name":"a"}}', "queue: queue is a list"),
            ('{"queue":["a"]}', 'queue[0]: takes a table, not "a"'),
            ('{"queue":[{"name":"a","topic":"t","topic":"u"}]}', 'the member "topic" twice'),
            ('{"queue":[{"name":7,"topic":"t"}]}', "queue[0].name: takes a text, not 7"),
        ]:
            with self.subTest(text):
                self.assertIn(part, self.mistakes(self.write("bad", text))[0])
        self.assertIn("none.toml", self.refused(2, "apply", "none.toml"))
        self.assertIn("one word too many", self.refused(2, "apply", "once.toml", "other.toml"))
        self.assertIn("--prune", self.refused(2, "apply", "once.toml", "--force"))

    # --- Pruning

    def test_prune_removes_what_the_file_does_not_name(self):
        self.ok("apply", "once.toml")
        self.ok("queue", "add", "old", "--topic", "old")
        name = self.declare({"name": "hooks", "ledger": True}, flows=[PAYMENT])
        self.assertEqual(["unchanged hooks", "unchanged payment"], self.actions(name))
        gone = ["unchanged hooks", "unchanged payment", "remove hello", "remove billing", "remove old"]
        self.assertEqual(gone, self.actions(name, "--prune", "--dry-run", code=4))
        self.assertEqual({"billing", "hooks", "old"}, set(self.queues()))
        self.assertEqual(gone, self.actions(name, "--prune"))
        self.assertEqual(["hooks"], list(self.queues()))
        self.assertEqual(["payment"], [each["workflow"] for each in self.ok("flow", "list", "--json").lines])
        self.assertIn("no workflow 'hello'", self.refused(6, "flow", "start", "hello", "{}"))
        self.assertEqual(["unchanged hooks", "unchanged payment"], self.actions(name, "--prune"))
        # What Once keeps for workflows is still there, and what was removed can come back.
        self.assertIn("add hello", self.actions("once.toml"))
        self.ok("flow", "start", "hello", "{}")

    def test_prune_refuses_what_still_has_tasks_or_runs(self):
        self.ok("apply", "once.toml")
        self.ok("publish", "orders.new", '{"order":{"id":1}}', "-q")
        self.ok("publish", "orders.new", '{"order":{"id":2}}', "-q")
        self.ok("flow", "start", "hello", "{}")
        name = self.declare({"name": "hooks", "ledger": True})
        answer = self.once("apply", name, "--prune")
        self.assertEqual(2, answer.code, answer.out)
        self.assertRegex(answer.out, r"cannot +queue billing: it has [23] tasks not done with")
        self.assertIn("workflow hello@1: it has 1 run still going on", answer.out)
        self.assertIn("2 things cannot be done", answer.err)
        self.assertIn("billing", self.queues())
        self.actions(name, "--prune", "--force")
        self.assertEqual(["hooks"], list(self.queues()))

    # --- Death

    def test_killed_anywhere_the_next_one_ends_the_same(self):
        many = [{"name": f"q{i}", "topic": f"t{i}"} for i in range(12)]
        name = self.declare(*many, flows=[PAYMENT])
        for kill_after in (0, 3, 7, 11):
            with self.subTest(kill_after):
                self.begin_anew()
                process = self.start("apply", name, "--json")
                for _ in range(kill_after):
                    process.stdout.readline()
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                self.ok("apply", name)
                self.assertEqual({each["name"] for each in many}, set(self.queues()))
                self.assertEqual(["unchanged"], sorted({x.split()[0] for x in self.actions(name)}))


if __name__ == "__main__":
    unittest.main()
