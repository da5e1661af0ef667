"""The connection of one command: its client, its signals and its diagnostic output.

A signal cancels the work and so the server's request; after a grace period for closing,
remaining processes are killed. A second signal skips the grace period.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import errno
import logging
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mcpwire.cli.arguments import json_text
from mcpwire.cli.auth import advise_login
from mcpwire.cli.failures import Exit, Interrupted, exit_code, usage_errors
from mcpwire.cli.options import ServerRequests
from mcpwire.cli.output import Output, deep_json, progress_text, shorten, writing_to
from mcpwire.cli.targets import ProbeCache, make_target, report_entry, timeouts
from mcpwire.errors import (
    ConnectError,
    HTTPError,
    MCPError,
    MissingCapability,
    NegotiationError,
    RemoteProtocolError,
    RequestTimeout,
    RPCError,
)
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.types import encode
from mcpwire.versions import Era
from mcpwire.wire.json import loads_object

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

    from mcpwire.cli.options import Options
    from mcpwire.client import Client
    from mcpwire.protocol.subscriptions import Notification
    from mcpwire.testing import Recorder

TIMEOUTS: Final[dict[str, Any]] = {"timeout": 30.0, "connect_timeout": 60.0}
"""Default timeouts: `npx` and `uvx` install a server at its first start."""

INTERRUPT_GRACE_S: Final = 0.7
"""Seconds for an interrupted command to close before it kills its server."""

CLOSE_GRACE_S: Final = 1.0
"""Seconds for a server to exit; short, since a command makes a single call."""

MAX_EXCERPT: Final = 400
"""Characters of a message that a single ``-v`` shows."""

_BARE_URL: Final = re.compile(r"[\w.-]+:[0-9]+(?:/|$)|\w[\w-]*(?:\.[\w-]+)+/")
"""A command that looks like a URL without its scheme."""

TRACEBACK: Final = "Traceback (most recent call last)"

EVENT_LABELS: Final = {
    "open": "started",
    "send": "-->",
    "receive": "<--",
    "lost": "lost:",
    "close": "closed",
}
"""Event of the client's trace -> its label in the output of ``-v``."""

HEAD_MARKS: Final = {"request": ">", "response": "<"}
"""Event of the trace with the head of an HTTP message -> mark before its lines."""

SIGNALS: Final = tuple(
    number
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if (number := getattr(signal, name, None)) is not None
)


def in_session(work: Callable[[Session], Awaitable[None]]) -> Callable[[Options], int]:
    """Return a command that runs a coroutine function in a connected session."""

    def command(options: Options) -> int:
        async def session(output: Output, signals: Signals) -> int:
            await Session(options, output, signals).run(work)
            return Exit.OK

        return run_command(options, session)

    return command


def run_command(
    options: Options, work: Callable[[Output, Signals], Coroutine[Any, Any, int]]
) -> int:
    """Run a command's coroutine to its end; cancel the tasks that it leaves."""
    output = Output(is_json=options.json, verbose=options.verbose > 0)
    report_entry(options, output)
    with deep_json(), _logging_to(output), asyncio.Runner() as runner:
        signals = Signals(runner.get_loop())

        async def run_work() -> int:
            signals.task = asyncio.current_task()
            return await work(output, signals)

        try:
            return runner.run(run_work())
        except (Exception, asyncio.CancelledError):
            if signals.number is not None:
                raise Interrupted(signals.number) from None
            raise


@contextlib.contextmanager
def _logging_to(output: Output) -> Iterator[None]:
    """Write the library's log to stderr, with -v only."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            output.detail(f"log: {record.getMessage()}")

    logger = logging.getLogger("mcpwire")
    saved = logger.handlers, logger.propagate
    logger.handlers, logger.propagate = [Handler()], False
    oauth_logger = logging.getLogger("mcpwire.oauth")
    level = oauth_logger.level
    oauth_logger.setLevel(logging.DEBUG if output.verbose else level)
    try:
        yield
    finally:
        logger.handlers, logger.propagate = saved
        oauth_logger.setLevel(level)


class Signals:
    """Cancels the running task when a signal arrives."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._on_interrupt: Callable[[], None] | None = None
        self.was_interrupted = False  # by a Ctrl-C since the last answer to a question
        self.task: asyncio.Task[Any] | None = None
        self.number: int | None = None
        self.is_forced = False
        for number in SIGNALS:
            if signal.getsignal(number) is signal.SIG_IGN:
                continue  # ignored by `nohup` or a shell's background job: keep that
            # Not every loop supports handlers, and only the main thread may set them.
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, self.receive, int(number))

    def receive(self, number: int) -> None:
        """Handle a signal."""
        is_interrupt = number == signal.SIGINT and not self.was_interrupted
        if is_interrupt and self._on_interrupt is not None:
            self.was_interrupted = True
            self._on_interrupt()
        elif self.number is None:
            self.number = number
            self._loop.call_later(INTERRUPT_GRACE_S, self.force)
            self._cancel()
        else:
            self.force()

    @contextlib.contextmanager
    def handle_interrupt(self, callback: Callable[[], None]) -> Iterator[None]:
        """Yield; during the block Ctrl-C calls `callback`, which ends only a question.

        A second Ctrl-C in a row ends the command; otherwise a server with ever more
        questions could keep the command running.
        """
        self._on_interrupt = callback
        try:
            yield
        finally:
            self._on_interrupt = None

    def force(self) -> None:
        """Cancel the task once more, and skip the grace period."""
        self.is_forced = True
        self._cancel()

    def _cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


