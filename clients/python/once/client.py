"""The client of `once serve`: publish, wait, tasks, people's acts, queues and workers."""

from __future__ import annotations

import base64
import json
import os
import ssl
import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, TypeVar, Union
from urllib.parse import urlencode

from .errors import Duration, InvalidInput, NotFound, OnceError, TimedOut, error_of
from .running import Runner
from .task import Task
from .transport import Request, Transport, now, segment, sleep
from .values import BYTES, When, body_of, duration, moment, to_json
from .worker import Worker

DEFAULT_URL = "http://127.0.0.1:7070"
LONGEST_WAIT = 30.0  # of one request; the client asks again
LATE_ANSWER = 5.0  # seconds for the last answer of wait()
BATCH_TASKS, BATCH_BYTES = 1000, 4 << 20  # of one request

Handler = TypeVar("Handler", bound=Callable[[Task], Any])


@dataclass(frozen=True)
class Receipt:
    """The task is on disk. `duplicate` says that the log had the task already."""

    id: str
    sequence: int
    duplicate: bool
    digest: str = ""


@dataclass(frozen=True)
class Outcome:
    """How a task ended in one queue. `state` is completed, dead, cancelled, in_doubt or duplicate."""

    id: str
    queue: str
    state: str
    result: Any = None
    reason: str = ""

    @property
    def completed(self) -> bool:
        return self.state == "completed"


@dataclass(frozen=True)
class Message:
    """A task for `publish_many()`. The fields are the parameters of `publish()`."""

    topic: str
    body: Any = None
    id: Optional[str] = None
    headers: Optional[Mapping[str, str]] = None
    delay: Optional[Duration] = None
    at: Optional[When] = None
    expires: Union[Duration, datetime, None] = None


