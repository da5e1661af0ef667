"""The OAuth options of a client, validated when they are created.

A secret belongs to one authorization server. It is configured together with its issuer
and is sent to no other, whichever issuer an MCP server names (2026-07-28
basic/authorization/client-registration, "Authorization Server Binding").
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs

from mcpwire.auth.jwt import import_signing_key
from mcpwire.auth.records import check_scope, masked
from mcpwire.auth.registration import check_document_url
from mcpwire.auth.url_policy import parse_identifier
from mcpwire.limits import check_timeout, validate_switch
from mcpwire.wire.urls import is_loopback, mask_url, parse_url

if TYPE_CHECKING:
    from collections.abc import Callable

    Validator: TypeAlias = Callable[[Any, attrs.Attribute[Any], Any], None]

DISCOVERED: Final = "discovered"
"""Replaces an issuer: the secret is sent to any issuer that the MCP server names."""


def _repr_function(value: object) -> str:
    if callable(value):
        return f"<{getattr(value, '__qualname__', type(value).__qualname__)}>"
    return repr(value)


def _repr_supplier(value: object) -> str:
    return _repr_function(value) if callable(value) else masked(value)


def _repr_url(value: object) -> str:
    return repr(mask_url(value) if isinstance(value, str) else value)


def _repr_type(value: object) -> str:
    return "None" if value is None else f"<{type(value).__name__}>"


def _check_text(_: Any, attribute: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{attribute.name} must be a text that is not blank")


def _check_function(_: Any, attribute: attrs.Attribute[Any], value: object) -> None:
    if value is not None and not callable(value):
        raise ValueError(f"{attribute.name} must be a function, got {value!r}")


def _allow_function(check: Validator) -> Validator:
    def validate(instance: Any, attribute: attrs.Attribute[Any], value: object) -> None:
        if not callable(value):
            check(instance, attribute, value)

    return validate


_optional_text: Final[Validator] = attrs.validators.optional(_check_text)
_text_or_function: Final = _allow_function(_check_text)


def _check_storage(_: Any, attribute: attrs.Attribute[Any], value: object) -> None:
    missing = [
        name for name in _STORAGE_METHODS if not callable(getattr(value, name, None))
    ]
    if value is not None and missing:
        raise ValueError(
            f"{attribute.name} must have the methods of Storage, and "
            f"{type(value).__name__} has no {', '.join(missing)}"
        )


_STORAGE_METHODS: Final = ("load", "save", "lease", "release", "keys")


def _parse_scopes(value: str | Iterable[str] | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, str):
        value = value.split()
    if not isinstance(value, Iterable):
        raise ValueError(f"scopes must be texts, got {value!r}")
    return tuple(dict.fromkeys(check_scope(scope) for scope in value))


def _check_count(_: Any, attribute: attrs.Attribute[Any], value: object) -> None:
    if type(value) is not int or value < 0:
        raise ValueError(f"{attribute.name} must be 0 or more, got {value!r}")


def _check_issuer(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is None or value == DISCOVERED:
        return
    _check_text(instance, attribute, value)
    parse_identifier(value, attribute.name)


def _require_issuer(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not value:
        raise ValueError(
            "issuer is missing: a secret goes to one authorization server; name it, or "
            f"pass issuer={DISCOVERED!r} to trust the one that the MCP server names"
        )
    _check_issuer(instance, attribute, value)


def _parse_timeout(value: float | None) -> float | None:
    return check_timeout(value, "timeout")


@attrs.frozen(kw_only=True)
class GrantOptions:
    """The options that all grants share."""

    scopes: tuple[str, ...] | None = attrs.field(default=None, converter=_parse_scopes)
    """The scopes to request instead of the server's, as strings or one string."""

    storage: Any = attrs.field(default=None, repr=_repr_type, validator=_check_storage)
    """Where tokens are stored; ``None``: in memory, and for `OAuth` in a `FileStorage`
    of this user."""

    kept: Any = attrs.field(init=False, default=None, eq=False, repr=False)
    """The storage that is used if `storage` is ``None``, after its first use."""

    profile: str = attrs.field(default="default", validator=_check_text)
    """The name of an account, to distinguish several accounts with one server."""


