"""Authorization over HTTP: the server as an OAuth resource server."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from mcpwire.check.case import MODERN, Absent, Family, since
from mcpwire.check.cases._http import (
    HTTP,
    JSON,
    SESSIONS,
    STREAMABLE,
    send_with_headers,
    unless_unsupported,
)
from mcpwire.wire.urls import is_loopback

if TYPE_CHECKING:
    from mcpwire.check.peer import HeaderValue, Response
    from mcpwire.check.subject import Subject

FAMILY: Final = Family("authorization")

_PAGE: Final = "basic/authorization"
_HANDLING: Final = f"{_PAGE}#token-handling"
_ERRORS: Final = f"{_PAGE}#error-handling"
_LOCATION: Final = f"{_PAGE}#authorization-server-location"
_SCOPES: Final = f"{_PAGE}#runtime-insufficient-scope-errors"
_NEEDS: Final = ("token:good",)
_WITH_METADATA: Final = since("2025-06-18")
"""Revisions with protected resource metadata."""
_NEWER: Final = since("2025-11-25")
_WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
_MAX_CHALLENGE_CHARS: Final = 4_096
_UNKNOWN_BEARER: Final = "mcpwire-no-such-token"

case = FAMILY.with_defaults(revisions=STREAMABLE, transports=HTTP, needs=_NEEDS)
metadata = case.with_defaults(revisions=_WITH_METADATA)


# --- requests -------------------------------------------------------------------------


async def _post(
    subject: Subject,
    authorization: HeaderValue,
    *,
    in_session: bool = False,
    target: str | None = None,
) -> Response:
    """Send a first request and end its session, or (`in_session`) a later request."""
    method = subject.facts.barrier
    params = None
    if not subject.is_modern and not in_session:
        method, params = "initialize", subject.initialize_params()
    message = subject.message(method, params, id=subject.next_id())
    fields: dict[str, HeaderValue] = {"Authorization": authorization}
    if not in_session and subject.session_id is not None:
        fields["Mcp-Session-Id"] = None
    response = await subject.exchange("POST", fields, message, target=target)
    if not in_session and (id := response.fields.get("mcp-session-id")) is not None:
        fields = {"Mcp-Session-Id": id, "Authorization": authorization}
        await subject.exchange("DELETE", fields)
    return response


async def _need_protection(subject: Subject) -> Response:
    """Return the response to a request without a token; `Absent` if accepted."""
    response = await _post(subject, None)
    if response.status < 300:
        subject.raise_absent("need for a token")
    return response


def _bearer(subject: Subject, kind: str = "good") -> str:
    return f"Bearer {subject.facts.tokens[kind]}"


def _parse_challenge(response: Response) -> dict[str, str] | None:
    """Return the parameters of a Bearer or DPoP challenge; ``None``: no challenge."""
    field = response.fields.get("www-authenticate", "")
    scheme = re.search(r"(?:^|[\s,])(?:Bearer|DPoP)(?=[\s,]|$)", field, re.IGNORECASE)
    if scheme is None:
        return None
    # Limited: the pattern takes time quadratic in the length of a word.
    text = field[scheme.end() :][:_MAX_CHALLENGE_CHARS]
    pairs = re.findall(r'([\w-]+)\s*=\s*(?:"([^"]*)"|([^\s,"]+))', text)
    return {name.lower(): quoted or plain for name, quoted, plain in pairs}


def _describe(response: Response) -> str:
    field = response.fields.get("www-authenticate")
    return f"{response.status}, WWW-Authenticate: {field}"


def _expect_401(subject: Subject, response: Response) -> None:
    subject.expect(response.status == 401, "the status 401", _describe(response))


# --- no token -------------------------------------------------------------------------


@case.must(
    "AUTH-13.a",
    "a request without a token is answered with 401, without a session id",
    source=_ERRORS,
    rules=("AUTH-14",),
    sends="the first request of a client, without Authorization",
    expects="the status 401, and no Mcp-Session-Id",
    why="clients do not learn that they must log in",
)
async def no_token(subject: Subject) -> None:
    response = await _need_protection(subject)
    _expect_401(subject, response)
    has_id = "mcp-session-id" in response.fields
    subject.expect(not has_id, "no Mcp-Session-Id", _describe(response))


for letter, method in (("b", "GET"), ("c", "DELETE")):

    async def no_token_by_method(subject: Subject, method: str = method) -> None:
        await _need_protection(subject)
        response = await send_with_headers(subject, method, {"Authorization": None})
        is_refused = response.status in {401, 405}
        subject.expect(is_refused, "the status 401 or 405", _describe(response))

    case.must(
        f"AUTH-13.{letter}",
        f"a {method} without a token is answered with 401",
        source=_ERRORS,
        rules=("FLOW-20",),
        revisions=SESSIONS,
        sends=f"a {method} within the session, without Authorization",
        expects=f"the status 401{unless_unsupported(method)}",
        why="the session id alone is enough to read or end the session",
    )(no_token_by_method)


for letter, text, value in (
    ("a", "no token", None),
    ("b", "an unknown token", f"Bearer {_UNKNOWN_BEARER}"),
):

    async def in_session(subject: Subject, value: HeaderValue = value) -> None:
        await _need_protection(subject)
        response = await _post(subject, value, in_session=True)
        _expect_401(subject, response)

    case.must(
        f"SEC-06.{letter}",
        f"a later request with {text} is answered with 401",
        source=f"{_PAGE}#token-requirements",
        rules=("LHTTP-33", "FLOW-20"),
        sends=f"a request with {text}, after others with a good token",
        expects="the status 401",
        why="the session id alone is enough to use the session",
    )(in_session)


@case.must(
    "AUTH-06.a",
    "the challenge has the URL of the resource metadata",
    source=_LOCATION,
    revisions=("2025-06-18",),
    sends="a request without Authorization",
    expects="the parameter resource_metadata in WWW-Authenticate",
    why="clients cannot find the authorization server",
)
async def challenge_has_metadata(subject: Subject) -> None:
    response = await _need_protection(subject)
    has_it = "resource_metadata" in (_parse_challenge(response) or {})
    subject.expect(has_it, "resource_metadata", _describe(response))


@case.should(
    "FLOW-11.a",
    "the challenge names the required scopes",
    source=f"{_PAGE}#scope-selection-strategy",
    revisions=_NEWER,
    sends="a request without Authorization",
    expects="the parameter scope in WWW-Authenticate",
    why="clients request all scopes from their users",
)
async def challenge_has_scope(subject: Subject) -> None:
    response = await _need_protection(subject)
    has_it = "scope" in (_parse_challenge(response) or {})
    subject.expect(has_it, "a scope", _describe(response))


# --- tokens that must be refused ------------------------------------------------------


def _jwt_parts(subject: Subject) -> tuple[str, str, str]:
    """Return the three parts of the good token; raise `Absent` unless it is a JWT."""
    parts = subject.facts.tokens["good"].split(".")
    try:
        is_jwt = len(parts) == 3 and "alg" in json.loads(_decode_part(parts[0]))
    except ValueError:
        is_jwt = False
    if not is_jwt:
        raise Absent("token that is a JWT")
    return parts[0], parts[1], parts[2]


def _decode_part(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _encode_part(value: Any) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def _altered_token(subject: Subject) -> str:
    """Return the good token with one changed character (JWT: in its signature)."""
    token = subject.facts.tokens["good"]
    index = max(len(token) // 2, token.rfind(".") + 2)
    return token[:index] + ("A" if token[index] != "A" else "B") + token[index + 1 :]


def _unsigned_token(subject: Subject) -> str:
    """Return the good token with ``alg: none`` and an empty signature."""
    head, claims, _ = _jwt_parts(subject)
    return (
        f"{_encode_part({**json.loads(_decode_part(head)), 'alg': 'none'})}.{claims}."
    )


def _token_with_claims(subject: Subject) -> str:
    """Return the good token with changed claims and the original signature."""
    head, claims, signature = _jwt_parts(subject)
    try:
        changed = {**json.loads(_decode_part(claims)), "sub": "mcpwire-other"}
    except ValueError:
        raise Absent("token with readable claims") from None
    return f"{head}.{_encode_part(changed)}.{signature}"


for id, text, make in (
    ("FLOW-22.a", "an unknown token", lambda _: _UNKNOWN_BEARER),
    ("FLOW-22.b", "a token with an altered signature", _altered_token),
    ("FLOW-22.c", "a token with altered claims", _token_with_claims),
    ("FLOW-22.d", "a token with alg none and no signature", _unsigned_token),
):

    async def forged_token(subject: Subject, make: Any = make) -> None:
        await _need_protection(subject)
        response = await _post(subject, f"Bearer {make(subject)}")
        _expect_401(subject, response)

    case.must(
        id,
        f"a request with {text} is answered with 401",
        source=_HANDLING,
        sends=f"a request with {text}",
        expects="the status 401",
        why="tokens can be forged" if id != "FLOW-22.a" else "any token is accepted",
    )(forged_token)


for id, kind, text, revisions, statuses in (
    ("FLOW-22.e", "expired", "an expired token", STREAMABLE, (401,)),
    ("FLOW-22.f", "issuer", "a token from another issuer", STREAMABLE, (401,)),
    ("FLOW-23.a", "audience", "a token for another server", _WITH_METADATA, (401, 403)),
):

    async def refused_token(
        subject: Subject, kind: str = kind, statuses: tuple[int, ...] = statuses
    ) -> None:
        response = await _post(subject, _bearer(subject, kind))
        expected = f"the status {' or '.join(map(str, statuses))}"
        subject.expect(response.status in statuses, expected, _describe(response))

    case.must(
        id,
        f"{text} is refused",
        source=_HANDLING,
        rules=("SEC-03",) if kind == "audience" else (),
        revisions=revisions,
        needs=(*_NEEDS, f"token:{kind}"),
        sends=f"a request with {text}",
        expects=f"the status {' or '.join(map(str, statuses))}",
        why="expired tokens, or tokens for other servers, give access",
    )(refused_token)


@case.must(
    "FLOW-31.a",
    "the response to a refused token has a challenge",
    source=_HANDLING,
    rules=("AUTH-14",),
    sends="a request with an unknown token",
    expects="WWW-Authenticate with the scheme Bearer or DPoP",
    why="clients do not learn that they must log in again",
)
async def challenge(subject: Subject) -> None:
    await _need_protection(subject)
    response = await _post(subject, f"Bearer {_UNKNOWN_BEARER}")
    if response.status != 401:
        subject.raise_absent("status 401 for an unknown token")
    has_it = _parse_challenge(response) is not None
    subject.expect(has_it, "WWW-Authenticate: Bearer or DPoP", _describe(response))


@case.robust(
    "G01.a",
    "the challenge for a refused token has the error invalid_token",
    sends="a request with an unknown token",
    expects='error="invalid_token" in WWW-Authenticate',
    why="clients cannot tell whether to refresh the token",
)
async def invalid_token(subject: Subject) -> None:
    await _need_protection(subject)
    response = await _post(subject, f"Bearer {_UNKNOWN_BEARER}")
    error = (_parse_challenge(response) or {}).get("error")
    subject.expect(error == "invalid_token", "invalid_token", _describe(response))


# --- scopes ---------------------------------------------------------------------------


for id, add, source, revisions in (
    ("AUTH-14.a", case.must, _ERRORS, since("2025-03-26", "2025-06-18")),
    # Later revisions state the rule twice; the detailed statement is a SHOULD.
    ("FLOW-14.d", case.should, _SCOPES, _NEWER),
):

    async def missing_scope(subject: Subject) -> None:
        response = await _post(subject, _bearer(subject, "scope"))
        subject.expect(response.status == 403, "the status 403", _describe(response))

    add(
        id,
        "a request whose token lacks a required scope is answered with 403",
        source=source,
        revisions=revisions,
        needs=(*_NEEDS, "token:scope"),
        sends="a request with a token that lacks a scope",
        expects="the status 403",
        why="clients discard a valid token, or do not request the scope",
    )(missing_scope)


for letter, member, expected in (
    ("a", "error", "insufficient_scope"),
    ("b", "scope", ""),
    ("c", "resource_metadata", ""),
):

    async def scope_challenge(
        subject: Subject, member: str = member, expected: str = expected
    ) -> None:
        response = await _post(subject, _bearer(subject, "scope"))
        if response.status != 403:
            subject.raise_absent("status 403 for a missing scope")
        got = (_parse_challenge(response) or {}).get(member)
        is_fine = got == expected if expected else bool(got)
        subject.expect(is_fine, f"{member} {expected}".strip(), _describe(response))

    case.should(
        f"FLOW-14.{letter}",
        f"the challenge for a missing scope has the parameter {member}",
        source=_SCOPES,
        revisions=_NEWER,
        needs=(*_NEEDS, "token:scope"),
        sends="a request with a token that lacks a scope",
        expects=(f'{member}="{expected}"' if expected else f"the parameter {member}")
        + " in WWW-Authenticate",
        why="clients do not learn which scope to request",
    )(scope_challenge)


# --- protected resource metadata ------------------------------------------------------


def _request_target(subject: Subject, url: str) -> str | None:
    """Return the request target of a URL; ``None``: not at the server's origin."""
    parts = urlsplit(url)
    if parts.scheme and parts.netloc.lower() != subject.need_http().url.authority:
        return None
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


