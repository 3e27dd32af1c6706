#!/usr/bin/env python3
"""Research, draft, publish. Each step is paid for once per task, whatever dies in between."""
import json
import os
import subprocess
import sys
import time
from pathlib import Path


def step(function, given):
    """What function(given) says; on any later attempt of this task, what it said then."""
    itself = [sys.executable, __file__, function.__name__]
    command = [os.environ["ONCE_BIN"], "step", function.__name__, "--", *itself]
    return subprocess.run(command, input=given, check=True, stdout=subprocess.PIPE, text=True).stdout


def ask_model(prompt):
    """Stands for a model that costs money per call: a line on the bill each time."""
    with open("bill", "a") as bill:
        bill.write(prompt + "\n")
    return f"[what the model says to: {prompt}]"


def research(topic):
    return ask_model(f"research {topic}")


def draft(notes):
    return ask_model(f"write a post from {notes}")


def publish(text):
    while not Path("site-is-up").exists():
        time.sleep(0.05)
    Path(f"post-{os.environ['ONCE_ID']}.txt").write_text(text)
    return f"https://blog.example.org/{os.environ['ONCE_ID']}"


def main():
    topic = json.load(sys.stdin)["topic"]
    notes = step(research, topic)
    text = step(draft, notes)
    print(json.dumps({"url": step(publish, text)}))


if len(sys.argv) > 1:  # as a step of itself
    print({f.__name__: f for f in (research, draft, publish)}[sys.argv[1]](sys.stdin.read()), end="")
else:
    main()
