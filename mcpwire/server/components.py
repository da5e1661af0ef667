"""Tools, resources and prompts as values, and the tables that hold them.

What a list shows can be used, and nothing else can: both ask `Table`. A definition is
written once, as the newest revision has it; the wire types know the members that an
older revision lacks. Lists are cut into pages by cursors that survive changes.
"""

from __future__ import annotations

import logging
from base64 import b64decode, urlsafe_b64encode
from functools import partial
from operator import attrgetter
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    TypedDict,
    TypeVar,
)

import attrs

from mcpwire.errors import InvalidParams
from mcpwire.limits import check_choice, check_count
from mcpwire.server.auth.resource_server import check_scopes
from mcpwire.types import encode
from mcpwire.types._base import WireType
from mcpwire.versions import LATEST_SESSION
from mcpwire.wire.json import encode as encode_json
from mcpwire.wire.json import loads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Self

    from mcpwire.server.authoring.signature import Signature
    from mcpwire.server.calling import Calling
    from mcpwire.server.context import Context
    from mcpwire.server.request import RequestContext
    from mcpwire.types import Annotations, Icon, PromptArgument
    from mcpwire.types.tools import ToolAnnotations
    from mcpwire.versions import Revision

    Visible = Callable[[Context, "Component"], bool]

    """Whether a component is there for a request; for its list and its use."""


__all__ = [
    "ON_DUPLICATE",
    "Component",
    "ComponentKeywords",
    "DirectoryKeywords",
    "FileKeywords",
    "Handle",
    "PromptKeywords",
    "ResourceKeywords",
    "Table",
    "ToolKeywords",
    "check_options",
    "check_page_size",
    "compose",
    "name_of",
    "object_of",
    "page_of",
    "trim",
]

_TYPES: Final = {
    "prompt": "Prompt",
    "resource": "Resource",
    "template": "ResourceTemplate",
    "tool": "Tool",
}

T = TypeVar("T")


def trim(
    kind: str, definition: Mapping[str, Any], revision: Revision
) -> dict[str, Any]:
    """Return a definition of that kind without what a revision does not know."""
    from mcpwire import types

    cls = getattr(types, _TYPES[kind])
    shown: dict[str, Any] = encode(types.decode(cls, dict(definition)), revision)
    # 2025-11-25 schema, Tool: the root of an output schema is an object there.
    output = shown.get("outputSchema")
    if output and revision <= LATEST_SESSION and output.get("type") != "object":
        del shown["outputSchema"]
    return shown


def compose(
    required: Mapping[str, Any], given: Mapping[str, Any], **optional: Any
) -> dict[str, Any]:
    """Return a definition: required members, the common options, and optional ones."""
    shown = {**optional, "title": given.get("title")}
    if given.get("description") is not None:
        shown["description"] = given["description"]
    definition = {**required, **{k: v for k, v in shown.items() if v is not None}}
    icons = [
        {"src": icon} if isinstance(icon, str) else object_of(icon)
        for icon in given.get("icons") or ()
    ]
    if icons:
        definition["icons"] = icons
    if given.get("annotations") is not None:
        definition["annotations"] = object_of(given["annotations"])
    if given.get("meta"):
        definition["_meta"] = dict(given["meta"])
    return definition


def object_of(value: Any) -> dict[str, Any]:
    """Return the JSON object of a wire type, or of a mapping."""
    if isinstance(value, WireType):
        return encode(value)
    return dict(value)


def name_of(function: Callable[..., Any]) -> str:
    """Return what a function is called."""
    inner = getattr(function, "func", function)  # of a partial
    name = getattr(inner, "__name__", None)
    if not callable(function):
        raise TypeError(f"{function!r} cannot be called")
    if name is None or name == "<lambda>":
        raise ValueError(f"give {function!r} a name by name=")
    return str(name)


class ComponentKeywords(TypedDict, total=False):
    """What every kind of component takes."""

    name: str | None
    """Its name; that of the function where it is left out."""

    title: str | None
    """Its name for people."""

    description: str | None
    """What it is for; the function's docstring where it is left out."""

    icons: Iterable[Icon | str] | None
    meta: Mapping[str, Any] | None
    """Its `_meta`."""

    scopes: Iterable[str]
    """What a principal must have been granted to use it over HTTP."""

    tags: Iterable[str]
    """Labels for a `visible` predicate; clients do not see them."""

    visible: Visible | None
    """Takes a `Context` and the component; whether it is there for that request."""


