"""Tools, resources and prompts as values, and the tables that hold them.

Lists and calls use the same `Table`, so that exactly the listed components can be used.
A definition has the form of the newest revision; the wire types remove the members that
an older revision lacks. The cursors of pages stay valid when lists change.
"""

from __future__ import annotations

import inspect
import logging
from base64 import b64decode, urlsafe_b64encode
from collections import ChainMap
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

from mcpwire.errors import InvalidParams, LocalProtocolError
from mcpwire.limits import check_choice, check_count
from mcpwire.protocol.json_schema import session_tool
from mcpwire.server.auth.resource_server import check_scopes
from mcpwire.server.request import EXCERPT
from mcpwire.types import encode
from mcpwire.types._base import WireType
from mcpwire.versions import LATEST_SESSION, Revision
from mcpwire.wire.json import encode as encode_json
from mcpwire.wire.json import loads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Self

    from mcpwire.server.authoring.signature import Signature
    from mcpwire.server.calling import FunctionCaller
    from mcpwire.server.context import Context
    from mcpwire.server.request import RequestContext
    from mcpwire.types import Annotations, Icon, PromptArgument
    from mcpwire.types.tools import ToolAnnotations

    Visible = Callable[[Context, "Component"], bool]

    """Whether a component exists for a request; applies to lists and to calls."""

T = TypeVar("T")


def compose(
    required: Mapping[str, Any], options: Mapping[str, Any], **optional: Any
) -> dict[str, Any]:
    """Return a definition: required members, the common options, and optional ones."""
    members = {**required, **optional, "title": options.get("title")}
    if options.get("description") is not None:
        members["description"] = options["description"]
    icons = [
        {"src": icon} if isinstance(icon, str) else object_of(icon)
        for icon in options.get("icons") or ()
    ]
    annotations, meta = options.get("annotations"), options.get("meta")
    members["icons"] = icons or None
    members["annotations"] = None if annotations is None else object_of(annotations)
    members["_meta"] = dict(meta) if meta else None
    return {name: value for name, value in members.items() if value is not None}


def object_of(value: Any) -> dict[str, Any]:
    """Return the JSON object of a wire type, or of a mapping."""
    return encode(value) if isinstance(value, WireType) else dict(value)


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function."""
    inner = getattr(function, "func", function)  # of a partial
    name = getattr(inner, "__name__", None)
    if not callable(function):
        raise TypeError(f"{function!r} cannot be called")
    if name is None or name == "<lambda>":
        raise ValueError(f"give {function!r} a name by name=")
    return str(name)


class ComponentKeywords(TypedDict, total=False):
    """The options of every kind of component."""

    name: str | None
    """Its name; by default the function's."""

    title: str | None
    """Its name for people."""

    description: str | None
    """Its purpose; by default the function's docstring."""

    icons: Iterable[Icon | str] | None
    meta: Mapping[str, Any] | None
    """Its `_meta`."""

    scopes: Iterable[str]
    """The scopes that a principal needs to use it over HTTP."""

    tags: Iterable[str]
    """Labels for a `visible` predicate; clients do not see them."""

    visible: Visible | None
    """Takes a `Context` and the component; returns whether the component exists."""

    thread: bool | None
    """Whether a plain function runs in a worker thread; ``None``: it does."""


class ToolKeywords(ComponentKeywords, total=False):
    """The options of a tool."""

    input_schema: Mapping[str, Any] | None
    """The JSON Schema of the arguments; the function then takes them as one dict."""

    output_schema: Mapping[str, Any] | None
    """The JSON Schema of the structured result."""

    structured: bool | None
    """Whether results are structured; ``None``: if the return hint describes data."""

    annotations: ToolAnnotations | Mapping[str, Any] | None
    """Hints for clients: whether it only reads, is destructive, is idempotent."""

    timeout: float | None
    """The timeout of the function in a call, in seconds."""

    concurrency: int | None
    """The maximum number of concurrent calls; others wait."""

    task: Literal["forbidden", "optional", "required"]
    """Whether calls may or must run as tasks."""

    coerce: bool | None
    """Whether arguments of a wrong type are converted where that is safe."""


