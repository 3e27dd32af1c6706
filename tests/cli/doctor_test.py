#!/usr/bin/env -S python3 -B
"""once doctor: each finding made to happen, and a healthy zone without one."""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from once_command import BIN, NATS, OnceTest  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
ON_TMPFS = subprocess.run(
    ["stat", "-f", "-c", "%T", tempfile.gettempdir()], capture_output=True, text=True, check=False
).stdout.strip() in ("tmpfs", "ramfs")


class DoctorTest(OnceTest):
    def doctor(self, *arguments):
        """Findings by code, of a run that ends as they say."""
        answer = self.once("doctor", "--json", *arguments)
        self.assertIn(answer.code, (0, 4), answer.err)
        *findings, last = answer.lines
        self.assertEqual(len(findings), last["findings"])
        for finding in findings:
            self.assertEqual(["finding", "severity", "about", "what", "harm", "fix"], list(finding))
            self.assertTrue(all(finding.values()), finding)
        order = ["hazard", "warning", "unknown", "note"]
        places = [order.index(finding["severity"]) for finding in findings]
        self.assertEqual(sorted(places), places, "the worst comes first")
        self.assertEqual(4 if places and places[0] < 2 else 0, answer.code)
        self.checked = last["checked"]
        return {finding["finding"]: finding for finding in findings}

    def finds(self, code, severity, *arguments):
        """Now, or after a while: what it is about may need its time."""
        found = {}

        def look():
            found.clear()
            found.update(self.doctor(*arguments))
            return code in found and found[code]["severity"] == severity

        self.until(look, f"{code} is found", seconds=90)
        return found[code]

    def assert_healthy(self):
        serious = [f for f in self.doctor().values() if f["severity"] in ("hazard", "warning")]
        if ON_TMPFS:
            serious = [f for f in serious if f["finding"] != "volatile_file_system"]
        self.assertEqual([], serious)


class Tasks(DoctorTest):
    def test_a_healthy_zone(self):
        self.ok("queue", "add", "q", "--topic", "t")
        self.ok("queue", "add", "l", "--ledger")
        self.assert_healthy()
        for n in range(6):
            self.ok("publish", "t", str(n))
        self.ok("work", "q", "-q", "--until-empty", "--", "true")
        self.assert_healthy()
        self.assertTrue(any(line.startswith("queue q: 6 tasks looked at of 6") for line in self.checked), self.checked)
        text = self.ok("doctor").out if not ON_TMPFS else self.once("doctor").out
        self.assertIn("docs/effects.md", text)
        self.assertIn("Checked\n", text)
        if not ON_TMPFS:
            self.assertIn("Nothing found that loses or repeats a task.", text)

    def test_a_zone_at_work(self):
        self.ok("queue", "add", "q", "--topic", "t")
        program = self.script("slow", "echo $$ > running; exec sleep 60")
        self.start("work", "q", "-q", "--", program)
        self.ok("publish", "t")
        self.until((self.folder / "running").exists, "it runs")
        self.assert_healthy()

    def test_it_makes_nothing(self):
        self.leave_zone()
        self.refused(5, "doctor")
        self.assertEqual([], list(self.folder.iterdir()))
        self.refused(5, "doctor")

    def test_an_unknown_queue(self):
        self.ok("queue", "add", "q", "--topic", "t")
        self.assertIn("no queue 'r'", self.refused(6, "doctor", "--queue", "r"))
        self.doctor("--queue", "q")

    def test_unrouted_topics(self):
        self.ok("queue", "add", "q", "--topic", "t")
        for topic in ("u.a", "u.a", "u.b"):
            self.ok("publish", topic, "--unique", "-q")
        what = self.finds("unrouted", "warning")["what"]
        self.assertIn("3 tasks", what)
        self.assertIn("u.a (2), u.b (1)", what)

    def test_nobody_works(self):
        self.ok("queue", "add", "q", "--topic", "t", "--lease", "2s")
        self.ok("publish", "t")
        self.assertIn("1 task", self.finds("nobody_works", "warning")["what"])
        self.ok("queue", "pause", "q")
        found = self.doctor()
        self.assertEqual("note", found["paused"]["severity"])
        self.assertNotIn("nobody_works", found)
        self.assertEqual("note", found["short_lease"]["severity"])

    def test_dead_and_doubtful_tasks(self):
        self.ok("queue", "add", "q", "--topic", "t", "--attempts", "1", "--in-doubt", "hold")
        self.ok("publish", "t", '"dead"', "--id", "d")
        self.ok("publish", "t", '"doubt"', "--id", "u")
        program = self.script("judge", "[ $ONCE_ID = d ] && exit 65; exit 74")
        self.drained("work", "q", "-q", "--until-empty", "--", program, exits=1)
        found = self.doctor()
        self.assertIn("1 dead letter (d)", found["dead_letters"]["what"])
        self.assertIn("1 task (u)", found["in_doubt"]["what"])
        self.assertEqual({"note"}, {found[code]["severity"] for code in ("dead_letters", "in_doubt")})

    def test_a_worker_that_was_stopped_past_its_lease(self):
        self.ok("queue", "add", "q", "--topic", "t", "--lease", "2s")
        self.ok("publish", "t", "--id", "task-1")
        program = self.script("slow", "echo > running; exec sleep 600")
        worker = self.start("work", "q", "-q", "--", program)
        self.until((self.folder / "running").exists, "it runs")
        worker.send_signal(signal.SIGSTOP)
        self.assertIn("task-1", self.finds("abandoned_attempt", "warning")["what"])

    def test_a_retry_that_nobody_begins(self):
        self.ok("queue", "add", "l", "--ledger", "--lease", "1s", "--backoff", "1s", "--attempts", "5")
        token = self.ok("claim", "l", "k", "--json").line["token"]
        self.ok("fail", "l", "k", "--token", str(token), "--error", "no")
        self.assertIn("(k)", self.finds("overdue_retry", "warning")["what"])

    def test_an_attempt_that_runs_ten_times_the_median(self):
        self.ok("queue", "add", "q", "--topic", "t")
        for n in range(6):
            self.ok("publish", "t", str(n), "-q")
        self.ok("publish", "t", '"slow"', "--id", "slow")
        program = self.script("judge", "[ $ONCE_ID = slow ] && exec sleep 600; exit 0")
        self.start("work", "q", "-q", "--concurrency", "2", "--", program)
        self.assertIn("(slow)", self.finds("slow_attempt", "warning")["what"])

    def test_ids_that_are_soon_forgotten(self):
        self.ok("retention", "--bodies", "1m", "--records", "1m", "--ids", "1m")
        self.assertIn("3 min", self.finds("ids_kept_briefly", "warning")["what"])


