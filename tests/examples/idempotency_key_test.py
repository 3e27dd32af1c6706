#!/usr/bin/env -S python3 -B
"""01: a worker killed after a payment and before its record; the API knows the key."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from example import ExampleTest  # noqa: E402


class IdempotencyKey(ExampleTest):
    def test_two_requests_make_one_payment(self):
        self.run_example("01-idempotency-key")
        requests = self.lines("requests")
        self.assertEqual((2, 1), (len(requests), len(set(requests))), requests)
        self.assertEqual(['{"to":"ann","amount":120}'], self.lines("payments"))
        story = self.story("invoice-17", "payments")
        self.assertEqual(("completed", {"payment": "pay_1"}), (story["state"], story["result"]))
        self.assertEqual(
            [("lost", True), ("completed", False)], self.attempts("invoice-17", "payments")
        )


if __name__ == "__main__":
    unittest.main()