@attrs.frozen(kw_only=True)
class OAuth(GrantOptions):
    """Login of a user with a browser, once; afterwards the stored tokens are used.

    ``auth="oauth"`` is ``auth=OAuth()``.

    Raises:
        ValueError: An option has a wrong value, or excludes another option.
    """

    client_id: str | None = attrs.field(default=None, validator=_optional_text)
    """The client id that is registered with `issuer`. Without it, the client registers
    itself dynamically, or uses `client_metadata_url` as its id."""

    client_secret: str | None = attrs.field(
        default=None, repr=masked, validator=_optional_text
    )
    """The secret of the client, if it has one; needs `client_id` and `issuer`."""

    issuer: str | None = attrs.field(default=None, validator=_check_issuer)
    """The only authorization server to use, spelled as in its metadata. With a secret,
    ``"discovered"`` trusts any issuer that the MCP server names."""

    client_metadata_url: str | None = attrs.field(
        default=None, validator=_optional_text
    )
    """The URL of this client's client-id metadata document. It is the client id for
    servers that support such documents."""

    redirect_uri: str | None = attrs.field(
        default=None, repr=_repr_url, validator=_optional_text
    )
    """The redirect URI, if it is not a port of this machine. Without `ask`,
    `AuthRequired` then holds the login URL, and `finish_login` completes the login."""

    callback_port: int | None = attrs.field(default=None)
    """The local port of the redirect URI; ``None``: any free port."""

    interactive: bool = attrs.field(default=True, validator=validate_switch)
    """Whether a user may be asked. If not, `AuthRequired` holds the login URL."""

    open_browser: Any = attrs.field(
        default=True, repr=_repr_function, validator=_allow_function(validate_switch)
    )
    """Whether to open the browser, or a function, plain or async, that opens a URL."""

    on_url: Callable[[str], object] | None = attrs.field(
        default=None, repr=_repr_function, validator=_check_function
    )
    """A function, plain or async, that is called with the login URL in addition, such
    as to print it."""

    ask: Callable[[str], Any] | None = attrs.field(
        default=None, repr=_repr_function, validator=_check_function
    )
    """A function, plain or async, that replaces the browser and the callback listener:
    it takes the login URL and returns the whole URL of the response."""

    timeout: float | None = attrs.field(default=300.0, converter=_parse_timeout)
    """The time for a user to log in, in seconds."""

    prompt: str | None = attrs.field(default="consent", validator=_optional_text)
    """The ``prompt`` of the login URL, such as ``"select_account"``; ``"consent"`` is
    sent only with the scope ``offline_access``, and ``None`` never."""

    max_step_ups: int = attrs.field(default=2, validator=_check_count)
    """The maximum number of successive logins for more scopes in one request."""

    client_name: str = attrs.field(default="mcpwire", validator=_check_text)
    """The name that a user sees if the client registers itself."""

    application_type: Literal["native", "web"] | None = attrs.field(
        default=None, validator=attrs.validators.in_(("native", "web", None))
    )
    """The type in a registration; ``None``: derived from the redirect URI."""

    dpop: bool = attrs.field(default=False, validator=validate_switch)
    """Whether to bind tokens to a key of this client (RFC 9449) if the server supports
    that; needs joserfc. If the server demands it, tokens are bound in any case."""

    def __attrs_post_init__(self) -> None:
        if self.client_secret is not None:
            if self.client_id is None:
                raise ValueError("client_secret goes with a client_id")
            _require_issuer(self, attrs.fields(OAuth).issuer, self.issuer)
        elif self.issuer == DISCOVERED:
            object.__setattr__(self, "issuer", None)
        if self.client_metadata_url is not None:
            check_document_url(self.client_metadata_url)
        if self.redirect_uri is not None:
            _check_redirect_uri(self.redirect_uri)
        port: object = self.callback_port
        if port is not None and (type(port) is not int or not 0 < port < 2**16):
            raise ValueError(f"callback_port must be 1 to 65535, got {port!r}")

    @property
    def listens(self) -> bool:
        """Whether this client listens for the browser's response on a local port."""
        return self.redirect_uri is None and self.ask is None