READ_BYTES: Final = 65_536


def read_stdin() -> asyncio.Future[bytes]:
    """Return a future of the next input from stdin; empty: end of the input."""
    loop = asyncio.get_running_loop()
    fd = sys.stdin.fileno()
    future: asyncio.Future[bytes] = loop.create_future()

    def on_readable() -> None:
        if not future.done():
            try:
                future.set_result(os.read(fd, READ_BYTES))
            except OSError:
                future.set_result(b"")

    loop.add_reader(fd, on_readable)
    future.add_done_callback(lambda _: loop.remove_reader(fd))
    return future


def _process_advice(error: BaseException) -> str:
    """Return a hint for an error in connecting to a command, or an empty text."""
    if isinstance(error, ConnectError) and error.errno in {errno.EACCES, errno.ENOEXEC}:
        return (
            "it is not an executable: put the interpreter of a script before its name"
        )
    if isinstance(error, ConnectError) and error.errno == errno.ENOENT:
        is_bare_url = _BARE_URL.match(error.target or "")
        return "a URL begins with http:// or https://" if is_bare_url else ""
    if isinstance(error, NegotiationError):
        is_doubtful = isinstance(error.__cause__, RPCError)
    else:
        is_doubtful = isinstance(error, RequestTimeout) or (
            isinstance(error, ConnectError) and error.exit_code is not None
        )
    return "check that it is an MCP server over stdio" if is_doubtful else ""


def url_advice(error: BaseException) -> str:
    """Return a hint for an error in connecting to a URL, or an empty text."""
    # OpenSSL's codes of an unknown issuer; a wrong name or date has others.
    if getattr(error.__cause__, "verify_code", None) in {18, 19, 20, 21}:
        return "to trust your own certificate authority: --ca FILE"
    # The URL is not that of an MCP endpoint: usually its path is wrong.
    cause = error.__cause__ if isinstance(error, NegotiationError) else error
    status = cause.status if isinstance(cause, HTTPError) else None
    if status is not None and "follow_redirects is off" in str(cause):
        return "use that URL instead"
    if status in {404, 405} or isinstance(cause, RemoteProtocolError):
        return "check that this is the URL of an MCP endpoint, including its path"
    return ""


def advise_limit(error: Exception) -> None:
    """Add a hint at --max-message to the error of a message that is too large."""
    if "(Limits.message)" in str(error):
        error.add_note("to change the limit: --max-message BYTES")


def client_limits(options: Options) -> Limits:
    """Return the limits for a command's clients."""
    return Limits(
        message=options.max_message or DEFAULT_LIMITS.message,
        close_grace=CLOSE_GRACE_S,
        terminate_grace=CLOSE_GRACE_S,
    )


