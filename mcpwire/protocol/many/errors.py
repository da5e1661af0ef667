"""What goes wrong where many servers are one: names, permissions, configuration.

::

    GroupError
    ├── UnknownServer                 no server of that name
    ├── UnknownTool                   no tool of that name
    ├── NotAllowed                    a rule or a person refused the call
    ├── NeedsConfirmation             somebody has to confirm the call first
    ├── NameCollision                 two tools would have one name
    └── ConfigError                   a configuration breaks a rule

Nothing was sent where one of these is raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import GroupError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "ConfigError",
    "NameCollision",
    "NeedsConfirmation",
    "NotAllowed",
    "UnknownServer",
    "UnknownTool",
]

EXCERPT: Final = 100
"""How much of a name that somebody else chose is repeated."""

NAMED: Final = 5
"""How many of the known names a message repeats."""


class UnknownServer(GroupError):
    """There is no server of that name.

    Attributes:
        server: The name that was asked for.
        known: The names that there are.
    """

    def __init__(self, server: str, *, known: Iterable[str] = ()) -> None:
        self.server = server
        self.known = tuple(known)
        super().__init__(
            f"no server named {_cut(server)}{_listed('known', self.known)}"
        )


class UnknownTool(GroupError):
    """There is no tool of that name.

    Attributes:
        tool: The name that was asked for.
        close: Names that look like it.
    """

    def __init__(self, tool: str, *, close: Iterable[str] = ()) -> None:
        self.tool = tool
        self.close = tuple(close)
        super().__init__(
            f"no tool named {_cut(tool)}{_listed('did you mean', self.close)}"
        )


class NotAllowed(GroupError):
    """A rule, or a person who was asked, refused the call.

    Attributes:
        tool: The tool's name.
        rule: What refused it, such as ``"deny: mcp__files__*"``.
    """

    def __init__(self, tool: str, *, rule: str) -> None:
        self.tool = tool
        self.rule = rule
        super().__init__(f"the tool {_cut(tool)} is not allowed ({rule})")


class NeedsConfirmation(GroupError):
    """Somebody has to confirm the call: make it again with ``confirmed=True`` then.

    Attributes:
        tool: The tool's name.
        arguments: What it would be called with, to be shown to whoever confirms.
    """

    def __init__(
        self, tool: str, *, arguments: Mapping[str, Any] | None = None
    ) -> None:
        self.tool = tool
        self.arguments = dict(arguments or {})
        super().__init__(f"the tool {_cut(tool)} needs confirmation")


class NameCollision(GroupError):
    """Two tools would have one name, and the policy is to raise.

    Attributes:
        name: That name.
        owners: Whose it would be: server and tool of each.
    """

    def __init__(self, name: str, *, owners: Iterable[tuple[str, str]]) -> None:
        self.name = name
        self.owners = tuple(owners)
        whose = ", ".join(f"{tool!r} of {server!r}" for server, tool in self.owners)
        super().__init__(f"the name {_cut(name)} would belong to {whose}")


class ConfigError(GroupError):
    """A configuration breaks a rule; says where, never what a secret is.

    Attributes:
        problem: What is wrong.
        file: The file, or ``None`` where it came from the program.
        entry: The server's name, or its place, such as ``"servers[2]"``.
        field: The field, such as ``"env.TOKEN"``.
    """

    def __init__(
        self,
        problem: str,
        *,
        file: str | None = None,
        entry: str | None = None,
        field: str | None = None,
    ) -> None:
        self.problem = problem
        self.file = file
        self.entry = entry
        self.field = field
        where = [each for each in (file, entry, field) if each is not None]
        super().__init__(": ".join((*where, problem)))


def _cut(name: str) -> str:
    return repr(name if len(name) <= EXCERPT else name[:EXCERPT] + "...")


def _listed(before: str, names: tuple[str, ...]) -> str:
    if not names:
        return ""
    more = ", ..." if len(names) > NAMED else ""
    return f" ({before}: {', '.join(map(_cut, names[:NAMED]))}{more})"
