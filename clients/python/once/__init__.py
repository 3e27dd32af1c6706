"""The Python client of Once, which runs every task exactly once.

    from once import Once, Dead
    once = Once()                                    # $ONCE_URL, $ONCE_TOKEN

    @once.worker("writers", concurrency=8)
    def write(task):
        notes = task.step("research", lambda: ask(task.body["topic"]), in_doubt="retry")
        if not notes: raise Dead("nothing to say")
        url = task.step("publish", lambda: post(notes, key=task.key("publish")),
                        probe=lambda: find_post(task.id))
        return {"url": url}

    once.publish("blog.write", {"topic": "Exactly once"}, id="post-42")
    once.run()
"""

from .client import Message, Once, Outcome, Receipt
from .errors import (
    AttemptOver,
    Cancelled,
    Conflict,
    Dead,
    Fail,
    Fenced,
    InvalidInput,
    NoAnswer,
    NotFound,
    OnceError,
    Refused,
    TimedOut,
    Unknown,
    WrongState,
)
from .program import current_task, run_program
from .task import Happened, Task

__all__ = [
    "AttemptOver",
    "Cancelled",
    "Conflict",
    "Dead",
    "Fail",
    "Fenced",
    "Happened",
    "InvalidInput",
    "Message",
    "NoAnswer",
    "NotFound",
    "Once",
    "OnceError",
    "Outcome",
    "Receipt",
    "Refused",
    "Task",
    "TimedOut",
    "Unknown",
    "WrongState",
    "current_task",
    "run_program",
]
