#!/usr/bin/env -S python3 -B
"""Help, mistakes, exit statuses, and what becomes of output that nobody takes."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from once_command import BIN, NATS, OnceTest  # noqa: E402

COMMANDS = [
    [], ["publish"], ["queue"], ["queue", "add"], ["queue", "list"], ["queue", "show"],
    ["queue", "set"], ["queue", "pause"], ["queue", "resume"], ["queue", "remove"], ["apply"], ["work"],
    ["step"], ["status"], ["list"], ["inspect"], ["log"], ["wait"], ["cancel"], ["dead"],
    ["dead", "list"], ["dead", "show"], ["dead", "retry"], ["dead", "drop"], ["doubt"],
    ["doubt", "list"], ["doubt", "show"], ["doubt", "complete"], ["doubt", "retry"],
    ["doubt", "drop"], ["claim"], ["renew"], ["complete"], ["fail"],
    ["flow"], ["flow", "add"], ["flow", "list"], ["flow", "export"], ["flow", "start"], ["flow", "wait"], ["flow", "work"], ["flow", "signal"],
    ["flow", "approve"], ["flow", "cancel"], ["flow", "retry"], ["flow", "runs"], ["flow", "show"],
    ["flow", "events"], ["flow", "graph"],
    ["canonical"], ["retention"], ["audit"], ["metrics"], ["doctor"], ["serve"], ["token"], ["token", "add"], ["token", "list"],
    ["token", "remove"], ["bench"], ["demo"], ["version"], ["completion"], ["help"],
]  # fmt: skip


class Help(OnceTest):
    def test_every_command_has_help_with_an_example(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                answer = self.ok(*command, "--help")
                self.assertRegex(answer.out, r"\nExample[^\n]*:\n  ")
                self.assertEqual(answer.out, self.ok(*command, "-h").out)
                self.golden("-".join(["help", *command]) + ".txt", answer.out)

    def test_version(self):
        self.assertRegex(self.ok("version").out, r"\Aonce \d+\.\d+\.\d+\n\Z")
        self.assertEqual(self.ok("--version").out, self.ok("version").out)
        self.assertEqual(["version"], list(self.ok("version", "--json").line))


class Mistakes(OnceTest):
    def test_did_you_mean(self):
        self.assertIn("did you mean publish?", self.refused(2, "pubish"))
        self.assertIn("did you mean remove?", self.refused(2, "queue", "remvoe"))
        self.assertIn("did you mean --header?", self.refused(2, "publish", "t", "--haeder", "a=b"))
        self.assertIn("did you mean --topic?", self.refused(2, "queue", "add", "q", "--tpoic=t"))
        self.assertNotIn("did you mean", self.refused(2, "zzzzzzzz"))

    def test_usage_is_exit_2(self):
        for arguments in [
            ["--json", "-q"], ["queue"], ["queue", "add"], ["queue", "add", "q"], ["publish"],
            ["publish", "t", "1", "2"], ["publish", "t", "--id"], ["inspect"], ["inspect", "a", "b"],
            ["list", "--limit", "0"], ["list", "--limit", "-1"], ["list", "--limit", "x"],
            ["list", "--state", "done"], ["list", "--since", "yesterday"], ["log", "--after", "x"],
            ["wait", "a", "--timeout", "5"], ["completion", "tcsh"], ["status", "--store", ""],
            ["work", "q"], ["work", "q", "--"], ["work", "--", "true"], ["retention", "--ids", "7"],
            ["work", "q", "--probe", "", "--", "true"], ["dead"], ["dead", "retry"], ["dead", "show"],
            ["dead", "show", "a", "b"], ["dead", "retry", "a", "--all"], ["dead", "drop", "a", "--topic", "t"],
            ["dead", "retry", "--since", "x", "--yes"], ["dead", "list", "--older-than", "x"],
            ["dead", "retry", "a", "--step", "s"], ["doubt"], ["doubt", "complete"], ["doubt", "drop", "--limit", "0"],
            ["doubt", "complete", "a", "--result", "{"], ["doubt", "complete", "a", "--result", "@missing"],
            ["cancel"], ["cancel", "--state", "dead"], ["cancel", "a", "--state", "waiting"],
            ["claim", "q"], ["claim", "q", "k", "--lease", "0"], ["renew", "q", "k"],
            ["renew", "q", "k", "--token", "0"], ["renew", "q", "k", "--token", "x"],
            ["complete", "q", "k"], ["complete", "q", "k", "--token", "1", "--result", "{"],
            ["fail", "q", "k"], ["fail", "q", "k", "--token", "1", "--dead", "--retry-in", "1s"],
            ["queue", "pause"], ["queue", "resume"], ["queue", "set", "q"], ["queue", "set"],
            ["publish", "t", "--delay", "1"], ["publish", "t", "--delay", "-1s"],
            ["publish", "t", "--at", "1h"], ["publish", "t", "--delay", "1s", "--at", "2024-05-01"],
            ["publish", "t", "--expires", "soon"], ["publish", "t", "1", "--wait", "1s"],
            ["publish", "t", "--wait=x"], ["publish", "t", "--wait="], ["publish", "--batch", "-", "--wait"],
            ["publish", "--batch", "-", "--delay", "1s"], ["flow"], ["flow", "add"], ["flow", "add", "missing.json"],
            ["flow", "start"], ["flow", "start", "w", "{"], ["flow", "start", "w@x"], ["flow", "start", "w", "--wait=x"],
            ["flow", "work", "q"], ["flow", "work", "--concurrency", "0"], ["flow", "signal", "r"],
            ["flow", "signal", "r", "n"], ["flow", "approve", "r"], ["flow", "cancel"], ["flow", "retry"], ["flow", "runs", "--state", "dead"],
            ["flow", "show"], ["flow", "show", "r", "--at", "x"], ["flow", "show", "r", "--at", "1", "--watch"],
            ["flow", "events"], ["flow", "graph"], ["flow", "export"], ["flow", "export", "w@x"],
            ["flow", "wait"], ["flow", "wait", "r", "--timeout", "5"], ["flow", "add", "--check"],
            ["serve", "x"], ["serve", "--listen"], ["serve", "--listen", "0.0.0.0:1"], ["serve", "--socket", ""],
            ["serve", "--tls-cert", "a.pem"], ["serve", "--tls-key", "a.key"], ["serve", "--listen", "[::]:0"],
            ["serve", "--tls-cert", "missing.pem", "--tls-key", "missing.key"],
            ["serve", "--socket", "s", "--tls-cert", "a.pem", "--tls-key", "a.key"],
            ["token"], ["token", "add"], ["token", "add", "t"], ["token", "add", "t", "--role", "x"],
            ["token", "add", "t", "--role", "read", "--topic", "a..b"], ["token", "add", "", "--role", "read"],
            ["token", "add", "t", "--role", "read", "--expires", "2020-01-01"], ["token", "remove"], ["token", "list", "x"],
        ]:  # fmt: skip
            with self.subTest(arguments=arguments):
                self.assertTrue(self.once(*arguments).err.startswith("once: "))
                self.assertEqual(2, self.once(*arguments).code)
        self.assertEqual([], list(self.folder.iterdir()), "a mistake leaves nothing behind")

    def test_a_mistake_is_an_object_with_json(self):
        answer = self.once("lsit", "--json")
        self.assertEqual(2, answer.code)
        self.assertEqual(["error", "message", "retryable", "in_doubt"], list(answer.line))
        self.assertEqual("invalid_input", answer.line["error"])
        self.assertEqual("once: " + answer.line["message"] + "\n", answer.err)

    def test_an_option_twice_or_without_its_value(self):
        self.assertIn("--id is given 2 times", self.refused(2, "publish", "t", "--id", "a", "--id", "b"))
        self.assertIn("--limit is given 3 times", self.refused(2, "list", *["--limit", "1"] * 3))
        self.assertIn("--id needs a value", self.refused(2, "publish", "t", "--id"))

    def test_what_an_id_cannot_be_made_from(self):
        for template, reason in [
            ("{b}", "there is nothing at b"), ("{b", "no }"), ("b", "write {b}"), ("{a}", "an array"),
        ]:  # fmt: skip
            with self.subTest(template=template):
                message = self.refused(2, "publish", "t", '{"a":[]}', "--id-from", template)
                self.assertIn("--id-from gives no id", message)
                self.assertIn(reason, message)
                self.assertNotIn("key", message)

    def test_a_program_without_dashes(self):
        for program in [["true"], ["ls", "-l"]]:
            self.assertIn(f"-- {program[0]}", self.refused(2, "work", "q", *program))


class Stores(OnceTest):
    def test_reading_never_makes_a_database(self):
        self.leave_zone()
        for arguments in [
            ["status"], ["list"], ["inspect", "a"], ["log"], ["wait", "a"], ["queue", "list"],
            ["queue", "show", "q"], ["queue", "remove", "q"], ["retention"], ["retention", "--run"], ["doctor"],
            ["work", "q", "--", "true"], ["dead", "list"], ["doubt", "list"], ["dead", "show", "a"],
            ["dead", "retry", "a"], ["doubt", "complete", "a"], ["doubt", "drop", "--all", "--yes"],
            ["cancel", "a"], ["claim", "q", "k"], ["renew", "q", "k", "--token", "1"],
            ["complete", "q", "k", "--token", "1"], ["fail", "q", "k", "--token", "1"],
            ["queue", "set", "q", "--lease", "1m"], ["queue", "pause", "q"], ["queue", "resume", "q"],
            ["flow", "list"], ["flow", "start", "w"], ["flow", "work", "--until-empty"], ["flow", "signal", "r", "n", "--id", "i"],
            ["flow", "approve", "r", "s"], ["flow", "cancel", "r"], ["flow", "retry", "r"], ["flow", "runs"],
            ["flow", "show", "r"], ["flow", "events", "r"], ["flow", "graph", "w"],
            ["flow", "export", "w"], ["flow", "wait", "r"], ["token", "list"], ["token", "remove", "t"],
        ]:  # fmt: skip
            with self.subTest(arguments=arguments):
                self.assertIn("NATS" if NATS else "once.db", self.refused(5, *arguments))
        answer = self.once("inspect", "a", "--json")
        self.assertEqual("store_unavailable", answer.line["error"])
        self.assertEqual([], list(self.folder.iterdir()))

    @unittest.skipIf(NATS, "about files")
    def test_which_store(self):
        self.ok("publish", "t", "--id", "default")
        self.ok("publish", "t", "--id", "env", ONCE_STORE="env.db")
        self.ok("publish", "t", "--id", "option", "--store", "sqlite:option.db", ONCE_STORE="env.db")
        self.ok("inspect", "default", ONCE_STORE="")
        self.ok("inspect", "default", "--store=once.db")
        self.ok("inspect", "env", "--store", "env.db")
        self.ok("inspect", "option", ONCE_STORE="option.db")

    def test_global_options_go_anywhere(self):
        for arguments in [
            ["--store", "a.db", "--json", "publish", "t", "1"],
            ["publish", "--json", "--store", "a.db", "t", "1"],
            ["publish", "t", "--store=a.db", "1", "--json", "-q"],
        ]:
            self.assertEqual(1, self.ok(*arguments).line["sequence"])
        queue = ["--store", "a.db", "--json"]
        self.assertEqual(1, self.ok("queue", *queue, "add", "q", "--topic", "t").line["found"])
        self.assertEqual(0, self.ok("queue", "add", *queue, "--topic", "t", "q").line["found"])
        self.assertIn("goes after once queue add", self.refused(2, "queue", "--topic", "t", "add", "q"))

    def test_words_that_are_commands_elsewhere(self):
        self.ok("publish", "status", "--id", "queue")
        self.ok("queue", "add", "list", "--topic", "status")
        self.ok("inspect", "queue")
        self.ok("queue", "show", "list")
        self.ok("log", "status")
        self.refused(6, "dead", "retry", "list")
        self.refused(6, "cancel", "dead")

    def test_stores_that_cannot_be_used(self):
        self.assertIn("NATS", self.refused(2, "status", "--store", "nats:localhost:4222"))
        (self.folder / "text.db").write_text("this is not a database, it is a text\n" * 100)
        self.refused(5, "status", "--store", "text.db")
        self.refused(5, "publish", "t", "--store", "text.db")
        self.refused(5, "publish", "t", "--store", "no/such/folder/once.db")


class Output(OnceTest):
    def test_a_full_disk_is_exit_1(self):
        with open("/dev/full", "wb") as full:
            process = self.start("publish", "t", "--id", "a", stdout=full)
            _, err = process.communicate(timeout=60)
        self.assertEqual(1, process.returncode)
        self.assertIn(b"once: cannot write to standard output: No space left on device", err)
        self.ok("inspect", "a")

    def test_closed_descriptors_do_not_reach_the_database(self):
        for redirect in [">&-", "<&-", "2>&-", "<&- >&- 2>&-"]:
            with self.subTest(redirect=redirect):
                subprocess.run(
                    ["/bin/sh", "-c", f'"$0" publish t "\\"{redirect}\\"" {redirect}', BIN],
                    cwd=self.folder, env=self.environment, timeout=60, check=False,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                )  # fmt: skip
        self.assertEqual(4, len(self.ok("log", "--json").lines))

    def test_a_reader_that_left_is_no_failure(self):
        self.ok("publish", "--batch", "-", stdin='{"topic":"t"}\n')
        read, write = os.pipe()
        os.close(read)
        process = self.start("log", stdout=write)
        os.close(write)
        _, err = process.communicate(timeout=60)
        self.assertEqual((0, b""), (process.returncode, err))

    def test_colour_on_a_terminal_only(self):
        self.ok("queue", "add", "q", "--topic", "t")
        self.ok("publish", "t")
        self.assertIn("\x1b[", self.terminal("status", TERM="xterm"))
        self.assertNotIn("\x1b[", self.terminal("status", TERM="xterm", NO_COLOR="1"))
        self.assertNotIn("\x1b[", self.terminal("status", TERM="dumb"))
        self.assertNotIn("\x1b[", self.terminal("status", "--json", TERM="xterm"))
        self.assertNotIn("\x1b[", self.ok("status", TERM="xterm").out)

    def test_a_task_cannot_move_the_cursor(self):
        self.ok("queue", "add", "q", "--topic", "t", "--attempts", "1")
        self.ok("publish", "t", "--id", "a")
        program = self.script("shout", "printf '\\033[2Jgone\\n' >&2; exit 65")
        self.drained("work", "q", "-q", "--until-empty", "--", program, exits=1)
        for arguments in [["inspect", "a"], ["list"], ["log"]]:
            out = self.ok(*arguments).out
            self.assertNotIn("\x1b", out)
        self.assertIn("\\x1b[2Jgone", self.ok("inspect", "a").out)


class Completion(OnceTest):
    def complete(self, *words):
        self.folder.joinpath("once.bash").write_text(self.ok("completion", "bash").out)
        script = (
            "source ./once.bash; COMP_WORDS=(once \"$@\"); COMP_CWORD=$#; _once; "
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(
            ["bash", "-c", script, "bash", *words],
            cwd=self.folder, capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        return done.stdout.split()

    def test_bash(self):
        self.assertEqual(["publish"], self.complete("pu"))
        self.assertEqual(["add"], self.complete("queue", "a"))
        self.assertEqual(["--topic"], self.complete("queue", "add", "q", "--to"))
        self.assertEqual(["--timeout"], self.complete("queue", "add", "q", "--ti"))
        self.assertEqual(["--nats-password"], self.complete("log", "--nats-p"))
        self.assertEqual(["--store"], self.complete("--json", "log", "--st"))
        self.assertEqual(["fish"], self.complete("completion", "f"))
        self.assertEqual(["dead"], self.complete("dea"))
        self.assertEqual(["complete"], self.complete("doubt", "c"))
        self.assertEqual(["--dry-run"], self.complete("dead", "retry", "--dr"))
        self.assertEqual(["--token"], self.complete("renew", "q", "k", "--to"))
        self.assertEqual(["start"], self.complete("flow", "st"))
        self.assertEqual(["wait"], self.complete("flow", "wa"))
        self.assertEqual(["export"], self.complete("flow", "ex"))
        self.assertEqual(["--check"], self.complete("flow", "add", "--ch"))
        self.assertEqual(["--timeout"], self.complete("flow", "wait", "r", "--ti"))
        self.assertEqual(["--until-empty"], self.complete("flow", "work", "--un"))
        self.assertEqual(["--timeout"], self.complete("queue", "set", "q", "--ti"))
        self.assertIn("true", self.complete("work", "q", "--", "tru"))

    def test_other_shells(self):
        self.assertTrue(self.ok("completion", "zsh").out.startswith("#compdef once\n"))
        self.assertIn("complete -c once", self.ok("completion", "fish").out)
        for shell in ["zsh", "fish"]:
            out = self.ok("completion", shell).out
            for word in ["doubt", "claim", "older-than", "dry-run", "pause", "export", "check"]:
                self.assertIn(word, out)


if __name__ == "__main__":
    unittest.main()