class ToolKeywords(ComponentKeywords, total=False):
    """What a tool takes beside that."""

    input_schema: Mapping[str, Any] | None
    """The JSON Schema of the arguments; the function then takes them as one dict."""

    output_schema: Mapping[str, Any] | None
    """The JSON Schema of the structured result."""

    structured: bool | None
    """Whether there is a structured result; ``None``: where the return hint has one."""

    annotations: ToolAnnotations | Mapping[str, Any] | None
    """Hints for clients: whether it reads only, destroys, may be repeated."""

    timeout: float | None
    """How long a call may take, in seconds."""

    concurrency: int | None
    """How many calls run at once; others wait."""

    task: Literal["forbidden", "optional", "required"]
    """Whether calls may or must be tasks."""

    thread: bool | None
    """Whether a plain function runs in a worker thread; ``None``: it does."""

    coerce: bool | None
    """Whether arguments of a wrong type are converted where that is plain."""


class ResourceKeywords(ComponentKeywords, total=False):
    """What a resource takes, or a template."""

    mime_type: str | None
    size: int | None
    """How many bytes it has, where that is known; templates have none."""

    annotations: Annotations | Mapping[str, Any] | None
    """Its audience, and how important it is."""

    ttl_ms: int | None
    """How long what was read may be kept, in milliseconds (2026-07-28)."""

    cache_scope: Literal["public", "private"] | None
    """Whether what was read may be given to others (2026-07-28)."""

    unchecked: Iterable[str]
    """Variables of a template that may be ``..`` or absolute paths."""

    thread: bool | None
    """Whether a plain function runs in a worker thread; ``None``: it does."""


class FileKeywords(ResourceKeywords, total=False):
    """What a file takes beside that."""

    max_bytes: int
    """How large a file may be that is read."""


class DirectoryKeywords(FileKeywords, total=False):
    """What a folder takes beside that."""

    listed: bool
    """Whether its files are in the list of resources."""

    hidden: bool
    """Whether what begins with a dot is there."""


class PromptKeywords(ComponentKeywords, total=False):
    """What a prompt takes."""

    arguments: Iterable[PromptArgument | Mapping[str, Any]] | None
    """Its arguments, where the function's parameters do not say them."""

    thread: bool | None
    """Whether a plain function runs in a worker thread; ``None``: it does."""


_KNOWN: Final = {
    "tool": ToolKeywords.__optional_keys__,
    # The last two are for what makes its own resources: folders, extensions.
    "resource": ResourceKeywords.__optional_keys__ | {"is_raw", "suggestions"},
    "prompt": PromptKeywords.__optional_keys__,
}

_TEXTS: Final = frozenset({"name", "title", "description", "mime_type"})

_SEVERAL: Final = frozenset({"scopes", "tags", "icons", "unchecked", "arguments"})
"""What takes a list, of which a text would be one of letters."""


def check_options(
    kind: Literal["tool", "resource", "prompt"], given: Mapping[str, Any]
) -> None:
    """Refuse options that there are not, and values that cannot be meant."""
    for name, value in given.items():
        if name not in _KNOWN[kind]:
            from difflib import get_close_matches

            close = get_close_matches(name, _KNOWN[kind], n=1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"a {kind} has no option {name!r}{meant}")
        if value is None:
            continue
        if name in _TEXTS and not isinstance(value, str):
            raise TypeError(f"{name} must be a text, got {value!r}")
        if name in _SEVERAL and isinstance(value, str):
            raise TypeError(f"{name} takes a list, got {value!r}")
        if name == "visible" and not callable(value):
            raise TypeError(f"visible must be a function, got {value!r}")


