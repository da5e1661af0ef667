"""The commands that connect to a server; each returns its exit code.

Words and options are checked before the connection, so that a typing error starts no
server.
"""

from __future__ import annotations

import asyncio
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import attrs

from mcpwire.cli import render
from mcpwire.cli.arguments import (
    ParsedWords,
    bind_prompt,
    bind_tool,
    parse_words,
    raw_arguments,
)
from mcpwire.cli.failures import (
    Exit,
    ServersFailed,
    UsageError,
    error_document,
    sentence,
    unknown_name,
    usage_errors,
)
from mcpwire.cli.options import Mode
from mcpwire.cli.output import check_writable, one_line, write_file
from mcpwire.cli.session import (
    TIMEOUTS,
    advise_limit,
    client_limits,
    in_session,
    run_command,
)
from mcpwire.cli.targets import read_configuration, timeouts
from mcpwire.errors import MCPError, RPCError, ToolError, UrlElicitationRequired
from mcpwire.types import (
    BlobResourceContents,
    PromptReference,
    ResourceTemplateReference,
    encode,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mcpwire.cli.options import Options
    from mcpwire.cli.output import Output
    from mcpwire.cli.session import Session, Signals
    from mcpwire.client import Client
    from mcpwire.group import Group, Member


def _require_capability(session: Session, capability: str) -> None:
    """Raise a usage error if the server did not declare the capability."""
    if getattr(session.client.capabilities, capability) is None:
        offered = ", ".join(render.capability_words(session.client)) or "nothing"
        raise UsageError(
            f"the server does not declare {capability}; it declares {offered}"
        )


def find_item(kind: str, name: str, items: Sequence[Any]) -> Any:
    """Return the item with that name, or raise a usage error with similar names."""
    for item in items:
        if item.name == name:
            return item
    names = [item.name for item in items]
    how_many = "; `mcpwire ls` lists the names" if names else ""
    raise unknown_name(f"the server has no {kind} {name!r}", name, names, how_many)


def _parse_arguments(options: Options) -> tuple[str, ParsedWords]:
    """Return the name and the arguments parsed from the words after it."""
    name, *words = options.words
    if "-" in words and "-" in options.answers:
        raise UsageError(
            "arguments and --answer cannot both be read from standard input"
        )
    return name, parse_words(words)


# --- calls


def call(options: Options) -> int:
    """Call a tool."""
    name, parsed = _parse_arguments(options)

    @in_session
    async def work(session: Session) -> None:
        _require_capability(session, "tools")
        arguments = raw_arguments(parsed)
        if options.check:
            tools = await session.client.list_tools()
            arguments = bind_tool(find_item("tool", name, tools), parsed)
        await _call(session, name, arguments)

    return work(options)


async def _call(session: Session, name: str, arguments: dict[str, Any]) -> None:
    output, handlers, timing = session.output, session.handlers, session.timing
    while True:
        if timing is not None:
            timing.start()
        try:
            result = await session.client.call_tool(
                name, arguments, on_progress=session.progress
            )
            if timing is not None:
                timing.stop()
            break
        except UrlElicitationRequired as error:
            if handlers is None or not await handlers.visit_required_urls(error):
                raise
        finally:
            output.clear()
            if timing is not None:
                timing.report(output)
    if output.is_json:
        output.document(result.raw)
    else:
        output.text(render.tool_text(result))
    if result.is_error:
        raise ToolError(f"tool {name!r} reported an error")


# --- resources


def read(options: Options) -> int:
    """Read a resource."""
    uri, path = options.words[0], options.output
    if path is not None and path != "-":
        check_writable(path)

    @in_session
    async def work(session: Session) -> None:
        _require_capability(session, "resources")
        output = session.output
        result = await session.client.read_resource(uri, on_progress=session.progress)
        output.clear()
        if path is not None and path != "-":
            write_file(path, result.bytes)
            saved = f"saved {len(result.bytes):,} bytes in {path}"
            output.event("saved", {"file": path, "bytes": len(result.bytes)}, saved)
        if output.is_json:
            output.document(result.raw)
        elif path == "-":
            output.raw(result.bytes)
        elif path is None:
            _print_contents(output, uri, result)

    return work(options)


def _print_contents(output: Output, uri: str, result: Any) -> None:
    binary = [c for c in result.contents if isinstance(c, BlobResourceContents)]
    if not output.is_terminal:
        output.raw(result.bytes)
    elif binary:
        kind = binary[0].mime_type or "unknown type"
        raise UsageError(
            f"{uri!r} is binary ({one_line(kind)}, {len(result.bytes):,} bytes): save "
            "it with -o FILE, or pipe it"
        )
    else:
        output.text(result.text)


# --- prompts and completion


def prompt(options: Options) -> int:
    """Get a prompt."""
    name, parsed = _parse_arguments(options)

    @in_session
    async def work(session: Session) -> None:
        _require_capability(session, "prompts")
        client, output = session.client, session.output
        arguments: dict[str, str] = raw_arguments(parsed)
        if options.check:
            prompts = await client.list_prompts()
            arguments = bind_prompt(find_item("prompt", name, prompts), parsed)
        result = await client.get_prompt(
            name, arguments or None, on_progress=session.progress
        )
        if output.is_json:
            output.document(result.raw)
        else:
            output.text(render.prompt_text(result))

    return work(options)


def complete(options: Options) -> int:
    """Complete an argument of a prompt or resource template."""
    kind, argument, *rest = options.words
    value = rest[0] if rest else ""
    is_prompt = kind.startswith("prompt:")
    if not is_prompt and "://" not in kind and "{" not in kind:
        raise UsageError(
            f"cannot complete {kind!r}: write prompt:NAME or a URI template"
        )

    @in_session
    async def work(session: Session) -> None:
        ref = (
            PromptReference(kind.removeprefix("prompt:"))
            if is_prompt
            else ResourceTemplateReference(kind)
        )
        result = await session.client.complete(
            ref, argument, value, context=dict(options.context) or None
        )
        output = session.output
        if output.is_json:
            output.document(result.raw)
            return
        matches = result.completion
        output.lines(map(one_line, matches.values))
        if matches.has_more or (matches.total or 0) > len(matches.values):
            suffix = f" of {matches.total}" if matches.total else ", and there are more"
            output.note(f"{len(matches.values)}{suffix}")

    return work(options)


# --- skills


@in_session
async def skills(session: Session) -> None:
    """List the skills, or print one."""
    output, client = session.output, session.client
    if not session.options.words:
        entries = await client.list_skills()
        style = render.Style.of(output)
        lines = render.section("Skills", entries, render.skill, style)
        output.result({"skills": [encode(skill) for skill in entries]}, lines)
        return
    loaded = await client.load_skill(session.options.words[0])
    if output.is_json:
        output.document({"skill": encode(loaded.entry), "body": loaded.body})
    else:
        output.text(loaded.body)


# --- the connection


@in_session
async def ping(session: Session) -> None:
    """Send pings and print their round-trip times."""
    output = session.output
    times = []
    for _ in range(session.options.count):
        times.append(await session.client.ping())
        if not output.is_json:
            output.lines([f"answered after {times[-1] * 1000:.3f} ms"])
    if output.is_json:
        output.document({"seconds": times})
    elif len(times) > 1:
        from statistics import median

        low, mid, high = (
            f"{seconds * 1000:.3f} ms"
            for seconds in (min(times), median(times), max(times))
        )
        output.lines([f"min {low}, median {mid}, max {high}"])


@in_session
async def info(session: Session) -> None:
    """Print the negotiation, the server's capabilities and its instructions."""
    client = session.client
    record, server = client.negotiation, client.server_info
    assert record is not None
    assert client.capabilities is not None
    document = {
        "protocolVersion": client.protocol_version,
        "serverInfo": encode(server) if server else None,
        "capabilities": encode(client.capabilities),
        "instructions": client.instructions,
        "era": record.era.value if record.era is not None else None,
        "reason": record.reason,
        "negotiation": [
            {"at": step.at, "event": step.event, "detail": step.detail}
            for step in record.steps
        ],
    }
    lines = render.info_lines(client, str(session.target))
    session.output.result(document, lines)


# --- lists


def ls(options: Options) -> int:
    """List the features of a server, or with --config alone of all servers in it."""
    if not options.command:
        return run_command(
            options, lambda output, signals: _list_all(options, output, signals)
        )

    @in_session
    async def work(session: Session) -> None:
        output = session.output
        features = await _list_features(session.client, render.Style.of(output))
        output.result(features.document, features.lines())
        if features.error is not None:
            raise features.error

    return work(options)


SECTIONS: Final[tuple[tuple[str, str, str, str, Any], ...]] = (
    ("tools", "tools", "list_tools", "Tools", render.tool),
    ("resources", "resources", "list_resources", "Resources", render.resource),
    (
        *("resources", "resourceTemplates", "list_resource_templates"),
        *("Resource templates", render.template),
    ),
    ("prompts", "prompts", "list_prompts", "Prompts", render.prompt),
)
"""Capability, key in the document, method of the client, title, entry of an item."""


@attrs.define
class _Features:
    """The lists of one server, as a JSON document and as blocks of lines."""

    document: dict[str, Any] = attrs.field(factory=dict)
    blocks: list[Iterable[str]] = attrs.field(factory=list)
    error: RPCError | None = None
    """The first error of a list request for a declared capability."""

    def lines(self) -> Iterator[str]:
        """Yield the blocks with an empty line between them."""
        empty = ["The server declares no tools, resources or prompts."]
        return _join_blocks(self.blocks or ([] if self.error else [empty]))


def _join_blocks(blocks: Iterable[Iterable[str]]) -> Iterator[str]:
    for number, block in enumerate(blocks):
        yield from ["", *block] if number else block


async def _list_features(client: Client, style: render.Style) -> _Features:
    """Request the lists that the server's capabilities declare."""
    features = _Features()
    for capability, key, method, title, describe in SECTIONS:
        if getattr(client.capabilities, capability) is None:
            continue
        try:
            items = await getattr(client, method)()
        except RPCError as error:
            # Servers without resource templates may not implement their list.
            if error.code != -32601 or key != "resourceTemplates":
                features.error = features.error or error
            continue
        features.document[key] = [encode(item) for item in items]
        if items or key != "resourceTemplates":
            features.blocks.append(render.section(title, items, describe, style))
    return features


async def _list_all(options: Options, output: Output, signals: Signals) -> int:
    """List the features of all configured servers; failed servers come last."""
    configuration = read_configuration(options)
    for warning in configuration.warnings:
        output.event("warning", warning, f"mcpwire: {warning}")
    style = render.Style.of(output, len(render.NAME_INDENT))
    group = _make_group(options, configuration.members())
    features: dict[str, _Features] = {}
    failed: dict[str, Exception] = {}

    async def list_server(name: str) -> None:
        try:
            features[name] = await _list_features(group[name], style)
        except MCPError as error:
            failed[name] = error

    try:
        with output.waiting(f"connecting to {', '.join(configuration.enabled)} ..."):
            failed |= (await group.connect_all()).failed
        await asyncio.gather(*map(list_server, tuple(group)))
    finally:
        if not signals.is_forced:
            await group.aclose()
    failed |= {name: entry.error for name, entry in features.items() if entry.error}
    for error in failed.values():
        # A group's note names the server; here the name is printed before the error.
        notes: list[str] = getattr(error, "__notes__", [])
        notes[:] = [note for note in notes if not note.endswith(" of a group")]
        advise_limit(error)
    targets = {
        name: str(entry.to_target()) for name, entry in configuration.enabled.items()
    }
    document = {
        name: (features[name].document if name in features else {})
        | ({"error": error_document(failed[name])} if name in failed else {})
        for name in targets
    }
    output.result(document, _all_lines(targets, features, failed, output))
    if failed:
        raise ServersFailed(tuple(failed), total=len(targets))
    return Exit.OK


def _make_group(options: Options, members: Mapping[str, Member]) -> Group:
    """Return a group of clients that declare capabilities but reject all requests.

    Some servers list more for a client with these capabilities, but a person could not
    tell the questions of many servers apart.
    """
    from mcpwire import Recovery
    from mcpwire.group import Group
    from mcpwire.protocol.client_features import USER_REJECTED, Elicitation

    def refuse(_: object) -> NoReturn:
        raise RPCError("this client only lists components", code=USER_REJECTED)

    overrides = options.values(Mode) | timeouts(options)
    client_features: dict[str, Any] = {}
    if options.roots:
        client_features["roots"] = [Path(root) for root in options.roots]
    if options.may_ask:
        client_features["elicitation"] = Elicitation(
            form=lambda _: "decline", url=lambda _: "decline"
        )
        client_features["sampling"] = refuse
    with usage_errors():
        return Group(
            {name: attrs.evolve(entry, **overrides) for name, entry in members.items()},
            on_error="skip",
            **TIMEOUTS,
            limits=client_limits(options),
            recovery=Recovery(restart=False),
            **client_features,
        )


def _all_lines(
    targets: Mapping[str, str],
    features: Mapping[str, _Features],
    failed: Mapping[str, Exception],
    output: Output,
) -> Iterator[str]:
    blocks: list[Iterable[str]] = []
    for name, target in targets.items():
        entry = features.get(name)
        if entry is None or (name in failed and not entry.blocks):
            continue
        heading = f"{output.bold(one_line(name))}  {output.dim(one_line(target))}"
        lines = (
            f"{render.NAME_INDENT}{line}" if line else "" for line in entry.lines()
        )
        blocks.append(chain([heading], lines))
    if failed:
        errors = [
            f"{render.NAME_INDENT}{one_line(name)}: {one_line(sentence(error))}"
            for name, error in failed.items()
        ]
        blocks.append([output.bold(f"Failed ({len(failed)})"), *errors])
    return _join_blocks(blocks or [["The configuration has no servers."]])