class _Batch:
    """The lines of one request of publish_many()."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.own_ids: list[bool] = []
        self._size = 0

    def has_room(self, line: bytes) -> bool:
        return len(self.lines) < BATCH_TASKS and (
            not self.lines or self._size + len(line) <= BATCH_BYTES
        )

    def add(self, line: bytes, own_id: bool) -> None:
        self.lines.append(line)
        self.own_ids.append(own_id)
        self._size += len(line)


class Once:
    """A client of one server. Any thread may call.

    `url` is ``http://HOST:PORT``, ``https://HOST:PORT`` or ``unix:/PATH``. The default is
    $ONCE_URL, and http://127.0.0.1:7070 without it. `token` is $ONCE_TOKEN by default.
    For https, `ca_file` names the certificates to trust, or `ssl_context` sets everything.

    Each call repeats its request until the server answers, for up to `limit` seconds. None means
    forever. After the limit, the call raises NoAnswer. A repeat never does anything twice.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        token: Optional[str] = None,
        *,
        ca_file: Optional[str] = None,
        ssl_context: Optional[ssl.SSLContext] = None,
        limit: Optional[float] = 60.0,
    ) -> None:
        if ca_file and not ssl_context:
            ssl_context = ssl.create_default_context(cafile=ca_file)
        address = url or os.environ.get("ONCE_URL") or DEFAULT_URL
        self._transport = Transport(address, token or _token_of_environment(), ssl_context)
        self._limit = limit
        self._runner = Runner()

    @property
    def url(self) -> str:
        return self._transport.url

    def close(self) -> None:
        """Closes the idle connections. The client can still be used."""
        self._transport.close()

    def __enter__(self) -> Once:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- Requests

    def _until(self, limit: Optional[float] = None) -> Callable[[], float]:
        limit = self._limit if limit is None else limit
        end = float("inf") if limit is None else now() + limit
        return lambda: end

    def _call(self, method: str, target: str, fields: Optional[Mapping[str, Any]] = None) -> Any:
        body = None if fields is None else to_json(fields, "a field")
        return self._transport.call(Request(method, target, body), self._until()).json()

    # --- Publish

    def publish(
        self,
        topic: str,
        body: Any = None,
        *,
        id: Optional[str] = None,
        headers: Optional[Mapping[str, str]] = None,
        delay: Optional[Duration] = None,
        at: Optional[When] = None,
        expires: Union[Duration, datetime, None] = None,
        limit: Optional[float] = None,
    ) -> Receipt:
        """Publishes a task and returns when it is on disk.

        `body` is any JSON value, or bytes. A task without `id` gets a new id, so that it is never
        a duplicate of another task. Raises Conflict if the id exists with other content.
        """
        if headers:  # only a line of a batch can carry them
            message = Message(topic, body, id, headers, delay, at, expires)
            (receipt,) = self.publish_many([message], limit=limit)
            if isinstance(receipt, OnceError):
                raise receipt
            return receipt
        own_id = id is None
        query = {"id": str(uuid.uuid4()) if id is None else id, **_times(delay, at, expires)}
        if isinstance(body, BYTES):
            content, kind = bytes(body), "application/octet-stream"
        else:
            content, kind = to_json(body, "the body"), "application/json"
        target = f"/v1/topics/{segment(topic)}?{_query(query)}"
        nonce = {"Once-Try": uuid.uuid4().hex}
        answer = self._transport.call(
            Request("POST", target, content, kind, nonce), self._until(limit)
        )
        return _receipt(answer.json(), own_id)

    def publish_many(
        self,
        messages: Iterable[Union[Message, Mapping[str, Any]]],
        *,
        limit: Optional[float] = None,
    ) -> list[Union[Receipt, OnceError]]:
        """Publishes many tasks. Returns a receipt or an error for each of them, in order.

        A bad task does not fail the others. `limit` is for each request of about 1000 tasks.
        """
        results: list[Union[Receipt, OnceError]] = []
        batch = _Batch()
        for message in messages:
            try:
                line, own_id = _line(message)
            except InvalidInput as error:
                results += self._publish_batch(batch, limit)
                results.append(error)
                batch = _Batch()
                continue
            if not batch.has_room(line):
                results += self._publish_batch(batch, limit)
                batch = _Batch()
            batch.add(line, own_id)
        return results + self._publish_batch(batch, limit)

    def _publish_batch(
        self, batch: _Batch, limit: Optional[float]
    ) -> list[Union[Receipt, OnceError]]:
        if not batch.lines:
            return []
        nonce = {"Once-Try": uuid.uuid4().hex}
        content = b"".join(batch.lines)
        request = Request("POST", "/v1/tasks:batch", content, "application/x-ndjson", nonce)
        until = self._until(limit)
        while True:
            answer = self._transport.call(request, until)
            lines = [json.loads(line) for line in answer.body.splitlines()]
            failed = [error_of(answer.status, line) for line in lines if "error" in line]
            # The store did not answer for some lines. The whole batch again is safe.
            if not any(each.retryable or each.in_doubt for each in failed) or now() >= until():
                break
            sleep(0.2, until)
        return [
            error_of(answer.status, line) if "error" in line else _receipt(line, own)
            for line, own in zip(lines, batch.own_ids)
        ]

    # --- Results

    def wait(
        self, id: str, queue: Optional[str] = None, timeout: Optional[float] = None
    ) -> Outcome:
        """Waits until the task is settled or in doubt in `queue`, and returns its outcome.

        Without `queue`, waits for every queue that takes the task and returns the first outcome.
        `wait_all()` returns all of them. Raises TimedOut after `timeout` seconds.
        """
        return self.wait_all(id, queue, timeout)[0]

    def wait_all(
        self, id: str, queue: Optional[str] = None, timeout: Optional[float] = None
    ) -> list[Outcome]:
        """As `wait()`, with an outcome for each queue."""
        end = float("inf") if timeout is None else now() + timeout
        while True:
            wait = min(LONGEST_WAIT, max(0.0, end - now()))
            query = {"wait": duration(wait), **({"queue": queue} if queue else {})}
            target = f"/v1/tasks/{segment(id)}/result?{_query(query)}"
            stop = min(end + LATE_ANSWER, now() + wait + (self._limit or float("inf")))
            answer = self._transport.call(Request("GET", target, timeout=wait + 15), lambda: stop)
            fields = answer.json()
            if fields["settled"]:
                return [_outcome(each) for each in fields["results"]]
            if now() >= end:
                raise TimedOut(f"{id} is not settled after {timeout} s", code="timed_out")

    # --- Tasks

    def task(self, id: str) -> dict[str, Any]:
        """The task with its queues, attempts, steps and story, as `once inspect --json` prints it."""
        answer: dict[str, Any] = self._call("GET", f"/v1/tasks/{segment(id)}")
        return answer

    def tasks(
        self,
        *,
        queue: Optional[str] = None,
        state: Optional[str] = None,
        topic: Optional[str] = None,
    ) -> Iterator[dict[str, Any]]:
        """The tasks that match, one page after the other."""
        chosen = {"queue": queue, "state": state, "topic": topic}
        query = {name: value for name, value in chosen.items() if value is not None}
        while True:
            page = self._call("GET", f"/v1/tasks?{_query({**query, 'limit': '1000'})}")
            yield from page["tasks"]
            if not page.get("after"):
                return
            query["after"] = page["after"]

    def status(self) -> dict[str, Any]:
        """How many tasks each queue has in each state."""
        answer: dict[str, Any] = self._call("GET", "/v1/status")
        return answer

    # --- What people decide

    def cancel(self, id: str, *, who: str, why: str = "", queue: Optional[str] = None) -> str:
        """Cancels a task that is not settled. Returns "cancelled", or "asked_to_stop" if it runs."""
        return self._act(id, "cancel", {"who": who, "why": why, "queue": queue})

    def retry(self, id: str, *, who: str, why: str = "", queue: Optional[str] = None) -> str:
        """Runs a dead or in-doubt task again.

        A second retry could run the task once more. So this request is not repeated if its answer
        is lost. The call then raises NoAnswer with `in_doubt`. Look at the task and decide again.
        """
        return self._act(id, "retry", {"who": who, "why": why, "queue": queue}, repeat=False)

    def complete(
        self,
        id: str,
        *,
        who: str,
        why: str = "",
        queue: Optional[str] = None,
        result: Any = None,
        step: Optional[str] = None,
    ) -> str:
        """Resolves an in-doubt task as "it happened". With `step`, only that step happened."""
        fields = {"who": who, "why": why, "queue": queue, "step": step, "result": result}
        return self._act(id, "complete", fields, repeat=step is None)

    def drop(self, id: str, *, who: str, why: str = "", queue: Optional[str] = None) -> str:
        """Gives up a dead or in-doubt task."""
        return self._act(id, "drop", {"who": who, "why": why, "queue": queue})

    def _act(self, id: str, act: str, fields: Mapping[str, Any], repeat: bool = True) -> str:
        given = {name: value for name, value in fields.items() if value is not None}
        request = Request("POST", f"/v1/tasks/{segment(id)}:{act}", to_json(given, "the result"))
        answer = self._transport.call(request, self._until(), repeat_lost=repeat)
        return str(answer.json()["outcome"])

    # --- Queues

    def queues(self) -> list[dict[str, Any]]:
        """The definitions of all queues."""
        found: list[dict[str, Any]] = self._call("GET", "/v1/queues")["queues"]
        return found

    def queue(self, name: str) -> dict[str, Any]:
        """The definition of a queue."""
        return self._queue("GET", name)

    def put_queue(self, name: str, **fields: Any) -> dict[str, Any]:
        """Makes a queue, such as ``put_queue("mail", topic="mail.>", attempts=5, lease="20s")``.

        Does nothing if the queue exists with this definition. Raises WrongState if it differs.
        """
        return self._queue("PUT", name, fields)

    def patch_queue(self, name: str, **fields: Any) -> dict[str, Any]:
        """Changes fields of a queue."""
        return self._queue("PATCH", name, fields)

    def pause_queue(self, name: str) -> dict[str, Any]:
        """No task of the queue starts until `resume_queue()`."""
        return self._queue("POST", name, act=":pause")

    def resume_queue(self, name: str) -> dict[str, Any]:
        return self._queue("POST", name, act=":resume")

    def remove_queue(self, name: str, *, force: bool = False) -> None:
        """Removes a queue. A queue with unsettled, dead or in-doubt tasks needs `force`."""
        target = f"/v1/queues/{segment(name)}" + ("?force=true" if force else "")
        try:
            self._transport.call(Request("DELETE", target), self._until())
        except NotFound as error:
            if not error.in_doubt:  # an earlier try has removed it
                raise

    def _queue(
        self, method: str, name: str, fields: Optional[Mapping[str, Any]] = None, act: str = ""
    ) -> dict[str, Any]:
        answer: dict[str, Any] = self._call(method, f"/v1/queues/{segment(name)}{act}", fields)
        return answer

    # --- Workers

    def worker(
        self,
        queue: str,
        *,
        concurrency: int = 1,
        probe: Optional[Callable[[Task], Any]] = None,
        name: Optional[str] = None,
    ) -> Callable[[Handler], Handler]:
        """Makes the decorated function the handler of a queue. `run()` starts the worker.

        Up to `concurrency` tasks run at the same time, each on a thread of its own. `probe` is
        asked whether a task happened if its queue's policy is ``probe`` (see `Task.step()`).
        """

        def register(handler: Handler) -> Handler:
            self._runner.add(
                Worker(self._transport, queue, handler, concurrency, probe=probe, name=name)
            )
            return handler

        return register

    def run(self, *, drain: float = 30.0, signals: bool = True) -> None:
        """Runs the workers until SIGTERM, SIGINT or `stop()`.

        The workers then start nothing new and finish the tasks that run, for up to `drain` seconds.
        """
        self._runner.run(drain, signals)

    def stop(self) -> None:
        """Ends `run()`. Any thread may call."""
        self._runner.stop()


