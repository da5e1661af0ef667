"""Targets of clients (`Stdio`, URLs, objects), and openers for each kind of target."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

import attrs

from mcpwire.errors import ConnectError
from mcpwire.limits import DEFAULT_RECOVERY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from mcpwire.limits import Limits, Recovery
    from mcpwire.transports.base import Channel, Inbound
    from mcpwire.transports.channel_adapter import ChannelAdapter
    from mcpwire.transports.duplex import Duplex
    from mcpwire.transports.http.legacy_sse import LegacyChannel
    from mcpwire.transports.http.streamable import HttpChannel
    from mcpwire.transports.http.target import Http, Memory
    from mcpwire.transports.memory import MemoryChannel
    from mcpwire.transports.oauth.authorizer import DeadlinePauser

    OpenChannel = Duplex | HttpChannel | ChannelAdapter

_INHERITED_NAMES: Final = (
    "APPDATA HOMEDRIVE HOMEPATH LOCALAPPDATA PATH PATHEXT PROCESSOR_ARCHITECTURE "
    "SYSTEMDRIVE SYSTEMROOT TEMP USERNAME USERPROFILE"
    if sys.platform == "win32"
    else "HOME LANG LC_ALL LC_CTYPE LOGNAME PATH SHELL TERM TMPDIR TZ USER"
)
INHERITED: Final = tuple(_INHERITED_NAMES.split())
"""Environment variables that each child inherits: enough to run, without secrets."""


def _to_strings(value: Iterable[str | os.PathLike[str]]) -> tuple[str, ...]:
    if isinstance(value, str):
        raise ValueError(f"args must be a list of arguments, got the string {value!r}")
    return tuple(os.fspath(item) for item in value)


def _to_names(value: bool | Iterable[str]) -> bool | tuple[str, ...]:  # noqa: FBT001 - public option
    return value if isinstance(value, bool) else _to_strings(value)


def _mask_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command without the secrets in URLs.

    Words with expanded variables are shown with their variables (`unexpanded`).
    """
    written = (getattr(word, "unexpanded", word) for word in words)
    return tuple(_mask_word(word) if "://" in word else word for word in written)


def _mask_word(word: str) -> str:
    import re

    from mcpwire.wire.urls import mask_url

    url = re.search(r"[A-Za-z][A-Za-z0-9+.-]*://", word)
    start = url.start() if url is not None else 0
    return word[:start] + mask_url(word[start:])


@attrs.frozen
class Stdio:
    """A server that is started as a child process.

    The command is run as given, without a shell. Its environment has a short list of
    harmless variables (`INHERITED`) and those of `env`, not the whole environment.
    """

    command: str = attrs.field(converter=os.fspath)
    """The program: a name that is searched in PATH, or a path."""

    args: tuple[str, ...] = attrs.field(
        default=(), converter=_to_strings, repr=lambda args: repr(_mask_words(args))
    )
    """The arguments, passed unchanged to the program. Reprs and messages show URLs in
    them without userinfo, query and fragment; put other secrets into `env`."""

    env: Mapping[str, str] | None = attrs.field(
        default=None, kw_only=True, repr=lambda env: repr(sorted(env or ()))
    )
    """Environment variables to add or replace. The repr shows only their names."""

    inherit_env: bool | tuple[str, ...] = attrs.field(
        default=(), kw_only=True, converter=_to_names
    )
    """Names of further environment variables to inherit; ``True``: all variables."""

    cwd: str | None = attrs.field(
        default=None, kw_only=True, converter=attrs.converters.optional(os.fspath)
    )
    """The working directory of the child; by default that of this process."""

    stderr: str | Callable[[bytes], None] = attrs.field(default="tail", kw_only=True)
    """``"tail"`` keeps the last part for error messages, ``"inherit"`` writes to the
    stderr of this process; a function gets the bytes as read (the tail is kept too)."""

    @env.validator
    def _check_env(self, _: Any, value: Mapping[Any, Any] | None) -> None:
        # A number is the usual mistake. Values may be secrets, so they are not shown.
        for name, text in (value or {}).items():
            if not isinstance(name, str) or not isinstance(text, str):
                raise ValueError(
                    f"env must map names to strings, got {type(text).__name__} "
                    f"for {name!r}"
                )

    @stderr.validator
    def _check_stderr(self, _: Any, value: object) -> None:
        if value not in {"tail", "inherit"} and not callable(value):
            raise ValueError(
                f"stderr must be 'tail', 'inherit' or a function, got {value!r}"
            )

    def __str__(self) -> str:
        """Return the command line in shell syntax, without the secrets in URLs."""
        import shlex

        line = shlex.join(_mask_words((self.command, *self.args)))
        if line.isprintable():
            return line
        # A script in an argument may have many lines, but a message has one.
        return "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)

    def environment(self) -> dict[str, str]:
        """Return the environment of the child.

        Raises:
            ConnectError: `inherit_env` names a variable that is not set.
        """
        if self.inherit_env is True:
            variables = dict(os.environ)
        else:
            names = (*INHERITED, *(self.inherit_env or ()))
            variables = {name: os.environ[name] for name in names if name in os.environ}
            missing = [name for name in self.inherit_env or () if name not in variables]
            if missing:
                raise ConnectError(
                    f"inherit_env names variables that are not set: {missing}",
                    target=self.command,
                )
        # Exported shell functions are left out: a shell in the child may run them.
        variables = {k: v for k, v in variables.items() if not v.startswith("()")}
        return {**variables, **(self.env or {})}


