#!/usr/bin/env -S python3 -B
"""The Python client inside a program of `once work`: steps through the worker's socket, and keys."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from client_test import ClientTest  # noqa: E402

import once  # noqa: E402
from once import Dead, InvalidInput, step_protocol as wire  # noqa: E402

HEAD = """import os, sys, time
import once
from once import *
def mark(text):
    with open('marks', 'a') as file: file.write(str(text) + '\\n')
"""


class ProgramTest(ClientTest):
    def setUp(self):
        super().setUp()
        self.client.put_queue("q", topic="t", attempts=4, backoff=["1ms"])

    def program(self, code):
        path = self.folder / "program.py"
        path.write_text(HEAD + code)
        return [sys.executable, str(path)]

    def drain(self, code, exits=0, *options):
        return self.drained("work", "q", "-q", "--until-empty", *options, "--", *self.program(code), exits=exits)


class Programs(ProgramTest):
    def test_a_program_sees_its_task_and_its_steps_are_remembered(self):
        self.client.publish("t", {"ü": 1}, id="ä:1", headers={"h": "€"})
        self.drain(
            "def handle(task):\n"
            "    assert task is once.current_task()\n"
            "    seen = [task.id, task.topic, task.queue, task.body, task.headers, task.in_doubt]\n"
            "    one = task.step('öne', lambda: mark('one') or {'n': [1, None], 'ü': '€'})\n"
            "    try: task.step('bad', lambda: 1 / 0)\n"
            "    except ZeroDivisionError: mark('bad')\n"
            "    if task.attempt == 1: raise Fail('again')\n"
            "    try: task.step('öne', lambda: mark('twice'))\n"
            "    except InvalidInput: mark('refused')\n"
            "    return [seen, one]\n"
            "run_program(handle)\n"
        )
        outcome = self.client.wait("ä:1")
        seen = ["ä:1", "t", "q", {"ü": 1}, {"h": "€"}, False]
        self.assertEqual(("completed", [seen, {"n": [1, None], "ü": "€"}]), (outcome.state, outcome.result))
        self.assertEqual(["one", "bad", "bad", "refused"], self.marks)
        self.assertEqual(["failed", "completed"], self.attempts("ä:1"))

    def test_verdicts_and_bytes(self):
        cases = {
            "raise Dead('never')": ("dead", ["dead"]),
            "raise Unknown('no answer')": ("in_doubt", ["unknown"]),
            "return object()": ("in_doubt", ["unknown"]),
            "return 1 / 0": ("dead", ["failed"]),
            "return task.body.decode()": ("completed", ["completed"]),
        }
        self.client.patch_queue("q", in_doubt="hold", attempts=1)
        for number, (code, (state, attempts)) in enumerate(cases.items()):
            with self.subTest(code):
                id = f"a{number}"
                self.client.publish("t", b"bytes", id=id)
                self.drain(f"def handle(task):\n    {code}\nrun_program(handle)\n", 0 if state == "completed" else 1)
                self.assertEqual((state, attempts), (self.state(id), self.attempts(id)))

    def test_a_step_that_was_cut_off_asks_its_probe(self):
        cases = {
            "'found'": ("completed", "found", 1),
            "None": ("completed", "ran again", 2),
            "Unknown": ("in_doubt", None, 1),
        }
        for number, (probe, (state, result, runs)) in enumerate(cases.items()):
            with self.subTest(probe):
                (self.folder / "marks").unlink(missing_ok=True)
                id = f"a{number}"
                self.client.publish("t", id=id)
                self.drain(
                    "def pay():\n"
                    "    mark(once.current_task().key('pay'))\n"
                    "    if once.current_task().attempt == 1: os.kill(os.getpid(), 9)\n"
                    "    return 'ran again'\n"
                    "run_program(lambda task: task.step('pay', pay, probe=lambda: " + probe + "))\n",
                    1 if state == "in_doubt" else 0,
                )
                outcome = self.client.wait(id, "q")
                self.assertEqual((state, result), (outcome.state, outcome.result))
                self.assertEqual(runs, len(self.marks))
                self.assertEqual(1, len(set(self.marks)))

    def test_a_result_above_the_limit_is_not_sent_and_the_task_is_held(self):
        self.client.patch_queue("q", max_result="1024")
        self.client.publish("t", id="a")
        self.drain("run_program(lambda task: task.step('s', lambda: mark('ran') or 'x' * 3000))\n", 1)
        self.assertEqual((["ran"], "in_doubt"), (self.marks, self.state("a")))

    def test_a_step_of_a_worker_that_was_killed_ends_the_attempt(self):
        self.client.patch_queue("q", lease="2s")
        self.client.publish("t", id="a")
        worker = self.start("work", "q", "-q", "--", *self.program(
            "def slow():\n"
            "    mark('began')\n"
            "    while not os.path.exists('go-on'): time.sleep(0.01)\n"
            "def handle(task):\n"
            "    try: task.step('s', slow)\n"
            "    except AttemptOver: mark('over')\n"
            "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "run_program(handle)\n"))
        self.until(lambda: self.marks, "the step runs")
        self.kill(worker)
        (self.folder / "go-on").touch()
        self.drain("run_program(lambda task: task.step('s', lambda: 'again'))\n")
        self.assertEqual("again", self.client.wait("a").result)

    def test_outside_of_a_worker_there_is_no_task(self):
        with self.assertRaises(InvalidInput):
            once.current_task()


class Together(ProgramTest):
    """Programs, `once step` and HTTP workers see the same keys and the same results of steps."""

    def test_the_keys_agree(self):
        keys = {}

        def handler(task):
            keys["http task"] = task.key()

            def pay():
                keys["http step"] = task.key("pay ü")
                self.client.stop()
                raise ValueError("the next attempt is a program")

            task.step("pay ü", pay)

        self.client.worker("q")(handler)
        thread = self.run_in_thread(self.client)
        self.client.publish("t", id="a")
        thread.join(30)
        script = self.script("program", (
            f"[ $ONCE_ATTEMPT = 2 ] || exec {sys.executable} program.py\n"
            "echo $ONCE_IDEMPOTENCY_KEY > shell-task\n"
            "exec $ONCE_BIN step 'pay ü' -- sh -c 'echo $ONCE_IDEMPOTENCY_KEY > shell-step; exit 1'\n"))
        self.program(
            "task = once.current_task()\n"
            "key = task.step('pay ü', lambda: task.key('pay ü'))\n"
            "open('python-task', 'w').write(task.key())\n"
            "open('python-step', 'w').write(key)\n")
        self.ok("work", "q", "-q", "--until-empty", "--", script)
        for name in ("shell-task", "shell-step", "python-task", "python-step"):
            keys[name] = (self.folder / name).read_text().strip()
        self.assertEqual(1, len({keys[name] for name in ("http task", "shell-task", "python-task")}), keys)
        self.assertEqual(1, len({keys[name] for name in ("http step", "shell-step", "python-step")}), keys)
        self.assertNotEqual(keys["http task"], keys["http step"])
        self.assertEqual(["failed", "failed", "completed"], self.attempts("a"))

    def test_results_of_steps_pass_from_one_kind_of_worker_to_the_other(self):
        self.client.publish("t", id="a")
        script = self.script("program", (
            "$ONCE_BIN step text -- printf 'grün\\n'\n"
            "$ONCE_BIN step json -- printf '{\"n\":1}'\n"
            "$ONCE_BIN step bytes -- printf '\\377'\n"
            f"{sys.executable} program.py\n"
            "exit 65\n"))
        self.program("once.current_task().step('python', lambda: {'deep': [1.5]})\n")
        self.drained("work", "q", "-q", "--until-empty", "--", script, exits=1)
        self.client.retry("a", who="ann")
        seen = []

        def handler(task):
            def never():
                raise AssertionError("this step is done")

            seen.extend(task.step(name, never) for name in ("text", "json", "python", "bytes"))
            task.step("http", lambda: [{"u": "ü"}])
            self.client.stop()
            raise Dead("the rest is for a program")

        self.client.worker("q")(handler)
        self.client.run(signals=False)
        self.assertEqual(["grün\n", {"n": 1}, {"deep": [1.5]}, b"\xff"], seen)
        self.client.retry("a", who="ann")
        self.drain("run_program(lambda task: task.step('http', lambda: 'ran again'))\n")
        self.assertEqual([{"u": "ü"}], self.client.wait("a").result)


class Frames(unittest.TestCase):
    def test_a_frame_is_read_back(self):
        sent = wire.encode(wire.Message(wire.BEGIN, name="pay ü", policy="hold"))
        self.assertEqual(len(sent) - 4, int.from_bytes(sent[:4], "little"))
        self.assertIn("pay ü".encode(), sent)
        read = wire.decode(wire.encode(wire.Message(wire.END, bytes=b"x" * 300))[4:])
        self.assertEqual((wire.END, b"x" * 300), (read.kind, read.bytes))

    def test_garbage_is_refused_and_unknown_fields_are_passed_over(self):
        good = wire.encode(wire.Message(wire.DONE))[4:]
        self.assertEqual(wire.DONE, wire.decode(good + wire._text(77, b"more") + wire._number(78, 1 << 40)).kind)
        for content in (b"\xff", b"\x02", wire._varint(13) + b"\x7fshort", wire._number(1, 2), b"\x80" * 12):
            with self.assertRaises(OSError):
                wire.decode(content)


if __name__ == "__main__":
    unittest.main()
