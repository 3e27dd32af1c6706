#!/usr/bin/env -S python3 -B
"""once flow: workflows are added, started, driven and steered, and each says what was and was not done."""

import fcntl
import http.client
import json
import signal
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from flow_command import ORDER, PAYMENT, REVIEW, SIGNALLED, FlowTest, step  # noqa: E402
from once_command import NATS, waits_for_a_flock  # noqa: E402
from prometheus import Metrics  # noqa: E402


# Two things are wrong with it.
BROKEN = {"name": "broken", "steps": [step("charge"), step("b", "chagre"), step("twice"), step("twice")]}


class Definitions(FlowTest):
    def test_add(self):
        self.ok("queue", "add", "pay", "--topic", "pay.>")
        file = self.definition(PAYMENT)
        answer = self.ok("flow", "add", file)
        self.assertEqual("workflow payment version 1: 2 steps\n", answer.out)
        self.assertEqual("", answer.err)
        answer = self.ok("flow", "add", file)
        self.assertEqual("workflow payment version 1 is there already, with this definition\n", answer.out)
        answer = self.ok("flow", "add", "--json", "-", stdin=json.dumps({**PAYMENT, "version": 2}))
        self.assertEqual({"workflow": "payment", "version": 2, "added": True, "steps": 2}, answer.line)
        self.members(["workflow", "version", "added", "steps"], answer)
        self.assertFalse(self.ok("flow", "add", "--json", file).line["added"])

    def test_a_topic_that_no_queue_takes_is_hinted_at(self):
        answer = self.ok("flow", "add", self.definition(PAYMENT))
        self.assertIn("pay.charge", answer.err)
        self.assertIn("queue", answer.err)
        self.assertEqual("", self.ok("flow", "add", "-q", self.definition(PAYMENT, version=2)).err)

    def test_what_is_perhaps_not_meant_is_hinted_at(self):
        self.ok("queue", "add", "t", "--topic", "t.*")
        steps = [step("charge", on_failure="refund"), {"id": "refund", "task": "t.refund"}, step("mail", "refund")]
        file = self.definition({"name": "w", "output": "steps.charge", "steps": steps})
        answer = self.ok("flow", "add", file)
        self.assertIn("step 'mail': depends on 'refund', which is skipped when nothing failed", answer.err)
        self.assertIn("output: there is nothing at 'steps.charge' when 'charge' fails", answer.err)
        steps[2]["skip_if"] = {"path": "steps.charge", "exists": True}
        output = {"charge": {"path": "steps.charge", "default": None}}
        file = self.definition({"name": "w", "version": 2, "output": output, "steps": steps})
        self.assertEqual("", self.ok("flow", "add", file).err)

    def test_all_versions_of_a_workflow_have_one_format_of_keys(self):
        self.ok("queue", "add", "pay", "--topic", "pay.>")
        self.ok("flow", "add", self.definition(PAYMENT, key_format="escaped"))
        self.ok("flow", "add", self.definition(PAYMENT, key_format="escaped"))
        self.ok("flow", "add", self.definition(PAYMENT, version=2))
        self.assertEqual(["escaped"] * 2, [line["key_format"] for line in self.ok("flow", "list", "--json").lines])
        message = self.refused(2, "flow", "add", self.definition(PAYMENT, version=3, key_format="plain"))
        self.assertIn("its keys have the format escaped since version 2", message)
        self.ok("flow", "start", "payment", ORDER)
        self.assertEqual("=17", self.ok("flow", "runs", "--json").line["key"])
        self.ok("flow", "add", self.definition(PAYMENT, name="new"))
        self.assertIn('"key_format":"plain"', self.ok("flow", "export", "new").out.replace(" ", ""))
        self.ok("flow", "start", "new", ORDER)
        self.assertEqual("17", self.ok("flow", "runs", "--workflow", "new", "--json").line["key"])

    def test_a_version_never_changes(self):
        self.add(PAYMENT)
        other = self.definition(PAYMENT, steps=[*PAYMENT["steps"], step("more")], version=1)
        message = self.refused(3, "flow", "add", other)
        for part in ["payment", "$.steps", "nothing was added", "version 2"]:
            self.assertIn(part, message)
        answer = self.once("flow", "add", other, "--json")
        self.assertEqual(3, answer.code)
        self.assertEqual("conflicting_duplicate", answer.line["error"])
        self.assertTrue(answer.line["differs"])
        self.assertEqual(1, len(self.ok("flow", "list", "--json").lines))

    def test_what_is_wrong_is_told_with_the_step_and_nothing_is_made(self):
        for definition, parts in [
            ({"name": "w", "steps": [step("a", depend_on=["b"])]}, ["'a'", '"depend_on"', '"depends_on"?']),
            ({"name": "w", "stepz": []}, ['"stepz"', '"steps"?']),
            ({"name": "w", "steps": [step("a", "c"), step("b", "a"), step("c", "b")]}, ["a -> c -> b -> a"]),
            ({"name": "w", "steps": [step("charge"), step("b", "chagre")]}, ["'b'", "'chagre'", "'charge'?"]),
            ({"name": "w", "steps": [step("a"), step("a")]}, ["'a'", "twice"]),
        ]:  # fmt: skip
            with self.subTest(parts=parts):
                message = self.refused(2, "flow", "add", self.definition(definition))
                for part in ["w.json: ", *parts, "nothing was added"]:
                    self.assertIn(part, message)
        for text in ["", "{", "[]", "7", '{"name":"w"'] :
            with self.subTest(text=text):
                self.assertIn("nothing was added", self.refused(2, "flow", "add", "-", stdin=text))
        message = self.refused(2, "flow", "add", "missing.json")
        self.assertIn("missing.json", message)
        self.assertIn("nothing was added", message)
        self.assertFalse((self.folder / "once.db").exists(), "a mistake leaves nothing behind")

    def test_a_check_needs_no_store_and_tells_everything(self):
        good, bad = self.definition(PAYMENT), self.definition(BROKEN)
        answer = self.ok("flow", "add", "--check", good)
        self.assertEqual("payment.json: workflow payment version 1 is sound: 2 steps\n", answer.out)
        self.assertEqual("", answer.err)
        message = self.refused(2, "flow", "add", "--check", bad)
        for part in ["broken.json: ", "'chagre'", "'twice'", "nothing was added"]:
            self.assertIn(part, message)
        answer = self.once("flow", "add", "--check", bad, good, "missing.json", "--json")
        self.assertEqual(2, answer.code)
        wrong, sound, missing = answer.lines
        self.assertEqual({"file": good, "workflow": "payment", "version": 1, "steps": 2}, sound)
        self.assertEqual(["file", "error", "message", "retryable", "in_doubt"], list(wrong))
        self.assertEqual([(bad, "invalid_input"), ("missing.json", "invalid_input")],
                         [(line["file"], line["error"]) for line in (wrong, missing)])  # fmt: skip
        self.assertEqual(2, self.once("flow", "add", "--check", "-", stdin="{").code)
        self.assertEqual({good, bad}, {path.name for path in self.folder.iterdir()})
        self.assertIn("FILE", self.refused(2, "flow", "add", "--check"))

    def test_a_file_that_is_refused_does_not_stop_the_others(self):
        files = [self.definition(definition) for definition in (PAYMENT, BROKEN, SIGNALLED)]
        answer = self.once("flow", "add", "-q", *files)
        self.assertEqual(2, answer.code)
        self.assertEqual("", answer.out)
        self.assertEqual("payment@1\nsignalled@1\n", self.ok("-q", "flow", "list").out)
        self.assertRegex(answer.err, r"\Aonce: broken\.json: [^\n]+\n\Z")

    @unittest.skipIf(NATS, "about files")
    def test_what_makes_a_database_is_told(self):
        self.assertIn("once flow add", self.refused(5, "flow", "list"))

    def test_a_definition_comes_back_as_it_was_added(self):
        self.add({"$schema": "https://once.dev/workflow.schema.json", **PAYMENT})
        self.add(PAYMENT, version=2, timeout="2h")
        answer = self.ok("flow", "export", "payment@1")
        self.assertEqual({**PAYMENT, "key_format": "plain"}, answer.line)
        self.assertEqual(answer.out, self.ok("flow", "export", "payment@1", "--json").out)
        self.assertIn("is there already", self.ok("flow", "add", "-", stdin=answer.out).out)
        newest = self.ok("flow", "export", "payment")
        self.assertEqual({**PAYMENT, "key_format": "plain", "version": 2, "timeout": "2h"}, newest.line)
        self.begin_anew()
        self.ok("flow", "add", "-q", "-", stdin=newest.out)
        self.assertEqual(newest.out, self.ok("flow", "export", "payment@2").out)
        self.assertIn("payment", self.refused(6, "flow", "export", "payment@1"))
        self.assertIn("paymnet", self.refused(6, "flow", "export", "paymnet"))
        self.assertIn('"x"', self.refused(2, "flow", "export", "payment@x"))

    def test_a_version_can_be_drawn(self):
        self.add(PAYMENT)
        self.add(PAYMENT, version=2, output="steps.charge", steps=PAYMENT["steps"][:1])
        steps = {name: len(self.ok("flow", "graph", name, "--json").line["steps"])
                 for name in ("payment", "payment@1", "payment@2")}  # fmt: skip
        self.assertEqual({"payment": 1, "payment@1": 2, "payment@2": 1}, steps)
        self.assertIn("version 3", self.refused(6, "flow", "graph", "payment@3"))
        self.refused(2, "flow", "graph", "payment@x")

    def test_list(self):
        self.add(SIGNALLED)
        self.add(PAYMENT)
        self.add(PAYMENT, version=12, idempotency_key="{order.id}:{attempt}")
        self.assertEqual(
            "WORKFLOW   VERSION  STEPS  KEY\n"
            "payment          1      2  {order.id}\n"
            "payment         12      2  {order.id}:{attempt}\n"
            "signalled        1      1  the whole input\n",
            self.ok("flow", "list").out,
        )
        lines = self.ok("flow", "list", "--json").lines
        self.assertEqual(
            {
                "workflow": "payment", "version": 12, "steps": 2,
                "idempotency_key": "{order.id}:{attempt}", "key_format": "plain",
            },  # fmt: skip
            lines[1],
        )
        self.assertEqual([1, 12, 1], [line["version"] for line in lines])
        self.assertIsNone(lines[2]["idempotency_key"])

    def test_an_empty_list(self):
        self.ok("queue", "add", "q", "--topic", "t")
        answer = self.ok("flow", "list")
        self.assertEqual(("", "once: no workflows yet (once flow add FILE)\n"), (answer.out, answer.err))
        self.assertEqual("", self.ok("flow", "list", "--json").out)


