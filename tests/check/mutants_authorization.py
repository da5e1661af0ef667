"""Faults of a server that requires access tokens."""

import json
import re
import time
from base64 import urlsafe_b64decode
from math import inf

import guarded_subject
import mutants_http
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import OctKey
from mutants_http import MODERN, given, refuse, refuses_if

ID = "mcp-session-id"
FIELD = "www-authenticate"
GARBAGE = "mcpwire-no-such-token"
WELL_KNOWN = "/.well-known/oauth-protected-resource"
KEY = OctKey.import_key(guarded_subject.SECRET)


def fault(name, *cases, **facts):
    mutants_http.fault(name, *cases, is_guarded=True, **facts)


def good(head):
    return "Bearer " + guarded_subject.token(f"http://{head['given']['host']}/mcp")


def authorizes_if(condition):
    """Return a change of requests: requests that meet a condition get a token."""

    def request(head):
        is_there = head["path"] == "/mcp"
        if is_there and condition(head, head["given"].get("authorization")):
            head["headers"]["authorization"] = good(head)
            head["query"] = ""

    return request


def signed(text):
    """Return the claims of a token with a valid signature, else ``None``."""
    try:
        return jwt.decode(
            text.removeprefix("Bearer "), KEY, algorithms=["HS256"]
        ).claims
    except (JoseError, ValueError):
        return None


def parts_of(text):
    """Return header and claims of a text in the form of a token."""
    try:
        head, claims, _ = text.removeprefix("Bearer ").split(".")
        pad = "=" * 3
        return (
            json.loads(urlsafe_b64decode(head + pad)),
            json.loads(urlsafe_b64decode(claims + pad)),
        )
    except ValueError:
        return {}, {}


# --- no token


def forbids(held):
    if held["status"] == 401 and not {ID, "authorization"} & given_names(held):
        held["status"] = 403


def given_names(held):
    return set(held["request"]["given"])


fault("a request without a token is forbidden", "AUTH-13.a", response=forbids)
for letter, verb in (("b", "GET"), ("c", "DELETE")):
    fault(
        f"a {verb} needs no token",
        f"AUTH-13.{letter}",
        request=authorizes_if(
            lambda head, auth, v=verb: head["method"] == v and not auth
        ),
    )
fault(
    "later requests need no token",
    "SEC-06.a",
    request=authorizes_if(
        lambda head, auth: head["method"] == "POST" and ID in head["given"] and not auth
    ),
)
fault(
    "later requests may have any token",
    "SEC-06.b",
    request=authorizes_if(
        lambda head, auth: ID in head["given"] and (auth or "").endswith(GARBAGE)
    ),
)


def without(name, status=401):
    """Return a change of responses: a parameter is removed from the challenge."""

    def response(held):
        if held["status"] == status and FIELD in held["headers"]:
            field = re.sub(rf'{name}="[^"]*"(, )?', "", held["headers"][FIELD])
            held["headers"][FIELD] = field.rstrip(", ")

    return response


fault(
    "the challenge does not say where the metadata is",
    "AUTH-06.a",
    response=without("resource_metadata"),
    revision="2025-06-18",
)
fault("the challenge has no scope", "FLOW-11.a", response=without("scope"))

# --- tokens that must be refused

fault(
    "any token will do",
    "FLOW-22.a",
    "G01.a",
    "G01.g",
    request=authorizes_if(
        lambda head, auth: ID not in head["given"] and GARBAGE in (auth or "")
    ),
)


def is_altered(_, auth):
    head, claims = parts_of(auth or "")
    return (
        head.get("alg") == "HS256"
        and claims.get("sub") == "ada"
        and signed(auth) is None
    )


fault(
    "signatures are not checked",
    "FLOW-22.b",
    "G13.a",
    request=authorizes_if(is_altered),
)
fault(
    "claims are not checked against the signature",
    "FLOW-22.c",
    request=authorizes_if(
        lambda _, auth: parts_of(auth or "")[1].get("sub") == "mcpwire-other"
    ),
)
fault(
    "alg none is good enough",
    "FLOW-22.d",
    request=authorizes_if(lambda _, auth: parts_of(auth or "")[0].get("alg") == "none"),
)


def claims(auth):
    return signed(auth or "") or {}


fault(
    "tokens are good for ever",
    "FLOW-22.e",
    request=authorizes_if(lambda _, auth: claims(auth).get("exp", inf) < time.time()),
)
fault(
    "tokens of all issuers are good",
    "FLOW-22.f",
    request=authorizes_if(lambda _, auth: "elsewhere" in claims(auth).get("iss", "")),
)
fault(
    "tokens for all servers are good",
    "FLOW-23.a",
    request=authorizes_if(lambda _, auth: "elsewhere" in claims(auth).get("aud", "")),
)


