#!/usr/bin/env -S python3 -B
"""once publish --batch: lines in, answers out, in order and as they come."""

import base64
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from once_command import OnceTest  # noqa: E402


class Batch(OnceTest):
    def batch(self, text, code=0):
        answer = self.once("publish", "--batch", "-", stdin=text)
        self.assertEqual(code, answer.code, answer.err)
        return answer

    def test_answers_are_json_in_order(self):
        lines = [{"topic": "t", "id": f"i{n}", "body": {"n": n}} for n in range(2500)]
        lines[1700] = lines[3]
        answers = self.batch("".join(json.dumps(line) + "\n" for line in lines)).lines
        self.assertEqual(["line", "id", "sequence", "duplicate", "digest"], list(answers[0]))
        self.assertEqual(list(range(1, 2501)), [answer["line"] for answer in answers])
        self.assertEqual([line["id"] for line in lines], [answer["id"] for answer in answers])
        self.assertEqual([1701], [a["line"] for a in answers if a["duplicate"]])
        self.assertEqual(answers[3]["sequence"], answers[1700]["sequence"])
        self.assertEqual(2499, len(self.ok("log", "--json").lines))

    def test_from_a_file(self):
        self.folder.joinpath("tasks.ndjson").write_text('{"topic":"t","body":[]}\n')
        self.assertEqual(1, self.ok("publish", "--batch", "tasks.ndjson").line["sequence"])
        self.refused(2, "publish", "--batch", "missing.ndjson")
        self.refused(2, "publish", "--batch", ".")

    def test_line_ends_and_empty_lines(self):
        text = b'{"topic":"t","id":"a"}\r\n\r\n\n  \n{"topic":"t","id":"b"}'
        self.assertEqual([(1, "a"), (5, "b")], [(a["line"], a["id"]) for a in self.batch(text).lines])
        self.assertEqual([], self.batch("").lines)
        self.assertEqual([], self.batch("\n\n").lines)

    def test_fields(self):
        raw = base64.b64encode(b"\x00\xff").decode()
        lines = [
            {"topic": "t", "id": "raw", "raw": raw},
            {"topic": "t", "id": "headers", "headers": {"A": "é", "B": ""}},
            {"id": "order", "body": {"deep": [{"}": "]"}, "\\\""]}, "topic": "t"},
        ]
        self.batch("".join(json.dumps(line) + "\n" for line in lines))
        log = self.ok("log", "--json").lines
        self.assertEqual(raw, log[0]["raw"])
        self.assertEqual({"A": "é", "B": ""}, log[1]["headers"])
        self.assertIsNone(log[1]["body"])
        self.assertEqual({"deep": [{"}": "]"}, "\\\""]}, log[2]["body"])

    def test_a_bad_line_does_not_stop_the_rest(self):
        bad = [
            "nonsense", "[]", "1", "{", "{}", '{"topic":"t"', '{"topic":"t"} x', '{"topic":"t",}',
            '{"topic":"t" "id":"x"}', '{"topic":5}', '{"topic":null}', '{"topic":"t","id":""}',
            '{"topic":"t","id":null}', '{"topic":"t","topic":"t"}', '{"topic":"t","priority":"5s"}',
            '{"topic":"t","body":}', '{"topic":"t","body":1,"raw":""}', '{"topic":"t","raw":"a"}',
            '{"topic":"t","raw":"AP9="}', '{"topic":"t","headers":{"a":1}}', '{"topic":"t","headers":[]}',
            '{"topic":"t","headers":{"Once-A":"1"}}', '{"topic":"a b"}', '{"topic":"t","id":"\\ud800"}',
            '{"topic":"t","body":{"a":1,"a":1}}', '{"topic":"t","body":9007199254740993}',
            '{"topic":"t","body":nul}', '{"topic":"t","body":"\\x"}', '{"topic":"t","body":[1}',
            '{"topic":"t","id":"a\\u0000b"}', '{"topic":"t","id":"unfinished', "\ufeff{}",
        ]  # fmt: skip
        text = "".join(f'{line}\n{{"topic":"t","id":"good{n}"}}\n' for n, line in enumerate(bad))
        answer = self.batch(text, code=2)
        for n, line in enumerate(bad):
            with self.subTest(line=line):
                refused, good = answer.lines[2 * n], answer.lines[2 * n + 1]
                self.assertEqual(["line", "error", "message", "retryable", "in_doubt"], list(refused))
                self.assertEqual((2 * n + 1, "invalid_input"), (refused["line"], refused["error"]))
                self.assertEqual(f"good{n}", good["id"])
        self.assertEqual(len(bad), len(self.ok("log", "--json").lines))
        self.assertIn(f"{len(bad)} of {2 * len(bad)} lines not published; the first is line 1", answer.err)

    def test_invalid_utf8(self):
        text = b'{"topic":"t","id":"\xff"}\n{"topic":"t","body":"\xc3"}\n{"topic":"t","x\xff":1}\n{"topic":"t"}\n'
        answers = self.batch(text, code=2).lines
        self.assertEqual(["invalid_input"] * 3, [answer["error"] for answer in answers[:3]])
        self.assertEqual(1, answers[3]["sequence"])

    def test_lines_that_are_too_long(self):
        text = (
            '{"topic":"t","body":"' + "x" * ((1 << 20) + 1) + '"}\n'
            + '{"topic":"t","body":"' + "x" * (17 << 20) + '"}\n'
            + '{"topic":"t","id":"after"}\n'
            + "x" * (17 << 20)
        )  # fmt: skip
        answers = self.batch(text, code=2).lines
        self.assertEqual(["too_large", "too_large", None, "too_large"], [a.get("error") for a in answers])
        self.assertEqual([1, 2, 3, 4], [a["line"] for a in answers])

    def test_exit_is_the_first_of_5_7_3_2(self):
        self.ok("publish", "t", "1", "--id", "a", "-q")
        conflict, bad, good = '{"topic":"t","id":"a","body":2}\n', "x\n", '{"topic":"t","id":"b"}\n'
        answers = self.batch(bad + conflict + good, code=3).lines
        self.assertEqual(["$"], answers[1]["differs"])
        self.assertEqual((2, "a", 1), (answers[1]["line"], answers[1]["id"], answers[1]["sequence"]))
        self.batch(bad + good, code=2)
        self.batch(good, code=0)

    def test_quiet_prints_the_bare_ids(self):
        lines = '{"topic":"t","id":"a"}\n{"topic":"t","id":"a","body":2}\n{"topic":"t","id":"b"}\n'
        done = self.once("publish", "--batch", "-", "-q", stdin=lines)
        self.assertEqual((3, "a\nb\n"), (done.code, done.out))
        self.assertIn("1 of 3 lines not published; the first is line 2: id 'a'", done.err)

    def test_the_store_is_exit_5(self):
        self.refused(5, "publish", "--batch", "-", "--store", "no/such/folder/once.db")

    def test_nothing_else_goes_with_it(self):
        for more in [["t"], ["--id", "a"], ["--unique"], ["--raw"], ["--header", "a=b"], ["--id-from", "{a}"]]:
            self.refused(2, "publish", "--batch", "-", *more)

    def test_unrouted_is_hinted_at_once(self):
        answer = self.batch('{"topic":"t"}\n{"topic":"t.u"}\n')
        self.assertRegex(answer.err, r"\Aonce: no queue takes the topic of 2 tasks yet[^\n]+\n\Z")

    def test_answers_come_while_the_pipe_is_idle(self):
        process = self.start("publish", "--batch", "-", stdin=subprocess.PIPE)
        for n in range(3):
            process.stdin.write(f'{{"topic":"t","id":"i{n}"}}\n{{"half":'.encode())
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            self.assertEqual((f"i{n}", 2 * n + 1), (answer["id"], answer["line"]))
            self.assertEqual(n + 1, len(self.ok("log", "--json").lines), "an answer means durable")
            process.stdin.write(b"1}\n")
            process.stdin.flush()
            self.assertEqual("invalid_input", json.loads(process.stdout.readline())["error"])
        process.stdin.close()
        self.assertEqual(2, process.wait(timeout=60))

    def test_a_reader_of_answers_that_left_stops_it(self):
        read, write = os.pipe()
        process = self.start("publish", "--batch", "-", stdin=subprocess.PIPE, stdout=write)
        os.close(write)
        os.close(read)
        process.stdin.write(b'{"topic":"t"}\n')
        process.stdin.flush()
        self.assertEqual(1, process.wait(timeout=60))
        self.assertIn(b"the same command again is safe", process.stderr.read())


if __name__ == "__main__":
    unittest.main()
