#!/usr/bin/env -S python3 -B
"""once token: the tokens of a zone, for once serve."""

import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from once_command import NATS, OnceTest  # noqa: E402

SECRET = r"once_[A-Za-z0-9_-]{43}"


class Tokens(OnceTest):
    def names(self):
        return self.ok("token", "list", "-q").out.split()

    def test_add_prints_the_token_once(self):
        added = self.ok("token", "add", "shop", "--role", "publish", "--topic", "orders.>", "--expires", "90d")
        self.assertRegex(added.out, rf"\A{SECRET}\n\Z")
        self.assertIn("nobody can show it again", added.err)
        quiet = self.ok("token", "add", "ada", "--role", "operate", "-q")
        self.assertRegex(quiet.out, rf"\A{SECRET}\n\Z")
        self.assertEqual("", quiet.err)
        for listed in [self.ok("token", "list"), self.ok("token", "list", "--json")]:
            self.assertNotIn(added.out.strip(), listed.out)
            self.assertNotIn("once_", listed.out)
        self.assertEqual(["ada", "shop"], self.names())

    @unittest.skipIf(NATS, "about the file")
    def test_the_store_has_only_a_hash(self):
        secret = self.ok("token", "add", "shop", "--role", "read").out.strip()
        files = b"".join(file.read_bytes() for file in self.folder.glob("once.db*"))
        self.assertIn(b"shop", files)
        self.assertNotIn(secret.encode(), files)
        self.assertNotIn(secret[5:].encode(), files)

    def test_json(self):
        added = self.ok("token", "add", "t", "--role", "work", "--role", "publish", "--role", "work",
                        "--topic", "a.>", "--topic", "b", "--queue", "q-*", "--expires", "1h", "--json").line  # fmt: skip
        self.assertRegex(added.pop("token"), rf"\A{SECRET}\Z")
        listed = self.ok("token", "list", "--json").line
        self.assertEqual({"name": "t", "roles": ["publish", "work"], "topics": ["a.>", "b"], "queues": ["q-*"],
                          "created": added["created"], "expires": added["expires"], "expired": False}, listed)  # fmt: skip
        self.assertLess(listed["created"], listed["expires"])
        self.assertEqual({"name": "t", "removed": True}, self.ok("token", "remove", "t", "--json").line)
        self.assertEqual([], self.ok("token", "list", "--json").lines)

    def test_list_for_people(self):
        self.ok("queue", "add", "q", "--topic", "t")
        self.assertIn("no tokens yet", self.ok("token", "list").err)
        self.ok("token", "add", "shop", "--role", "publish", "--topic", "orders.>")
        self.ok("token", "add", "ada", "--role", "operate", "--role", "read", "--expires", "2999-01-01")
        lines = self.ok("token", "list").out.splitlines()
        self.assertEqual(["TOKEN", "ROLES", "TOPICS", "QUEUES", "CREATED", "EXPIRES"], lines[0].split())
        self.assertRegex(lines[1], r"\Aada +read operate +all +all +\S+Z +2999-01-01T00:00:00.000Z\Z")
        self.assertRegex(lines[2], r"\Ashop +publish +orders\.> +none +\S+Z +never\Z")

    def test_names_are_unique(self):
        first = self.ok("token", "add", "shop", "--role", "read").out
        self.assertIn("has a token 'shop' already; nothing was added",
                      self.refused(1, "token", "add", "shop", "--role", "operate"))  # fmt: skip
        self.assertEqual(["read"], self.ok("token", "list", "--json").line["roles"])
        removed = self.ok("token", "remove", "shop")
        self.assertIn("within a second", removed.out)
        self.assertIn("no tokens now", removed.err)
        self.assertNotEqual(first, self.ok("token", "add", "shop", "--role", "read").out)
        self.ok("token", "add", "other", "--role", "read")
        self.assertEqual("", self.ok("token", "remove", "other").err)

    def test_bad_input_adds_nothing(self):
        self.ok("queue", "add", "q", "--topic", "t")
        for arguments, said in [
            (["t"], "token add needs --role"),
            (["t", "--role", "admin"], 'publish, work, read, operate, forward, not "admin"'),
            (["t", "--role", ""], 'not ""'),
            (["", "--role", "read"], "token name ''"),
            (["a b", "--role", "read"], "1 to 64 of A-Z a-z 0-9 _ -"),
            (["x" * 65, "--role", "read"], "1 to 64"),
            (["t", "--role", "read", "--topic", "a..b"], "a..b"),
            (["t", "--role", "read", "--topic", ""], "filter"),
            (["t", "--role", "read", "--topic", "$once.>"], "belong to Once itself"),
            (["t", "--role", "read", "--queue", "a.b"], "the queue filter 'a.b'"),
            (["t", "--role", "read", "--queue", ""], "the queue filter ''"),
            (["t", "--role", "read", "--expires", "2020-01-01"], "expire in the past"),
            (["t", "--role", "read", "--expires", "soon"], "--expires"),
            (["t", "--role", "publish", "--queue", "q"], "role publish needs topics"),
            (["t", "--role", "work", "--topic", "t"], "role work needs queues"),
            (["t", "u", "--role", "read"], "u"),
        ]:
            with self.subTest(arguments=arguments):
                self.assertIn(said, self.refused(2, "token", "add", *arguments))
        self.assertEqual([], self.names())

    def test_removing_what_is_not_there(self):
        self.ok("token", "add", "t", "--role", "read")
        for name in ["u", "T", "once_abc"]:
            self.assertIn("nothing was removed", self.refused(6, "token", "remove", name))
        self.assertEqual(["t"], self.names())

    def test_an_expired_token_is_listed(self):
        self.ok("token", "add", "t", "--role", "read", "--expires", "1ms")
        self.until(lambda: self.ok("token", "list", "--json").line["expired"], "the token expires")
        self.assertIn("(expired)", self.ok("token", "list").out)
        self.ok("token", "remove", "t")

    def test_many_tokens(self):
        for n in range(12):
            self.ok("token", "add", f"t{n:02}", "--role", "read", "-q")
        self.assertEqual([f"t{n:02}" for n in range(12)], self.names())
        self.assertEqual(12, len(set(re.findall(r"t\d\d", self.ok("token", "list").out))))


if __name__ == "__main__":
    unittest.main()