def no_challenge(held):
    if held["status"] == 401 and given(held, "authorization"):
        held["headers"].pop(FIELD, None)


fault(
    "a refused token brings no challenge", "FLOW-31.a", "G01.a", response=no_challenge
)


def replaces(old, new):
    def response(held):
        if FIELD in held["headers"]:
            held["headers"][FIELD] = held["headers"][FIELD].replace(old, new)

    return response


fault(
    "a refused token is an invalid request",
    "G01.a",
    response=replaces("invalid_token", "invalid_request"),
)

# --- scopes


def unauthorized(held):
    if "insufficient_scope" in held["headers"].get(FIELD, ""):
        held["status"] = 401


for id, revision in (("AUTH-14.a", "2025-06-18"), ("FLOW-14.d", "2025-11-25")):
    fault(
        f"a missing scope is no login at {revision}",
        id,
        response=unauthorized,
        revision=revision,
    )
fault(
    "a missing scope is an invalid token",
    "FLOW-14.a",
    response=replaces("insufficient_scope", "invalid_token"),
)
fault("a missing scope is not named", "FLOW-14.b", response=without("scope", 403))
fault(
    "a missing scope does not say where the metadata is",
    "FLOW-14.c",
    response=without("resource_metadata", 403),
)

# --- metadata


def path_of(held):
    return held["request"]["path"]


fault(
    "there is no metadata",
    "AUTH-05.a",
    response=refuses_if(lambda held: path_of(held).startswith(WELL_KNOWN), 404),
)


def metadata(change):
    def response(held):
        if path_of(held).startswith(WELL_KNOWN) and held["status"] == 200:
            found = json.loads(held["body"])
            change(found)
            held["body"] = json.dumps(found).encode()

    return response


fault(
    "the metadata names no authorization server",
    "AUTH-03.a",
    response=metadata(lambda found: found.pop("authorization_servers")),
)
fault(
    "the metadata names no resource",
    "AUTH-03.b",
    "G01.b",
    response=metadata(lambda found: found.pop("resource")),
)
fault(
    "the metadata is of another resource",
    "G01.b",
    response=metadata(lambda found: found.update(resource="https://elsewhere.example")),
)


def moved(head):
    if head["path"] == "/metadata/mcp":
        head["path"] = f"{WELL_KNOWN}/mcp"
    elif head["path"].startswith(WELL_KNOWN):
        head["path"] = "/nothing"


fault(
    "the metadata is at no well-known URI",
    "G01.c",
    request=moved,
    response=replaces(f"{WELL_KNOWN}/mcp", "/metadata/mcp"),
)
fault(
    "the authorization server has no https",
    "G01.e",
    response=metadata(
        lambda found: found.update(authorization_servers=["http://login.example"])
    ),
)
fault(
    "the metadata has offline_access",
    "FLOW-26.a",
    response=metadata(
        lambda found: found.update(scopes_supported=["mcp", "offline_access"])
    ),
    revision=MODERN,
)

# --- how tokens are sent

fault(
    "a token in the query is good",
    "G01.f",
    request=authorizes_if(lambda head, _: "access_token=" in head["query"]),
)
fault(
    "the first of two tokens is good",
    "G01.g",
    request=authorizes_if(lambda head, _: head["names"].count("authorization") > 1),
)
fault(
    "an empty token is good",
    "G01.h",
    request=authorizes_if(lambda _, auth: (auth or "").strip() == "Bearer"),
)
fault(
    "every scheme is good",
    "G01.i",
    request=authorizes_if(lambda _, auth: (auth or "").startswith("Basic")),
)
fault(
    "a long token is a failure of the server",
    "G01.j",
    response=refuses_if(
        lambda held: "xxxx" in (given(held, "authorization") or ""), 500
    ),
)


def only_upper(held):
    if (given(held, "authorization") or "").startswith("bearer"):
        refuse(held, 401)


fault("the scheme counts in one case", "G01.k", response=only_upper)

# --- users

fault(
    "sessions belong to everybody",
    "D05.a",
    request=authorizes_if(
        lambda head, auth: ID in head["given"] and claims(auth).get("sub") == "bob"
    ),
)


def echoes(held):
    if held["status"] == 401:
        field = held["headers"].get(FIELD, "Bearer")
        token = (given(held, "authorization") or "").rpartition(" ")[2]
        held["headers"][FIELD] = f'{field}, error_description="{token}"'


fault("a refused token is repeated", "G13.a", response=echoes)
