"""``mcpwire ls --config FILE``: connects to all servers at once and lists each.

What failed stands at the end with its reason, and makes the exit code 4; the others are
listed all the same.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

import attrs

from mcpwire.cli import render
from mcpwire.cli.escape import one_line
from mcpwire.cli.failures import Exit, ServersFailed, UsageError, report, sentence
from mcpwire.cli.render import Style
from mcpwire.cli.session import CLOSE_GRACE_S, CONNECT_TIMEOUT_S
from mcpwire.cli.targets import read_configuration
from mcpwire.errors import MCPError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.cli.grammar import Options
    from mcpwire.cli.output import Output
    from mcpwire.cli.session import Signals
    from mcpwire.client import Client
    from mcpwire.errors import RPCError
    from mcpwire.group import Group


__all__ = [
    "NOTHING",
    "Offer",
    "list_servers",
    "offer_of",
]

INDENT: Final = "  "


async def list_servers(options: Options, output: Output, signals: Signals) -> int:
    """List what all servers of the configuration have; return the exit code.

    Raises:
        ServersFailed: Some of them could not be listed; said after the others.
        UsageError: The configuration makes no sense.
    """
    configuration = read_configuration(options)
    for warning in configuration.warnings:
        output.tell("warning", warning, f"mcpwire: {warning}")
    style = Style(output.bold, output.dim, _narrower(output.width))
    try:
        group = _group(options, configuration.members())
    except ValueError as error:
        raise UsageError(str(error)) from error
    try:
        offers, failed = await _offers(group, style)
    finally:
        if not signals.is_hurried:
            await group.aclose()
    targets = {
        name: str(entry.to_target()) for name, entry in configuration.enabled.items()
    }
    for name, offer in offers.items():
        if offer.refused is not None:
            failed[name] = offer.refused
    for reason in failed.values():
        _forget_group(reason)
    if output.is_json:
        output.document(_document(targets, offers, failed))
    else:
        output.lines(_lines(targets, offers, failed, output))
    if failed:
        raise ServersFailed(tuple(failed), of=len(targets))
    return Exit.OK


def _narrower(width: int | None) -> int | None:
    return None if width is None else width - len(INDENT)


def _group(options: Options, members: Mapping[str, Any]) -> Group:
    from mcpwire import Limits, Recovery
    from mcpwire.group import Group

    timeout = options.timeout
    return Group(
        members,
        on_error="skip",
        timeout=timeout or 30.0,
        connect_timeout=timeout or CONNECT_TIMEOUT_S,
        mode=options.mode,
        limits=Limits(close_grace=CLOSE_GRACE_S, terminate_grace=CLOSE_GRACE_S),
        recovery=Recovery(restart=False),
        **_hosting(options),
    )


def _hosting(options: Options) -> dict[str, Any]:
    """Return the handlers to declare: some servers list more for such a client.

    They refuse every request: with many servers a person could not tell them apart.
    """
    hosting: dict[str, Any] = {}
    if options.roots:
        hosting["roots"] = [Path(root) for root in options.roots]
    if options.may_ask:
        from mcpwire.protocol.client_features import Elicitation

        hosting["elicitation"] = Elicitation(form=_decline, url=_decline)
        hosting["sampling"] = _refuse
    return hosting


def _decline(_: object) -> Literal["decline"]:
    return "decline"


def _refuse(_: object) -> NoReturn:
    from mcpwire import RPCError
    from mcpwire.protocol.client_features import USER_REJECTED

    raise RPCError("the user only wanted a list", code=USER_REJECTED)


async def _offers(
    group: Group, style: Style
) -> tuple[dict[str, Offer], dict[str, Exception]]:
    """Ask all at once; what is lost meanwhile has failed like what never came."""
    failed: dict[str, Exception] = dict((await group.connect_all()).failed)
    offers: dict[str, Offer] = {}

    async def ask(name: str) -> None:
        try:
            offers[name] = await offer_of(group[name], style)
        except MCPError as error:
            failed[name] = error

    await asyncio.gather(*map(ask, tuple(group)))
    return offers, failed


def _forget_group(error: Exception) -> None:
    """Take out of an error what a group adds for programs: its server stands there."""
    notes: list[str] = getattr(error, "__notes__", [])
    notes[:] = [note for note in notes if not note.endswith(" of a group")]


def _document(
    targets: Mapping[str, str],
    offers: Mapping[str, Offer],
    failed: Mapping[str, Exception],
) -> dict[str, Any]:
    """Return what each has, by its name, and what went wrong with it."""
    document: dict[str, Any] = {}
    for name in targets:
        document[name] = dict(offers[name].document) if name in offers else {}
        if name in failed:
            document[name] |= report(failed[name])
    return document


def _lines(
    targets: Mapping[str, str],
    offers: Mapping[str, Offer],
    failed: Mapping[str, Exception],
    output: Output,
) -> list[str]:
    blocks: list[list[str]] = []
    for name, target in targets.items():
        offer = offers.get(name)
        if offer is None or (name in failed and not offer.blocks):
            continue
        heading = f"{output.bold(one_line(name))}  {output.dim(one_line(target))}"
        listed = [f"{INDENT}{line}" if line else "" for line in offer.lines()]
        blocks.append([heading, *listed])
    if failed:
        said = [
            f"{INDENT}{one_line(name)}: {one_line(sentence(error))}"
            for name, error in failed.items()
        ]
        blocks.append([output.bold(f"Failed ({len(failed)})"), *said])
    if not blocks:
        return ["The configuration has no servers."]
    return [line for block in blocks for line in ("", *block)][1:]


SECTIONS: Final = (
    ("tools", "tools", "list_tools", render.tools),
    ("resources", "resources", "list_resources", render.resources),
    ("resources", "resourceTemplates", "list_resource_templates", render.templates),
    ("prompts", "prompts", "list_prompts", render.prompts),
)
"""Capability, key in the JSON document, method of the client, how it is written."""

NOTHING: Final = "The server declares no tools, resources or prompts."


@attrs.define
class Offer:
    """What a server has."""

    document: dict[str, Any] = attrs.field(factory=dict)
    blocks: list[list[str]] = attrs.field(factory=list)
    refused: RPCError | None = None
    """What it declares and then did not list."""

    def lines(self) -> list[str]:
        """Return the blocks with an empty line between them."""
        lines: list[str] = []
        for block in self.blocks:
            lines += ["", *block] if lines else block
        if not lines and self.refused is None:
            lines = [NOTHING]
        return lines


async def offer_of(client: Client, style: render.Style) -> Offer:
    """List what the server declares.

    Raises what the connection does; what the server refuses is kept.
    """
    from mcpwire import RPCError
    from mcpwire.types import encode

    offer = Offer()
    for capability, key, method, write in SECTIONS:
        if getattr(client.capabilities, capability) is None:
            continue
        try:
            items = await getattr(client, method)()
        except RPCError as error:
            # Servers with resources and without templates may not know the request.
            if error.code != -32601 or key != "resourceTemplates":
                offer.refused = offer.refused or error
            continue
        offer.document[key] = [encode(item) for item in items]
        if items or key != "resourceTemplates":
            offer.blocks.append(write(items, style))
    return offer
