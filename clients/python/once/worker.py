"""A worker of one queue: offers, starts, heartbeats and settlements.

    fetcher     long poll for as many offers as handlers are free
    handlers    start one offer, run it, settle it and take the next offer from the answer
    heartbeat   renews the leases of all started tasks
"""

from __future__ import annotations

import contextvars
import logging
import os
import socket
import threading
from collections import deque
from typing import Any, Callable, Mapping, Optional

from .claim import TRY_TIME, ClaimedTask
from .errors import AttemptOver, Cancelled, Dead, Fail, InvalidInput, OnceError, Unknown
from .task import Task, current, probe_answer, why_of
from .transport import Interrupt, Request, Transport, now, segment, sleep
from .values import duration, to_json

log = logging.getLogger("once")

POLL_WAIT = 30.0
MOST_RENEWED = 1000  # claims of one request
RELEASE_TIME = 5.0

Verdict = dict[str, Any]


class Worker:
    """Runs the tasks of one queue on threads. `start()`, then `stop()`, then `join()`."""

    def __init__(
        self,
        transport: Transport,
        queue: str,
        handler: Callable[[Task], Any],
        concurrency: int = 1,
        *,
        probe: Optional[Callable[[Task], Any]] = None,
        name: Optional[str] = None,
    ) -> None:
        if not isinstance(concurrency, int) or not 1 <= concurrency <= MOST_RENEWED:
            raise InvalidInput(
                f"concurrency is a number from 1 to {MOST_RENEWED}", code="invalid_input"
            )
        self.queue = queue
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self._poll_path = f"/v1/queues/{segment(queue)}/claims"
        self._transport = transport
        self._handler = handler
        self._probe = probe
        self._concurrency = concurrency
        self._condition = threading.Condition()
        self._reset()

    def _reset(self) -> None:
        self._offers: deque[str] = deque()
        self._free = 0  # handlers that wait for an offer
        self._running: set[ClaimedTask] = set()
        self._stopping = False
        self._end = float("inf")  # of the drain
        self._interrupt = Interrupt()
        self._threads: list[threading.Thread] = []
        self._heartbeat: Optional[threading.Thread] = None

    # --- Life

    def start(self, failed: Callable[[OnceError], None]) -> None:
        """Starts the threads. `failed` is told if the worker cannot go on."""
        self._reset()
        self._failed = failed
        loops = [("fetch", self._fetch)]
        loops += [(f"handler-{i + 1}", self._handle) for i in range(self._concurrency)]
        self._threads = [self._thread(name, loop) for name, loop in loops]
        self._heartbeat = self._thread("heartbeat", self._beat)
        for thread in [self._heartbeat, *self._threads]:
            thread.start()

    def _thread(self, name: str, loop: Callable[[], None]) -> threading.Thread:
        def guarded() -> None:
            try:
                loop()
            except Exception as error:
                log.exception("%s: a thread of the worker broke", self.queue)
                self._failed(OnceError(f"the worker of {self.queue} broke: {why_of(error)}"))

        return threading.Thread(target=guarded, name=f"once-{self.queue}-{name}", daemon=True)

    def stop(self, end: float) -> None:
        """Starts nothing new. Requests are not repeated after `end`."""
        with self._condition:
            self._stopping, self._end = True, end
            self._condition.notify_all()
        self._interrupt.fire()

    def join(self, end: float) -> bool:
        """Waits for the handlers. Returns false if some still run at `end`."""
        for thread in self._threads:
            thread.join(max(0.0, end - now()))
        if any(thread.is_alive() for thread in self._threads):
            with self._condition:
                for task in self._running:
                    task.cancelled.set()
            return False
        if self._heartbeat:
            with self._condition:
                self._condition.notify_all()
            self._heartbeat.join(max(1.0, end - now()))
        return True

    # --- Offers

    def _as_worker(self) -> dict[str, Any]:
        return {"worker": self.name, "can_probe": self._probe is not None}

    def _fetch(self) -> None:
        while True:
            with self._condition:
                while not self._stopping and self._free <= len(self._offers):
                    self._condition.wait()
                wanted = self._free - len(self._offers)
                if self._stopping:
                    break
            fields = {**self._as_worker(), "max": wanted, "wait": duration(POLL_WAIT)}
            request = Request(
                "POST", self._poll_path, to_json(fields, "a field"), timeout=POLL_WAIT + 10
            )
            try:
                answer = self._transport.call(
                    request,
                    lambda: 0.0 if self._stopping else float("inf"),
                    interrupt=self._interrupt,
                )
            except OnceError as error:
                if not self._stopping:
                    self._failed(error)
                break
            with self._condition:
                self._offers.extend(each["claim"] for each in answer.json()["claims"])
                self._condition.notify_all()
        self._release_offers()

    def _next_offer(self) -> Optional[str]:
        with self._condition:
            self._free += 1
            self._condition.notify_all()
            while not self._offers and not self._stopping:
                self._condition.wait()
            self._free -= 1
            return None if self._stopping else self._offers.popleft()

    def _release_offers(self) -> None:
        """Gives offers back at once. Without that, they end by themselves within ten seconds."""
        with self._condition:
            claims = list(self._offers)
            self._offers.clear()
        if not claims:
            return
        verdicts = [{"claim": claim, "outcome": "released"} for claim in claims]
        request = Request("POST", "/v1/claims:settle", to_json({"claims": verdicts}, "a field"))
        end = now() + RELEASE_TIME
        try:
            self._transport.call(request, lambda: end)
        except OnceError as error:
            log.debug("offers of %s were not released: %s", self.queue, error)

    # --- Handlers

    def _handle(self) -> None:
        offer: Optional[str] = None
        while True:
            offer = offer or self._next_offer()
            if offer is None:
                return
            try:
                offer = self._work(offer)
            except OnceError as error:
                if not self._stopping:
                    self._failed(error)
                return

    def _work(self, offer: str) -> Optional[str]:
        """Runs one offer to its settlement. Returns the next offer."""
        task = self._start_offer(offer)
        if task is None:
            return None
        if task.lost.is_set():  # the answer was lost for longer than the lease
            nothing_ran = {"outcome": "failed", "why": "its start was answered too late; nothing ran"}
            return self._settle(task, {**nothing_ran, "retry_in": "0s"})
        with self._condition:
            self._running.add(task)
            self._condition.notify_all()
        try:
            verdict = contextvars.copy_context().run(self._run, task)
            if task.lost.is_set():
                log.warning("%s: the lease of %s was lost; nothing was settled", self.queue, task.id)
                return None
            return self._settle(task, verdict) if verdict and not task.over else None
        finally:
            with self._condition:
                self._running.discard(task)

    def _start_offer(self, offer: str) -> Optional[ClaimedTask]:
        # A start that was carried out counts an attempt, so it is repeated until it is answered.
        sent, fields = self._one_claim("/v1/claims:start", {"claims": [offer]})
        if "error" in fields:
            log.debug("%s: an offer has ended: %s", self.queue, fields.get("message"))
            return None
        return ClaimedTask(self._transport, self.queue, fields, sent)

    def _run(self, task: ClaimedTask) -> Optional[Verdict]:
        """The verdict on an attempt; None if nothing must be settled."""
        current.set(task)
        try:
            if task.probing and self._is_settled_by_probe(task):
                return None
            result = self._handler(task)
            to_json(result, "the result")
            return {"outcome": "completed", "result": result}
        except AttemptOver:
            task.over = True
            return None
        except Dead as error:
            return {"outcome": "dead", "why": _said(error)}
        except Fail as error:
            verdict = {"outcome": "failed", "why": _said(error)}
            if error.retry_in is not None:
                verdict["retry_in"] = duration(error.retry_in)
            return verdict
        except Unknown as error:
            return {"outcome": "unknown", "why": _said(error)}
        except Cancelled as error:
            return {"outcome": "failed", "why": _said(error)}
        except Exception as error:
            if isinstance(error, InvalidInput) and error.message.startswith("the result is not"):
                return {"outcome": "unknown", "why": f"the handler returned no JSON: {error}"}
            log.warning("%s: %s failed", self.queue, task.id, exc_info=True)
            return {"outcome": "failed", "why": why_of(error)}
        except BaseException as error:  # SystemExit, say: nobody knows how far the handler came
            return {"outcome": "unknown", "why": why_of(error)}

    def _is_settled_by_probe(self, task: ClaimedTask) -> bool:
        """Asks the worker's probe and records its answer. False if the task must run."""
        assert self._probe is not None
        try:
            found = probe_answer(self._probe(task))
            if found is None:
                verdict = {"outcome": "did_not_happen"}
            else:
                to_json(found.result, "the result")
                verdict = {"outcome": "happened", "result": found.result}
        except Exception as error:
            verdict = {"outcome": "probe_unknown", "why": _said(error)}
        if task.lost.is_set():
            return True
        _, fields = self._one_claim("/v1/claims:settle", {"claims": [{"claim": task.claim, **verdict}]})
        task.over = "error" in fields or fields["state"] != "running"
        return task.over

    # --- Settlements

    def _settle(self, task: ClaimedTask, verdict: Verdict) -> Optional[str]:
        """Records the verdict and returns the next offer. The verdict was reached in time."""
        fields: dict[str, Any] = {"claims": [{"claim": task.claim, **verdict}]}
        if not self._stopping:
            fields.update(self._as_worker(), next=1)
        offers: list[str] = []
        try:
            _, settled = self._one_claim("/v1/claims:settle", fields, offers)
        except InvalidInput as error:
            if verdict["outcome"] == "unknown":
                raise
            why = f"its verdict was refused: {error.message}"
            log.error("%s: %s is in doubt: %s", self.queue, task.id, why)
            return self._settle(task, {"outcome": "unknown", "why": why})
        if "error" in settled:
            log.warning("%s: %s was not settled: %s", self.queue, task.id, settled.get("message"))
        if offers and self._stopping:
            with self._condition:
                self._offers.extend(offers)
            self._release_offers()
            return None
        return offers[0] if offers else None

    def _one_claim(
        self, path: str, fields: Mapping[str, Any], offers: Optional[list[str]] = None
    ) -> tuple[float, dict[str, Any]]:
        """When the request was sent, and the answer for its only claim. `offers` gets `next`."""
        request = Request("POST", path, to_json(fields, "a field"), timeout=TRY_TIME)
        while True:
            answer = self._transport.call(request, lambda: self._end)
            content = answer.json()
            if offers is not None:
                offers.extend(each["claim"] for each in content.get("next", []))
            claim: dict[str, Any] = content["claims"][0]
            if not (claim.get("retryable") or claim.get("in_doubt") is True and "error" in claim):
                return answer.sent, claim
            if now() >= self._end:
                return answer.sent, claim
            sleep(0.2, lambda: self._end)

    # --- Heartbeats

    def _beat(self) -> None:
        while True:
            with self._condition:
                tasks = [task for task in self._running if not task.over]
                if not tasks:
                    if self._stopping and not any(t.is_alive() for t in self._threads):
                        return
                    self._condition.wait(0.2 if self._stopping else None)
                    continue
                due = min(min(task.renew_at, task.deadline) for task in tasks)
                if due > now():
                    self._condition.wait(due - now())
                    continue
            for task in tasks:
                if now() >= task.deadline:
                    task.lose()
            self._renew([task for task in tasks if not task.over and task.renew_at < float("inf")])

    def _renew(self, tasks: list[ClaimedTask]) -> None:
        tasks = tasks[:MOST_RENEWED]
        if not tasks:
            return
        nearest = min(task.deadline for task in tasks)
        # A try that hangs must leave time for others before the nearest lease ends.
        timeout = max(0.2, (nearest - now()) / 3)
        body = to_json({"claims": [task.claim for task in tasks]}, "a field")
        request = Request("POST", "/v1/claims:renew", body, timeout=min(TRY_TIME, timeout))
        try:
            answer = self._transport.call(request, lambda: nearest)
        except OnceError as error:
            log.warning("%s: leases were not renewed: %s", self.queue, error)
            for task in tasks:
                task.renew_at = now() + 0.2
            return
        for task, fields in zip(tasks, answer.json()["claims"]):
            task.take_renewal(answer.sent, fields)


def _said(error: BaseException) -> str:
    """The words of an exception that a handler raised on purpose."""
    said = str(error)
    return said.encode(errors="backslashreplace").decode() if said else type(error).__name__
