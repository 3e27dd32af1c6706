"""Once alone: whether a run costs the same when many runs have been. The program once_flow measures tenths."""
import json
import pathlib
import subprocess
import tempfile

import table
from role import Failed


def measure(peer, program, out, runs):
    """What the program said: its tenths, and the rest as one object."""
    with tempfile.TemporaryDirectory(dir=out) as folder:
        with peer.server()(pathlib.Path(folder)) as server:
            done = subprocess.run([program, server.url, str(runs)], text=True, stdout=subprocess.PIPE)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0 or not said or "never" not in said[-1]:
        raise Failed(f"once_flow ended with {done.returncode}")
    tenths = [line for line in said if "tenth" in line]
    return tenths, {key: value for line in said if "tenth" not in line for key, value in line.items()}


def row(name, tenths, rest):
    runs, seconds = sum(each["runs"] for each in tenths), sum(each["seconds"] for each in tenths)
    first, last = tenths[0], tenths[-1]
    rate = runs / seconds
    return [name, f"{runs:,}", f"{rate:,.0f}", f"{rest['plain_tasks_per_s'] / rate:.1f}",
            f"{sum(each['cpu_seconds'] for each in tenths) / runs * 1e3:.2f}",
            f"{last['seconds'] / first['seconds']:.2f}×", f"{last['cpu_seconds'] / first['cpu_seconds']:.2f}×",
            f"{first['peak_mib']} → {last['peak_mib']} MiB"]


def text(found):
    """`found`: {name: what measure() gave}."""
    rows = [["", "runs", "runs/s", "a run costs so many plain tasks", "processor, ms/run", "time of the last tenth to the first",
             "its processor time", "memory after the first and the last tenth"]]
    rows += [row(name, *each) for name, each in found.items()]
    never, twice = (sum(rest[key] for _, rest in found.values()) for key in ("never", "twice"))
    return (f"Once alone, starters, runner and worker in one process. {never} steps never ran, {twice} ran twice.\n\n"
            + table.markdown(rows))
