#!/usr/bin/env -S python3 -B
"""A program of three steps, killed with its worker by kill -9 at every point between and inside the
steps: what is done never runs again, and what was cut off goes as its policy says.
"""

import random
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from real_processes import SystemTest  # noqa: E402

STEPS = ("write", "push", "deploy")
POINTS = [f"{where}:{step}" for step in STEPS for where in ("before", "in", "done", "after")]

# Kills the worker, and with it this program, at the point named in the file `kill`.
DIE = """
if [ "$1" = "$(cat kill)" ]; then
  : > kill
  while ! [ -s worker ]; do sleep 0.01; done
  kill -9 "$(cat worker)"
  while :; do sleep 1000; done
fi
"""
EFFECT = """
./die "in:$1"
echo "$1 $ONCE_ATTEMPT" >> effects
./die "done:$1"
echo "$1 is done"
"""
WAS_IT_DONE = """
grep -q "^$ONCE_STEP_NAME " effects || exit 1
echo "found by the probe"
"""
PROGRAM = """
set -e
for step in {steps}; do
  ./die "before:$step"
  "$ONCE_BIN" step "$step" {options} -- ./effect "$step"
  ./die "after:$step"
done
"""


class Steps(SystemTest):
    def setUp(self):
        super().setUp()
        for name, text in (("die", DIE), ("effect", EFFECT), ("was-it-done", WAS_IT_DONE)):
            self.script(name, text)
        (self.folder / "effects").touch()

    def killed_at(self, task, point, policy):
        """What the task's worker leaves behind when it is killed there, and the next one makes of it."""
        options = {"retry": "--in-doubt retry", "hold": "", "probe": "--probe ./was-it-done"}[policy]
        program = self.script("program", PROGRAM.format(steps=" ".join(STEPS), options=options))
        (self.folder / "effects").write_text("")
        (self.folder / "kill").write_text(point)
        (self.folder / "worker").write_text("")
        self.ok("publish", "t", "--id", task)
        first = self.worker("first", "--", program)
        (self.folder / "worker").write_text(str(first.pid))
        self.ends(first, -9)
        held = policy == "hold" and point.startswith(("in:", "done:"))
        self.drained("work", "q", "-q", "--until-empty", "--", program, exits=1 if held else 0)
        return self.story(task)

    def effects(self, step):
        return sum(line.startswith(step + " ") for line in self.read("effects").splitlines())

    def finish_by_hand(self, task, step, happened):
        if happened:
            self.ok("doubt", "complete", task, "--step", step, "--result", '"by hand"')
        else:
            self.ok("doubt", "retry", task)
        self.drained("work", "q", "-q", "--until-empty", "--", self.folder / "program", exits=0)

    def check(self, policy, point):
        where, step = point.split(":")
        task = f"{policy}-{point}"
        story = self.killed_at(task, point, policy)
        cut_off = where in ("in", "done")
        if policy == "hold" and cut_off:
            self.assertEqual("in_doubt", story["state"])
            states = {each["step"]: each["state"] for each in story["steps"]}
            self.assertEqual("in_doubt", states[step])
            self.assertNotIn("running", states.values())
            self.assertEqual(f"step '{step}' was cut off", story["reason"])
            self.finish_by_hand(task, step, happened=where == "done")
            story = self.story(task)
        self.assertEqual("completed", story["state"])
        self.assertEqual("lost", story["attempts"][0]["outcome"])
        for each in story["steps"]:
            self.assertEqual("done", each["state"])
            again = each["step"] == step and cut_off
            twice = again and where == "done" and policy == "retry"
            self.assertEqual(2 if twice else 1, self.effects(each["step"]), each)
            reruns = again and not (where == "done" and policy != "retry")
            self.assertEqual(2 if reruns else 1, each["runs"], each)

    def test_killed_at_every_point(self):
        self.queue("--in-doubt", "steps", "--attempts", "9")
        for point in POINTS:
            with self.subTest(point):
                self.check("probe", point)

    def test_killed_at_points_of_each_policy(self):
        self.queue("--in-doubt", "steps", "--attempts", "9")
        choose = random.Random(7)
        for policy in ("retry", "hold"):
            inside = [point for point in POINTS if not point.startswith(("before", "after"))]
            for point in choose.sample(inside, 3) + choose.sample(POINTS, 1):
                with self.subTest(f"{policy} {point}"):
                    self.check(policy, f"{point}")


if __name__ == "__main__":
    unittest.main()
