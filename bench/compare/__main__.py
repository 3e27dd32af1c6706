"""Measures Once and what people would pick instead, with the same workload on the same machine.

The peers take turns, round by round; every run has a fresh server and data folder, below --out. Ends
with a table of medians, lowest and highest, and writes it beside the raw values and plots. A peer that
cannot be set up is named with the reason and does not stop the others.

Usage: python3 bench/compare [--rounds N] [--tasks N] [--peers NAME,...] [--write] ONCE_PEER
"""
import argparse
import datetime
import pathlib
import sys

import peers
import report
import rounds
import turns


def run(options):
    chosen = turns.chosen("bench/compare", options.peers, peers.PEERS)

    def measure(peer, number):
        return rounds.measure(peer, peers.command_of(peer, options.once), options.out, options.tasks, number)

    return {"date": datetime.date.today().isoformat(), "rounds": options.rounds, "tasks": options.tasks,
            "remark": options.remark, "machine": report.machine(), "node": peers.node_version(),
            "peers": turns.take(chosen, options.rounds, measure)}


def exact(results):
    """Did Once run every id exactly once, and complete none twice?"""
    for peer in results["peers"].values():
        for one in peer["rounds"] if peer["once"] else []:
            ledgers = [kill["ledger"] for kill in one["kill"].values()]
            if one["never"] or one["twice"] or any(ledger["completed_twice"] or ledger["unexplained"]
                                                   or ledger["completed"] + ledger["in_doubt"] != kill["tasks"]
                                                   for ledger, kill in zip(ledgers, one["kill"].values())):
                return False
    return True


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--tasks", type=int, default=50_000)
    arguments.add_argument("--peers", default="", help="by default all: " + ", ".join(peers.PEERS))
    arguments.add_argument("--out", type=pathlib.Path, default=peers.ROOT / "build" / "bench")
    arguments.add_argument("--write", action="store_true", help="put table and plots into docs and README")
    arguments.add_argument("--remark", default="", help="a sentence for the table's head")
    arguments.add_argument("once", type=pathlib.Path, help="the program once_peer")
    options = arguments.parse_args()
    options.once, options.out = options.once.resolve(), options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)

    results = run(options)
    report.write_files(results, options.out)
    print(report.text(results))
    if options.write:
        report.write_documents(results, peers.ROOT)
    if not exact(results):
        sys.exit("bench/compare: Once did not run every id exactly once: this is a bug")
    if not any(peer["rounds"] for peer in results["peers"].values()):
        sys.exit("bench/compare: nobody could be measured")


if __name__ == "__main__":
    main()
