"""What the servers of one set list, merged and kept until one of them changes it.

What of it has to be fetched is fetched in parallel (`lists.one`). A name that is known
is looked up without asking anybody.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import (
    InternalError,
    InvalidMessage,
    InvalidParams,
    MCPError,
    NameCollision,
    RemoteProtocolError,
)
from mcpwire.gateway.forwarding import forward
from mcpwire.gateway.merging import (
    Listed,
    Merged,
    listed,
    merge_named,
    merge_resources,
    merge_templates,
    read_alias,
)
from mcpwire.protocol.http_headers import find_param_headers
from mcpwire.protocol.methods import find
from mcpwire.protocol.multistep import pages
from mcpwire.server.log_limit import LimitedLogger
from mcpwire.server.server import Server
from mcpwire.tools.results import EXTRAS
from mcpwire.transports.http.target import Http
from mcpwire.types import encode
from mcpwire.types._base import TRACE_KEYS
from mcpwire.wire.json import encode as encode_json
from mcpwire.wire.uri_template import (
    TemplateError,
    UriMatcher,
    UriTemplate,
    encode_literal,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping

    from mcpwire.gateway.plan import Plan
    from mcpwire.gateway.upstreams import Upstream, Upstreams
    from mcpwire.protocol.http_headers import ParamHeader
    from mcpwire.server.request import RequestContext
    from mcpwire.versions import Revision

    Json = dict[str, Any]

__all__ = [
    "KINDS",
    "Catalog",
    "Descriptions",
    "ServerList",
    "TemplateOwners",
    "call_extra",
    "extras_of",
]

logger = LimitedLogger("mcpwire")

KINDS: Final = {
    "tools": ("tools/list", "tools"),
    "prompts": ("prompts/list", "prompts"),
    "resources": ("resources/list", "resources"),
    "templates": ("resources/templates/list", "resources"),
}
"""Kind of list -> the request for it, and the capability that it needs."""


class Catalog:
    """The merged lists of one set; see the module's text.

    Attributes:
        known: What was merged last, by kind; may be older than the last change.
    """

    def __init__(self, upstreams: Upstreams) -> None:
        self._upstreams = upstreams
        self._lists: dict[tuple[str, str], ServerList] = {}
        self._states: dict[str, tuple[Any, ...]] = {}
        self._aliases: tuple[Merged, dict[str, dict[str, str]]] | None = None
        self._templates: tuple[Merged, TemplateOwners] | None = None
        self._headers: tuple[Merged, dict[str, tuple[ParamHeader, ...]]] | None = None
        self.known: dict[str, Merged] = {}

    def drop(self, kind: str, server: str | None = None) -> None:
        """Take note that a list is another now; the next reader has it fetched.

        Args:
            kind: ``"tools"``, ``"prompts"`` or ``"resources"``, with the templates.
            server: The server's name; ``None``: all servers.
        """
        kinds = ("resources", "templates") if kind == "resources" else (kind,)
        for (name, each), found in self._lists.items():
            if each in kinds and server in (None, name):
                found.wanted += 1

    def forget(self, upstream: Upstream) -> None:
        """Know nothing more of a server that is not there any more."""
        for kind in KINDS:
            found = self._lists.get((upstream.name, kind))
            if found is not None and found.upstream is upstream:
                self._lists.pop((upstream.name, kind)).close()
        self.known.clear()
        self._states.clear()

    def close(self) -> None:
        """Fetch nothing more."""
        for each in self._lists.values():
            each.close()

    # Reading...

    async def get(self, kind: str) -> Merged:
        """Return one of the `KINDS`, no older than this call.

        Raises:
            InternalError: Two tools would have one name, and the policy is to refuse.
        """
        self._upstreams.retry()
        lists = [self._list_of(each, kind) for each in self._asked(kind)]
        stale = [each for each in lists if not each.is_fresh]
        if len(stale) == 1:
            await stale[0].refresh()
        elif stale:
            await asyncio.gather(*(each.refresh() for each in stale))
        if stale:  # others may be there by now
            lists = [self._list_of(each, kind) for each in self._asked(kind)]
        state = tuple((each, each.got) for each in lists)
        if self._states.get(kind) != state:
            self.known[kind] = self._merge(
                kind, [each.found for each in lists if each.found is not None]
            )
            self._states[kind] = state
        return self.known[kind]

    def _asked(self, kind: str) -> list[Upstream]:
        """Return the servers that have such a list, or get one here."""
        upstreams = self._upstreams
        _, capability = KINDS[kind]
        if kind != "tools" or not upstreams.gateway.as_tools:
            return upstreams.offering(capability)
        wanted = {capability, *upstreams.gateway.as_tools}
        return [each for each in upstreams.ready() if any(map(each.offers, wanted))]

    def _list_of(self, upstream: Upstream, kind: str) -> ServerList:
        found = self._lists.get((upstream.name, kind))
        if found is None:
            found = self._lists[upstream.name, kind] = ServerList(
                upstream, KINDS[kind][0], self._upstreams.gateway.as_tools
            )
        return found

    async def items_of(self, kind: str, upstream: Upstream) -> list[dict[str, Any]]:
        """Return what one server lists of a kind, as it came."""
        if not upstream.offers(KINDS[kind][1]):
            return []
        found = self._list_of(upstream, kind)
        if not found.is_fresh:
            await found.refresh()
        return [] if found.found is None else list(found.found.items)

    def _merge(self, kind: str, lists: list[Listed]) -> Merged:
        if kind == "resources":
            return merge_resources(lists)
        if kind == "templates":
            return merge_templates(lists)
        gateway = self._upstreams.gateway
        servers = self._upstreams.names_of_servers()
        try:
            if kind == "prompts":
                return merge_named(lists, gateway.names, servers=servers)
            return merge_named(
                lists,
                gateway.names,
                rules=gateway.rules,
                transforms=gateway.transforms,
                servers=servers,
            )
        except NameCollision as error:
            raise InternalError(str(error)) from error

    def collisions(self) -> dict[str, list[str]]:
        """Return the servers with name collisions, by kind, as far as is known."""
        found = {
            kind: [str(each) for each in merged.collisions]
            for kind, merged in self.known.items()
        }
        return {kind: said for kind, said in found.items() if said}

    def param_headers(self, name: str) -> tuple[ParamHeader, ...]:
        """Return which arguments of a tool header fields repeat, as far as is known."""
        tools = self.known.get("tools")
        if tools is None:
            return ()
        if self._headers is None or self._headers[0] is not tools:
            self._headers = tools, {}
        known = self._headers[1]
        if name in tools.owners and name not in known:
            known[name] = _param_headers(tools, name)
        return known.get(name, ())

    # Owners...

    async def owner_of(self, kind: str, name: str) -> tuple[Upstream, str] | None:
        """Return the server of a tool or prompt, and its name there.

        A name that is known is looked up; only another one has the lists fetched that
        have changed.
        """
        known = self.known.get(kind)
        owner = known.owners.get(name) if known is not None else None
        if owner is None:
            owner = (await self.get(kind)).owners.get(name)
        upstream = self._upstreams.members.get(owner[0]) if owner is not None else None
        if upstream is None or owner is None:
            return None
        return upstream, owner[1]

    async def owner_of_uri(self, uri: str) -> tuple[Upstream, str] | None:
        """Return the likeliest server of a resource, and its URI there."""
        owners = await self.owners_of_uri(uri)
        return owners[0] if owners else None

    async def owners_of_uri(self, uri: str) -> list[tuple[Upstream, str]]:
        """Return the servers that may have a resource, likeliest first, with its URI.

        The server that lists it; or the one named by an alias; or those with a matching
        template; or the only server that has resources at all.
        """
        known = self.known.get("resources")
        owner = known.owners.get(uri) if known is not None else None
        if owner is None:
            owner = (await self.get("resources")).owners.get(uri) or read_alias(uri)
        members = self._upstreams.members
        if owner is not None and owner[0] in members:
            return [(members[owner[0]], owner[1])]
        templates = await self.get("templates")
        if self._templates is None or self._templates[0] is not templates:
            self._templates = templates, TemplateOwners(templates)
        members = self._upstreams.members  # there may be others by now
        servers = [each for each in self._templates[1].of(uri) if each in members]
        if servers:
            return [(members[server], uri) for server in servers]
        offering = self._upstreams.offering("resources")
        return [(offering[0], uri)] if len(offering) == 1 else []

    def public_uri(self, server: str, uri: str) -> str:
        """Return what a server's resource is called for clients."""
        known = self.known.get("resources")
        if known is None:
            return uri
        return known.names.get((server, uri), uri)

    async def aliases_of(self, server: str) -> Mapping[str, str]:
        """Return the URIs of a server that clients know by an alias."""
        if len(self._upstreams.offering("resources")) < 2:
            return {}
        resources = await self.get("resources")
        if self._aliases is None or self._aliases[0] is not resources:
            found: dict[str, dict[str, str]] = {}
            for (owner, uri), name in resources.names.items():
                if uri != name:
                    found.setdefault(owner, {})[uri] = name
            self._aliases = resources, found
        return self._aliases[1].get(server, {})