class Starting(FlowTest):
    def test_a_key_has_one_run(self):
        self.add(PAYMENT)
        first = self.ok("flow", "start", "payment", ORDER)
        self.assertRegex(first.out, r"\Arun payment-[0-9a-z]+ started\n\Z")
        run = first.out.split()[1]
        again = self.ok("flow", "start", "payment", ORDER)
        self.assertRegex(again.out, rf"\Arun {run} of version 1 has this key since \S+ and is \w+ \(duplicate\); --unique")
        self.assertEqual({"run": run, "duplicate": True, "version": 1}, self.ok("flow", "start", "payment", ORDER, "--json").line)
        (self.folder / "order.json").write_text(ORDER)
        self.assertEqual(run, self.begin("payment@1", "@order.json"))
        self.assertEqual(run, self.ok("flow", "start", "payment", "-", "--json", stdin=ORDER).line["run"])
        other = self.ok("flow", "start", "payment", ORDER.replace("17", "18"), "--json")
        self.members(["run", "duplicate", "version"], other)
        self.assertFalse(other.line["duplicate"])
        unique = self.ok("flow", "start", "payment", ORDER, "--unique", "--json").line
        self.assertEqual(3, len({run, other.line["run"], unique["run"]}))
        self.assertFalse(unique["duplicate"])

    def test_another_input_under_the_key_is_a_conflict_that_says_what_differs(self):
        self.add(PAYMENT)
        run = self.begin("payment", ORDER)
        other = ORDER.replace("500", "600")
        message = self.refused(3, "flow", "start", "payment", other)
        for part in [run, "$.order.total", "nothing was started"]:
            self.assertIn(part, message)
        answer = self.once("flow", "start", "payment", other, "--json")
        self.assertEqual(3, answer.code)
        self.members(["error", "message", "retryable", "in_doubt", "run", "key", "differs"], answer)
        self.assertEqual(
            ("conflicting_duplicate", run, "17", ["$.order.total"]),
            tuple(answer.line[name] for name in ("error", "run", "key", "differs")),
        )

    def test_without_a_key_the_input_is_the_key(self):
        self.add(SIGNALLED)
        self.assertEqual(self.begin("signalled", '{"b":1,"a":2}'), self.begin("signalled", '{"a":2, "b":1}'))
        self.assertNotEqual(self.begin("signalled"), self.begin("signalled", "1"))

    def test_what_cannot_be_started(self):
        self.add(PAYMENT)
        for arguments, code, part in [
            (["payment", '{"order":{}}'], 2, "order.id"),
            (["payment"], 2, "order.id"),
            (["payment", "{"], 2, "JSON"),
            (["payment", ""], 2, "JSON"),
            (["payment", "@missing.json"], 2, "missing.json"),
            (["payment@x", ORDER], 2, '"x"'),
            (["payment@0", ORDER], 2, '"0"'),
            (["paymnet", ORDER], 6, "paymnet"),
            (["payment@7", ORDER], 6, "7"),
        ]:
            with self.subTest(arguments=arguments):
                message = self.refused(code, "flow", "start", *arguments)
                self.assertIn(part, message)
                self.assertIn("nothing was started", message)
        self.assertEqual([], self.ok("flow", "runs", "--json").lines)

    def test_a_missing_key_may_be_allowed(self):
        self.add(PAYMENT, on_missing_key="run_unprotected")
        self.assertNotEqual(self.begin("payment", "{}"), self.begin("payment", "{}"))

    def test_a_run_stays_on_its_version_and_a_duplicate_says_so(self):
        self.add(PAYMENT)
        run = self.begin("payment", ORDER)
        self.add(PAYMENT, version=2)
        for name in ["payment", "payment@2"]:
            answer = self.ok("flow", "start", name, ORDER, "--json").line
            self.assertEqual({"run": run, "duplicate": True, "version": 1}, answer)
            self.assertIn(f"run {run} of version 1 has this key", self.ok("flow", "start", name, ORDER).out)
        other = ORDER.replace("17", "18")
        self.assertEqual(2, self.ok("flow", "start", "payment", other, "--json").line["version"])

    def test_a_bare_id_for_scripts(self):
        self.add(SIGNALLED)
        answer = self.ok("flow", "start", "-q", "signalled")
        self.assertRegex(answer.out, r"\Asignalled-[0-9a-z]+\n\Z")
        run = answer.out.strip()
        self.assertEqual(answer.out, self.ok("flow", "start", "-q", "signalled").out)
        self.ok("flow", "signal", run, "paid", "--id", "a")
        self.drive()
        waited = self.ok("flow", "start", "-q", "signalled", "--wait")
        self.assertEqual((answer.out, ""), (waited.out, waited.err))

    def test_a_duplicate_of_a_run_that_failed_says_how_it_goes_on(self):
        self.add(REVIEW)
        run = self.begin("review", '{"paper":1}')
        self.assertNotIn("retry", self.ok("flow", "start", "review", '{"paper":1}').out)
        self.ok("flow", "approve", run, "read", "--reject")
        self.drive()
        self.assertIn(f"once flow retry {run}", self.ok("flow", "start", "review", '{"paper":1}').out)


