#!/usr/bin/env -S python3 -B
"""What somebody meets in the first hour: help, words of other programs, -q, doomed tasks."""

import json
import socket
import sys
import unittest
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from once_command import BIN, OnceTest  # noqa: E402


class Help(OnceTest):
    def test_once_alone_prints_its_help_and_exits_2(self):
        answer = self.once()
        self.assertEqual((2, self.ok("--help").out, ""), (answer.code, answer.out, answer.err))

    def test_help_is_a_command(self):
        self.assertEqual(self.ok("--help").out, self.ok("help").out)
        self.assertEqual(self.ok("publish", "--help").out, self.ok("help", "publish").out)
        self.assertEqual(self.ok("queue", "add", "--help").out, self.ok("help", "queue", "add").out)
        self.assertEqual(self.ok("work", "--help").out, self.ok("help", "work").out)
        self.assertIn("did you mean publish?", self.refused(2, "help", "pubish"))
        self.assertIn("did you mean remove?", self.refused(2, "help", "queue", "remvoe"))
        self.assertIn("no such command: add", self.refused(2, "help", "publish", "add"))

    def test_words_of_other_programs(self):
        for word, meant in [
            ("rm", "once queue remove"), ("delete", "once cancel"), ("retry", "once dead retry"),
            ("show", "once inspect"), ("ps", "once list --state running"), ("logs", "once inspect"),
            ("ls", "once list"), ("enqueue", "once publish"), ("push", "once publish"), ("add", "once publish"),
            ("run", "once work"), ("start", "once flow start"), ("top", "once status --watch"),
            ("info", "once status"), ("ack", "once complete"), ("kill", "once cancel"), ("dlq", "once dead list"),
            ("consume", "once work"), ("tail", "once log -f"), ("queues", "once queue list"),
        ]:  # fmt: skip
            with self.subTest(word=word):
                said = self.refused(2, word)
                self.assertIn(f"no such command: {word}", said)
                self.assertIn(meant, said)
        for words, meant in [
            (["queue", "rm"], "once queue remove"), (["queue", "create"], "once queue add"),
            (["queue", "ls"], "once queue list"), (["queue", "update"], "once queue set"),
            (["dead", "requeue"], "once dead retry"), (["dead", "rm"], "once dead drop"),
            (["flow", "run"], "once flow start"), (["flow", "ps"], "once flow runs"),
            (["doubt", "ls"], "once doubt list"), (["flow", "inspect"], "once flow show"),
        ]:  # fmt: skip
            with self.subTest(words=words):
                self.assertIn(meant, self.refused(2, *words, "x"))

    def test_the_commands_that_hints_name_exist(self):
        """A hint that names a command which is not there is worse than none."""
        source = (Path(__file__).parents[2] / "cli/app/usage.cpp").read_text()
        named = {line.split("`")[i] for line in source.splitlines() for i in range(1, line.count("`"), 2)
                 if line.split("`")[i].startswith("once ")}  # fmt: skip
        self.assertGreater(len(named), 15)
        for command in named:
            words = [word for word in command.split()[1:] if word[0].islower()]
            with self.subTest(command=command):
                self.ok(*words, "--help")


class Doomed(OnceTest):
    """A task that could never start is refused, and nothing is published."""

    def test_at_the_command_line(self):
        for arguments, said in [
            (["--delay", "2h", "--expires", "1h"], "expires"),
            (["--delay", "1h", "--expires", "1h"], "expires"),
            (["--at", "2036-01-02", "--expires", "2036-01-01"], "expires"),
            (["--expires", "0"], "expires"), (["--expires", "0s"], "expires"),
            (["--expires", "2020-01-01"], "expires"),
        ]:  # fmt: skip
            with self.subTest(arguments=arguments):
                message = self.refused(2, "publish", "t", "1", "--id", "a", *arguments)
                self.assertIn(said, message)
                self.assertIn("nothing was published", message)
        self.assertEqual("", self.ok("log").out)
        self.ok("publish", "t", "1", "--id", "a", "--delay", "1h", "--expires", "2h")

    def test_in_a_batch(self):
        lines = [
            {"topic": "t", "id": "a", "expires": "1h", "delay": "1h"},
            {"topic": "t", "id": "b", "expires": "0"},
            {"topic": "t", "id": "c", "at": "2036-01-02", "expires": "2036-01-01"},
            {"topic": "t", "id": "d", "expires": "2h", "delay": "1h"},
        ]
        answer = self.once("publish", "--batch", "-", stdin="".join(json.dumps(line) + "\n" for line in lines))
        self.assertEqual(2, answer.code)
        self.assertEqual(["invalid_input"] * 3 + [None], [line.get("error") for line in answer.lines])
        self.assertEqual(["d"], [entry["id"] for entry in self.ok("log", "--json").lines])

    def test_a_publish_that_is_repeated_after_its_expiry_is_a_duplicate(self):
        self.ok("queue", "add", "q", "--topic", "t")
        first = self.ok("publish", "t", "1", "--id", "a", "--expires", "1h", "--json").line
        again = self.ok("publish", "t", "1", "--id", "a", "--expires", "2020-01-01", "--json").line
        self.assertEqual((True, first["sequence"]), (again["duplicate"], again["sequence"]))
        self.refused(3, "publish", "t", "2", "--id", "a", "--expires", "2020-01-01")


