"""A task in the hands of a handler, and its durable steps."""

from __future__ import annotations

import json
import threading
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Generator, Mapping, Optional, Protocol, TypeVar, Union

from .errors import AttemptOver, InvalidInput, Unknown
from .values import to_json

T = TypeVar("T")


@dataclass(frozen=True)
class Happened:
    """Returned by a probe: it happened, with this result. Needed if the result is None or False."""

    result: Any = None


@dataclass(frozen=True)
class Begun:
    """The answer to the begin of a step."""

    kind: str  # run, remembered or ask
    result: Any = None
    key: str = ""  # the step's idempotency key


class StepCall(Protocol):
    """One call of a step, as the holder of the task's record sees it."""

    def begin(self, asked: bool = False) -> Begun: ...

    def end(self, result: bytes) -> None: ...

    def fail(self, why: str) -> None: ...

    def hold(self, why: str) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Blocking:
    """An action of a step's flow: a request."""

    call: Callable[[], Any]


@dataclass(frozen=True)
class Given:
    """An action of a step's flow: a function of the user."""

    call: Callable[[], Any]


Flow = Generator[Union[Blocking, Given], Any, Any]


def drive(flow: Flow) -> Any:
    """Carries out the actions of a flow on this thread."""
    action = next(flow)
    while True:
        try:
            value = action.call()
        except BaseException as error:
            action = or_result(partial(flow.throw, error))
        else:
            action = or_result(partial(flow.send, value))
        if isinstance(action, Result):
            return action.value


@dataclass(frozen=True)
class Result:
    value: Any

    def call(self) -> Any:
        return self.value


def or_result(advance: Callable[[], Any]) -> Any:
    try:
        return advance()
    except StopIteration as end:
        return Result(end.value)


def why_of(error: BaseException) -> str:
    """An exception in words, as text that JSON can carry."""
    said = str(error)
    text = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return text.encode(errors="backslashreplace").decode()


def probe_answer(answer: Any) -> Optional[Happened]:
    """What a probe said. None if it did not happen; raises Unknown if the probe does not know."""
    if answer is None or answer is False:
        return None
    if answer is Unknown or isinstance(answer, Unknown):
        raise Unknown("the probe does not know")
    return answer if isinstance(answer, Happened) else Happened(answer)