class ResourceKeywords(ComponentKeywords, total=False):
    """The options of a resource or a template."""

    mime_type: str | None
    size: int | None
    """Its size in bytes, if known; not for templates."""

    annotations: Annotations | Mapping[str, Any] | None
    """Its audience and its importance."""

    ttl_ms: int | None
    """How long clients may cache the contents, in milliseconds (2026-07-28)."""

    cache_scope: Literal["public", "private"] | None
    """Whether shared caches may store the contents (2026-07-28)."""

    unchecked: Iterable[str]
    """Variables of a template that may be ``..`` or absolute paths."""


class FileKeywords(ResourceKeywords, total=False):
    """The options of a file."""

    max_bytes: int
    """The maximum size of a file, in bytes."""


class DirectoryKeywords(FileKeywords, total=False):
    """The options of a folder."""

    listed: bool
    """Whether its files are in the list of resources."""

    hidden: bool
    """Whether names that start with a dot are included."""


class PromptKeywords(ComponentKeywords, total=False):
    """The options of a prompt."""

    arguments: Iterable[PromptArgument | Mapping[str, Any]] | None
    """Its arguments, if the function's parameters do not define them."""


_OPTIONS: Final = {
    "tool": ToolKeywords.__optional_keys__,
    # The last two are internal, for folders and extensions.
    "resource": ResourceKeywords.__optional_keys__ | {"is_raw", "completers"},
    "prompt": PromptKeywords.__optional_keys__,
}

_TEXT_OPTIONS: Final = frozenset({"name", "title", "description", "mime_type"})

_LIST_OPTIONS: Final = frozenset({"scopes", "tags", "icons", "unchecked", "arguments"})
"""Options that take a list; a text would be split into its characters."""


def check_options(
    kind: Literal["tool", "resource", "prompt"], options: Mapping[str, Any]
) -> None:
    """Refuse unknown options, and values of a wrong type."""
    for name, value in options.items():
        if name not in _OPTIONS[kind]:
            from difflib import get_close_matches

            matches = get_close_matches(name, _OPTIONS[kind], n=1)
            hint = f"; did you mean {matches[0]!r}?" if matches else ""
            raise TypeError(f"a {kind} has no option {name!r}{hint}")
        if value is None:
            continue
        if name in _TEXT_OPTIONS and not isinstance(value, str):
            raise TypeError(f"{name} must be a text, got {value!r}")
        if name in _LIST_OPTIONS and isinstance(value, str):
            raise TypeError(f"{name} takes a list, got {value!r}")
        if name == "visible":
            _check_predicate(value)


def _check_predicate(visible: Any) -> Any:
    """Check a `visible` option: a coroutine would count as true."""
    call = getattr(visible, "__call__", None)  # noqa: B004 - of an object
    is_async = any(map(inspect.iscoroutinefunction, (visible, call)))
    if visible is not None and (is_async or not callable(visible)):
        raise TypeError(f"visible must be a plain function, got {visible!r}")
    return visible


