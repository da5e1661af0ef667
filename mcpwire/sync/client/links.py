# Made by `python tests/sync/generate.py --write`: change the source instead,
# mcpwire/client/links.py
"""The links of a result followed: what they lead to, embedded in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from mcpwire.errors import LocalProtocolError, RPCError
from mcpwire.types import EmbeddedResource, ResourceLink

if TYPE_CHECKING:
    from typing import Unpack

    from mcpwire.sync.client import CallOptions, Client
    from mcpwire.types import CallToolResult, ContentBlock

__all__ = ["resolve_links"]


def resolve_links(
    client: Client, result: CallToolResult, **options: Unpack[CallOptions]
) -> CallToolResult:
    """Return a tool's result with the resources that it links to in place of the links.

    Only what the server lists is read, each resource once; a resource of several
    contents becomes several blocks. Any other link stays, and so does one whose
    resource the server refuses to give. `raw` stays what the server said. A result
    without links asks the server for nothing.

    Args:
        client: The connected client that made the call.
        result: What came of it; it is not changed.
        options: As every request takes; each of the requests takes them.

    Raises:
        TransportError: The connection is gone.
        RequestTimeout: The list, or a resource, did not come in time.
        RemoteProtocolError: An answer breaks the rules.
    """
    linked = {block.uri for block in result.content if isinstance(block, ResourceLink)}
    if not linked:
        return result
    try:
        listed = {each.uri for each in client.list_resources(**options)}
    except (LocalProtocolError, RPCError):
        return result
    found: dict[str, list[EmbeddedResource]] = {}
    for uri in sorted(linked & listed):
        try:
            read = client.read_resource(uri, **options)
        except RPCError:
            continue
        found[uri] = [EmbeddedResource(contents) for contents in read.contents]
    content: list[ContentBlock] = []
    for block in result.content:
        if isinstance(block, ResourceLink) and block.uri in found:
            content += found[block.uri]
        else:
            content.append(block)
    return attrs.evolve(result, content=content)