class Task:
    """A task that runs now. `id`, `topic`, `body` and `headers` are as they were published.

    `body` is a JSON value, or bytes if bytes were published. `attempt` is 1 for the first attempt.
    If `in_doubt` is true, an earlier attempt ended without a verdict and may have had an effect.
    `token` grows with every attempt: give it to systems that can refuse an older one.

    `cancelled` is set if the handler should stop: a person cancelled the task, its time is over,
    or the lease was lost. `lost` is set if another worker may have the task. Nothing that this
    attempt does is recorded then.
    """

    def __init__(self, queue: str, fields: Mapping[str, Any], body: Any) -> None:
        self.queue = queue
        self.id: str = fields["id"]
        self.topic: str = fields["topic"]
        self.queue_key: str = fields["key"]
        self.body: Any = body
        self.headers: dict[str, str] = dict(fields.get("headers") or {})
        self.sequence: int = fields["sequence"]
        self.attempt: int = fields["attempt"]
        self.token: int = fields["token"]
        self.in_doubt: bool = fields["in_doubt"]
        self.cancelled = threading.Event()
        self.lost = threading.Event()
        self._key: str = fields["idempotency_key"]
        self._step_keys: dict[str, str] = {}
        self._done: set[str] = set()
        self._mutex = threading.Lock()

    def __repr__(self) -> str:
        return f"<once.Task {self.id} of {self.queue}, attempt {self.attempt}>"

    def key(self, step: Optional[str] = None) -> str:
        """The idempotency key of the task, or of a step. It is the same for every attempt.

        The key of a step is known inside the step's function and its probe, and after them.
        """
        if step is None:
            return self._key
        known = self._step_keys.get(step)
        if known is None:
            raise InvalidInput(
                f"the key of step {step!r} is known once the step has begun: "
                "call task.key() inside the step's function",
                code="invalid_input",
            )
        return known

    def step(
        self,
        name: str,
        function: Callable[[], T],
        *,
        in_doubt: Optional[str] = None,
        probe: Optional[Callable[[], Any]] = None,
    ) -> T:
        """Runs `function` once for this task, and records what it returns, as JSON.

        A later attempt gets the recorded value and does not run `function`. Each name may be used
        once per attempt. If `function` raises an exception, the step did not happen. If it raises
        Unknown, the step is in doubt.

        A step can be cut off, because the process died in the middle. The next attempt then knows.
        With `in_doubt="retry"` it runs the step again. With `in_doubt="hold"` a person decides.
        With a `probe`, the probe is asked. It returns the result if the step happened, None or
        False if it did not happen, and raises Unknown if it cannot know. Without all of these, the
        queue's policy decides.

        Raises AttemptOver or Cancelled if the attempt must end.
        """
        result: T = drive(self._flow(name, function, in_doubt, probe))
        return result

    # --- The flow of a step

    def _flow(
        self,
        name: str,
        function: Callable[[], Any],
        in_doubt: Optional[str],
        probe: Optional[Callable[[], Any]],
    ) -> Flow:
        self._check_step(name, in_doubt, probe)
        call = self._open_step(name, "probe" if probe else in_doubt)
        try:
            begun: Begun = yield Blocking(call.begin)
            self._step_keys[name] = begun.key
            if begun.kind == "ask":
                found: Optional[Happened] = yield from self._ask(call, probe)
                if found is not None:
                    return (yield from self._end(call, name, found.result))
                begun = yield Blocking(partial(call.begin, asked=True))
            if begun.kind == "remembered":
                self._mark_done(name)
                return begun.result
            if begun.kind != "run":  # never run a step whose begin is not recorded
                raise AttemptOver(f"step {name!r} may not run: it was answered with {begun.kind}")
            try:
                result = yield Given(function)
            except (Unknown, AttemptOver):
                raise  # without an end, the step is in doubt
            except Exception as error:
                yield Blocking(partial(call.fail, why_of(error)))
                raise
            return (yield from self._end(call, name, result))
        finally:
            call.close()

    def _end(self, call: StepCall, name: str, result: Any) -> Flow:
        try:
            recorded = to_json(result, f"the result of step {name!r}")
        except InvalidInput as error:
            raise Unknown(f"step {name!r} happened, but its result is not JSON") from error
        yield Blocking(partial(call.end, recorded))
        self._mark_done(name)
        return json.loads(recorded)  # what a later attempt gets

    def _ask(self, call: StepCall, probe: Optional[Callable[[], Any]]) -> Flow:
        try:
            if probe is None:
                raise Unknown("the step was cut off, and it has no probe")
            return probe_answer((yield Given(probe)))
        except AttemptOver:
            raise
        except Exception as error:
            why = str(error) if isinstance(error, Unknown) and str(error) else why_of(error)
            yield Blocking(partial(call.hold, why))
            raise AttemptOver("the step is held for a person: " + why) from error

    def _check_step(
        self, name: str, in_doubt: Optional[str], probe: Optional[Callable[[], Any]]
    ) -> None:
        if in_doubt not in (None, "retry", "hold", "probe") or (
            (in_doubt == "probe") != (probe is not None) and in_doubt is not None
        ):
            raise InvalidInput(
                'in_doubt of a step is "retry", "hold" or nothing, or the step has a probe; '
                "nothing was run",
                code="invalid_input",
            )
        with self._mutex:
            if name in self._done:
                raise InvalidInput(
                    f"step {name!r} was used before in this attempt; nothing was run: "
                    "give each step a name of its own",
                    code="invalid_input",
                )

    def _mark_done(self, name: str) -> None:
        with self._mutex:
            self._done.add(name)

    def _open_step(self, name: str, policy: Optional[str]) -> StepCall:
        raise NotImplementedError


current: ContextVar[Optional[Task]] = ContextVar("once_task", default=None)
