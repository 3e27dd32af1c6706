"""Runs an example as its README says, in the test's own folder, where its effects are counted."""

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "system" / "support"))
from real_processes import BIN, SystemTest, skip_loudly  # noqa: E402,F401

EXAMPLES = ROOT / "examples"


class ExampleTest(SystemTest):
    def setUp(self):
        super().setUp()
        commands = self.folder / "bin"
        commands.mkdir()
        (commands / "once").symlink_to(Path(BIN).resolve())
        self.environment["PATH"] = f"{commands}{os.pathsep}{self.environment['PATH']}"

    def run_example(self, name, script="run"):
        """Its run script, to its end; returns what it printed."""
        process = subprocess.Popen(
            [EXAMPLES / name / script, self.folder],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            self.fail(f"{name} has not ended:\n{said}")
        self.assertEqual(0, process.returncode, said)
        return said

    def lines(self, name):
        return self.read(name).splitlines()

    def attempts(self, task, queue):
        """How each ended, and whether it is in doubt."""
        return [(a["outcome"], a["in_doubt"]) for a in self.story(task, queue)["attempts"]]

    def steps(self, task, queue):
        """Name, state and how often it was begun."""
        return [(s["step"], s["state"], s["runs"]) for s in self.story(task, queue)["steps"]]
