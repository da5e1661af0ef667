"""What wire types share: equality, one readable line, marks on fields, base classes.

The modules of the types import this and `attrs`, nothing else, so that a program pays
for the codec only when a value is decoded or encoded.
"""

from __future__ import annotations

import itertools
import re
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    TypeAlias,
    dataclass_transform,
)

import attrs

from mcpwire.versions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcpwire.types.content import Annotations, Icon

__all__ = [
    "CLIENT_CAPABILITIES",
    "CLIENT_INFO",
    "LOG_LEVEL",
    "PROTOCOL_VERSION",
    "RELATED_TASK",
    "SERVER_INFO",
    "SHARED",
    "SUBSCRIPTION_ID",
    "TRACE_KEYS",
    "UNSET",
    "AnnotatedType",
    "BareResult",
    "CacheableResult",
    "Json",
    "JsonObject",
    "ListResult",
    "Meta",
    "Pick",
    "PlainParams",
    "RequestMeta",
    "RequestParams",
    "ResourceFields",
    "Result",
    "ResultType",
    "Spec",
    "Title",
    "Unset",
    "WireObject",
    "WireType",
    "WithMeta",
    "is_meta_key",
]

Json: TypeAlias = Any
"""Any JSON value."""

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object that the specification leaves open."""


class Unset(Enum):
    """The type of `UNSET`, so that type checkers can tell it from every value."""

    UNSET = "UNSET"

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> Literal[False]:
        return False


UNSET: Final = Unset.UNSET
"""Not on the wire; where ``None`` means that a JSON `null` is."""


SHARED: Final = {"is_shared": True}
"""The metadata of the fields that stand behind a type's own."""

_ORDER: Final = (
    *("next_cursor", "ttl_ms", "cache_scope", "result_type"),
    *("annotations", "icons", "meta", "extra", "raw"),
)


def _shared_last(
    _: type, fields: list[attrs.Attribute[Any]]
) -> list[attrs.Attribute[Any]]:
    """Put the shared fields behind a type's own, always in one order.

    Type checkers see them in front, where only `kw_only` lets them have defaults. The
    constructor takes them by position as well.
    """
    own = [field for field in fields if not field.metadata]
    shared = [field.evolve(kw_only=False) for field in fields if field.metadata]
    return own + sorted(shared, key=lambda field: _ORDER.index(field.name))


@dataclass_transform(eq_default=False, field_specifiers=(attrs.field,))
class _WireMeta(type):
    """Makes each wire type an attrs class, with shared fields behind its own."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]
    ) -> Any:
        made = super().__new__(cls, name, bases, namespace)
        if "__slots__" in namespace:  # attrs makes each class anew, with slots
            return made
        # Equality and representation written for each class are half of what importing
        # costs.
        return attrs.define(made, repr=False, eq=False, field_transformer=_shared_last)


@attrs.define(repr=False, eq=False)
class WireType(metaclass=_WireMeta):
    """The base of all wire types; it has behaviour and no fields.

    The types are mutable values: compared by content, unhashable.
    """

    __slots__ = ()
    __hash__: ClassVar[None]  # type: ignore[assignment]  # mutable values have none

    def __eq__(self, other: object) -> bool:
        """Compare all fields but `raw`, which says again what the others say."""
        if type(self) is not type(other):
            return NotImplemented
        return all(
            getattr(self, field.name) == getattr(other, field.name)
            for field in attrs.fields(type(self))
            if field.eq
        )

    def __repr__(self) -> str:
        """Show the fields that are not at their default, with long data elided."""
        return _shown(self, 0)


# --- marks in annotations


@attrs.frozen(eq=False)
class Spec:
    """Mark a field with what its Python type does not say."""

    since: str = REVISIONS[0].name
    """The first revision that has the field."""

    until: str | None = None
    """The last revision that has the field."""

    required: bool | tuple[str, ...] = False
    """Whether (or in which revisions) it must be on the wire despite the default."""

    wire: str | None = None
    """Its name on the wire, where that is not the attribute's in camel case."""


@attrs.frozen(eq=False)
class Pick:
    """Mark a union with the function that chooses the member for an object."""

    choose: Callable[[JsonObject], type[WireType] | None]
    expected: str
    """What the object lacks when none is chosen."""


Meta: TypeAlias = JsonObject | None
"""``_meta``; results and notifications have had it from the start."""

RequestMeta: TypeAlias = Annotated[JsonObject | None, Spec(required=("2026-07-28",))]
"""``_meta`` of a request."""

Title: TypeAlias = Annotated[str | None, Spec("2025-06-18")]
"""A name for people."""

ResultType: TypeAlias = Annotated[str, Spec("2026-07-28", required=("2026-07-28",))]
KnownScope: TypeAlias = Literal["public", "private"]


# --- keys of `_meta`

PROTOCOL_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
TRACE_KEYS: Final = ("traceparent", "tracestate", "baggage")
"""The keys of trace context; they carry no prefix."""

