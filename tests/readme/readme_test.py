#!/usr/bin/env python3
"""The README's program does what the README says; so does its shell session, against $ONCE_BIN."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)
README = (pathlib.Path(__file__).parent.parent.parent / "README.md").read_text()


class Readme(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_here(self, *words):
        environment = dict(os.environ, PATH=os.path.dirname(os.environ["ONCE_BIN"]) + ":"
                           + os.environ["PATH"])
        environment.pop("ONCE_STORE", None)
        return subprocess.run(words, cwd=self.folder.name, env=environment, text=True,
                              capture_output=True, timeout=60)

    def test_the_program_runs_its_task_once_however_often_it_is_started(self):
        first = self.run_here(PROGRAM)
        self.assertEqual(first.stdout, "#1\npushing # Exactly once (attempt 1)\n", first.stderr)
        second = self.run_here(PROGRAM)
        self.assertEqual(second.stdout, "#1 duplicate\n", second.stderr)

    def test_the_shell_session(self):
        block = re.search(r"```sh\n(once queue add.*?)```", README, re.DOTALL).group(1)
        script = pathlib.Path(self.folder.name, "write-post.sh")
        script.write_text("#!/bin/sh\ncat >> posts\necho >> posts\n")
        script.chmod(0o755)
        done = self.run_here("bash", "-c", block)
        self.assertEqual(done.returncode, 0, done.stderr)
        posts = pathlib.Path(self.folder.name, "posts").read_text()
        self.assertEqual(posts, '{"title":"Exactly once"}\n')
        self.assertIn("$.title", done.stderr)
        self.assertIn("completed", done.stdout)


if __name__ == "__main__":
    unittest.main()
