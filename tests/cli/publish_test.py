#!/usr/bin/env -S python3 -B
"""once publish, one task at a time."""

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from once_command import OnceTest  # noqa: E402


class Bodies(OnceTest):
    def body_of(self, *arguments, **options):
        sequence = self.ok("publish", "t", *arguments, "--unique", "--json", **options).line["sequence"]
        return self.ok("log", "--json", "--after", str(sequence - 1), "--limit", "1").line

    def test_json_text(self):
        for text, value in [
            ("{}", {}), ("[]", []), ("[1,2]", [1, 2]), ("-5", -5), ('"x"', "x"), ("null", None),
            (' {"a" : [ 1 ] }\n', {"a": [1]}), ('{"a":"\\u00e9"}', {"a": "é"}),
        ]:  # fmt: skip
            with self.subTest(text=text):
                self.assertEqual(value, self.body_of(text)["body"])

    def test_none_is_null(self):
        entry = self.body_of()
        self.assertIn("body", entry)
        self.assertIsNone(entry["body"])

    def test_files_and_standard_input(self):
        self.folder.joinpath("body.json").write_text('{"from":"file"}\n')
        self.assertEqual({"from": "file"}, self.body_of("@body.json")["body"])
        self.assertEqual({"from": "stdin"}, self.body_of("-", stdin='{"from":\n"stdin"}')["body"])
        self.assertIn("no.json", self.refused(2, "publish", "t", "@no.json"))
        self.refused(2, "publish", "t", "@.")

    def test_raw(self):
        for arguments, text in [(["hello"], "hello"), ([""], ""), ([], ""), (["zwei\nZeilen ü"], "zwei\nZeilen ü")]:
            entry = self.body_of(*arguments, "--raw")
            self.assertEqual((text, True), (entry["body"], entry["text"]))
            self.assertNotIn("raw", entry)
        self.assertEqual("AP8=", self.body_of("-", "--raw", stdin=b"\x00\xff")["raw"])
        self.assertNotIn("text", self.body_of('"hello"'))

    def test_what_log_prints_can_be_published_again(self):
        bodies = [["hello", "--raw"], ['"hello"'], ["-", "--raw"], ['{"a":1}']]
        for number, body in enumerate(bodies):
            self.ok("publish", "t", *body, "--id", f"n{number}", stdin=b"\x00\xff")
        lines = [{name: entry[name] for name in ("id", "topic", "body", "text", "raw", "headers") if name in entry}
                 for entry in self.ok("log", "--json").lines]  # fmt: skip
        again = self.ok("publish", "--batch", "-", stdin="".join(json.dumps(line) + "\n" for line in lines))
        self.assertEqual([True] * 4, [line["duplicate"] for line in again.lines])
        for wrong in ['"text":true', '"body":1,"text":true', '"body":"a","text":1', '"raw":"","text":true']:
            self.assertEqual(2, self.once("publish", "--batch", "-", stdin='{"topic":"t",%s}' % wrong).code, wrong)

    def test_not_json_is_exit_2(self):
        for text in ["", "{", "hello", "{\"a\":1,\"a\":2}", "9007199254740993", "1e999", "\"\\ud800\"", "1 2"]:
            with self.subTest(text=text):
                message = self.refused(2, "publish", "t", text)
                self.assertIn("nothing was published", message)
                self.assertIn("--raw", message)
        self.refused(2, "publish", "t", "-", stdin=b"")
        self.refused(2, "publish", "t", "-", stdin=b'"\xff"')

    def test_too_large_is_exit_2(self):
        self.refused(2, "publish", "t", "-", "--raw", stdin=b"x" * ((1 << 20) + 1))
        self.ok("publish", "t", "-", "--raw", "-q", stdin=b"x" * (1 << 20))


