#!/usr/bin/env -S python3 -B
"""A thousand starts of a workflow at once, from eight processes, under a hundred keys: a hundred runs.

ONCE_START_RUNS names the program that starts many (support/start_runs.cpp).
"""

import collections
import json
import os
import random
import subprocess
import sys
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from real_processes import SystemTest  # noqa: E402

STARTER = os.environ.get("ONCE_START_RUNS", "")
KEYS = 100
STARTS = 1000
PROCESSES = 8
WORKFLOW = {"name": "w", "idempotency_key": "order.id", "steps": [{"id": "a", "task": "t"}]}

Answer = collections.namedtuple("Answer", "input run what differs")


class Starts(SystemTest):
    def setUp(self):
        super().setUp()
        self.queue()
        (self.folder / "w.json").write_text(json.dumps(WORKFLOW))
        self.ok("flow", "add", "w.json")

    def input(self, n, inputs_per_key):
        return {"order": {"id": f"o{n % KEYS}"}, "from": n // KEYS % inputs_per_key}

    def start_all(self, inputs_per_key):
        """Each key equally often, in any order, by all processes at the same time."""
        self.assertTrue(STARTER, "ONCE_START_RUNS names no executable")
        inputs = [self.input(n, inputs_per_key) for n in range(STARTS)]
        random.Random(7).shuffle(inputs)
        processes = []
        for p in range(PROCESSES):
            (self.folder / f"inputs.{p}").write_text("".join(json.dumps(i) + "\n" for i in inputs[p::PROCESSES]))
            process = subprocess.Popen(
                [STARTER, self.store, "w", f"inputs.{p}"], cwd=self.folder, env=self.environment,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            self.addCleanup(self._end, process)
            processes.append(process)
        for process in processes:
            self.assertEqual("ready\n", process.stdout.readline())
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        answers = []
        for p, process in enumerate(processes):
            said, _ = process.communicate(timeout=90)
            self.assertEqual(0, process.returncode)
            for given, line in zip(inputs[p::PROCESSES], said.splitlines(), strict=True):
                run, what, *differs = line.split()
                answers.append(Answer(given, run, what, differs))
        self.assertEqual(STARTS, len(answers))
        return answers

    def runs_by_key(self):
        runs = self.ok("flow", "runs", "--limit", "2000", "--json").lines
        self.assertEqual(KEYS, len(runs))
        shown = [self.ok("flow", "show", run["run"], "--json").line for run in runs[:5]]
        return {run["run"] for run in runs}, {view["run"]: view["input"] for view in shown}

    def test_a_thousand_starts_under_a_hundred_keys_make_a_hundred_runs(self):
        answers = self.start_all(inputs_per_key=1)
        what = collections.Counter(answer.what for answer in answers)
        self.assertEqual({"first": KEYS, "duplicate": STARTS - KEYS}, dict(what))
        run_of = {answer.input["order"]["id"]: answer.run for answer in answers if answer.what == "first"}
        for answer in answers:
            self.assertEqual(run_of[answer.input["order"]["id"]], answer.run, answer)
        runs, inputs = self.runs_by_key()
        self.assertEqual(set(run_of.values()), runs)
        for run, given in inputs.items():
            self.assertEqual(run_of[given["order"]["id"]], run)

        worker = self.worker("w", "--concurrency", "4", "--", self.script("note", 'echo "$ONCE_RUN" >> ran'))
        self.ends(self.background("flow", "work", "-q", "--until-empty"), seconds=90)
        worker.terminate()
        self.ends(worker)
        self.assertEqual(sorted(runs), sorted(self.read("ran").split()))

    def test_of_two_inputs_under_a_key_one_wins_and_the_others_hear_what_differs(self):
        answers = self.start_all(inputs_per_key=2)
        winners = {answer.input["order"]["id"]: answer for answer in answers if answer.what == "first"}
        self.assertEqual(KEYS, len(winners))
        for answer in answers:
            winner = winners[answer.input["order"]["id"]]
            self.assertEqual(winner.run, answer.run, answer)
            if answer.input != winner.input:
                self.assertEqual(("conflict", ["$.from"]), (answer.what, answer.differs))
            elif answer != winner:
                self.assertEqual("duplicate", answer.what)
        _, inputs = self.runs_by_key()
        for run, given in inputs.items():
            winner = winners[given["order"]["id"]]
            self.assertEqual((winner.run, winner.input), (run, given))

    def test_of_two_commands_with_other_inputs_one_wins_and_the_other_exits_3(self):
        ended = []

        def start(n):
            given = json.dumps({"order": {"id": n // 4}, "from": n % 2})
            process = self.start("flow", "start", "w", given, "--json")
            out, _ = process.communicate(timeout=60)
            ended.append((n, process.returncode, json.loads(out)))

        for first in range(0, 24, PROCESSES):
            commands = [threading.Thread(target=start, args=(n,)) for n in range(first, first + PROCESSES)]
            for command in commands:
                command.start()
            for command in commands:
                command.join(90)
        self.assertEqual(24, len(ended))
        for key in range(6):
            mine = [(n, code, said) for n, code, said in ended if n // 4 == key]
            self.assertEqual([0, 0, 3, 3], sorted(code for _, code, _ in mine), mine)
            self.assertEqual(1, len({said["run"] for _, _, said in mine}), mine)
            self.assertEqual(1, len({n % 2 for n, code, _ in mine if code == 0}), mine)
            for _, _, said in (answer for answer in mine if answer[1] == 3):
                self.assertEqual(("conflicting_duplicate", ["$.from"]), (said["error"], said["differs"]))


if __name__ == "__main__":
    unittest.main()