async def _fetch_document(subject: Subject, target: str) -> dict[str, Any] | None:
    """Fetch a metadata document without a token; ``None``: no JSON object there."""
    fields: dict[str, HeaderValue] = {
        "Accept": JSON,
        "Authorization": None,
        "Mcp-Session-Id": None,
    }
    response = await subject.exchange("GET", fields, target=target, complete=False)
    if response.is_stream or response.status != 200:
        await subject.need_http().close_exchange(response)
        return None
    await subject.wait_ended(response)
    try:
        document = json.loads(bytes(response.body))
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _metadata_targets(subject: Subject, response: Response) -> list[str]:
    """Return the request targets of metadata: of the challenge, then well-known."""
    path = urlsplit(subject.need_http().url.target).path
    url = (_parse_challenge(response) or {}).get("resource_metadata")
    first = _request_target(subject, url) if url else None
    with_path = [_WELL_KNOWN + path.rstrip("/")] if path not in {"", "/"} else []
    return [*([first] if first else []), *with_path, _WELL_KNOWN]


async def _fetch_metadata(subject: Subject) -> dict[str, Any]:
    """Return the first metadata document found, or raise `Absent`."""
    response = await _need_protection(subject)
    for target in _metadata_targets(subject, response):
        if (document := await _fetch_document(subject, target)) is not None:
            return document
    raise Absent("resource metadata at the server's own origin")


