"""Workflows for the tests of `once flow`, and how they are added, started and driven."""

import json

from once_command import OnceTest

PAYMENT = {
    "name": "payment",
    "idempotency_key": "order.id",
    "output": "steps.receipt",
    "steps": [
        {"id": "charge", "task": "pay.charge", "input": {"cents": "input.order.total"}},
        {"id": "receipt", "task": "pay.receipt", "depends_on": ["charge"], "input": "steps.charge"},
    ],
}
# Waits for nobody but people: no worker is needed.
REVIEW = {
    "name": "review",
    "idempotency_key": "paper",
    "steps": [
        {"id": "read", "approval": "Is it good?"},
        {"id": "paid", "signal": "paid", "depends_on": ["read"]},
    ],
}
SIGNALLED = {"name": "signalled", "steps": [{"id": "paid", "signal": "paid"}]}
ORDER = '{"order":{"id":17,"total":500}}'


def step(name, *depends_on, **more):
    return {"id": name, "task": "t." + name, "depends_on": list(depends_on), **more}


class FlowTest(OnceTest):
    def definition(self, definition, **changes):
        """Its file's name."""
        name = f"{definition['name']}.json"
        (self.folder / name).write_text(json.dumps({**definition, **changes}))
        return name

    def add(self, definition, **changes):
        return self.ok("flow", "add", "-q", self.definition(definition, **changes))

    def begin(self, *arguments):
        """Starts a run and names it."""
        return self.ok("flow", "start", *arguments, "--json").line["run"]

    def drive(self):
        return self.ok("flow", "work", "-q", "--until-empty")

    def show(self, run):
        return self.ok("flow", "show", run, "--json").line

    def members(self, names, answer):
        self.assertEqual(names, list(answer.line))
