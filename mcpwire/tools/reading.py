"""What can be read of a set of tools, and the source that it has its tools from."""

from __future__ import annotations

import difflib
import itertools
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from mcpwire.errors import NotAllowed, UnknownTool
from mcpwire.tools.fingerprints import fingerprint
from mcpwire.tools.options import Options
from mcpwire.tools.view import build, key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Unpack

    from mcpwire.errors import NameCollision
    from mcpwire.exporters import Export, ExportForm
    from mcpwire.tools.catalog import CatalogEntry, Costs
    from mcpwire.tools.names import Collision
    from mcpwire.tools.options import ToolOptions
    from mcpwire.tools.rules import ServerRules
    from mcpwire.tools.view import Listed, ToolView
    from mcpwire.types import CallToolResult, Tool

__all__ = [
    "OnChange",
    "Reading",
    "ToolSource",
]

OnChange: TypeAlias = "Callable[[str | None], None]"
"""Called with a server after its tools may have changed: its list did, or it came back,
joined or left. ``None``: there will be no more of anything. It returns at once."""


class ToolSource(Protocol):
    """A source of tools."""

    def servers(self) -> Iterable[str]:
        """Return the servers that there are, in an order that stays.

        Those with a lost connection that is to come back are among them.
        """
        ...

    def has(self, server: str) -> bool:
        """Tell whether that is one of them, however many there are."""
        ...

    def rules(self, server: str) -> ServerRules | None:
        """Return what holds for a server's tools alone."""
        ...

    def client(self, server: str) -> Any:
        """Return a server's client.

        Raises:
            UnknownServer: There is no such server.
        """
        ...

    def on_change(self, callback: OnChange) -> Callable[[], None]:
        """Have the callback called with each change; return what ends that."""
        ...

    async def list(self, server: str) -> list[Tool]:
        """Return all tools of a server, none where it is not one that has tools.

        Raises what `Client.list_tools` does.
        """
        ...

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any] | None,
        **options: Any,
    ) -> CallToolResult:
        """Call a tool by the name that its server gave it; options as a request's.

        Raises what `Client.call_tool` does.
        """
        ...

    async def request(
        self, server: str, verb: str, *arguments: Any, **options: Any
    ) -> Any:
        """Call another method of a server's client, such as ``"read_resource"``."""
        ...


COMPARED: Final = 2_000
"""How many names an unknown one is compared with."""

NAME_LENGTH: Final = 200
"""How much of an unknown name is compared."""


class Reading:
    """The tools of all servers of a source, to be looked at."""

    def __init__(self, source: ToolSource, **options: Unpack[ToolOptions]) -> None:
        self._source = source
        self._options = Options(**options)
        self._listed: dict[str, Listed] = {}
        self._problems: dict[str, Exception] = {}
        self._collided: NameCollision | None = None
        self._built = build(self._options, {})
        self._generation = 0

    # Reading...

    def __len__(self) -> int:
        return len(self._built.views)

    def __iter__(self) -> Iterator[ToolView]:
        return iter(tuple(self._built.views.values()))

    def __contains__(self, name: object) -> bool:
        return name in self._built.views

    def __getitem__(self, name: str) -> ToolView:
        """Return a tool by its name here.

        Raises:
            UnknownTool: There is none; names those that look like it.
            NotAllowed: A rule hides it; names the rule.
        """
        view = self._built.views.get(name)
        if view is not None:
            return view
        rule = self._built.hidden.get(name)
        if rule is not None:
            raise NotAllowed(name, rule=rule)
        # A name of whatever length, which a model may have made up, costs little.
        known = itertools.islice(self._built.views, COMPARED)
        text = str(name)
        close = difflib.get_close_matches(text[:NAME_LENGTH], known)
        raise UnknownTool(text, close=close)

    def find(self, server: str, tool: str) -> ToolView | None:
        """Return a server's tool by what the server calls it; ``None``: there is none.

        What a rule hides is not there.
        """
        name = self._built.table.name_of(server, tool)
        return None if name is None else self._built.views.get(name)

    def of_server(self, server: str) -> list[ToolView]:
        """Return the tools of one server."""
        return [view for view in self if view.server == server]

    def search(self, text: str) -> list[ToolView]:
        """Return the tools with all these words in name, title or description."""
        words = text.casefold().split()
        return [
            view
            for view in self
            if all(
                word in f"{view.name}\n{view.title}\n{view.description}".casefold()
                for word in words
            )
        ]

    def needs_confirmation(self, name: str) -> bool:
        """Tell whether somebody has to confirm a tool's calls; not where unknown."""
        view = self._built.views.get(name)
        return view is not None and view.needs_confirmation

    @property
    def names(self) -> tuple[str, ...]:
        """What the tools are called."""
        return tuple(self._built.views)

    @property
    def collisions(self) -> tuple[Collision, ...]:
        """Which tools would have had the same name, and what was done."""
        return self._built.table.collisions

    @property
    def hidden(self) -> dict[str, str]:
        """The names that cannot be called, and the rule that hides each."""
        return dict(self._built.hidden)

    @property
    def problems(self) -> dict[str, Exception]:
        """Why tools could not be listed, by server; what was known of them stays."""
        found = dict(self._problems)
        if self._collided is not None:
            for server, _ in self._collided.owners:
                found.setdefault(server, self._collided)
        return found

    @property
    def generation(self) -> int:
        """How often the tools have changed; the same number is the same tools."""
        return self._generation

    @property
    def costs(self) -> Costs:
        """What the calls of this set took."""
        return self._options.costs

    def __repr__(self) -> str:
        """Return one readable line."""
        problems = f", {len(self._problems)} problems" if self._problems else ""
        return (
            f"<{type(self).__name__} of {len(self)} tools of "
            f"{len(self._listed)} servers{problems}>"
        )

    # For models and people...

    def export(self, form: ExportForm = "neutral", **options: Any) -> Export:
        """Return the tools as an API of models wants them; see `export_tools`."""
        from mcpwire.exporters import export_tools

        return export_tools(self, form, **options)

    def to_anthropic(self, **options: Any) -> Export:
        """Return the tools for Anthropic's messages."""
        return self.export("anthropic", **options)

    def to_openai(self, **options: Any) -> Export:
        """Return the tools for OpenAI's chat completions."""
        return self.export("openai", **options)

    def to_openai_responses(self, **options: Any) -> Export:
        """Return the tools for OpenAI's responses."""
        return self.export("openai-responses", **options)

    def to_gemini(self, **options: Any) -> Export:
        """Return the tools as Gemini's function declarations."""
        return self.export("gemini", **options)

    def catalog(self, **options: Any) -> list[CatalogEntry]:
        """Return what a planner wants to know of each tool; see `tools.catalog`."""
        from mcpwire.tools.catalog import catalog

        return catalog(self, self.costs, **options)

    def fingerprints(self) -> dict[str, str]:
        """Return what stands for each tool as it is now, by ``server/tool``.

        Those that a rule hides are among them.
        """
        return {
            key_of((server, tool.name)): fingerprint(tool)
            for server, listed in self._listed.items()
            for tool in listed.tools
        }
