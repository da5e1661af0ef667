"""Discovery of the authorization server of an MCP server that has refused a request.

::

    challenge, well-known URIs ──► resource ──► issuer ──► its well-known URIs ──► use
       │ nothing there, at none of them (RFC 9728)           (RFC 8414, OIDC)
       └► 2025-03-26: the server's own origin ──► metadata, or its default paths

A document is accepted only if it describes the resource or issuer that was requested:
the resource must cover the server, and the issuer must be identical, byte for byte. If
a URL has no document, the next one is fetched; a wrong document ends the discovery.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from mcpwire.auth.errors import AuthTemporarilyUnavailable, DiscoveryError, UrlRefused
from mcpwire.auth.records import ResourceMetadata, ServerMetadata, unique_scopes
from mcpwire.auth.steps import Answer, Fetch, ReadClock, check_available
from mcpwire.auth.url_policy import parse_identifier, parse_named_url, url_refusal
from mcpwire.errors import AuthError
from mcpwire.wire.json import JSONDecodeError, loads
from mcpwire.wire.urls import Url, mask_url, parse_url, same_origin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcpwire.auth.steps import Steps
    from mcpwire.auth.url_policy import UrlPolicy

T = TypeVar("T")

# Challenges: the field ``WWW-Authenticate`` (RFC 9110 section 11.6.1) is a list of
# challenges, each with a list of parameters, separated by the same comma; several
# fields are joined to one. The meaning of a comma depends on the text before it, so the
# text is parsed from the left, up to the first syntax error.


@attrs.frozen
class Challenge:
    """A challenge: an authentication scheme that a server accepts."""

    scheme: str  # in lower case
    params: Mapping[str, str]  # by name in lower case; of duplicates the first


# All quantifiers are possessive: without backtracking the time is linear.
_NAME: Final = re.compile(r"([ \t,]*+)([!#$%&'*+\-.^_`|~0-9A-Za-z]++)")
_EQUALS: Final = re.compile(r"[ \t]*+=[ \t]*+")
# Schemes such as Negotiate have a token68 instead of parameters.
_TOKEN68: Final = re.compile(r"[ \t]*+([0-9A-Za-z\-._~+/]++=*+)[ \t]*+(?:,|\Z)")
_QUOTED: Final = re.compile(
    r'"((?:[^"\\\x00-\x08\x0a-\x1f\x7f]++|\\[^\x00-\x08\x0a-\x1f\x7f])*+)"'
)
_ESCAPED: Final = re.compile(r"\\(.)")
# A token, or other text that servers send without quotes, mostly URLs.
_UNQUOTED: Final = re.compile(r'([^\s",\\\x00-\x1f\x7f]*+)(?=[ \t,]|\Z)')
_END_OF_ITEM: Final = re.compile(r"[ \t,]|\Z")


def parse_challenges(value: str) -> list[Challenge]:
    """Return the challenges of a ``WWW-Authenticate`` field, or of several joined.

    Never raises: the text is parsed up to the first error. Extra commas, parameters
    without a comma between them, and URLs without quotes are accepted.
    """
    challenges: list[Challenge] = []
    params: dict[str, str] | None = None  # of the last challenge, unless a token68
    position = 0
    while match := _NAME.match(value, position):
        before, name = match.groups()
        may_begin = position == 0 or "," in before
        equals = _EQUALS.match(value, match.end())
        if equals is not None:
            parsed = _read_value(value, equals.end())
            if params is None or parsed is None:
                break
            text, position = parsed
            params.setdefault(name.lower(), text)
        elif may_begin and _END_OF_ITEM.match(value, match.end()):
            token68 = _TOKEN68.match(value, match.end())
            params = {}
            challenges.append(Challenge(name.lower(), params))
            position = match.end()
            if token68 is not None:
                params, position = None, token68.end(1)
        else:
            break
    return challenges


def _read_value(value: str, position: int) -> tuple[str, int] | None:
    """Return a parameter's value and its end position; ``None`` if it is malformed."""
    quoted = _QUOTED.match(value, position)
    if quoted is not None:
        return _ESCAPED.sub(r"\1", quoted[1]), quoted.end()
    # A quotation mark without its closing one matches neither pattern.
    plain = _UNQUOTED.match(value, position)
    return None if plain is None else (plain[1], plain.end())