@metadata.must(
    "AUTH-05.a",
    "the resource metadata can be found",
    source=f"{_PAGE}#protected-resource-metadata-discovery-requirements",
    rules=("AUTH-03",),
    sends="a request without a token, and GETs of the possible metadata URLs",
    expects="a JSON object at the URL in the challenge or, if there is none, at a "
    "well-known URI",
    why="clients cannot find the authorization server",
)
async def finds_metadata(subject: Subject) -> None:
    response = await _need_protection(subject)
    url = (_parse_challenge(response) or {}).get("resource_metadata")
    if url and _request_target(subject, url) is None:
        subject.raise_absent("resource metadata at the server's own origin")
    targets = _metadata_targets(subject, response)
    documents = [
        target
        for target in targets
        if await _fetch_document(subject, target) is not None
    ]
    subject.expect(documents, "a JSON object", f"none at {', '.join(targets)}")
    if url:
        is_there = _request_target(subject, url) in documents
        subject.expect(is_there, f"a JSON object at {url}", "none")


@metadata.must(
    "AUTH-03.a",
    "the resource metadata names an authorization server",
    source=_LOCATION,
    sends="a GET of the metadata",
    expects="authorization_servers with at least one URL",
    why="clients cannot find the authorization server",
)
async def names_issuer(subject: Subject) -> None:
    issuers = (await _fetch_metadata(subject)).get("authorization_servers")
    is_list = isinstance(issuers, list) and bool(issuers)
    is_fine = is_list and all(isinstance(each, str) for each in issuers or ())
    subject.expect(is_fine, "at least one URL", f"authorization_servers: {issuers!r}")


