"""From the denial of an MCP server to the metadata of its authorization server.

::

    challenge, well-known URIs ──► resource ──► issuer ──► its well-known URIs ──► use
       │ nothing there, at none of them (RFC 9728)           (RFC 8414, OIDC)
       └► 2025-03-26: the server's own origin ──► metadata, or its default paths

A document is believed if it is about the one that was asked for: a resource that covers
the server, and the very issuer that led to it, byte for byte. If a place is empty, the
next one is asked; if it holds something wrong, the discovery ends.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from mcpwire.auth.errors import DiscoveryError, UrlRefused
from mcpwire.auth.records import ResourceMetadata, ServerMetadata, each_scope_once
from mcpwire.auth.steps import Answer, Fetch, Now, check_available
from mcpwire.auth.url_policy import parse_identifier, refused
from mcpwire.wire.json import JSONDecodeError, loads
from mcpwire.wire.urls import Url, mask_url, parse_url, same_origin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcpwire.auth.steps import Steps
    from mcpwire.auth.url_policy import UrlPolicy

__all__ = [
    "Challenge",
    "Denial",
    "assumed_metadata",
    "canonical_uri",
    "check_pkce",
    "covers",
    "discover",
    "parse_challenges",
    "read_denial",
    "read_resource_metadata",
    "read_server_metadata",
    "resource_metadata_urls",
    "server_metadata_urls",
]

T = TypeVar("T")

# Challenges: the field ``WWW-Authenticate`` (RFC 9110 section 11.6.1) is a list of
# challenges, each with a list of parameters, separated by the same comma; several
# fields make one. Earlier text decides how later text is read, so it is read from the
# left, and only as far as it is sound.


@attrs.frozen
class Challenge:
    """One way to authenticate that a server accepts."""

    scheme: str  # in lower case
    params: Mapping[str, str]  # by name in lower case; the first of one name


# Possessive throughout: no character is read twice, so time is linear.
_BETWEEN: Final = re.compile(r"[ \t,]*+")
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]++")
_EQUALS: Final = re.compile(r"[ \t]*+=[ \t]*+")
# In place of parameters, with schemes such as Negotiate.
_TOKEN68: Final = re.compile(r"[ \t]*+([0-9A-Za-z\-._~+/]++=*+)[ \t]*+(?:,|\Z)")
_QUOTED: Final = re.compile(
    r'"((?:[^"\\\x00-\x08\x0a-\x1f\x7f]++|\\[^\x00-\x08\x0a-\x1f\x7f])*+)"'
)
_ESCAPED: Final = re.compile(r"\\(.)")
# A token, and all else that servers leave without quotes: URLs above all.
_UNQUOTED: Final = re.compile(r'([^\s",\\\x00-\x1f\x7f]*+)(?=[ \t,]|\Z)')
_END_OF_ITEM: Final = re.compile(r"[ \t,]|\Z")


def parse_challenges(value: str) -> list[Challenge]:
    """Return the challenges of a ``WWW-Authenticate`` field, or of several joined.

    Never raises: a text is read up to its first fault. Extra commas, parameters without
    a comma between them, and URLs without quotes are not faults.
    """
    challenges: list[Challenge] = []
    params: dict[str, str] | None = None  # of the last challenge, if it takes some
    may_begin = True  # a challenge: only a comma, or nothing, stands before it
    position = _skip(_BETWEEN, value, 0)
    while name := _TOKEN.match(value, position):
        equals = _EQUALS.match(value, name.end())
        if equals is not None:
            read = _read_value(value, equals.end())
            if params is None or read is None:
                break
            text, position = read
            params.setdefault(name[0].lower(), text)
        elif may_begin and _END_OF_ITEM.match(value, name.end()):
            token68 = _TOKEN68.match(value, name.end())
            params = {}
            challenges.append(Challenge(name[0].lower(), params))
            position = name.end()
            if token68 is not None:
                params, position = None, token68.end(1)
        else:
            break
        start, position = position, _skip(_BETWEEN, value, position)
        may_begin = "," in value[start:position]
    return challenges


def _read_value(value: str, position: int) -> tuple[str, int] | None:
    """Return a parameter's value and where it ends; ``None``: it is unsound."""
    quoted = _QUOTED.match(value, position)
    if quoted is not None:
        return _ESCAPED.sub(r"\1", quoted[1]), quoted.end()
    # A quotation mark that opens and never closes matches neither.
    plain = _UNQUOTED.match(value, position)
    return None if plain is None else (plain[1], plain.end())


