"""What a run cost: processor time and memory from /proc, flushes and bytes from the disk's own counters."""
import os
import pathlib
import threading
import time

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = pathlib.Path("/proc")


def _stat(pid):
    """The fields of /proc/PID/stat after the name, which may hold anything."""
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def tree(root):
    """The process and its descendants that live now."""
    children = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            try:
                children.setdefault(int(_stat(entry.name)[1]), []).append(int(entry.name))
            except (OSError, IndexError):
                continue  # it ended meanwhile
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def cpu_seconds(roots):
    """Of the processes, their descendants and those descendants that have ended."""
    ticks = 0
    for root in roots:
        for pid in tree(root):
            try:
                ticks += sum(map(int, _stat(pid)[11:15]))
            except OSError:
                continue
    return ticks / _TICKS


def pss_bytes(roots):
    """Memory with what is shared counted once."""
    total = 0
    for root in roots:
        for pid in tree(root):
            try:
                text = (_PROC / str(pid) / "smaps_rollup").read_text()
            except OSError:
                continue
            total += next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)
    return total * 1024


class Peak:
    """The highest memory of some processes while it is open. Looking takes a twentieth of the time at most."""

    def __init__(self, roots):
        self.roots = roots
        self.bytes = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self):
        pause = 0
        while not self._end.wait(pause):
            began = time.monotonic()
            self.bytes = max(self.bytes, pss_bytes(self.roots))
            pause = max(0.05, 20 * (time.monotonic() - began))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()
        self.bytes = max(self.bytes, pss_bytes(self.roots))


class Disk:
    """The disk below a folder, as the kernel counts it. Others who use it are counted too."""

    def __init__(self, folder):
        device = os.stat(folder).st_dev
        block = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
        self._file = (block.parent if (block / "partition").exists() else block) / "stat"

    def _field(self, index, unit):
        try:
            return int(self._file.read_text().split()[index]) * unit
        except (OSError, IndexError):
            return None  # it does not count them

    def flushes(self):
        return self._field(15, 1)

    def bytes_written(self):
        """What is still in memory is written out first, so that it counts."""
        os.sync()
        return self._field(6, 512)


def difference(after, before):
    return None if after is None or before is None else after - before