@attrs.define(eq=False, kw_only=True)
class Component:
    """A tool, resource, template or prompt."""

    wire_type: ClassVar[str]
    """The name of its definition's type in `mcpwire.types`."""

    key: str
    """Its name, URI or URI template, unique within its kind."""

    definition: dict[str, Any]
    """Its entry in the list, in the form of the newest revision."""

    options: dict[str, Any]
    """The options of its registration, for `replace`."""

    make: Callable[[Any, dict[str, Any]], Any]
    """Makes a component of another function and options, for `replace`."""

    function: Any = None

    signature: Any = None
    """The function's `Signature`, read once."""

    runs_in_thread: bool = False

    scopes: frozenset[str] = frozenset()
    """The scopes that a principal needs to use it."""

    tags: frozenset[str] = frozenset()
    """Labels for a `visible` predicate; clients do not see them."""

    visible: Visible | None = None
    """Whether it exists for a request; ``None``: always."""

    is_enabled: bool = True
    """Whether it exists; see `Handle.disable`."""

    caller: Any = None
    """The `FunctionCaller` of the server that it was registered with."""

    completers: Mapping[str, Signature] = attrs.Factory(dict)
    """The functions that complete its arguments; see `completions`."""

    _entries: dict[str, dict[str, Any]] = attrs.field(factory=dict, init=False)
    _prefixed: dict[str, Any] = attrs.field(factory=dict, init=False, repr=False)

    @classmethod
    def of(
        cls,
        key: str,
        definition: dict[str, Any],
        options: Mapping[str, Any],
        function: Any = None,
        signature: Signature | None = None,
        **attributes: Any,
    ) -> Self:
        """Return a component with the common options."""
        thread, is_async = options.get("thread"), signature and signature.is_async
        if thread and is_async:
            raise ValueError(
                "thread=True is for plain functions, and this one is async"
            )
        try:
            encode_json(definition)  # else no client could get the list
        except LocalProtocolError as error:
            reason = str(error).removeprefix("cannot send $.")
            raise TypeError(f"{key!r} cannot be listed: {reason}") from error
        return cls(
            key=key,
            definition=definition,
            options={**options, "name": definition["name"]},
            function=function,
            signature=signature,
            runs_in_thread=thread if thread is not None else is_async is False,
            scopes=frozenset(options.get("scopes", ())),
            tags=frozenset(options.get("tags", ())),
            visible=options.get("visible"),
            **attributes,
        )

    async def call(self, arguments: dict[str, Any], request: RequestContext) -> Any:
        """Call the function; without a signature, with plain arguments in a thread."""
        if self.signature is None:
            call = partial(self.function, **arguments)
            return await self.caller.run_in_thread(call, request.info.owner)
        return await self.caller.invoke(
            self.signature, arguments, request, runs_in_thread=self.runs_in_thread
        )

    def entry_at(self, revision: Revision) -> dict[str, Any]:
        """Return its definition without the members that a revision lacks."""
        entry = self._entries.get(revision.name)
        if entry is None:
            from mcpwire import types

            wire_type = getattr(types, self.wire_type)
            entry = encode(types.decode(wire_type, dict(self.definition)), revision)
            if revision <= LATEST_SESSION:
                entry = session_tool(entry)
            self._entries[revision.name] = entry
        return entry

    def with_prefix(self, prefix: str) -> Self:
        """Return a copy with a prefix before its name."""
        key = prefix + self.key
        if prefix and key not in self._prefixed:
            definition = {**self.definition, "name": key}
            self._prefixed[key] = attrs.evolve(self, key=key, definition=definition)
        return self._prefixed[key] if prefix else self

    def check_scopes(self, request: RequestContext) -> None:
        """Raise `ScopeRequired` if the principal of a request lacks a scope."""
        if self.scopes and request.info.transport == "http":
            check_scopes(request.info.principal, self.scopes)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key!r}>"


logger = logging.getLogger("mcpwire")

ON_DUPLICATE: Final = ("error", "replace", "ignore")

C = TypeVar("C", bound=Component)


class Handle(Generic[C]):
    """The component of one key in a running server; its changes notify clients.

    Methods and `component` raise `KeyError` if no component has the key any more.
    """

    def __init__(self, table: Table[C], key: str) -> None:
        self._table = table
        self._key = key

    def __repr__(self) -> str:
        return f"<Handle of {self._key!r}>"

    @property
    def component(self) -> C:
        """The component that is registered now."""
        return self._table.component(self._key)

    def remove(self) -> None:
        """Remove the component; running calls continue."""
        self._table.remove(self._key)

    def replace(self, function: Callable[..., Any], **changes: Any) -> None:
        """Replace the function and the given options; the other options stay.

        Raises:
            TypeError: The function cannot be used; in that case nothing changes.
        """
        self._key = self._table.replace(self._key, function, changes).key

    def enable(self) -> None:
        """Show the component again after `disable`."""
        self._switch(is_enabled=True)

    def disable(self) -> None:
        """Hide the component: it is neither listed nor usable."""
        self._switch(is_enabled=False)

    def _switch(self, *, is_enabled: bool) -> None:
        component = self.component
        if component.is_enabled is not is_enabled:
            component.is_enabled = is_enabled
            self._table.notify_changed(self._key)


