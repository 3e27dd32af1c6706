"""Measures runs of a workflow of three steps: how many a second, in how much memory, and whether a run costs the
same when many have been. On SQLite and on JetStream (server defaults), each in a fresh data folder below --out.

Usage: python3 bench/flow [options] ONCE_FLOW
"""
import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "compare"))
import peers  # noqa: E402
import report  # noqa: E402
import table  # noqa: E402
from role import Failed  # noqa: E402

STORES = {"sqlite": "once-sqlite", "nats": "once-nats"}
BEGIN = report.BEGIN.replace("make bench ", "make bench-flow ")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--out", type=pathlib.Path, default=peers.ROOT / "build" / "bench-flow")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    parser.add_argument("once", type=pathlib.Path, help="the program once_flow")
    return parser.parse_args()


def measured(store, options):
    """What the program said: its tenths, and the rest as one object."""
    with tempfile.TemporaryDirectory(dir=options.out) as folder:
        with peers.PEERS[STORES[store]].server()(pathlib.Path(folder)) as server:
            done = subprocess.run([options.once, server.url, str(options.runs)], text=True, stdout=subprocess.PIPE)
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


def text(results):
    rows = [["", "runs", "runs/s", "a run costs so many plain tasks", "processor, ms/run", "time of the last tenth to the first",
             "its processor time", "memory after the first and the last tenth"]]
    rows += [row(peers.PEERS[STORES[store]].name, *found) for store, found in results.items()]
    never = sum(rest["never"] for _, rest in results.values())
    twice = sum(rest["twice"] for _, rest in results.values())
    head = report.about({"date": datetime.date.today().isoformat(), "rounds": 1, "machine": report.machine(), "remark": "",
                         "tasks": max(sum(each["runs"] for each in tenths) for tenths, _ in results.values())},
                        "{:,} runs of three steps, no-op handlers")
    return f"{head} {never} steps never ran, {twice} ran twice.\n\n" + table.markdown(rows) + "\n"


def main():
    options = arguments()
    options.once, options.out = options.once.resolve(), options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    results = {}
    for store in options.stores.split(","):
        if store not in STORES:
            sys.exit(f"bench/flow: no store {store}; there are: {', '.join(STORES)}")
        try:
            results[store] = measured(store, options)
        except (Failed, OSError, ValueError) as failure:
            print(f"{store} could not be measured: {failure}", file=sys.stderr)
    if not results:
        sys.exit("bench/flow: nothing could be measured")
    (options.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    print(text(results))
    if options.write:
        file = peers.ROOT / "docs" / "performance.md"
        file.write_text(report.between(file.read_text(), "flows", text(results), BEGIN))
    if any(rest["never"] or rest["twice"] for _, rest in results.values()):
        sys.exit("bench/flow: not every step ran exactly once: this is a bug")


if __name__ == "__main__":
    main()
