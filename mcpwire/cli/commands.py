"""What each command does once it is connected; each returns its exit code."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from mcpwire.cli import render
from mcpwire.cli.arguments import Given, bind_prompt, bind_tool, parse_words, unchecked
from mcpwire.cli.escape import one_line
from mcpwire.cli.failures import Exit, UsageError, close_matches, did_you_mean
from mcpwire.cli.output import (
    check_writable,
    progress_text,
    read_file,
    read_input,
    save,
)
from mcpwire.cli.render import tool_signature
from mcpwire.cli.servers import offer_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mcpwire.cli.grammar import Options
    from mcpwire.cli.session import Session
    from mcpwire.types import CallToolResult

    Work = Callable[[Session], Awaitable[int]]

__all__ = [
    "COMMAND",
    "demo",
    "prepare",
]


def prepare(options: Options) -> Work:
    """Read what the command line names beside the server; return what is to be done.

    No server runs yet, so that a typing error costs nothing.

    Raises:
        UsageError: An argument or a file of it is wrong.
    """
    _read_answers(options)
    make = PREPARED.get(options.verb)
    return make(options) if make is not None else PLAIN[options.verb]


def _read_answers(options: Options) -> None:
    given = (options.sample_with, options.log_level)
    if options.given_answers or any(word is not None for word in given):
        from mcpwire.cli.interactive import read_options

        read_options(options, read_file=read_file, read_input=read_input)


def demo(options: Options) -> Work:
    """Prepare the demonstration with the demo server of this package."""
    options.command = COMMAND
    # Where the package is found through PYTHONPATH, the server has to find it too.
    options.passed_env = ("PYTHONPATH",) if "PYTHONPATH" in os.environ else ()
    return run_demo


# Lists...


async def ls(session: Session) -> int:
    """List what the server declares; what it then refuses is said at the end."""
    output = session.output
    style = render.Style(output.bold, output.dim, output.width)
    offer = await offer_of(session.client, style)
    if output.is_json:
        output.document(offer.document)
    elif lines := offer.lines():
        output.lines(lines)
    if offer.refused is not None:
        raise offer.refused
    return Exit.OK


def _demand(session: Session, capability: str) -> None:
    """Check that the server declared what the command is about.

    Raises:
        UsageError: It did not.
    """
    if getattr(session.client.capabilities, capability) is None:
        offered = ", ".join(render.capability_words(session.client)) or "nothing"
        raise UsageError(f"the server has no {capability}; it declares {offered}")


def _pick(kind: str, name: str, items: Sequence[Any]) -> Any:
    """Return the item of that name.

    Raises:
        UsageError: There is none; names those that are like it.
    """
    for item in items:
        if item.name == name:
            return item
    names = [item.name for item in items]
    similar = close_matches(name, names)
    how_many = f"; mcpwire ls shows the {len(names)} there are" if names else ""
    raise UsageError(
        one_line(
            f"the server has no {kind} {name!r}{did_you_mean(similar) or how_many}"
        ),
        suggestions=similar,
    )


# Calls...


def call(options: Options) -> Work:
    """Prepare the call of a tool."""
    name, given = options.words[0], _given(options.words[1:])

    async def work(session: Session) -> int:
        _demand(session, "tools")
        client = session.client
        arguments = unchecked(given)
        if options.check:
            tools = await client.list_tools()
            arguments = bind_tool(_pick("tool", name, tools), given)
        return await _call(session, name, arguments)

    return work


async def _call(session: Session, name: str, arguments: dict[str, Any]) -> int:
    from mcpwire import ToolError, UrlElicitationRequired

    output, host = session.output, session.host
    while True:
        try:
            result = await _timed(session, name, arguments)
            break
        except UrlElicitationRequired as error:
            if host is None or not await host.visit_all(error):
                raise
    if output.is_json:
        output.document(result.raw)
    else:
        output.text(render.tool_text(result))
    if result.is_error:
        raise ToolError(f"tool {name!r} reported failure")
    return Exit.OK


async def _timed(
    session: Session, name: str, arguments: dict[str, Any]
) -> CallToolResult:
    timing = session.timing
    if timing is not None:
        timing.start()
    try:
        result = await session.client.call_tool(
            name, arguments, on_progress=session.progress
        )
        if timing is not None:
            timing.stop()
    finally:
        session.output.clear()
        if timing is not None:
            timing.report(session.output)
    return result


def _given(words: Sequence[str]) -> Given:
    return parse_words(words, read_file=read_file, read_input=read_input)


# Resources...


def read(options: Options) -> Work:
    """Prepare the reading of a resource."""
    uri, path = options.words[0], options.output
    if path is not None and path != "-":
        check_writable(path)

    async def work(session: Session) -> int:
        _demand(session, "resources")
        output = session.output
        result = await session.client.read_resource(uri, on_progress=session.progress)
        output.clear()
        if output.is_json and path is None:
            output.document(result.raw)
        elif path == "-":
            output.exact(result.bytes)
        elif path is not None:
            save(path, result.bytes)
            output.note(f"saved {len(result.bytes):,} bytes in {path}")
        else:
            _print_contents(session, uri, result)
        return Exit.OK

    return work


def _print_contents(session: Session, uri: str, result: Any) -> None:
    from mcpwire.types import BlobResourceContents

    output = session.output
    binary = [c for c in result.contents if isinstance(c, BlobResourceContents)]
    if not output.is_terminal:
        output.exact(result.bytes)
    elif binary:
        kind = binary[0].mime_type or "unknown type"
        raise UsageError(
            f"{uri!r} is binary ({one_line(kind)}, {len(result.bytes):,} bytes): save "
            "it with -o FILE, or pipe it"
        )
    else:
        output.text(result.text)


# Prompts and completion...


def prompt(options: Options) -> Work:
    """Prepare the getting of a prompt."""
    name, given = options.words[0], _given(options.words[1:])

    async def work(session: Session) -> int:
        _demand(session, "prompts")
        client, output = session.client, session.output
        arguments: dict[str, str] = unchecked(given)
        if options.check:
            prompts = await client.list_prompts()
            arguments = bind_prompt(_pick("prompt", name, prompts), given)
        result = await client.get_prompt(
            name, arguments or None, on_progress=session.progress
        )
        if output.is_json:
            output.document(result.raw)
        else:
            output.text(render.prompt_text(result))
        return Exit.OK

    return work


def complete(options: Options) -> Work:
    """Prepare the completion of an argument."""
    kind, argument, *rest = options.words
    value = rest[0] if rest else ""
    is_prompt = kind.startswith("prompt:")
    if not is_prompt and "://" not in kind and "{" not in kind:
        raise UsageError(
            f"{kind!r} is nothing to complete: write prompt:NAME or a URI template"
        )

    async def work(session: Session) -> int:
        from mcpwire.types import PromptReference, ResourceTemplateReference

        ref = (
            PromptReference(kind.removeprefix("prompt:"))
            if is_prompt
            else ResourceTemplateReference(kind)
        )
        result = await session.client.complete(
            ref, argument, value, context=options.context or None
        )
        output = session.output
        if output.is_json:
            output.document(result.raw)
            return Exit.OK
        found = result.completion
        output.lines(map(one_line, found.values))
        if found.has_more or (found.total or 0) > len(found.values):
            of = f" of {found.total}" if found.total else ", and there are more"
            output.note(f"{len(found.values)}{of}")
        return Exit.OK

    return work


# Skills...


def skills(options: Options) -> Work:
    """Prepare the list of the skills, or the loading of one."""
    uri = options.words[0] if options.words else None

    async def work(session: Session) -> int:
        from mcpwire.types import encode

        output = session.output
        if uri is not None:
            loaded = await session.client.load_skill(uri)
            if output.is_json:
                output.document({"skill": encode(loaded.entry), "body": loaded.body})
            else:
                output.text(loaded.body)
            return Exit.OK
        found = await session.client.list_skills()
        if output.is_json:
            output.document({"skills": [encode(skill) for skill in found]})
            return Exit.OK
        style = render.Style(output.bold, output.dim, output.width)
        output.lines(render.skills(found, style))
        return Exit.OK

    return work


# The connection itself...


async def ping(session: Session) -> int:
    """Measure answers."""
    output = session.output
    times = []
    for _ in range(session.options.count):
        seconds = await session.client.ping()
        times.append(seconds)
        if not output.is_json:
            output.lines([f"answered after {seconds * 1000:.3f} ms"])
    if output.is_json:
        output.document({"seconds": times})
    elif len(times) > 1:
        from statistics import median

        low, middle, high = (x * 1000 for x in (min(times), median(times), max(times)))
        output.lines([f"min {low:.3f} ms, median {middle:.3f} ms, max {high:.3f} ms"])
    return Exit.OK


async def info(session: Session) -> int:
    """Show what was agreed on and what the server says of itself."""
    client, output = session.client, session.output
    if not output.is_json:
        output.lines(render.info_lines(client, str(session.target)))
        return Exit.OK
    from mcpwire.types import encode

    record, capabilities = client.negotiation, client.capabilities
    assert record is not None
    assert capabilities is not None
    output.document(
        {
            "protocolVersion": client.protocol_version,
            "serverInfo": encode(client.server_info) if client.server_info else None,
            "capabilities": encode(capabilities),
            "instructions": client.instructions,
            "era": record.era.value if record.era is not None else None,
            "reason": record.reason,
            "negotiation": [
                {"at": step.at, "event": step.event, "detail": step.detail}
                for step in record.steps
            ],
        }
    )
    return Exit.OK


PREPARED: Final[dict[str, Callable[[Options], Work]]] = {
    "call": call,
    "read": read,
    "prompt": prompt,
    "complete": complete,
    "skills": skills,
    "demo": demo,
}
"""Commands with words of their own."""

PLAIN: Final[dict[str, Work]] = {"ls": ls, "ping": ping, "info": info}
"""Commands that need no more than a server."""


COMMAND: Final = (sys.executable, "-m", "mcpwire", "demo-server")

CALLS: Final = 1_000
IN_FLIGHT: Final = 32
SLOW: Final = {"steps": 4, "seconds": 0.2}
ENDLESS: Final = {"steps": 60, "seconds": 60}
PATIENCE_S: Final = 0.1
LABEL: Final = 13


async def run_demo(session: Session) -> int:
    """Do the main job step by step, and say what came of each step."""
    script = Script(session)
    for step in (
        script.connected,
        script.list_tools,
        script.call,
        script.progress,
        script.read,
        script.prompt,
        script.timeout,
        script.one_by_one,
        script.at_once,
        script.close,
    ):
        await step()
    if session.output.is_json:
        session.output.document({"steps": script.steps})
    else:
        session.output.lines(["", "Everything worked."])
    return Exit.OK


class Script:
    """The steps and what they print."""

    def __init__(self, session: Session) -> None:
        self.client = session.client
        self.output = session.output
        self.steps: list[dict[str, Any]] = []
        self._session = session

    def say(self, seconds: float, step: str, *lines: str) -> None:
        """Record a step, and print it unless all are printed as one document."""
        milliseconds = round(seconds * 1000, 3)
        self.steps.append({"step": step, "milliseconds": milliseconds, "said": lines})
        if not self.output.is_json:
            first, *rest = map(one_line, lines)
            head = f"{milliseconds:8.1f} ms  {self.output.bold(step.ljust(12))}"
            self.output.lines(
                [f"{head}  {first}", *(f"{'':27}{line}" for line in rest)]
            )

    async def timed(self, call: Awaitable[Any]) -> tuple[float, Any]:
        """Await a call and measure it."""
        started = time.perf_counter()
        outcome = await call
        return time.perf_counter() - started, outcome

    async def connected(self) -> None:
        record, server = self.client.negotiation, self.client.server_info
        assert record is not None
        assert record.era is not None
        assert server is not None
        self.say(
            self._session.connect_seconds,
            "connect",
            "python -m mcpwire demo-server, as a child process",
            f"{server.name} {server.version}",
            f"protocol {self.client.protocol_version} ({record.era.value} era): "
            f"{record.reason}",
        )

    async def list_tools(self) -> None:
        seconds, tools = await self.timed(self.client.list_tools())
        self.say(seconds, "list tools", *(tool_signature(tool)[0] for tool in tools))

    async def call(self) -> None:
        arguments = {"a": 2, "b": 3}
        seconds, result = await self.timed(self.client.call_tool("add", arguments))
        self.say(
            seconds,
            "call a tool",
            f"add {json.dumps(arguments)} -> {json.dumps(result.structured_content)}",
        )

    async def progress(self) -> None:
        told: list[str] = []

        def on_progress(
            progress: float, total: float | None, message: str | None
        ) -> None:
            told.append(progress_text(progress, total, message))
            if self.output.progress is not None:
                self.output.progress.show(progress, total, message)

        call = self.client.call_tool("slow", SLOW, on_progress=on_progress)
        seconds, result = await self.timed(call)
        self.say(seconds, "progress", f"slow {json.dumps(SLOW)}", *told, result.text)

    async def read(self) -> None:
        uri = "demo://greeting/Ada"
        seconds, text = await self.timed(self.client.read_text(uri))
        self.say(seconds, "read", f"{uri} -> {text}")

    async def prompt(self) -> None:
        prompt = self.client.get_prompt("greet", {"name": "Ada"})
        seconds, result = await self.timed(prompt)
        self.say(seconds, "prompt", f"greet name=Ada -> {result.messages[0].text}")

    async def timeout(self) -> None:
        from mcpwire import RequestTimeout

        started = time.perf_counter()
        try:
            await self.client.call_tool("slow", ENDLESS, timeout=PATIENCE_S)
        except RequestTimeout as error:
            took = time.perf_counter() - started
            self.say(took, "time out", str(error), "the server was told to stop")

    async def one_by_one(self) -> None:
        started = time.perf_counter()
        for _ in range(CALLS):
            await self.client.call_tool("echo", {"message": "hi"})
        self._say_rate(time.perf_counter() - started, "one at a time")

    async def at_once(self) -> None:
        started = time.perf_counter()
        left = iter(range(CALLS))

        async def caller() -> None:
            for _ in left:
                await self.client.call_tool("echo", {"message": "hi"})

        await asyncio.gather(*(caller() for _ in range(IN_FLIGHT)))
        self._say_rate(time.perf_counter() - started, f"{IN_FLIGHT} in flight")

    def _say_rate(self, seconds: float, how: str) -> None:
        each = seconds / CALLS * 1_000_000
        self.say(
            seconds,
            how,
            f"{CALLS:,} calls of echo: {each:.0f} µs each, {CALLS / seconds:,.0f}/s",
        )

    async def close(self) -> None:
        seconds, _ = await self.timed(self.client.aclose())
        self.say(seconds, "close", "the server's process has ended")
