"""The asyncio face: `AsyncOnce`, with handlers that are coroutines.

    from once.aio import AsyncOnce
    once = AsyncOnce()

    @once.worker("writers", concurrency=8)
    async def write(task):
        notes = await task.step("research", lambda: ask(task.body["topic"]))
        return {"notes": notes}

    asyncio.run(once.run())

Handlers, steps and probes run on the event loop. Requests run on threads.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Awaitable, Callable, Iterable, Mapping, Optional, TypeVar, Union

from .client import Message, Once, Outcome, Receipt
from .errors import OnceError, Unknown
from .task import Given, Task, or_result, Result, current

AsyncHandler = TypeVar("AsyncHandler", bound=Callable[["AsyncTask"], Awaitable[Any]])
REQUESTS_AT_ONCE = 64


class AsyncTask:
    """A Task whose `step()` is awaited. All other attributes are those of `Task`."""

    def __init__(self, task: Task, pool: ThreadPoolExecutor) -> None:
        self._task = task
        self._pool = pool

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    async def step(
        self,
        name: str,
        function: Callable[[], Any],
        *,
        in_doubt: Optional[str] = None,
        probe: Optional[Callable[[], Any]] = None,
    ) -> Any:
        """As `Task.step()`. `function` and `probe` may be coroutine functions."""
        loop = asyncio.get_running_loop()
        flow = self._task._flow(name, function, in_doubt, probe)
        action: Any = next(flow)
        while not isinstance(action, Result):
            try:
                if isinstance(action, Given):
                    value = action.call()
                    if inspect.isawaitable(value):
                        value = await value
                else:
                    value = await loop.run_in_executor(self._pool, action.call)
            except BaseException as error:
                action = or_result(functools.partial(flow.throw, error))
            else:
                action = or_result(functools.partial(flow.send, value))
        return action.value


class AsyncOnce:
    """The client of one server for asyncio. The parameters are those of `Once`."""

    def __init__(self, url: Optional[str] = None, token: Optional[str] = None, **options: Any) -> None:
        self.sync = Once(url, token, **options)
        self._pool = ThreadPoolExecutor(REQUESTS_AT_ONCE, thread_name_prefix="once-request")
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    async def call(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Awaits a method of `sync` on a thread: ``await once.call(once.sync.queues)``."""
        work = functools.partial(method, *arguments, **named)
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def publish(self, topic: str, body: Any = None, **options: Any) -> Receipt:
        receipt: Receipt = await self.call(self.sync.publish, topic, body, **options)
        return receipt

    async def publish_many(
        self, messages: Iterable[Union[Message, Mapping[str, Any]]], **options: Any
    ) -> list[Union[Receipt, OnceError]]:
        receipts: list[Union[Receipt, OnceError]]
        receipts = await self.call(self.sync.publish_many, messages, **options)
        return receipts

    async def wait(
        self, id: str, queue: Optional[str] = None, timeout: Optional[float] = None
    ) -> Outcome:
        outcome: Outcome = await self.call(self.sync.wait, id, queue, timeout)
        return outcome

    async def task(self, id: str) -> dict[str, Any]:
        found: dict[str, Any] = await self.call(self.sync.task, id)
        return found

    def worker(
        self,
        queue: str,
        *,
        concurrency: int = 1,
        probe: Optional[Callable[[AsyncTask], Awaitable[Any]]] = None,
        name: Optional[str] = None,
    ) -> Callable[[AsyncHandler], AsyncHandler]:
        """As `Once.worker()`, for a coroutine function."""

        def register(handler: AsyncHandler) -> AsyncHandler:
            self.sync.worker(
                queue,
                concurrency=concurrency,
                probe=self._on_loop(probe) if probe else None,
                name=name,
            )(self._on_loop(handler))
            return handler

        return register

    def _on_loop(self, handler: Callable[[AsyncTask], Awaitable[Any]]) -> Callable[[Task], Any]:
        """The handler's thread waits while the coroutine runs on the event loop."""

        async def run(task: Task) -> Any:
            current.set(task)
            return await handler(AsyncTask(task, self._pool))

        def wait(task: Task) -> Any:
            loop = self._loop
            assert loop is not None
            try:
                return asyncio.run_coroutine_threadsafe(run(task), loop).result()
            except (asyncio.CancelledError, RuntimeError) as error:
                if isinstance(error, RuntimeError) and not loop.is_closed():
                    raise
                raise Unknown("the event loop ended while the handler ran") from error

        return wait

    async def run(self, *, drain: float = 30.0, signals: bool = True) -> None:
        """Runs the workers until SIGTERM, SIGINT or `stop()`, and then drains them."""
        self._loop = asyncio.get_running_loop()
        taken = []
        if signals and threading.current_thread() is threading.main_thread():
            taken = [signal.SIGTERM, signal.SIGINT]
        for number in taken:
            self._loop.add_signal_handler(number, self.stop)
        work = asyncio.ensure_future(
            asyncio.to_thread(self.sync.run, drain=drain, signals=False)
        )
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            self.stop()
            await work
            raise
        finally:
            for number in taken:
                self._loop.remove_signal_handler(number)

    def stop(self) -> None:
        """Ends `run()`. Any thread may call."""
        self.sync.stop()

    def close(self) -> None:
        """Closes the idle connections and ends the threads of requests."""
        self.sync.close()
        self._pool.shutdown(wait=False)
