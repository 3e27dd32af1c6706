#!/usr/bin/env -S python3 -B
"""The duplicated blog post: an agent writes a post, commits it to a git repository and deploys it.
The OOM killer takes it and its worker after the commit and before its record.
"""

import contextlib
import os
import signal
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from example import ExampleTest  # noqa: E402

WRITE = 'echo written >> writes; echo "A post about exactly once"'
COMMIT = """
set -e
cat post >> blog/posts.md
git -C blog add posts.md
git -C blog commit -q -m "Publish $ONCE_ID" --trailer "Once-Task: $ONCE_ID"
[ $ONCE_ATTEMPT -gt 1 ] || { echo $$ > committed; while :; do sleep 1000; done; }
git -C blog rev-parse HEAD
"""
DEPLOY = 'echo "$(git -C blog rev-parse HEAD) $ONCE_ATTEMPT" >> deploys; echo deployed'
# Exit 0 and the commit: it is in the history. Exit 1: it is not.
WAS_IT_COMMITTED = """
history=$(git -C blog log --format='%H %(trailers:key=Once-Task,valueonly,separator=%x2C)') || exit 2
echo "$history" | awk '$2 == ENVIRON["ONCE_ID"] { print $1; found = 1; exit } END { exit !found }'
"""
WAS_IT_DEPLOYED = "[ -s deploys ] && cut -d' ' -f1 deploys"

AGENT = """
set -e
echo $$ > "agent.$ONCE_ATTEMPT"
"$ONCE_BIN" step write -- ./write > post
"$ONCE_BIN" step commit {options} -- ./commit
"$ONCE_BIN" step deploy -- ./deploy
"""
# Without steps; here the commit deploys itself, by a hook of the repository.
PLAIN_AGENT = """
set -e
echo $$ > "agent.$ONCE_ATTEMPT"
./write > post
./commit
"""


class BlogPost(ExampleTest):
    def setUp(self):
        super().setUp()
        for who in ("AUTHOR", "COMMITTER"):
            self.environment[f"GIT_{who}_NAME"] = "agent"
            self.environment[f"GIT_{who}_EMAIL"] = "agent@example.org"
        self.git("init", "-q", "--initial-branch", "main", self.folder / "blog")
        self.git("-C", "blog", "commit", "-q", "--allow-empty", "-m", "An empty blog")
        for name, text in (("write", WRITE), ("commit", COMMIT), ("deploy", DEPLOY)):
            self.script(name, text)
        self.script("was-it-committed", WAS_IT_COMMITTED)
        self.script("was-it-deployed", WAS_IT_DEPLOYED)

    def git(self, *arguments):
        return subprocess.check_output(
            ["git", *arguments], cwd=self.folder, env=self.environment, text=True
        )

    def commits(self):
        return self.git("-C", "blog", "log", "--format=%H", "--grep", "Publish post-42").split()

    def deployed_once(self, attempt):
        (commit,) = self.commits()
        self.assertEqual([f"{commit} {attempt}"], self.lines("deploys"))
        return commit

    def killed_after_the_commit(self, agent, *options, policy):
        """The first worker and its agent; then a second worker does what is left."""
        self.ok("queue", "add", "q", "--topic", "t", "--in-doubt", policy)
        self.ok("publish", "t", "--id", "post-42")
        program = self.script("agent", agent)
        worker = self.worker("first", *options, "--", program)
        pids = self.pids("agent.1", "committed")
        worker.kill()
        with contextlib.suppress(ProcessLookupError):  # its supervisor may have been quicker
            os.kill(pids[0], signal.SIGKILL)
        self.gone(pids)
        self.assertEqual(1, len(self.commits()))
        self.ends(self.worker("second", *options, "--until-empty", "--", program))
        story = self.story("post-42")
        self.assertEqual("completed", story["state"])
        lost = story["attempts"][0]
        self.assertEqual(("first", "lost", True), (lost["worker"], lost["outcome"], lost["in_doubt"]))
        return story

    def test_with_a_probe_of_the_step(self):
        agent = AGENT.format(options="--probe ./was-it-committed")
        story = self.killed_after_the_commit(agent, policy="retry")
        commit = self.deployed_once(attempt=2)
        self.assertEqual(["written"], self.lines("writes"))
        # Begun once: its probe answered for the second attempt.
        self.assertEqual(
            [("write", "done", 1), ("commit", "done", 1), ("deploy", "done", 1)],
            self.steps("post-42", "q"),
        )
        self.assertIn(commit, self.ok("inspect", "post-42").out)
        self.assertEqual([1, 2], [attempt["attempt"] for attempt in story["attempts"]])

    def test_with_a_probe_of_the_queue(self):
        hook = self.folder / "blog" / ".git" / "hooks" / "post-commit"
        hook.write_text(f"#!/bin/sh\ncd {self.folder} && exec ./deploy\n")
        hook.chmod(0o755)
        probe = ("--probe", "./was-it-committed")
        story = self.killed_after_the_commit(PLAIN_AGENT, *probe, policy="probe")
        commit = self.deployed_once(attempt=1)
        self.assertEqual(f"{commit}\n", self.ok("wait", "post-42").out)
        self.assertEqual("", self.read("agent.2"), "nothing was run again")
        (asked,) = story["story"]
        self.assertEqual(("happened", "second"), (asked["what"], asked["by"]))

    def test_with_a_probe_of_the_queue_and_one_of_the_step(self):
        agent = AGENT.format(options="--probe ./was-it-committed")
        probe = ("--probe", "./was-it-deployed")
        story = self.killed_after_the_commit(agent, *probe, policy="probe")
        self.deployed_once(attempt=2)
        self.assertEqual(
            [("did_not_happen", "second", None), ("happened", "second", "commit")],
            [(asked["what"], asked["by"], asked["step"]) for asked in story["story"]],
        )

    def test_without_a_probe_the_post_is_there_twice_and_inspect_says_why(self):
        self.killed_after_the_commit(AGENT.format(options=""), policy="retry")
        self.assertEqual(2, len(self.commits()))
        self.assertEqual(1, len(self.lines("deploys")))
        self.assertEqual(["written"], self.lines("writes"), "a finished step is not run again")
        self.assertIn(("commit", "done", 2), self.steps("post-42", "q"))
        said = self.ok("inspect", "post-42").out
        self.assertRegex(said, r"attempt 1 .* lost .*in doubt")
        self.assertRegex(said, r"commit: done .*begun 2 times")


if __name__ == "__main__":
    unittest.main()