@attrs.frozen
class Denial:
    """The status and the token challenge of a refused request."""

    status: int
    error: str | None = None  # of RFC 6750 section 3.1 or RFC 9449
    scopes: tuple[str, ...] | None = None  # the scopes that the request needs
    resource_metadata: str | None = None  # the URL of the metadata, not validated
    has_bearer: bool = False  # whether bearer tokens are accepted
    has_dpop: bool = False  # whether tokens that are bound to a key are accepted


_DETAIL_PARAMS: Final = frozenset({"error", "scope", "resource_metadata"})

# The alphabet of error codes in RFC 6750, 3 and RFC 9449, 8.1.
_ERROR: Final = re.compile(r"[ !#-\[\]-~]{1,100}")


def read_denial(status: int, fields: Mapping[str, str]) -> Denial:
    """Return the token challenge of a response with status 401, 403 or 400.

    Of several token challenges, the one with the most details is used, or the first of
    equals. `fields` has names in lower case; fields of the same name are joined.
    """
    challenges = parse_challenges(fields.get("www-authenticate", ""))
    usable = [
        challenge for challenge in challenges if challenge.scheme in {"bearer", "dpop"}
    ]
    schemes = {challenge.scheme for challenge in usable}
    best = max(
        usable, key=lambda item: len(_DETAIL_PARAMS & item.params.keys()), default=None
    )
    params = {} if best is None else best.params
    error = params.get("error", "")
    return Denial(
        status,
        error if _ERROR.fullmatch(error) else None,
        unique_scopes(params.get("scope", "").split(" ")) or None,
        params.get("resource_metadata") or None,
        "bearer" in schemes,
        "dpop" in schemes,
    )


# Resource metadata (RFC 9728). A token is valid for the resource that the metadata
# names, so that resource must be the server, or include it.

_WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
_RESOURCE: Final = "the metadata of the resource"

# RFC 3986, 5.2.4; most parsers treat an encoded dot as a dot (2.3).
_DOT: Final = frozenset({".", "%2e"})
_TWO_DOTS: Final = frozenset({"..", ".%2e", "%2e.", "%2e%2e"})


def canonical_uri(server: Url) -> str:
    """Return the ``resource`` parameter of a server without metadata.

    The URI has no fragment, and no slash if that is the whole path (2026-07-28
    basic/authorization, "Canonical Server URI"); other slashes stay, as they may be
    significant. A query stays: it may select one of several servers (RFC 8707, 2).
    """
    return server.origin + ("" if server.target == "/" else server.target)


def covers(resource: str, server: Url) -> bool:
    """Return whether a resource is the server, or includes it.

    Scheme, host and port must be equal, and the resource's path must be the server's
    path or a prefix of it in whole segments; a trailing slash is ignored. A resource
    with a query, even an empty one, covers only a server with the same query.
    """
    try:
        url = parse_url(resource)
    except ValueError:
        return False
    return (
        url.fragment is None
        and same_origin(url, server)
        and url.query in {None, server.query}
        and _folder_path(server.path).startswith(_folder_path(url.path))
    )


def _folder_path(path: str) -> str:
    return _resolve_dots(path).removesuffix("/") + "/"


def _resolve_dots(path: str) -> str:
    segments: list[str] = []
    for segment in (parts := path.split("/")[1:]):
        if segment.lower() in _TWO_DOTS:
            del segments[-1:]
        elif segment.lower() not in _DOT:
            segments.append(segment)
    if parts[-1].lower() in _DOT | _TWO_DOTS:
        segments.append("")  # a final dot segment leaves a trailing slash
    return "/" + "/".join(segments)


def resource_metadata_urls(server: Url, challenged_url: str | None) -> list[str]:
    """Return the URLs of a resource's metadata, in the order to fetch them."""
    path = _resolve_dots(server.path).removeprefix("/")
    query = "" if server.query is None else f"?{server.query}"
    # RFC 9728, 3.1: the well-known part is between host and path; MCP adds the root.
    # Some servers omit the query, or the trailing slash.
    base = f"{server.origin}{_WELL_KNOWN}" + (f"/{path}" if path else "")
    urls = [base + query, base.removesuffix("/"), server.origin + _WELL_KNOWN]
    if challenged_url is not None:
        # RFC 9728 does not demand the same origin. But otherwise a challenge could
        # choose the host of a request from this machine; servers do not need that.
        what = f"{_RESOURCE}, as the challenge names it,"
        if not same_origin(parse_named_url(challenged_url, what), server):
            raise url_refusal(what, challenged_url, f"it is not at {server.origin}")
        urls.insert(0, challenged_url)
    return list(dict.fromkeys(urls))


