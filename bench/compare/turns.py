"""The peers take turns, round by round, so that a slow minute of the machine affects all of them."""
import subprocess
import sys
import time

from role import Failed


def chosen(program, names, peers):
    """The peers of a comma-separated list, all of them if it is empty. An unknown name ends the program."""
    wanted = names.split(",") if names else list(peers)
    unknown = [name for name in wanted if name not in peers]
    if unknown:
        sys.exit(f"{program}: no peer {', '.join(unknown)}; there are: {', '.join(peers)}")
    return {name: peers[name] for name in wanted}


def known(peer):
    """What a reader is told of the peer, and where its rounds go."""
    return {"name": peer.name, "once": peer.program == "once", "durable": peer.durable,
            "beside": peer.beside, "settings": peer.settings,
            "killed": peer.killed, "version": "", "rounds": [], "failures": []}


def take(peers, rounds, measure):
    """{key: what is known of the peer}. `measure` takes a peer and the number of the round."""
    found = {key: known(peer) for key, peer in peers.items()}
    for number in range(1, rounds + 1):
        for key, peer in peers.items():
            if found[key]["failures"] and not found[key]["rounds"]:
                continue  # it would fail again
            began = time.monotonic()
            why = ""
            try:
                found[key]["rounds"].append(measure(peer, number))
                found[key]["version"] = peer.version()
            except (Failed, OSError, ValueError, subprocess.SubprocessError) as failure:
                why = str(failure)
                found[key]["failures"].append(why)
            print(f"round {number} of {rounds}: {peer.name}, {time.monotonic() - began:.0f} s"
                  + (f"; not measured: {why}" if why else ""), file=sys.stderr, flush=True)
    return found
