"""Tables and plots of the curves, and their place in the documentation."""
import dataclasses
import json
import statistics

import report
import svg
import table

BEGIN = report.BEGIN.replace("make bench ", "make bench-scale ")


@dataclasses.dataclass(frozen=True)
class Column:
    key: str
    title: str
    plot: str = ""  # the file's name, where it is drawn


@dataclasses.dataclass(frozen=True)
class Curve:
    title: str
    along: str  # what grows
    columns: tuple
    cost: tuple = ()  # what makes up the cost of a task, where its growth is the question


CURVES = {
    "ids": Curve("Ids in the log", "ids", (
        Column("publish_us", "publish, µs/task", "scale-ids-publish"),
        Column("publish_cpu_us", "of it processor, µs/task"),
        Column("work_us", "work off, µs/task", "scale-ids-work"),
        Column("work_cpu_us", "of it processor, µs/task")), ("publish_us", "work_us")),
    "processes": Curve("Worker processes", "processes", (
        Column("work_rate", "all together, tasks/s", "scale-processes"),
        Column("work_cpu_us", "processor, µs/task"))),
    "in_flight": Curve("Tasks in flight", "in flight", (
        Column("work_rate", "tasks/s", "scale-in-flight"),
        Column("work_us", "µs/task"))),
    "bodies": Curve("Size of the body", "body", (
        Column("publish_rate", "publish, tasks/s"),
        Column("publish_mb", "publish, MB/s", "scale-bodies-publish"),
        Column("work_rate", "work off, tasks/s"),
        Column("work_mb", "work off, MB/s", "scale-bodies-work"))),
}


def size(count):
    for unit, name in ((2**20, "MiB"), (2**10, "KiB")):
        if count >= unit and count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} B"


def point(curve, value):
    return size(value) if curve == "bodies" else f"{value:,}"


def along(curve):
    """How a point is written below a plot."""
    return size if curve == "bodies" else svg.short


def values(measured, key):
    return [one[key] for one in measured]


def cost(curve, measured):
    return sum(statistics.median(values(measured, key)) for key in curve.cost)


def curve_table(key, found):
    """One row per point, one table per store."""
    curve = CURVES[key]
    rows = [[curve.along, *(column.title for column in curve.columns)]]
    if curve.cost:
        rows[0].append("both, times the first line")
    first = next(iter(found.values()))
    for value, measured in found.items():
        rows.append([point(key, value), *(table.spread(values(measured, column.key)) for column in curve.columns)])
        if curve.cost:
            rows[-1].append(f"{cost(curve, measured) / cost(curve, first):.2f}×")
    return table.markdown(rows)


def counted(results):
    rounds = [one for store in results["stores"].values() for found in store["curves"].values()
              for measured in found.values() for one in measured]
    return (f"In {len(rounds)} runs {sum(values(rounds, 'never'))} ids never ran, and {sum(values(rounds, 'twice'))} "
            "ran twice.")


def text(results):
    parts = [report.about(results, "up to {:,} tasks per point"), counted(results)]
    for key, curve in CURVES.items():
        for store in results["stores"].values():
            if key in store["curves"]:
                parts += [f"**{curve.title}**, {store['name']}:", curve_table(key, store["curves"][key])]
    parts += [f"- {store['name']}, not all measured: {why}" for store in results["stores"].values()
              for why in store["failures"]]
    return "\n\n".join(parts) + "\n"


def plots(results):
    """{file name: SVG}."""
    drawn = {}
    for key, curve in CURVES.items():
        for column in curve.columns:
            series = [(store["name"].removeprefix("Once, "), line(store["curves"][key], column.key))
                      for store in results["stores"].values() if key in store["curves"]]
            if column.plot and series:
                drawn[f"{column.plot}.svg"] = svg.lines(
                    f"{curve.title}: {column.title}", "median, lowest to highest", series,
                    along(key), table.number)
    return drawn


def line(found, key):
    return [(value, statistics.median(values(measured, key)), min(values(measured, key)), max(values(measured, key)))
            for value, measured in found.items()]


def write_plots(results, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, drawing in plots(results).items():
        (folder / name).write_text(drawing)


def write_files(results, folder):
    (folder / "results.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    (folder / "table.md").write_text(text(results))
    write_plots(results, folder)


def write_documents(results, root):
    file = root / "docs" / "performance.md"
    file.write_text(report.between(file.read_text(), "scaling", text(results), BEGIN))
    write_plots(results, root / "docs" / "performance")
