"""Configuration and state of a group's servers, shared by the asyncio and sync groups.

This module does no I/O and uses no event loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from mcpwire.errors import LocalProtocolError, MCPError, NotConnected, UnknownServer
from mcpwire.group.member import HANDLERS, Member, check_arguments, split_options
from mcpwire.group.reports import Report, ServerStatus
from mcpwire.limits import DEFAULT_LIMITS, check_timeout
from mcpwire.transports.targets import resolve_target
from mcpwire.types import UNSET, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Self

    from mcpwire.group.backoff import Backoff
    from mcpwire.group.managed_server import ManagedServer
    from mcpwire.group.member import OnError
    from mcpwire.protocol.client_features import (
        Elicitation,
        FormHandler,
        Roots,
        Sampling,
        SamplingHandler,
    )
    from mcpwire.tools.rules import ServerRules
    from mcpwire.types import Unset

ClientT = TypeVar("ClientT")


class GroupBase(Generic[ClientT]):
    """The configured servers of a group, and a `ManagedServer` for each in use."""

    def __init__(
        self,
        servers: Mapping[str, Any],
        options: Mapping[str, Any],
        *,
        concurrency: int,
        on_error: OnError,
        start: str,
        idle: float | None,
        restart: Backoff | None,
        make_client: Callable[..., ClientT] | None,
    ) -> None:
        check_arguments(concurrency, on_error, start, restart)
        split = split_options(options)
        self._client_options, self._handlers, self._tool_options = split
        self._limits = self._client_options.get("limits", DEFAULT_LIMITS)
        self.idle = check_timeout(idle, "idle")
        self.backoff = restart
        self._concurrency = concurrency
        self._on_error = on_error
        self._is_lazy = start == "lazy"
        self._make_client = make_client
        self._own_handlers: dict[str, dict[str, Any]] = {}
        self._members: dict[str, Member] = {}
        self._entries: dict[str, ManagedServer] = {}
        self._left_at: dict[str, float] = {}  # when each known server left the group
        self._report = Report()
        self._add_members(servers)

    @classmethod
    def from_config(
        cls,
        source: Any,
        *,
        layers: Iterable[Any] = (),
        environment: Mapping[str, str] | None = None,
        only: Iterable[str] | None = None,
        deny_urls: Iterable[str] = (),
        **options: Any,
    ) -> Self:
        """Create a group from a configuration; see `mcpwire.config.load`.

        Raises:
            ConfigError: The configuration is invalid; names file, entry and field.
        """
        from mcpwire.config import load

        configuration = load(
            source, tuple(layers), environment, only=only, deny_urls=deny_urls
        )
        return cls(configuration.members(), **options)

    # Servers

    def __getitem__(self, name: str) -> ClientT:
        """Return a server's client.

        The client of a lazy server may not be connected yet: `client` connects it.

        Raises:
            UnknownServer: No server has this name; `NotConnected`: it is configured.
        """
        client = self.client_of(name)
        self._entries[name].is_pinned = True
        return client

    def client_of(self, name: str) -> ClientT:
        """Return a server's client for short use: it may be closed when idle."""
        entry = self._entries.get(name)
        if entry is None or not entry.is_in_group:
            raise self._not_connected_error(name)
        return cast("ClientT", entry.client)

    def __contains__(self, name: object) -> bool:
        entry = self._entries.get(name) if isinstance(name, str) else None
        return entry is not None and entry.is_in_group

    def __iter__(self) -> Iterator[str]:
        return iter([name for name in tuple(self._members) if name in self])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        states = ", ".join(
            f"{name} {each.state}" for name, each in self.status().items()
        )
        return f"<mcpwire.Group {states or 'empty'}>"

    @property
    def report(self) -> Report:
        """The report of the last `connect_all`."""
        return self._report

    @property
    def problems(self) -> dict[str, Exception]:
        """The errors of servers that are not ready, by server name."""
        entries = (self._entries.get(name) for name in tuple(self._members))
        return {
            entry.name: entry.problem
            for entry in entries
            if entry is not None and entry.problem is not None
        }

    def status(self) -> dict[str, ServerStatus]:
        """Return the current status of each configured server, by name."""
        statuses: dict[str, ServerStatus] = {}
        for name in tuple(self._members):
            entry, since = self._entries.get(name), self._left_at.get(name, 0.0)
            idle = ServerStatus(server=name, state="idle", since=since)
            statuses[name] = idle if entry is None else entry.status()
        return statuses

    def instructions(self) -> dict[str, str]:
        """Return the `instructions` of the servers that sent them, by server name."""
        texts = {name: self._entries[name].client.instructions for name in self}
        return {name: text for name, text in texts.items() if text is not None}

    def rules(self, name: str) -> ServerRules | None:
        """Return the rules for one server's tools; ``None``: the server is unknown."""
        member = self._members.get(name)
        return None if member is None else member.rules()

    def server_info(self, server: str) -> dict[str, Any]:
        """Return a server's description of itself as JSON, without sending a request.

        The keys are `protocolVersion`, `capabilities`, and if the server sent them,
        `serverInfo` and `instructions`.

        Raises:
            UnknownServer: No server has this name, or it is not connected yet.
        """
        client: Any = self.client_of(server)
        if client.protocol_version is None:
            raise self._not_connected_error(server)
        info = {
            "protocolVersion": client.protocol_version,
            "serverInfo": client.server_info,
            "capabilities": client.capabilities,
            "instructions": client.instructions,
        }
        return {
            name: value if isinstance(value, str) else encode(value)
            for name, value in info.items()
            if value is not None
        }

    # Handlers of server requests

    def set_handlers(
        self,
        name: str | None = None,
        *,
        sampling: SamplingHandler | Sampling | Unset | None = UNSET,
        elicitation: FormHandler | Elicitation | Unset | None = UNSET,
        roots: Roots | Unset | None = UNSET,
    ) -> None:
        """Set the handlers of one server's requests; without `name` the default ones.

        Allowed at any time, also for an unknown name; takes effect at once. ``None``
        removes a handler; omitted ones stay. The declared capabilities follow as
        described in `Client.set_handlers`: in a session with the next handshake.

        Raises:
            ValueError: A handler has the wrong type; names it, changes nothing.
        """
        handlers = {"sampling": sampling, "elicitation": elicitation, "roots": roots}
        handlers = {key: value for key, value in handlers.items() if value is not UNSET}
        from mcpwire.protocol.client_features import ClientFeatures

        ClientFeatures().replace(handlers)
        if name is None:
            self._handlers.update(handlers)
        else:
            self._own_handlers.setdefault(name, {}).update(handlers)
        for server, entry in tuple(self._entries.items()):
            if name in {None, server}:
                effective = self._handlers_for(server)
                entry.client.set_handlers(**{key: effective[key] for key in handlers})

    # Internal

    def abandon(self) -> bool:
        """Discard every connection at once; return whether there was one."""
        return bool(
            sum(entry.client.abandon() for entry in tuple(self._entries.values()))
        )

    def needs_loop(self) -> bool:
        """Return whether any connection is open or being opened."""
        return any(entry.client.needs_loop() for entry in tuple(self._entries.values()))

    def _is_subscribed(self, server: str, uri: str) -> bool:
        entry = self._entries.get(server)
        return entry is not None and uri in entry.client.subscribed

    def _add_members(self, servers: Mapping[str, Any]) -> None:
        """Record configured servers, all or none."""
        members: dict[str, Member] = {}
        name: Any
        for name, target in servers.items():
            if not isinstance(name, str) or not name:
                raise ValueError(f"a server's name must be a string, got {name!r}")
            try:
                member = members[name] = Member.of(target)
                if self._make_client is None:
                    resolve_target(member.target)
            except ValueError as error:
                raise ValueError(f"server {name!r}: {error}") from None
        self._members.update(members)

    def _handlers_for(self, name: str) -> dict[str, Any]:
        """Return the handlers of a server's requests: its own before the group's."""
        own = self._members[name].client_options()
        return {
            **dict.fromkeys(HANDLERS),
            **self._handlers,
            **{key: own[key] for key in HANDLERS if key in own},
            **self._own_handlers.get(name, {}),
        }

    def _check_can_connect(self, name: str) -> None:
        entry = self._entries.get(name)
        if entry is not None and (entry.is_connecting or entry.state == "ready"):
            raise already_connected(name)

    def _is_ready(self, name: str) -> bool:
        entry = self._entries.get(name)
        return entry is not None and entry.state == "ready"

    def _not_connected_error(self, server: str) -> MCPError:
        if server not in self._members:
            return UnknownServer(server, known=self._members)
        entry = self._entries.get(server)
        problem = None if entry is None else entry.problem
        return NotConnected(server, known=self._members, problem=problem)