@unittest.skipIf(NATS, "a file")
class File(DoctorTest):
    def setUp(self):
        super().setUp()
        self.ok("queue", "add", "q", "--topic", "t")
        self.file = self.folder / "once.db"

    def test_it_reads_only(self):
        self.ok("publish", "t")

        def state():
            files = [self.folder / ("once.db" + name) for name in ("", "-lock", "-members")]
            return [(file.read_bytes(), file.stat().st_mtime_ns) for file in files if file.exists()]

        before = state()
        self.doctor("--deep")
        self.assertTrue(before == state(), "something was written")
        log = self.folder / "once.db-wal"  # made by whoever reads
        self.assertTrue(not log.exists() or log.stat().st_size == 0)

    def test_another_program(self):
        with sqlite3.connect(self.file) as other:
            other.execute("SELECT count(*) FROM log").fetchone()
            finding = self.finds("other_program", "hazard")
            self.assertIn(f"({os.getpid()})", finding["what"])
        other.close()
        reader = sqlite3.connect(f"file:{self.file}?mode=ro", uri=True)
        reader.execute("SELECT count(*) FROM log").fetchone()
        self.finds("other_program", "note")
        reader.close()
        self.assert_healthy()

    def test_its_own_processes_are_not_others(self):
        worker = self.start("work", "q", "-q", "--", "true")
        self.until(lambda: self.ok("status", "--json").lines[0]["workers"] == 1, "it is there")
        self.assertNotIn("other_program", self.doctor())
        self.assertTrue(any("1 of Once's have it open" in line for line in self.checked), self.checked)
        self.assertIsNone(worker.poll())

    def test_another_program_with_the_library_that_only_reads(self):
        program = self.folder / "another"
        shutil.copy(BIN, program)
        reader = self.start("audit", "--watch=1s", "-q", executable=program)

        def seen():
            self.assertNotIn("other_program", self.doctor())
            return any("1 of Once's have it open" in line for line in self.checked)

        self.until(seen, "it has the file open")
        self.assertIsNone(reader.poll())

    def test_a_reader_that_pins_the_log(self):
        reader = sqlite3.connect(f"file:{self.file}?mode=ro", uri=True, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM log").fetchone()
        body = "x" * 1_000_000
        lines = "".join(json.dumps({"id": str(n), "topic": "t", "body": body}) + "\n" for n in range(110))
        self.ok("publish", "--batch", "-", "-q", stdin=lines)
        finding = self.finds("wal_large", "warning")
        self.assertIn(f"({os.getpid()})", finding["what"])
        reader.close()

    def test_a_damaged_file(self):
        lines = "".join(json.dumps({"id": str(n), "topic": "t", "body": "x" * 9000}) + "\n" for n in range(50))
        self.ok("publish", "--batch", "-", "-q", stdin=lines)
        size = self.file.stat().st_size
        with open(self.file, "r+b") as file:
            for page in range(30, size // 4096, 7):
                file.seek(page * 4096)
                file.write(b"\xff" * 64)
        self.finds("database_damaged", "hazard")

    def test_a_large_file_is_checked_when_asked(self):
        os.truncate(self.file, 300 << 20)
        self.assertEqual("unknown", self.doctor()["database_unchecked"]["severity"])
        self.assertNotIn("database_unchecked", self.doctor("--deep"))

    def test_not_in_wal_mode(self):
        other = sqlite3.connect(self.file)
        self.assertEqual("delete", other.execute("PRAGMA journal_mode=delete").fetchone()[0])
        other.close()
        self.finds("not_wal", "warning")
        self.ok("publish", "t")
        self.assertNotIn("not_wal", self.doctor())

    def test_side_files_that_not_all_may_use(self):
        self.ok("publish", "t")
        self.file.chmod(0o666)
        (self.folder / "once.db-lock").chmod(0o600)
        self.assertIn("once.db-lock", self.finds("side_file_rights", "warning")["about"])

    @unittest.skipUnless(Path("/dev/shm").is_dir() and os.access("/dev/shm", os.W_OK), "no /dev/shm")
    def test_a_file_in_memory(self):
        folder = tempfile.mkdtemp(prefix="once-doctor-", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, folder)
        store = folder + "/once.db"
        self.ok("queue", "add", "q", "--topic", "t", "--store", store)
        self.finds("volatile_file_system", "hazard", "--store", store)

    def test_a_disk_that_is_nearly_full(self):
        disk = self.folder / "disk"
        disk.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", disk], capture_output=True, check=False
        )
        if mounted.returncode != 0:
            self.skipTest("NOT TESTED: a full disk, because this user may not mount a tmpfs")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=True)
        self.ok("queue", "add", "q", "--topic", "t", "--store", str(disk / "once.db"))
        self.finds("disk_nearly_full", "hazard", "--store", str(disk / "once.db"))

    def test_what_another_user_cannot_see(self):
        if os.geteuid() != 0:
            self.skipTest("NOT TESTED: processes of others, because only root becomes another user")
        self.folder.chmod(0o777)
        self.ok("publish", "t")
        for file in self.folder.glob("once.db*"):
            file.chmod(0o666)
        try:
            done = subprocess.run(
                [BIN, "doctor", "--json"], cwd=self.folder, env=self.environment, capture_output=True, user=65534, check=False
            )
        except PermissionError:
            self.skipTest("NOT TESTED: processes of others, because they may not run this program")
        self.assertIn("open_files_unseen", [json.loads(line).get("finding") for line in done.stdout.splitlines()])


