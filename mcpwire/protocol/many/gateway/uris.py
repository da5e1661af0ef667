"""What resources of many servers are called, and whose a URI is.

A URI stays what it is, so that links in results lead where they did. Only where several
servers list the same one, all but the first have theirs offered by an alias that names
the server: ``mcpgw://SERVER/URI``, both percent-encoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["SCHEME", "alias_of", "has_links", "read_alias", "with_links", "with_uris"]

SCHEME: Final = "mcpgw://"
"""What begins each alias."""


def alias_of(server: str, uri: str) -> str:
    """Return the alias of a server's resource."""
    return f"{SCHEME}{quote(server, safe='')}/{quote(uri, safe='')}"


def read_alias(uri: str) -> tuple[str, str] | None:
    """Return the server and the URI that an alias names; ``None``: it is none."""
    if not uri.startswith(SCHEME):
        return None
    server, slash, inner = uri[len(SCHEME) :].partition("/")
    if not slash:
        return None
    try:
        found = unquote(server, errors="strict"), unquote(inner, errors="strict")
    except UnicodeDecodeError:
        return None
    # Another spelling of an alias is no alias.
    return found if alias_of(*found) == uri else None


def with_uris(contents: Any, names: Mapping[str, str]) -> tuple[Any, bool]:
    """Return a list of objects whose ``uri`` is renamed, and whether any was.

    What is no list, or has no such URI, is returned as it came.
    """
    if type(contents) is not list:
        return contents, False
    changed = False
    renamed = []
    for each in contents:
        uri = each.get("uri") if type(each) is dict else None
        name = names.get(uri) if type(uri) is str else None
        if name is not None:
            each = {**each, "uri": name}  # noqa: PLW2901 - the one that is kept
            changed = True
        renamed.append(each)
    return (renamed, True) if changed else (contents, False)


def has_links(result: dict[str, Any]) -> bool:
    """Tell whether a tool's result names resources."""
    content = result.get("content")
    return type(content) is list and any(
        type(block) is dict and ("uri" in block or "resource" in block)
        for block in content
    )


def with_links(result: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return a tool's result whose links and embedded resources have aliases.

    Args:
        result: The result; it is not changed.
        names: The URIs of that server that have an alias, and the alias.
    """
    content = result.get("content")
    if type(content) is not list:
        return result
    linked, changed = with_uris(content, names)
    blocks = list(linked)
    for at, block in enumerate(blocks):
        inner = block.get("resource") if type(block) is dict else None
        named, has_changed = with_uris([inner], names)
        if has_changed:
            blocks[at] = {**block, "resource": named[0]}
            changed = True
    return {**result, "content": blocks} if changed else result
