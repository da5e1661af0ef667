"""The arguments of a group, checked and told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from mcpwire.group.backoff import Backoff
from mcpwire.group.member import CLIENT_OPTIONS, HANDLERS, ClientOptions
from mcpwire.limits import check_timeout
from mcpwire.protocol.negotiation import parse_mode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import TypeAlias

    from mcpwire.tools.options import ToolOptions

    OnError: TypeAlias = (
        Literal["raise", "skip"] | Callable[[str, Exception], Awaitable[None] | None]
    )

    class GroupOptions(ClientOptions, ToolOptions, total=False):
        """What a group is given for its clients and its tool sets."""


__all__ = ["check", "check_client_options", "handlers_of", "split"]

_TIMEOUTS = ("keepalive", "max_timeout", "probe_timeout")


def check(concurrency: Any, on_error: Any, start: Any, restart: Any) -> None:
    """Refuse arguments of a group that are out of their range.

    Raises:
        ValueError: One of them is; names it.
    """
    if type(concurrency) is not int or concurrency < 1:
        raise ValueError(
            f"concurrency must be a whole number above zero, got {concurrency!r}"
        )
    if on_error not in ("raise", "skip") and not callable(on_error):
        raise ValueError(
            f"on_error must be 'raise', 'skip' or a function, got {on_error!r}"
        )
    if start not in ("eager", "lazy"):
        raise ValueError(f"start must be 'eager' or 'lazy', got {start!r}")
    if restart is not None and not isinstance(restart, Backoff):
        raise ValueError(f"restart must be a Backoff or None, got {restart!r}")


def split(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what is for the clients, and what is for tool sets.

    Raises:
        TypeError: Something is for neither.
    """
    ours = {name: options[name] for name in CLIENT_OPTIONS if name in options}
    others = {name: options[name] for name in options if name not in ours}
    if others:  # imported only where there are any
        from mcpwire.tools.options import ToolOptions

        for name in others:
            if name not in ToolOptions.__annotations__:
                raise TypeError(f"a group got an unexpected keyword argument {name!r}")
    return ours, others


def check_client_options(options: Mapping[str, Any]) -> None:
    """Refuse options for clients of which no client could be made.

    Raises:
        ValueError: One of them is; names it.
    """
    for name in ("timeout", "connect_timeout", *_TIMEOUTS):
        check_timeout(options.get(name), name)
    parse_mode(options.get("mode", "auto"))


def handlers_of(options: dict[str, Any]) -> dict[str, Any]:
    """Take the handlers out of the options for clients.

    Raises:
        ValueError: One of them is nothing of the kind; names it.
    """
    handlers: dict[str, Any] = {}
    for name in HANDLERS:
        if name in options:
            handlers[name] = options.pop(name)
    if handlers:
        from mcpwire.protocol.host.features import HostFeatures

        HostFeatures(**handlers)
    return handlers