def parse_command(text: str) -> Stdio:
    """Return the target of a command line; split it as a POSIX shell, without one."""
    import shlex

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"cannot split the command line {text!r}: {error}") from error
    if not words:
        raise ValueError("the command line is empty")
    return Stdio(words[0], words[1:])


class InMemoryServer(Protocol):
    """A server object in this process."""

    def open_in_memory(self, client: Inbound, limits: Limits) -> MemoryChannel:
        """Start serving one connection; return its client end."""


class CustomTransport(Protocol):
    """A custom transport: `Stream`, `Messages`, `Reverse` or a user's class."""

    def open_channel(
        self, inbound: Inbound, limits: Limits
    ) -> Channel | Awaitable[Channel]:
        """Open a connection that passes messages of the server to `inbound`.

        Args:
            inbound: Gets them, and the loss of the connection, on the caller's loop.
            limits: Limits on the resources that the peer may use.
        """


CommandWords: TypeAlias = "Sequence[str | os.PathLike[str]]"
SimpleTarget: TypeAlias = "str | CommandWords | os.PathLike[str] | Mapping[str, Any]"
Target: TypeAlias = "SimpleTarget | Stdio | Http | InMemoryServer | CustomTransport"
"""A URL, a command line, the list of its words, the path of a Python file, a dict of
``mcpServers`` with one server, or an object with more options."""


@attrs.frozen
class ChannelOpener:
    """A factory for channels to one target, which are opened one after the other."""

    target: str
    """The target as one line for messages."""

    open: Callable[[Inbound], OpenChannel]

    memory: Memory | None = None
    """Facts remembered about an HTTP server; ``None`` if the target is no URL."""

    open_legacy: Callable[[Inbound], LegacyChannel] | None = None
    """Opens the HTTP+SSE transport of 2024-11-05 to the same URL."""

    pauser: DeadlinePauser | None = None
    """Pauses deadlines while a user logs in; ``None`` if there is no login."""


def insert_target(command: Sequence[str], target: Sequence[str]) -> list[str]:
    """Return a client's command with the command line or URL of its server inserted.

    ``{target}`` is replaced by the URL, or by the command line quoted for a shell;
    without it, the words of `target` are appended.
    """
    import shlex

    if any("{target}" in word for word in command):
        return [word.replace("{target}", shlex.join(target)) for word in command]
    return [*command, *target]


def resolve_target(target: Any) -> Stdio | Http | InMemoryServer | CustomTransport:
    """Return the target object for a user's target; raise `ValueError` for others."""
    if isinstance(target, str):
        if not is_url(target):
            return parse_command(target)
        from mcpwire.transports.http.target import Http

        return Http(target.strip())
    if isinstance(target, Stdio):
        return target
    for method in ("open_in_memory", "open_channel"):
        if callable(getattr(target, method, None)):
            return cast("InMemoryServer | CustomTransport", target)
    # Imported here, because clients of child processes do not need HTTP.
    from mcpwire.transports.http.target import Http

    parsed = target if isinstance(target, Http) else parse_target(target)
    if parsed is not None:
        return parsed
    raise ValueError(
        "a target is a URL, a command line, a list of its words, the path of a Python "
        "file, an mcpServers dict, an Http, a Stdio, a Stream, Messages, a Reverse, a "
        f"server object or an object with open_channel, got {target!r}"
    )


