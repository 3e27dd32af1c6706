#!/usr/bin/env -S python3 -B
"""once work and once wait: programs per task, verdicts, signals."""

import signal
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from once_command import BIN, NATS, OnceTest, steady  # noqa: E402

RETRY_SOON = ["--backoff", "1ms"]


class Work(OnceTest):
    def work(self, *arguments, exits=0):
        return self.drained("work", "q", "-q", "--until-empty", *arguments, exits=exits)

    def states(self):
        return {item["id"]: item["state"] for item in self.ok("list", "--json").lines}

    def story(self, task):
        return self.ok("inspect", task, "--json").line["queues"][0]

    def test_body_in_result_out(self):
        self.ok("publish", "t", '{"n":1}', "--id", "a", "-q")
        self.work("--topic", "t", "--", "cat")
        self.assertEqual('{"n":1}\n', self.ok("wait", "a").out)
        self.assertEqual(
            {"id": "a", "queue": "q", "state": "completed", "result": {"n": 1}},
            self.ok("wait", "a", "--json").line,
        )

    def test_arguments_are_passed_as_they_are(self):
        self.ok("publish", "t", "--id", "a", "-q")
        program = self.script("show", 'printf "<%s>" "$@"')
        self.work("--topic", "t", "--", program, "[a,b]", "[]", "", "--json", "--", "{}", "-q")
        self.assertEqual("<[a,b]><[]><><--json><--><{}><-q>\n", self.ok("wait", "a").out)

    def test_environment(self):
        self.ok("publish", "t.u", '{"k":"v",\n "n": 1.50}', "--id", "a", "--header", "H=é", "-q")
        program = self.script("show", 'cat "$ONCE_TASK_FILE" > task; env > environment; echo 7 > "$ONCE_RESULT"; echo no')
        self.work("--topic", "t.>", "--key", "{k}", "--timeout", "1h", "--store", self.store, "--", program)
        lines = (self.folder / "environment").read_text().splitlines()
        seen = dict(line.split("=", 1) for line in lines if line.startswith("ONCE_"))
        self.assertEqual("7\n", self.ok("wait", "a").out)
        self.assertEqual(
            {"ONCE_ID": "a", "ONCE_KEY": "v", "ONCE_TOPIC": "t.u", "ONCE_QUEUE": "q", "ONCE_SEQUENCE": "1",
             "ONCE_ATTEMPT": "1", "ONCE_IN_DOUBT": "0", "ONCE_STORE": self.store if NATS else str(self.folder / "once.db")},
            {name: seen[name] for name in seen if name in (
                "ONCE_ID", "ONCE_KEY", "ONCE_TOPIC", "ONCE_QUEUE", "ONCE_SEQUENCE", "ONCE_ATTEMPT",
                "ONCE_IN_DOUBT", "ONCE_STORE")},
        )  # fmt: skip
        self.assertRegex(seen["ONCE_IDEMPOTENCY_KEY"], r"\A[0-9a-f]{64}\Z")
        self.assertRegex(seen["ONCE_DEADLINE"], r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")
        self.assertEqual(Path(BIN).resolve(), Path(seen["ONCE_BIN"]))
        self.assertEqual(self.ok("log", "--json").out, (self.folder / "task").read_text())

    def test_verdicts(self):
        self.ok("queue", "add", "q", "--topic", "t", "--attempts", "2", *RETRY_SOON)
        for name in ["0", "1", "65", "74", "kill", "140"]:
            self.ok("publish", "t", "--id", name)
        program = self.script(
            "verdict",
            '[ "$ONCE_ID" = 0 ] || echo "why $ONCE_ID" >&2\n'
            '[ "$ONCE_ID" = kill ] && kill -9 $$\n'
            'exit "$ONCE_ID"',
        )
        self.work("--", program, exits=1)
        states = self.states()
        self.assertEqual("completed", states.pop("0"))
        self.assertEqual({"dead"}, set(states.values()))
        outcomes = {task: [a["outcome"] for a in self.story(task)["attempts"]] for task in ["0", "1", "65", "74", "kill", "140"]}
        self.assertEqual(["completed"], outcomes["0"])
        self.assertEqual(["failed", "failed"], outcomes["1"])
        self.assertEqual(["dead"], outcomes["65"])
        for doubtful in ["74", "kill", "140"]:
            self.assertEqual(["unknown", "unknown"], outcomes[doubtful])
            self.assertTrue(self.story(doubtful)["attempts"][0]["in_doubt"])
        self.assertIn("why 1", self.story("1")["attempts"][0]["error"])
        answer = self.once("wait", "65", "--json")
        self.assertEqual((1, "dead", None), (answer.code, answer.lines[0]["state"], answer.lines[0]["result"]))
        self.assertEqual("failed", answer.lines[1]["error"])
        self.assertIn("why 65", self.refused(1, "wait", "65"))

    def test_the_command_is_checked_before_anything(self):
        (self.folder / "text").write_text("no program")
        for command in ["no-such-command", "./no-such-file", "./text", ".", ""]:
            with self.subTest(command=command):
                self.refused(2, "work", "q", "--topic", "t", "--", command)
        self.assertFalse((self.folder / "once.db").exists())

    def test_dashes_are_mandatory(self):
        self.assertIn("`--`", self.refused(2, "work", "q"))
        self.refused(2, "work", "q", "true")

    def test_making_the_queue(self):
        self.refused(2, "work", "q", "--topic", "t", "--in-doubt", "maybe", "--", "true")
        self.assertIn("--topic", self.refused(2, "work", "q", "--attempts", "3", "--", "true"))
        define = ["--topic", "t", "--attempts", "3", "--from", "now"]
        self.ok("publish", "t", "1", "-q")
        self.assertIn("queue q takes t: 0 tasks found", self.ok("work", "q", *define, "--until-empty", "--", "true").err)
        self.ok("publish", "t", "2", "-q")
        self.work(*define, "--", "true")
        self.work("--", "true")
        self.refused(2, "work", "q", "--topic", "t", "--attempts", "4", "--", "true")
        self.assertEqual(["completed"], list(self.states().values()))

    def test_concurrency_and_names(self):
        self.ok("queue", "add", "q", "--topic", "t")
        for n in range(3):
            self.ok("publish", "t", str(n), "--id", f"i{n}")
        # Each waits for all: only three at a time can finish.
        program = self.script(
            "meet", 'touch "here.$ONCE_ID"; until [ $(ls here.* | wc -l) = 3 ]; do sleep 0.01; done'
        )
        self.work("--concurrency", "3", "--worker", "me", "--", program)
        self.assertEqual("me", self.story("i0")["attempts"][0]["worker"])

    def test_start_line(self):
        self.ok("queue", "add", "q", "--topic", "t")
        self.assertEqual("", self.work("--", "true").err)
        err = self.ok("work", "q", "--until-empty", "--", "true").err
        self.assertRegex(err, r"\Aonce: working on queue q[^\n]*\n\Z")

    def test_a_term_drains(self):
        self.ok("queue", "add", "q", "--topic", "t")
        for task in ["a", "b"]:
            self.ok("publish", "t", "--id", task)
        program = self.script("slow", "touch started; until [ -e go ]; do sleep 0.01; done; echo 1")
        worker = self.start("work", "q", "--", program)
        self.until((self.folder / "started").exists, "the program runs")
        worker.send_signal(signal.SIGTERM)
        (self.folder / "go").touch()
        _, err = worker.communicate(timeout=60)
        self.assertEqual(0, worker.returncode, err)
        self.assertIn(b"draining", err)
        self.assertEqual({"a": "completed", "b": "waiting"}, self.states())

    def test_an_idle_worker_ends_on_int(self):
        self.ok("queue", "add", "q", "--topic", "t")
        worker = self.start("work", "q", "--", "true")
        self.until(lambda: self.ok("status", "--json").lines[0]["workers"] == 1, "the worker is there")
        worker.send_signal(signal.SIGINT)
        self.assertEqual(0, worker.wait(timeout=60))

    def test_a_second_signal_interrupts(self):
        self.ok("queue", "add", "q", "--topic", "t", "--attempts", "1")
        self.ok("publish", "t", "--id", "a")
        program = self.script("forever", "touch started; sleep 1000 & wait")
        worker = self.start("work", "q", "--", program)
        self.until((self.folder / "started").exists, "the program runs")
        worker.send_signal(signal.SIGTERM)
        self.assertIn(b"working on", worker.stderr.readline())
        self.assertIn(b"draining", worker.stderr.readline())
        worker.send_signal(signal.SIGTERM)
        self.assertIn(b"ending the running programs now", worker.stderr.readline())
        self.assertEqual(0, worker.wait(timeout=60))
        attempt = self.story("a")["attempts"][0]
        self.assertEqual(("interrupted", True), (attempt["outcome"], attempt["in_doubt"]))
        (self.folder / "forever").write_text("#!/bin/sh\necho $ONCE_ATTEMPT $ONCE_IN_DOUBT\n")
        self.work("--", program)
        self.assertEqual("2 1\n", self.ok("wait", "a").out)

    def test_programs_get_default_signals(self):
        self.ok("publish", "t", "--id", "a", "-q")
        program = self.script("signals", "grep -E '^Sig(Blk|Ign)' /proc/self/status")
        self.work("--topic", "t", "--", program)
        for line in self.ok("wait", "a").out.splitlines():
            # Without 32 and 33, which the C library keeps for itself.
            self.assertEqual(0, int(line.split()[1], 16) & 0x7FFFFFFF, line)

    def test_results_of_every_kind(self):
        self.ok("queue", "add", "q", "--topic", "t")
        for task in ["text", "bytes", "none", "json"]:
            self.ok("publish", "t", "--id", task)
        program = self.script(
            "result",
            "case $ONCE_ID in text) echo hello ;; bytes) printf '\\377' ;; none) ;; json) printf '{\"a\":\\n1}' ;; esac",
        )
        self.work("--", program)
        self.assertEqual("hello\n", self.ok("wait", "text").out)
        text = self.ok("wait", "text", "--json").line
        self.assertEqual(("hello\n", True), (text["result"], text["text"]))
        self.assertEqual(("hello\n", True), (self.story("text")["result"], self.story("text")["text"]))
        self.assertEqual("/w==", self.ok("wait", "bytes", "--json").line["raw"])
        self.assertEqual({"a": 1}, self.ok("wait", "json", "--json").line["result"])
        self.assertEqual({"a": 1}, self.story("json")["result"])
        self.assertEqual("/w==", self.story("bytes")["raw"])
        self.ok("wait", "none")

    def test_inspect_tells_the_story(self):
        self.ok("queue", "add", "q", "--topic", "t", *RETRY_SOON)
        self.ok("queue", "add", "later", "--topic", "t")
        body = '{"to": "ada"}'
        for _ in range(3):
            self.ok("publish", "t", body, "--id", "a", "--header", "Trace=1")
        program = self.script(
            "flaky", '[ "$ONCE_ATTEMPT" = 2 ] && echo \'{"sent":true}\' && exit; echo "line 1\nline 2" >&2; exit 1'
        )
        self.work("--worker", "w", "--", program)
        self.golden("inspect.txt", steady(self.ok("inspect", "a").out))
        story = self.ok("inspect", "a", "--json").line
        self.assertEqual(
            ["id", "topic", "sequence", "digest", "published_at", "body", "headers", "duplicates", "queues"],
            list(story),
        )
        self.assertEqual(2, story["duplicates"])
        queue = next(q for q in story["queues"] if q["queue"] == "q")
        for name in ["queue", "key", "state", "attempts", "steps", "result", "next"]:
            self.assertIn(name, queue)
        self.assertEqual(
            ["attempt", "worker", "token", "started_at", "ended_at", "outcome", "in_doubt", "error", "stderr"],
            list(queue["attempts"][0]),
        )
        self.assertEqual([], queue["steps"])
        self.assertEqual({"sent": True}, queue["result"])
        self.assertLess(queue["attempts"][0]["token"], queue["attempts"][1]["token"])
        self.golden("list.txt", steady(self.ok("list").out))
        self.golden("status.txt", steady(self.ok("status").out.replace("<1s", " 1s")))


class Wait(OnceTest):
    def test_unknown_id(self):
        self.ok("queue", "add", "q", "--topic", "t")
        self.refused(6, "wait", "nope")
        self.refused(6, "wait", "nope", "--queue", "q")
        self.ok("publish", "t", "--id", "a")
        self.refused(6, "wait", "a", "--queue", "nope")

    def test_timeout(self):
        self.ok("publish", "t", "--id", "a", "-q")
        self.assertIn("no queue", self.refused(7, "wait", "a", "--timeout", "10ms"))
        self.ok("queue", "add", "q", "--topic", "t")
        self.assertIn("queue q", self.refused(7, "wait", "a", "--timeout", "10ms"))
        self.refused(7, "wait", "a", "--timeout", "0s")
        answer = self.once("wait", "a", "--timeout", "1ms", "--json")
        self.assertEqual(("timed_out", True, False), tuple(answer.line[n] for n in ("error", "retryable", "in_doubt")))

    def test_an_unrouted_task_is_waited_for(self):
        self.ok("publish", "t", "--id", "a", "-q")
        waiting = self.start("wait", "a")
        self.ok("work", "q", "-q", "--topic", "t", "--until-empty", "--", "echo", "5")
        out, err = waiting.communicate(timeout=60)
        self.assertEqual((0, b"5\n", b""), (waiting.returncode, out, err))

    def test_all_queues(self):
        self.ok("publish", "t", "--id", "a", "-q")
        self.ok("queue", "add", "q2", "--topic", "t")
        self.ok("work", "q1", "-q", "--topic", "t", "--until-empty", "--", "echo", "1")
        self.assertEqual("1\n", self.ok("wait", "a", "--queue", "q1").out)
        self.refused(7, "wait", "a", "--queue", "q2", "--timeout", "10ms")
        self.assertEqual(7, self.once("wait", "a", "--timeout", "10ms").code)
        self.ok("work", "q2", "-q", "--until-empty", "--", "echo", "2")
        self.assertEqual({"q1: 1", "q2: 2"}, set(self.ok("wait", "a").out.splitlines()))
        results = {line["queue"]: line["result"] for line in self.ok("wait", "a", "--json").lines}
        self.assertEqual({"q1": 1, "q2": 2}, results)


if __name__ == "__main__":
    unittest.main()