def _param_headers(tools: Merged, name: str) -> tuple[ParamHeader, ...]:
    schema = next(t.get("inputSchema") for t in tools.items if t["name"] == name)
    try:
        return find_param_headers(schema)
    except InvalidMessage:  # clients leave such a tool out
        return ()


MAX_LIST: Final = 16 * 1024 * 1024
"""How long all pages of one list may be together, in bytes of JSON: they are kept."""

RETRY_S: Final = 30.0
"""How long a server that could not be connected to is left alone."""

LIST_RETRY_S: Final = 5.0
"""Seconds until a server is asked again after its list failed."""


class ServerList:
    """One list of one server; see the module's text.

    Args:
        upstream: The server.
        method: What asks for one page.
        as_tools: What else there is as tools, in the list of these: ``"resources"``,
            ``"prompts"``, both or nothing.

    Attributes:
        upstream: As given.
        wanted: Counts its changes.
        got: Which of them is here; -1: none yet.
        found: What it lists; ``None``: it failed.
    """

    __slots__ = (
        "_as_tools",
        "_method",
        "_retry_at",
        "_task",
        "found",
        "got",
        "upstream",
        "wanted",
    )

    def __init__(
        self, upstream: Upstream, method: str, as_tools: Collection[str]
    ) -> None:
        self.upstream = upstream
        self._method = method
        self._as_tools = as_tools
        self._task: asyncio.Task[None] | None = None
        self._retry_at = 0.0
        self.wanted = 0
        self.got = -1
        self.found: Listed | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether what is here is what there is, as far as we know."""
        if self.got < self.wanted:
            return False
        if self.found is not None:
            return True
        return asyncio.get_running_loop().time() < self._retry_at

    async def refresh(self) -> None:
        """Have it as it was when this was called, or later."""
        if self.got >= self.wanted:
            self.wanted += 1  # it failed, and may go better now
        wanted = self.wanted
        while self.got < wanted:
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(
                    self._fetch(), name="mcpwire-list"
                )
            # One caller may be cancelled; the others still want it.
            await asyncio.wait((self._task,))

    async def _fetch(self) -> None:
        upstream, version = self.upstream, self.wanted
        try:
            async with asyncio.timeout(upstream.timeout):
                found = await self._pages()
        except (MCPError, OSError) as error:
            self.found = None
            self._retry_at = asyncio.get_running_loop().time() + LIST_RETRY_S
            upstream.problems[self._method] = error
            logger.warning(
                "%s of the server %r is left out: %s",
                self._method,
                upstream.name,
                error,
                kind=(self._method, upstream.name),
                extra={"server": upstream.name, "error": error},
            )
        else:
            self.found = found
            upstream.problems.pop(self._method, None)
        finally:
            self.got, self._task = version, None

    async def _pages(self) -> Listed:
        """Fetch all pages, as they come."""
        upstream, method = self.upstream, self._method
        if self._as_tools and not upstream.offers(method.partition("/")[0]):
            return Listed(
                server=upstream.name,
                is_bare=upstream.planned.is_bare,
                rules=upstream.planned.rules,
                extras=tuple(self._extras()),
            )
        steps = pages(method, {}, limit=upstream.limits.pages)
        planned, room = upstream.planned, MAX_LIST
        spec = find(method)
        assert spec is not None
        assert spec.list_key is not None
        try:
            step: Any = next(steps)
            while True:
                try:
                    result = await upstream.client.request(
                        method, dict(step.params), timeout=upstream.timeout
                    )
                except MCPError as error:
                    step = steps.throw(error)
                else:
                    room -= len(encode_json(result))
                    if room < 0:
                        raise RemoteProtocolError(
                            f"{method}: the list has more than {MAX_LIST} bytes"
                        )
                    step = steps.send(result)
        except StopIteration as done:
            return listed(
                upstream.name,
                done.value,
                spec.list_key,
                is_bare=planned.is_bare,
                rules=planned.rules,
                extras=self._extras(),
            )

    def _extras(self) -> list[dict[str, Any]]:
        wanted = self._as_tools if self._method == "tools/list" else ()
        return extras_of(self.upstream, wanted)

    def close(self) -> None:
        """Fetch nothing more."""
        if self._task is not None:
            self._task.cancel()


_LISTS: Final = {"mcp_list_resources": "resources", "mcp_list_prompts": "prompts"}
"""Those that only show what the gateway knows already."""

_METHODS: Final = {
    "mcp_read_resource": ("resources/read", "uri"),
    "mcp_get_prompt": ("prompts/get", "name"),
}


def extras_of(upstream: Upstream, wanted: Collection[str]) -> list[Json]:
    """Return the tools that a server gets beside its own, of the kinds wanted."""
    return [
        encode(extra.tool)
        for extra in EXTRAS.values()
        if extra.needs in wanted and upstream.offers(extra.needs)
    ]


async def call_extra(
    upstream: Upstream,
    name: str,
    arguments: Any,
    request: RequestContext,
    upstreams: Upstreams,
) -> Json:
    """Answer the call of such a tool.

    Raises:
        RPCError: The arguments are none, or the server refused.
    """
    if arguments is None:
        arguments = {}
    if type(arguments) is not dict:
        raise InvalidParams("params.arguments must be an object")
    kind = _LISTS.get(name)
    if kind is not None:
        found = {kind: await upstreams.catalog.items_of(kind, upstream)}
        return {"content": [_text(found)], "structuredContent": found}
    method, key = _METHODS[name]
    if type(arguments.get(key)) is not str:
        raise InvalidParams(f"params.arguments.{key} must be a string")
    result: Json = await forward(upstream, method, dict(arguments), request, upstreams)
    if result.get("resultType", "complete") != "complete":
        return result
    return _RESULTS[method](result)


def _text(value: Any) -> Json:
    return {"type": "text", "text": encode_json(value).decode()}


def _read(result: Json) -> Json:
    contents = result.get("contents")
    blocks = [
        {"type": "text", "text": part["text"]}
        if type(part.get("text")) is str
        else {"type": "resource", "resource": part}
        for part in (contents if type(contents) is list else ())
        if type(part) is dict
    ]
    return {"content": blocks}


def _prompted(result: Json) -> Json:
    messages = result.get("messages")
    found = [m for m in (messages if type(messages) is list else ()) if type(m) is dict]
    return {
        "content": [m["content"] for m in found if type(m.get("content")) is dict],
        "structuredContent": {"messages": found},
    }


_RESULTS: Final[dict[str, Callable[[Json], Json]]] = {
    "resources/read": _read,
    "prompts/get": _prompted,
}


class TemplateOwners:
    """The templates of a merged list, ready to be held against URIs."""

    def __init__(self, templates: Merged) -> None:
        tests: dict[str, Callable[[str], bool]] = {}
        self._tests: list[tuple[str, Callable[[str], bool]]] = []
        for server, template in templates.names:
            if template not in tests:
                tests[template] = _test(template)
            self._tests.append((server, tests[template]))

    def of(self, uri: str) -> list[str]:
        """Return the servers that have a template for a URI, each once, in order."""
        found = (server for server, fits in self._tests if fits(uri))
        return list(dict.fromkeys(found))


def _test(text: str) -> Callable[[str], bool]:
    """Return what tells whether a template gives a URI; rather yes than no."""
    try:
        template = UriTemplate(text)
    except TemplateError:
        return lambda uri: uri == text
    try:
        # What may be in a value is for the server to say.
        matcher = UriMatcher(template, unchecked=template.names)
    except TemplateError:
        first = template.parts[0] if template.parts else ""
        beginning = encode_literal(first) if isinstance(first, str) else ""
        return lambda uri: uri.startswith(beginning)
    return lambda uri: matcher.match(uri) is not None


MOST: Final = 1_000


@attrs.frozen
class _Kept:
    plan: Plan
    described: dict[str, Any]
    fresh_until: float


class Descriptions:
    """Capabilities and instructions of the servers of a plan, by protocol version.

    Kept for plans with a server that costs a process. A connection over HTTP is made
    with its session: its session id is a part of ids that other processes understand.
    A server over HTTP that gets a client's header fields may say something else to each
    client, so that nothing is kept of it.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Kept] = {}

    def find(
        self, plan: Plan, revision: Revision, headers: Iterable[str]
    ) -> dict[str, Any] | None:
        """Return what the servers of a plan can do, if that is known.

        Args:
            plan: The servers.
            revision: The protocol version of the client.
            headers: The names of the header fields that go along to them.
        """
        if _is_personal(plan, headers):
            return None
        kept = self._kept.get((plan.key, plan.one, revision.name))
        if kept is None or not _are_same(kept.plan, plan):
            return None
        now = asyncio.get_running_loop().time()
        return dict(kept.described) if now < kept.fresh_until else None

    def keep(
        self,
        plan: Plan,
        revision: Revision,
        described: dict[str, Any],
        *,
        headers: Iterable[str],
        is_complete: bool,
    ) -> None:
        """Keep what the servers of a plan can do.

        Args:
            plan: The servers.
            revision: The protocol version of the client.
            described: Members of the answer to ``initialize``.
            headers: As for `find`.
            is_complete: Whether all servers are connected; else it is kept until those
                that failed are tried again.
        """
        if all(isinstance(each.target, (Http, Server)) for each in plan.servers):
            return
        if _is_personal(plan, headers):
            return
        while len(self._kept) >= MOST:
            del self._kept[next(iter(self._kept))]
        now = asyncio.get_running_loop().time()
        fresh_until = math.inf if is_complete else now + RETRY_S
        self._kept[plan.key, plan.one, revision.name] = _Kept(
            plan, dict(described), fresh_until
        )


def _is_personal(plan: Plan, headers: Iterable[str]) -> bool:
    # What tells one request from the next tells nobody from anybody.
    return any(name not in TRACE_KEYS for name in headers) and any(
        isinstance(each.target, Http) for each in plan.servers
    )


def _are_same(one: Plan, other: Plan) -> bool:
    return len(one.servers) == len(other.servers) and all(
        each.is_as(also) for each, also in zip(one.servers, other.servers, strict=True)
    )
