#!/usr/bin/env -S python3 -B
"""What the command adds to the errors and findings of the library: which command to type."""

import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from once_command import OnceTest  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
GROUPS = ("queue", "flow", "dead", "doubt", "token")


def texts(source):
    """The string literals of a source; those that stand side by side are one."""
    code = re.sub(r'"\s*\n\s*"', "", (ROOT / source).read_text())
    return re.findall(r'"((?:\\.|[^"\\\n])*)"', code)


class Table(OnceTest):
    def test_every_reason_has_its_advice(self):
        header = (ROOT / "include/once/result.h").read_text()
        reasons = re.findall(r"^  (\w+),", re.search(r"enum class Reason \{(.*?)\};", header, re.DOTALL)[1], re.MULTILINE)
        self.assertGreater(len(reasons), 20)
        self.assertEqual("none", reasons.pop(0))
        advised = set(re.findall(r"Reason::(\w+)", (ROOT / "cli/app/advice.cpp").read_text()))
        self.assertEqual(set(reasons), advised)
        names = re.findall(r'case Reason::(\w+): return "(\w+)";', (ROOT / "src/core/facts.cpp").read_text())
        self.assertEqual({(name, name) for name in ["none", *reasons]}, set(names))
        page = (ROOT / "docs/json.md").read_text()
        documented = re.search(r"`reason` is one of (.*?)\.", page, re.DOTALL)[1]
        self.assertEqual(set(reasons), set(re.findall(r"`(\w+)`", documented)))

    def test_the_commands_and_options_that_it_names_exist(self):
        """Advice that names a command which is not there is worse than none."""
        named = set()
        for text in texts("cli/app/advice.cpp") + texts("src/shapes/fixes.cpp"):
            for command in re.findall(r"\bonce ([a-z][^',;:()]*)", text):
                words = command.split()
                depth = 2 if words[0] in GROUPS and len(words) > 1 and words[1].islower() else 1
                named.add((*words[:depth], *(word for word in words[depth:] if word.startswith("--"))))
        self.assertGreater(len(named), 30)
        for command in named:
            with self.subTest(command=command):
                help_text = self.ok(*(word for word in command if word[0] != "-"), "--help").out
                for option in (word.split("=")[0].rstrip(".") for word in command if word[0] == "-"):
                    self.assertRegex(help_text, rf"{option}\b")


class Advice(OnceTest):
    def test_a_missing_queue(self):
        self.ok("queue", "add", "q", "--topic", "t")
        said = self.refused(6, "work", "r", "--", "true")
        self.assertIn("there is no queue 'r'", said)
        self.assertIn("'once queue add r --topic FILTER'", said)
        for command in (["audit", "--queue", "r"], ["doctor", "--queue", "r"]):
            self.assertIn("'once queue list'", self.refused(6, *command))

    def test_the_message_in_json_has_it_too_with_the_reason_and_the_facts(self):
        self.ok("queue", "add", "q", "--topic", "t")
        self.ok("publish", "t")
        answer = self.once("queue", "remove", "q", "--json")
        self.assertEqual(2, answer.code)
        self.assertEqual("invalid_input", answer.line["error"])
        self.assertEqual("queue_not_empty", answer.line["reason"])
        self.assertEqual({"queue": "q", "tasks": "1"}, answer.line["facts"])
        self.assertIn("'once queue remove q --force'", answer.line["message"])
        self.assertIn(answer.line["message"], answer.err)

    def test_a_queue_of_another_kind(self):
        self.ok("queue", "add", "q", "--topic", "t")
        self.ok("queue", "add", "l", "--ledger")
        self.assertIn("'once claim l KEY'", self.refused(2, "work", "l", "--", "true"))
        self.assertIn("'once queue add NAME --ledger'", self.refused(2, "claim", "q", "k"))

    def test_workflows(self):
        self.ok("queue", "add", "q", "--topic", "t")
        self.assertIn("'once flow add FILE'", self.refused(6, "flow", "start", "w", "{}"))
        self.assertIn("'once flow runs'", self.refused(6, "flow", "show", "w-1"))
        (self.folder / "w.json").write_text('{"name":"w","steps":[{"id":"a","task":"u","queue":"later"}]}')
        added = self.ok("flow", "add", "w.json")
        self.assertIn("'once queue add later --topic u'", added.err)
        self.assertIn("once flow work", self.refused(2, "work", "once-flow", "--", "true"))

    def test_a_login_in_the_address(self):
        said = self.refused(2, "status", "--store", "nats://ada:secret@localhost/z")
        for option in ("--nats-user", "--nats-password", "--nats-token", "--creds", "--nkey"):
            self.assertIn(option, said)
        self.assertNotIn("secret", said)


if __name__ == "__main__":
    unittest.main()