# Patterns are compiled by their first use: importing this stays cheap.
_LABEL: Final = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_KEY: Final = (
    rf"(?:{_LABEL}(?:\.{_LABEL})*/)?(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
)


def is_meta_key(key: str) -> bool:
    """Tell whether a key has the form that `_meta` demands: [prefix/]name."""
    return re.fullmatch(_KEY, key) is not None


# --- base classes


class WireObject(WireType):
    """A wire type that keeps what it does not know."""

    extra: JsonObject | None = attrs.field(default=None, kw_only=True, metadata=SHARED)
    """The members that the type does not know, ``None`` when there are none."""


class WithMeta(WireObject):
    """What results consist of."""

    meta: Annotated[JsonObject | None, Spec("2025-06-18")] = attrs.field(
        default=None, kw_only=True, metadata=SHARED
    )


class AnnotatedType(WithMeta):
    """What has hints on how to use or show it."""

    annotations: Annotations | None = attrs.field(
        default=None, kw_only=True, metadata=SHARED
    )


class ResourceFields(AnnotatedType):
    """The description of a resource, in a list or in a link."""

    uri: str
    name: str
    title: Title = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    """In bytes, before any encoding."""

    icons: Annotated[list[Icon] | None, Spec("2025-11-25")] = attrs.field(
        default=None, kw_only=True, metadata=SHARED
    )

    @property
    def display_name(self) -> str:
        """The name to show to people."""
        return self.title or self.name


class RequestParams(WireObject):
    """The parameters of a request, and all that some requests have."""

    meta: RequestMeta = attrs.field(default=None, kw_only=True, metadata=SHARED)


class PlainParams(WireObject):
    """The parameters of a notification, or of a request until 2025-11-25."""

    meta: Meta = attrs.field(default=None, kw_only=True, metadata=SHARED)


class BareResult(WireObject):
    """A result that does not say of what kind it is."""

    meta: Meta = attrs.field(default=None, kw_only=True, metadata=SHARED)
    raw: JsonObject | None = attrs.field(
        default=None, eq=False, kw_only=True, metadata=SHARED
    )
    """The decoded JSON object itself; ``None`` when the result was made here."""


class Result(BareResult):
    """A result."""

    # 2026-07-28 basic/index, "ResultType": absent means "complete".
    result_type: ResultType = attrs.field(
        default="complete", kw_only=True, metadata=SHARED
    )
    """What kind of result this is."""


class CacheableResult(Result):
    """A result that may be used again."""

    # 2026-07-28 server/utilities/caching: absent means stale at once.
    ttl_ms: Annotated[int | None, Spec("2026-07-28", required=("2026-07-28",))] = (
        attrs.field(default=None, kw_only=True, metadata=SHARED)
    )
    """For how many milliseconds the result may be used again."""

    cache_scope: Annotated[
        KnownScope | str | None, Spec("2026-07-28", required=("2026-07-28",))
    ] = attrs.field(default=None, kw_only=True, metadata=SHARED)
    """What kind of cache may keep it: ``public`` ones, or the caller's own."""


class ListResult(CacheableResult):
    """One page of a list."""

    next_cursor: str | None = attrs.field(default=None, kw_only=True, metadata=SHARED)
    """Where the next page starts; any string, even an empty one, means there is one."""


# --- one readable line

_LONGEST_STRING: Final = 60
_MOST_ITEMS: Final = 4
_DEEPEST: Final = 4


def _shown(value: Any, depth: int) -> str:
    match value:
        case str() if len(value) > _LONGEST_STRING:
            return f"{value[:_LONGEST_STRING]!r}… ({len(value)} characters)"
        case WireType():
            names = [f.name for f in attrs.fields(type(value)) if _is_set(f, value)]
            parts = (f"{n}={_shown(getattr(value, n), depth + 1)}" for n in names)
            return _enclosed(f"{type(value).__name__}(", parts, len(names), ")", depth)
        case dict():
            members = (
                f"{_shown(name, depth)}: {_shown(inside, depth + 1)}"
                for name, inside in itertools.islice(value.items(), _MOST_ITEMS)
            )
            return _enclosed("{", members, len(value), "}", depth)
        case list():
            items = (_shown(item, depth + 1) for item in value[:_MOST_ITEMS])
            return _enclosed("[", items, len(value), "]", depth)
    return repr(value)


def _is_set(field: attrs.Attribute[Any], value: WireType) -> bool:
    inside = getattr(value, field.name)
    make = getattr(field.default, "factory", None)
    default = make() if make else field.default
    return field.eq and inside is not UNSET and bool(inside != default)


def _enclosed(
    start: str, parts: Iterable[str], length: int, end: str, depth: int
) -> str:
    if depth > _DEEPEST and length:
        # The parts are made on demand, so what lies deeper is not even looked at.
        return f"{start}…{end}"
    shown = list(parts)
    if length > len(shown):
        shown.append(f"… {length} in all")
    return start + ", ".join(shown) + end