class Ids(OnceTest):
    def test_names_of_the_answer(self):
        answer = self.ok("publish", "t", "1", "--id", "a", "--json").line
        self.assertEqual(["id", "sequence", "duplicate", "digest"], list(answer))
        self.assertEqual(("a", 1, False), (answer["id"], answer["sequence"], answer["duplicate"]))
        self.assertRegex(answer["digest"], r"\Asha256:[0-9a-f]{64}\Z")

    def test_duplicate_is_success(self):
        first = self.ok("publish", "t", '{"a":1,"b":2}', "--id", "a", "--json").line
        again = self.ok("publish", "t", '{"b":2.0, "a":1}', "--id", "a", "--json").line
        self.assertEqual({**first, "duplicate": True}, again)
        self.assertIn("duplicate of #1", self.ok("publish", "t", '{"a":1,"b":2}', "--id", "a").out)

    def test_id_from_content(self):
        self.ok("publish", "t", "17")
        self.assertEqual(
            "same content as #1; --unique runs it again\n", self.ok("publish", "t", "17.0").out
        )
        self.assertIn("as #2", self.ok("publish", "t", "18").out)

    def test_unique(self):
        first, second = (self.ok("publish", "t", "1", "--unique", "--json").line for _ in range(2))
        self.assertFalse(second["duplicate"])
        self.assertNotEqual(first["id"], second["id"])
        self.assertRegex(first["id"], r"\A[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")

    def test_id_from_template(self):
        body = '{"order":{"id":"a b"},"n":1}'
        answer = self.ok("publish", "t", body, "--id-from", "{order.id}:{$topic}:{n}", "--json").line
        self.assertEqual("a%20b:t:=1", answer["id"])
        self.assertIn("missing", self.refused(2, "publish", "t", body, "--id-from", "{missing}"))
        self.assertEqual("h", self.ok("publish", "t", "--header", "N=h", "--id-from", "header:N", "--json").line["id"])

    def test_ids_that_are_refused(self):
        for given in ["", "a\nb", "x" * 1025]:
            self.refused(2, "publish", "t", "--id", given)
        self.refused(2, "publish", "t", "--id=", "1")
        self.refused(2, "publish", "t", "--id", "a", "--unique")
        self.refused(2, "publish", "t", "--id-from", "{a}", "--unique")
        self.ok("publish", "t", "--id", "x" * 1024)
        self.ok("publish", "t", "--id", "-dash")
        self.ok("publish", "t", "--id=[a,b]")
        self.ok("inspect", "[a,b]")

    def test_conflict(self):
        first = self.ok("publish", "t", '{"amount":5,"to":"x"}', "--id", "a", "--json").line
        answer = self.once("publish", "t", '{"amount":6,"to":"x"}', "--id", "a", "--json")
        self.assertEqual(3, answer.code)
        conflict = answer.line
        self.assertEqual("conflicting_duplicate", conflict["error"])
        self.assertEqual(["a", 1, first["digest"]], [conflict[n] for n in ("id", "sequence", "digest")])
        self.assertNotEqual(first["digest"], conflict["given_digest"])
        self.assertEqual(["$.amount"], conflict["differs"])
        self.assertEqual(1, len(self.ok("log", "--json").lines))
        self.refused(3, "publish", "other.topic", '{"amount":5,"to":"x"}', "--id", "a")


class Rest(OnceTest):
    def test_topics(self):
        for topic in ["", "a b", "a..b", ".a", "a.*", "a.>", "$once.x", "x" * 513]:
            with self.subTest(topic=topic):
                self.refused(2, "publish", topic)
        self.ok("publish", "a.b-c.d_e")

    def test_headers(self):
        self.ok("publish", "--header", "A=1", "t", "--header", "B=x=y", "1", "--header=C=")
        self.assertEqual({"A": "1", "B": "x=y", "C": ""}, self.ok("log", "--json").line["headers"])
        for header in ["A", "=v", "Nats-X=1", "Once-X=1"]:
            with self.subTest(header=header):
                self.refused(2, "publish", "t", "2", "--header", header)
        self.refused(2, "publish", "t", "2", "--header", "A=1", "--header", "A=2")

    def test_unrouted_is_hinted_at(self):
        self.assertIn("once queue add NAME --topic a.b", self.ok("publish", "a.b", "1").err)
        self.assertEqual("", self.ok("publish", "a.b", "2", "-q").err)
        self.ok("queue", "add", "q", "--topic", "a.>")
        self.assertEqual("", self.ok("publish", "a.b", "3").err)

    def test_what_people_see(self):
        self.ok("queue", "add", "q", "--topic", ">")
        steps = [["1", "--id", "a"], ["1", "--id", "a"], ["2", "--id", "a"], ["2", "--id", "b"]]
        said = ""
        for step in steps:
            answer = self.once("publish", "t", *step)
            said += f"$ once publish t {' '.join(step)}\n{answer.out}{answer.err}"
        self.golden("publish.txt", said)


if __name__ == "__main__":
    unittest.main()