class UntilEmpty(OnceTest):
    def setUp(self):
        super().setUp()
        self.ok("queue", "add", "q", "--topic", "t", "--attempts", "1", "--in-doubt", "hold")

    def test_a_dead_task_is_exit_1(self):
        self.ok("publish", "t", "1", "--id", "a")
        self.ok("publish", "t", "2", "--id", "b")
        answer = self.once("work", "q", "--until-empty", "--", "sh", "-c", 'test "$ONCE_ID" = a')
        self.assertEqual(1, answer.code)
        self.assertIn("1 task ended dead", answer.err)
        self.assertIn("once dead list --queue q", answer.err)
        self.ok("work", "q", "--until-empty", "--", "true")  # those of before do not count

    def test_a_task_in_doubt_is_exit_1(self):
        self.ok("publish", "t", "1", "--id", "a")
        answer = self.once("work", "q", "--until-empty", "--json", "--", "sh", "-c", "exit 74")
        self.assertEqual(1, answer.code)
        self.assertIn("1 task ended in doubt", answer.err)
        self.assertIn("once doubt list --queue q", answer.err)
        self.assertEqual("failed", answer.lines[-1]["error"])

    def test_nothing_dead_is_exit_0(self):
        self.ok("publish", "t", "1", "--id", "a")
        self.ok("work", "q", "--until-empty", "--", "true")


class Metrics(OnceTest):
    def listening(self, *options):
        self.ok("queue", "add", "q", "--topic", "t")
        worker = self.start("work", "q", "--json", *options, "--", "true")
        line = json.loads(worker.stdout.readline())
        return line

    def test_an_address(self):
        line = self.listening("--metrics", "0.0.0.0:0")
        self.assertTrue(line["metrics_address"].startswith("0.0.0.0:"))

        def answers():
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{line['metrics_port']}/metrics", timeout=20).close()
            except urllib.error.HTTPError as error:
                return error.code != 503  # it starts
            return True

        self.until(answers, "its metrics")

    def test_what_is_no_address(self):
        for address in ["9090", ":9090", "host:", "host:x", "1.2.3.4:99999", "", "::1:80x"]:
            with self.subTest(address=address):
                said = self.refused(2, "work", "q", "--metrics", address, "--", "true")
                self.assertIn("--metrics takes HOST:PORT", said)
        self.assertIn("one of", self.refused(2, "work", "q", "--metrics", "0.0.0.0:1", "--metrics-port", "1", "--", "true"))

    def test_an_address_that_is_taken_or_not_ours(self):
        self.ok("queue", "add", "q", "--topic", "t")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            said = self.refused(2, "work", "q", "--metrics", address, "--", "true")
        self.assertIn(address, said)
        self.assertIn("nothing was claimed", said)
        self.assertIn("192.0.2.1:9", self.refused(2, "work", "q", "--metrics", "192.0.2.1:9", "--", "true"))


