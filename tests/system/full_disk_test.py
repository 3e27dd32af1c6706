#!/usr/bin/env -S python3 -B
"""A disk that fills up: what was receipted stands, what is refused says so, and everything goes on
once there is room. And a disk that becomes read-only.

The disk is a small tmpfs in a mount namespace of this script, which goes with it.
"""

import json
import os
import signal
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from real_processes import SystemTest, skip_loudly  # noqa: E402

OWN_MOUNTS = "SYSTEM_TEST_OWN_MOUNTS"


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


def enter_namespace():
    """Starts this script again where it may mount, if it may have that."""
    if os.environ.get(OWN_MOUNTS):
        return
    unshare = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    try:
        allowed = run(*unshare, "true").returncode == 0
    except FileNotFoundError:
        allowed = False
    if allowed:
        os.execvpe(unshare[0], [*unshare, *sys.orig_argv], {**os.environ, OWN_MOUNTS: "1"})


class SmallDisk(SystemTest):
    def setUp(self):
        super().setUp()
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        if not os.environ.get(OWN_MOUNTS):
            skip_loudly(self, "no mount namespace is given to this user: a full disk is not tested")
        self.environment["ONCE_STORE"] = str(self.disk / "once.db")

    def mount(self, size="24m"):
        mounted = run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(self.disk))
        if mounted.returncode != 0:
            skip_loudly(self, f"a full disk is not tested: {mounted.stderr.strip()}")
        self.addCleanup(run, "umount", "--lazy", str(self.disk))
        self.queue("--backoff", "10ms")

    def fill(self, but=0):
        """Leaves that many bytes free."""
        with open(self.disk / "filler", "ab", buffering=0) as filler:
            while (free := self.free() - but) > 0:
                filler.write(b"x" * min(free, 1 << 20))

    def make_room(self):
        (self.disk / "filler").unlink()

    def free(self):
        about = os.statvfs(self.disk)
        return about.f_bavail * about.f_frsize

    def publish(self, task):
        answer = self.once("publish", "t", json.dumps("b" * 3000), "--id", task, "--json")
        if answer.code == 0:
            return answer.line
        self.assertEqual(5, answer.code, answer.err)
        self.assertRegex(answer.err, r"\Aonce: the disk is full: [^\n]+\n\Z")
        refusal = tuple(answer.line[name] for name in ("error", "retryable", "in_doubt"))
        self.assertEqual(("store_unusable", True, False), refusal)
        return None

    def test_every_receipt_stands_and_publishing_goes_on(self):
        self.mount()
        self.fill(but=400 << 10)
        receipts = {}
        while receipt := self.publish(f"i{len(receipts)}"):
            receipts[receipt["id"]] = receipt
        refused = f"i{len(receipts)}"
        self.assertGreater(len(receipts), 10)
        for _ in range(3):
            self.fill()
            self.assertIsNone(self.publish(refused))
        # Reading needs no room.
        self.assertEqual(list(receipts), [entry["id"] for entry in self.ok("log", "--json").lines])
        self.assertEqual(len(receipts), self.status()["waiting"])

        self.make_room()
        for task, receipt in receipts.items():
            self.assertEqual({**receipt, "duplicate": True}, self.publish(task))
        self.assertFalse(self.publish(refused)["duplicate"])
        program = self.script("count", 'echo "$ONCE_ID $ONCE_ATTEMPT" >> ran')
        self.settle(program)
        self.assertEqual(sorted(f"{task} 1" for task in [*receipts, refused]), sorted(self.read("ran").splitlines()))

    def test_room_that_is_made_is_not_all_eaten_by_the_write_ahead_log(self):
        # What a hundred small tasks leave behind is far less than the room that is made. The log of
        # their writes is more: it has to start over when it has filled the disk before.
        self.mount("1500k")
        self.each([f"i{n}" for n in range(100)])
        with open(self.disk / "filler", "wb") as filler:
            filler.write(b"x" * (300 << 10))
        worker = self.worker("w", "--until-empty", "--", "true")
        self.until(lambda: self.free() == 0, "the disk is full")
        self.make_room()
        self.ends(worker, seconds=20)
        self.assertEqual(100, self.status()["completed"])

    def test_a_batch_answers_each_line_and_its_receipts_stand(self):
        self.mount("2m")
        lines = "".join(f'{{"topic":"t","id":"i{n}","body":"{"b" * 3000}"}}\n' for n in range(1000))
        answer = self.once("publish", "--batch", "-", stdin=lines)
        self.assertEqual(5, answer.code, answer.err)
        self.assertEqual(1000, len(answer.lines))
        kept = [line["id"] for line in answer.lines if "error" not in line]
        self.assertLess(len(kept), 1000)
        self.assertEqual({"store_unusable"}, {line["error"] for line in answer.lines if "error" in line})
        self.assertEqual(kept, [entry["id"] for entry in self.ok("log", "--json").lines])

    def test_a_log_dir_that_is_full_is_told_and_the_task_goes_on(self):
        self.environment["ONCE_STORE"] = str(self.folder / "elsewhere.db")
        self.mount("1m")
        self.each(["a"])
        program = ["sh", "-c", "head -c 3000000 /dev/zero; exec > $ONCE_RESULT; echo 7"]
        answer = self.ok("work", "q", "--until-empty", "--log-dir", str(self.disk), "--", *program)
        self.assertRegex(answer.err, "cannot write .*q.a.1.log: No space left on device; .* goes on")
        self.assertEqual("7\n", self.ok("wait", "a").out)

    def test_a_worker_records_what_it_ran_once_there_is_room(self):
        self.mount()
        self.each(["a", "b"])
        program = self.script(
            "slow",
            'echo "$ONCE_ID $ONCE_ATTEMPT" >> ran; echo $$ > "began.$ONCE_ID"\n'
            "until [ -e go ]; do sleep 0.01; done",
        )
        worker = self.worker("w", "--", program)
        (running,) = self.pids("began.a")
        self.fill()
        while self.publish("filling") or self.free():
            self.fill()
        self.touch("go")
        self.gone([running])
        # It tries several times, in vain, and has not begun with the next one.
        self.assertIsNone(self.publish("refused"))
        self.assertIsNone(worker.poll(), self.said(worker))
        self.assertEqual("running", self.story("a")["state"])
        self.make_room()
        self.until(lambda: self.status()["waiting"] + self.status()["running"] == 0, "all is done")
        worker.send_signal(signal.SIGTERM)
        self.ends(worker)
        self.assertEqual(["a 1", "b 1"], self.read("ran").splitlines()[:2])
        self.assertEqual([["completed"]] * 2, [self.outcomes(task) for task in "ab"])

    def test_a_disk_that_becomes_read_only(self):
        self.mount()
        self.each(["a"])
        self.assertEqual("", run("mount", "-o", "remount,bind,ro", str(self.disk)).stderr)
        for command in [["publish", "t", "1"], ["status"], ["work", "q", "-q", "--", "true"]]:
            self.assertIn("read-only", self.refused(5, *command).lower())
        self.assertEqual("", run("mount", "-o", "remount,bind,rw", str(self.disk)).stderr)
        self.settle("sh", "-c", "echo $ONCE_ATTEMPT")
        self.assertEqual("1\n", self.ok("wait", "a").out)

    def test_a_disk_without_room_for_a_database(self):
        self.mount()
        self.fill()
        said = self.refused(5, "publish", "t", "--store", str(self.disk / "new.db"))
        self.assertIn("full", said)
        self.make_room()
        self.ok("publish", "t", "--store", str(self.disk / "new.db"))


if __name__ == "__main__":
    enter_namespace()
    unittest.main()