@attrs.define(eq=False, kw_only=True)
class Component:
    """Something that a list shows and a request names."""

    kind: ClassVar[str]
    """Which definition it has."""

    key: str
    """Its name, URI or URI template, which no other of its kind has."""

    definition: dict[str, Any]
    """What the list shows of it, as the newest revision has it."""

    options: dict[str, Any]
    """What it was registered with, for `replace`."""

    function: Any = None

    signature: Any = attrs.field(default=None, repr=False)
    """The function's `Signature`, read once."""

    runs_in_thread: bool = False

    scopes: frozenset[str] = frozenset()
    """What a principal must have been granted to use it."""

    tags: frozenset[str] = frozenset()
    """Labels for a `visible` predicate; clients do not see them."""

    visible: Visible | None = None
    """Whether it is there for a request; ``None``: always."""

    is_enabled: bool = True
    """Whether it is there at all."""

    calling: Any = attrs.field(default=None, repr=False)
    """The `Calling` of the server that it was registered with."""

    completers: dict[str, Signature] = attrs.field(factory=dict, repr=False)
    """The functions that complete its arguments; see `completions`."""

    suggestions: Mapping[str, Callable[[str], Sequence[str]]] = attrs.field(
        factory=dict, repr=False
    )
    """For arguments that it completes itself: take what was typed, in a thread."""

    _shown: dict[str, dict[str, Any]] = attrs.field(factory=dict, init=False)
    _renamed: dict[str, Any] = attrs.field(factory=dict, init=False, repr=False)

    @classmethod
    def of(
        cls,
        key: str,
        definition: dict[str, Any],
        given: Mapping[str, Any],
        function: Any = None,
        signature: Signature | None = None,
        **more: Any,
    ) -> Self:
        """Return one with the options that every kind has."""
        thread, is_async = given.get("thread"), signature and signature.is_async
        if thread and is_async:
            raise ValueError(
                "thread=True is for plain functions, and this one is async"
            )
        return cls(
            key=key,
            definition=definition,
            options={**given, "name": definition["name"]},
            function=function,
            signature=signature,
            runs_in_thread=thread if thread is not None else is_async is False,
            scopes=frozenset(given.get("scopes", ())),
            tags=frozenset(given.get("tags", ())),
            visible=given.get("visible"),
            **more,
        )

    async def call(self, arguments: dict[str, Any], request: RequestContext) -> Any:
        """Call the function; one that was not read gets its arguments in a thread."""
        if self.signature is None:
            call = partial(self.function, **arguments)
            return await self.calling.in_thread(call, request.info.owner)
        return await self.calling.invoke(
            self.signature,
            arguments,
            request,
            runs_in_thread=self.runs_in_thread,
        )

    def at(self, revision: Revision) -> dict[str, Any]:
        """Return what the list shows at a revision."""
        shown = self._shown.get(revision.name)
        if shown is None:
            shown = self._shown[revision.name] = trim(
                self.kind, self.definition, revision
            )
        return shown

    def renamed(self, prefix: str) -> Self:
        """Return one like it with that prefix to its name."""
        key = prefix + self.key
        if prefix and key not in self._renamed:
            shown = {**self.definition, "name": key}
            self._renamed[key] = attrs.evolve(self, key=key, definition=shown)
        return self._renamed[key] if prefix else self

    def check_scopes(self, request: RequestContext) -> None:
        """Raise `ScopeRequired` where the principal of a request lacks a scope."""
        if self.scopes and request.info.transport == "http":
            check_scopes(request.info.principal, self.scopes)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key!r}>"


logger = logging.getLogger("mcpwire")

ON_DUPLICATE: Final = ("error", "replace", "ignore")

C = TypeVar("C", bound=Component)


class Handle(Generic[C]):
    """One component of a running server, to change it; clients are told.

    Attributes:
        component: What is registered now.
    """

    def __init__(self, table: Table[C], component: C) -> None:
        self._table = table
        self.component = component

    def __repr__(self) -> str:
        return f"<Handle of {self.component!r}>"

    def remove(self) -> None:
        """Take it away; a call that runs goes on.

        Raises:
            KeyError: It is not there any more.
        """
        self._table.remove(self.component.key)

    def replace(self, function: Callable[..., Any], **changes: Any) -> None:
        """Put another function in its place, read anew; options stay but for these.

        Raises:
            KeyError: It is not there any more.
            TypeError: The function cannot be used; nothing has changed then.
        """
        self.component = self._table.replace(self.component, function, changes)

    def enable(self) -> None:
        """Let it be there again."""
        self._switch(is_enabled=True)

    def disable(self) -> None:
        """Hide it: no list shows it, and nobody can use it."""
        self._switch(is_enabled=False)

    def _switch(self, *, is_enabled: bool) -> None:
        if self.component.is_enabled is not is_enabled:
            self.component.is_enabled = is_enabled
            self._table.changed()


