#!/usr/bin/env -S python3 -B
"""06: a webhook that is delivered five times, and a worker killed after the charge."""

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from workflow import WorkflowTest  # noqa: E402


class Payment(WorkflowTest):
    def test_five_deliveries_make_one_run_and_one_charge(self):
        self.run_example("06-payment")
        deliveries = [self.lines(f"delivery.{n}") for n in range(1, 6)]
        self.assertEqual(["200"] * 5, [status for _, status in deliveries])
        answers = [json.loads(answer) for answer, _ in deliveries]
        self.assertEqual(1, len({answer["run"] for answer in answers}), answers)
        self.assertEqual([False] + [True] * 4, sorted(answer["duplicate"] for answer in answers))

        run = answers[0]["run"]
        refusal, status = self.lines("delivery.changed")
        self.assertEqual("409", status)
        self.assertEqual((run, ["$.order.amount"]), tuple(map(json.loads(refusal).get, ("run", "differs"))))

        self.assertEqual([f"{run}.charge"] * 2, self.lines("requests"))
        self.assertEqual(['{"amount":120,"from":"ann"}'], self.lines("payments"))
        self.assertEqual(["to ann: we got your payment pay_1"], self.lines("mails"))
        self.assertEqual([run], [each["run"] for each in self.runs()])
        self.assertEqual({"payment": "pay_1", "receipt": "ann"}, self.show(run)["output"])
        self.assertEqual(
            [("lost", True), ("completed", False)], self.attempts(f"{run}.charge", "payments")
        )


if __name__ == "__main__":
    unittest.main()
