# Made by `python tests/sync/generate.py --write`: change the source instead,
# mcpwire/client/__init__.py
"""The blocking client: one short method per request, typed results, nothing hidden.

A call is one `dumps`, one write, one read and one `loads`, all in the thread that makes
it: no thread of ours, no implicit `tools/list`, no validation unless asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import (
    LocalProtocolError,
    RemoteProtocolError,
    RPCError,
    TransportError,
    UrlElicitationRequired,
)
from mcpwire.protocol.recovery.restarts import tool_allows_repeat
from mcpwire.sync._shell.calls import PendingCall
from mcpwire.sync.client.base import CallOptions
from mcpwire.sync.client.notices import NoticeVerbs
from mcpwire.sync.client.skills import SkillVerbs
from mcpwire.types import UNSET, decode, decoder, encode
from mcpwire.types.tools import CallToolResult
from mcpwire.versions import Era

if TYPE_CHECKING:
    from typing import Literal, Unpack

    from mcpwire.sync.client.base import ProgressFn
    from mcpwire.transports.base import CallHandle
    from mcpwire.types import (
        CompleteResult,
        DiscoverResult,
        GetPromptResult,
        PromptReference,
        ReadResourceResult,
        ResourceTemplateReference,
        Unset,
    )

__all__ = ["CallOptions", "Client"]

logger = logging.getLogger("mcpwire")

_decode_tool_result: Final = decoder(CallToolResult)


class Client(SkillVerbs, NoticeVerbs):
    """A connection to one MCP server.

    Every method that sends a request takes `CallOptions`, raises what `call_tool`
    raises, and is as safe to interrupt: the server is told, and the connection
    goes on. Any number of threads may share a client.

    ::

        with mcpwire.sync.Client("npx -y @modelcontextprotocol/server-memory") as c:
            result = c.call_tool("read_graph")

    Args:
        target: A command line (split like a shell would, run without one), a `Stdio`,
            or a server object in this process.
        timeout: The default limit of a call, in seconds; ``None``: no limit.
        connect_timeout: The limit of `connect`, in seconds.
        probe_timeout: Seconds of silence after which an older handshake is tried
            beside the probe; it decides nothing by itself.
        mode: ``"auto"``, ``"session"``, ``"stateless"``, ``"prefer-session"`` (sessions
            if the server has both), or one revision's name.
        client_info: Who we say we are.
        limits: Bounds on what the server may cost.
        extensions: Ids of the extensions to switch on, or a mapping from ids to their
            settings; declared from 2026-07-28 on.
        experimental: Capabilities of your own to declare, by name, with their settings;
            declared at each revision.
        reset_timeout_on_progress: Whether progress starts a call's timeout again.
        max_timeout: What no progress extends a call beyond, in seconds; by default
            ten times its timeout. Without `reset_timeout_on_progress` it does nothing.
        on_notification: Called with each `Notification` that belongs to no call.
        raise_exceptions: Whether calls to a server object in this process raise what
            its functions raise unforeseen, for tests: any other client is told no
            more than that they failed.
        trace: Called as ``trace(event, data)`` with each message and turn of events
            (see `mcpwire.transports.tracing`), a plain function; without it nothing
            is called.
        background: Whether a thread of its own reads while nobody calls, so that what
            the server starts is served at any time.

    Raises:
        ValueError: An argument is out of its range; names it.
    """

    # Tools...

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | Unset | None = UNSET,
        meta: Mapping[str, Any] | None = None,
        on_progress: ProgressFn | None = None,
        headers: Mapping[str, str] | None = None,
        check: bool = False,
        validate: Literal["off", "warn", "error"] = "off",
        idempotent: bool | None = None,
    ) -> CallToolResult:
        """Call a tool and return its result, also one that reports failure.

        Args:
            name: The tool.
            arguments: Its arguments, as one object.
            timeout: Seconds; omitted: the client's; ``None``: no limit.
            meta: Further members of the request's `_meta`.
            on_progress: Called with progress, total and message, in order.
            headers: Further HTTP headers; refused on any other transport.
            check: Whether to raise `ToolError` when the tool reports failure.
            validate: Whether to hold a structured result against the tool's output
                schema, and to log or to raise what is wrong with it. Needs
                jsonschema-rs; the tools are listed where they have not been.
            idempotent: Whether the call may be made again when its connection was lost
                although it may have run; omitted: only where the tool, as last listed,
                says that it only reads or does no more when repeated.

        Raises:
            ToolError: With `check`, the tool reported failure.
            RPCError: The server refused, such as an unknown tool (`InvalidParams`).
            CallCancelled: The server needed something that a handler of ours refused
                (from 2026-07-28 on, where anything else a handler raises comes out
                here as it is; a session answers the server with an error instead).
            RequestTimeout: No answer in time; the server was told to stop.
            TransportError: The connection is gone; `ConnectionClosed.sent` says
                whether the call may have run.
            RemoteProtocolError: The answer breaks the rules.
            LocalProtocolError: The call may not be made; nothing was sent.

        Ctrl-C tells the server and raises `KeyboardInterrupt` at once.
        """
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = (
                arguments if type(arguments) is dict else as_object(arguments)
            )
        profile = self._connection.profile
        if "tools/call" in profile.refused:
            raise profile.refusal("tools/call")
        if validate != "off":
            _check_validate(validate)
        requests = self._requests
        deadline = requests.deadline(timeout)
        try:
            raw = requests.begin(
                "tools/call", params, deadline, meta, on_progress, headers
            )
        except UrlElicitationRequired as error:
            self._connection.inbound.features.url_elicitations.add_required(error)
            raise
        except (TransportError, RPCError) as error:
            options = self._options(meta, on_progress, headers, name, idempotent)
            raw = requests.perform_again(error, "tools/call", params, deadline, options)
        if raw.get("resultType", "complete") != "complete":
            options = self._options(meta, on_progress, headers, name, idempotent)
            raw = requests.finish("tools/call", params, raw, deadline, options)
        result = _decode_tool_result(raw)
        if validate != "off":
            self._validate(name, result, validate)
        return result.raise_for_error() if check else result

    def _options(
        self,
        meta: Mapping[str, Any] | None,
        on_progress: ProgressFn | None,
        headers: Mapping[str, str] | None,
        name: str,
        idempotent: bool | None,  # noqa: FBT001 - as it came
    ) -> dict[str, Any]:
        return {
            "meta": meta,
            "on_progress": on_progress,
            "headers": headers,
            "idempotent": self._may_repeat(name, idempotent),
        }

    def _may_repeat(self, name: str, said: bool | None) -> bool | None:  # noqa: FBT001 - as it came
        """Return what the caller said, else what the tool's hints say."""
        if said is None and tool_allows_repeat(self._known_tools.get(name)):
            return True
        return said

    def _validate(self, name: str, result: CallToolResult, validate: str) -> None:
        """Hold a result against what its tool promised; ``"warn"`` only tells.

        Raises:
            RemoteProtocolError: It breaks that, or the schema cannot be used.
        """
        if self._known_tools.get(name) is None:
            self.list_tools()
        problem: str | None
        try:
            problem = self._known_tools.problem(name, result)
        except RemoteProtocolError as error:
            if validate == "error":
                raise
            problem = str(error)  # what was called has happened, and has its result
        if problem is None:
            return
        if validate == "error":
            raise RemoteProtocolError(
                f"the result of {name!r} breaks its output schema: {problem}"
            )
        logger.warning("the result of %r breaks its output schema: %s", name, problem)

    def start_call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        check: bool = False,
        validate: Literal["off", "warn", "error"] = "off",
        **options: Unpack[CallOptions],
    ) -> PendingCall[CallToolResult]:
        """Send a tool call and return a handle on it, to wait for or to cancel later.

        ::

            call = client.start_call("slow", {"steps": 3})
            call.cancel("no longer needed")     # or: result = call.result()

        `check` and `validate` are those of `call_tool`. Raises what that raises before
        anything is sent; the rest is raised by its `result`.
        """
        _check_validate(validate)
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = as_object(arguments)
        options["idempotent"] = self._may_repeat(name, options.get("idempotent"))

        def call(handle: CallHandle) -> CallToolResult:
            raw = self._requests.request(
                "tools/call", params, {**options, "handle": handle}
            )
            result = _decode_tool_result(raw)
            if validate != "off":
                self._validate(name, result, validate)
            return result.raise_for_error() if check else result

        return PendingCall(self._connection, "tools/call", call).started()

    # Resources...

    def read_resource(
        self, uri: str, **options: Unpack[CallOptions]
    ) -> ReadResourceResult:
        """Read a resource; see `call_tool` for what is raised.

        An unknown URI is `ResourceNotFound` up to 2025-11-25, then `InvalidParams`.
        """
        from mcpwire.types import ReadResourceResult

        raw = self._requests.request("resources/read", {"uri": uri}, options)
        return decode(ReadResourceResult, raw)

    def read_text(self, uri: str, **options: Unpack[CallOptions]) -> str:
        """Read a resource and return its text.

        Raises:
            LocalProtocolError: It has no text, only bytes; see `read_bytes`.
        """
        result = self.read_resource(uri, **options)
        if not result.text and any(hasattr(part, "blob") for part in result.contents):
            raise LocalProtocolError(f"{uri!r} has only bytes: use read_bytes")
        return result.text

    def read_bytes(self, uri: str, **options: Unpack[CallOptions]) -> bytes:
        """Read a resource and return its bytes; text comes as UTF-8.

        Raises:
            InvalidMessage: Its bytes are no valid Base64.
        """
        return self.read_resource(uri, **options).bytes

    # Prompts and completion...

    def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> GetPromptResult:
        """Get a prompt, filled in; arguments are strings on the wire."""
        from mcpwire.types import GetPromptResult

        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = as_object(arguments)
        return decode(
            GetPromptResult,
            self._requests.request("prompts/get", params, options),
        )

    def complete(
        self,
        ref: PromptReference | ResourceTemplateReference,
        argument: str,
        value: str = "",
        *,
        context: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> CompleteResult:
        """Ask how an argument of a prompt or template could go on.

        Args:
            ref: The prompt or resource template.
            argument: The argument's name.
            value: What has been typed so far.
            context: Arguments already decided (from 2025-06-18).
            options: As every request takes.
        """
        from mcpwire.types import (
            CompleteResult,
            PromptReference,
            ResourceTemplateReference,
        )

        if not isinstance(ref, (PromptReference, ResourceTemplateReference)):
            raise LocalProtocolError(
                "ref: expected PromptReference or ResourceTemplateReference, "
                f"got {type(ref).__name__}"
            )
        params: dict[str, Any] = {
            "ref": encode(ref),
            "argument": {"name": argument, "value": value},
        }
        if context is not None:
            params["context"] = {"arguments": dict(context)}
        return decode(
            CompleteResult,
            self._requests.request("completion/complete", params, options),
        )

    # Everything else...

    def ping(self, **options: Unpack[CallOptions]) -> float:
        """Ask the server for a sign of life; return the seconds it took.

        At 2026-07-28, which has no ping, a `server/discover` is timed.
        """
        connection = self._connection
        started = connection.time()
        method = (
            "server/discover"
            if self._connection.profile.era is Era.STATELESS
            else "ping"
        )
        # Past the cache, which would answer for a server that does not.
        deadline = self._requests.deadline(options.get("timeout", UNSET))
        self._requests.perform(method, None, deadline, options)
        return connection.time() - started

    def discover(self, **options: Unpack[CallOptions]) -> DiscoverResult:
        """Ask the server what it supports (from 2026-07-28).

        Raises:
            LocalProtocolError: The agreed revision has no `server/discover`.
        """
        from mcpwire.types import DiscoverResult

        if not self._connection.is_wanted:
            raise self._connection.not_connected()
        if self._connection.profile.era is not Era.STATELESS:
            raise LocalProtocolError(
                "server/discover exists from 2026-07-28 on; this connection speaks "
                f"{self.protocol_version}"
            )
        return decode(
            DiscoverResult,
            self._requests.request("server/discover", None, options),
        )

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> dict[str, Any]:
        """Send any request and return the raw result object.

        Only what the revision demands of every request is added (`_meta` at
        2026-07-28); no capability is asked for and no input round is run.
        """
        fields = None if params is None else dict(params)
        own = (fields or {}).get("_meta") or {}
        if not isinstance(own, Mapping):
            raise LocalProtocolError(f"params._meta must be an object, got {own!r}")
        meta = {**own, **(options.get("meta") or {})}
        deadline = self._requests.deadline(options.get("timeout", UNSET))
        return self._requests.perform(
            method, fields, deadline, {**options, "meta": meta or None}
        )

    def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send any notification.

        Raises:
            TransportError: The connection is gone.
            LocalProtocolError: It may not be sent; nothing was.
        """
        channel = self._connection.channel
        if channel is None:
            raise self._connection.not_connected()
        channel.notify(method, params, headers=headers)


def as_object(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as the one object that they are on the wire.

    Raises:
        LocalProtocolError: They are no mapping.
    """
    if isinstance(arguments, Mapping):
        return dict(arguments)
    raise LocalProtocolError(
        f"arguments: expected an object, got {type(arguments).__name__}"
    )


def _check_validate(validate: str) -> None:
    if validate not in {"off", "warn", "error"}:
        raise ValueError(f"validate must be 'off', 'warn' or 'error', got {validate!r}")