class Table(Generic[C]):
    """The components of one kind, in the order of their registration.

    Attributes:
        public: The table's own components that exist for all clients, by key.
        completers: The functions that complete arguments, by key and argument. They
            may be registered before their component.
    """

    def __init__(
        self,
        noun: str,
        *,
        listed: str,
        page_size: int | None,
        on_duplicate: str,
        visible: Visible | None,
        caller: FunctionCaller,
        on_changed: Callable[[], object],
    ) -> None:
        self._noun = noun
        self._listed = listed  # the member of a list's result
        self._page_size = page_size
        self._on_duplicate = check_choice(on_duplicate, "on_duplicate", ON_DUPLICATE)
        self._visible = _check_predicate(visible)
        self._caller = caller
        self._on_changed = on_changed
        self._components: dict[str, C] = {}
        self._mounts: list[tuple[Table[C], str]] = []  # with a prefix
        self._mounted_in: list[Table[C]] = []
        self.public: dict[str, C] = {}
        self.completers: dict[str, dict[str, Signature]] = {}

    # Registration

    def __len__(self) -> int:
        return len(self._components)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._components))

    def __contains__(self, key: object) -> bool:
        return key in self._components

    def __getitem__(self, key: str) -> Handle[C]:
        """Return the handle of a component.

        Raises:
            KeyError: No component has that key.
        """
        return Handle(self, self.component(key).key)

    def component(self, key: str) -> C:
        """Return a component.

        Raises:
            KeyError: No component has that key.
        """
        if key not in self._components:
            raise KeyError(f"unknown {self._noun} {key!r}")
        return self._components[key]

    def __repr__(self) -> str:
        return f"<{len(self)} {self._noun}s: {', '.join(self)}>"

    def add(self, component: C) -> Handle[C]:
        """Add a component at the end; apply `on_duplicate` if its key exists."""
        key = component.key
        if key in self._components:
            if self._on_duplicate == "error":
                raise ValueError(f"{self._noun} {key!r} is already registered")
            logger.warning("%s %r is already registered", self._noun, key)
            if self._on_duplicate == "ignore":
                return Handle(self, key)
        component.caller = self._caller
        registered = self.completers.setdefault(key, {})
        component.completers = ChainMap(registered, dict(component.completers))
        self._components[key] = component
        self.notify_changed(key)
        return Handle(self, key)

    def remove(self, key: str) -> None:
        """Remove a component.

        Raises:
            KeyError: No component has that key.
        """
        del self._components[self.component(key).key]
        self.notify_changed(key)

    def replace(self, key: str, function: Any, changes: dict[str, Any]) -> C:
        """Replace a component by one with another function, at the same position."""
        old = self.component(key)
        new: C = old.make(function, {**old.options, **changes})
        if new.key != key and new.key in self._components:
            raise ValueError(f"{self._noun} {new.key!r} is already registered")
        new.caller = self._caller
        new.completers = old.completers
        new.is_enabled = old.is_enabled
        self._components = {
            (new.key if k == key else k): (new if k == key else c)
            for k, c in self._components.items()
        }
        self.notify_changed(key, new.key)
        return new

    def notify_changed(self, *keys: str) -> None:
        """Update these keys of `public`; notify clients that the list has changed."""
        for key in keys:
            self.public.pop(key, None)
            component = self._components.get(key)
            if (
                component is not None
                and component.is_enabled
                and self._visible is None
                and component.visible is None
            ):
                self.public[key] = component
        self._on_changed()
        for table in self._mounted_in:
            table.notify_changed()

    def mount(self, other: Table[C], prefix: str) -> None:
        """Append the present and future components of another table."""
        if other is self or other.includes(self):
            raise ValueError("a server cannot be mounted on itself")
        self._mounts.append((other, prefix))
        other._mounted_in.append(self)
        self.notify_changed()

    def includes(self, other: Table[C]) -> bool:
        """Return whether another table is mounted here, directly or indirectly."""
        return any(table is other or table.includes(other) for table, _ in self._mounts)

    # Requests

    def get(self, key: object, request: RequestContext) -> C | None:
        """Return the component with that key, if it exists for the request."""
        if type(key) is not str:
            return None
        component = self._components.get(key)
        if component is not None:
            return component if self._exists(component, request) else None
        for table, prefix in self._mounts:
            if key.startswith(prefix):
                inner = table.get(key[len(prefix) :], request)
                if inner is not None:
                    renamed = inner.with_prefix(prefix)
                    return renamed if self._is_visible(renamed, request) else None
        return None

    def usable(self, key: str, request: RequestContext) -> C:
        """Return a component that the request may use; raise `RPCError` if none."""
        component = self.get(key, request)
        if component is None:
            raise InvalidParams(f"unknown {self._noun} {key[:EXCERPT]!r}")
        component.check_scopes(request)
        return component

    def all(self, request: RequestContext) -> list[C]:
        """Return the components that exist for the request, in order."""
        components = [c for c in self._components.values() if self._exists(c, request)]
        keys = set(self._components)
        for table, prefix in self._mounts:
            for inner in table.all(request):
                component = inner.with_prefix(prefix)
                if component.key not in keys and self._is_visible(component, request):
                    keys.add(component.key)
                    components.append(component)
        return components

    def page(self, params: dict[str, Any], request: RequestContext) -> dict[str, Any]:
        """Handle the list method: return one page of the request's components."""
        page, following = page_of(
            self.all(request),
            params.get("cursor"),
            size=self._page_size,
            name=self._listed,
        )
        entries = [component.entry_at(request.revision) for component in page]
        result: dict[str, Any] = {self._listed: entries, **following}
        # 2026-07-28 server/utilities/caching: the same scope on all pages, and public
        # only if all clients get the same list.
        if request.info.principal is None and not self.depends_on_client():
            result["cacheScope"] = "public"
        return result

    def depends_on_client(self) -> bool:
        """Return whether some clients get another list than others."""
        return (
            self._visible is not None
            or any(c.visible is not None for c in self._components.values())
            or any(table.depends_on_client() for table, _ in self._mounts)
        )

    def _is_visible(self, component: C, request: RequestContext) -> bool:
        """Apply this table's own predicate to a component of a mounted table."""
        visible = self._visible
        return visible is None or visible(self._caller.context_of(request), component)

    def _exists(self, component: C, request: RequestContext) -> bool:
        predicate = component.visible
        if not component.is_enabled or (predicate is None and self._visible is None):
            return component.is_enabled
        return self._is_visible(component, request) and (
            predicate is None or predicate(self._caller.context_of(request), component)
        )


