#!/usr/bin/env python3
"""The same agent as a worker of `once serve`: a step is a function call, and no process is started."""
import time
from pathlib import Path

from once import Once

once = Once()  # $ONCE_URL


def ask_model(prompt):
    """Stands for a model that costs money per call: a line on the bill each time."""
    with open("bill", "a") as bill:
        bill.write(prompt + "\n")
    return f"[what the model says to: {prompt}]"


def publish(id, text):
    while not Path("site-is-up").exists():
        time.sleep(0.05)
    Path(f"post-{id}.txt").write_text(text)
    return f"https://blog.example.org/{id}"


@once.worker("agents", concurrency=4)
def agent(task):
    topic = task.body["topic"]
    notes = task.step("research", lambda: ask_model(f"research {topic}"))
    text = task.step("draft", lambda: ask_model(f"write a post from {notes}"))
    return {"url": task.step("publish", lambda: publish(task.id, text))}


once.run()