class Table(Generic[C]):
    """The components of one kind, in the order in which they came.

    Attributes:
        public: Those of its own that are there for everybody, by key.
        completers: The functions that complete arguments, by key and argument. They
            may come before their component.
    """

    def __init__(
        self,
        noun: str,
        *,
        listed: str,
        page_size: int | None,
        on_duplicate: str,
        visible: Visible | None,
        calling: Calling,
        on_changed: Callable[[], object],
        make: Callable[[str, Any, dict[str, Any]], C],
    ) -> None:
        self._noun = noun
        self._listed = listed  # the member of a list's result
        self._page_size = page_size
        self._on_duplicate = check_choice(on_duplicate, "on_duplicate", ON_DUPLICATE)
        self._visible = visible
        self._calling = calling
        self._on_changed = on_changed
        self._make = make
        self._components: dict[str, C] = {}
        self._mounts: list[tuple[Table[C], str]] = []  # with a prefix
        self._mounted_in: list[Table[C]] = []
        self.public: dict[str, C] = {}
        self.completers: dict[str, dict[str, Signature]] = {}

    # Registration...

    def __len__(self) -> int:
        return len(self._components)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._components))

    def __contains__(self, key: object) -> bool:
        return key in self._components

    def __getitem__(self, key: str) -> Handle[C]:
        """Return the handle of one.

        Raises:
            KeyError: There is none.
        """
        component = self._components.get(key)
        if component is None:
            raise KeyError(f"there is no {self._noun} {key!r}")
        return Handle(self, component)

    def __repr__(self) -> str:
        return f"<{len(self)} {self._noun}s: {', '.join(self)}>"

    def add(self, component: C) -> Handle[C]:
        """Add one at the end, or do with it as `on_duplicate` says."""
        key = component.key
        found = self._components.get(key)
        if found is not None:
            if self._on_duplicate == "error":
                raise ValueError(f"there is a {self._noun} {key!r} already")
            logger.warning("there is a %s %r already", self._noun, key)
            if self._on_duplicate == "ignore":
                return Handle(self, found)
        component.calling = self._calling
        component.completers = self.completers.setdefault(key, {})
        self._components[key] = component
        self.changed()
        return Handle(self, component)

    def remove(self, key: str) -> None:
        """Take one away.

        Raises:
            KeyError: There is none.
        """
        if self._components.pop(key, None) is None:
            raise KeyError(f"there is no {self._noun} {key!r}")
        self.changed()

    def replace(self, old: C, function: Any, changes: dict[str, Any]) -> C:
        """Put one with another function in its place in the order; return it."""
        key = old.key
        new = self._make(key, function, {**old.options, **changes})
        if key not in self._components:
            raise KeyError(f"there is no {self._noun} {key!r}")
        if new.key != key and new.key in self._components:
            raise ValueError(f"there is a {self._noun} {new.key!r} already")
        new.calling = self._calling
        new.completers = old.completers
        self._components = {
            (new.key if k == key else k): (new if k == key else c)
            for k, c in self._components.items()
        }
        self.changed()
        return new

    def changed(self) -> None:
        """Say that the list is not what it was."""
        self.public = {
            key: component
            for key, component in self._components.items()
            if component.is_enabled
            and self._visible is None
            and component.visible is None
        }
        self._on_changed()
        for table in self._mounted_in:
            table.changed()

    def mount(self, other: Table[C], prefix: str) -> None:
        """Show what another table has, now and later, behind what is here."""
        if other is self or other.shows(self):
            raise ValueError("a server cannot be mounted on itself")
        self._mounts.append((other, prefix))
        other._mounted_in.append(self)
        self.changed()

    def shows(self, other: Table[C]) -> bool:
        """Tell whether another table is mounted here, or somewhere below."""
        return any(each is other or each.shows(other) for each, _ in self._mounts)

    # Requests...

    def get(self, key: object, request: RequestContext) -> C | None:
        """Return the component with that key if the request may see it."""
        if type(key) is not str:
            return None
        component = self._components.get(key)
        if component is not None:
            return component if self._is_there(component, request) else None
        for table, prefix in self._mounts:
            if key.startswith(prefix):
                inner = table.get(key[len(prefix) :], request)
                if inner is not None:
                    found = inner.renamed(prefix)
                    return found if self._sees(found, request) else None
        return None

    def all(self, request: RequestContext) -> list[C]:
        """Return the components that the request may see, in order."""
        there = [c for c in self._components.values() if self._is_there(c, request)]
        if not self._mounts:
            return there
        known = set(self._components)
        for table, prefix in self._mounts:
            for inner in table.all(request):
                component = inner.renamed(prefix)
                if component.key not in known and self._sees(component, request):
                    known.add(component.key)
                    there.append(component)
        return there

    def page(self, params: dict[str, Any], request: RequestContext) -> dict[str, Any]:
        """Answer the list method with one page of what the request may see."""
        page, following = page_of(
            self.all(request),
            params.get("cursor"),
            size=self._page_size,
            name=self._listed,
        )
        revision = request.revision
        result: dict[str, Any] = {self._listed: [item.at(revision) for item in page]}
        if following is not None:
            result["nextCursor"] = following
        # 2026-07-28 server/utilities/caching: the same on all pages, and never more
        # than is so: what a principal sees may be nobody else's.
        if request.info.principal is None and not self.depends_on_client():
            result["cacheScope"] = "public"
        return result

    def depends_on_client(self) -> bool:
        """Tell whether not everybody sees the same."""
        return (
            self._visible is not None
            or any(c.visible is not None for c in self._components.values())
            or any(table.depends_on_client() for table, _ in self._mounts)
        )

    def _sees(self, component: C, request: RequestContext) -> bool:
        """Ask this table's own predicate of what another one has shown."""
        sees = self._visible
        return sees is None or sees(self._calling.context_of(request), component)

    def _is_there(self, component: C, request: RequestContext) -> bool:
        if not component.is_enabled:
            return False
        if self._visible is None and component.visible is None:
            return True
        context = self._calling.context_of(request)
        return all(
            sees is None or sees(context, component)
            for sees in (self._visible, component.visible)
        )


