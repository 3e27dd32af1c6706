"""Bodies, results and durations, as they are on the wire."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timedelta, timezone
from typing import Any, Mapping, Union

from .errors import Duration, InvalidInput

When = Union[datetime, str]
BYTES = (bytes, bytearray, memoryview)


def to_json(value: Any, what: str) -> bytes:
    """The JSON text of a value. Raises InvalidInput before anything is sent."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{what} is not JSON: {error}; nothing was sent", code="invalid_input"
        ) from error


def body_of(fields: Mapping[str, Any], name: str = "body") -> Any:
    """A body or result of an answer: a JSON value, or bytes if bytes were published."""
    if "raw" in fields:
        return base64.b64decode(fields["raw"])
    value = fields.get(name)
    return value.encode() if fields.get("text") and isinstance(value, str) else value


def from_bytes(recorded: bytes) -> Any:
    """The value of recorded bytes: JSON if they are JSON, else text, else the bytes."""
    try:
        text = recorded.decode()
    except UnicodeDecodeError:
        return recorded
    try:
        return json.loads(text)
    except ValueError:
        return text


def duration(given: Duration) -> str:
    """A duration in the server's form."""
    if isinstance(given, str):
        return given
    seconds = given.total_seconds() if isinstance(given, timedelta) else given
    if not 0 <= seconds < 1e10:
        raise InvalidInput(
            f"a duration of {seconds} s is not possible; nothing was sent", code="invalid_input"
        )
    return f"{round(seconds * 1000)}ms"


def moment(given: When) -> str:
    """A time in the server's form."""
    if isinstance(given, str):
        return given
    if given.tzinfo is None:
        raise InvalidInput(
            "a datetime needs a time zone, such as timezone.utc; nothing was sent",
            code="invalid_input",
        )
    utc = given.astimezone(timezone.utc)
    return utc.strftime("%Y-%m-%dT%H:%M:%S.") + f"{utc.microsecond // 1000:03d}Z"
