"""Measures Once and what people would pick instead, with the same workload on the same machine.

The peers take turns, round by round; every run has a fresh server and data folder, below --out. Ends
with a table of medians, lowest and highest, and writes it beside the raw values and plots. A peer that
cannot be set up is named with the reason and does not stop the others.

Usage: python3 bench/compare [--rounds N] [--tasks N] [--peers NAME,...] [--write] ONCE_PEER
"""
import argparse
import datetime
import pathlib
import shutil
import subprocess
import sys
import time

import peers
import report
import rounds
from role import Failed


def measure_round(peer, once, out, tasks, seed):
    """(what was measured or None, why not or None)."""
    try:
        return rounds.measure(peer, peers.command_of(peer, once), out, tasks, seed), None
    except (Failed, OSError, ValueError, subprocess.SubprocessError) as failure:
        return None, str(failure)


def known(peer):
    """What a reader is told of the peer, and where its rounds go."""
    return {"name": peer.name, "once": peer.program == "once", "durable": peer.durable,
            "beside": peer.beside, "settings": peer.settings,
            "killed": peer.killed, "version": "", "rounds": [], "failures": []}


def chosen_peers(text):
    names = text.split(",") if text else list(peers.PEERS)
    unknown = [name for name in names if name not in peers.PEERS]
    if unknown:
        sys.exit(f"bench/compare: no peer {', '.join(unknown)}; there are: {', '.join(peers.PEERS)}")
    return {name: peers.PEERS[name] for name in names}


def run(options):
    chosen = chosen_peers(options.peers)
    found = {key: known(peer) for key, peer in chosen.items()}
    for number in range(1, options.rounds + 1):
        for key, peer in chosen.items():
            if found[key]["failures"] and not found[key]["rounds"]:
                continue  # it would fail again
            began = time.monotonic()
            measured, why = measure_round(peer, options.once, options.out, options.tasks, number)
            print(f"round {number} of {options.rounds}: {peer.name}, {time.monotonic() - began:.0f} s"
                  + (f"; not measured: {why}" if why else ""), file=sys.stderr, flush=True)
            if measured:
                found[key]["rounds"].append(measured)
                found[key]["version"] = peer.version()
            else:
                found[key]["failures"].append(why)
    return {"date": datetime.date.today().isoformat(), "rounds": options.rounds, "tasks": options.tasks,
            "remark": options.remark, "machine": report.machine(),
            "node": peers.said("node", "--version") if shutil.which("node") else "none", "peers": found}


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
