"""Faults of the connection between a client and a server, and pipes that have them.

Each fault is a stage that transforms the bytes of one direction, `toward` the client by
default; stages apply in the order of the list. Faults of messages count the lines that
reach them from 1, and hold a line back until it is complete, so a fault that splits
bytes comes last.

A `Relay` connects the client's pipes with those of the child: each of its two
directions reads bytes, applies a `Chain` of faults, and writes the result. It consists
of callbacks on the client's loop, without a task, thread or process::

    client ──► pipe ──► chain toward the server ──► pipe ──► child
       ▲                                                       │
       └────── pipe ◄── chain toward the client ◄── pipe ◄─────┘

The relay does not read while bytes wait to be written, so that pipes fill as they do
without it. The end of a stream is passed on. When the client closes, all descriptors
are closed, even if a fault still holds bytes back.

As a program the module runs the relay in a process of its own (`FaultyStdio.command`),
or a bridge from stdio to a server over HTTP::

    python -m mcpwire.testing.faults FAULTS SEED COMMAND [ARG ...]
    python -m mcpwire.testing.faults http
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections import deque
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from mcpwire.limits import DEFAULT_LIMITS, choice_validator
from mcpwire.testing.wire import HttpWire, at_random, cut
from mcpwire.transports.duplex import unwatch_descriptor
from mcpwire.transports.http.target import Http
from mcpwire.transports.stdio import StdioChannel
from mcpwire.transports.targets import Stdio, make_opener, resolve_target

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from mcpwire.limits import Limits
    from mcpwire.testing.wire import Split as SplitRule
    from mcpwire.testing.wire import Wire
    from mcpwire.transports.base import Inbound
    from mcpwire.transports.process import ChildProcess

MAX_DELAY_S: Final = 60.0
"""Limit of `Delay`; a `Stall` may be longer."""

READ_BYTES: Final = 65_536

DRAIN_S: Final = 1.0
"""Time for the client to read the last output of an exited server."""

COMMAND_NOT_FOUND: Final = 127

HTTP_OPTIONS: Final = "MCPWIRE_HTTP_BRIDGE"
"""The variable with the options of a target over HTTP; not an argument, since every
process can read arguments and the options may be secret."""


class _End(Enum):
    END = "end"


END: Final = _End.END
"""An item that closes its direction; later items are dropped."""


@attrs.frozen
class Pause:
    """An item that stops reads and writes for some seconds (infinity: forever)."""

    seconds: float


Item: TypeAlias = bytes | Pause | _End
"""The output of a stage."""

Stage: TypeAlias = "Generator[Iterable[Item], bytes | None, None]"
"""Transforms the bytes of one direction to items.

