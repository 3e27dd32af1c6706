"""A program that `once work -- CMD` runs: its task, and its steps through the worker's socket.

No server is needed. The worker keeps the lease. It ends the program with SIGTERM if the task is
cancelled or lost, so `Task.cancelled` and `Task.lost` are never set here.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any, Callable, Mapping, NoReturn, Optional

from . import step_protocol as wire
from .errors import AttemptOver, Dead, InvalidInput, OnceError, Unknown
from .task import Begun, StepCall, Task, current, why_of
from .values import body_of, from_bytes, to_json

DEAD, UNKNOWN, FAILED = 65, 74, 1  # exit statuses of a program

_known: Optional[Task] = None


def current_task() -> Task:
    """The task that runs now: in a handler of a worker, or in a program of `once work`."""
    global _known
    task = current.get() or _known
    if task is not None:
        return task
    if not os.environ.get("ONCE_TASK_FILE"):
        raise InvalidInput(
            "no task runs here: only a handler of a worker, and a program that `once work` runs, "
            "have one",
            code="invalid_input",
        )
    _known = ProgramTask(os.environ)
    return _known


def run_program(handler: Callable[[Task], Any]) -> NoReturn:
    """Runs a handler as a program of `once work`, and exits with its verdict.

    The handler returns and raises the same as a handler of a worker over HTTP.
    """
    task = current_task()
    try:
        result = to_json(handler(task), "the result")
        with open(os.environ["ONCE_RESULT"], "wb") as file:
            file.write(result)
        status, said = 0, ""
    except Dead as error:
        status, said = DEAD, str(error)
    except (Unknown, AttemptOver) as error:
        status, said = UNKNOWN, str(error)
    except InvalidInput as error:
        ran = error.message.startswith("the result is not")
        status, said = UNKNOWN if ran else FAILED, why_of(error)
    except Exception:
        traceback.print_exc()
        status, said = FAILED, ""
    if said:
        print(said, file=sys.stderr)
    sys.exit(status)


class ProgramTask(Task):
    """The task of this process, as the worker's environment describes it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        try:
            with open(environment["ONCE_TASK_FILE"], encoding="utf-8") as file:
                fields = json.load(file)
            super().__init__(
                environment["ONCE_QUEUE"],
                {
                    "id": environment["ONCE_ID"],
                    "topic": environment["ONCE_TOPIC"],
                    "key": environment["ONCE_KEY"],
                    "headers": fields["headers"],
                    "sequence": int(environment["ONCE_SEQUENCE"]),
                    "attempt": int(environment["ONCE_ATTEMPT"]),
                    "token": int(environment["ONCE_TOKEN"]),
                    "in_doubt": environment["ONCE_IN_DOUBT"] == "1",
                    "idempotency_key": environment["ONCE_IDEMPOTENCY_KEY"],
                },
                body_of(fields),
            )
        except (KeyError, ValueError, OSError) as error:
            raise OnceError(
                f"the environment of `once work` is not complete: {why_of(error)}; "
                "this program must be started by a worker, and its variables must be passed on"
            ) from error
        self._socket = environment.get("ONCE_SOCKET", "")

    def _open_step(self, name: str, policy: Optional[str]) -> StepCall:
        return _ProgramStep(self._socket, name, policy)


class _ProgramStep:
    """One call of a step, on a connection of its own."""

    def __init__(self, path: str, name: str, policy: Optional[str]) -> None:
        if not path:
            raise InvalidInput(
                "ONCE_SOCKET is not set, as in a probe; a probe cannot run steps",
                code="invalid_input",
            )
        self._path, self._name, self._policy = path, name, policy
        self._channel: Optional[wire.Channel] = None
        self._limit = wire.OLD_LIMIT

    def begin(self, asked: bool = False) -> Begun:
        message = wire.Message(wire.BEGIN, name=self._name, policy=self._policy or "")
        answer = self._ask(wire.Message(wire.ASKED) if asked else message, "nothing was run")
        self._limit = answer.limit
        if answer.kind == wire.REMEMBERED:
            if answer.cut:
                raise AttemptOver(
                    f"step {self._name!r} is done, but an older Once kept only the first MiB of its "
                    "result; nothing was run"
                )
            return Begun("remembered", from_bytes(answer.bytes), answer.key)
        if answer.kind in (wire.RUN, wire.ASK):
            return Begun("run" if answer.kind == wire.RUN else "ask", None, answer.key)
        raise self._ended(answer)

    def end(self, result: bytes) -> None:
        if len(result) <= self._limit:
            message = wire.Message(wire.END, bytes=result)
        else:
            message = wire.Message(wire.END, oversize=len(result))
        self._tell(message, "the step ran and was not recorded")

    def fail(self, why: str) -> None:
        self._tell(wire.Message(wire.FAIL, bytes=why.encode()), "the failure was not recorded")

    def hold(self, why: str) -> None:
        self._ask(wire.Message(wire.HOLD, bytes=why.encode()), "nothing was run")

    def close(self) -> None:
        if self._channel:
            self._channel.close()

    def _tell(self, message: wire.Message, otherwise: str) -> None:
        answer = self._ask(message, otherwise)
        if answer.kind != wire.DONE:
            raise self._ended(answer)

    def _ask(self, message: wire.Message, otherwise: str) -> wire.Message:
        try:
            if self._channel is None:
                self._channel = wire.Channel(self._path)
            return self._channel.ask(message)
        except OSError as error:
            raise AttemptOver(f"step {self._name!r}: {error}; {otherwise}") from error

    def _ended(self, answer: wire.Message) -> Exception:
        why = answer.bytes.decode(errors="replace")
        if answer.kind == wire.REFUSED:
            return InvalidInput(why, code="invalid_input")
        return AttemptOver(why or "the attempt is over")
