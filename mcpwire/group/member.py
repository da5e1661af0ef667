"""Arguments of a group and of its servers, and their checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

import attrs

from mcpwire.group.backoff import Backoff
from mcpwire.limits import check_choice, check_count, check_timeout
from mcpwire.protocol.negotiation import parse_mode
from mcpwire.tools.rules import ServerRules
from mcpwire.transports.targets import is_url, parse_target
from mcpwire.types import UNSET
from mcpwire.wire.urls import mask_url

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from typing import TypeAlias

    from mcpwire.limits import Limits, Recovery
    from mcpwire.protocol.cache import ResponseCache
    from mcpwire.protocol.client_features import (
        Elicitation,
        FormHandler,
        Roots,
        Sampling,
        SamplingHandler,
    )
    from mcpwire.tools.options import ToolOptions
    from mcpwire.tools.rules import Confirm, Patterns, TraceContext
    from mcpwire.transports.targets import Target
    from mcpwire.types import JsonObject, Unset
    from mcpwire.types.lifecycle import Implementation

    OnError: TypeAlias = (
        Literal["raise", "skip"] | Callable[[str, Exception], Awaitable[None] | None]
    )


class ClientOptions(TypedDict, total=False):
    """Options of each client of a group; see `Client`."""

    timeout: float | None
    """Time limit of a call in seconds; ``None``: no limit."""

    connect_timeout: float | None
    """Time limit of connecting in seconds; ``None``: no limit."""

    probe_timeout: float
    mode: str
    client_info: Implementation | None
    limits: Limits
    recovery: Recovery
    keepalive: float | None
    reset_timeout_on_progress: bool
    max_timeout: float | None
    sampling: SamplingHandler | Sampling | None
    elicitation: FormHandler | Elicitation | None
    roots: Roots | None
    extensions: Mapping[str, JsonObject | None] | Iterable[str] | None
    experimental: Mapping[str, JsonObject | None] | None
    cache: ResponseCache | bool
    trace: Callable[[str, Any], Any] | None


if TYPE_CHECKING:

    class GroupOptions(ClientOptions, ToolOptions, total=False):
        """Options of a group for its clients and its tool sets."""


CLIENT_OPTIONS: Final = tuple(ClientOptions.__annotations__)
HANDLERS: Final = ("sampling", "elicitation", "roots")
"""The options that are handlers of server requests."""


def _timeout(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not UNSET:
        check_timeout(value, attribute.name)


def _parse(target: Target) -> Any:
    return parse_target(target) or target


def _masked(target: Any) -> str:
    """Return a target as one readable line, without the secrets of a URL."""
    if isinstance(target, str):
        return mask_url(target) if is_url(target) else target
    return str(target)


@attrs.frozen(kw_only=True)
class MemberOptions:
    """Options that a server can override in the group."""

    allow: Patterns = ()
    """Globs of the allowed tools; empty: all tools."""

    deny: Patterns = ()
    """Globs of the denied tools; they take precedence over `allow`."""

    confirm: Confirm = ()
    """The calls that need confirmation."""

    strip_arguments: Patterns = ()
    """The exact names of arguments that are removed from every call."""

    trace_context: TraceContext = None
    """Whether, or by which function, trace context is sent; ``None``: as the group."""

    trace_argument: str | None = None
    """The argument that repeats the trace context; ``None``: as the group."""

    enabled: bool = True
    """Whether `connect_all` connects it; `Group.connect` ignores this."""

    timeout: float | Unset | None = attrs.field(default=UNSET, validator=_timeout)
    connect_timeout: float | Unset | None = attrs.field(
        default=UNSET, validator=_timeout
    )
    probe_timeout: float | Unset = attrs.field(default=UNSET, validator=_timeout)
    mode: str | Unset = UNSET
    client_info: Implementation | Unset | None = UNSET
    limits: Limits | Unset = UNSET
    recovery: Recovery | Unset = UNSET
    keepalive: float | Unset | None = attrs.field(default=UNSET, validator=_timeout)
    reset_timeout_on_progress: bool | Unset = UNSET
    max_timeout: float | Unset | None = attrs.field(default=UNSET, validator=_timeout)
    sampling: SamplingHandler | Sampling | Unset | None = UNSET
    elicitation: FormHandler | Elicitation | Unset | None = UNSET
    roots: Roots | Unset | None = UNSET
    extensions: Mapping[str, JsonObject | None] | Iterable[str] | Unset | None = UNSET
    experimental: Mapping[str, JsonObject | None] | Unset | None = UNSET
    cache: ResponseCache | bool | Unset = UNSET
    trace: Callable[[str, Any], Any] | Unset | None = UNSET


@attrs.frozen
class Member(MemberOptions):
    """A target and the options of this server that override the group's.

    Omitted options are the group's. The patterns of `allow`, `deny` and `confirm` are
    matched against the server's own tool names as well; a call must pass the rules of
    both server and group.

    ::

        mcpwire.Group({"files": Member("npx -y files-server", deny="delete_*")})

    Raises:
        ValueError: A timeout is zero, negative or NaN, or the mode is unknown.
        TypeError: A pattern is not a string.
    """

    target: Any = attrs.field(
        converter=_parse, repr=lambda target: repr(_masked(target))
    )
    """The server that the client connects to: a command line, a URL, a `Stdio`, an
    `Http`, or a server in this process."""

    def __attrs_post_init__(self) -> None:
        self.rules()
        if isinstance(self.mode, str):
            parse_mode(self.mode)

    @classmethod
    def of(cls, given: Any) -> Member:
        """Return a `Member` unchanged, and a target as a `Member`."""
        return given if isinstance(given, cls) else cls(given)

    def rules(self) -> ServerRules:
        """Return the rules for this server's tools."""
        names = (field.name for field in attrs.fields(ServerRules))
        return ServerRules(**{name: getattr(self, name) for name in names})

    def client_options(self) -> dict[str, Any]:
        """Return the client options that override the group's."""
        values = ((name, getattr(self, name)) for name in CLIENT_OPTIONS)
        return {name: value for name, value in values if value is not UNSET}