class Waiting(FlowTest):
    def test_until_a_run_is_completed(self):
        self.add(SIGNALLED)
        run = self.begin("signalled")
        waiting = self.start("flow", "wait", run, "--json", "-q")
        self.ok("flow", "signal", run, "paid", "5", "--id", "a")
        self.drive()
        out, err = waiting.communicate(timeout=60)
        self.assertEqual((0, b""), (waiting.returncode, err))
        self.assertEqual(self.show(run), json.loads(out))
        shown = self.ok("flow", "show", run).out
        self.assertEqual(shown, self.ok("flow", "wait", run).out)
        self.assertEqual(f"run {run} of version 1", self.ok("flow", "start", "signalled", "--wait").out.partition(" has")[0])
        self.assertTrue(self.ok("flow", "start", "signalled", "--wait").out.endswith("\n" + shown))
        quiet = self.ok("flow", "wait", run, "-q")
        self.assertEqual(("", ""), (quiet.out, quiet.err))

    def test_a_run_that_failed_or_is_cancelled(self):
        self.add(REVIEW)
        failed, cancelled = self.begin("review", '{"paper":1}'), self.begin("review", '{"paper":2}')
        self.ok("flow", "approve", failed, "read", "--reject", "--reason", "too long")
        self.ok("flow", "cancel", cancelled)
        self.drive()
        answer = self.once("flow", "wait", failed)
        self.assertEqual((1, self.ok("flow", "show", failed).out), (answer.code, answer.out))
        for part in [f"run {failed} has failed", "too long", f"once flow retry {failed}"]:
            self.assertIn(part, answer.err)
        for command in [["flow", "wait", failed], ["flow", "start", "review", '{"paper":1}', "--wait"]]:
            answer = self.once(*command, "--json")
            self.assertEqual(1, answer.code)
            self.assertEqual((failed, "failed"), (answer.lines[-1]["run"], answer.lines[-1]["error"]))
        answer = self.once("flow", "wait", cancelled)
        self.assertEqual(1, answer.code)
        self.assertIn(f"run {cancelled} is cancelled", answer.err)
        self.assertNotIn("retry", answer.err)

    def test_a_run_that_ran_out_of_time_is_not_said_to_go_on(self):
        self.add(SIGNALLED, timeout="1ms")
        run = self.begin("signalled")
        self.drive()
        answer = self.once("flow", "wait", run)
        self.assertEqual(1, answer.code)
        self.assertIn("not finished within", answer.err)
        self.assertNotIn("retry", answer.err)

    def test_that_runs_out(self):
        self.add(REVIEW)
        answer = self.once("flow", "start", "review", '{"paper":1}', "--wait=1ms", "--json")
        self.assertEqual(7, answer.code, answer.err)
        started, trouble = answer.lines
        run = started["run"]
        self.assertFalse(started["duplicate"])
        self.assertEqual(["run", "error", "message", "retryable", "in_doubt"], list(trouble))
        self.assertEqual((run, "timed_out", True), tuple(trouble[name] for name in ("run", "error", "retryable")))
        for command in [["flow", "start", "review", '{"paper":1}', "--wait=1ms"], ["flow", "wait", run, "--timeout", "1ms"]]:
            message = self.refused(7, *command)
            for part in [f"run {run}", "at read", "no runner is at work: once flow work", f"once flow wait {run}"]:
                self.assertIn(part, message)
        runner = self.start("flow", "work", "-q")
        self.until(self.runner_is_at_work, "a runner", 60)
        message = self.refused(7, "flow", "wait", run, "--timeout", "0")
        self.assertIn("it goes on", message)
        self.assertNotIn("runner", message)
        self.ok("queue", "pause", "once-flow")
        message = self.refused(7, "flow", "wait", run, "--timeout", "0")
        self.assertIn("runs are paused: once queue resume once-flow", message)
        runner.send_signal(signal.SIGTERM)
        self.assertEqual(0, runner.wait(60))

    def runner_is_at_work(self):
        return any(queue.get("queue") == "once-flow" and queue["workers"] for queue in self.ok("status", "--json").lines)

    def test_without_a_runner_says_so_and_goes_on(self):
        self.add(SIGNALLED)
        run = self.begin("signalled")
        waiting = self.start("flow", "wait", run)
        self.assertEqual(b"once: no runner is at work: once flow work\n", waiting.stderr.readline())
        self.ok("flow", "signal", run, "paid", "--id", "a")
        self.drive()
        self.assertEqual(0, waiting.wait(60))

    def test_what_is_no_run(self):
        self.add(SIGNALLED)
        self.assertIn("signalled-nobody", self.refused(6, "flow", "wait", "signalled-nobody"))

    def test_commands_for_tasks_point_to_those_for_runs(self):
        self.add(REVIEW)
        run = self.begin("review", '{"paper":1}')
        self.assertIn(f"once flow wait {run}", self.refused(6, "wait", run))
        for phase in ["waiting", "failed"]:
            with self.subTest(phase=phase):
                for command, instead in [
                    (["cancel"], "cancel"), (["dead", "retry"], "retry"), (["dead", "drop"], "cancel"),
                    (["dead", "show"], "show"), (["doubt", "complete"], "show"),
                ]:  # fmt: skip
                    message = self.refused(1, *command, run)
                    self.assertIn(f"is a run of a workflow, not a task (once flow {instead} {run})", message)
                self.assertIn(f"once flow wait {run}", self.refused(6, "wait", run, "--timeout", "0"))
                self.assertEqual(phase, self.show(run)["state"])
            if phase == "waiting":
                self.ok("flow", "approve", run, "read", "--reject")
                self.drive()


