"""What the tests of workflows share: runs as `once flow` tells them."""

from example import ExampleTest


class WorkflowTest(ExampleTest):
    def runs(self):
        """The last started first."""
        return self.ok("flow", "runs", "--json").lines

    def run_states(self):
        return sorted(run["state"] for run in self.runs())

    def show(self, run):
        return self.ok("flow", "show", run, "--json").line

    def step_states(self, run):
        return {step["step"]: step["state"] for step in self.show(run)["steps"]}
