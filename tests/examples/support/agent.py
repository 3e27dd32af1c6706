"""What is expected of the agents of examples 04 and 05, which are killed while they publish."""

from example import ExampleTest

PAID = [
    "research exactly once",
    "write a post from [what the model says to: research exactly once]",
]


class AgentTest(ExampleTest):
    def paid_once_and_published(self, first_ending):
        self.assertEqual(PAID, self.lines("bill"))
        self.assertEqual([f"[what the model says to: {PAID[1]}]"], self.lines("post-42.txt"))
        self.assertEqual(
            [("research", "done", 1), ("draft", "done", 1), ("publish", "done", 2)],
            self.steps("42", "agents"),
        )
        self.assertEqual(
            [(first_ending, True), ("completed", False)],
            self.attempts("42", "agents"),
            self.ok("inspect", "42").out,
        )
        result = self.story("42", "agents")["result"]
        self.assertEqual({"url": "https://blog.example.org/42"}, result)
