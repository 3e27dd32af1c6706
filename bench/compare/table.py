"""The table: medians with their spread, and how each peer compares to Once."""
import dataclasses
import statistics


@dataclasses.dataclass(frozen=True)
class Measure:
    key: str
    title: str
    unit: str
    more_is_better: bool = False


MEASURES = [
    Measure("publish_bulk", "publish in bulk", "ids/s", True),
    Measure("publish_single", "publish one by one, many at a time", "ids/s", True),
    Measure("backlog", "work off a backlog", "tasks/s", True),
    Measure("one_at_a_time", "one at a time", "ms/task"),
    Measure("start_p50", "publish to start, median", "ms"),
    Measure("start_p99", "publish to start, 99th percentile", "ms"),
    Measure("recorded_p50", "publish to recorded, median", "ms"),
    Measure("recorded_p99", "publish to recorded, 99th percentile", "ms"),
    Measure("memory", "peak memory of server and worker", "MiB"),
    Measure("cpu", "processor time, publish and run", "s per million tasks"),
    Measure("publish_flushes", "disk flushes while publishing", "per task"),
    Measure("backlog_flushes", "disk flushes while working", "per task"),
    Measure("bytes", "written to disk, publish and run", "bytes/task"),
]
RATES = ["publish_bulk", "publish_single", "backlog", "one_at_a_time"]
LATENCIES = ["start_p50", "start_p99", "recorded_p50", "recorded_p99"]
COSTS = ["memory", "cpu", "publish_flushes", "backlog_flushes", "bytes"]
SHORT = ["backlog", "one_at_a_time", "recorded_p50", "memory", "cpu"]


def number(value):
    if value is None:
        return ""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:.4f}"


def values_of(peer, key):
    return [one[key] for one in peer["rounds"] if one.get(key) is not None]


def median(peer, key):
    values = values_of(peer, key)
    return statistics.median(values) if values else None


def spread(values):
    """The median, and in brackets the lowest and the highest."""
    if not values:
        return "–"
    text = number(statistics.median(values))
    return text if len(values) == 1 else f"{text} ({number(min(values))} to {number(max(values))})"


def ratio(measure, ours, theirs):
    """How many times better ours is; below 1 it is worse."""
    if not ours or not theirs:
        return None
    return ours / theirs if measure.more_is_better else theirs / ours


def measured(peers):
    return {key: peer for key, peer in peers.items() if peer["rounds"]}


def cell(peers, peer, measure):
    text = spread(values_of(peer, measure.key))
    ours = measured(peers).get(peer["beside"])
    times = ratio(measure, median(ours, measure.key), median(peer, measure.key)) if ours else None
    return f"{text}, {number(times)}×" if times else text


def markdown(rows):
    head, *body = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *body])


def main_table(peers):
    """One row per peer, in three parts so that each fits a page."""
    return "\n\n".join(markdown(part(peers, keys, keys is COSTS)) for keys in (RATES, LATENCIES, COSTS))


def part(peers, keys, with_counts):
    chosen = [measure for measure in MEASURES if measure.key in keys]
    rows = [["", *(f"{measure.title}, {measure.unit}" for measure in chosen)]]
    if with_counts:
        rows[0].append("ids that never ran / ran twice")
    for peer in measured(peers).values():
        rows.append([named(peer), *(cell(peers, peer, measure) for measure in chosen)])
        if with_counts:
            rows[-1].append(f"{sum(values_of(peer, 'never'))} / {sum(values_of(peer, 'twice'))}")
    return rows


def named(peer):
    name = f"**{peer['name']}**" if peer["once"] else peer["name"]
    return name if peer["durable"] else name + " (not fsynced)"


def short_table(peers):
    """The medians alone, and of the ways to publish the fastest."""
    chosen = [measure for measure in MEASURES if measure.key in SHORT]
    rows = [["", "publish, ids/s", *(f"{measure.title}, {measure.unit}" for measure in chosen)]]
    for peer in measured(peers).values():
        fastest = max(median(peer, key) or 0 for key in ("publish_bulk", "publish_single"))
        rows.append([named(peer), number(fastest), *(number(median(peer, measure.key)) or "–" for measure in chosen)])
    return markdown(rows)


def per_round(found, key):
    """The counts of all rounds, in order."""
    return ", ".join(str(one[key]) for one in found)


def ledger_says(found):
    """What Once's own record knows of it; other peers keep none."""
    if "ledger" not in found[0]:
        return "–"
    ledgers = [one["ledger"] for one in found]
    return (f"completed twice {per_round(ledgers, 'completed_twice')}; re-runs recorded {per_round(ledgers, 'reruns')}; "
            f"held in doubt {per_round(ledgers, 'in_doubt')}; unexplained {per_round(ledgers, 'unexplained')}")


def kill_table(peers, counted="tasks"):
    rows = [["", counted, "run when killed", "never ran", "effect twice", "what its record says", "how the consumer is set"]]
    for peer in measured(peers).values():
        for policy in peer["rounds"][0]["kill"]:
            found = [one["kill"][policy] for one in peer["rounds"]]
            name = f"{peer['name']}, `{policy}`" if policy else peer["name"]
            counts = (per_round(found, key) for key in ("ran_before", "never", "twice"))
            rows.append([name, f"{found[0]['tasks']:,}", *counts, ledger_says(found), peer["killed"]])
    return markdown(rows)


def not_measured(peers):
    """One line per peer that is missing or lacks rounds, with the reason."""
    return "\n".join(f"- {peer['name']}: {'not measured' if not peer['rounds'] else 'not in every round'}: {why}"
                     for peer in peers.values() for why in dict.fromkeys(peer["failures"]))


def settings_table(peers, counted="tasks"):
    rows = [["", "versions", "settings", counted]]
    for peer in measured(peers).values():
        rows.append([peer["name"], peer["version"], peer["settings"], f"{peer['rounds'][0]['tasks']:,}"])
    return markdown(rows)
