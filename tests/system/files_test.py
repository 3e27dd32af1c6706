#!/usr/bin/env -S python3 -B
"""The file under the command: two names of one file, files that are deleted or moved while the command
uses them, time namespaces and boot ids of containers. No receipt that was given is void, and no effect
happens twice.
"""

import ctypes
import json
import os
import platform
import shutil
import struct
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from real_processes import BIN, Answer, SystemTest, skip_loudly  # noqa: E402

SOON = 5  # seconds; the promise is two, on a machine that has time
STATX = {"x86_64": 332, "aarch64": 291}.get(platform.machine())  # the number of the system call


def forbid_statx():
    """This process and its children get EPERM from statx(), as the sandboxes of older containers answer."""
    load, jump_if_equal, give = 0x20, 0x15, 0x06  # of a classic BPF program: the word at 0 is the call's number
    program = [(load, 0, 0, 0), (jump_if_equal, 0, 1, STATX), (give, 0, 0, 0x00050000 | 1), (give, 0, 0, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    filter_of_calls = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_filter = (38, 1, 0, 0, 0), (22, 2, filter_of_calls)
    if libc.prctl(*no_new_privileges) != 0 or libc.prctl(*set_filter) != 0:
        os._exit(126)


class Files(SystemTest):
    def setUp(self):
        super().setUp()
        self.database = self.folder / "once.db"
        self.queue()

    def inside(self, *command):
        """What a command does in namespaces of its own; skips the test where that is not permitted."""
        probe = subprocess.run(["unshare", *command[: command.index("--")], "true"], capture_output=True, text=True)
        if probe.returncode != 0:
            skip_loudly(self, f"not permitted here: {probe.stderr!r}")
        done = subprocess.run(
            ["unshare", *command], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=60
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def mounted(self, source, target, *command):
        """The command where `source` is mounted on `target`, as a container has it."""
        script = 'mount --bind "$0" "$1" && shift && exec "$@"'
        return self.inside("-m", "--", "sh", "-c", script, str(source), str(target), BIN, *command)

    def in_log(self):
        return {entry["id"] for entry in self.ok("log", "--json").lines}

    def idle_worker(self, *options):
        worker = self.background("work", "q", "-q", *options, "--", "true")
        self.await_workers(1)
        return worker

    def delete(self, *suffixes):
        for suffix in suffixes:
            (self.folder / f"once.db{suffix}").unlink()

    def await_open(self, process):
        def is_open():
            links = Path(f"/proc/{process.pid}/fd").iterdir()
            return any(os.readlink(link) == f"{self.database}-shm" for link in links)

        self.until(is_open, "it has the database open")

    def ends_soon(self, process, *words):
        began = time.monotonic()
        self.ends(process, 5)
        self.assertLess(time.monotonic() - began, SOON)
        said = self.said(process)
        for word in words:
            self.assertIn(word, said)
        return said


class TwoNames(Files):
    def test_a_hard_link(self):
        os.link(self.database, self.folder / "link.db")
        for store in ["once.db", "link.db"]:
            for command in [["publish", "t", "--id", "a"], ["status"], ["work", "q", "--until-empty", "--", "true"]]:
                with self.subTest(store=store, command=command):
                    said = self.refused(5, "--store", store, *command)
                    self.assertIn("hard link", said)
                    self.assertIn("nothing was done", said)
        found = self.once("doctor", "--json")
        self.assertEqual(4, found.code, found.err)
        self.assertIn("second_name", [line.get("finding") for line in found.lines])
        (self.folder / "link.db").unlink()
        self.ok("publish", "t", "--id", "a")

    def test_a_link_that_is_made_under_a_worker_and_replaces_the_name(self):
        program = self.script("count", 'echo "$ONCE_ID" >> ran')
        worker = self.background("work", "q", "-q", "--", program)
        self.await_workers(1)
        self.ok("publish", "t", "--id", "a")
        self.until(lambda: self.status()["completed"] == 1, "a is completed")
        os.link(self.database, self.folder / "link.db")
        self.database.unlink()
        self.ends_soon(worker, "once.db was deleted, moved or replaced")
        again = self.ok("publish", "t", "--id", "a", "--json", "--store", "link.db")
        self.assertTrue(again.line["duplicate"], "the receipt and the record are in the file")
        self.ok("work", "q", "-q", "--until-empty", "--store", "link.db", "--", program)
        self.assertEqual("a\n", self.read("ran"))

    def test_a_file_that_is_mounted_alone(self):
        (self.folder / "data").mkdir()
        inside = self.folder / "data" / "once.db"
        inside.touch()
        refused = self.mounted(self.database, inside, "--store", str(inside), "publish", "t", "--id", "a")
        self.assertEqual(5, refused.code, refused.err)
        self.assertIn("mounted as a single file", refused.err)
        self.assertIn("docs/containers.md", refused.err)
        self.assertEqual(["once.db"], os.listdir(inside.parent), "nothing was made beside it")

    def test_a_side_file_that_is_mounted_alone(self):
        self.idle_worker()
        (self.folder / "other").touch()
        for suffix in ["-lock", "-members", "-wal", "-shm"]:
            side = self.folder / f"once.db{suffix}"
            refused = self.mounted(self.folder / "other", side, "publish", "t", "--id", suffix)
            self.assertEqual(5, refused.code, (suffix, refused.err))
            self.assertIn(f"once.db{suffix} is mounted", refused.err)
        self.assertEqual(set(), self.in_log())

    def test_a_folder_may_be_mounted(self):
        (self.folder / "data").mkdir()
        store = str(self.folder / "data" / "once.db")
        worker = self.idle_worker()
        first = self.ok("publish", "t", "--id", "a", "--json").line
        again = self.mounted(self.folder, self.folder / "data", "--store", store, "publish", "t", "--id", "a", "--json")
        self.assertEqual(0, again.code, again.err)
        self.assertEqual({**first, "duplicate": True}, again.line)
        other = self.mounted(self.folder, self.folder / "data", "--store", store, "publish", "t", "--id", "b")
        self.assertEqual(0, other.code, other.err)
        self.until(lambda: self.status()["completed"] == 2, "the worker outside does both")
        self.assertIsNone(worker.poll())

    def test_links_to_a_name_and_relative_names_are_one_name(self):
        os.symlink("once.db", self.folder / "link.db")
        self.ok("publish", "t", "--id", "a")
        for store in ["link.db", "./once.db", "../" + self.folder.name + "/link.db", str(self.database)]:
            again = self.ok("publish", "t", "--id", "a", "--json", "--store", store)
            self.assertTrue(again.line["duplicate"], store)


@unittest.skipUnless(STATX, "the number of statx() is known on x86-64 and ARM64 only")
class WithoutStatx(Files):
    """Where a sandbox forbids statx(), the files are compared by stat()."""

    def setUp(self):
        super().setUp()
        probe = subprocess.run(["true"], preexec_fn=forbid_statx)
        if probe.returncode != 0:
            skip_loudly(self, "no filter of system calls is permitted here")

    def sandboxed(self, *arguments):
        done = subprocess.run(
            [BIN, *arguments], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=60,
            preexec_fn=forbid_statx,
        )  # fmt: skip
        return Answer(done.returncode, done.stdout, done.stderr)

    def test_the_sandbox_forbids_it(self):
        """Else the tests of this class show nothing."""
        code = f"import ctypes, os; c = ctypes.CDLL(None, use_errno=True); r = c.syscall({STATX}, -100, b'/', 0, 0, 0)"
        asked = subprocess.run(
            [sys.executable, "-c", code + "; print(r, ctypes.get_errno())"], capture_output=True, text=True,
            preexec_fn=forbid_statx,
        )  # fmt: skip
        self.assertEqual("-1 1\n", asked.stdout, asked.stderr)

    def test_tasks_are_published_and_run(self):
        published = self.sandboxed("publish", "t", "--id", "a")
        self.assertEqual((0, ""), (published.code, published.err))
        worked = self.sandboxed("work", "q", "-q", "--until-empty", "--", "true")
        self.assertEqual((0, ""), (worked.code, worked.err))
        self.assertEqual("completed", self.story("a")["state"])

    def test_a_second_name_is_still_seen(self):
        os.link(self.database, self.folder / "link.db")
        refused = self.sandboxed("publish", "t", "--id", "a")
        self.assertEqual(5, refused.code, refused.err)
        self.assertIn("hard link", refused.err)

    def test_a_deleted_file_is_still_seen(self):
        worker = self.background("work", "q", "-q", "--", "true", preexec_fn=forbid_statx)
        self.await_workers(1)
        self.await_open(worker)
        self.delete("-wal", "-shm")
        self.ends_soon(worker, "was deleted, moved or replaced")


class Deleted(Files):
    def test_files_beside_the_database_under_an_idle_worker(self):
        for suffixes in [["-shm"], ["-wal"], ["-wal", "-shm"], ["-wal", "-shm", "-lock", "-members"]]:
            with self.subTest(deleted=suffixes):
                worker = self.idle_worker()
                tasks = [f"{n}{''.join(suffixes)}" for n in range(3)]
                for task in tasks:
                    self.ok("publish", "t", "--id", task)
                self.until(lambda: self.story(tasks[-1])["state"] == "completed", "they are done")
                before = self.in_log()
                self.delete(*suffixes)
                self.ends_soon(worker, f"once.db{suffixes[0]} was deleted", "nothing was recorded")
                self.assertEqual(before, self.in_log())
                for task in tasks:
                    self.assertTrue(self.ok("publish", "t", "--id", task, "--json").line["duplicate"])
                self.ok("audit")

    def test_a_log_that_is_truncated_under_a_publisher_gives_no_receipt(self):
        for size in [0, 20000]:
            with self.subTest(size=size):
                publisher = subprocess.Popen(
                    [BIN, "publish", "--batch", "-", "--json"],
                    cwd=self.folder, env=self.environment, text=True, bufsize=1,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                )  # fmt: skip
                self.addCleanup(publisher.kill)
                for n in range(4):
                    print(json.dumps({"topic": "t", "id": f"{size}-{n}", "body": n}), file=publisher.stdin)
                    self.assertFalse(json.loads(publisher.stdout.readline())["duplicate"])
                os.truncate(f"{self.database}-wal", size)
                late = json.dumps({"topic": "t", "id": f"{size}-late", "body": 1})
                answered, said = publisher.communicate(late + "\n", timeout=60)
                self.assertEqual(5, publisher.returncode, said)
                self.assertNotIn("sequence", answered)
                self.assertIn("once.db-wal was truncated", said)
                self.delete("-wal", "-shm")
                self.assertNotIn(f"{size}-late", self.in_log())

    def test_a_database_that_is_emptied_under_a_worker_ends_it(self):
        worker = self.idle_worker()
        os.truncate(self.database, 0)
        self.ends_soon(worker, "once.db was truncated")

    def test_files_beside_the_database_under_publishers(self):
        worker = self.idle_worker()
        receipts = set()
        for n in range(30):
            if n == 10:
                self.delete("-wal", "-shm")
            done = self.once("publish", "nobody", "--id", f"i{n}")
            self.assertIn(done.code, (0, 5), done.err)
            if done.code == 0:
                receipts.add(f"i{n}")
        self.ends_soon(worker, "once.db-wal was deleted")
        self.assertGreater(len(receipts), 10)
        self.assertEqual(receipts, self.in_log(), "every receipt stands")
        self.ok("audit")

    def test_files_beside_the_database_under_a_publisher_in_the_middle(self):
        for suffixes in [["-shm"], ["-wal", "-shm"]]:
            with self.subTest(deleted=suffixes):
                name = "".join(suffixes)
                out = open(self.folder / f"receipts{name}", "w+b")
                self.addCleanup(out.close)
                process = self.start("publish", "--batch", "-", "--json", stdin=subprocess.PIPE, stdout=out)

                def feed():
                    try:
                        for n in range(200_000):
                            process.stdin.write(f'{{"topic":"t","id":"{name}{n}"}}\n'.encode())
                        process.stdin.close()
                    except BrokenPipeError:
                        pass

                feeder = threading.Thread(target=feed)
                feeder.start()
                self.until(lambda: os.fstat(out.fileno()).st_size > 0, "the first receipts are given")
                self.delete(*suffixes)
                said = process.stderr.read().decode()
                process.wait(timeout=60)
                feeder.join()
                self.assertIn(process.returncode, (5, 7), said)
                self.assertIn("was deleted", said)
                out.seek(0)
                lines = [json.loads(line) for line in out.read().splitlines()]
                given = {line["id"] for line in lines if "sequence" in line and "error" not in line}
                self.assertGreater(len(given), 0)
                self.assertEqual(given, given & self.in_log(), "every receipt stands")

    def test_a_busy_worker_saves_the_log_and_holds_up_nobody(self):
        self.each(["a"])
        self.background("work", "q", "-q", "--", self.script("slow", "echo $$ > began; exec sleep 60"))
        self.pids("began")
        self.delete("-wal", "-shm")
        self.ok("publish", "t", "--id", "b")
        self.assertEqual({"a", "b"}, self.in_log())
        self.assertEqual("running", self.story("a")["state"], "its lease is in the database too")

    def test_the_database_under_workers_and_readers(self):
        kept = self.folder / "kept"
        for how in ["deleted", "moved", "replaced"]:
            with self.subTest(how=how):
                worker = self.idle_worker()
                watching = self.background("audit", "--watch=100ms")
                self.await_open(watching)
                kept.mkdir()
                shutil.copy(self.database, kept / "copy")
                for file in self.folder.glob("once.db*"):
                    file.unlink() if how == "deleted" else file.rename(kept / file.name)
                if how == "replaced":
                    (kept / "copy").rename(self.database)
                for process in [worker, watching]:
                    self.ends_soon(process, "once.db was deleted, moved or replaced")
                shutil.rmtree(kept)
                self.begin_anew()
                self.queue()

    def test_a_wait_for_a_task_in_a_deleted_database(self):
        self.each(["a"])
        waiting = self.background("wait", "a", "--timeout", "1m")
        self.await_open(waiting)
        self.delete("", "-wal", "-shm")
        self.ends_soon(waiting, "once.db")


class Doctor(Files):
    def findings(self, answer):
        self.assertIn(answer.code, (0, 4), answer.err)
        return {line["finding"]: line["severity"] for line in answer.lines if "finding" in line}

    def test_names_a_process_with_a_deleted_file(self):
        worker = self.idle_worker()
        self.assertNotIn("deleted_file", self.findings(self.once("doctor", "--json")))
        self.suspend(worker)
        self.delete("-shm")
        found = self.once("doctor", "--json")
        self.assertEqual("hazard", self.findings(found).get("deleted_file"))
        self.assertIn(f"({worker.pid})", found.out)

    def test_names_a_boot_id_of_a_containers_own(self):
        (self.folder / "id").write_text("00000000-1111-2222-3333-444444444444\n")
        found = self.mounted(self.folder / "id", "/proc/sys/kernel/random/boot_id", "doctor", "--json")
        self.assertEqual("note", self.findings(found).get("boot_unknown"))
        self.assertNotIn("boot_unknown", self.findings(self.once("doctor", "--json")))

    def test_names_a_process_in_a_time_namespace(self):
        self.idle_worker()
        found = self.inside(*Time.AHEAD, BIN, "doctor", "--json")
        self.assertEqual("note", self.findings(found).get("time_namespace"))
        self.assertNotIn("time_namespace", self.findings(self.once("doctor", "--json")))


class Time(Files):
    AHEAD = ["--time", "--boottime", "40000000", "--fork", "--"]

    def test_a_namespace_does_not_move_the_zones_time(self):
        self.ok("retention", "--bodies", "1h", "--records", "1h", "--ids", "1h")
        self.ok("queue", "add", "ledger", "--ledger")
        self.each(["a", "b"])
        self.ok("work", "q", "-q", "--until-empty", "--", "true")
        self.ok("claim", "ledger", "key", "--lease", "1h")
        for command in [["publish", "t", "--id", "c"], ["work", "q", "-q", "--until-empty", "--", "true"]]:
            done = self.inside(*self.AHEAD, BIN, *command)
            self.assertEqual(0, done.code, done.err)
        held = self.inside(*self.AHEAD, BIN, "claim", "ledger", "key")
        self.assertEqual(8, held.code, "the lease runs")
        retired = self.inside(*self.AHEAD, BIN, "retention", "--run", "--json")
        self.assertEqual({0}, set(retired.line.values()))
        self.assertEqual({0}, set(self.ok("retention", "--run", "--json").line.values()))
        self.assertEqual(8, self.once("claim", "ledger", "key").code, "nothing of it was kept")
        self.assertTrue(self.ok("publish", "t", "--id", "a", "--json").line["duplicate"])

    def test_a_boot_id_of_a_containers_own_ends_no_lease(self):
        self.ok("queue", "add", "ledger", "--ledger")
        self.ok("claim", "ledger", "out", "--lease", "1h")
        (self.folder / "id").write_text("00000000-1111-2222-3333-444444444444\n")
        boot_id = "/proc/sys/kernel/random/boot_id"
        claimed = self.mounted(self.folder / "id", boot_id, "claim", "ledger", "in", "--lease", "1h")
        self.assertEqual(0, claimed.code, claimed.err)
        for _ in range(2):
            for key in ["in", "out"]:
                self.assertEqual(8, self.mounted(self.folder / "id", boot_id, "claim", "ledger", key).code)
                self.assertEqual(8, self.once("claim", "ledger", key).code)

    def test_without_proc_nothing_is_done(self):
        done = self.inside("-m", "--", "sh", "-c", f"umount -l /proc && exec {BIN} publish t --id a")
        if "umount" in done.err:
            skip_loudly(self, f"not permitted here: {done.err!r}")
        self.assertEqual(5, done.code, done.err)
        self.assertIn("mount /proc", done.err)


if __name__ == "__main__":
    unittest.main()
