"""Resources: lists, refused reads, contents, subscriptions."""

from __future__ import annotations

import base64
import contextlib
import re
from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import LEGACY, MODERN, Family, NoAnswer, since
from mcpwire.check.cases._exchange import Error, Request, exchange
from mcpwire.check.cases._items import (
    RESOURCES,
    add_list_cases,
    base64_problem,
    expect_base64,
)
from mcpwire.wire.uri_template import TemplateError, UriTemplate, is_uri

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcpwire.check.subject import Answer, Subject

FAMILY: Final = Family("resources")

NOWHERE: Final = "mcpwire-check://no-such/resource"
READS: Final = 8  # maximum number per case
LISTED: Final = "nothing; checks the lists of the server"

declared = FAMILY.where(needs=("resources",))
listed = FAMILY.where(needs=("resource:",))
read = listed.where(sends="resources/read of the first listed resources")
subscribing = FAMILY.where(revisions=LEGACY, needs=("resources.subscribe",))


# --- lists ----------------------------------------------------------------------------


add_list_cases(FAMILY, RESOURCES, ("RES-01.a", "RES-02.a", "RES-02.b"))


@listed.must(
    "RES-11.a",
    "URIs of resources are valid (RFC 3986)",
    source="server/resources#custom-uri-schemes",
    revisions=since("2025-06-18"),
    sends=LISTED,
    expects="a scheme, a colon, and no character that must be encoded",
    why="clients with typed URIs reject the list",
)
async def uris(subject: Subject) -> None:
    for resource in subject.facts.resources:
        uri = resource.get("uri")
        subject.expect(isinstance(uri, str) and is_uri(uri), "a URI", uri)


@FAMILY.must(
    "RES-14.a",
    "URI templates are valid (RFC 6570)",
    source="schema#ResourceTemplate",
    needs=("template:",),
    sends=LISTED,
    expects="each uriTemplate follows the grammar of RFC 6570",
    why="clients cannot expand the template",
)
async def templates(subject: Subject) -> None:
    for each in subject.facts.templates:
        text = each.get("uriTemplate")
        try:
            UriTemplate(str(text))
        except TemplateError as error:
            subject.broken(f"a valid template: {error}", text)


# --- refused reads --------------------------------------------------------------------


@declared.must(
    "RES-04.a",
    "an unknown resource is answered with -32602",
    source="server/resources#error-handling",
    revisions=MODERN,
    sends="resources/read with an unknown URI",
    expects="an error -32602",
    why="clients cannot tell a missing resource from a failure",
)
async def not_found(subject: Subject) -> None:
    answer = await subject.request("resources/read", {"uri": NOWHERE})
    if (answer.result or {}).get("contents"):
        subject.absent("unknown URI")
    if answer.result is not None:
        subject.absent("error for an unknown URI")  # RES-06.a reports it
    subject.expect_error(answer, -32602)


exchange(
    declared.should,
    "RES-05.a",
    "an unknown resource is answered with -32002",
    source="server/resources#error-handling",
    revisions=LEGACY,
    send=Request("resources/read", {"uri": NOWHERE}),
    expect=Error(-32002),
    why="clients cannot tell a missing resource from a failure",
)


@declared.must(
    "RES-06.a",
    "an unknown resource is not answered with empty contents",
    source="server/resources#error-handling",
    revisions=MODERN,
    sends="resources/read with an unknown URI",
    expects="no result with an empty list of contents",
    why="a missing resource looks like an empty one",
)
async def no_empty_contents(subject: Subject) -> None:
    answer = await subject.request("resources/read", {"uri": NOWHERE})
    contents = (answer.result or {}).get("contents")
    subject.expect(contents != [], "an error, not empty contents", answer)


@declared.must(
    "RES-08.b",
    "an invalid URI is refused",
    source="server/resources#security-considerations",
    sends="resources/read with an empty string, and with one that is not a URI",
    expects="an error each time; lenient: contents",
    why="a server that does not validate URIs may read private data",
)
async def no_uri(subject: Subject) -> None:
    for uri in ("", "no uri at all"):
        answer = await subject.request("resources/read", {"uri": uri})
        if (answer.result or {}).get("contents"):
            subject.lenient("an error", answer)


PASSWORDS: Final = re.compile(r"^root:[^:]*:0:0:", re.MULTILINE)
CLIMBS: Final = ("/../" * 12 + "etc/passwd", "/..%2f" * 12 + "etc%2fpasswd")


def _climbing(subject: Subject) -> list[str]:
    """Return URIs of /etc/passwd, most of them by path traversal."""
    found = ["file:///etc/passwd", "file:///mcpwire" + CLIMBS[0]]
    for template in subject.facts.templates[:4]:
        for climb in ("../" * 12 + "etc/passwd", "..%2f" * 12 + "etc%2fpasswd"):
            before, _, rest = str(template.get("uriTemplate")).partition("{")
            found.append(before + climb + rest.partition("}")[2])
    for resource in subject.facts.resources[:2]:
        found += [f"{resource.get('uri')}{climb}" for climb in CLIMBS]
    return found


