"""``mcpwire tap`` records the session of any client; ``mcpwire replay`` plays one."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import attrs

from mcpwire.cli.failures import Exit, UsageError, usage_errors
from mcpwire.cli.output import Output, one_line, shorten, writing_to
from mcpwire.cli.serve import listen_errors, parse_address
from mcpwire.cli.session import MAX_EXCERPT, run_command
from mcpwire.cli.targets import make_target
from mcpwire.testing import tape
from mcpwire.testing.faults import end_by_signal
from mcpwire.testing.scripted import DEFAULT_TIMEOUT_S
from mcpwire.testing.tap import HttpTap, tap_command
from mcpwire.transports.targets import Stdio
from mcpwire.wire.json import encode, loads

if TYPE_CHECKING:
    from mcpwire.cli.options import Options
    from mcpwire.cli.session import Signals
    from mcpwire.testing.tape import Part


def tap(options: Options) -> int:
    """Pass everything on between a client and a server, and record it."""
    if options.is_at_url != (options.http is not None):
        raise UsageError(
            "tap: a server at a URL needs --http [HOST]:PORT, where the client connects"
            if options.is_at_url
            else "tap: --http needs a server at a URL"
        )
    address = None if options.http is None else parse_address(options.http)
    started = time.strftime("%Y%m%d-%H%M%S")
    path = options.tape or f"tape-{started}-{os.getpid()}.jsonl"
    secrets = [os.environ[name] for name in options.masked]
    with writing_to(path):
        recorder = tape.Recorder(path, secrets=secrets)
    if not options.tape:
        Output().note(f"mcpwire: recording to {path}")
    with recorder:
        if address is None:
            target = make_target(options, Output())
            assert isinstance(target, Stdio)
            code = tap_command(target, recorder)
        else:
            code = _tap_url(options, address, recorder)
    if code < 0:
        end_by_signal(-code)
    return code


def _tap_url(options: Options, address: str, recorder: tape.Recorder) -> int:
    with listen_errors():
        from mcpwire.server.http.uvicorn import run_http

        url = options.command[0]
        path = urlsplit(url).path or "/"
        # The Date of the server is passed on.
        uvicorn = {"date_header": False}
        tap = HttpTap(url, recorder)
        run_http(tap, address, path=path, quiet=options.quiet, uvicorn=uvicorn)
    return Exit.OK


def replay(options: Options) -> int:
    """Play the server of a tape on stdin and stdout."""
    parts = _read_tape(options.words[0])
    return _play_exactly(parts) if options.exact else _play(parts)


def _play_exactly(parts: list[Part]) -> int:
    with usage_errors():
        difference = tape.play_exactly(parts, partial(os.read, 0), _write)
    if difference:
        Output().note(f"mcpwire: {difference}")
    return Exit.WORSE if difference else Exit.OK


def _play(parts: list[Part]) -> int:
    player = tape.Player(parts)
    for line in sys.stdin.buffer:
        try:
            message = loads(line)
        except ValueError:
            continue
        for item in message if isinstance(message, list) else [message]:
            _write(b"".join(player.receive(item)))
    for request in player.unexpected:
        text = shorten(encode(request).decode(), MAX_EXCERPT)
        Output().note(f"mcpwire: not on the tape: {text}")
    return Exit.WORSE if player.unexpected else Exit.OK


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def replay_client(options: Options) -> int:
    """Play the client of a tape, and compare the server's answers."""
    path = options.words[0]
    _read_tape(path)

    async def compare(output: Output, _: Signals) -> int:
        target = make_target(options, output)
        timeout = options.timeout or DEFAULT_TIMEOUT_S
        with usage_errors():
            differences = await tape.replay(
                path, target, ignore=options.ignore, timeout=timeout
            )
        count = len(differences)
        rows = [attrs.asdict(difference) for difference in differences]
        lines = [one_line(str(difference)) for difference in differences]
        summary = f"{count} {'difference' if count == 1 else 'differences'}"
        output.result(rows, [*lines, summary])
        return Exit.WORSE if differences else Exit.OK

    return run_command(options, compare)


def _read_tape(path: str) -> list[Part]:
    try:
        return tape.read_tape(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the tape: {error}") from error
