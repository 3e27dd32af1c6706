#!/usr/bin/env -S python3 -B
"""04: a worker killed while its agent publishes; what was paid for is not paid again."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
import agent  # noqa: E402


class PythonAgent(agent.AgentTest):
    def test_finished_steps_are_paid_once(self):
        self.run_example("04-python-agent")
        self.paid_once_and_published("lost")

    def test_finished_steps_are_paid_once_over_http(self):
        self.run_example("04-python-agent", "run-http")
        self.paid_once_and_published("lost")


if __name__ == "__main__":
    unittest.main()
