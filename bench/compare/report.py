"""Writes what was measured: raw values, the table, the plots; and, when asked to, the documentation."""
import json
import os
import pathlib
import platform

import svg
import table

BEGIN, END = "<!-- {}: begin, written by make bench BENCH_WRITE=1 -->", "<!-- {}: end -->"
PLOTS = [measure for measure in table.MEASURES if measure.key != "publish_flushes"]


def machine():
    model = next((line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.machine())
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {"processor": model, "cores": os.cpu_count(), "memory_gib": round(pages / 2**30),
            "kernel": platform.release()}


def plots(peers):
    """{file name: SVG}; none for a measure that nobody has."""
    drawn = {}
    for measure in PLOTS:
        rows = []
        for peer in table.measured(peers).values():
            values = table.values_of(peer, measure.key)
            if values:
                rows.append((peer["name"], table.median(peer, measure.key), min(values), max(values), peer["once"]))
        if rows:
            better = "longer is better" if measure.more_is_better else "shorter is better"
            title = f"{measure.title[0].upper()}{measure.title[1:]}, {measure.unit}"
            drawn[f"{measure.key}.svg"] = svg.bars(title, f"median, lowest to highest; {better}", rows, table.number)
    return drawn


def about(results, tasks="{:,} tasks", also=""):
    """When, how much and where, as a sentence for the head of a table."""
    at = results["machine"]
    rounds = "1 round" if results["rounds"] == 1 else f"{results['rounds']} rounds"
    remark = f" {results['remark']}" if results["remark"] else ""
    return (f"{results['date']}, {rounds}, {tasks.format(results['tasks'])}, on {at['processor']}, {at['cores']} cores, "
            f"{at['memory_gib']} GiB, Linux {at['kernel']}{also}.{remark}")


def with_node(results):
    return about(results, also=f", node {results['node']}")


def text(results):
    peers = results["peers"]
    parts = [with_node(results), table.main_table(peers),
             "Killed in the middle of the backlog (SIGKILL of the worker), counts of each round:", table.kill_table(peers),
             "Settings:", table.settings_table(peers)]
    if (missing := table.not_measured(peers)):
        parts += ["Not measured:", missing]
    return "\n\n".join(parts) + "\n"


def short_text(results):
    return with_node(results) + "\n\n" + table.short_table(results["peers"]) + "\n"


def write_files(results, folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    (folder / "table.md").write_text(text(results))
    write_plots(results, folder)


def write_plots(results, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, drawing in plots(results["peers"]).items():
        (folder / name).write_text(drawing)


def between(document, name, new, begin=BEGIN):
    """The document with what is between its markers replaced."""
    begin, end = begin.format(name), END.format(name)
    if document.count(begin) != 1 or document.count(end) != 1:
        raise ValueError(f"the markers `{begin}` and `{end}` must be there once each")
    head, rest = document.split(begin)
    return head + begin + "\n" + new.strip("\n") + "\n" + end + rest.split(end)[1]


def write_documents(results, root):
    for file, name, new in ((root / "docs" / "performance.md", "comparison", text(results)),
                            (root / "README.md", "comparison", short_text(results))):
        file.write_text(between(file.read_text(), name, new))
    write_plots(results, root / "docs" / "performance")
