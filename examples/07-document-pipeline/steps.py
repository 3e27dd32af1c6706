#!/usr/bin/env python3
"""The steps of the pipeline: one function each, which gets the step's input and returns its output."""
import json
import os
import sys
import time
from pathlib import Path


def extract(document):
    text = Path(document["file"]).read_bytes()
    if b"\0" in text:
        print(f"{document['file']} is no text", file=sys.stderr)
        sys.exit(65)  # never try it again
    return {"file": document["file"], "text": text.decode()}


def summarize(document):
    """Stands for a model that costs money per call: a line on the bill each time."""
    with open("bill", "a") as bill:
        print(f"summarize {document['file']}", file=bill)
    while not Path("model-is-up").exists():
        time.sleep(0.05)
    return document["text"].split(".")[0]


def index(document):
    return sorted(set(document["text"].lower().replace(".", "").split()))


def publish(page):
    """The same place each time: written twice, it is the same page."""
    name = Path(page["file"]).stem
    Path(f"site/{name}.json").write_text(json.dumps(page))
    return f"https://docs.example.org/{name}"


def set_aside(document):
    Path(f"set-aside/{Path(document['file']).name}.why").write_text(document["why"])


json.dump(globals()[os.environ["ONCE_STEP"]](json.load(sys.stdin)), sys.stdout)
