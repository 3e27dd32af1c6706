"""Measures how Once scales: with the ids in the log, worker processes, tasks in flight and the size of bodies.

On SQLite and on JetStream (server defaults), each in fresh data folders below --out. Prints tables, and writes them
beside the raw values and plots. A store that cannot be set up is named with the reason.

Usage: python3 bench/scale [options] ONCE_PEER ONCE_FILL
"""
import argparse
import datetime
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "compare"))
import peers  # noqa: E402
import report  # noqa: E402
from role import Failed  # noqa: E402

import curves  # noqa: E402
import shown  # noqa: E402

STORES = {"sqlite": "once-sqlite", "nats": "once-nats"}
# JetStream keeps an index of all ids in memory and fills slowly; its servers take messages of 1 MiB, headers included.
MOST = {("nats", "ids"): 1_000_000, ("nats", "bodies"): 1_000_000}


def numbers(text):
    return sorted({int(each) for each in text.split(",")})


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ids", type=numbers, default="10000,100000,1000000,10000000")
    parser.add_argument("--processes", type=numbers, default="1,2,4,8")
    parser.add_argument("--in-flight", type=numbers, default="1,2,4,8,16,32,64,128,256")
    parser.add_argument("--bodies", type=numbers, default="256,1024,4096,16384,65536,262144,1048576")
    parser.add_argument("--tasks", type=int, default=20_000, help="of one point, at most")
    parser.add_argument("--bytes", type=int, default=128 * 2**20, help="of bodies in one point, at most")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--curves", default=",".join(curves.CURVES))
    parser.add_argument("--out", type=pathlib.Path, default=peers.ROOT / "build" / "bench-scale")
    parser.add_argument("--write", action="store_true", help="put tables and plots into docs/performance.md")
    parser.add_argument("--remark", default="", help="a sentence for the tables' head")
    parser.add_argument("once", type=pathlib.Path, help="the program once_peer")
    parser.add_argument("fill", type=pathlib.Path, help="the program once_fill")
    return parser.parse_args()


def chosen(text, known, what):
    names = [name for name in text.split(",") if name]
    if (unknown := [name for name in names if name not in known]):
        sys.exit(f"bench/scale: no {what} {', '.join(unknown)}; there are: {', '.join(known)}")
    return names or list(known)


def points_of(curve, store, options):
    points = getattr(options, curve)
    return [point for point in points if point <= MOST.get((store, curve), points[-1])]


def measure_curve(driver, curve, points):
    """{point: what each round measured}, and why it ended early or None."""
    found = {}
    try:
        for point, measured in curves.CURVES[curve](driver, points):
            found.setdefault(point, []).append(measured)
    except (Failed, OSError, ValueError, subprocess.SubprocessError) as failure:
        return found, str(failure)
    return found, None


def run(options):
    stores = {}
    for store in chosen(options.stores, STORES, "store"):
        peer = peers.PEERS[STORES[store]]
        stores[store] = {"name": peer.name, "curves": {}, "failures": []}
        driver = curves.Driver(peer, options.once, options.fill, options.out, options)
        for curve in chosen(options.curves, curves.CURVES, "curve"):
            began = time.monotonic()
            found, why = measure_curve(driver, curve, points_of(curve, store, options))
            print(f"{peer.name}, {curve}: {time.monotonic() - began:.0f} s" + (f"; not all measured: {why}" if why else ""),
                  file=sys.stderr, flush=True)
            if found:
                stores[store]["curves"][curve] = found
            if why:
                stores[store]["failures"].append(f"{curve}: {why}")
    return {"date": datetime.date.today().isoformat(), "rounds": options.rounds, "tasks": options.tasks,
            "remark": options.remark, "machine": report.machine(), "stores": stores}


def exact(results):
    return all(one["never"] == 0 and one["twice"] == 0 for store in results["stores"].values()
               for found in store["curves"].values() for measured in found.values() for one in measured)


def main():
    options = arguments()
    options.once, options.fill = options.once.resolve(), options.fill.resolve()
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    results = run(options)
    shown.write_files(results, options.out)
    print(shown.text(results))
    if options.write:
        shown.write_documents(results, peers.ROOT)
    if not exact(results):
        sys.exit("bench/scale: not every id ran exactly once: this is a bug")
    if not any(store["curves"] for store in results["stores"].values()):
        sys.exit("bench/scale: nothing could be measured")


if __name__ == "__main__":
    main()
