"""Reads the text format of Prometheus, and asks promtool what it thinks of it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

FETCHED = Path(__file__).resolve().parents[3] / "build/promtool/usr/bin/promtool"
PROMTOOL = (
    os.environ.get("ONCE_PROMTOOL")
    or shutil.which("promtool")
    or (str(FETCHED) if FETCHED.exists() else "")
)
MISSING = "METRICS AND ALERTS ARE NOT CHECKED BY PROMTOOL: there is none; tools/promtool fetches it"

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


def unescaped(text):
    return re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), text)


class Metrics:
    """`metrics["name", "label value", ...]` is a sample, by any of its label values."""

    def __init__(self, text):
        self.text, self.samples, self.types = text, {}, {}
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                assert name not in self.types, f"{name} is there twice"
                self.types[name] = kind
            elif not line.startswith("#"):
                found = SAMPLE.fullmatch(line)
                assert found, line
                labels = tuple((name, unescaped(value)) for name, value in LABEL.findall(found[2] or ""))
                assert (found[1], labels) not in self.samples, line
                self.samples[found[1], labels] = float(found[3])

    def __getitem__(self, key):
        name, *values = (key,) if isinstance(key, str) else key
        fits = [
            value
            for (found, labels), value in self.samples.items()
            if found == name and set(values) <= {value for _, value in labels}
        ]
        (only,) = fits
        return only

    def growing(self):
        """What may never go back."""
        return {
            sample: value
            for sample, value in self.samples.items()
            if re.search(r"_(total|bucket|count|sum)$", sample[0])
        }


def promtool(*arguments, **options):
    return subprocess.run(
        [PROMTOOL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