def _skip(pattern: re.Pattern[str], value: str, position: int) -> int:
    match = pattern.match(value, position)
    return position if match is None else match.end()


@attrs.frozen
class Denial:
    """The head of a refused request, as far as it concerns tokens."""

    status: int
    error: str | None = None  # of RFC 6750 section 3.1 or RFC 9449
    scopes: tuple[str, ...] | None = None  # that the request needs
    resource_metadata: str | None = None  # where it is, unchecked
    has_bearer: bool = False  # whether plain tokens are accepted at all
    has_dpop: bool = False  # whether tokens that are bound to a key are accepted


_DETAILS: Final = frozenset({"error", "scope", "resource_metadata"})

# RFC 6750, 3 and RFC 9449, 8.1 have the same alphabet.
_ERROR: Final = re.compile(r"[ !#-\[\]-~]{1,100}")


def read_denial(status: int, fields: Mapping[str, str]) -> Denial:
    """Return the part of a 401, 403 or 400 that concerns tokens.

    Of several challenges for tokens the most detailed counts, of equal ones the first.
    Names of fields are in lower case, several fields of one name are joined.
    """
    challenges = parse_challenges(fields.get("www-authenticate", ""))
    found = [each for each in challenges if each.scheme in {"bearer", "dpop"}]
    schemes = {each.scheme for each in found}
    best = max(found, key=lambda each: len(_DETAILS & each.params.keys()), default=None)
    params = {} if best is None else best.params
    error = params.get("error", "")
    return Denial(
        status,
        error if _ERROR.fullmatch(error) else None,
        each_scope_once(params.get("scope", "").split(" ")) or None,
        params.get("resource_metadata") or None,
        "bearer" in schemes,
        "dpop" in schemes,
    )


# The metadata of a resource (RFC 9728). A token is good for the resource that it names,
# so before the rest is believed, that must be the server, or include it.

_WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
_RESOURCE: Final = "the metadata of the resource"

# RFC 3986, 5.2.4; an encoded dot is a dot (2.3) to most readers of paths.
_DOT: Final = frozenset({".", "%2e"})
_TWO_DOTS: Final = frozenset({"..", ".%2e", "%2e.", "%2e%2e"})


def canonical_uri(server: Url) -> str:
    """Return the ``resource`` of a server without metadata.

    It has no fragment, and no slash if the path is nothing else (2026-07-28
    basic/authorization, "Canonical Server URI"); any other slash may mean something. A
    query stays: it may say which of several servers is meant (RFC 8707, 2).
    """
    return server.origin + ("" if server.target == "/" else server.target)


def covers(resource: str, server: Url) -> bool:
    """Tell whether a resource is the server, or includes it.

    Scheme, host and port must be the same, and its path the server's, or a beginning of
    that up to the end of a segment; a slash at the end makes no difference. A resource
    with a query, even an empty one, covers no server with another.
    """
    try:
        url = parse_url(resource)
    except ValueError:
        return False
    return (
        url.fragment is None
        and same_origin(url, server)
        and url.query in {None, server.query}
        and _folder(server.path).startswith(_folder(url.path))
    )


def _folder(path: str) -> str:
    return _resolve_dots(path).removesuffix("/") + "/"


