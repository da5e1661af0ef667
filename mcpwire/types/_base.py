"""Common parts of wire types: equality, representation, field marks, base classes.

The modules of the types import only this module and `attrs`, so that the codec is not
imported before a value is decoded or encoded.
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

Json: TypeAlias = Any
"""Any JSON value."""

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object with members that the specification does not define."""


class Unset(Enum):
    """The type of `UNSET`, which type checkers distinguish from all values."""

    UNSET = "UNSET"

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> Literal[False]:
        return False


UNSET: Final = Unset.UNSET
"""The value of an absent field for which ``None`` means a JSON `null`."""


SHARED: Final = {"is_shared": True}
"""The metadata of the shared fields, which follow a type's own fields."""

_SHARED_ORDER: Final = (
    *("next_cursor", "ttl_ms", "cache_scope", "result_type"),
    *("annotations", "icons", "meta", "extra", "raw"),
)


def _order_fields(
    _: type, fields: list[attrs.Attribute[Any]]
) -> list[attrs.Attribute[Any]]:
    """Move the shared fields behind a type's own fields, in a fixed order.

    Type checkers see inherited fields first, where only `kw_only` allows defaults. The
    constructor accepts them by position, too.
    """
    own = [field for field in fields if not field.metadata]
    shared = [field.evolve(kw_only=False) for field in fields if field.metadata]
    return own + sorted(shared, key=lambda field: _SHARED_ORDER.index(field.name))


@dataclass_transform(eq_default=False, field_specifiers=(attrs.field,))
class _WireMeta(type):
    """Makes each wire type an attrs class with its shared fields last."""

    attrs_fields: tuple[attrs.Attribute[Any], ...]

    @property
    def __attrs_attrs__(cls) -> tuple[attrs.Attribute[Any], ...]:
        """The fields; attrs finds them here, as well as in the class.

        msgspec, which writes attribute names, does not: it calls its `enc_hook`.
        """
        return cls.attrs_fields

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]
    ) -> Any:
        if "__attrs_attrs__" in namespace:
            namespace["attrs_fields"] = namespace.pop("__attrs_attrs__")
        wire_class = super().__new__(cls, name, bases, namespace)
        if "__slots__" in namespace:  # attrs calls this again for the slotted class
            return wire_class
        # Generated `__eq__` and `__repr__` methods would double the import time.
        return attrs.define(
            wire_class, repr=False, eq=False, field_transformer=_order_fields
        )


@attrs.define(repr=False, eq=False)
class WireType(metaclass=_WireMeta):
    """The base class of all wire types; it has no fields.

    Wire types are mutable, compared by content and unhashable.
    """

    __slots__ = ()
    __hash__: ClassVar[None]  # type: ignore[assignment]  # mutable: no hash

    def __eq__(self, other: object) -> bool:
        """Compare all fields except `raw`, which duplicates the others."""
        if type(self) is not type(other):
            return NotImplemented
        return all(
            getattr(self, field.name) == getattr(other, field.name)
            for field in attrs.fields(type(self))
            if field.eq
        )

    def __repr__(self) -> str:
        """Return one line with the fields that differ from their defaults, abridged."""
        return _abridged_repr(self, 0)


# --- marks in annotations


@attrs.frozen(eq=False)
class Spec:
    """A mark of a field with the facts that its Python type does not express."""

    since: str = REVISIONS[0].name
    """The first revision that has the field."""

    until: str | None = None
    """The last revision that has the field."""

    required: bool | tuple[str, ...] = False
    """Whether (or in which revisions) the member is required despite the default."""

    wire: str | None = None
    """The member's name, if it is not the attribute's name in camel case."""


@attrs.frozen(eq=False)
class Selector:
    """A mark of a union with the function that chooses the member for an object."""

    select: Callable[[JsonObject], type[WireType] | None]
    expected: str
    """The expectation in the error message if no member is chosen."""


Meta: TypeAlias = JsonObject | None
"""``_meta`` of a result or notification, in all revisions."""

RequestMeta: TypeAlias = Annotated[JsonObject | None, Spec(required=("2026-07-28",))]
"""``_meta`` of a request."""

Title: TypeAlias = Annotated[str | None, Spec("2025-06-18")]
"""A name for display."""

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
"""The keys of trace context; they have no prefix."""

# Compiled at first use, to keep the import fast.
_LABEL: Final = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_KEY: Final = (
    rf"(?:{_LABEL}(?:\.{_LABEL})*/)?(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
)