_MAX_CURSOR: Final = 256 * 1024
"""Characters of a cursor; the Base64 of two keys is shorter."""


def check_page_size(size: int | None) -> int | None:
    """Return a checked page size; ``None``: one page with all components."""
    return None if size is None else check_count(size, "page_size")


def page_of(
    items: Sequence[T],
    cursor: object,
    *,
    size: int | None,
    name: str,
    key: Callable[[T], str] = attrgetter("key"),
) -> tuple[list[T], dict[str, str]]:
    """Return a page of the list of that name, and the member that names the next."""
    start = 0 if cursor is None else _start([key(item) for item in items], cursor, name)
    end = len(items) if size is None else start + size
    if end >= len(items):
        return list(items[start:]), {}
    position = [name, key(items[end - 1]), key(items[end])]
    cursor = urlsafe_b64encode(encode_json(position)).decode()
    return list(items[start:end]), {"nextCursor": cursor}


def _start(keys: list[str], cursor: object, name: str) -> int:
    # 2026-07-28 server/utilities/pagination: an empty string is a cursor, too, here an
    # invalid one.
    try:
        if type(cursor) is str and len(cursor) <= _MAX_CURSOR:
            match loads(b64decode(cursor, b"-_", validate=True)):
                case [kind, str(last), str(following)] if kind == name:
                    if last in keys:
                        return keys.index(last) + 1
                    return keys.index(following)
    except ValueError:  # no Base64, no JSON, no UTF-8, or both items are removed
        pass
    raise InvalidParams(
        "unknown params.cursor: it was not issued for this list, begin without one"
    )
