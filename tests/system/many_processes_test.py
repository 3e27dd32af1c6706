#!/usr/bin/env -S python3 -B
"""Many processes on one file: racing publishers, a limit that holds across workers, and a crowd of
publishers and readers beside workers.
"""

import collections
import json
import signal
import subprocess
import sys
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from real_processes import BIN, SystemTest  # noqa: E402


class Publishers(SystemTest):
    def test_of_two_commands_with_one_id_and_other_content_one_wins(self):
        self.queue()
        for n in range(30):
            racers = [self.start("publish", "t", body, "--id", f"i{n}", "--json") for body in ("1", "2")]
            answers = []
            for racer in racers:
                out, err = racer.communicate(timeout=60)
                answers.append((racer.returncode, json.loads(out), err.decode()))
            (_, receipt, _), (_, refusal, said) = sorted(answers, key=lambda answer: answer[0])
            self.assertEqual([0, 3], sorted(code for code, _, _ in answers))
            self.assertEqual((f"i{n}", False), (receipt["id"], receipt["duplicate"]))
            self.assertEqual("conflicting_duplicate", refusal["error"])
            self.assertEqual(receipt["sequence"], refusal["sequence"])
            self.assertEqual((receipt["digest"], ["$"]), (refusal["digest"], refusal["differs"]))
            self.assertRegex(said, r"\Aonce: [^\n]+\n\Z")
        self.assertEqual(30, len(self.ok("log", "--json").lines))

    def test_of_four_pipes_one_wins_each_id(self):
        rounds = 400
        pipes = [self.start("publish", "--batch", "-", "--json", stdin=subprocess.PIPE) for _ in range(4)]
        answers = [[] for _ in pipes]

        def converse(number):
            pipe = pipes[number]
            for n in range(rounds):
                line = {"topic": "t", "id": f"i{n}", "body": {"from": number}}
                pipe.stdin.write(json.dumps(line).encode() + b"\n")
                pipe.stdin.flush()
                answers[number].append(json.loads(pipe.stdout.readline()))
            pipe.stdin.close()

        talks = [threading.Thread(target=converse, args=(n,)) for n in range(len(pipes))]
        for talk in talks:
            talk.start()
        for talk in talks:
            talk.join(60)
        winners = {}
        for n in range(rounds):
            errors = [answers[number][n].get("error") for number in range(len(pipes))]
            self.assertEqual(1, errors.count(None), errors)
            self.assertEqual(3, errors.count("conflicting_duplicate"), errors)
            winners[f"i{n}"] = errors.index(None)
        log = {entry["id"]: entry["body"]["from"] for entry in self.ok("log", "--json").lines}
        self.assertEqual(winners, log)
        for number, pipe in enumerate(pipes):
            self.assertEqual(0 if list(winners.values()).count(number) == rounds else 3, pipe.wait(60))


class MaxRunning(SystemTest):
    def test_one_holds_across_four_workers(self):
        self.queue("--max-running", "1")
        tasks = [f"i{n}" for n in range(60)]
        self.each(tasks)
        # With noclobber the shell opens with O_EXCL.
        program = self.script(
            "alone",
            'set -C; : > held || { touch overlap; exit 65; }\n'
            'echo "$ONCE_ID" >> ran; sleep 0.01; rm held',
        )
        workers = [self.worker(f"w{n}", "--concurrency", "3", "--until-empty", "--", program) for n in range(4)]
        for worker in workers:
            self.ends(worker, seconds=60)
        self.assertFalse((self.folder / "overlap").exists(), "two programs ran at once")
        self.assertEqual(sorted(tasks), sorted(self.read("ran").split()))
        self.assertEqual(60, self.status()["completed"])

    def test_the_slot_of_a_killed_worker_is_free_at_once(self):
        self.queue("--max-running", "1")  # with a lease of 30 s
        self.each(["a"])
        program = self.script("hangs-once", 'echo $$ > "began.$ONCE_ATTEMPT"; [ $ONCE_ATTEMPT = 2 ] || sleep 1000')
        first = self.worker("first", "--", program)
        self.pids("began.1")
        second = self.worker("second", "--until-empty", "--", program)
        self.await_workers(2)
        first.kill()
        self.ends(second, seconds=10)
        self.assertEqual(["lost", "completed"], self.outcomes("a"))


class Crowd(SystemTest):
    def test_twenty_publishers_and_twenty_readers_beside_two_workers(self):
        self.queue()
        self.queue(name="other", topic=">")
        program = self.script("count", 'echo "$ONCE_ID" >> ran')
        workers = [self.worker(f"w{n}", "--concurrency", "2", "--", program) for n in range(2)]
        # Each id is published by two of them, with the same content.
        lines = [
            "".join(f'{{"topic":"t","id":"i{(20 * p + n) % 400}","body":{n % 20}}}\n' for n in range(40))
            for p in range(20)
        ]
        done = []

        def run(arguments, text="", times=1):
            for _ in range(times):
                ended = subprocess.run(
                    [BIN, *arguments, "--json"], cwd=self.folder, env=self.environment, timeout=100,
                    input=text.encode(), capture_output=True,
                )  # fmt: skip
                done.append((arguments[0], ended.returncode, ended.stdout, ended.stderr))

        views = [["status"], ["list", "--limit", "1000"], ["list", "--state", "completed", "--limit", "1000"], ["log"]]
        crowd = [threading.Thread(target=run, args=(["publish", "--batch", "-", "-q"], text)) for text in lines]
        crowd += [threading.Thread(target=run, args=(views[n % 4], "", 4)) for n in range(20)]
        for one in crowd:
            one.start()
        for one in crowd:
            one.join(100)
        self.assertEqual(100, len(done))
        for command, code, _, err in done:
            self.assertEqual((0, b""), (code, err), command)
        receipts = [json.loads(line) for c, _, out, _ in done if c == "publish" for line in out.splitlines()]
        self.assertEqual(800, len(receipts))
        accepted = collections.Counter(r["id"] for r in receipts if not r["duplicate"])
        self.assertEqual((400, {1}), (len(accepted), set(accepted.values())))
        self.until(lambda: self.status()["completed"] == 400, "every task is completed", seconds=60)
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
            self.ends(worker)
        self.assertEqual(sorted(f"i{n}" for n in range(400)), sorted(self.read("ran").split()))
        self.assertEqual(400, self.status("other")["waiting"])


if __name__ == "__main__":
    unittest.main()