class Session:
    """The connection of one command, and its diagnostic output for ``-v``."""

    def __init__(self, options: Options, output: Output, signals: Signals) -> None:
        self.options = options
        self.output = output
        self.signals = signals
        self.connect_seconds = 0.0
        self._is_connected = False
        self._started = time.monotonic()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stderr = ""
        self._has_traceback = False
        self.target = make_target(options, output, self._on_stderr)
        self._probes = ProbeCache(self.target, enabled=not options.no_cache)
        self._mode = options.mode or "auto"
        self._skip_probe = self._mode == "auto" and self._probes.is_silent
        self.handlers = None  # then no capability for server requests is declared
        if options.may_ask and ServerRequests in options.groups:
            from mcpwire.cli.interactive import RequestHandlers

            self.handlers = RequestHandlers(self)
        self.timing = Timing() if options.timing else None
        self._recorder: Recorder | None = None
        if options.record:
            from mcpwire.testing import Recorder

            with writing_to(options.record):
                self._recorder = Recorder(options.record)
        self.client = self._make_client()

    def _make_client(self) -> Client:
        from mcpwire import Client
        from mcpwire.protocol.methods import SKILLS

        options, entry = self.options, self.options.entry
        roots = [Path(root) for root in options.roots]
        if entry is not None:
            roots += entry.paths_of_roots() or []
        with usage_errors():
            return Client(
                self.target,
                **{**TIMEOUTS, **timeouts(options)},
                mode="session" if self._skip_probe else self._mode,
                limits=client_limits(options),
                roots=roots or None,
                extensions=[SKILLS] if options.verb == "skills" else None,
                on_notification=self._show_log if options.log_level else None,
                trace=self._trace
                if self.output.verbose or self.timing or self._recorder
                else None,
                **(self.handlers.client_options() if self.handlers is not None else {}),
            )

    async def run(self, work: Callable[[Session], Awaitable[None]]) -> None:
        """Connect, do the work, and always end the server."""
        try:
            await self._connect()
            if self.options.log_level is not None:
                await self.client.set_log_level(self.options.log_level)
            await work(self)
            if self.handlers is not None:
                self.handlers.finish()
        except MCPError as error:
            if self.handlers is not None and self.handlers.failure is not None:
                raise self.handlers.failure from error  # the failure caused the error
            # One iteration of the loop reads the stderr output before the answer.
            await asyncio.sleep(0)
            self._advise(error)
            raise
        finally:
            if not self.signals.is_forced:
                await self.client.aclose()
            if self._recorder is not None:
                self._recorder.close()
            if self._stderr:
                self._show(f"server: {self._stderr}")

    async def _connect(self) -> None:
        started = time.monotonic()
        try:
            with self.output.waiting(f"connecting to {self.target} ..."):
                await self._open()
            self._is_connected = True
        except Exception as error:
            is_at_url = self.options.is_at_url
            advice = url_advice(error) if is_at_url else _process_advice(error)
            if advice:
                error.add_note(advice)
            raise
        finally:
            self.connect_seconds = time.monotonic() - started
            for line in str(self.client.negotiation or "").splitlines():
                self.output.detail(f"{'':11}{line}")

    async def _open(self) -> None:
        """Connect; do not probe a server that did not answer the probe recently."""
        try:
            await self.client.connect()
        except MCPError as error:
            if not self._skip_probe:
                raise
            self._probes.remove()
            if not isinstance(error, NegotiationError):
                raise
            self._skip_probe = False
            self.client = self._make_client()
            await self.client.connect()
        record = self.client.negotiation
        assert record is not None
        is_silent = any(step.event == "silence" for step in record.steps)
        if is_silent and record.era is Era.SESSION:
            self._probes.add()

    def _advise(self, error: MCPError) -> None:
        """Add a hint at the option that avoids the error."""
        if self.options.is_at_url and exit_code(error) == Exit.AUTHORIZATION:
            advise_login(error, self.options, is_connected=self._is_connected)
            return
        if self._has_traceback and not self.output.verbose:
            error.add_note("-v shows the server's traceback")
        advise_limit(error)
        data = getattr(error, "data", None)
        missing = data.get("requiredCapabilities") if isinstance(data, dict) else None
        if isinstance(error, MissingCapability) and isinstance(missing, dict):
            if "roots" in missing:
                error.add_note("to declare folders: --roots DIR")
            elif not self.options.may_ask:
                error.add_note("--no-ask withholds this capability: omit it")

    @property
    def progress(self) -> Callable[[float, float | None, str | None], None] | None:
        """The progress callback; ``None`` if progress is not shown."""
        line, is_requested = self.output.progress, self.options.progress
        if is_requested is False:
            return None
        if line.is_live:
            return line.show
        return self._report_progress if is_requested else None

    def _report_progress(
        self, progress: float, total: float | None, message: str | None
    ) -> None:
        fields = {"progress": progress, "total": total, "message": message}
        value = {name: part for name, part in fields.items() if part is not None}
        text = progress_text(progress, total, message, with_bar=False)
        self.output.event("progress", value, text.strip())

    def _show_log(self, notification: Notification) -> None:
        if notification.method != "notifications/message":
            return
        message = notification.params
        logger = f"{message.logger}: " if message.logger else ""
        data = (
            message.data if isinstance(message.data, str) else json_text(message.data)
        )
        self.output.event("log", encode(message), f"[{message.level}] {logger}{data}")

    def _trace(self, event: str, data: Any) -> None:
        if self._recorder is not None:
            self._recorder(event, data)
        if self.timing is not None:
            self.timing.trace(event, data)
        if not self.output.verbose:
            return
        if event in HEAD_MARKS:
            lines = (line.removesuffix("\r") for line in data.split("\n"))
            first, *rest = (f"{HEAD_MARKS[event]} {line}" for line in lines if line)
            self._show(self._excerpt(first))
            for line in rest:
                self.output.detail(f"{'':11}{self._excerpt(line)}")
            return
        label = EVENT_LABELS.get(event)
        if event == "open" and self.options.is_at_url:
            label = "opened"  # a server at a URL is not started here
        if label is not None:
            text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
            self._show(f"{label} {self._excerpt(str(text))}")

    def _excerpt(self, text: str) -> str:
        if self.options.verbose > 1 or len(text) <= MAX_EXCERPT:
            return text
        return f"{shorten(text, MAX_EXCERPT)} ({len(text):,} characters, -vv shows all)"

    def _show(self, text: str) -> None:
        self.output.detail(f"{time.monotonic() - self._started:7.3f} s  {text}")

    def _on_stderr(self, data: bytes) -> None:
        *lines, rest = (self._stderr + self._decoder.decode(data)).split("\n")
        self._stderr = rest if self.output.verbose else rest[-MAX_EXCERPT:]
        for line in lines:
            self._has_traceback |= TRACEBACK in line
            self._show(f"server: {line}")