_TIMEOUTS: Final = (
    *("timeout", "connect_timeout"),
    *("keepalive", "max_timeout", "probe_timeout"),
)


def check_arguments(concurrency: Any, on_error: Any, start: Any, restart: Any) -> None:
    """Raise for arguments of a group that are out of their range."""
    check_count(concurrency, "concurrency")
    if on_error not in ("raise", "skip") and not callable(on_error):
        raise ValueError(
            f"on_error must be 'raise', 'skip' or a function, got {on_error!r}"
        )
    check_choice(start, "start", ("eager", "lazy"))
    if restart is not None and not isinstance(restart, Backoff):
        raise ValueError(f"restart must be a Backoff or None, got {restart!r}")


def split_options(
    options: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Check and return the options of clients, of their handlers and of tool sets."""
    tools = {name: options[name] for name in options if name not in CLIENT_OPTIONS}
    if tools:  # imported only where there are any
        from mcpwire.tools.options import ToolOptions

        for name in tools:
            if name not in ToolOptions.__annotations__:
                raise TypeError(f"a group got an unexpected keyword argument {name!r}")
    own = {name: options[name] for name in CLIENT_OPTIONS if name in options}
    client_options = {"timeout": 30.0, "connect_timeout": 60.0, **own}
    for name in _TIMEOUTS:
        check_timeout(client_options.get(name), name)
    parse_mode(client_options.get("mode", "auto"))
    handlers: dict[str, Any]
    handlers = {name: client_options.pop(name) for name in HANDLERS if name in own}
    if handlers:
        from mcpwire.protocol.client_features import ClientFeatures

        ClientFeatures(**handlers)
    return client_options, handlers, tools
