"""The program that runs the code of `mcpwire.bench.client_code` and measures its calls.

::

    python code_child.py MODULE:FUNCTION ARGUMENT

It prints ``{}`` when the code is connected. Then it answers each line of JSON on its
standard input with a line of JSON; the end of the input closes the code. Requests:

- ``users``, and ``seconds`` or ``calls``: keep that many calls in flight for a time, or
  until so many are made. In the answer, ``cpu`` and ``elapsed`` are nanoseconds from
  the first call to the last answer, and ``latencies`` those of each call. With
  ``"timed": false`` and ``calls``, no clock is read for a call, and there are none.
- ``method`` and ``argument``: call a method of the function that makes the calls. It
  returns the answer.

A program in any language that speaks this protocol can take its place. This file uses
the standard library only, because it runs in the environment of the measured client.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import pkgutil
import sys
from itertools import count
from pathlib import Path
from threading import Barrier, Thread
from time import perf_counter_ns, process_time_ns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class Measurement:
    """The measurement of one request; all users share it.

    The CPU time is that of this process, or the result of the function's `cpu_ns`.
    """

    def __init__(
        self,
        call: Any,
        users: int,
        seconds: float = 0.0,
        calls: int = 0,
        *,
        timed: bool = True,
    ) -> None:
        self.users = users
        self._remaining = iter(range(calls)) if calls else count()
        self._length = int(seconds * 1e9) if seconds else sys.maxsize
        self._is_timed = timed
        self._latencies: list[int] = []
        self._cpu_ns = getattr(call, "cpu_ns", process_time_ns)

    def begin(self) -> None:
        """Start the clocks."""
        self._began, self._cpu = perf_counter_ns(), self._cpu_ns()
        self._end = self._began + self._length

    def stop(self) -> None:
        """End the measurement after the current calls."""
        self._end = 0

    def calls(self) -> Iterator[None]:
        """Yield once for each call of one user, which makes at least one."""
        if not self._is_timed:
            yield from (None for _ in self._remaining)
            return
        start = perf_counter_ns()
        for _ in self._remaining:
            yield
            answered = perf_counter_ns()
            self._latencies.append(answered - start)
            if answered >= self._end:
                return
            start = answered

    def answer(self) -> dict[str, Any]:
        """Stop the clocks; return the answer to the request."""
        return {
            "cpu": self._cpu_ns() - self._cpu,
            "elapsed": perf_counter_ns() - self._began,
            "latencies": self._latencies,
        }


async def run_tasks(call: Any, measurement: Measurement) -> dict[str, Any]:
    """Make the calls in a task for each user; return the answer to the request."""

    async def run_user() -> None:
        for _ in measurement.calls():
            await call()

    measurement.begin()
    async with asyncio.TaskGroup() as group:
        for _ in range(measurement.users):
            group.create_task(run_user())
    return measurement.answer()


def run_threads(call: Any, measurement: Measurement) -> dict[str, Any]:
    """Make the calls in a thread for each user, or in this one for a single user.

    The clocks start when all threads run. The first failure of a call is raised.
    """

    def run_user() -> None:
        for _ in measurement.calls():
            call()

    if measurement.users == 1:
        measurement.begin()
        run_user()
        return measurement.answer()
    failures: list[BaseException] = []
    barrier = Barrier(measurement.users, measurement.begin)

    def run_thread() -> None:
        try:
            barrier.wait()
            run_user()
        except BaseException as error:  # noqa: BLE001 - raised again below
            failures.append(error)
            measurement.stop()

    threads = [Thread(target=run_thread) for _ in range(measurement.users)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return measurement.answer()


class Parent:
    """The pipes to the parent process.

    The code and the processes that it starts get the null device as standard input, and
    their standard output goes to standard error.
    """

    def __init__(self) -> None:
        self._requests = os.fdopen(os.dup(0))
        self._answers = os.fdopen(os.dup(1), "w")
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)

    def requests(self) -> Iterator[dict[str, Any]]:
        """Yield the requests until the input ends.

        Reading blocks the event loop on purpose: code that waits costs no CPU time.
        """
        while line := self._requests.readline():
            yield json.loads(line)

    def answer(self, fields: dict[str, Any]) -> None:
        """Write an answer."""
        self._answers.write(json.dumps(fields) + "\n")
        self._answers.flush()


async def serve(code: Any, parent: Parent) -> None:
    """Open asynchronous code and answer the requests."""
    async with code as call:
        parent.answer({})
        for request in parent.requests():
            if "method" in request:
                answer = getattr(call, request["method"])(request["argument"])
                parent.answer(await answer if inspect.isawaitable(answer) else answer)
            else:
                parent.answer(await run_tasks(call, Measurement(call, **request)))


def serve_blocking(code: Any, parent: Parent) -> None:
    """Open blocking code and answer the requests."""
    with code as call:
        parent.answer({})
        for request in parent.requests():
            if "method" in request:
                parent.answer(getattr(call, request["method"])(request["argument"]))
            else:
                parent.answer(run_threads(call, Measurement(call, **request)))


def main(function: str, argument: str) -> None:
    """Open the code and answer the requests."""
    parent = Parent()
    own_folder = str(Path(__file__).parent)
    sys.path[:] = [str(Path.cwd()), *(p for p in sys.path if p != own_folder)]
    code = pkgutil.resolve_name(function)(argument)
    if hasattr(code, "__aenter__"):
        asyncio.run(serve(code, parent))
    else:
        serve_blocking(code, parent)


if __name__ == "__main__":
    main(*sys.argv[1:])