@unittest.skipIf(NATS, "the same on every store")
class Documentation(OnceTest):
    def test_every_finding_is_in_the_table(self):
        page = (ROOT / "docs" / "doctor.md").read_text()
        documented = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
        rows = self.keys("src/core/findings.cpp")
        known = {key.split("/")[0] for key in rows}
        self.assertGreater(len(known), 50)
        self.assertEqual(known, documented)
        found = set()
        for key in re.findall(r"\b(?:find|finding|check_room|gone)\(([^,;]*)", self.sources()):
            found |= set(re.findall(r'"(\w+(?:/\w+)?)"', key))
        self.assertEqual(set(rows), found, "each row is found by some source, and each finding has its row")

    def test_every_fix_that_is_a_command_belongs_to_a_finding(self):
        rows = self.keys("src/core/findings.cpp")
        fixes = self.keys("src/shapes/fixes.cpp")
        self.assertGreater(len(fixes), 30)
        self.assertEqual([], [key for key in fixes if key not in rows and not any(row.startswith(key + "/") for row in rows)])
        for key in fixes:  # the first row that fits is taken
            if "/" in key and key.split("/")[0] in fixes:
                self.assertLess(fixes.index(key), fixes.index(key.split("/")[0]))

    def test_a_text_names_only_facts_that_a_source_gives(self):
        given = set(re.findall(r'\{"(\w+)",', self.sources()))
        self.assertGreater(len(given), 40)
        for table, more in (("src/core/findings.cpp", set()), ("src/shapes/fixes.cpp", {"worker", "option"})):
            rows = re.sub(r"^//.*$", "", (ROOT / table).read_text(), flags=re.MULTILINE)
            named = set(re.findall(r"\{(\w+)\}", rows))
            self.assertGreater(len(named), 5)
            self.assertEqual(set(), named - given - more)

    def sources(self):
        """What looks for findings."""
        stores = [*ROOT.glob("src/store/*/doctor.cpp"), *ROOT.glob("src/store/*/doctor/*.cpp")]
        apis = [ROOT / "src/api/doctor.cpp", ROOT / "src/api/stuck_runs.cpp"]
        files = [ROOT / "src/inspect/doctor.cpp", *apis, *stores]
        return "\n".join(file.read_text() for file in files)

    def keys(self, source):
        """The first cells of the rows of a table, CODE or CODE/CASE."""
        keys = re.findall(r'^    \{"(\w+(?:/\w+)?)",', (ROOT / source).read_text(), re.MULTILINE)
        self.assertEqual(len(keys), len(set(keys)))
        return keys


if __name__ == "__main__":
    unittest.main()
