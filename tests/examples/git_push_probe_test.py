#!/usr/bin/env -S python3 -B
"""02: a worker killed after a push and before its record; the probe finds the commit."""

import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from example import EXAMPLES, ExampleTest  # noqa: E402


class GitPushProbe(ExampleTest):
    def setUp(self):
        super().setUp()
        self.run_example("02-git-push-probe")

    def history(self):
        """Subjects and hashes, the newest first, without the commit that made the repository."""
        log = ["git", "-C", self.folder / "blog.git", "log", "--format=%H %s", "main"]
        lines = subprocess.check_output(log, text=True).splitlines()
        return [tuple(line.split(" ", 1)) for line in lines[:-1]]

    def probe(self, task):
        environment = {**self.environment, "REMOTE": str(self.folder / "blog.git"), "ONCE_ID": task}
        probe = [EXAMPLES / "02-git-push-probe" / "was-it-pushed"]
        done = subprocess.run(probe, env=environment, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout.strip()

    def test_one_commit_and_its_hash_is_the_result(self):
        ((commit, subject),) = self.history()
        self.assertEqual("Publish post-42", subject)
        story = self.story("post-42", "posts")
        self.assertEqual("completed", story["state"])
        self.assertEqual(f"{commit}\n", self.ok("wait", "post-42").out)
        self.assertEqual([("lost", True), ("completed", False)], self.attempts("post-42", "posts"))
        self.assertEqual(["happened"], [action["what"] for action in story["story"]])

    def test_the_probe_tells_yes_from_no_and_from_unknown(self):
        ((commit, _),) = self.history()
        self.assertEqual((0, commit), self.probe("post-42"))
        self.assertEqual((1, ""), self.probe("post-4"), "a part of the id is another task")
        shutil.rmtree(self.folder / "blog.git")
        self.assertEqual((2, ""), self.probe("post-42"))


if __name__ == "__main__":
    unittest.main()
