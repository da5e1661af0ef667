"""Asks a server for all it declares, for a listing or a JSON document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.cli.text import listing

if TYPE_CHECKING:
    from mcpwire.client import Client
    from mcpwire.errors import RPCError

__all__ = ["NOTHING", "Offer", "offer_of"]

SECTIONS: Final = (
    ("tools", "tools", "list_tools", listing.tools),
    ("resources", "resources", "list_resources", listing.resources),
    ("resources", "resourceTemplates", "list_resource_templates", listing.templates),
    ("prompts", "prompts", "list_prompts", listing.prompts),
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


async def offer_of(client: Client, style: listing.Style) -> Offer:
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
