"""Measures runs of a workflow of three steps, on Once and on its peers.

First the peers take turns, round by round. Every run has a fresh server and data folder, below --out. Then Once alone
runs --curve runs in tenths, which shows whether a run costs the same when many have been. A peer that cannot be set up
is named with the reason and does not stop the others.

Usage: python3 bench/flow [--runs N] [--rounds N] [--peers NAME,...] [--curve N] [--write] ONCE_FLOW
"""
import argparse
import datetime
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "compare"))
import peers  # noqa: E402
import report  # noqa: E402
import table  # noqa: E402
import turns  # noqa: E402
from role import Failed  # noqa: E402

import curve  # noqa: E402
import flow_rounds  # noqa: E402
from flow_peers import PEERS  # noqa: E402

BEGIN = report.BEGIN.replace("make bench ", "make bench-flow ")
CURVES = ("once-sqlite", "once-nats")
MEASURES = [
    table.Measure("runs_per_s", "runs", "per second", True),
    table.Measure("cpu", "processor time", "ms/run"),
    table.Measure("memory", "peak memory of all processes", "MiB"),
    table.Measure("flushes", "disk flushes", "per run"),
]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default="", help="by default all: " + ", ".join(PEERS))
    parser.add_argument("--curve", type=int, help="runs of Once alone, by default ten times --runs; 0: none")
    parser.add_argument("--out", type=pathlib.Path, default=peers.ROOT / "build" / "bench-flow")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/performance.md")
    parser.add_argument("--remark", default="", help="a sentence for the tables' head")
    parser.add_argument("once", type=pathlib.Path, help="the program once_flow")
    return parser.parse_args()


def measured(options):
    chosen = turns.chosen("bench/flow", options.peers, PEERS)

    def measure(peer, number):
        return flow_rounds.measure(peer, peers.command_of(peer, options.once), options.out, options.runs, number)

    return {"date": datetime.date.today().isoformat(), "rounds": options.rounds, "tasks": options.runs,
            "remark": options.remark, "machine": report.machine(), "node": peers.node_version(),
            "peers": turns.take(chosen, options.rounds, measure), "curve": curves(chosen, options)}


def curves(chosen, options):
    """{name: what was measured} of each Once that was chosen."""
    runs = options.runs * 10 if options.curve is None else options.curve
    found = {}
    for peer in (chosen[key] for key in CURVES if key in chosen and runs > 0):
        try:
            found[peer.name] = curve.measure(peer, options.once, options.out, runs)
        except (Failed, OSError, ValueError) as failure:
            print(f"{peer.name} could not be measured alone: {failure}", file=sys.stderr)
    return found


def comparison_table(found):
    rows = [["", *(f"{measure.title}, {measure.unit}" for measure in MEASURES), "steps that never ran / ran twice"]]
    for peer in table.measured(found).values():
        counts = (sum(table.values_of(peer, key)) for key in ("never", "twice"))
        rows.append([table.named(peer), *(table.cell(found, peer, measure) for measure in MEASURES),
                     "{} / {}".format(*counts)])
    return table.markdown(rows)


def text(results):
    found = results["peers"]
    parts = [report.about(results, "{:,} runs of three steps, no-op handlers", f", node {results['node']}")]
    if table.measured(found):
        parts += [comparison_table(found),
                  "Killed in the middle of the runs (SIGKILL of the worker), counts of each round:",
                  table.kill_table(found, "steps"), "Settings:", table.settings_table(found, "runs")]
    if (missing := table.not_measured(found)):
        parts += ["Not measured:", missing]
    if results["curve"]:
        parts += [curve.text(results["curve"])]
    return "\n\n".join(parts) + "\n"


def exact(results):
    """True if Once ran every step exactly once and, after a kill, completed none twice and lost none."""
    for _, rest in results["curve"].values():
        if rest["never"] or rest["twice"]:
            return False
    for peer in results["peers"].values():
        for one in peer["rounds"] if peer["once"] else []:
            if one["never"] or one["twice"]:
                return False
            for policy, kill in one["kill"].items():
                ledger = kill["ledger"]
                if ledger["completed_twice"] or ledger["unexplained"]:
                    return False
                # Steps after a held step do not run, so only `retry` must complete them all.
                if policy == "retry" and (kill["never"] or ledger["completed"] != kill["tasks"]):
                    return False
                if policy == "hold" and kill["twice"]:
                    return False
    return True


def main():
    options = arguments()
    options.once, options.out = options.once.resolve(), options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    results = measured(options)
    (options.out / "results.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    (options.out / "table.md").write_text(text(results))
    print(text(results))
    if options.write:
        file = peers.ROOT / "docs" / "performance.md"
        file.write_text(report.between(file.read_text(), "flows", text(results), BEGIN))
    if not exact(results):
        sys.exit("bench/flow: Once did not run every step exactly once: this is a bug")
    if not results["curve"] and not table.measured(results["peers"]):
        sys.exit("bench/flow: nothing could be measured")


if __name__ == "__main__":
    main()
