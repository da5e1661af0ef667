"""What lists of tools have told, until the server says that they changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.protocol.output_validation import OutputValidator
    from mcpwire.types import CallToolResult, Tool

__all__ = ["KnownTools"]

CHANGED = "notifications/tools/list_changed"


class KnownTools:
    """The tools of one server, by name, as last listed."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}
        self._validators: dict[str, OutputValidator] = {}

    def learn(self, tools: Iterable[Tool]) -> None:
        """Take in what a list, or a page of one, told."""
        for tool in tools:
            self._tools[tool.name] = tool
            self._validators.pop(tool.name, None)

    def hear(self, method: str, _: dict[str, Any] | None) -> None:
        """Forget everything when the server says that its tools changed."""
        if method == CHANGED:
            self.forget()

    def forget(self) -> None:
        """Forget everything."""
        self._tools.clear()
        self._validators.clear()

    def get(self, name: str) -> Tool | None:
        """Return a tool, or ``None`` where no list has told of it."""
        return self._tools.get(name)

    def problem(self, name: str, result: CallToolResult) -> str | None:
        """Say how a result breaks what its tool promised; ``None``: not at all.

        2025-06-18 and later server/tools, "Output Schema": clients SHOULD validate
        structured results. A result that reports failure is not bound by the schema.

        Raises:
            RemoteProtocolError: The schema cannot be used, and says why.
            LocalProtocolError: jsonschema-rs is not installed.
        """
        tool = self._tools.get(name)
        if tool is None or tool.output_schema is None or result.is_error:
            return None
        from mcpwire.types import UNSET

        if result.structured_content is UNSET:
            return "it has no structured content, which its output schema demands"
        validator = self._validators.get(name)
        if validator is None:
            from mcpwire.protocol.output_validation import OutputValidator

            validator = self._validators[name] = OutputValidator(tool.output_schema)
        return validator.check(result.structured_content)