@metadata.must(
    "AUTH-03.b",
    "the resource metadata names the resource",
    source=_LOCATION,
    sends="a GET of the metadata",
    expects="resource, an absolute URL without a fragment (RFC 9728, section 2)",
    why="clients reject the metadata, or get tokens for another server",
)
async def names_resource(subject: Subject) -> None:
    resource = (await _fetch_metadata(subject)).get("resource")
    parts = urlsplit(resource if isinstance(resource, str) else "")
    is_url = parts.scheme in {"http", "https"} and bool(parts.netloc)
    is_fine = is_url and not parts.fragment
    subject.expect(is_fine, "an absolute URL", f"resource: {resource!r}")


@metadata.robust(
    "G01.b",
    "the resource in the metadata is the URL of the server",
    sends="a GET of the metadata",
    expects="resource is the URL of the server, or a parent of it",
    why="clients must reject metadata of another resource (RFC 9728, section 3.3)",
)
async def same_resource(subject: Subject) -> None:
    resource = str((await _fetch_metadata(subject)).get("resource"))
    url = subject.need_http().url
    own = f"{url.scheme}://{url.authority}{url.target}".rstrip("/")
    given = resource.rstrip("/")
    is_same = own.lower() == given.lower() or own.lower().startswith(
        f"{given}/".lower()
    )
    subject.expect(is_same, own, f"resource: {resource}")