class Steering(FlowTest):
    def test_a_signal_counts_once(self):
        self.add(SIGNALLED)
        run = self.begin("signalled")
        send = ["flow", "signal", run, "paid", '{"cents":5}', "--id", "transfer-1"]
        self.assertEqual(f"signal paid is with run {run}, and counts\n", self.ok(*send).out)
        self.assertIn("was there already", self.ok(*send).out)
        answer = self.ok(*send, "--json")
        self.members(["run", "signal", "id", "result", "duplicate", "sequence", "counts", "first"], answer)
        self.assertEqual(
            (run, "paid", "transfer-1", "counts", True, "transfer-1"),
            tuple(answer.line[name] for name in ("run", "signal", "id", "result", "duplicate", "counts")),
        )
        message = self.refused(3, "flow", "signal", run, "paid", "6", "--id", "transfer-1")
        self.assertIn("transfer-1", message)
        self.drive()
        ended = self.show(run)
        self.assertEqual("completed", ended["state"])
        self.assertEqual({"cents": 5}, ended["steps"][0]["output"])
        self.assertIn(run, self.refused(1, "flow", "signal", run, "paid", "--id", "transfer-2"))

    def test_the_first_signal_of_a_name_counts(self):
        self.add(SIGNALLED, steps=[{"id": "paid", "signal": "paid"}, {"id": "sent", "signal": "sent"}])
        run = self.begin("signalled")
        first = self.ok("flow", "signal", run, "paid", "1", "--id", "transfer-1", "--by", "ann", "--json").line
        later = ["flow", "signal", run, "paid", "2", "--id", "transfer-2"]
        for looked in ["no runner has looked", "a runner has"]:
            with self.subTest(looked):
                answer = self.once(*later, "--json")
                self.assertEqual(3, answer.code)
                self.assertEqual(
                    ("another_counts", False, None, "transfer-1"),
                    tuple(answer.line[name] for name in ("result", "duplicate", "sequence", "counts")),
                )
                self.assertEqual(
                    ("transfer-1", first["sequence"], "ann"),
                    tuple(answer.line["first"][name] for name in ("id", "sequence", "by")),
                )
                answer = self.once(*later)
                self.assertEqual(3, answer.code)
                for part in [f"run {run} has signal paid already (id transfer-1, from ann at 2",
                             f", #{first['sequence']}): that one counts, this one was not added"]:  # fmt: skip
                    self.assertIn(part, answer.out)
            runner = self.start("flow", "work", "-q", "--until-empty")
            self.until(lambda: self.show(run)["steps"][0]["state"] == "completed", "the first signal", 60)
            self._end(runner)
        self.assertEqual(1, self.show(run)["steps"][0]["output"])

    def test_of_many_signals_at_once_the_first_in_the_log_is_told_that_it_counts(self):
        self.add(SIGNALLED)
        run = self.begin("signalled")
        send = lambda n: ["flow", "signal", run, "paid", str(n), "--id", f"t{n}", "--json"]  # noqa: E731
        senders = [self.start(*send(n)) for n in range(6)]
        answers = [json.loads(sender.communicate(timeout=60)[0]) for sender in senders]
        self.assertEqual(1, [answer["result"] for answer in answers].count("counts"))
        self.assertEqual(1, len({answer["first"]["sequence"] for answer in answers}))
        self.drive()
        (counts,) = [answer["id"] for answer in answers if answer["result"] == "counts"]
        self.assertEqual(int(counts[1:]), self.show(run)["steps"][0]["output"])

    def test_what_cannot_be_signalled(self):
        self.add(SIGNALLED)
        run = self.begin("signalled")
        self.assertIn("--id", self.refused(2, "flow", "signal", run, "paid"))
        self.assertIn("--id", self.refused(2, "flow", "signal", run, "paid", "--id", ""))
        self.assertIn("nothing was sent", self.refused(2, "flow", "signal", run, "paid", "{", "--id", "a"))
        self.refused(6, "flow", "signal", "signalled-nobody", "paid", "--id", "a")
        message = self.refused(6, "flow", "signal", run, "piad", "--id", "a")
        self.assertIn("waits for no signal 'piad'; it waits for: paid", message)
        self.assertFalse(self.ok("flow", "signal", run, "paid", "--id", "a", "--json").line["duplicate"])

    def test_the_first_verdict_stands(self):
        self.add(REVIEW)
        run = self.begin("review", '{"paper":1}')
        says = ["flow", "approve", run, "read", "--by", "ann"]
        answer = self.ok(*says, "--reason", "well written", "--json")
        self.members(["run", "step", "outcome", "duplicate", "by", "at", "sequence"], answer)
        self.assertEqual(
            {"run": run, "step": "read", "outcome": "approved", "duplicate": False, "by": "ann"},
            {name: answer.line[name] for name in ("run", "step", "outcome", "duplicate", "by")},
        )
        again = self.ok("flow", "approve", run, "read", "--by", "bob")
        self.assertIn(f"step read of run {run} was approved by ann before, at 2", again.out)
        self.assertIn(f" (#{answer.line['sequence']})", again.out)
        self.assertTrue(self.ok(*says, "--json").line["duplicate"])
        self.assertIn("ann", self.refused(3, *says, "--reject"))

    def test_a_rejection(self):
        self.add(REVIEW)
        run = self.begin("review", '{"paper":1}')
        answer = self.ok("flow", "approve", run, "read", "--reject", "--by", "ann", "--reason", "too long")
        self.assertEqual(f"step read of run {run} is rejected\n", answer.out)
        self.drive()
        ended = self.show(run)
        self.assertEqual("failed", ended["state"])
        self.assertIn("too long", ended["error"])
        again = self.ok("flow", "approve", run, "read", "--reject", "--by", "bob")
        self.assertIn(f"step read of run {run} was rejected by ann before, at 2", again.out)
        self.assertIn("ann: too long", self.refused(3, "flow", "approve", run, "read"))
        answer = self.once("flow", "start", "review", '{"paper":1}', "--wait", "--json")
        self.assertEqual(1, answer.code)
        self.assertEqual(["failed", "failed"], [answer.lines[1]["state"], answer.lines[2]["error"]])

    def test_what_cannot_be_approved(self):
        self.add(REVIEW)
        run = self.begin("review", '{"paper":1}')
        self.refused(6, "flow", "approve", "review-nobody", "read")
        self.assertIn("raed", self.refused(6, "flow", "approve", run, "raed"))
        self.assertIn("paid", self.refused(1, "flow", "approve", run, "paid"))

    def test_a_cancelled_run_is_over(self):
        self.add(REVIEW)
        run = self.begin("review", '{"paper":1}')
        answer = self.ok("flow", "cancel", run, "--reason", "withdrawn", "--by", "ann", "--json")
        self.members(["run", "outcome"], answer)
        self.assertEqual({"run": run, "outcome": "asked"}, answer.line)
        self.drive()
        self.assertEqual("cancelled", self.show(run)["state"])
        self.assertEqual("cancelled", self.ok("flow", "cancel", run, "--json").line["outcome"])
        message = self.refused(1, "flow", "retry", run)
        self.assertIn(run, message)
        self.assertIn("cancelled", message)
        for verb in ["cancel", "retry"]:
            self.refused(6, "flow", verb, "review-nobody")
        self.assertEqual(1, self.once("flow", "start", "review", '{"paper":1}', "--wait").code)

    def test_a_failed_run_goes_on_where_it_failed(self):
        self.add(REVIEW)
        run = self.begin("review", '{"paper":1}')
        self.assertIn(run, self.refused(1, "flow", "retry", run))
        self.ok("flow", "approve", run, "read", "--reject")
        self.drive()
        answer = self.ok("flow", "retry", run, "--reason", "revised", "--json")
        self.members(["run", "round", "steps"], answer)
        self.assertEqual({"run": run, "round": 2, "steps": ["read"]}, answer.line)
        runner = self.start("flow", "work", "-q", "--until-empty")
        self.until(lambda: self.show(run)["state"] == "waiting", "a second round", 60)
        self.ok("flow", "approve", run, "read")
        self.ok("flow", "signal", run, "paid", "--id", "a")
        self.assertEqual(0, runner.wait(60))
        self.assertEqual("completed", self.show(run)["state"])
        self.refused(1, "flow", "retry", run)
        self.refused(1, "flow", "cancel", run)

    def test_a_retry_says_what_runs_again_and_what_only_after_a_failure(self):
        handled = {"id": "charge", "approval": "Charge?", "on_failure": "refund"}
        self.add(REVIEW, steps=[handled, {"id": "refund", "approval": "Refund?"}, {"id": "mail", "approval": "Mail?"}])
        run = self.begin("review", '{"paper":1}')
        runner = self.start("flow", "work", "-q", "--until-empty")
        for name in ["mail", "charge", "refund"]:
            self.until(lambda: name in self.show(run)["waits_for"], f"{name} is asked", 60)
            self.ok("flow", "approve", run, name, "--reject")
        self.assertEqual(0, runner.wait(60))
        self.assertEqual(
            f"run {run} goes on: 2 steps run again (charge, mail), refund only if charge fails again\n",
            self.ok("flow", "retry", run).out,
        )

    def test_a_failed_run_can_be_closed(self):
        self.add(REVIEW)
        run = self.begin("review", '{"paper":1}')
        self.ok("flow", "approve", run, "read", "--reject")
        self.drive()
        self.assertEqual({"run": run, "outcome": "closed"}, self.ok("flow", "cancel", run, "--json").line)
        self.drive()
        self.assertEqual("cancelled", self.show(run)["state"])
        self.assertIn(run, self.refused(1, "flow", "retry", run))