def _resolve_dots(path: str) -> str:
    segments: list[str] = []
    for segment in (given := path.split("/")[1:]):
        if segment.lower() in _TWO_DOTS:
            del segments[-1:]
        elif segment.lower() not in _DOT:
            segments.append(segment)
    if given[-1].lower() in _DOT | _TWO_DOTS:
        segments.append("")  # it names a folder
    return "/" + "/".join(segments)


def resource_metadata_urls(server: Url, challenged: str | None) -> list[str]:
    """Return the URLs of a resource's metadata, in the order to ask."""
    path = _resolve_dots(server.path).removeprefix("/")
    query = "" if server.query is None else f"?{server.query}"
    # RFC 9728, 3.1: between the host and the rest; MCP adds the root. Some servers
    # leave out the query, or the slash at the end.
    inserted = f"{server.origin}{_WELL_KNOWN}" + (f"/{path}" if path else "")
    urls = [inserted + query, inserted.removesuffix("/"), server.origin + _WELL_KNOWN]
    if challenged is not None:
        urls.insert(0, _check_challenged(challenged, server))
    return list(dict.fromkeys(urls))


def _check_challenged(text: str, server: Url) -> str:
    # RFC 9728 does not ask for the same origin. But an author of a challenge would
    # choose what this machine asks, and the rule costs no server anything.
    try:
        url = parse_url(text)
    except ValueError:
        rule = "it is no URL"
    else:
        if same_origin(url, server):
            return text
        rule = f"it is not at {server.origin}"
    raise refused(f"{_RESOURCE}, as the challenge names it,", text, rule)


def read_resource_metadata(
    document: Mapping[str, Any], server: Url
) -> ResourceMetadata:
    """Return the metadata of a resource that covers the server."""
    resource = document.get("resource")
    if not isinstance(resource, str):
        raise DiscoveryError(f"{_RESOURCE} names no resource")
    # RFC 9728, 3.3: otherwise it must not be used.
    if not covers(resource, server):
        raise DiscoveryError(
            f"{_RESOURCE} is about '{mask_url(resource)}', which is not '{server}'"
        )
    issuers = _read_texts(document, "authorization_servers")
    if not issuers:
        raise DiscoveryError(f"{_RESOURCE} names no authorization server")
    scopes = _read_texts(document, "scopes_supported")
    return ResourceMetadata(
        resource,
        issuers,
        None if scopes is None else each_scope_once(scopes),
        document.get("dpop_bound_access_tokens_required") is True,
    )


