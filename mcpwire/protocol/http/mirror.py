"""What a request of the stateless era repeats in its head, and what tools ask of that.

2026-07-28 streamable-http, "Standard Request Headers" and "Custom Headers from Tool
Parameters": the method, the name or URI it is about, and the arguments that a tool's
schema marks with ``x-mcp-header``, so that intermediaries can route without the body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InvalidMessage
from mcpwire.protocol.http.heads import field_line
from mcpwire.protocol.methods import METHODS
from mcpwire.wire.headers import (
    METHOD,
    NAME,
    encode_value,
    find_param_headers,
    mirror_params,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.wire.headers import ParamHeader

__all__ = ["Mirror"]

_MEMBERS: Final = {spec.name: spec.mirrored for spec in METHODS if spec.mirrored}
"""Method -> the member of its params that `Mcp-Name` repeats."""

_HEADERS_MAX: Final = 16_384  # of all tools together
_LINES_MAX: Final = 1_024  # that are kept to be used again
_LINE_LENGTH_MAX: Final = 256
_STARTS_MAX: Final = 128  # whole heads: users' headers in them may be long


class Mirror:
    """Composes the mirrored fields of requests to one server.

    It knows the annotations of the tools whose lists went through `learn`; the newest
    list counts. `on_dropped` is told the name of each tool that a list loses, and why.
    """

    __slots__ = ("_count", "_known", "_lines", "_on_dropped", "_starts")

    def __init__(self, on_dropped: Callable[[str, str], object]) -> None:
        self._on_dropped = on_dropped
        self._known: dict[str, tuple[ParamHeader, ...]] = {}
        self._count = 0
        self._lines: dict[tuple[str, str], bytes] = {}
        self._starts: dict[tuple[bytes, str, str | None], bytes] = {}

    def forget(self) -> None:
        """Forget every tool: another server may answer now."""
        self._known.clear()
        self._count = 0

    # Requests...

    def standard(
        self, method: str, params: Mapping[str, Any] | None
    ) -> list[tuple[str, str]]:
        """Return names and encoded values of the fields that go with any method.

        A name that is missing in the params, or is no text, has no field: what is wrong
        with such a request is for the server to say.

        Raises:
            LocalProtocolError: The name is not Unicode.
        """
        fields = [(METHOD, method)]
        name = _name_in(method, params)
        if name is not None:
            fields.append((NAME, encode_value(name)))
        return fields

    def params(self, name: Any, arguments: Any) -> list[tuple[str, str]]:
        """Return names and encoded values of the fields for a tool's arguments.

        Of a tool that no list has shown nothing is known, and nothing is mirrored: the
        server then refuses the call, and the list is asked for.

        Raises:
            LocalProtocolError: An argument that is mirrored has no header form.
        """
        headers = self._known.get(name) if isinstance(name, str) else None
        if headers is None or not isinstance(arguments, dict):
            return []
        return mirror_params(headers, arguments)

    def start(
        self, head: bytes, method: str, params: Mapping[str, Any] | None
    ) -> bytes:
        """Return that head with all mirrored fields of a message behind it.

        Heads are remembered for what depends on nothing but method and name, which
        most calls do not: give one here that comes again, as `Heads.post` does.

        Raises:
            LocalProtocolError: As `lines`.
        """
        # As `_name_in`, without its call for each request.
        member = _MEMBERS.get(method)
        name = params.get(member) if member is not None and params else None
        if not isinstance(name, str):
            name = None
        # Asked each time and not when a list is learnt: another thread may be calling.
        if name in self._known and method == "tools/call":
            return head + self.lines(method, params)
        key = (head, method, name)
        start = self._starts.get(key)
        if start is None:
            start = head + self._standard_lines(method, name)
            if name is None or len(name) <= _LINE_LENGTH_MAX:
                if len(self._starts) >= _STARTS_MAX:  # threads may add at once
                    self._starts.clear()
                self._starts[key] = start
        return start

    def lines(self, method: str, params: Mapping[str, Any] | None) -> bytes:
        """Return all mirrored fields of a message, as lines to put behind its head.

        Raises:
            LocalProtocolError: The method's name, or what is mirrored, cannot be said
                in a header.
        """
        name = _name_in(method, params)
        lines = self._standard_lines(method, name)
        if name is not None and self._known and method == "tools/call":
            assert params is not None
            for header, value in self.params(name, params.get("arguments")):
                lines += field_line(header.lower(), value)
        return lines

    def _standard_lines(self, method: str, name: str | None) -> bytes:
        lines = self._line(METHOD, method)
        return lines if name is None else lines + self._line(NAME, name)

    def _line(self, header: str, text: str) -> bytes:
        """Return the line of a standard field, which is often the one of before."""
        line = self._lines.get((header, text))
        if line is None:
            # Only names have the encoded form (2026-07-28, "Value Encoding").
            value = encode_value(text) if header == NAME else text
            line = field_line(header.lower(), value)
            if len(self._lines) >= _LINES_MAX:  # threads may add at once
                self._lines.clear()
            if len(text) <= _LINE_LENGTH_MAX:
                self._lines[header, text] = line
        return line

    # Lists of tools...

    def learn(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return a `tools/list` result without the tools whose annotations are invalid.

        It is the same object when all of them stay. What is no tool at all stays too:
        the decoder says better what is wrong with it.
        """
        tools = result.get("tools")
        if not isinstance(tools, list):
            return result
        kept = [tool for tool in tools if self._learn_tool(tool)]
        return result if len(kept) == len(tools) else {**result, "tools": kept}

    def _learn_tool(self, tool: Any) -> bool:
        """Take note of a tool's annotations; tell whether it may stay."""
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str):
            return True
        try:
            headers = find_param_headers(tool.get("inputSchema"))
        except InvalidMessage as error:
            self._forget_tool(name)
            self._on_dropped(name, str(error))
            return False
        if headers and self._known.get(name) == headers:
            return True  # another thread may be calling it
        self._forget_tool(name)
        if headers:
            self._known[name] = headers
            self._count += len(headers)
            self._make_room()
        return True

    def _forget_tool(self, name: str) -> None:
        known = self._known.pop(name, ())
        self._count -= len(known)

    def _make_room(self) -> None:
        """Forget the tools that were learnt first, where there are too many."""
        while self._count > _HEADERS_MAX:
            self._count -= len(self._known.pop(next(iter(self._known))))


def _name_in(method: str, params: Mapping[str, Any] | None) -> str | None:
    """Return what a request is about, for the methods that mirror it."""
    member = _MEMBERS.get(method)
    name = params.get(member) if member is not None and params else None
    return name if isinstance(name, str) else None