def read_resource_metadata(
    document: Mapping[str, Any], server: Url
) -> ResourceMetadata:
    """Return the metadata of a resource that covers the server."""
    resource = document.get("resource")
    if not isinstance(resource, str):
        raise DiscoveryError(f"{_RESOURCE} names no resource")
    # RFC 9728, 3.3: the metadata of another resource must not be used.
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
        None if scopes is None else unique_scopes(scopes),
        document.get("dpop_bound_access_tokens_required") is True,
    )


def _check_object(document: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(document, dict):
        raise DiscoveryError(f"{what} must be a JSON object")
    return document


def _read_texts(document: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    """Return the strings of a list, each once; any other type counts as missing."""
    value = document.get(name)
    if not isinstance(value, list):
        return None
    return tuple(dict.fromkeys(item for item in value if isinstance(item, str)))


# Authorization server metadata (RFC 8414, OpenID Discovery)

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
    "code_challenge_methods_supported",
    "dpop_signing_alg_values_supported",
)
_CLAIMS: Final = (
    "client_id_metadata_document_supported",
    "authorization_response_iss_parameter_supported",
)


def server_metadata_urls(issuer: str) -> list[str]:
    """Return the URLs of an issuer's metadata, in the order to fetch them."""
    try:
        url = parse_identifier(issuer, "issuer", allow_insecure=True)
    except ValueError as error:
        raise DiscoveryError(str(error)) from None
    # 2026-07-28 basic/authorization, "Authorization Server Metadata Discovery".
    path = url.path.rstrip("/")
    urls = [url.origin + _OAUTH + path, url.origin + _OPENID + path]
    return [*urls, url.origin + path + _OPENID] if path else urls


def assumed_metadata(server: Url) -> ServerMetadata:
    """Return the default metadata of a server of version 2025-03-26 without any."""
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
    """Raise `DiscoveryError` if an authorization server does not support PKCE."""
    # 2026-07-28 basic/authorization/security-considerations, "Authorization Code
    # Protection": metadata without the member means no support.
    methods = metadata.code_challenge_methods_supported or ()
    if not metadata.is_assumed and "S256" not in methods:
        raise DiscoveryError(
            f"the authorization server '{mask_url(metadata.issuer)}' does not support "
            "PKCE by S256: without it a stolen code can be used"
        )


def read_server_metadata(
    document: Mapping[str, Any], issuer: str, *, relaxed: bool = False
) -> ServerMetadata:
    """Return the metadata of the authorization server with an issuer.

    With `relaxed` the document may name another issuer at the same origin: only for
    servers of version 2025-03-26, which name no issuer before.
    """
    named = document.get("issuer")
    if not isinstance(named, str):
        raise DiscoveryError(f"{_SERVER} names no issuer")
    # RFC 8414, 3.3 and MCP: metadata with another issuer must not be used.
    if named != issuer and not (relaxed and _is_at_origin(named, issuer)):
        raise DiscoveryError(
            f"{_SERVER} at '{mask_url(issuer)}' has the issuer '{mask_url(named)}'"
        )
    members: dict[str, Any] = {
        **{name: _read_endpoint(document, name) for name in _ENDPOINTS},
        **{name: _read_texts(document, name) for name in _LISTS},
        # Only a literal true counts.
        **{name: document.get(name) is True for name in _CLAIMS},
    }
    if members["token_endpoint"] is None:
        raise DiscoveryError(f"{_SERVER} names no token endpoint")
    return ServerMetadata(named, **members)


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


# Search

_HEADERS: Final = (("accept", "application/json"),)
# 2025-03-26 basic/authorization, "Server Metadata Discovery".
_LEGACY_HEADERS: Final = (*_HEADERS, ("mcp-protocol-version", "2025-03-26"))

_MAX_SERVERS: Final = 8  # per resource; usually a resource names one
_MAX_URLS_SHOWN: Final = 4  # URLs in an error message


def discover(
    policy: UrlPolicy, denial: Denial | None, known_issuer: str | None
) -> Steps[tuple[ResourceMetadata, ServerMetadata]]:
    """Find the authorization server of an MCP server that has refused a request.

    Servers of version 2025-03-26 are their own authorization servers. If the resource
    names `known_issuer`, that of stored or configured credentials, only that is used.
    """
    server = policy.server
    search = _Search(policy)
    try:
        challenged_url = None if denial is None else denial.resource_metadata
        urls = resource_metadata_urls(server, challenged_url)
        resource = yield from search.find(
            urls, _RESOURCE, lambda document: read_resource_metadata(document, server)
        )
        if resource is not None:
            return resource, (yield from search.choose_server(resource, known_issuer))
        metadata = yield from search.find_server(server.origin, is_legacy=True)
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
    """One discovery and the URLs that it has tried."""

    def __init__(self, policy: UrlPolicy) -> None:
        self.policy = policy
        self.server = policy.server
        self.tried: list[tuple[str, str]] = []
        self.is_empty = True  # whether no URL had any content

    def record(self, url: str, outcome: str) -> None:
        self.tried.append((mask_url(url).partition("?")[0], outcome))

    def failure(self, reason: str) -> DiscoveryError:
        shown = [f"{url} ({outcome})" for url, outcome in self.tried[:_MAX_URLS_SHOWN]]
        omitted = len(self.tried) - len(shown)
        shown += [f"{omitted} more"] if omitted else []
        return DiscoveryError(f"{reason}; tried {', '.join(shown)}")

    def find(
        self,
        urls: Sequence[str],
        what: str,
        read: Callable[[Mapping[str, Any]], T],
        headers: tuple[tuple[str, str], ...] = _HEADERS,
    ) -> Steps[T | None]:
        """Return the first document found, parsed, or ``None`` if no URL has one."""
        unavailable: AuthTemporarilyUnavailable | None = None
        for url in urls:
            self.policy.check(url, what)
            answer: Answer = yield Fetch(what, url, headers=headers, may_redirect=True)
            if not 200 <= answer.status < 300:
                # Any status: many servers and proxies do not answer 404 for unknown
                # paths, but 401, 403 or 502. A redirect may lead to a login page.
                try:
                    check_available(answer, what, (yield ReadClock()))
                except AuthTemporarilyUnavailable as error:
                    unavailable = unavailable or error
                self.is_empty = self.is_empty and answer.status >= 400
                self.record(url, f"HTTP {answer.status}")
                continue
            try:
                parsed = read(_check_object(loads(answer.body), what))
            except JSONDecodeError:  # such as a web page
                self.is_empty = False
                self.record(url, "not JSON")
            except (DiscoveryError, UrlRefused) as error:
                self.record(url, str(error))
                if unavailable is None:
                    raise
                break
            else:
                self.record(url, "found")
                return parsed
        if unavailable is not None:  # one of them may have a document
            raise unavailable
        return None

    def find_server(
        self, issuer: str, *, is_legacy: bool = False
    ) -> Steps[ServerMetadata | None]:
        def read(document: Mapping[str, Any]) -> ServerMetadata:
            metadata = read_server_metadata(document, issuer, relaxed=is_legacy)
            for name, what in _ENDPOINTS.items():
                url = getattr(metadata, name)
                if url is not None:
                    self.policy.check(url, what)
            return metadata

        self.policy.check(issuer, "the authorization server")
        headers = _LEGACY_HEADERS if is_legacy else _HEADERS
        urls = server_metadata_urls(issuer)
        return (yield from self.find(urls, _SERVER, read, headers))

    def choose_server(
        self, resource: ResourceMetadata, known_issuer: str | None
    ) -> Steps[ServerMetadata]:
        """Return the metadata of the known server, or of the first usable one."""
        # RFC 9728 section 7.6 leaves the choice to the client.
        issuers = resource.authorization_servers[:_MAX_SERVERS]
        # Some resources (Google's) name an issuer with an additional slash.
        known = (known_issuer or "").rstrip("/")
        named = [i for i in resource.authorization_servers if i.rstrip("/") == known]
        if known_issuer is not None and named:
            issuers = tuple(dict.fromkeys((known_issuer, *named)))[:_MAX_SERVERS]
        failure: AuthError | None = None
        for issuer in issuers:
            try:
                metadata = yield from self.find_server(issuer)
            except AuthError as error:  # of its documents, or it does not answer now
                # An error that may pass tells the caller to try again.
                passing = AuthTemporarilyUnavailable
                if failure is None or (
                    isinstance(error, passing) and not isinstance(failure, passing)
                ):
                    failure = error
                continue
            if metadata is not None:
                return metadata
        # The MCP server named other servers, so its own origin is not tried.
        raise failure or self.failure(
            f"no authorization server that '{self.server}' names describes itself"
        )