@declared.must(
    "RES-09.a",
    "path traversal in URIs does not reach files of the system",
    source="server/resources#security-considerations",
    rules=("RES-08",),
    sends="resources/read with file URIs, and with .. in the server's own URIs",
    expects="no contents of /etc/passwd",
    why="any client can read any file of the machine",
)
async def no_way_out(subject: Subject) -> None:
    for uri in _climbing(subject):
        answer = await subject.request("resources/read", {"uri": uri})
        contents = (answer.result or {}).get("contents")
        for each in contents if isinstance(contents, list) else ():
            text = each.get("text") if isinstance(each, dict) else None
            is_out = isinstance(text, str) and PASSWORDS.search(text)
            subject.expect(not is_out, f"no /etc/passwd for {uri}", "its contents")


exchange(
    declared.robust,
    "F13.b",
    "a read without a URI is answered with -32602",
    send=Request("resources/read", {}),
    expect=Error(-32602, -32600, -32020),
    why="an invalid request looks like a server failure",
)


# --- contents -------------------------------------------------------------------------


async def _answers(subject: Subject) -> AsyncIterator[tuple[dict[str, Any], Answer]]:
    """Yield the first listed resources, each with the answer to its read."""
    for resource in subject.facts.resources[:READS]:
        # A slow read is no fault; the runner checks the server after the case.
        with contextlib.suppress(NoAnswer):
            params = {"uri": resource.get("uri")}
            answer = await subject.request("resources/read", params)
            yield resource, answer


async def _reads(
    subject: Subject,
) -> AsyncIterator[tuple[dict[str, Any], list[dict[str, Any]], Answer]]:
    """Yield the first listed resources that can be read, with contents and answer."""
    async for resource, answer in _answers(subject):
        contents = (answer.result or {}).get("contents")
        if isinstance(contents, list):
            yield resource, [e for e in contents if isinstance(e, dict)], answer


@read.must(
    "RES-08.a",
    "binary contents are strict Base64",
    source="server/resources#security-considerations",
    expects="each blob decodes as Base64, with padding and without line ends",
    why="the client cannot decode the resource",
)
async def blobs(subject: Subject) -> None:
    async for _, contents, answer in _reads(subject):
        for each in contents:
            if "blob" in each:
                expect_base64(subject, each["blob"], answer)
    subject.need_judged("binary resource")


@read.robust(
    "F13.c",
    "contents are either a text or a blob",
    rules=("RES-12",),
    expects="each of the contents has a text or a blob, not both",
    why="clients read only one of them",
)
async def one_form(subject: Subject) -> None:
    async for _, contents, answer in _reads(subject):
        for each in contents:
            is_one = ("text" in each) != ("blob" in each)
            subject.expect(is_one, "a text or a blob", answer)
    subject.need_judged("resource that can be read")


@read.robust(
    "F13.d",
    "each listed resource can be read",
    expects="no error -32002, -32602 or -32601",
    why="clients offer resources that do not exist",
)
async def listed_is_there(subject: Subject) -> None:
    async for resource, answer in _answers(subject):
        is_there = answer.code not in {-32002, -32602, -32601}
        subject.expect(is_there, f"contents of {resource.get('uri')}", answer)


@listed.robust(
    "F13.e",
    "the size of a resource is the size of its contents",
    sends="resources/read of the first resources that have a size",
    expects="as many bytes as size says",
    why="clients use it to decide whether the contents fit",
)
async def sizes(subject: Subject) -> None:
    async for resource, contents, answer in _reads(subject):
        size = resource.get("size")
        if not isinstance(size, int) or len(contents) != 1:
            continue
        (one,) = contents
        if isinstance(one.get("text"), str):
            found = len(one["text"].encode("utf-8", "surrogatepass"))
        elif base64_problem(one.get("blob")) is None:
            found = len(base64.b64decode(one["blob"]))
        else:
            continue
        subject.expect(found == size, f"{size} bytes", f"{found} bytes, {answer}")
    subject.need_judged("resource with a size")


# --- subscriptions --------------------------------------------------------------------


@subscribing.robust(
    "F06.a",
    "resources/subscribe and resources/unsubscribe are answered",
    rules=("RES-13",),
    needs=("resources.subscribe", "resource:"),
    sends="resources/subscribe, then resources/unsubscribe, of the first resource",
    expects="a result for each",
    why="clients get no updates, or cannot stop them",
)
async def subscribed(subject: Subject) -> None:
    uri = {"uri": subject.facts.resources[0].get("uri")}
    first = await subject.request("resources/subscribe", uri)
    second = await subject.request("resources/unsubscribe", uri)
    subject.expect(first.result is not None, "a result for the subscription", first)
    subject.expect(second.result is not None, "a result for the unsubscription", second)


@subscribing.robust(
    "F06.b",
    "resources/unsubscribe without a subscription does no harm",
    sends="resources/unsubscribe of a URI without a subscription",
    expects="a result, or an error -32602 or -32002",
    why="clients that clean up see a server failure",
)
async def never_subscribed(subject: Subject) -> None:
    answer = await subject.request("resources/unsubscribe", {"uri": NOWHERE})
    fits = answer.result is not None or answer.code in {-32602, -32002}
    subject.expect(fits, "a result, or an error -32602 or -32002", answer)


exchange(
    subscribing.robust,
    "F06.c",
    "a subscription without a URI is answered with -32602",
    send=Request("resources/subscribe", {}),
    expect=Error(-32602, -32600),
    why="the client waits for updates that are never sent",
)