TIMED_METHOD: Final = "tools/call"
TIMED_POINTS: Final = ("queued", "written", "first byte", "complete", "decoded")
"""The points of a request that are timed, in order."""


class Timing:
    """Records the events of a connection; they are evaluated after a call."""

    def __init__(self) -> None:
        self._started = self._ended = 0.0
        self._events: list[tuple[float, str, Any]] = []

    def trace(self, event: str, data: Any) -> None:
        """Record an event of the connection (`mcpwire.transports.base.Trace`).

        Of received bytes only the answers are kept.
        """
        if event == "read":
            data = data.endswith(b"\n")
        elif event == "receive" and b'"result"' not in data and b'"error"' not in data:
            data = b""
        self._events.append((time.perf_counter(), event, data))

    def start(self) -> None:
        """Record the start of the call."""
        self._started = time.perf_counter()

    def stop(self) -> None:
        """Record the arrival of the decoded result."""
        self._ended = time.perf_counter()

    def report(self, output: Output) -> None:
        """Report the measured times."""
        rounds = self.rounds()
        for number, points in enumerate(rounds, 1):
            suffix = f" of round {number}" if len(rounds) > 1 else ""
            times = ", ".join(
                f"{name} {points[name]:.3f} ms"
                for name in TIMED_POINTS
                if name in points
            )
            value = {"method": TIMED_METHOD, "milliseconds": points}
            output.event("timing", value, f"timing{suffix}: {times}")

    def rounds(self) -> list[dict[str, float]]:
        """Return each request's times in milliseconds since the start, by point."""
        requests = self._request_times()
        self._add_answer_times(requests)
        rounds = list(requests.values())
        if self._ended and rounds and "complete" in rounds[-1]:
            rounds[-1]["decoded"] = self._milliseconds_at(self._ended)
        return rounds

    def _request_times(self) -> dict[int, dict[str, float]]:
        requests: dict[int, dict[str, float]] = {}
        ends: dict[int, int] = {}  # of requests, in the bytes of the connection
        total = 0
        for at, event, data in self._events:
            if event == "open":
                total = 0
            elif event == "send":
                total += len(data) + 1
                message = loads_object(data) or {}
                if at > self._started and message.get("method") == TIMED_METHOD:
                    requests[message["id"]] = {"queued": self._milliseconds_at(at)}
                    ends[message["id"]] = total
            elif event == "written":
                for id, end in ends.items():
                    if data >= end:
                        requests[id].setdefault("written", self._milliseconds_at(at))
        return requests

    def _add_answer_times(self, requests: dict[int, dict[str, float]]) -> None:
        chunk_at = line_at = 0.0
        is_partial = False
        for at, event, data in self._events:
            if event == "response":  # HTTP: the body is traced as a whole
                chunk_at = line_at = at
            elif event == "read":
                chunk_at = at
                line_at = line_at if is_partial else at
                is_partial = not data
            elif event == "receive":
                message = loads_object(data) or {}
                id = message.get("id")
                if "method" not in message and type(id) is int and id in requests:
                    requests[id]["first byte"] = self._milliseconds_at(line_at)
                    requests[id]["complete"] = self._milliseconds_at(at)
                line_at = chunk_at

    def _milliseconds_at(self, at: float) -> float:
        return round((at - self._started) * 1000, 3)