def is_meta_key(key: str) -> bool:
    """Return whether a key has the format of `_meta` keys: [prefix/]name."""
    return re.fullmatch(_KEY, key) is not None


# --- base classes


class WireObject(WireType):
    """A wire type that keeps unknown members."""

    extra: JsonObject | None = attrs.field(default=None, kw_only=True, metadata=SHARED)
    """The unknown members, or ``None``."""


class WithMeta(WireObject):
    """An object with `_meta`, such as a tool or a content block."""

    meta: Annotated[JsonObject | None, Spec("2025-06-18")] = attrs.field(
        default=None, kw_only=True, metadata=SHARED
    )


class AnnotatedType(WithMeta):
    """An object with hints on its use or display."""

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
        """The name for display."""
        return self.title or self.name


class RequestParams(WireObject):
    """The parameters of a request; some requests have no others."""

    meta: RequestMeta = attrs.field(default=None, kw_only=True, metadata=SHARED)


class PlainParams(WireObject):
    """The parameters of a notification, or of a request until 2025-11-25."""

    meta: Meta = attrs.field(default=None, kw_only=True, metadata=SHARED)


class BareResult(WireObject):
    """A result without `result_type`."""

    meta: Meta = attrs.field(default=None, kw_only=True, metadata=SHARED)
    raw: JsonObject | None = attrs.field(
        default=None, eq=False, kw_only=True, metadata=SHARED
    )
    """The decoded JSON object; ``None`` if the result was not decoded."""


class Result(BareResult):
    """A result."""

    # 2026-07-28 basic/index, "ResultType": absent means "complete".
    result_type: ResultType = attrs.field(
        default="complete", kw_only=True, metadata=SHARED
    )
    """The kind of the result, such as ``complete`` or ``input_required``."""


class CacheableResult(Result):
    """A result that may be cached."""

    # 2026-07-28 server/utilities/caching: absent means immediately stale.
    ttl_ms: Annotated[int | None, Spec("2026-07-28", required=("2026-07-28",))] = (
        attrs.field(default=None, kw_only=True, metadata=SHARED)
    )
    """How long the result stays fresh, in milliseconds."""

    cache_scope: Annotated[
        KnownScope | str | None, Spec("2026-07-28", required=("2026-07-28",))
    ] = attrs.field(default=None, kw_only=True, metadata=SHARED)
    """The caches that may store it: shared ones (``public``) or the caller's own."""


class ListResult(CacheableResult):
    """One page of a list."""

    next_cursor: str | None = attrs.field(default=None, kw_only=True, metadata=SHARED)
    """The cursor of the next page; any string, even an empty one, means more pages."""


# --- representation

_MAX_STRING_CHARS: Final = 60
_MAX_ITEMS: Final = 4
_MAX_DEPTH: Final = 4


def _abridged_repr(value: Any, depth: int) -> str:
    match value:
        case str() if len(value) > _MAX_STRING_CHARS:
            return f"{value[:_MAX_STRING_CHARS]!r}… ({len(value)} characters)"
        case WireType():
            names = [
                field.name
                for field in attrs.fields(type(value))
                if _is_set(field, value)
            ]
            parts = (
                f"{field_name}={_abridged_repr(getattr(value, field_name), depth + 1)}"
                for field_name in names
            )
            return _join_parts(
                f"{type(value).__name__}(", parts, len(names), ")", depth
            )
        case dict():
            members = (
                f"{_abridged_repr(name, depth)}: {_abridged_repr(item, depth + 1)}"
                for name, item in itertools.islice(value.items(), _MAX_ITEMS)
            )
            return _join_parts("{", members, len(value), "}", depth)
        case list():
            items = (_abridged_repr(item, depth + 1) for item in value[:_MAX_ITEMS])
            return _join_parts("[", items, len(value), "]", depth)
    return repr(value)


def _is_set(field: attrs.Attribute[Any], value: WireType) -> bool:
    current = getattr(value, field.name)
    factory = getattr(field.default, "factory", None)
    default = factory() if factory else field.default
    return field.eq and current is not UNSET and bool(current != default)


def _join_parts(
    start: str, parts: Iterable[str], length: int, end: str, depth: int
) -> str:
    if depth > _MAX_DEPTH and length:
        # The parts are generated on demand, so deeper values are never visited.
        return f"{start}…{end}"
    texts = list(parts)
    if length > len(texts):
        texts.append(f"… {length} in all")
    return start + ", ".join(texts) + end