def _check_redirect_uri(text: str) -> None:
    # OAuth 2.1 section 2.3.1; 2026-07-28 basic/authorization/security-considerations,
    # "Communication Security": localhost or HTTPS.
    url = parse_url(text)
    if url.fragment is not None:
        raise ValueError(f"cannot use redirect_uri '{url}': it holds a fragment")
    if not (url.scheme == "https" or is_loopback(url.host)):
        raise ValueError(f"cannot use redirect_uri '{url}': use https, or localhost")


@attrs.frozen(kw_only=True)
class _UnattendedGrant(GrantOptions):
    """The options that all grants without a user share."""

    issuer: str = attrs.field(default="", validator=_require_issuer)
    """The authorization server of the client, spelled as in its metadata;
    ``"discovered"`` trusts any issuer that the MCP server names."""

    client_id: str = attrs.field(validator=_check_text)
    """The client id at `issuer`."""


@attrs.frozen(kw_only=True)
class ClientCredentials(_UnattendedGrant):
    """Login of a program as itself, with a secret or a signed assertion.

    Raises:
        ValueError: An option has a wrong value, or excludes another option.
    """

    client_secret: str | None = attrs.field(
        default=None, repr=masked, validator=_optional_text
    )

    private_key_pem: str | None = attrs.field(
        default=None, repr=masked, validator=_optional_text
    )
    """The private key that signs assertions, instead of a secret; needs joserfc."""

    signing_algorithm: str = attrs.field(default="ES256", validator=_check_text)

    def __attrs_post_init__(self) -> None:
        if (self.client_secret is None) == (self.private_key_pem is None):
            raise ValueError("give either client_secret or private_key_pem")
        if self.private_key_pem is not None:
            import_signing_key(self.private_key_pem, self.signing_algorithm)


@attrs.frozen(kw_only=True)
class WorkloadIdentity(_UnattendedGrant):
    """Login of a workload with a JWT from its platform (RFC 7523).

    Raises:
        ValueError: An option has a wrong value.
    """

    assertion: str | Callable[[], Any] = attrs.field(
        repr=_repr_supplier, validator=_text_or_function
    )
    """The JWT, or a function, plain or async, that returns it for each login."""


@attrs.frozen(kw_only=True)
class EnterpriseManaged(_UnattendedGrant):
    """Login of an employee through the company's identity provider, without a browser.

    The provider exchanges an ID token for an identity assertion (ID-JAG, RFC 8693), and
    the server's authorization server accepts the assertion as a grant (RFC 7523).

    Raises:
        ValueError: An option has a wrong value.
    """

    client_secret: str | None = attrs.field(
        default=None, repr=masked, validator=_optional_text
    )

    idp_client_id: str = attrs.field(validator=_check_text)
    """The client id at the identity provider."""

    idp_client_secret: str | None = attrs.field(
        default=None, repr=masked, validator=_optional_text
    )

    idp_token_endpoint: str = attrs.field(repr=_repr_url, validator=_check_text)
    """The token endpoint of the identity provider: https, or on this machine."""

    idp_issuer: str | None = attrs.field(default=None, validator=_check_issuer)

    id_token: str | Callable[[], Any] = attrs.field(
        repr=_repr_supplier, validator=_text_or_function
    )
    """The ID token, or a function, plain or async, that returns it for each login."""

    def __attrs_post_init__(self) -> None:
        endpoint = parse_url(self.idp_token_endpoint)
        if not endpoint.is_secure:
            raise ValueError(f"cannot use idp_token_endpoint '{endpoint}': use https")


Grant: TypeAlias = OAuth | ClientCredentials | WorkloadIdentity | EnterpriseManaged
"""The OAuth values of ``auth`` in `Http`; others are ``"oauth"`` and a token."""