def already_connected(name: str) -> LocalProtocolError:
    """Return the error for a name that is in use."""
    return LocalProtocolError(
        f"the server {name!r} is connected already; replace=True closes that one first"
    )


def make_report(
    names: Iterable[str],
    failed: Mapping[str, Exception],
    entries: Mapping[str, ManagedServer],
) -> Report:
    """Return the report of connecting these servers, in the given order."""
    order = tuple(names)
    return Report(
        ok=tuple(
            name
            for name in order
            if name in entries and entries[name].has_connected and name not in failed
        ),
        failed={name: failed[name] for name in order if name in failed},
        seconds={name: entries[name].seconds for name in order if name in entries},
    )


def as_reference(ref: Any) -> Any:
    """Return the reference of a completion, a mapping decoded to its type."""
    if not isinstance(ref, Mapping):
        return ref
    from mcpwire.errors import InvalidMessage
    from mcpwire.types import PromptReference, ResourceTemplateReference, decode

    kinds: dict[Any, Any] = {
        "ref/prompt": PromptReference,
        "ref/resource": ResourceTemplateReference,
    }
    kind = ref.get("type")
    if not isinstance(kind, str) or kind not in kinds:
        raise LocalProtocolError(
            f"ref: expected a type of {', '.join(kinds)}, got {kind!r}"
        )
    try:
        return decode(kinds[kind], dict(ref))
    except InvalidMessage as error:
        raise LocalProtocolError(f"ref: {error}") from None
