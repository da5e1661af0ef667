"""One configured server, and the targets that are made of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from mcpwire.wire.urls import mask_url

if TYPE_CHECKING:
    from mcpwire.group import Member
    from mcpwire.transports.http.target import Http
    from mcpwire.transports.targets import Stdio

__all__ = ["HTTP_FIELDS", "ServerEntry"]

HTTP_FIELDS: Final = (
    "ca_file",
    "client_cert",
    "proxy",
    "allow_insecure",
    "headers",
    "auth",
)
"""What an entry may say of a URL, in the order in which it is checked."""


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _copied(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _shown_url(value: str | None) -> str:
    return repr(value if value is None else mask_url(value))


def _shown_args(value: tuple[str, ...]) -> str:
    return repr(tuple(mask_url(item) if "://" in item else item for item in value))


def _shown_names(value: Mapping[str, str] | None) -> str:
    return repr(value if value is None else sorted(value))


def _shown_auth(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"<{value.get('type')}>"
    return repr(value if value in {None, "oauth"} else "***")


@attrs.frozen(kw_only=True, repr=False)
class ServerEntry:
    """What a configuration says of one server, its variables filled in.

    Secrets stay out of the repr. Entries are equal where they say the same, whichever
    file says it.
    """

    name: str

    transport: Literal["stdio", "http"]
    """Whether it is started or at a URL."""

    enabled: bool = True
    """If not, it is left out; its variables are not filled in."""

    command: str | None = None
    args: tuple[str, ...] = attrs.field(default=(), converter=_tuple, repr=_shown_args)
    env: Mapping[str, str] | None = attrs.field(
        default=None, converter=_copied, repr=_shown_names
    )
    """Variables to set, those of `env_file` among them."""

    inherit_env: bool | tuple[str, ...] = attrs.field(default=(), converter=_tuple)
    cwd: str | None = None

    url: str | None = attrs.field(default=None, repr=_shown_url)
    headers: Mapping[str, str] | None = attrs.field(
        default=None, converter=_copied, repr=_shown_names
    )
    auth: str | Mapping[str, Any] | None = attrs.field(
        default=None, converter=_copied, repr=_shown_auth
    )
    """``"oauth"``, a token, or the table that says more, by our names."""

    ca_file: str | None = None
    client_cert: str | None = None
    proxy: str | None = attrs.field(default=None, repr=_shown_url)
    allow_insecure: bool = False

    timeout: float | None = None
    """Limit of each request, in seconds; ``inf``: none; ``None``: the group's."""

    connect_timeout: float | None = None
    """Limit of connecting, in seconds, likewise."""

    allowed_tools: tuple[str, ...] | None = attrs.field(default=None, converter=_tuple)
    """Globs of the tools there are; ``None``: all. An empty tuple: none."""

    denied_tools: tuple[str, ...] = attrs.field(default=(), converter=_tuple)
    require_confirmation: bool | str | tuple[str, ...] = attrs.field(
        default=(), converter=_tuple
    )
    strip_arguments: tuple[str, ...] = attrs.field(default=(), converter=_tuple)
    trace_context: bool | None = None
    trace_argument: str | None = None
    mode: str | None = None
    """Which protocol era is spoken, as `Client` takes it; ``None``: the group's."""

    revision: str | None = None
    """The only protocol version that is spoken, instead of `mode`."""

    roots: tuple[str, ...] | None = attrs.field(default=None, converter=_tuple)

    file: str | None = attrs.field(default=None, eq=False)
    """The file that says so."""

    def __repr__(self) -> str:
        shown = [repr(self.name)]
        for field in attrs.fields(ServerEntry)[1:]:
            value = getattr(self, field.name)
            if value != field.default:
                show = field.repr if callable(field.repr) else repr
                shown.append(f"{field.name}={show(value)}")
        return f"ServerEntry({', '.join(shown)})"

    def to_target(self) -> Stdio | Http:
        """Return what a client connects to.

        Raises:
            ValueError: A field cannot be what it is; not where `load` made the entry.
        """
        if self.transport == "http":
            from mcpwire.transports.http.target import Http

            return Http(self.url or "", **self.http_options())
        from mcpwire.transports.targets import Stdio

        return Stdio(
            self.command or "",
            self.args,
            env=self.env,
            inherit_env=self.inherit_env,
            cwd=self.cwd,
        )

    def http_options(self) -> dict[str, Any]:
        """Return what `Http` is given beside the URL.

        Raises:
            ValueError: What `auth` says makes no sense.
        """
        options = {name: getattr(self, name) for name in HTTP_FIELDS}
        return {**options, "auth": _grant(self.auth)}

    def paths_of_roots(self) -> list[Any] | None:
        """Return the roots as `Client` takes them: paths, and URIs as they are."""
        if self.roots is None:
            return None
        return [
            root if root.startswith("file://") else Path(root).absolute()
            for root in self.roots
        ]

    def to_member(self) -> Member:
        """Return it as a member of a group, with what it says of calls and tools."""
        from mcpwire.group import Member

        return Member(self.to_target(), **self.member_options())

    def member_options(self) -> dict[str, Any]:
        """Return what `Member` is given beside the target: what the entry says only."""
        allow, deny = self.allowed_tools or (), self.denied_tools
        if self.allowed_tools == ():
            deny = ("*",)  # an empty list of what is allowed allows nothing
        given = {
            "timeout": self.timeout,
            "connect_timeout": self.connect_timeout,
            "allow": allow or None,
            "deny": deny or None,
            "confirm": self.require_confirmation or None,
            "strip_arguments": self.strip_arguments or None,
            "trace_context": self.trace_context,
            "trace_argument": self.trace_argument,
            "mode": self.revision or self.mode,
            "roots": self.paths_of_roots(),
        }
        return {name: value for name, value in given.items() if value is not None}


def _grant(auth: Any) -> Any:
    """Return what `Http` takes as ``auth``."""
    if not isinstance(auth, Mapping):
        return auth
    from mcpwire.auth import config

    kinds: dict[str, Any] = {
        "oauth": config.OAuth,
        "client_credentials": config.ClientCredentials,
        "workload_identity": config.WorkloadIdentity,
        "enterprise_managed": config.EnterpriseManaged,
    }
    options = {name: value for name, value in auth.items() if name != "type"}
    if options.get("timeout") == "inf":
        options["timeout"] = None
    try:
        return kinds[auth["type"]](**options)
    except TypeError as error:
        # A field that has no default; the message names it, and no value.
        missing = str(error).rpartition("argument: ")[2] or "a field"
        raise ValueError(f"{missing} is missing") from error