class Driving(FlowTest):
    """With real workers on the steps' queues."""

    PAY = 'body=$(cat); echo "$ONCE_RUN $ONCE_STEP $ONCE_IDEMPOTENCY_KEY $body" >>effects\n'

    def effects(self):
        path = self.folder / "effects"
        return sorted(path.read_text().splitlines()) if path.exists() else []

    def worker(self, text):
        program = self.script("pay", text)
        return self.start("work", "pay", "-q", "--topic", "pay.>", "--backoff", "1ms", "--", program)

    def end(self, process):
        process.send_signal(signal.SIGTERM)
        self.assertEqual(0, process.wait(60))

    def test_every_step_once(self):
        worker = self.worker(self.PAY + 'echo "{\\"step\\":\\"$ONCE_STEP\\",\\"got\\":$body}"')
        self.add(PAYMENT)
        run = self.begin("payment", ORDER)
        answer = self.ok("flow", "work", "--until-empty", "--concurrency", "3", "--worker", "me")
        self.assertEqual("once: driving runs, 3 events at a time\n", answer.err)
        charged = '{"got":{"cents":500},"step":"charge"}'
        self.assertEqual(
            [f'{run} charge {run}.charge {{"cents":500}}', f"{run} receipt {run}.receipt {charged}"], self.effects()
        )
        answer = self.ok("flow", "start", "payment", ORDER, "--wait", "--json")
        self.assertEqual([True, run], [answer.lines[0]["duplicate"], answer.lines[1]["run"]])
        self.assertEqual(
            ("completed", {"step": "receipt", "got": json.loads(charged)}),
            (answer.lines[1]["state"], answer.lines[1]["output"]),
        )
        self.drive()
        self.assertEqual(2, len(self.effects()))
        self.end(worker)

    def test_a_start_that_waits_and_a_runner_that_stays(self):
        worker = self.worker(self.PAY + "echo 1")
        self.add(PAYMENT)
        runners = [self.start("flow", "work") for _ in range(2)]
        waited = self.ok("flow", "start", "payment", ORDER, "--wait=1m")
        self.assertRegex(waited.out, r"\Arun payment-\S+ started\n")
        self.assertIn("completed", waited.out)
        self.assertEqual(2, len(self.effects()))
        for runner in runners:
            runner.send_signal(signal.SIGTERM)
            _, err = runner.communicate(timeout=60)
            self.assertEqual(0, runner.returncode, err)
            self.assertIn(b"draining", err)
        self.end(worker)

    def test_a_step_that_fails_fails_the_run_and_is_tried_again_by_a_person(self):
        worker = self.worker(self.PAY + "[ -e mended ] || { echo no money >&2; exit 65; }; echo 1")
        self.add(PAYMENT)
        run = self.begin("payment", ORDER)
        answer = self.ok("flow", "work", "--until-empty")
        self.assertIn("once flow runs --state failed", answer.err)
        answer = self.once("flow", "start", "payment", ORDER, "--wait")
        self.assertEqual(1, answer.code)
        self.assertIn("no money", answer.err)
        (self.folder / "mended").touch()
        self.assertEqual(["charge"], self.ok("flow", "retry", run, "--json").line["steps"])
        self.drive()
        self.assertEqual("completed", self.show(run)["state"])
        self.assertEqual(["charge", "charge", "receipt"], [line.split()[1] for line in self.effects()])
        self.end(worker)

    def test_a_step_whose_output_is_too_deep_is_not_retried_and_the_person_hears_why(self):
        worker = self.worker("printf '[%.0s' $(seq 512); printf ']%.0s' $(seq 512)")
        self.add(PAYMENT)
        run = self.begin("payment", ORDER)
        self.drive()
        self.assertEqual("failed", self.show(run)["state"])
        message = self.refused(1, "flow", "retry", run)
        for part in ["its task is completed", "nothing was changed", f"once flow cancel {run}"]:
            self.assertIn(part, message)
        self.assertEqual("failed", self.show(run)["state"])
        self.end(worker)

    def test_a_retry_after_its_step_was_completed_by_hand(self):
        worker = self.worker("[ -e mended ] || exit 65; echo 1")
        self.add(PAYMENT)
        run = self.begin("payment", ORDER)
        self.drive()
        (self.folder / "mended").touch()
        runner = self.start("flow", "work", "-q")
        self.ok("dead", "retry", f"{run}.charge")
        self.until(lambda: self.show(run)["steps"][0]["state"] == "completed", "the step", 60)
        self.assertEqual("failed", self.show(run)["state"])
        self.assertEqual(f"run {run} goes on: its steps were completed meanwhile\n", self.ok("flow", "retry", run).out)
        self.until(lambda: self.show(run)["state"] == "completed", "the end", 60)
        self.end(runner)
        self.end(worker)

    @unittest.skipIf(NATS, "holds the lock of a file")
    def test_a_second_signal_gives_up_what_is_being_handled(self):
        # One of them is over soon after the lock is held, however slow this is.
        self.add(SIGNALLED, steps=[{"id": f"s{n}", "sleep": f"{n}s"} for n in range(1, 60)])
        runner = self.start("flow", "work")
        run = self.begin("signalled")
        self.until(lambda: self.show(run)["steps_done"] > 0, "a runner at work", 60)
        with open(self.folder / "once.db-lock", "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.until(lambda: waits_for_a_flock(runner.pid), "an event that cannot be written", 60)
            for said in [b"a second signal gives them up", b"giving up the events"]:
                runner.send_signal(signal.SIGTERM)
                self.assertTrue(any(said in line for line in runner.stderr), said)
            done = self.show(run)["steps_done"]
        self.assertEqual(0, runner.wait(60))
        runner = self.start("flow", "work", "-q")
        self.until(lambda: self.show(run)["steps_done"] > done, "the next runner", 60)
        self.end(runner)

    def test_a_runner_that_is_killed_is_replaced_by_the_next(self):
        worker = self.worker(self.PAY + "until [ -e go ]; do sleep 0.01; done; echo 1")
        self.add(PAYMENT)
        run = self.begin("payment", ORDER)
        runner = self.start("flow", "work", "-q")
        self.until(self.effects, "the first step runs", 60)
        runner.kill()
        runner.wait(60)
        (self.folder / "go").touch()
        # What the first one had in hand may have to wait for the end of its lease.
        self.assertEqual(0, self.start("flow", "work", "-q", "--until-empty").wait(100))
        self.assertEqual("completed", self.show(run)["state"])
        self.assertEqual(["charge", "receipt"], [line.split()[1] for line in self.effects()])
        self.end(worker)

    def test_a_cancel_reaches_a_running_step(self):
        worker = self.worker("touch started; trap 'touch told; exit 1' TERM; while :; do sleep 0.01; done")
        self.add(PAYMENT)
        run = self.begin("payment", ORDER)
        runner = self.start("flow", "work", "-q")
        self.until((self.folder / "started").exists, "the step runs", 60)
        self.ok("flow", "cancel", run)
        self.until((self.folder / "told").exists, "the step is told", 60)
        self.assertEqual(1, self.once("flow", "start", "payment", ORDER, "--wait").code)
        self.end(runner)
        self.end(worker)

    def test_metrics_of_a_runner(self):
        self.add(SIGNALLED)
        runner = self.start("flow", "work", "-q", "--json", "--metrics-port", "0")
        port = json.loads(runner.stdout.readline())["metrics_port"]
        self.assertGreater(port, 0)
        self.begin("signalled")
        self.until(lambda: self.get(port, "/healthz")[0] == 200, "a runner that is well", 60)
        self.until(lambda: self.events_handled(port) == 1, "an event", 60)
        self.end(runner)

    def get(self, port, path):
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            line.request("GET", path)
            answer = line.getresponse()
            return answer.status, answer.read().decode()
        finally:
            line.close()

    def events_handled(self, port):
        return Metrics(self.get(port, "/metrics")[1])["once_worker_completed_total", "once-flow"]

    def test_nothing_to_drive(self):
        self.leave_zone()
        self.refused(5, "flow", "work", "--until-empty")
        self.ok("queue", "add", "q", "--topic", "t")
        self.assertIn("once flow add", self.refused(6, "flow", "work", "--until-empty"))
        self.refused(2, "flow", "work", "--concurrency", "0")
        self.assertIn("one word too many: q", self.refused(2, "flow", "work", "q"))


if __name__ == "__main__":
    unittest.main()
