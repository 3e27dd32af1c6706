"""HTTP/1.1 to one server: a pool of kept-alive connections, and tries that repeat until an answer."""

from __future__ import annotations

import http.client
import json
import logging
import os
import random
import select
import socket
import ssl
import threading
import time
import urllib.parse
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Optional

from .errors import InvalidInput, NoAnswer, OnceError, error_of

log = logging.getLogger("once")

KEPT_IDLE = 45.0  # seconds; the server closes a connection after 60
CONNECT_TIME = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
AGAIN = (429, 502, 503, 504)  # also without a problem document, as a proxy answers

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Seconds on a clock that also runs while the machine sleeps, because leases do."""
    return time.clock_gettime(_CLOCK)


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes
    sent: float  # when the try that was answered was sent
    lost: bool = False  # an earlier try may have reached the server

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise OnceError(
                f"the answer is not JSON ({error}); is this the address of `once serve`?",
                status=self.status,
            ) from error


@dataclass
class Request:
    method: str
    target: str
    body: Optional[bytes] = None
    type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 30.0  # of one try


class Lost(Exception):
    """One try got no answer."""

    def __init__(self, why: str, reached: bool, stale: bool = False) -> None:
        super().__init__(why)
        self.reached = reached  # the server may have received the request
        self.stale = stale  # the connection was an old one


class Interrupt:
    """Ends a request of another thread."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._connection: Optional[http.client.HTTPConnection] = None
        self._fired = False

    def attach(self, connection: Optional[http.client.HTTPConnection]) -> None:
        with self._mutex:
            self._connection = connection
            if self._fired:
                self._cut()

    def fire(self) -> None:
        with self._mutex:
            self._fired = True
            self._cut()

    def _cut(self) -> None:
        sock = self._connection.sock if self._connection else None
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended by itself


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(self.timeout)
            sock.connect(self._path)
        except BaseException:
            sock.close()
            raise
        self.sock = sock


def segment(text: str) -> str:
    """A name as one segment of a path."""
    if not isinstance(text, str) or not text:
        raise InvalidInput(
            f"a name is a text that is not empty, not {text!r}; nothing was sent",
            code="invalid_input",
        )
    try:
        return urllib.parse.quote(text, safe="")
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"{text!r} is not Unicode text: {error}; nothing was sent", code="invalid_input"
        ) from error


def problem_of(status: int, body: bytes) -> OnceError:
    try:
        fields = json.loads(body)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        text = body[:200].decode(errors="replace").strip()
        fields = {"detail": f"HTTP status {status} without a problem document: {text}"}
    return error_of(status, fields)