def _token_of_environment() -> Optional[str]:
    # Inside a program of `once work`, ONCE_TOKEN is the fencing token of the task.
    return None if "ONCE_CLAIM" in os.environ else os.environ.get("ONCE_TOKEN")


def _query(fields: Mapping[str, str]) -> str:
    try:
        return urlencode(fields)
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"a parameter is not Unicode text: {error}; nothing was sent", code="invalid_input"
        ) from error


def _times(
    delay: Optional[Duration], at: Optional[When], expires: Union[Duration, datetime, None]
) -> dict[str, str]:
    times: dict[str, str] = {}
    if delay is not None:
        times["delay"] = duration(delay)
    if at is not None:
        times["at"] = moment(at)
    if expires is not None:
        times["expires"] = moment(expires) if isinstance(expires, datetime) else duration(expires)
    return times


def _receipt(fields: Mapping[str, Any], own_id: bool) -> Receipt:
    # A new id can only be a duplicate of an earlier try of the same call.
    duplicate = bool(fields["duplicate"]) and not own_id
    return Receipt(fields["id"], fields["sequence"], duplicate, fields.get("digest", ""))


def _outcome(fields: Mapping[str, Any]) -> Outcome:
    result = body_of(fields, "result")
    return Outcome(fields["id"], fields["queue"], fields["state"], result, fields.get("reason", ""))


def _line(message: Union[Message, Mapping[str, Any]]) -> tuple[bytes, bool]:
    """A line of a batch, and whether its id is new."""
    given = message if isinstance(message, Message) else Message(**message)
    own_id = given.id is None
    fields: dict[str, Any] = {
        "topic": given.topic,
        "id": str(uuid.uuid4()) if own_id else given.id,
        **_times(given.delay, given.at, given.expires),
    }
    if given.headers:
        fields["headers"] = dict(given.headers)
    if isinstance(given.body, BYTES):
        fields["raw"] = base64.b64encode(given.body).decode()
    else:
        fields["body"] = given.body
    return to_json(fields, "the task") + b"\n", own_id