def parse_target(target: Any) -> Stdio | Http | None:
    """Return the target object for a list, a path or a dict; ``None`` for others."""
    if isinstance(target, (list, tuple)):
        if not target:
            raise ValueError("the command line is empty")
        return Stdio(target[0], target[1:])
    if isinstance(target, Mapping):
        return _parse_config(target)
    if hasattr(target, "__fspath__"):
        path = os.fsdecode(target)
        if not path.endswith(".py"):
            raise ValueError(
                "a path as a target must be that of a Python file (.py), got "
                f"{path!r}: give a command as a list of its words"
            )
        return Stdio(sys.executable, [path])
    return None


def _parse_config(document: Mapping[str, Any]) -> Stdio | Http:
    from mcpwire.config.loading import load
    from mcpwire.errors import ConfigError

    try:
        enabled = load(document).enabled
    except ConfigError as error:
        raise ValueError(str(error)) from error
    if len(enabled) != 1:
        raise ValueError(
            f"a client connects to one server, and mcpServers has {len(enabled)} that "
            "are enabled: use mcpwire.Group.from_config"
        )
    ((name, entry),) = enabled.items()
    if options := entry.member_options():
        raise ValueError(
            f"server {name!r}: a client does not apply {', '.join(options)}: use "
            "mcpwire.Group.from_config"
        )
    return entry.to_target()


def is_url(text: str) -> bool:
    """Return whether a text target is a URL; otherwise it is a command line."""
    return "://" in text.strip().partition(" ")[0]


def make_opener(
    target: Any, limits: Limits, recovery: Recovery = DEFAULT_RECOVERY
) -> ChannelOpener:
    """Return an opener of channels to a target."""
    resolved: Any = resolve_target(target)
    if isinstance(resolved, Stdio):
        return _stdio_opener(resolved, limits)
    if hasattr(resolved, "open_in_memory"):
        return ChannelOpener(
            f"{type(resolved).__name__} in memory",
            lambda inbound: cast(
                "OpenChannel", resolved.open_in_memory(inbound, limits)
            ),
        )
    if hasattr(resolved, "open_channel"):
        return _custom_opener(resolved, limits)
    return _http_opener(resolved, limits, recovery)


def _stdio_opener(target: Stdio, limits: Limits) -> ChannelOpener:
    def open_stdio(inbound: Inbound) -> OpenChannel:
        # Imported here, because only clients of child processes need it.
        import asyncio

        from mcpwire.transports.duplex import can_watch
        from mcpwire.transports.stdio import FallbackChannel, StdioChannel

        is_watchable = can_watch(asyncio.get_running_loop())
        return (StdioChannel if is_watchable else FallbackChannel)(
            inbound, target, limits
        )

    return ChannelOpener(str(target), open_stdio)


def _custom_opener(target: Any, limits: Limits) -> ChannelOpener:
    from mcpwire.transports.channel_adapter import ChannelAdapter, target_name
    from mcpwire.transports.custom import LinkTarget

    def open_custom(inbound: Inbound) -> OpenChannel:
        if isinstance(target, LinkTarget):
            return cast("OpenChannel", target.open_channel(inbound, limits))
        return ChannelAdapter(inbound, target, limits)

    return ChannelOpener(target_name(target), open_custom)


def _http_opener(target: Http, limits: Limits, recovery: Recovery) -> ChannelOpener:
    authorizer = None  # shared by all connections to the target
    if target.grant is not None:
        from mcpwire.transports.oauth.authorizer import Authorizer

        authorizer = Authorizer(target.grant, target, limits)

    def open_http(inbound: Inbound) -> OpenChannel:
        from mcpwire.transports.http.engine import open_engine
        from mcpwire.transports.http.streamable import HttpChannel

        return HttpChannel(
            target,
            open_engine(target, limits),
            inbound,
            limits=limits,
            recovery=recovery,
            authorizer=authorizer,
        )

    def open_legacy(inbound: Inbound) -> LegacyChannel:
        from mcpwire.transports.http.engine import open_engine
        from mcpwire.transports.http.legacy_sse import LegacyChannel

        engine = open_engine(target, limits)
        return LegacyChannel(target, engine, inbound, limits, authorizer)

    pauser = authorizer.pauser if authorizer is not None else None
    return ChannelOpener(str(target), open_http, target.memory, open_legacy, pauser)
