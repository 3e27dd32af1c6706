#!/usr/bin/env -S python3 -B
"""once step inside a program that once work runs: usage, remembering, doubt, probes."""

import signal
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from once_command import OnceTest  # noqa: E402


class Step(OnceTest):
    def work(self, script, *options, exits=0):
        program = self.script("program", script)
        return self.drained(
            "work", "q", "-q", "--until-empty", "--topic", "t", "--backoff", "1ms", *options,
            "--", program, exits=exits,
        )

    def story(self, task="a"):
        return self.ok("inspect", task, "--json").line["queues"][0]

    def text(self, name):
        path = self.folder / name
        return path.read_text() if path.exists() else None

    def test_usage_is_never_taken_for_the_programs_exit(self):
        for arguments in (
            [],
            ["push"],
            ["push", "--"],
            ["push", "--no-such-option", "--", "true"],
            ["push", "too", "many", "--", "true"],
            ["push", "--in-doubt", "steps", "--", "true"],
            ["push", "--in-doubt", "nonsense", "--", "true"],
            ["push", "--in-doubt", "probe", "--", "true"],
            ["push", "--in-doubt", "hold", "--probe", "true", "--", "true"],
            ["push", "--probe", "", "--", "true"],
            ["n" * 129, "--", "true"],
            ["push", "--", "true"],  # not in a program
        ):
            with self.subTest(arguments):
                self.refused(125, "step", *arguments)
        self.refused(125, "--store", "x", "step", "push")
        self.assertIn("needs --probe", self.refused(125, "step", "a", "--in-doubt", "probe", "--", "a"))
        alone = self.refused(125, "step", "push", "--", "true")
        self.assertIn("ONCE_SOCKET", alone)
        self.assertIn("a program that `once work` runs", alone)

    def test_help_names_the_program(self):
        answer = self.ok("step", "--help")
        self.assertIn("-- CMD ARGS...", answer.out)
        self.ok("step", "push", "--help", "--", "false")

    def test_a_command_that_cannot_be_run_is_126_or_127(self):
        self.refused(127, "step", "push", "--", "no-such-command-anywhere")
        self.refused(127, "step", "push", "--", "./missing")
        (self.folder / "plain").write_text("text")
        self.refused(126, "step", "push", "--", "./plain")

    def test_a_step_runs_once_and_is_remembered(self):
        self.ok("publish", "t", "--id", "a", "-q")
        self.work(
            '$ONCE_BIN step one -- sh -c "echo ran >> ran; date +%N; echo 1" > out.$ONCE_ATTEMPT\n'
            '$ONCE_BIN step two -- sh -c "echo two >> ran; echo 2"\n'
            "[ $ONCE_ATTEMPT = 2 ]"
        )
        self.assertEqual("ran\ntwo\n", self.text("ran"))
        self.assertEqual(self.text("out.1"), self.text("out.2"))
        self.assertIn("\n1\n", self.text("out.1"))
        self.assertEqual("completed", self.story()["state"])
        self.assertEqual(
            [("one", "done"), ("two", "done")],
            [(step["step"], step["state"]) for step in self.story()["steps"]],
        )

    def test_a_step_that_failed_runs_again(self):
        self.ok("publish", "t", "--id", "a", "-q")
        self.work('exec $ONCE_BIN step one -- sh -c "echo ran >> ran; [ $ONCE_ATTEMPT = 2 ]"')
        self.assertEqual("ran\nran\n", self.text("ran"))
        self.assertEqual("completed", self.story()["state"])

    def test_a_name_used_twice_is_refused(self):
        self.ok("publish", "t", "--id", "a", "-q")
        self.work("$ONCE_BIN step one -- true; $ONCE_BIN step one -- true 2> said; echo $? > exit")
        self.assertEqual("125\n", self.text("exit"))
        self.assertIn("'one' was used before in this attempt", self.text("said"))

    CUT_OFF = 'echo ran >> ran; [ $ONCE_ATTEMPT = 1 ] || exit 0; kill -KILL $PPID; sleep 1000'

    def cut_off(self, *policy, queue=(), exits):
        """Its `once step` dies the first time, and the program with it."""
        self.ok("publish", "t", "--id", "a", "-q")
        options = " ".join(f"'{option}'" for option in policy)
        self.work(
            f"$ONCE_BIN step one {options} -- sh -c '{self.CUT_OFF}' 2>> said || kill -KILL $$",
            *queue,
            exits=exits,
        )

    def test_a_step_that_was_cut_off_is_run_again(self):
        self.cut_off("--in-doubt", "retry", exits=0)
        self.assertEqual("ran\nran\n", self.text("ran"))
        self.assertEqual("completed", self.story()["state"])

    def test_a_step_that_was_cut_off_is_held(self):
        self.cut_off("--in-doubt", "hold", exits=1)
        self.assertEqual("ran\n", self.text("ran"))
        self.assertEqual("in_doubt", self.story()["state"])

    def test_a_step_that_was_cut_off_is_held_by_the_queues_policy(self):
        self.cut_off(queue=["--in-doubt", "steps"], exits=1)
        self.assertEqual("ran\n", self.text("ran"))
        self.assertEqual("in_doubt", self.story()["state"])

    def test_a_step_that_was_cut_off_asks_its_probe(self):
        for probe, state, runs in (
            ("cat ran", "completed", 1),
            ("exit 1", "completed", 2),
            ("exit 9", "in_doubt", 1),
        ):
            with self.subTest(probe):
                self.begin_anew()
                (self.folder / "ran").unlink(missing_ok=True)
                self.cut_off("--probe", probe, exits=1 if state == "in_doubt" else 0)
                self.assertEqual("ran\n" * runs, self.text("ran"))
                self.assertEqual(state, self.story()["state"])

    def test_a_worker_that_is_killed_leaves_its_step_in_doubt(self):
        self.ok("publish", "t", "--id", "a", "-q")
        program = self.script(
            "program", "$ONCE_BIN step one -- sh -c 'echo ran >> ran; exec sleep 1000'"
        )
        worker = self.start(
            "work", "q", "--topic", "t", "--lease", "5s", "--in-doubt", "steps", "--", program
        )
        self.until(lambda: self.text("ran"), "the step runs")
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        self.drained("work", "q", "-q", "--until-empty", "--", program, exits=1)
        self.assertEqual("ran\n", self.text("ran"))
        self.assertEqual("in_doubt", self.story()["state"])


if __name__ == "__main__":
    unittest.main()