@metadata.robust(
    "G01.c",
    "the resource metadata is at a well-known URI",
    sends="GETs of the well-known URIs, with the path of the server and at the root",
    expects="a JSON object at one of them",
    why="clients that do not read the challenge cannot find it",
)
async def well_known(subject: Subject) -> None:
    await _fetch_metadata(subject)
    path = urlsplit(subject.need_http().url.target).path.rstrip("/")
    targets = [_WELL_KNOWN + path, _WELL_KNOWN]
    documents = [
        target
        for target in targets
        if await _fetch_document(subject, target) is not None
    ]
    subject.expect(documents, f"a JSON object at {' or '.join(targets)}", "none")


@metadata.robust(
    "G01.e",
    "the authorization servers have https URLs",
    sends="a GET of the metadata",
    expects="https for each authorization server that is not at a loopback address",
    why="clients refuse to log in there",
)
async def secure_issuers(subject: Subject) -> None:
    issuers = (await _fetch_metadata(subject)).get("authorization_servers") or []
    for issuer in map(str, issuers):
        parts = urlsplit(issuer)
        is_fine = parts.scheme == "https" or is_loopback(parts.hostname or "")
        subject.expect(is_fine, "https", issuer)


@case.should(
    "FLOW-26.a",
    "metadata and challenge do not list offline_access",
    source=f"{_PAGE}#refresh-tokens",
    revisions=MODERN,
    sends="a request without a token, and a GET of the metadata",
    expects="no offline_access in the scope of the challenge or in scopes_supported",
    why="clients request more from users than the server needs",
)
async def no_offline_access(subject: Subject) -> None:
    response = await _need_protection(subject)
    scope = (_parse_challenge(response) or {}).get("scope", "").split()
    supported = (await _fetch_metadata(subject)).get("scopes_supported") or []
    has_it = "offline_access" in scope or "offline_access" in supported
    subject.expect(not has_it, "no offline_access", _describe(response))