class Terminal(OnceTest):
    """On a terminal lines fit; what is piped, and JSON, is never cut."""

    def setUp(self):
        super().setUp()
        self.environment["NO_COLOR"] = "1"
        self.ok("queue", "add", "q", "--topic", "t", "--attempts", "1")
        self.id = "order-" + "7" * 30
        self.body = {"text": "x" * 3000}
        self.ok("publish", "t", json.dumps(self.body), "--id", self.id, "--header", "Trace=" + "h" * 2000)
        self.once("work", "q", "-q", "--until-empty", "--", "sh", "-c", "printf 'e%.0s' $(seq 900) >&2; exit 1")

    def widest(self, text):
        return max(len(line) for line in text.splitlines())

    def test_tables_fit_and_ids_are_cut_last(self):
        for arguments in [["list"], ["dead", "list"], ["status"], ["queue", "list"], ["audit"]]:
            for columns in [60, 80, 100, 120]:
                with self.subTest(arguments=arguments, columns=columns):
                    self.assertLessEqual(self.widest(self.terminal(*arguments, columns=columns)), columns)
        shown = self.terminal("list", columns=100)
        self.assertIn(self.id, shown)
        self.assertIn("…", shown)
        self.assertLessEqual(self.widest(self.terminal("list", columns=75)), 75)
        self.assertNotIn(self.id, self.terminal("list", columns=75))
        piped = self.ok("list").out
        self.assertIn("e" * 900, piped)
        self.assertNotIn("…", piped)

    def a_task_in_every_state(self):
        self.ok("queue", "add", "states", "--topic", "s.>", "--key", "{k}", "--in-doubt", "hold", "--backoff", "1h")
        tasks = [("done", 1), ("again", 1), ("dead", 2), ("doubt", 3), ("retry", 4), ("gone", 5), ("run", 6), ("wait", 7)]
        for task, key in tasks:
            self.ok("publish", "s.created", json.dumps({"k": key}), "--id", task)
        self.ok("publish", "s.created", '{"k":8}', "--id", "later", "--delay", "1h")
        self.ok("cancel", "gone")
        program = self.script("program", """case $ONCE_ID in
          dead) exit 65;; doubt) exit 74;; retry) exit 1;; run|wait) exec sleep 1000;; esac
        """)
        self.start("work", "states", "-q", "--", program)
        names = ["scheduled", "waiting", "running", "retrying", "in_doubt", "completed", "dead", "cancelled", "duplicate"]

        def all_there():
            (states,) = [each for each in self.ok("status", "--json").lines if each.get("queue") == "states"]
            return [states[name] for name in names] == [1] * len(names)

        self.until(all_there, "a task in every state")
        return [name.replace("_", " ") for name in names]

    def test_tables_with_every_column_fit_and_no_number_is_cut(self):
        states = self.a_task_in_every_state()
        self.ok("flow", "add", "-", stdin='{"name":"invoice-and-shipment","steps":[{"id":"s","sleep":"1h"}]}')
        self.ok("flow", "start", "invoice-and-shipment", "1")
        for arguments in [
            ["status"], ["audit"], ["queue", "list"], ["flow", "runs"], ["flow", "list"],
            ["list"], ["dead", "list"], ["doubt", "list"],
        ]:  # fmt: skip
            for columns in [60, 80]:
                with self.subTest(arguments=arguments, columns=columns):
                    self.assertLessEqual(self.widest(self.terminal(*arguments, columns=columns)), columns)
        for command in ["status", "audit"]:
            shown = self.terminal(command, columns=80)
            block = next(each for each in shown.split("\n\n") if "states" in each)
            for state in states:
                with self.subTest(command=command, state=state):
                    self.assertRegex(block, rf"(?m)^  {state} +1$")
        wide = self.terminal("status", columns=200)
        self.assertIn("OLDEST WAITING\n", wide)
        self.assertIn("OLDEST WAITING\n", self.ok("status").out, "what is piped is a table")

    def test_titles_are_broken_before_a_table_becomes_blocks(self):
        titles = self.terminal("audit", columns=80).splitlines()[:2]
        self.assertRegex(titles[0], r"\A +STOPPED +BY\Z")
        self.assertRegex(titles[1], r"\APERIOD +QUEUE .* AT APPEND +LEDGER +RE-RUNS +TWICE\Z")

    def test_long_values_are_cut_and_say_so(self):
        shown = self.terminal("inspect", self.id, columns=80)
        self.assertIn(f"… ({len(json.dumps(self.body))} bytes; --json shows all)", shown)
        self.assertIn("… (2000 bytes; --json shows all)", shown)
        self.assertNotIn("x" * 300, shown)
        for whole in [self.ok("inspect", self.id).out, self.terminal("inspect", self.id, "--json")]:
            self.assertIn("x" * 3000, whole)
            self.assertIn("h" * 2000, whole)
            self.assertNotIn("shows all", whole)


