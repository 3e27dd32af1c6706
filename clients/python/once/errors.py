"""The errors of this client, and the exceptions with which a handler ends its attempt."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Mapping, Optional, Union

# A number of seconds, a timedelta, or a text such as "1h30m".
Duration = Union[int, float, timedelta, str]


class OnceError(Exception):
    """A request failed.

    `code` is the server's code, such as ``not_found``. The classes below name the common codes.
    If `retryable` is true, the same call may succeed later. If `in_doubt` is true, the call may
    have been carried out.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "failed",
        retryable: bool = False,
        in_doubt: bool = False,
        reason: Optional[str] = None,
        facts: Optional[Mapping[str, str]] = None,
        status: int = 0,
        differs: Optional[list[str]] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.retryable = retryable
        self.in_doubt = in_doubt
        self.reason = reason
        self.facts = dict(facts or {})
        self.status = status
        self.differs = differs


class InvalidInput(OnceError):
    """The server or the client refused the input. Nothing was done."""


class NotFound(OnceError):
    """There is no such task, queue or path."""


class Conflict(OnceError):
    """The id exists with other content. `differs` names the places. Nothing was added."""


class WrongState(OnceError):
    """The state of the task, step or queue does not allow the call."""


class Fenced(OnceError):
    """The claim does not hold its task any more. Nothing was recorded."""


class Refused(OnceError):
    """The server does not accept the token or the origin of the request."""


class NoAnswer(OnceError):
    """No answer came within the limit. `in_doubt` says whether a try may have reached the server."""


class TimedOut(OnceError):
    """`wait()` ended before the task was settled. The task goes on."""


_CLASSES: dict[str, type[OnceError]] = {
    "invalid_input": InvalidInput,
    "too_large": InvalidInput,
    "not_found": NotFound,
    "conflicting_duplicate": Conflict,
    "wrong_state": WrongState,
    "queue_mismatch": WrongState,
    "fenced": Fenced,
}


def error_of(status: int, fields: Mapping[str, Any]) -> OnceError:
    """The error that a problem document, or an answer with `error`, describes."""
    code = str(fields.get("code") or fields.get("error") or "failed")
    kind: type[OnceError] = _CLASSES.get(code, OnceError)
    if status in (401, 403):
        kind = Refused
    message = str(fields.get("detail") or fields.get("message") or f"HTTP status {status}")
    return kind(
        message,
        code=code,
        retryable=bool(fields.get("retryable")),
        in_doubt=bool(fields.get("in_doubt")),
        reason=fields.get("reason"),
        facts=fields.get("facts"),
        status=status,
        differs=fields.get("differs"),
    )


class Dead(Exception):
    """Raised by a handler: the task can never succeed. It becomes a dead letter at once."""


class Fail(Exception):
    """Raised by a handler: the attempt failed without an effect. The task is retried.

    `retry_in` replaces the queue's backoff.
    """

    def __init__(self, why: str = "", *, retry_in: Optional[Duration] = None) -> None:
        super().__init__(why)
        self.retry_in = retry_in


class Unknown(Exception):
    """Raised by a handler, step or probe: nobody knows whether it happened.

    The in-doubt policy of the queue or step decides what happens next.
    """


class AttemptOver(Exception):
    """Raised by `Task.step()` if this attempt must end. Let it pass; nothing is settled then."""


class Cancelled(Exception):
    """Raised by `Task.step()` if a person cancelled the task. Let it pass, or clean up first."""