# --- transmission of tokens -----------------------------------------------------------


@case.robust(
    "G01.f",
    "a token in the query string is refused",
    sends="a request with access_token=... in the query, without Authorization",
    expects="the status 400 or 401",
    why="tokens end up in the logs of proxies and browsers",
)
async def in_query(subject: Subject) -> None:
    await _need_protection(subject)
    token = quote(subject.facts.tokens["good"])
    target = subject.need_http().url.target
    separator = "&" if "?" in target else "?"
    response = await _post(
        subject, None, target=f"{target}{separator}access_token={token}"
    )
    is_refused = response.status in {400, 401}
    subject.expect(is_refused, "the status 400 or 401", _describe(response))


for letter, text, value_of in (
    ("g", "two tokens", lambda good: (good, f"Bearer {_UNKNOWN_BEARER}")),
    ("h", "an empty token", lambda _: "Bearer"),
    ("i", "another scheme", lambda _: "Basic bWN3cGlyZTptY3B3aXJl"),
    ("j", "a token of 8 KiB", lambda _: f"Bearer {'x' * 8_192}"),
):

    async def malformed_header(subject: Subject, value_of: Any = value_of) -> None:
        await _need_protection(subject)
        response = await _post(subject, value_of(_bearer(subject)))
        subject.expect_refused(response.status, _describe(response))

    case.robust(
        f"G01.{letter}",
        f"a request with {text} in Authorization is refused",
        sends=f"a request with {text} in Authorization",
        expects="a status from 400 to 499",
        why="a proxy and the server see different users, or the server fails",
    )(malformed_header)


@case.robust(
    "G01.k",
    "the scheme Bearer is case-insensitive",
    sends="a request with Authorization: bearer and the good token",
    expects="a status below 300",
    why="HTTP libraries write the scheme in lower case",
)
async def lower_case(subject: Subject) -> None:
    await _need_protection(subject)
    response = await _post(subject, f"bearer {subject.facts.tokens['good']}")
    subject.expect(response.status < 300, "a status below 300", _describe(response))


# --- users ----------------------------------------------------------------------------


@case.robust(
    "D05.a",
    "a session can be used only by the user who started it",
    rules=("LHTTP-33",),
    revisions=SESSIONS,
    needs=(*_NEEDS, "token:other"),
    sends="a request in the session, with the token of another user",
    expects="a status from 400 to 499",
    why="another user can take over the session with its id",
)
async def session_of_another(subject: Subject) -> None:
    if subject.session_id is None:
        subject.raise_absent("session")
    response = await _post(subject, _bearer(subject, "other"), in_session=True)
    subject.expect_refused(response.status, _describe(response))


@case.robust(
    "G13.a",
    "responses do not contain tokens",
    sends="requests with a good token, and with a refused one",
    expects="neither token in the head or body of a response",
    why="tokens end up in logs and on screens",
)
async def no_echo(subject: Subject) -> None:
    secret = f"{_UNKNOWN_BEARER}-{subject.next_id()}"
    good = subject.facts.tokens["good"]
    for response in (
        await _post(subject, f"Bearer {secret}"),
        await _post(subject, f"Bearer {good}"),
        await _post(subject, f"Bearer {good} {secret}"),
    ):
        text = " ".join(response.fields.values())
        text += bytes(response.body).decode("utf-8", "replace")
        has_it = secret in text or good in text
        subject.expect(
            not has_it, "no token", f"{response.status} with the token in it"
        )
