"""Runs the workers of a client until a signal."""

from __future__ import annotations

import logging
import queue
import signal
import threading
from types import FrameType
from typing import Any, Optional

from .errors import InvalidInput, OnceError
from .transport import now
from .worker import Worker

log = logging.getLogger("once")

AFTER_CANCEL = 2.0  # seconds for handlers that were told to stop


class Runner:
    def __init__(self) -> None:
        self._workers: list[Worker] = []
        # A signal handler may put into a SimpleQueue at any moment. An Event could deadlock.
        self._wake: queue.SimpleQueue[Optional[OnceError]] = queue.SimpleQueue()

    def add(self, worker: Worker) -> None:
        self._workers.append(worker)

    def stop(self) -> None:
        self._wake.put(None)

    def run(self, drain: float, signals: bool) -> None:
        if not self._workers:
            raise InvalidInput("there is no worker to run", code="invalid_input")
        before = self._take_signals() if signals else {}
        try:
            for worker in self._workers:
                worker.start(self._wake.put)
            error = self._wake.get()
        finally:
            self._restore(before)  # a second signal ends the process
            end = now() + drain
            for worker in self._workers:
                worker.stop(end)
            done = [worker.join(end) for worker in self._workers]
            if not all(done):
                log.warning("some handlers still run after %s s; they were told to stop", drain)
                for worker in self._workers:
                    worker.join(now() + AFTER_CANCEL)
            while not self._wake.empty():
                self._wake.get()
        if error is not None:
            raise error

    def _take_signals(self) -> dict[int, Any]:
        if threading.current_thread() is not threading.main_thread():
            return {}

        def stop(number: int, _: Optional[FrameType]) -> None:
            self._wake.put(None)

        return {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}

    @staticmethod
    def _restore(before: dict[int, Any]) -> None:
        for number, handler in before.items():
            signal.signal(number, handler)
