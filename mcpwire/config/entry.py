"""`ServerEntry`: one configured server, its target and its `Member`."""

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

HTTP_FIELDS: Final = (
    "ca_file",
    "client_cert",
    "proxy",
    "allow_insecure",
    "headers",
    "auth",
)
"""The fields for `Http` beside the URL, in the order of their checks."""


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _copy(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _repr_url(value: str | None) -> str:
    return repr(value if value is None else mask_url(value))


def _repr_args(value: tuple[str, ...]) -> str:
    return repr(tuple(mask_url(item) if "://" in item else item for item in value))


def _repr_names(value: Mapping[str, str] | None) -> str:
    return repr(value if value is None else sorted(value))


def _repr_auth(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"<{value.get('type')}>"
    return repr(value if value in {None, "oauth"} else "***")


@attrs.frozen(kw_only=True, repr=False)
class ServerEntry:
    """One configured server, with its variables expanded.

    The repr shows no secrets. Entries are equal if all fields but `file` are.
    """

    name: str

    transport: Literal["stdio", "http"]
    """Whether it is a child process or at a URL."""

    enabled: bool = True
    """If not, it is left out, and its variables are not expanded."""

    command: str | None = None
    args: tuple[str, ...] = attrs.field(
        default=(), converter=_as_tuple, repr=_repr_args
    )
    env: Mapping[str, str] | None = attrs.field(
        default=None, converter=_copy, repr=_repr_names
    )
    """Variables to set, with those of `env_file`."""

    inherit_env: bool | tuple[str, ...] = attrs.field(default=(), converter=_as_tuple)
    cwd: str | None = None

    url: str | None = attrs.field(default=None, repr=_repr_url)
    headers: Mapping[str, str] | None = attrs.field(
        default=None, converter=_copy, repr=_repr_names
    )
    auth: str | Mapping[str, Any] | None = attrs.field(
        default=None, converter=_copy, repr=_repr_auth
    )
    """``"oauth"``, a token, or a table with our names for its fields."""

    ca_file: str | None = None
    client_cert: str | None = None
    proxy: str | None = attrs.field(default=None, repr=_repr_url)
    allow_insecure: bool = False

    timeout: float | None = None
    """Limit of each request, in seconds; ``inf``: no limit; ``None``: the group's."""

    connect_timeout: float | None = None
    """Limit of connecting, in seconds, likewise."""

    allowed_tools: tuple[str, ...] | None = attrs.field(
        default=None, converter=_as_tuple
    )
    """Globs of the allowed tools; ``None``: all tools. An empty tuple: no tool."""

    denied_tools: tuple[str, ...] = attrs.field(default=(), converter=_as_tuple)
    require_confirmation: bool | str | tuple[str, ...] = attrs.field(
        default=(), converter=_as_tuple
    )
    strip_arguments: tuple[str, ...] = attrs.field(default=(), converter=_as_tuple)
    trace_context: bool | None = None
    trace_argument: str | None = None
    mode: str | None = None
    """The protocol era, as for `Client`; ``None``: the group's."""

    revision: str | None = None
    """The only protocol version, instead of `mode`."""

    roots: tuple[str, ...] | None = attrs.field(default=None, converter=_as_tuple)

    file: str | None = attrs.field(default=None, eq=False)
    """The file of the entry."""

    def __repr__(self) -> str:
        parts = [repr(self.name)]
        for field in attrs.fields(ServerEntry)[1:]:
            value = getattr(self, field.name)
            if value != field.default:
                format_value = field.repr if callable(field.repr) else repr
                parts.append(f"{field.name}={format_value(value)}")
        return f"ServerEntry({', '.join(parts)})"

    def to_target(self) -> Stdio | Http:
        """Return the target for a `Client`.

        Raises:
            ValueError: A field is invalid; never for an entry made by `load`.
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
        """Return the arguments of `Http` beside the URL.

        Raises:
            ValueError: `auth` is invalid.
        """
        options = {name: getattr(self, name) for name in HTTP_FIELDS}
        return {**options, "auth": _make_grant(self.auth)}

    def paths_of_roots(self) -> list[Any] | None:
        """Return the roots for a `Client`: absolute paths, and URIs unchanged."""
        if self.roots is None:
            return None
        return [
            root if root.startswith("file://") else Path(root).absolute()
            for root in self.roots
        ]

    def to_member(self) -> Member:
        """Return the entry as a member of a group."""
        from mcpwire.group import Member

        return Member(self.to_target(), **self.member_options())

    def member_options(self) -> dict[str, Any]:
        """Return the arguments of `Member` beside the target, without unset ones."""
        allow, deny = self.allowed_tools or (), self.denied_tools
        if self.allowed_tools == ():
            deny = ("*",)  # an empty list of what is allowed allows nothing
        options = {
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
        return {name: value for name, value in options.items() if value is not None}


def _make_grant(auth: Any) -> Any:
    """Return the ``auth`` argument of `Http`."""
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
        # Fields without a default; the message names them, and no value.
        missing = str(error).partition("'")[2].partition("'")[0]
        raise ValueError(f"{missing!r} is missing") from error
