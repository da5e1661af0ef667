"""Client code that is measured from inside: single calls, in a process of their own.

::

    code = {"new": ClientCode("calls:new"), "old": ClientCode("calls:old")}
    one_user, many_users = await measure_code(code, users=[1, 32])
    print(differences(many_users, against="old"))

`measure_client` measures a whole program instead, from the side of its server.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping  # noqa: TC003 - attrs resolves it
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from mcpwire.bench.histogram import encode_histogram, histogram
from mcpwire.bench.load import check_positive
from mcpwire.bench.results import Slice
from mcpwire.bench.worker_group import GeneratorFailed
from mcpwire.testing import procfs
from mcpwire.wire.json import encode, loads

if TYPE_CHECKING:
    from types import TracebackType

CHILD: Final = str(Path(__file__).with_name("code_child.py"))

_MAX_LINE_BYTES: Final = 256 * 1024 * 1024
_ANSWER_TIMEOUT_S: Final = 120.0
_EXIT_TIMEOUT_S: Final = 30.0
_FAILED_EXIT_TIMEOUT_S: Final = 2.0


@attrs.frozen
class ClientCode:
    """A function that connects a client, for `measure_code`.

    Attributes:
        function: The function as ``module:name``. It gets `argument` and returns a
            context manager. That yields a function without arguments that makes one
            call. If the context manager is asynchronous, the second function is too,
            and calls in flight are tasks; otherwise they are threads. CPU time is that
            of the process; a method `cpu_ns` of the second function replaces it.
        argument: The argument, such as the command line of a server. Results do not
            include it, as it may contain secrets.
        interpreter: The Python interpreter and its options. An interpreter of another
            environment needs no mcpwire there. A relative path starts at `folder`.
        program: The program that the interpreter runs. A program that speaks the
            protocol of `mcpwire.bench.code_child` can measure clients in another
            language.
        env: Environment variables in addition to those of this process.
        folder: The working directory, from which the module is imported; by default
            that of this process.
        max_users: The maximum number of calls in flight. A load with more users makes
            only so many calls at a time.

    Raises:
        ValueError: `max_users` is not above zero.
    """

    function: str
    argument: str = attrs.field(default="", repr=False)
    interpreter: tuple[str, ...] = (sys.executable,)
    program: str = CHILD
    env: Mapping[str, str] = attrs.field(factory=dict, hash=False, repr=False)
    folder: Path | None = None
    max_users: int | None = attrs.field(default=None, validator=check_positive)

    def __str__(self) -> str:
        """Return the function without its argument."""
        return self.function


class CodeProcess:
    """The process of client code; the code is connected within the context.

    Args:
        code: The code.
        name: A name for errors.

    Raises:
        GeneratorFailed: The code cannot be started, raised an exception (it is on
            standard error), or does not answer or end in time.
    """

    def __init__(self, code: ClientCode, name: str = "") -> None:
        self._code = code
        self._title = f"the code {name!r} ({code})" if name else f"the code {code}"
        self._users = 1
        self._warm_up = 0.0

    async def __aenter__(self) -> Self:
        code = self._code
        command = [*code.interpreter, code.program, code.function, code.argument]
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                cwd=code.folder,
                env={**os.environ, **code.env},
                limit=_MAX_LINE_BYTES,
                start_new_session=True,  # no Ctrl-C: it exits at the end of its input
            )
        except OSError as error:
            raise GeneratorFailed(f"cannot start {self._title}: {error}") from error
        try:
            await self._read(_ANSWER_TIMEOUT_S)
        except BaseException:
            await self._end(_FAILED_EXIT_TIMEOUT_S)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            await self._end(_FAILED_EXIT_TIMEOUT_S)
        elif not await self._end(_EXIT_TIMEOUT_S):
            raise GeneratorFailed(
                f"{self._title} did not end within {_EXIT_TIMEOUT_S:g} s"
            )
        elif self._process.returncode:
            raise self._exit_error()

    async def _end(self, timeout: float) -> bool:
        """Close the code; kill it with its descendants if it does not end in time."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        descendants: set[int] = set()
        try:
            await asyncio.wait_for(self._process.wait(), timeout)
        except TimeoutError:
            return False
        finally:
            if self._process.returncode is None:
                descendants = procfs.descendants(self.pid)
                self._process.kill()
            for pid in descendants:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await self._process.wait()
        return True

    def _exit_error(self) -> GeneratorFailed:
        code = self._process.returncode
        return GeneratorFailed(f"{self._title} ended with code {code}")

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def _read(self, timeout: float | None) -> dict[str, Any]:
        """Return the next answer; raise `GeneratorFailed` if there is none in time."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(timeout):
                line = await self._process.stdout.readline()
                if not line:
                    await self._process.wait()
                    raise self._exit_error()
            answer: dict[str, Any] = loads(line)
        except TimeoutError:
            raise GeneratorFailed(
                f"{self._title} did not answer within {timeout:g} s"
            ) from None
        except ValueError as error:
            raise GeneratorFailed(
                f"{self._title} gave an answer that is not JSON: {error}"
            ) from error
        return answer

    async def request(
        self, *, timeout: float | None = _ANSWER_TIMEOUT_S, **fields: Any
    ) -> dict[str, Any]:
        """Send a request and return its answer.

        Args:
            timeout: The maximum duration in seconds; ``None`` for none.
            fields: A request of `mcpwire.bench.code_child`.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(encode(fields) + b"\n")
        return await self._read(timeout)

    async def _make_calls(self, seconds: float) -> dict[str, Any]:
        timeout = seconds + _ANSWER_TIMEOUT_S
        return await self.request(users=self._users, seconds=seconds, timeout=timeout)

    def set_load(self, users: int, warm_up: float) -> None:
        """Set the number of calls in flight, and the warm-up of each slice."""
        self._users = min(users, self._code.max_users or users)
        self._warm_up = warm_up

    async def measure(self, round: int, at: float, seconds: float) -> Slice:
        """Make calls for one slice; return its measurements.

        The slice lasts until the last answer, so the rate includes all of its calls.

        Args:
            round: The number of the round.
            at: The start of the slice within the total time, in seconds.
            seconds: The time after which no call begins.
        """
        if self._warm_up:
            await self._make_calls(self._warm_up)
        answer = await self._make_calls(seconds)
        latencies = answer["latencies"]
        latency = encode_histogram(histogram(latencies))
        elapsed = answer["elapsed"] / 1e9
        return Slice(
            round=round,
            at=at,
            seconds=elapsed,
            elapsed=elapsed,
            offered=len(latencies),
            done=len(latencies),
            in_time=len(latencies),
            missed=0,
            errors={},
            latency=latency,
            service=latency,
            latency_sum=sum(latencies),
            lag=encode_histogram(histogram()),
            generator_cpu=0,
            generator_share=0.0,
            cpu=answer["cpu"],
            bytes_sent=0,
        )