_MAX_CURSOR: Final = 256 * 1024
"""Characters of a cursor; two keys and what encodes them are shorter."""


def check_page_size(size: int | None) -> int | None:
    """Return a page size; ``None``: everything is one page."""
    return None if size is None else check_count(size, "page_size")


def page_of(
    items: Sequence[T],
    cursor: object,
    *,
    size: int | None,
    name: str,
    key: Callable[[T], str] = attrgetter("key"),
) -> tuple[list[T], str | None]:
    """Return a page of the list of that name, and the cursor of the next, if any."""
    start = 0 if cursor is None else _start([key(item) for item in items], cursor, name)
    end = len(items) if size is None else start + size
    if end >= len(items):
        return list(items[start:]), None
    place = [name, key(items[end - 1]), key(items[end])]
    return list(items[start:end]), urlsafe_b64encode(encode_json(place)).decode()


def _start(keys: list[str], cursor: object, name: str) -> int:
    # 2026-07-28 server/utilities/pagination: an empty string is a cursor like others;
    # here it is one that was not given out.
    try:
        if type(cursor) is str and len(cursor) <= _MAX_CURSOR:
            match loads(b64decode(cursor, b"-_", validate=True)):
                case [kind, str(last), str(following)] if kind == name:
                    if last in keys:
                        return keys.index(last) + 1
                    return keys.index(following)
    except ValueError:  # no Base64, no JSON, no UTF-8, or both are gone
        pass
    raise InvalidParams(
        "unknown params.cursor: it was not issued for this list, begin without one"
    )
