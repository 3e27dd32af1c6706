#!/usr/bin/env -S python3 -B
"""09: cron starts a report on three machines, and one of them dies."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from workflow import WorkflowTest  # noqa: E402


class NightlyReport(WorkflowTest):
    def test_three_machines_send_one_mail_per_night(self):
        self.run_example("09-nightly-report")
        days = ["2026-03-01", "2026-03-02"]
        for day in days:
            answers = [self.read(f"started.{day}.{machine}") for machine in ("one", "two", "three")]
            self.assertEqual(2, sum("duplicate" in answer for answer in answers), answers)
        mails = [f"day {day},orders 12,visits 340" for day in days]
        self.assertEqual(mails, sorted(self.lines("mails")))
        self.assertEqual(["completed"] * 2, self.run_states())
        self.assertEqual("one", self.lines("counts")[0])
        self.assertNotIn("one", self.lines("counts")[1:])


if __name__ == "__main__":
    unittest.main()
