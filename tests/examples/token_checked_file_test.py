#!/usr/bin/env -S python3 -B
"""03: a writer frozen past its lease wakes up, and its older report is refused."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from example import ExampleTest  # noqa: E402


class TokenCheckedFile(ExampleTest):
    def test_the_older_report_never_overwrites_the_newer_one(self):
        self.run_example("03-token-checked-file")
        late, newer = self.story("orders-today", "reports")["attempts"]
        self.assertEqual(("ann", "lost", True), (late["worker"], late["outcome"], late["in_doubt"]))
        self.assertEqual(("bob", "completed"), (newer["worker"], newer["outcome"]))
        self.assertEqual([f"token {newer['token']}", "12 orders"], self.lines("report"))
        self.assertEqual(
            [f"token {late['token']} came too late: report was written under {newer['token']}"],
            self.lines("report.refused"),
        )


if __name__ == "__main__":
    unittest.main()
