"""The workload W1: 36-character ids, 256-byte JSON, 5 % of the ids published twice.

It is written to files that every peer reads, so all of them do the same work.
"""
import random
import uuid

_HEAD = '{"order":{"id":"7f9c","lines":[{"sku":"A-1","count":3}],"total":12.5},"note":"'
EVERY = 20  # one id in so many is published twice
GAP_MS = 5  # 200 a second
LATER_MS = 1000  # in a latency run an id comes again when it is long completed


def body(size):
    return _HEAD + "x" * (size - len(_HEAD) - 2) + '"}'


BODY = body(256)


def new_ids(count, seed):
    chance = random.Random(seed)
    return [str(uuid.UUID(int=chance.getrandbits(128), version=4)) for _ in range(count)]


def backlog(count, seed):
    """`count` ids, and every twentieth again 100 to 1,000 places later."""
    chance = random.Random(seed)
    places = [(place, id) for place, id in enumerate(new_ids(count, seed))]
    again = [(place + 100 + chance.randrange(901), id) for place, id in places[::EVERY]]
    return [id for _, id in sorted(places + again, key=lambda one: one[0])]


def paced(count, seed):
    """(milliseconds after the start, id) in order: `count` ids, and every twentieth again a second later."""
    times = [(place * GAP_MS, id) for place, id in enumerate(new_ids(count, seed))]
    # Halfway between two others, so that a second publish is in nobody's way.
    again = [(at + LATER_MS + GAP_MS / 2, id) for at, id in times[::EVERY]]
    return sorted(times + again)


def write(folder, name, lines):
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines))
    return path
