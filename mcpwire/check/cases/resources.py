"""Resources: lists, refused reads, contents, subscriptions."""

from __future__ import annotations

import base64
import contextlib
import re
from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import LEGACY, MODERN, Family, NoAnswer, since
from mcpwire.check.cases._exchange import Error, Request, add_exchange_case
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

UNKNOWN_URI: Final = "mcpwire-check://no-such/resource"
MAX_READS: Final = 8  # maximum number per case
SENDS_NOTHING: Final = "nothing; checks the lists of the server"

declared = FAMILY.with_defaults(needs=("resources",))
listed = FAMILY.with_defaults(needs=("resource:",))
read = listed.with_defaults(sends="resources/read for the first listed resources")
subscribing = FAMILY.with_defaults(revisions=LEGACY, needs=("resources.subscribe",))


# --- lists ----------------------------------------------------------------------------


add_list_cases(FAMILY, RESOURCES, ("RES-01.a", "RES-02.a", "RES-02.b"))


@listed.must(
    "RES-11.a",
    "URIs of resources are valid (RFC 3986)",
    source="server/resources#custom-uri-schemes",
    revisions=since("2025-06-18"),
    sends=SENDS_NOTHING,
    expects="a scheme, a colon, and no character that must be encoded",
    why="clients with typed URIs reject the list",
)
async def valid_uris(subject: Subject) -> None:
    for resource in subject.facts.resources:
        uri = resource.get("uri")
        subject.expect(isinstance(uri, str) and is_uri(uri), "a URI", uri)


@FAMILY.must(
    "RES-14.a",
    "URI templates are valid (RFC 6570)",
    source="schema#ResourceTemplate",
    needs=("template:",),
    sends=SENDS_NOTHING,
    expects="each uriTemplate follows the grammar of RFC 6570",
    why="clients cannot expand the template",
)
async def valid_templates(subject: Subject) -> None:
    for template in subject.facts.templates:
        text = template.get("uriTemplate")
        try:
            UriTemplate(str(text))
        except TemplateError as error:
            subject.raise_broken(f"a valid template: {error}", text)


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
async def unknown_resource(subject: Subject) -> None:
    answer = await subject.request("resources/read", {"uri": UNKNOWN_URI})
    if (answer.result or {}).get("contents"):
        subject.raise_absent("unknown URI")
    if answer.result is not None:
        subject.raise_absent("error for an unknown URI")  # RES-06.a reports it
    subject.expect_error(answer, -32602)


