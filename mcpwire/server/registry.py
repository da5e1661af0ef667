"""What one server offers: its components, and the handlers and capabilities of them.

`Server` is what authors see of it. What is registered may change while it serves; a
kind of component that comes for the first time is declared from then on.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mcpwire.protocol.methods import METHODS, find, methods_of
from mcpwire.server.calling import Calling
from mcpwire.server.completions import Completions
from mcpwire.server.components import Table, check_page_size
from mcpwire.server.context import Context
from mcpwire.server.dispatcher import Middleware
from mcpwire.server.input_rounds import begin
from mcpwire.server.notifications import (
    PROMPTS,
    RESOURCES,
    TOOLS,
    UPDATED,
    Hub,
    Listens,
    Subscriptions,
)
from mcpwire.server.prompts import Prompts, make_prompt
from mcpwire.server.resources import Resources, make_resource
from mcpwire.server.tools import Tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mcpwire.server.components import Visible
    from mcpwire.server.context import Services
    from mcpwire.server.dispatcher import Handler
    from mcpwire.server.extensions import Extension
    from mcpwire.server.request import RequestContext
    from mcpwire.server.tools import Tool
    from mcpwire.versions import Revision


__all__ = [
    "FeatureRegistry",
]

_KINDS: Final = {TOOLS: "tools", PROMPTS: "prompts", RESOURCES: "resources"}
"""What changed -> the capability that it belongs to."""

_DECLARED: Final[Mapping[str, Mapping[str, Any]]] = {
    "completions": {},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "tools": {"listChanged": True},
}

_LISTENED: Final = frozenset(_KINDS.values())
"""What a subscription can be about."""

_MAY_ASK: Final = frozenset(spec.name for spec in METHODS if spec.may_need_input)


class FeatureRegistry:
    """Everything that one server answers for."""

    def __init__(
        self,
        services: Services,
        redeclare: Callable[[], object],
        *,
        visible: Visible | None,
        on_duplicate: str,
        page_size: int | None,
        thread_limit: int,
        listens: int,
        make_tool: Callable[..., Tool],
    ) -> None:
        self._services = services
        self._redeclare = redeclare
        self._kinds: set[str] = set()
        self._mounted_in: list[FeatureRegistry] = []
        self._extensions: list[Extension] = []
        self.hub = Hub()
        self.middleware = Middleware()
        self.methods: dict[str, Handler] = {}
        self.calling = Calling(
            partial(Context, services=services), thread_limit=thread_limit
        )
        size = check_page_size(page_size)
        self.make_tool = make_tool

        def table(noun: str, method: str, make: Callable[..., Any]) -> Table[Any]:
            return Table(
                noun,
                on_duplicate=on_duplicate,
                visible=visible,
                calling=self.calling,
                on_changed=partial(self.changed, method),
                make=make,
            )

        self.tools = Tools(
            table("tool", TOOLS, lambda _, *given: make_tool(*given)), page_size=size
        )
        self.resources = Resources(
            table("resource", RESOURCES, make_resource),
            table("resource template", RESOURCES, make_resource),
            page_size=size,
        )
        self.prompts = Prompts(
            table("prompt", PROMPTS, lambda _, *given: make_prompt(*given)),
            page_size=size,
        )
        self.completions = Completions(self.prompts, self.resources)
        self.subscriptions = Subscriptions(
            self.hub,
            listens=Listens(listens),
            capabilities=self.capabilities,
            watchable=self._watchable,
        )
        services.read_resource = self._read_resource
        services.call_tool = self.tools.call_inside

    def _watchable(self, uris: Sequence[str], request: RequestContext) -> list[str]:
        # Only the author's own handler knows which there are.
        if "resources/read" in self.methods:
            return list(uris)
        return self.resources.watchable(uris, request)

    async def _read_resource(self, uri: str, request: RequestContext) -> dict[str, Any]:
        return await self.resources.read({"uri": uri}, request)

    # What comes and goes...

    def mount(self, other: FeatureRegistry, prefix: str) -> None:
        """Show what another one has; names begin with the prefix, URIs stay."""
        self.tools.table.mount(other.tools.table, prefix)
        self.prompts.table.mount(other.prompts.table, prefix)
        self.resources.table.mount(other.resources.table, "")
        self.resources.templates.mount(other.resources.templates, "")
        other._mounted_in.append(self)
        for kind in other._kinds:
            self.declare_kind(kind)

    def extend(self, extension: Extension, server: Any) -> None:
        """Add an extension."""
        if any(one.id == extension.id for one in self._extensions):
            raise ValueError(f"the extension {extension.id!r} is there already")
        self._extensions.append(extension)
        extension.attach(server)
        self._redeclare()

    def changed(self, method: str) -> None:
        """Tell clients that a list changed; from any thread."""
        self.declare_kind(_KINDS[method])
        self.check_completions()
        self.hub.tell(method)

    def updated(self, uri: str) -> None:
        """Tell clients that a resource's content changed; from any thread."""
        self.hub.tell(UPDATED, uri)
        for other in self._mounted_in:
            other.updated(uri)

    def check_completions(self) -> None:
        """Declare completion as soon as anything completes."""
        if "completions" not in self._kinds and self.completions.is_needed():
            self.declare_kind("completions")

    def declare_kind(self, kind: str) -> None:
        """Declare a capability from now on."""
        if kind not in self._kinds:
            self._kinds.add(kind)
            self._redeclare()
            for other in self._mounted_in:
                other.declare_kind(kind)

    # What is answered...

    def capabilities(self) -> dict[str, Any]:
        """Return what is declared, by the names of the newest revision."""
        capabilities: dict[str, Any] = {"logging": {}}
        for kind, settings in _DECLARED.items():
            if kind in self._kinds:
                capabilities[kind] = dict(settings)
        for name in self.methods:
            spec = find(name)
            if spec is not None and spec.capability and spec.extension is None:
                capabilities.setdefault(spec.capability.partition(".")[0], {})
        if self._extensions:
            capabilities["extensions"] = {e.id: e.settings for e in self._extensions}
            for extension in self._extensions:
                capabilities |= getattr(extension, "legacy_capabilities", {})
        return capabilities

    def handlers(self, revisions: Iterable[Revision]) -> dict[str, Handler]:
        """Return what answers, by method; an author's own handlers go first."""
        methods: dict[str, Handler] = {}
        for kind, feature in (
            ("tools", self.tools),
            ("resources", self.resources),
            ("prompts", self.prompts),
            ("completions", self.completions),
        ):
            if kind in self._kinds:
                methods |= feature.methods()
        if not self._kinds.isdisjoint(_LISTENED):
            methods |= self.subscriptions.methods()
        for extension in self._extensions:
            methods |= extension.methods()
        extensions = {extension.id for extension in self._extensions}
        spoken = {
            spec.name
            for revision in revisions
            for spec in methods_of(revision, "client", extensions)
        }
        methods = {
            name: handler
            for name, handler in methods.items()
            if name in spoken or find(name) is None
        }
        methods |= self.methods
        for method in _MAY_ASK & methods.keys():
            methods[method] = self._in_rounds(methods[method])
        return self.middleware.wrap(methods)

    def _in_rounds(self, handler: Handler) -> Handler:
        """Let what the client answered before be there when the handler asks."""
        sealer = self._services.sealer

        def handle(params: dict[str, Any], request: RequestContext) -> Any:
            if "requestState" in params or "inputResponses" in params:
                begin(request, sealer)
            return handler(params, request)

        return handle