The first bytes are none. ``None`` asks for the items that are held back at the end.
"""


class Chain:
    """The sequence of stages of one direction of one connection."""

    def __init__(self, faults: Sequence[Fault], toward: str, seed: int) -> None:
        rng = random.Random(f"{seed} {toward}")  # noqa: S311 - to repeat a test
        self._stages: list[Stage] = []
        for fault in faults:
            if fault.toward == toward:
                self._stages.append(fault.stage(rng))
                next(self._stages[-1])  # now, so that the faults draw in their order

    def start(self) -> list[Item]:
        """Return the items before any bytes."""
        return self._transform([], b"")

    def feed(self, data: bytes) -> list[Item]:
        """Transform bytes by all stages."""
        return self._transform([data])

    def finish(self) -> list[Item]:
        """Return the held-back items at the end of the stream, and `END`."""
        return [*self._transform([], None), END]

    def _transform(self, items: list[Item], *to_each: bytes | None) -> list[Item]:
        """Send items through all stages, and then something to each stage itself."""
        for stage in self._stages:
            outputs: list[Item] = []
            for item in (*items, *to_each):
                outputs += (
                    [item] if isinstance(item, (Pause, _End)) else stage.send(item)
                )
            items = outputs
        return [item for item in items if item != b""]


def _change_lines(
    change: Callable[[bytes, int], Iterable[Item]], held: Sequence[bytes] = ()
) -> Stage:
    """Change complete lines, given each with its number; `held` follows at the end."""
    buffer, number = bytearray(), 0
    items: list[Item] = []
    while True:
        data = yield items
        items = [*held, bytes(buffer)] if data is None else []
        buffer += data or b""
        if data and b"\n" in data:
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                number += 1
                items += change(bytes(line) + b"\n", number)


def _change_bytes(at: int, count: int, change: Callable[[bytes], bytes]) -> Stage:
    """Change some bytes at an offset, in one piece or in several."""
    items: list[Item] = []
    while True:
        data = (yield items) or b""
        start, end = max(at, 0), min(max(at + count, 0), len(data))
        at -= len(data)
        if start < end:
            data = data[:start] + change(data[start:end]) + data[end:]
        items = [data]


def _insert(item: Item, after: int) -> Stage:
    """Insert an item once, after some bytes."""
    items: list[Item] = []
    while True:
        data = (yield items) or b""
        if 0 <= after <= len(data):
            items, after = [data[:after], item, data[after:]], -1
        else:
            items, after = [data], after - len(data)


# --- the faults


def _validator(is_valid: Callable[[Any], bool], rule: str) -> Any:
    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is not None and not is_valid(value):
            raise ValueError(f"{attribute.name} must {rule}, got {value!r}")

    return check


_check_chance: Final = _validator(
    lambda value: 0 < value <= 1, "be above 0 and at most 1"
)
_check_positive: Final = _validator(lambda value: value > 0, "be above zero")
_check_byte: Final = _validator(
    lambda value: type(value) is int and 0 <= value <= 255, "be from 0 to 255"
)
_check_not_negative: Final = _validator(lambda value: value >= 0, "not be negative")


def _numbers(value: int | Iterable[int] | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    return (value,) if isinstance(value, int) else tuple(value)


@attrs.frozen(kw_only=True)
class Fault:
    """A fault in one direction.

    Attributes:
        toward: The direction: ``"client"`` (the server's output) or ``"server"``.
    """

    toward: str = attrs.field(
        default="client", validator=choice_validator("client", "server")
    )

    def stage(self, rng: random.Random) -> Stage:
        """Return a stage for one connection."""
        raise NotImplementedError


@attrs.frozen(kw_only=True)
class _MessageFault(Fault):
    """A fault of messages.

    Attributes:
        message: The numbers of the affected messages, from 1; default: all.
        chance: The probability for each of these, decided by the seed.
    """

    message: tuple[int, ...] | None = attrs.field(default=None, converter=_numbers)
    chance: float = attrs.field(default=1.0, validator=_check_chance)

    def stage(self, rng: random.Random) -> Stage:
        """Return a stage for one connection."""
        stage_rng = random.Random(rng.getrandbits(32))  # noqa: S311 - to repeat a test

        def change(line: bytes, number: int) -> Iterable[Item]:
            is_selected = self.message is None or number in self.message
            is_changed = is_selected and stage_rng.random() < self.chance
            return self._change(line) if is_changed else (line,)

        return _change_lines(change)

    def _change(self, line: bytes) -> Iterable[Item]:
        """Return the items that replace a message."""
        raise NotImplementedError


@attrs.frozen(kw_only=True)
class Delay(_MessageFault):
    """Delay messages, and all that follow them.

    Attributes:
        seconds: The delay, by the clock of the relay's loop; at most 60.
    """

    seconds: float = attrs.field(
        validator=[_check_positive, attrs.validators.le(MAX_DELAY_S)]
    )

    def _change(self, line: bytes) -> Iterable[Item]:
        return (Pause(self.seconds), line)


@attrs.frozen(kw_only=True)
class Drop(_MessageFault):
    """Drop messages."""

    def _change(self, line: bytes) -> Iterable[Item]:
        return ()


@attrs.frozen(kw_only=True)
class Duplicate(_MessageFault):
    """Deliver messages more than once.

    Attributes:
        times: The number of copies.
    """

    times: int = attrs.field(default=2, validator=_check_positive)

    def _change(self, line: bytes) -> Iterable[Item]:
        return (line,) * self.times


@attrs.frozen(kw_only=True)
class Noise(_MessageFault):
    """Insert bytes before messages.

    Attributes:
        data: The bytes; they need a newline at the end to be a line of their own.
    """

    data: bytes = attrs.field(
        default=b"this is no message\n", validator=attrs.validators.instance_of(bytes)
    )

    def _change(self, line: bytes) -> Iterable[Item]:
        return (self.data, line)


@attrs.frozen(kw_only=True)
class ByteOrderMark(Noise):
    """Insert a byte order mark before the first message."""

    message: tuple[int, ...] | None = attrs.field(default=(1,), converter=_numbers)
    data: bytes = b"\xef\xbb\xbf"


@attrs.frozen(kw_only=True)
class Swap(Fault):
    """Swap a message with the next one.

    Attributes:
        message: The number of the first of the two, from 1.
    """

    message: int = attrs.field(validator=_check_positive)

    def stage(self, rng: random.Random) -> Stage:
        """Return a stage for one connection."""
        held: list[bytes] = []

        def swap(line: bytes, number: int) -> Iterable[Item]:
            items = [] if number == self.message else [line, *held]
            held[:] = [] if items else [line]
            return items

        return _change_lines(swap, held)


@attrs.frozen(kw_only=True)
class Split(Fault):
    """Split bytes into parts that are read separately: the last fault of a list.

    Attributes:
        size: The size of each part in bytes; ignored with `at` or `longest`.
        at: Offsets at which to split each piece that the relay reads, instead.
        longest: The maximum size of parts of random size (at least 1), instead.
        gap: Seconds between parts.
    """

    size: int = attrs.field(default=1, validator=_check_positive)
    at: tuple[int, ...] | None = attrs.field(default=None, converter=_numbers)
    longest: int | None = attrs.field(default=None, validator=_check_positive)
    gap: float = attrs.field(default=0.0, validator=_check_not_negative)

    def stage(self, rng: random.Random) -> Stage:
        """Return a stage for one connection."""
        split: SplitRule = self.size if self.at is None else self.at
        if self.longest is not None:
            split = at_random(rng.getrandbits(32), self.longest)
        pause: list[Item] = [Pause(self.gap)] if self.gap else []
        items: list[Item] = []
        while True:
            parts = cut((yield items) or b"", split)
            items = []
            for part in parts:
                items += [part, *pause]


@attrs.frozen(kw_only=True)
class Corrupt(Fault):
    """Change one byte.

    Attributes:
        at: The offset of the byte, from 0.
        value: The new value; default: all bits inverted.
    """

    at: int = attrs.field(validator=_check_not_negative)
    value: int | None = attrs.field(default=None, validator=_check_byte)

    def stage(self, rng: random.Random) -> Stage:
        """Return a stage for one connection."""

        def replace_byte(data: bytes) -> bytes:
            return bytes([data[0] ^ 0xFF if self.value is None else self.value])

        return _change_bytes(self.at, 1, replace_byte)


@attrs.frozen(kw_only=True)
class Lose(Fault):
    """Drop bytes.

    Attributes:
        at: The offset of the first byte, from 0.
        count: The number of bytes.
    """

    at: int = attrs.field(validator=_check_not_negative)
    count: int = attrs.field(default=1, validator=_check_positive)

    def stage(self, rng: random.Random) -> Stage:
        """Return a stage for one connection."""
        return _change_bytes(self.at, self.count, lambda _: b"")


@attrs.frozen(kw_only=True)
class _OneTimeFault(Fault):
    """A fault that occurs once, after some bytes or a message; by default at once."""

    after_bytes: int | None = None
    after_message: int | None = None

    def __attrs_post_init__(self) -> None:
        if self.after_bytes is not None and self.after_message is not None:
            raise ValueError("after_bytes and after_message exclude each other")

    def stage(self, rng: random.Random) -> Stage:
        """Return a stage for one connection."""
        item = self._item()
        if self.after_message is None:
            return _insert(item, self.after_bytes or 0)
        last = self.after_message
        return _change_lines(lambda line, at: (line, item) if at == last else (line,))

    def _item(self) -> Item:
        return END


@attrs.frozen(kw_only=True)
class HangUp(_OneTimeFault):
    """Close this direction: the reader sees its end, the writer a broken pipe.

    Attributes:
        after_bytes: The number of bytes to pass before.
        after_message: Or the number of the last message to pass; default: at once.
    """


@attrs.frozen(kw_only=True)
class Stall(_OneTimeFault):
    """Stop reading and writing: the writer's pipe fills, the reader waits.

    Attributes:
        after_bytes: The number of bytes to pass before.
        after_message: Or the number of the last message to pass; default: at once.
        seconds: The duration; default: forever.
    """

    seconds: float = attrs.field(default=inf, validator=_check_positive)

    def _item(self) -> Item:
        return Pause(self.seconds)


# --- the relay


class _Direction:
    """Copies bytes from one descriptor to another through faults; owns both."""

    def __init__(self, read_fd: int, write_fd: int, chain: Chain) -> None:
        self._loop = asyncio.get_running_loop()
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._chain = chain
        self._items: deque[Item] = deque(chain.start())
        self._next_handle: asyncio.Handle | None = None
        self._is_pausing = False
        self._closes_at_pause = False
        self.closed = asyncio.Event()
        os.set_blocking(read_fd, False)
        os.set_blocking(write_fd, False)
        # A pipe's writing end is reported readable only when its reader has closed, so
        # the writer gets a broken pipe as early as without the relay.
        self._loop.add_reader(write_fd, self.close)
        self._process_next()

    def _process_next(self) -> None:
        """Process the next item, or read more."""
        self._is_pausing = False
        if not self._items:
            self._loop.add_reader(self._read_fd, self._read)
            return
        item = self._items[0]
        if isinstance(item, bytes):
            self._write(item)
        elif item is END or self._closes_at_pause:
            self.close()
        elif isinstance(item, Pause):
            self._items.popleft()
            self._is_pausing = True
            if item.seconds != inf:
                self._next_handle = self._loop.call_later(
                    item.seconds, self._process_next
                )

    def _read(self) -> None:
        try:
            data = os.read(self._read_fd, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        self._loop.remove_reader(self._read_fd)
        self._items += self._chain.feed(data) if data else self._chain.finish()
        self._process_next()

    def _write(self, data: bytes) -> None:
        """Write a part; the next is written in another turn, to be read separately."""
        try:
            count = os.write(self._write_fd, data)
        except (BlockingIOError, InterruptedError):
            count = 0
        except OSError:
            self.close()  # the reader has closed, which the writer must see
            return
        if count == len(data):
            self._items.popleft()
            self._loop.remove_writer(self._write_fd)
            self._next_handle = self._loop.call_soon(self._process_next)
        else:
            self._items[0] = data[count:]
            self._loop.add_writer(self._write_fd, self._process_next)

    def close_at_pause(self) -> None:
        """Close at the current or next pause; the bytes after it are dropped."""
        self._closes_at_pause = True
        if self._is_pausing:
            self.close()

    def close(self) -> None:
        """Close both descriptors now."""
        if self.closed.is_set():
            return
        self.closed.set()
        self._items.clear()
        if self._next_handle is not None:
            self._next_handle.cancel()
        for fd in (self._read_fd, self._write_fd):
            unwatch_descriptor(self._loop, fd)
            os.close(fd)


class Relay:
    """Both directions between a client and a child, each with its faults.

    It owns its four descriptors, one to read and one to write for each direction, and
    runs on the running loop.
    """

    def __init__(
        self,
        to_server: tuple[int, int],
        to_client: tuple[int, int],
        faults: Sequence[Fault],
        seed: int,
    ) -> None:
        self.to_server = _Direction(*to_server, Chain(faults, "server", seed))
        self.to_client = _Direction(*to_client, Chain(faults, "client", seed))

    def close(self) -> None:
        """Close all descriptors at once."""
        self.to_server.close()
        self.to_client.close()


class FaultyChannel(StdioChannel):
    """A connection to a child process through a `Relay`."""

    def __init__(self, inbound: Inbound, target: FaultyStdio, limits: Limits) -> None:
        self._faulty = target  # needed by `_take_pipes`
        super().__init__(inbound, target.target, limits)

    def _take_pipes(self, child: ChildProcess) -> tuple[int, int]:
        from_child, to_child = super()._take_pipes(child)
        client_reads, to_client = os.pipe()
        from_client, client_writes = os.pipe()
        self._relay = Relay(
            (from_client, to_child),
            (from_child, to_client),
            self._faulty.faults,
            self._faulty.seed,
        )
        return client_reads, client_writes

    def _stop_writing(self) -> None:
        super()._stop_writing()
        self._relay.to_server.close_at_pause()  # so that the child sees the end

    def _on_stopped(self, task: asyncio.Task[None]) -> None:
        super()._on_stopped(task)
        self._relay.close()

    def abandon(self) -> None:
        """Release all resources at once, the relay included."""
        super().abandon()
        self._relay.close()


class FaultyStdio:
    """A target for a client: a real server behind pipes with injected faults.

    ::

        target = FaultyStdio("my-server", [Noise(message=2), Split(size=1)])
        async with mcpwire.Client(target) as client: ...

    With the same seed and the same bytes, random faults occur at the same bytes.

    Args:
        target: The server, as a command line or a `Stdio`, or as a URL or an `Http`,
            which is reached through a bridge in a process of its own.
        faults: The faults, in the order of application (see the module's text).
        seed: The seed of all random choices.
    """

    def __init__(
        self, target: str | Stdio | Http, faults: Iterable[Fault], *, seed: int = 0
    ) -> None:
        self.target = _as_command(target)
        self.faults = tuple(faults)
        self.seed = seed

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self.target)!r} {list(self.faults)}>"

    def command(self) -> Stdio:
        """Return a command that runs the server and the relay in another process.

        For programs that take a command as target. Its delays use the real clock.
        """
        program = ["-P", "-m", __name__, encode_faults(self.faults), str(self.seed)]
        return attrs.evolve(
            self.target,
            command=sys.executable,
            args=[*program, self.target.command, *self.target.args],
        )

    def open_in_memory(self, client: Inbound, limits: Limits) -> Any:
        """Start the server and connect to it through the faults; called by clients.

        Raises:
            ConnectError: The server could not be started.
        """
        return FaultyChannel(client, self, limits)


def _as_command(target: str | Stdio | Http) -> Stdio:
    """Return the command of a server, or of a bridge to a server over HTTP."""
    resolved = resolve_target(target)
    if isinstance(resolved, Stdio):
        return resolved
    if not isinstance(resolved, Http):
        raise ValueError(
            "the target must be a command line, a Stdio, a URL or an Http, "
            f"got {target!r}"
        )
    options = _changed_attributes(resolved)
    try:
        encoded = json.dumps(options)
    except TypeError as error:
        names = ", ".join(sorted(set(options) - {"url"}))
        raise ValueError(
            f"options of {resolved} must be texts, numbers and mappings of them to "
            f"reach another process ({names}): {error}"
        ) from error
    program = ["-P", "-m", __name__, "http"]
    return Stdio(sys.executable, program, env={HTTP_OPTIONS: encoded}, inherit_env=True)


# --- as a program


def encode_faults(faults: Sequence[Fault]) -> str:
    """Encode faults as one argument of a command."""
    return repr(
        [(type(fault).__name__, _changed_attributes(fault)) for fault in faults]
    )


def _changed_attributes(value: Any) -> dict[str, Any]:
    """Return the attributes that differ from the defaults; infinity has no literal."""
    return attrs.asdict(
        value,
        recurse=False,
        filter=lambda field, item: bool(field.init and item != field.default),
    )


def decode_faults(text: str) -> list[Fault]:
    """Decode the faults from the text of `encode_faults`."""
    return [
        globals()[name](**attributes) for name, attributes in ast.literal_eval(text)
    ]


def detach_descriptor(fd: int, flags: int) -> int:
    """Duplicate a descriptor and point the original at /dev/null."""
    copy = os.dup(fd)
    null_fd = os.open(os.devnull, flags)
    os.dup2(null_fd, fd)
    os.close(null_fd)
    return copy


async def _run_relay(
    child: subprocess.Popen[bytes], faults: Sequence[Fault], seed: int
) -> int:
    assert child.stdin is not None
    assert child.stdout is not None
    relay = Relay(
        (detach_descriptor(0, os.O_RDONLY), os.dup(child.stdin.fileno())),
        (os.dup(child.stdout.fileno()), detach_descriptor(1, os.O_WRONLY)),
        faults,
        seed,
    )
    child.stdin.close()
    child.stdout.close()
    code = await asyncio.to_thread(child.wait)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_S):
            await relay.to_client.closed.wait()
    # At once: the client has seen the end of the stream, and waits for the exit code.
    if code >= 0:
        os._exit(code)
    end_by_signal(-code)
    return -code


def end_by_signal(number: int) -> None:
    """End this process by a signal, as a command behind it ended."""
    with contextlib.suppress(OSError):  # some signals have no handler
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


class _Bridge:
    """Copies lines between stdio and an HTTP server until either side ends."""

    def __init__(self) -> None:
        self.is_over = asyncio.Event()

    def wire_received(self, wire: Wire, data: bytes) -> None:
        """Write the server's bytes to stdout."""
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def wire_ended(self, wire: Wire) -> None:
        """End the bridge with the connection."""
        self.is_over.set()

    async def run(self, target: Http) -> None:
        """Copy lines until either side ends."""
        wire = HttpWire(self, answers_all=True)
        wire.attach(make_opener(target, DEFAULT_LIMITS).open(wire))
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=DEFAULT_LIMITS.message)
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        read_task = loop.create_task(self._read(reader, wire))
        await self.is_over.wait()
        read_task.cancel()
        await wire.aclose()

    async def _read(self, reader: asyncio.StreamReader, wire: Wire) -> None:
        while line := await reader.readline():
            wire.put([line], 1)
        self.is_over.set()


def main(argv: Sequence[str]) -> int:
    """Run the relay and exit as the server does, or run the bridge to HTTP."""
    if argv == ["http"]:
        options: dict[str, Any] = json.loads(os.environ[HTTP_OPTIONS])
        asyncio.run(_Bridge().run(Http(options.pop("url"), **options)))
        return 0
    faults, seed, *command = argv
    try:
        child = subprocess.Popen(  # noqa: S603 - the test's own command
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]!r}: {error.strerror}\n")
        return COMMAND_NOT_FOUND
    return asyncio.run(_run_relay(child, decode_faults(faults), int(seed)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