class Transport:
    """The connections to one server. Any thread may call."""

    def __init__(
        self, url: str, token: Optional[str], ssl_context: Optional[ssl.SSLContext]
    ) -> None:
        self.url = url
        self._base = ""
        self._make = self._maker(url, ssl_context)
        self._common = {"Accept": "application/json"}
        if token:
            if not (token.isascii() and token.isprintable() and " " not in token):
                raise InvalidInput("the token has a character that no token has", code="invalid_input")
            self._common["Authorization"] = f"Bearer {token}"
        self._mutex = threading.Lock()
        self._idle: list[tuple[float, http.client.HTTPConnection]] = []
        self._process = os.getpid()

    def _maker(
        self, url: str, context: Optional[ssl.SSLContext]
    ) -> Callable[[], http.client.HTTPConnection]:
        if url.startswith("unix:"):
            path = url[len("unix:") :]
            path = path[2:] if path.startswith("//") else path
            return lambda: _UnixConnection(path)
        parts = urllib.parse.urlsplit(url)
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if parts.scheme not in ("http", "https") or not host or parts.query or parts.username:
            raise InvalidInput(
                f"the address {url!r} is none of http://HOST:PORT, https://HOST:PORT and "
                "unix:/PATH",
                code="invalid_input",
            )
        self._base = parts.path.rstrip("/")
        name: str = host
        if parts.scheme == "http":
            return lambda: http.client.HTTPConnection(name, port)
        secure = context or ssl.create_default_context()
        return lambda: http.client.HTTPSConnection(name, port, context=secure)

    # --- Connections

    def _take(self) -> Optional[http.client.HTTPConnection]:
        """An idle connection that still looks open."""
        with self._mutex:
            if self._process != os.getpid():  # after a fork, the connections are the parent's
                self._process, self._idle = os.getpid(), []
            while self._idle:
                since, connection = self._idle.pop()
                sock = connection.sock
                if sock is not None and now() - since < KEPT_IDLE and not _readable(sock):
                    return connection
                connection.close()
        return None

    def _give_back(self, connection: http.client.HTTPConnection) -> None:
        with self._mutex:
            self._idle.append((now(), connection))

    def close(self) -> None:
        """Closes the idle connections."""
        with self._mutex:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    # --- Requests

    def _try(self, request: Request, timeout: float, interrupt: Optional[Interrupt]) -> Answer:
        connection = self._take()
        stale = connection is not None
        if connection is None:
            connection = self._make()
            connection.timeout = min(CONNECT_TIME, timeout)
            try:
                connection.connect()
            except ssl.SSLCertVerificationError as error:
                raise OnceError(
                    f"the certificate of {self.url} is not trusted: {error.verify_message}; "
                    "nothing was sent: pass ca_file or ssl_context",
                    code="untrusted",
                ) from error
            except (OSError, UnicodeError) as error:
                connection.close()
                raise Lost(str(error), reached=False) from error
        try:
            if interrupt:
                interrupt.attach(connection)
            connection.sock.settimeout(timeout)
            headers = {**self._common, **request.headers}
            if request.body is not None:
                headers["Content-Type"] = request.type
            sent = now()
            try:
                target = self._base + request.target
                connection.request(request.method, target, request.body, headers)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the server may have answered before the end of the body
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Lost(str(error) or type(error).__name__, reached=True, stale=stale) from error
        except BaseException:
            connection.close()
            raise
        finally:
            if interrupt:
                interrupt.attach(None)
        if response.will_close:
            connection.close()
        else:
            self._give_back(connection)
        return Answer(response.status, dict(response.headers.items()), body, sent)

    def call(
        self,
        request: Request,
        until: Callable[[], float],
        *,
        repeat_lost: bool = True,
        interrupt: Optional[Interrupt] = None,
    ) -> Answer:
        """The answer of the server. Repeats the request until one comes.

        Gives up at `until()`, on the clock of now(). With `repeat_lost` false, a request that
        may have reached the server is not sent again. Raises OnceError for a status above 299.
        """
        pause, lost, stale_tries = FIRST_PAUSE, False, 0
        while True:
            wait: float = 0
            try:
                left = until() - now()
                timeout = max(0.05, min(request.timeout, left))
                answer = self._try(request, timeout, interrupt)
            except Lost as error:
                lost = lost or error.reached
                problem: OnceError = NoAnswer(
                    f"{self.url} did not answer: {error}",
                    code="no_answer",
                    retryable=True,
                    in_doubt=lost,
                )
                if error.reached and not repeat_lost:
                    raise problem from error
                # The server has closed connections that were idle. A new one is tried at once.
                if error.stale and stale_tries < 3:
                    stale_tries += 1
                    if until() > now():
                        continue
            else:
                answer.lost = lost
                if answer.status < 300:
                    return answer
                problem = problem_of(answer.status, answer.body)
                again = problem.retryable or problem.in_doubt or answer.status in AGAIN
                if not again or (problem.in_doubt and not repeat_lost):
                    problem.in_doubt = problem.in_doubt or (lost and may_be_own_doing(problem))
                    raise problem
                wait = _retry_after(answer.headers)
                lost = lost or problem.in_doubt
            wait = max(wait, pause * random.uniform(0.5, 1))
            if now() + wait >= until():
                problem.in_doubt = problem.in_doubt or lost
                raise problem
            log.debug("%s %s is repeated: %s", request.method, request.target, problem)
            sleep(wait, until)
            pause = min(pause * 2, LONGEST_PAUSE)


def may_be_own_doing(problem: OnceError) -> bool:
    """Whether an earlier try that was carried out can be the reason of the problem."""
    return problem.code in ("wrong_state", "not_found", "fenced")


def sleep(seconds: float, until: Callable[[], float]) -> None:
    """Sleeps, at most to `until()`."""
    end = now() + seconds
    while (left := min(end, until()) - now()) > 0:
        time.sleep(min(left, 0.1))


def _readable(sock: socket.socket) -> bool:
    """An idle connection is readable if the server has closed it."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def _retry_after(headers: Mapping[str, str]) -> float:
    try:
        return min(10.0, max(0.0, float(headers.get("Retry-After") or 0)))
    except ValueError:
        return 0.0