def _check_object(document: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(document, dict):
        raise DiscoveryError(f"{what} must be a JSON object")
    return document


def _read_texts(document: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    """Return the texts of a list, each once; ``None`` if the member is not a list.

    Neither RFC 8414 nor RFC 9728 gives a meaning to another type, so such a member
    counts as missing.
    """
    value = document.get(name)
    if not isinstance(value, list):
        return None
    return tuple(dict.fromkeys(item for item in value if isinstance(item, str)))


# The metadata of an authorization server (RFC 8414, OpenID Discovery)...

_SERVER: Final = "the metadata of the authorization server"

_OAUTH: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"

_ENDPOINTS: Final[Mapping[str, str]] = {
    "authorization_endpoint": "the authorization endpoint",
    "token_endpoint": "the token endpoint",
    "registration_endpoint": "the registration endpoint",
    "revocation_endpoint": "the revocation endpoint",
}
_LISTS: Final = (
    "scopes_supported",
    "grant_types_supported",
    "token_endpoint_auth_methods_supported",
    "token_endpoint_auth_signing_alg_values_supported",
    "code_challenge_methods_supported",
    "dpop_signing_alg_values_supported",
)
_CLAIMS: Final = (
    "client_id_metadata_document_supported",
    "authorization_response_iss_parameter_supported",
)


def server_metadata_urls(issuer: str) -> list[str]:
    """Return the URLs of an issuer's metadata, in the order to ask."""
    try:
        url = parse_identifier(issuer, "issuer", allow_insecure=True)
    except ValueError as error:
        raise DiscoveryError(str(error)) from None
    # 2026-07-28 basic/authorization, "Authorization Server Metadata Discovery".
    path = url.path.rstrip("/")
    urls = [url.origin + _OAUTH + path, url.origin + _OPENID + path]
    return [*urls, url.origin + path + _OPENID] if path else urls


def assumed_metadata(server: Url) -> ServerMetadata:
    """Return the defaults of a server of 2025-03-26 without metadata."""
    # 2025-03-26 basic/authorization, "Fallbacks for Servers without Metadata
    # Discovery".
    return ServerMetadata(
        server.origin,
        authorization_endpoint=f"{server.origin}/authorize",
        token_endpoint=f"{server.origin}/token",
        registration_endpoint=f"{server.origin}/register",
        is_assumed=True,
    )


def check_pkce(metadata: ServerMetadata) -> None:
    """Raise `DiscoveryError` if an authorization server does not protect codes."""
    # 2026-07-28 basic/authorization/security-considerations, "Authorization Code
    # Protection": without the member there is no support.
    methods = metadata.code_challenge_methods_supported or ()
    if not metadata.is_assumed and "S256" not in methods:
        raise DiscoveryError(
            f"the authorization server '{mask_url(metadata.issuer)}' does not support "
            "PKCE by S256: without it a stolen code can be used"
        )


def read_server_metadata(
    document: Mapping[str, Any], issuer: str, *, relaxed: bool = False
) -> ServerMetadata:
    """Return the metadata of the authorization server of an issuer.

    With `relaxed` it may name another issuer at the same origin: for servers of
    2025-03-26 alone, where no issuer led here but the origin.
    """
    found = document.get("issuer")
    if not isinstance(found, str):
        raise DiscoveryError(f"{_SERVER} names no issuer")
    # RFC 8414, 3.3; the MCP rule is the same: identical, or it must not be used.
    if found != issuer and not (relaxed and _is_at_origin(found, issuer)):
        raise DiscoveryError(
            f"{_SERVER} at '{mask_url(issuer)}' says that it is of '{mask_url(found)}'"
        )
    members: dict[str, Any] = {
        **{name: _read_endpoint(document, name) for name in _ENDPOINTS},
        **{name: _read_texts(document, name) for name in _LISTS},
        # Anything but true is no claim.
        **{name: document.get(name) is True for name in _CLAIMS},
    }
    if members["token_endpoint"] is None:
        raise DiscoveryError(f"{_SERVER} names no token endpoint")
    return ServerMetadata(found, **members)


def _is_at_origin(issuer: str, origin: str) -> bool:
    try:
        server_metadata_urls(issuer)
    except DiscoveryError:
        return False
    return same_origin(parse_url(issuer), parse_url(origin))


def _read_endpoint(document: Mapping[str, Any], name: str) -> str | None:
    value = document.get(name)
    if value is None or isinstance(value, str):
        return value
    raise DiscoveryError(f"{_SERVER} has {name} that is not text")


# The search...

_ACCEPT: Final = (("accept", "application/json"),)
# 2025-03-26 basic/authorization, "Server Metadata Discovery".
_ACCEPT_OF_OLD: Final = (*_ACCEPT, ("mcp-protocol-version", "2025-03-26"))

_SERVERS_MAX: Final = 8  # asked for one resource; real ones name one
_SHOWN_MAX: Final = 4  # URLs in the message of an error


def discover(
    policy: UrlPolicy, denial: Denial | None, known: str | None
) -> Steps[tuple[ResourceMetadata, ServerMetadata]]:
    """Find the authorization server of an MCP server that has refused a request.

    Servers of 2025-03-26 are their own authorization servers. If the resource names the
    issuer of `known`, stored or configured credentials, no other is asked.
    """
    server = policy.server
    search = _Search(policy)
    try:
        challenged = None if denial is None else denial.resource_metadata
        urls = resource_metadata_urls(server, challenged)
        resource = yield from search.find(
            urls, _RESOURCE, lambda found: read_resource_metadata(found, server)
        )
        if resource is not None:
            return resource, (yield from search.choose_server(resource, known))
        metadata = yield from search.find_server(server.origin, is_old=True)
        if metadata is None:
            if not search.is_empty:
                raise search.failure(
                    f"cannot find the authorization server of '{server}'"
                )
            metadata = assumed_metadata(server)
    except DiscoveryError as error:
        error.tried = tuple(search.tried)
        raise
    return ResourceMetadata(canonical_uri(server), (metadata.issuer,)), metadata


class _Search:
    """One discovery, and what it has tried so far."""

    def __init__(self, policy: UrlPolicy) -> None:
        self.policy = policy
        self.server = policy.server
        self.tried: list[tuple[str, str]] = []
        self.is_empty = True  # whether no place held anything at all

    def note(self, url: str, outcome: str) -> None:
        self.tried.append((mask_url(url).partition("?")[0], outcome))

    def failure(self, reason: str) -> DiscoveryError:
        shown = [f"{url} ({outcome})" for url, outcome in self.tried[:_SHOWN_MAX]]
        left = len(self.tried) - len(shown)
        shown += [f"{left} more"] if left else []
        return DiscoveryError(f"{reason}; tried {', '.join(shown)}")

    def fetch(
        self, url: str, what: str, headers: tuple[tuple[str, str], ...]
    ) -> Steps[bytes | None]:
        """Return the document at a URL; ``None``: there is none."""
        self.policy.check(url, what)
        answer: Answer = yield Fetch(what, url, headers=headers, may_redirect=True)
        if 200 <= answer.status < 300:
            return answer.body
        if answer.status >= 400:
            check_available(answer, what, (yield Now()))
        else:
            self.is_empty = False  # a redirect, to a login for one
        # Any status below 500: unknown paths are often answered by another than 404.
        self.note(url, f"HTTP {answer.status}")
        return None

    def find(
        self,
        urls: Sequence[str],
        what: str,
        read: Callable[[Mapping[str, Any]], T],
        headers: tuple[tuple[str, str], ...] = _ACCEPT,
    ) -> Steps[T | None]:
        """Return the first document that is there, read; ``None``: there is none."""
        for url in urls:
            body = yield from self.fetch(url, what, headers)
            if body is None:
                continue
            try:
                found = read(_check_object(loads(body), what))
            except JSONDecodeError:  # such as a web page
                self.is_empty = False
                self.note(url, "not JSON")
            except (DiscoveryError, UrlRefused) as error:
                self.note(url, str(error))
                raise
            else:
                self.note(url, "found")
                return found
        return None

    def find_server(
        self, issuer: str, *, is_old: bool = False
    ) -> Steps[ServerMetadata | None]:
        def read(document: Mapping[str, Any]) -> ServerMetadata:
            metadata = read_server_metadata(document, issuer, relaxed=is_old)
            for name, what in _ENDPOINTS.items():
                url = getattr(metadata, name)
                if url is not None:
                    self.policy.check(url, what)
            return metadata

        self.policy.check(issuer, "the authorization server")
        headers = _ACCEPT_OF_OLD if is_old else _ACCEPT
        urls = server_metadata_urls(issuer)
        return (yield from self.find(urls, _SERVER, read, headers))

    def choose_server(
        self, resource: ResourceMetadata, known: str | None
    ) -> Steps[ServerMetadata]:
        """Return the known one, or else the first that is usable.

        RFC 9728 section 7.6 leaves the choice to the client.
        """
        issuers = resource.authorization_servers[:_SERVERS_MAX]
        if known is not None and known in resource.authorization_servers:
            issuers = (known,)
        first: DiscoveryError | UrlRefused | None = None
        for issuer in issuers:
            try:
                metadata = yield from self.find_server(issuer)
            except (DiscoveryError, UrlRefused) as error:
                first = first or error
                continue
            if metadata is not None:
                return metadata
        # Never the server's own origin: it named others.
        raise first or self.failure(
            f"no authorization server that '{self.server}' names describes itself"
        )
