#!/usr/bin/env -S python3 -B
"""07: an inbox that is scanned twice; runner and worker are killed in the middle."""

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from workflow import WorkflowTest  # noqa: E402


class DocumentPipeline(WorkflowTest):
    def test_each_document_is_published_once_and_the_broken_one_set_aside(self):
        self.run_example("07-document-pipeline")
        self.assertEqual(4, sum("duplicate" in line for line in self.lines("second-scan")))
        self.assertEqual(["completed"] * 5, self.run_states())
        pages = {page.stem: json.loads(page.read_text()) for page in (self.folder / "site").iterdir()}
        self.assertEqual({"promise", "webhook", "lease"}, set(pages))
        self.assertEqual("A webhook comes twice", pages["webhook"]["summary"])
        self.assertIn("token", pages["lease"]["words"], "the edited document was published, too")
        self.assertIn("scan.png is no text", self.read("set-aside/scan.png.why"))
        attempts = sum(
            len(self.attempts(f"{run['run']}.publish", "documents"))
            for run in self.runs()
            if self.step_states(run["run"])["publish"] == "completed"
        )
        self.assertEqual(4, attempts, "no publication was tried twice")


if __name__ == "__main__":
    unittest.main()