class Inspect(OnceTest):
    def test_body_and_headers(self):
        self.ok("publish", "t", '{"a":1}', "--id", "a", "--header", "H=1")
        story = self.ok("inspect", "a", "--json").line
        self.assertEqual(({"a": 1}, {"H": "1"}), (story["body"], story["headers"]))

    def test_a_step_that_failed(self):
        self.ok("queue", "add", "q", "--topic", "t", "--backoff", "1ms", "--attempts", "2")
        self.ok("publish", "t", "--id", "a")
        program = self.script("program", f"{BIN} step write -- echo draft >/dev/null\n{BIN} step push -- sh -c 'exit 3'\n")
        self.drained("work", "q", "-q", "--until-empty", "--", program, exits=1)
        steps = {step["step"]: step for step in self.ok("inspect", "a", "--json").line["queues"][0]["steps"]}
        self.assertEqual(("done", None), (steps["write"]["state"], steps["write"]["error"]))
        push = steps["push"]
        self.assertEqual(("failed", 2, 2, "exit 3"), tuple(push[n] for n in ("state", "runs", "failed_attempt", "error")))
        self.assertIn("failed in attempt 2: exit 3", self.ok("inspect", "a").out)

    def test_a_step_that_failed_and_then_succeeded_keeps_the_trace(self):
        self.ok("queue", "add", "q", "--topic", "t", "--backoff", "1ms")
        self.ok("publish", "t", "--id", "a")
        program = self.script("program", f"exec {BIN} step push -- sh -c 'test $ONCE_ATTEMPT = 2'\n")
        self.ok("work", "q", "-q", "--until-empty", "--", program)
        (push,) = self.ok("inspect", "a", "--json").line["queues"][0]["steps"]
        self.assertEqual(("done", 2, 1, "exit 1"), tuple(push[n] for n in ("state", "runs", "failed_attempt", "error")))


class Quiet(OnceTest):
    def test_what_makes_something_prints_its_id(self):
        self.assertEqual("a\n", self.ok("-q", "publish", "t", "1", "--id", "a").out)
        self.assertEqual("a\n", self.ok("-q", "publish", "t", "1", "--id", "a").out)
        content = self.ok("publish", "t", "2", "-q").out
        self.assertRegex(content, r"\Asha256:[0-9a-f]{64}\n\Z")
        self.ok("inspect", content.strip())
        self.ok("flow", "add", "-", stdin='{"name":"w","steps":[{"id":"s","sleep":"1h"}]}')
        run = self.ok("-q", "flow", "start", "w", "1").out
        self.assertRegex(run, r"\A\S+\n\Z")

    def test_what_changes_something_prints_nothing(self):
        definition = '{"name":"w","steps":[{"id":"s","approval":"ok?"},{"id":"g","signal":"go"}]}'
        for arguments in [
            ["queue", "add", "q", "--topic", "t"], ["queue", "add", "q", "--topic", "t"],
            ["queue", "set", "q", "--lease", "1m"], ["queue", "pause", "q"], ["queue", "resume", "q"],
            ["queue", "add", "l", "--ledger"], ["retention", "--bodies", "3d"], ["retention", "--run"],
            ["flow", "add", "-"], ["flow", "add", "--check", "-"],
        ]:  # fmt: skip
            with self.subTest(arguments=arguments):
                answer = self.ok("-q", *arguments, stdin=definition)
                self.assertEqual(("", ""), (answer.out, answer.err))
        token = self.ok("-q", "claim", "l", "k").out.strip()
        run = self.ok("-q", "flow", "start", "w").out.strip()
        for task in ["a", "b"]:
            self.ok("publish", "t", "--id", task)
        for arguments in [
            ["renew", "l", "k", "--token", token], ["complete", "l", "k", "--token", token],
            ["cancel", "a"], ["flow", "approve", run, "s"], ["flow", "signal", run, "go", "--id", "i"],
            ["flow", "cancel", run], ["queue", "remove", "q", "--force"],
        ]:  # fmt: skip
            with self.subTest(arguments=arguments):
                answer = self.ok("-q", *arguments)
                self.assertEqual(("", ""), (answer.out, answer.err))

    def test_lists_print_ids(self):
        self.ok("queue", "add", "q", "--topic", "t", "--attempts", "1")
        self.assertEqual("q\n", self.ok("-q", "queue", "list").out)
        self.ok("publish", "t", "1", "--id", "a")
        self.ok("publish", "t", "2", "--id", "b c")
        self.assertEqual("a\nb c\n", self.ok("list", "-q").out)
        self.assertEqual("a\nb c\n", self.ok("log", "-q").out)
        self.once("work", "q", "-q", "--until-empty", "--", "false")
        self.assertEqual("a\nb c\n", self.ok("dead", "list", "-q").out)
        self.ok("flow", "add", "-", stdin='{"name":"w","steps":[{"id":"s","sleep":"1h"}]}')
        run = self.ok("-q", "flow", "start", "w", "1").out
        self.assertEqual("w@1\n", self.ok("-q", "flow", "list").out)
        self.assertEqual(run, self.ok("-q", "flow", "runs").out)

    def test_quiet_does_not_change_json(self):
        self.assertEqual(1, self.ok("publish", "t", "1", "-q", "--json").line["sequence"])
        self.assertEqual("q", self.ok("queue", "add", "q", "--topic", "t", "-q", "--json").line["queue"])


if __name__ == "__main__":
    unittest.main()
