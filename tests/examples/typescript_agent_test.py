#!/usr/bin/env -S python3 -B
"""05: an agent killed while it publishes; what was paid for is not paid again."""

import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
import agent  # noqa: E402
from example import skip_loudly  # noqa: E402


class TypeScriptAgent(agent.AgentTest):
    def setUp(self):
        super().setUp()
        missing = [tool for tool in ("node", "tsc") if not shutil.which(tool)]
        if missing:
            skip_loudly(self, f"no {' and no '.join(missing)} here; `tools/setup test` installs it")
        version = subprocess.check_output(["node", "--version"], text=True).strip()
        if int(version.lstrip("v").split(".")[0]) < 18:
            skip_loudly(self, f"node is {version}, and the example needs 18")

    def test_finished_steps_are_paid_once(self):
        self.run_example("05-typescript-agent")
        self.paid_once_and_published("unknown")

    def test_finished_steps_are_paid_once_over_http(self):
        self.run_example("05-typescript-agent", "run-http")
        self.paid_once_and_published("lost")


if __name__ == "__main__":
    unittest.main()
