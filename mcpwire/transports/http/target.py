"""The target `Http`: a URL and the options of its connections.

The options are checked when an `Http` is created, not at the first request. Credentials
are sent over https, or to this machine, only (2025-11-25 basic/authorization,
"Communication Security"), unless `allow_insecure` is set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs

from mcpwire.errors import LocalProtocolError
from mcpwire.limits import check_timeout, choice_validator, validate_switch
from mcpwire.protocol.http_headers import check_headers
from mcpwire.wire.urls import Url, mask_url, parse_url

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from ssl import SSLContext

    from mcpwire.auth.config import Grant, GrantOptions
    from mcpwire.versions import Era

    Pairs: TypeAlias = Mapping[str, str]
    Headers: TypeAlias = Pairs | Callable[[], Pairs | Awaitable[Pairs]]
    ClientCert: TypeAlias = "str | tuple[str, str] | tuple[str, str, str | bytes]"

_CREDENTIAL: Final = re.compile(
    r"auth(?:$|[-_]|oriz|entic)|cookie|token|secret|passw|credential|(?:api|access)[-_]?key",
    re.IGNORECASE,
)


def is_credential(name: str) -> bool:
    """Return whether a header with this name is likely to contain a secret."""
    return _CREDENTIAL.search(name) is not None


@attrs.define(eq=False)
class Memory:
    """Properties of a server that are remembered for the next connection to it."""

    era: Era | None = None
    """The era that the server supports; a contradiction resets it."""

    legacy: bool = False
    """Whether the server uses HTTP+SSE, the transport of 2024-11-05."""

    streamless: bool = False
    """Whether the server has answered 405 to the GET for its stream."""


def _as_path(value: str | os.PathLike[str] | None) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _cert_paths(value: ClientCert | os.PathLike[str] | None) -> Any:
    if isinstance(value, (tuple, list)):
        parts: tuple[Any, ...] = tuple(value)
        return tuple(_as_path(part) for part in parts)
    return _as_path(value)


def _copy_mapping(value: Headers | None) -> Headers | None:
    return dict(value) if isinstance(value, Mapping) else value


def _as_timeout(value: float | None) -> float | None:
    return check_timeout(value, "connect_timeout")


def _bool_field(default: bool) -> bool:  # noqa: FBT001 - the default of a public option
    field: bool = attrs.field(default=default, kw_only=True, validator=validate_switch)
    return field


@attrs.frozen(repr=False)
class Http:
    """A server at a URL, over Streamable HTTP or the older HTTP+SSE.

    One object may be used for many connections; properties of the server that one
    connection finds are kept in `memory` for the next.
    """

    url: str
    """An absolute http or https URL, without user name and fragment. Its query may
    contain secrets: messages and reprs never show it."""

    headers: Headers | None = attrs.field(
        default=None, kw_only=True, converter=_copy_mapping, hash=False
    )
    """Header fields of every request: a mapping, or a function, plain or async, that
    returns one and is called before each request. If it raises, nothing is sent."""

    auth: str | GrantOptions | None = attrs.field(default=None, kw_only=True)
    """Authorization: ``"oauth"`` with the user's browser; any other string is a bearer
    token, sent unchanged; or a grant with options: `OAuth`, `ClientCredentials`,
    `WorkloadIdentity` or `EnterpriseManaged`."""

    server_stream: Literal["auto", "always", "never"] = attrs.field(
        default="auto",
        kw_only=True,
        validator=choice_validator("auto", "always", "never"),
    )
    """Whether each session keeps a GET stream open for messages from the server:
    ``"always"``, ``"never"``, or ``"auto"``: always, unless the server has answered 405
    and no handler or subscription needs the stream."""

    follow_redirects: bool = _bool_field(default=False)
    """Whether to follow a 307 or 308 within the same origin; a request with credentials
    is only redirected to the same URL."""

    ssl: SSLContext | None = attrs.field(default=None, kw_only=True)
    """An SSL context of your own, used unchanged."""

    ca_file: str | None = attrs.field(default=None, kw_only=True, converter=_as_path)
    """A PEM file with the trusted authorities, instead of the system's."""

    client_cert: ClientCert | None = attrs.field(
        default=None, kw_only=True, converter=_cert_paths
    )
    """The client certificate: a PEM file that includes the key, ``(certificate, key)``
    or ``(certificate, key, password)``."""

    proxy: str | None = attrs.field(default=None, kw_only=True)
    """The URL of a proxy; it may contain a user name and a password."""

    trust_env: bool = _bool_field(default=True)
    """Whether to use ``HTTPS_PROXY``, ``NO_PROXY``, ``SSL_CERT_FILE`` and the like."""

    http_client: Any = attrs.field(default=None, kw_only=True)
    """An `httpx` client of your own, with its TLS and proxy; it is not closed."""

    http2: bool = _bool_field(default=False)
    """Whether to offer HTTP/2; needs the package h2."""

    engine: Literal["auto", "direct", "httpx"] = attrs.field(
        default="auto",
        kw_only=True,
        validator=choice_validator("auto", "direct", "httpx"),
    )
    """The HTTP engine: ``"auto"`` is ``"direct"`` if possible, else ``"httpx"``."""

    connect_timeout: float | None = attrs.field(
        default=10.0, kw_only=True, converter=_as_timeout
    )
    """Maximum seconds to open one connection, TLS included; ``None``: no limit."""

    allow_insecure: bool = _bool_field(default=False)
    """Whether credentials may be sent unencrypted to another machine."""

    public_only: bool = _bool_field(default=False)
    """Whether to connect to public addresses only, also after name resolution. A proxy
    or an `http_client` opens its own connections, without this check."""

    parsed: Url = attrs.field(init=False, eq=False)
    """The parts of the URL."""

    static_headers: tuple[tuple[str, str], ...] = attrs.field(init=False, eq=False)
    """The constant headers as pairs: `headers` as a mapping, and a bearer token."""

    grant: Grant | None = attrs.field(init=False, eq=False, default=None)
    """The grant that obtains tokens; ``None`` with a constant token or none."""

    memory: Memory = attrs.field(init=False, eq=False, factory=Memory)
    """Properties of the server, found by earlier connections."""

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.url, str):
            raise ValueError(f"url must be a string, got {type(self.url).__name__}")
        parsed = parse_url(self.url)
        if parsed.fragment is not None:
            raise ValueError(f"cannot use URL '{parsed}': it must not hold a fragment")
        object.__setattr__(self, "parsed", parsed)
        _check_options(self)
        object.__setattr__(self, "static_headers", _make_static_headers(self))
        object.__setattr__(self, "grant", _make_grant(self))

    @property
    def has_static_headers(self) -> bool:
        """Whether the headers are the same for every request."""
        return not callable(self.headers)

    def check(self, headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """Return checked headers as pairs with names in lower case.

        Raises:
            LocalProtocolError: A header is invalid, conflicts with `auth`, or is a
                secret that would be sent unencrypted to another machine.
        """
        pairs = check_headers(headers)
        if self.grant is not None and any(name in _TOKEN_HEADERS for name, _ in pairs):
            raise LocalProtocolError(
                "auth= and an authorization header exclude each other"
            )
        if self.allow_insecure or self.parsed.is_secure:
            return pairs
        for name, _ in pairs:
            if is_credential(name):
                raise LocalProtocolError(
                    f"header {name!r} would be sent unencrypted to '{self}': use "
                    "https, or pass allow_insecure=True"
                )
        return pairs

    def __str__(self) -> str:
        """Return the URL without secrets and with its variables unexpanded."""
        is_filled = hasattr(self.url, "unexpanded")
        return mask_url(self.url) if is_filled else str(self.parsed)

    def __repr__(self) -> str:
        shown = [repr(str(self))]
        for field in attrs.fields(Http):
            value = getattr(self, field.name)
            if field.init and field.kw_only and value != field.default:
                show = _FORMATTERS.get(field.name, repr)
                shown.append(f"{field.name}={show(value)}")
        return f"Http({', '.join(shown)})"


def _repr_headers(headers: Any) -> str:
    if callable(headers):
        return f"<{getattr(headers, '__qualname__', type(headers).__qualname__)}>"
    return repr(sorted(headers))


def _repr_kind(value: object) -> str:
    return f"<{type(value).__name__}>"


_FORMATTERS: Final[dict[str, Callable[[Any], str]]] = {
    "auth": lambda auth: repr(
        "***" if isinstance(auth, str) and auth != "oauth" else auth
    ),
    "headers": _repr_headers,
    "client_cert": lambda cert: repr(cert if isinstance(cert, str) else cert[:2]),
    "proxy": lambda url: repr(mask_url(url)),
    "ssl": _repr_kind,
    "http_client": _repr_kind,
}
"""Formatters of options that may contain secrets, or have no readable repr."""


def _make_static_headers(target: Http) -> tuple[tuple[str, str], ...]:
    """Return the constant headers of every request, a bearer token included."""
    headers: Any = target.headers
    if not (headers is None or callable(headers) or isinstance(headers, Mapping)):
        kind = type(headers).__name__
        raise ValueError(f"headers must be a mapping or a function, got {kind}")
    auth = target.auth
    try:
        pairs = () if headers is None or callable(headers) else target.check(headers)
        if auth is not None and any(name == "authorization" for name, _ in pairs):
            raise ValueError("auth= and an authorization header exclude each other")
        if not isinstance(auth, str) or auth == "oauth":
            return pairs
        # RFC 6750, 2.1; an invalid token is not shown either.
        if _TOKEN.fullmatch(auth) is None or auth.lower() == "oauth":
            raise ValueError(
                "auth must be 'oauth', a token (without 'Bearer') or a grant such as "
                f"mcpwire.OAuth(), got a text of {len(auth)} characters that is not a "
                "token"
            )
        return pairs + target.check({"authorization": f"Bearer {auth}"})
    except LocalProtocolError as error:
        raise ValueError(str(error)) from error


def _make_grant(target: Http) -> Grant | None:
    """Return the grant that obtains tokens, if there is one."""
    auth: Any = target.auth
    if auth is None or (isinstance(auth, str) and auth != "oauth"):
        return None
    # Imported here, as only targets with OAuth need these modules.
    from mcpwire.auth.config import Grant, OAuth
    from mcpwire.auth.errors import UrlRefused
    from mcpwire.auth.url_policy import check_server_url

    grant: Any = OAuth() if auth == "oauth" else auth
    if not isinstance(grant, Grant):
        raise ValueError(
            "auth must be 'oauth', a token or a grant such as mcpwire.OAuth(), got "
            f"{type(grant).__name__}"
        )
    try:
        check_server_url(
            target.parsed, str(target), allow_insecure=target.allow_insecure
        )
    except UrlRefused as error:
        raise ValueError(str(error)) from error
    return grant


_TOKEN_HEADERS: Final = frozenset({"authorization", "dpop"})
"""The header fields that contain tokens."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")

_TLS: Final = ("ssl", "ca_file", "client_cert")


_EXCLUSIONS: Final[tuple[tuple[str, tuple[str, ...], str], ...]] = (
    ("ssl", ("ca_file", "client_cert"), "load it into that context"),
    ("http_client", (*_TLS, "proxy", "http2"), "configure that client"),
)
"""Options, the options that they exclude, and the advice in the error message."""


def _used_options(target: Http, *names: str) -> list[str]:
    return [name for name in names if getattr(target, name) not in (None, False)]


def _check_options(target: Http) -> None:
    """Check options that exclude each other, or that only one engine supports."""
    _check_types(target)
    used = _used_options(target, *_TLS, "http2")
    if used and target.parsed.scheme == "http":
        raise ValueError(f"{used[0]} needs an https URL, got '{target}'")
    for name, others, advice in _EXCLUSIONS:
        used = _used_options(target, *others)
        if used and _used_options(target, name):
            raise ValueError(f"{name}= and {used[0]}= exclude each other: {advice}")
    if _used_options(target, "ca_file", "client_cert"):
        from mcpwire.transports.http.tls import check_files

        check_files(target)
    client = target.http_client
    if target.auth is not None and getattr(client, "auth", None) is not None:
        raise ValueError(
            "auth= and the http_client's own auth exclude each other: it would "
            "write over the token"
        )
    used = _used_options(target, "http_client", "proxy", "http2")
    if used and target.engine == "direct":
        raise ValueError(f"engine='direct' cannot do {used[0]}=: leave engine out")
    # An httpx transport of ours would connect to any address.
    is_by_httpx = target.engine == "httpx" or target.http2
    if target.public_only and is_by_httpx and client is None and target.proxy is None:
        raise ValueError(
            "public_only is kept by our own exchange: leave engine and http2 out"
        )
    if target.http2:
        from importlib.util import find_spec

        if find_spec("h2") is None:
            raise ValueError("http2 needs h2: pip install h2")


def _check_types(target: Any) -> None:
    if not isinstance(target.ca_file, str | None):
        kind = type(target.ca_file).__name__
        raise ValueError(f"ca_file must be a path, got {kind}")
    cert = target.client_cert
    paths = cert[:2] if isinstance(cert, tuple) else (cert,)
    if cert is not None and not (
        all(isinstance(path, str) for path in paths)
        and (isinstance(cert, str) or len(cert) in {2, 3})
    ):
        raise ValueError(
            "client_cert must be a path, (certificate, key) or (certificate, key, "
            "password)"
        )
    if target.ssl is not None:
        import ssl

        if not isinstance(target.ssl, ssl.SSLContext):
            raise ValueError(f"ssl must be an ssl.SSLContext, got {target.ssl!r}")
    client = target.http_client
    if client is not None and not all(
        callable(getattr(client, name, None)) for name in ("build_request", "send")
    ):
        raise ValueError(
            f"http_client must be an httpx client, got {type(client).__name__}"
        )
    if target.proxy is not None:
        _check_proxy(target.proxy)


def _check_proxy(proxy: Any) -> None:
    if not isinstance(proxy, str):
        raise ValueError(f"proxy must be a URL, got {type(proxy).__name__}")
    # A SOCKS URL differs from an HTTP URL in its scheme only.
    match = re.match(r"socks5h?(?=://)", proxy, flags=re.IGNORECASE)
    text = proxy if match is None else f"http{proxy[match.end() :]}"
    try:
        parsed = parse_url(text, allow_userinfo=True)
    except ValueError as error:
        raise ValueError(f"proxy: {error}") from error
    if parsed.target != "/" or parsed.fragment is not None:
        raise ValueError(
            f"proxy must have no path, query or fragment, got '{mask_url(proxy)}'"
        )
