#!/usr/bin/env -S python3 -B
"""08: two changes wait for a person; one is approved, twice, and one rejected."""

import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from workflow import WorkflowTest  # noqa: E402


class CodeReview(WorkflowTest):
    def test_one_change_is_merged_once_and_the_other_is_told_about(self):
        said = self.run_example("08-code-review")
        self.assertIn("exit 3", said, "the second verdict is refused")
        log = ["git", "-C", self.folder / "project.git", "log", "--first-parent", "--format=%s", "main"]
        history = subprocess.check_output(log, text=True).splitlines()
        self.assertEqual(["Merge louder", "A greeting"], history)
        (mail,) = self.lines("mails")
        self.assertRegex(mail, r"^longer is not merged: rejected by .*: hello is enough$")
        self.assertEqual(["longer", "louder"], sorted(self.lines("bill")))

        rejected, approved = (run["run"] for run in self.runs())
        done = dict.fromkeys(("test", "comment", "approve", "merge"), "completed")
        self.assertEqual({**done, "tell": "skipped"}, self.step_states(approved))
        self.assertEqual(
            {**done, "approve": "failed", "merge": "unreached", "tell": "completed"},
            self.step_states(rejected),
        )
        self.assertEqual(["completed", "completed"], self.run_states())


if __name__ == "__main__":
    unittest.main()