add_exchange_case(
    declared.should,
    "RES-05.a",
    "an unknown resource is answered with -32002",
    source="server/resources#error-handling",
    revisions=LEGACY,
    send=Request("resources/read", {"uri": UNKNOWN_URI}),
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
    answer = await subject.request("resources/read", {"uri": UNKNOWN_URI})
    contents = (answer.result or {}).get("contents")
    subject.expect(contents != [], "an error, not empty contents", answer)


@declared.must(
    "RES-08.b",
    "an invalid URI is refused",
    source="server/resources#security-considerations",
    sends="resources/read with an empty URI, and with a string that is not a URI",
    expects="an error or no contents each time; lenient: contents",
    why="a server that does not validate URIs may read private data",
)
async def invalid_uri(subject: Subject) -> None:
    for uri in ("", "no uri at all"):
        answer = await subject.request("resources/read", {"uri": uri})
        if (answer.result or {}).get("contents"):
            subject.raise_lenient("an error", answer)


PASSWD_LINE: Final = re.compile(r"^root:[^:]*:0:0:", re.MULTILINE)
TRAVERSALS: Final = ("/../" * 12 + "etc/passwd", "/..%2f" * 12 + "etc%2fpasswd")


def _traversal_uris(subject: Subject) -> list[str]:
    """Return URIs of /etc/passwd, most of them by path traversal."""
    uris = ["file:///etc/passwd", "file:///mcpwire" + TRAVERSALS[0]]
    for template in subject.facts.templates[:4]:
        for traversal in ("../" * 12 + "etc/passwd", "..%2f" * 12 + "etc%2fpasswd"):
            before, _, rest = str(template.get("uriTemplate")).partition("{")
            uris.append(before + traversal + rest.partition("}")[2])
    for resource in subject.facts.resources[:2]:
        uris += [f"{resource.get('uri')}{traversal}" for traversal in TRAVERSALS]
    return uris


@declared.must(
    "RES-09.a",
    "path traversal in URIs does not reach system files",
    source="server/resources#security-considerations",
    rules=("RES-08",),
    sends="resources/read with file URIs, and with .. in the server's own URIs",
    expects="no contents of /etc/passwd",
    why="any client can read any file on the machine",
)
async def path_traversal(subject: Subject) -> None:
    for uri in _traversal_uris(subject):
        answer = await subject.request("resources/read", {"uri": uri})
        contents = (answer.result or {}).get("contents")
        for content in contents if isinstance(contents, list) else ():
            text = content.get("text") if isinstance(content, dict) else None
            has_leaked = isinstance(text, str) and PASSWD_LINE.search(text)
            subject.expect(not has_leaked, f"no /etc/passwd for {uri}", "its contents")


add_exchange_case(
    declared.robust,
    "F13.b",
    "a read without a URI is refused",
    send=Request("resources/read", {}),
    expect=Error(-32602, -32600, -32020),
    why="an invalid request looks like a server failure",
)


# --- contents -------------------------------------------------------------------------


async def _read_resources(
    subject: Subject,
) -> AsyncIterator[tuple[dict[str, Any], Answer]]:
    """Yield the first listed resources, each with the answer to its read."""
    for resource in subject.facts.resources[:MAX_READS]:
        # A slow read is no fault; the runner checks the server after the case.
        with contextlib.suppress(NoAnswer):
            params = {"uri": resource.get("uri")}
            answer = await subject.request("resources/read", params)
            yield resource, answer


async def _read_contents(
    subject: Subject,
) -> AsyncIterator[tuple[dict[str, Any], list[dict[str, Any]], Answer]]:
    """Yield the first listed resources that can be read, with contents and answer."""
    async for resource, answer in _read_resources(subject):
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
    async for _, contents, answer in _read_contents(subject):
        for content in contents:
            if "blob" in content:
                expect_base64(subject, content["blob"], answer)
    subject.need_expectation("binary resource")


@read.robust(
    "F13.c",
    "each item of contents has either text or blob",
    rules=("RES-12",),
    expects="each item of contents has text or blob, not both",
    why="clients read only one of them",
)
async def one_form(subject: Subject) -> None:
    async for _, contents, answer in _read_contents(subject):
        for content in contents:
            has_one_form = ("text" in content) != ("blob" in content)
            subject.expect(has_one_form, "either text or blob", answer)
    subject.need_expectation("resource that can be read")


@read.robust(
    "F13.d",
    "each listed resource can be read",
    expects="no error -32002, -32602 or -32601",
    why="clients offer resources that do not exist",
)
async def listed_can_be_read(subject: Subject) -> None:
    async for resource, answer in _read_resources(subject):
        is_found = answer.code not in {-32002, -32602, -32601}
        subject.expect(is_found, f"contents of {resource.get('uri')}", answer)


@listed.robust(
    "F13.e",
    "the size of a resource is the size of its contents",
    sends="resources/read for the first resources that have a size",
    expects="as many bytes as size says",
    why="clients use it to decide whether the contents fit",
)
async def sizes(subject: Subject) -> None:
    async for resource, contents, answer in _read_contents(subject):
        size = resource.get("size")
        if not isinstance(size, int) or len(contents) != 1:
            continue
        (content,) = contents
        if isinstance(content.get("text"), str):
            length = len(content["text"].encode("utf-8", "surrogatepass"))
        elif base64_problem(content.get("blob")) is None:
            length = len(base64.b64decode(content["blob"]))
        else:
            continue
        subject.expect(length == size, f"{size} bytes", f"{length} bytes, {answer}")
    subject.need_expectation("resource with a size")


# --- subscriptions --------------------------------------------------------------------


@subscribing.robust(
    "F06.a",
    "resources/subscribe and resources/unsubscribe are answered",
    rules=("RES-13",),
    needs=("resources.subscribe", "resource:"),
    sends="resources/subscribe, then resources/unsubscribe, for the first resource",
    expects="a result for each",
    why="clients get no updates, or cannot stop them",
)
async def subscribe_and_unsubscribe(subject: Subject) -> None:
    uri = {"uri": subject.facts.resources[0].get("uri")}
    first = await subject.request("resources/subscribe", uri)
    second = await subject.request("resources/unsubscribe", uri)
    subject.expect(first.result is not None, "a result for the subscription", first)
    subject.expect(second.result is not None, "a result for the unsubscription", second)


@subscribing.robust(
    "F06.b",
    "resources/unsubscribe without a subscription is accepted or refused",
    sends="resources/unsubscribe for a URI without a subscription",
    expects="a result, or an error -32602 or -32002",
    why="clients that clean up see a server failure",
)
async def unsubscribe_only(subject: Subject) -> None:
    answer = await subject.request("resources/unsubscribe", {"uri": UNKNOWN_URI})
    fits = answer.result is not None or answer.code in {-32602, -32002}
    subject.expect(fits, "a result, or an error -32602 or -32002", answer)


add_exchange_case(
    subscribing.robust,
    "F06.c",
    "a subscription without a URI is refused",
    send=Request("resources/subscribe", {}),
    expect=Error(-32602, -32600),
    why="the client waits for updates that are never sent",
)
