"""A started claim over HTTP: its lease, and its steps."""

from __future__ import annotations

import json
import threading
import uuid
from typing import Any, Callable, Mapping, Optional

from .errors import AttemptOver, Cancelled, Fenced, OnceError, Unknown, WrongState
from .task import Begun, StepCall, Task
from .transport import Request, Transport, now, segment
from .values import body_of, from_bytes, to_json

TRY_TIME = 10.0  # of one try of a worker's request; the protocol makes a repeat safe
LATE_END = 5.0  # seconds to record a step that happened although its lease has ended


class _Lost(threading.Event):
    """Also set as soon as the lease has ended on this machine's clock."""

    def __init__(self, ended: Callable[[], bool]) -> None:
        super().__init__()
        self._ended = ended

    def is_set(self) -> bool:
        return super().is_set() or self._ended()


class ClaimedTask(Task):
    """A task whose claim this process holds until `deadline`."""

    def __init__(self, transport: Transport, queue: str, fields: Mapping[str, Any], sent: float) -> None:
        super().__init__(queue, fields, body_of(fields))
        self.claim: str = fields["claim"]
        self.probing: bool = fields["probing"]
        self.over = False  # the attempt has ended without a settlement of this worker
        self.transport = transport
        self.lost = _Lost(lambda: now() >= self.deadline)
        self.renewed(sent, fields["lease_ms"])

    def renewed(self, sent: float, lease_ms: int) -> None:
        """The lease counts from when its request was sent, so it never ends later than we think."""
        lease = lease_ms / 1000
        self.deadline = sent + lease
        self.renew_at = sent + lease / 3

    def lose(self) -> None:
        self.over = True
        self.lost.set()
        self.cancelled.set()

    def take_renewal(self, sent: float, fields: Mapping[str, Any]) -> None:
        """One answer of claims:renew."""
        if "error" in fields:
            if fields.get("retryable") or fields.get("in_doubt"):
                self.renew_at = now() + 0.2
            else:
                self.lose()
            return
        self.renewed(sent, fields["lease_ms"])
        if fields["outcome"] == "asked_to_stop":
            self.cancelled.set()
        elif fields["outcome"] == "overdue":  # the lease is not prolonged any more
            self.cancelled.set()
            self.renew_at = float("inf")

    def _open_step(self, name: str, policy: Optional[str]) -> StepCall:
        return _ClaimStep(self, name, policy)


class _ClaimStep:
    """One call of a step. Its call id is the same in every try, so that a repeat is recognised."""

    def __init__(self, task: ClaimedTask, name: str, policy: Optional[str]) -> None:
        self._task = task
        self._path = f"/v1/claims/{segment(task.claim)}/steps/{segment(name)}"
        self._name = name
        self._policy = policy
        self._call = uuid.uuid4().hex

    def begin(self, asked: bool = False) -> Begun:
        if self._task.lost.is_set():
            raise self._lost("the lease was lost")
        if self._task.cancelled.is_set():
            raise Cancelled(f"the task was cancelled; step {self._name!r} was not run")
        fields: dict[str, Any] = {"call": self._call}
        if self._policy:
            fields["in_doubt"] = self._policy
        if asked:
            fields["asked"] = True
        try:
            answer = self._request("begin", to_json(fields, "a field"))
        except WrongState as error:
            if error.reason == "step_under_way":
                raise
            if self._is_cancelled():
                raise Cancelled(error.message) from error
            raise self._over(error.message) from error
        result = answer.get("result")
        if "raw" in answer or answer.get("text"):  # recorded by a program, not over HTTP
            result = from_bytes(body_of(answer, "result"))
        return Begun(answer["outcome"], result, answer.get("idempotency_key", ""))

    def end(self, result: bytes) -> None:
        call = to_json(self._call, "a field")
        # A step that happened is worth recording late. The server refuses it if that is wrong.
        late = now() + LATE_END
        try:
            self._request("end", b'{"call":%s,"result":%s}' % (call, result), late)
        except WrongState as error:
            raise self._over(error.message) from error
        except OnceError as error:
            raise Unknown(f"step {self._name!r} ran and was not recorded: {error}") from error
        if self._task.lost.is_set():
            raise self._lost("the lease was lost")

    def fail(self, why: str) -> None:
        self._tell("fail", why)

    def hold(self, why: str) -> None:
        self._tell("hold", why)
        self._task.over = True

    def close(self) -> None:
        pass

    def _tell(self, act: str, why: str) -> None:
        try:
            self._request(act, to_json({"call": self._call, "why": why}, "a field"))
        except WrongState as error:
            raise self._over(error.message) from error

    def _request(self, act: str, body: bytes, late: float = 0.0) -> dict[str, Any]:
        request = Request("POST", f"{self._path}:{act}", body, timeout=TRY_TIME)
        try:
            answer = self._task.transport.call(request, lambda: max(self._task.deadline, late))
        except Fenced as error:
            raise self._lost(error.message) from error
        except OnceError as error:
            if isinstance(error, WrongState) or not (error.retryable or error.in_doubt):
                raise
            raise self._lost(f"the lease ended: {error.message}") from error
        fields: dict[str, Any] = json.loads(answer.body)
        return fields

    def _over(self, why: str) -> AttemptOver:
        self._task.over = True
        return AttemptOver(why)

    def _lost(self, why: str) -> AttemptOver:
        self._task.lose()
        return AttemptOver(why)

    def _is_cancelled(self) -> bool:
        """Asks, because the answer to a begin does not tell a cancellation from a lost claim."""
        body = to_json({"claims": [self._task.claim]}, "a field")
        request = Request("POST", "/v1/claims:renew", body, timeout=TRY_TIME)
        try:
            answer = self._task.transport.call(request, lambda: self._task.deadline)
        except OnceError:
            return False
        self._task.take_renewal(answer.sent, answer.json()["claims"][0])
        return self._task.cancelled.is_set() and not self._task.lost.is_set()
