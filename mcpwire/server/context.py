"""`Context`: a handler's access to its request and to the client.

The same code serves both eras. In a session a question is a request of the server. At
2026-07-28 it ends the run of the handler, and the client calls again with the answer:
**the handler starts again, and gets the answers so far without a request**. So code
that must run only once belongs after the questions, or in `once`.

Methods that only send may be called from any thread. Methods to await are for the event
loop; `Context.sync` has blocking versions for worker threads.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextvars import ContextVar, Token
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, overload
from uuid import uuid4

import attrs

from mcpwire.errors import (
    InternalError,
    InvalidMessage,
    InvalidParams,
    LocalProtocolError,
    MCPError,
    MissingCapability,
    RequestTimeout,
    RPCError,
    ToolError,
    UrlElicitationRequired,
)
from mcpwire.protocol import input_requests
from mcpwire.protocol.input_requests import capability_object, is_supported
from mcpwire.server.input_rounds import (
    InputRounds,
    StateSealer,
    can_request_input,
    get_rounds,
)
from mcpwire.server.notifications import Throttle, call_soon
from mcpwire.transports.base import is_on_loop
from mcpwire.versions import REVISIONS, Era

if TYPE_CHECKING:
    from typing import Self

    from mcpwire import types
    from mcpwire.protocol.input_requests import InputRequest
    from mcpwire.server.auth.resource_server import Principal
    from mcpwire.server.request import RequestContext
    from mcpwire.server.resources import Resources
    from mcpwire.server.tools import Tools
    from mcpwire.types import SamplingMessage, WireType
    from mcpwire.types.client_features import ElicitAction
    from mcpwire.wire.json import Json
    from mcpwire.wire.jsonrpc import RequestId


@attrs.define(kw_only=True, eq=False)
class Services:
    """The objects that the contexts of one server's requests share."""

    server: Any = None

    lifespan: Any = None
    """The value of the server's lifespan, while it is entered."""

    sealer: StateSealer = attrs.field(factory=StateSealer)

    resources: Resources = attrs.field(init=False)

    tools: Tools = attrs.field(init=False)


T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Elicited(Generic[T]):
    """The user's answer to a form, or to the request to visit a URL.

    Only an accepted one has a content; users may always decline or cancel
    (2025-11-25 client/elicitation, "Response Actions").
    """

    action: ElicitAction
    """``"accept"``, ``"decline"`` or ``"cancel"``."""

    content: dict[str, Any] | None = attrs.field(default=None, repr=False)
    """The fields of an accepted form, as received."""

    value: T | None = attrs.field(default=None, repr=False)
    """The content as the requested type; for a plain schema, the content itself.

    None unless it was accepted: type checkers follow ``if answer.value is None``.
    """

    elicitation_id: str | None = None
    """The argument of `Context.elicitation_complete` (2025-11-25, for URLs only)."""

    @property
    def accepted(self) -> bool:
        """Whether the user agreed; to visit a URL, not whether they have done so."""
        return self.action == "accept"


_current: Final[ContextVar[Context]] = ContextVar("mcpwire.context")

_NOV_2025: Final = REVISIONS[3]


_ELICITATION_COMPLETE: Final = "notifications/elicitation/complete"


class _Done:
    """An awaitable that finishes at once, for methods that only send."""

    def __await__(self) -> Generator[Any, Any, None]:
        yield from ()


_DONE: Final = _Done()


class Context:
    """One request, as its handler sees it; see the module docstring.

    Attributes:
        request: The request itself.
    """

    def __init__(self, request: RequestContext, services: Services) -> None:
        self.request = request
        self._services = services
        # Set on the loop's thread: a worker thread cannot get the loop.
        self._loop = asyncio.get_running_loop()
        self._throttle: Throttle | None = None
        self._sync: SyncContext | None = None
        self._token: Token[Context] | None = None
        self._is_cancelled = False

    def __repr__(self) -> str:
        request = self.request
        return f"<Context {request.method} {request.id!r}, {request.revision}>"

    # The request

    @property
    def request_id(self) -> RequestId:
        """The id of the request on the wire."""
        return self.request.id

    @property
    def method(self) -> str:
        """The method of the request, such as ``tools/call``."""
        return self.request.method

    @property
    def meta(self) -> Mapping[str, Any]:
        """The `_meta` of the request; empty if it has none."""
        return self.request.meta

    @property
    def headers(self) -> Mapping[str, str]:
        """The HTTP header fields, by lower-case name; empty on other transports."""
        return self.request.info.headers

    @property
    def principal(self) -> Principal | None:
        """The authenticated principal; over HTTP with authorization."""
        return self.request.info.principal

    @property
    def session(self) -> dict[str, Any]:
        """The state of handlers for a session; empty for requests without a session."""
        return self.request.state

    @property
    def client_info(self) -> Mapping[str, Any] | None:
        """The client's name and version, if it sent them; for display only."""
        return self.request.client_info

    @property
    def client_capabilities(self) -> Mapping[str, Any]:
        """The capabilities that the client declared."""
        return self.request.client_capabilities

    @property
    def protocol_version(self) -> str:
        """The revision that governs the request, such as ``"2026-07-28"``."""
        return self.request.revision.name

    @property
    def lifespan(self) -> Any:
        """The value that the server's lifespan yielded."""
        return self._services.lifespan

    @property
    def server(self) -> Any:
        """The `Server`."""
        return self._services.server

    @property
    def is_cancelled(self) -> bool:
        """Whether the call was cancelled or timed out, or the client disconnected."""
        return self._is_cancelled or self.request.is_cancelled

    def raise_if_cancelled(self) -> None:
        """Stop a plain function if its call was cancelled or has timed out.

        Raises:
            CancelledError: `is_cancelled` is true.
        """
        if self.is_cancelled:
            raise asyncio.CancelledError

    def can(self, what: str) -> bool:
        """Return whether the client supports a kind of question for this request.

        Args:
            what: ``"sampling"``, ``"sampling.tools"``, ``"elicitation"``,
                ``"elicitation.form"``, ``"elicitation.url"`` or ``"roots"``.
        """
        request = self.request
        return (request.can_ask or can_request_input(request)) and is_supported(
            what, request.revision, request.client_capabilities
        )

    # Notifications to the client

    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> Awaitable[None]:
        """Send a progress notification, if the client requested progress.

        A value that is not above the previous one is dropped. Of values in quick
        succession only the newest is sent. Awaiting the result returns at once.

        Raises:
            LocalProtocolError: A value is no finite number, or `message` is not JSON.
        """
        from mcpwire.wire.json import encode

        if "progressToken" not in self.request.meta:
            return _DONE
        for value in (progress, total):
            if value is not None and not _is_number(value):
                raise LocalProtocolError(
                    f"progress must be a finite number, got {value!r}"
                )
        encode(message)
        self._get_throttle().send(progress, total, message, is_log=False)
        return _DONE

    report_progress = progress
    """An alias of `progress`, which other libraries use."""

    def log(self, level: str, data: Json, logger: str | None = None) -> Awaitable[None]:
        """Send a log message, if the client requested messages of this severity.

        Awaiting the result returns at once.

        Raises:
            LocalProtocolError: The level is not one of syslog's, or `data` or `logger`
                is not JSON.
        """
        from mcpwire.wire.json import Fragment, encode

        if self.request.wants_log(level):
            # Encoded now: the caller gets the errors, and may change the data later.
            encode(logger)
            text = Fragment(encode(data))
            self._get_throttle().send(level, text, logger, is_log=True)
        return _DONE

    def debug(self, data: Json) -> Awaitable[None]:
        """Send a log message of severity debug."""
        return self.log("debug", data)

    def info(self, data: Json) -> Awaitable[None]:
        """Send a log message of severity info."""
        return self.log("info", data)

    def warning(self, data: Json) -> Awaitable[None]:
        """Send a log message of severity warning."""
        return self.log("warning", data)

    def error(self, data: Json) -> Awaitable[None]:
        """Send a log message of severity error."""
        return self.log("error", data)

    def close_stream(self, retry: float | None = None) -> None:
        """End the stream of this call, so that the client reconnects for the rest.

        For long calls (2025-11-25 basic/transports, "Sending Messages to the Server");
        no effect if the stream cannot be resumed.

        Args:
            retry: How long the client should wait, in seconds.
        """
        close = self.request.info.close_stream
        if close is not None:
            call_soon(self._loop, close, retry)

    def elicitation_complete(self, elicitation_id: str | None) -> None:
        """Notify the client that its user has finished at a URL; at any time.

        No effect at revisions without such a notification.

        Args:
            elicitation_id: As returned by `elicit_url`.
        """
        session = self.request.session
        if session is None or elicitation_id is None:
            return
        if session.revision == _NOV_2025:
            params = {"elicitationId": elicitation_id}
            call_soon(self._loop, session.send, _ELICITATION_COMPLETE, params)

    def _get_throttle(self) -> Throttle:
        if self._throttle is None:
            self._throttle = Throttle(self.request, self._loop)
        return self._throttle

    # Requests to the client

    @overload
    async def elicit(
        self, message: str, schema: type[T], *, key: str | None = None
    ) -> Elicited[T]: ...

    @overload
    async def elicit(
        self, message: str, schema: Mapping[str, Any], *, key: str | None = None
    ) -> Elicited[dict[str, Any]]: ...

    @overload
    async def elicit(
        self, message: str, schema: object, *, key: str | None = None
    ) -> Elicited[Any]: ...

    async def elicit(
        self, message: str, schema: Any, *, key: str | None = None
    ) -> Elicited[Any]:
        """Ask the user to fill in a form.

        Args:
            message: The message to show to the user.
            schema: The form: a dataclass, a typed dict or the like with plain fields;
                one plain type; ``None`` for no fields; or its JSON Schema.
            key: The question's name, unique in this call. Without a key the questions
                are numbered, and an answer counts only for an identical question.

        Raises:
            MissingCapability: The client cannot show forms (2026-07-28).
            ToolError: The same in a session; or the client refused, or its answer does
                not match the form.
        """
        from mcpwire.server.authoring.forms import form_schema, read_answer

        question = input_requests.elicit_form(
            message, form_schema(schema, self.request.revision)
        )
        decode_result = question.decode

        def read_form(raw: dict[str, Any]) -> Elicited[Any]:
            result: types.ElicitResult = decode_result(raw)
            if result.action != "accept":
                return Elicited(action=result.action)
            content = result.content or {}
            return Elicited(
                action="accept", content=content, value=read_answer(schema, content)
            )

        answer: Elicited[Any] = await self._ask(
            attrs.evolve(question, decode=read_form), key
        )
        return answer

    async def elicit_url(
        self, message: str, url: str, *, key: str | None = None
    ) -> Elicited[None]:
        """Ask the user to visit a URL, for data that must not pass through the client.

        Acceptance means only that the user agreed to visit it.

        Raises:
            MissingCapability: The client cannot open URLs (2026-07-28).
            ToolError: The same in a session; or the client refused.
            LocalProtocolError: The URL is not one that a client may show.
        """
        id = uuid4().hex
        revision = self.request.revision
        question = input_requests.elicit_url(message, url, revision, elicitation_id=id)
        result: types.ElicitResult = await self._ask(question, key)
        has_id = revision == _NOV_2025
        return Elicited(action=result.action, elicitation_id=id if has_id else None)

    async def require_url(
        self, message: str, url: str, *, key: str | None = None
    ) -> Elicited[None]:
        """Require the user to visit a URL before this call can be made.

        The same as `elicit_url`, except at 2025-11-25: there the call ends with an
        error that names the URL, and the client repeats it after the visit. So check
        first whether the user has been there, and call this only if not.

        Raises:
            UrlElicitationRequired: At 2025-11-25; the response to this call.
            MissingCapability: As `elicit_url`, with all its other errors.
        """
        revision = self.request.revision
        if revision != _NOV_2025:
            return await self.elicit_url(message, url, key=key)
        question = input_requests.elicit_url(
            message, url, revision, elicitation_id=uuid4().hex
        )
        self._check_declared(question)
        # 2025-11-25 client/elicitation, "URL Elicitation Required Error".
        raise UrlElicitationRequired(message, data={"elicitations": [question.params]})

    async def sample(
        self,
        prompt: Prompt,
        *,
        max_tokens: int = 1000,
        system_prompt: str | None = None,
        model_preferences: types.ModelPreferences | dict[str, Any] | None = None,
        temperature: float | None = None,
        stop_sequences: Sequence[str] | None = None,
        include_context: types.IncludeContext | None = None,
        metadata: dict[str, Any] | None = None,
        tools: Sequence[types.Tool | dict[str, Any]] | None = None,
        tool_choice: types.ToolChoice | dict[str, Any] | None = None,
        key: str | None = None,
    ) -> types.CreateMessageResult:
        """Request a completion from the client's model.

        Args:
            prompt: A text, a message, a content block, or a list of them.
            max_tokens: The maximum length of the answer.
            system_prompt: The system prompt.
            model_preferences: The preferred properties of the model.
            temperature: The sampling temperature.
            stop_sequences: Texts at which the model must stop.
            include_context: The context that the client may include.
            metadata: Metadata for the model's provider.
            tools: The tools of the model; the caller must carry out their uses.
            tool_choice: Whether the model must use tools.
            key: The question's name; see `elicit`.

        Raises:
            MissingCapability: The client does not support sampling, or not with tools
                (2026-07-28).
            ToolError: The same in a session; or the client refused.
            LocalProtocolError: The conversation breaks a rule of the revision.
        """
        from mcpwire.types import (
            CreateMessageRequestParams,
            ModelPreferences,
            Tool,
            ToolChoice,
        )

        params = CreateMessageRequestParams(
            _messages(prompt),
            max_tokens,
            system_prompt=system_prompt,
            model_preferences=_as_type(ModelPreferences, model_preferences),
            include_context=include_context,
            temperature=temperature,
            stop_sequences=None if stop_sequences is None else list(stop_sequences),
            metadata=metadata,
            tools=None if tools is None else [_as_type(Tool, tool) for tool in tools],
            tool_choice=_as_type(ToolChoice, tool_choice),
        )
        request = self.request
        question = input_requests.create_message(
            params, request.revision, request.client_capabilities
        )
        answer: types.CreateMessageResult = await self._ask(question, key)
        return answer

    async def roots(self, *, key: str | None = None) -> list[types.Root]:
        """Request the folders and files in which the client allows work.

        Raises:
            MissingCapability: The client does not support roots (2026-07-28).
            ToolError: The same in a session; or the client refused.
        """
        roots: list[types.Root] = await self._ask(input_requests.list_roots(), key)
        return roots

    async def once(self, key: str, function: Callable[[], Any]) -> Json:
        """Return the value that the function returned in the first round of this call.

        For side effects before a question, and for values that must not differ between
        the runs of the handler. The value must be JSON, and **the client can read it**;
        it cannot change it.

        Args:
            key: The value's name, unique in this call.
            function: Plain or async; called once.
        """
        return await self.rounds.once(key, function)

    @property
    def sync(self) -> SyncContext:
        """The same methods for plain functions, which run in worker threads."""
        if self._sync is None:
            self._sync = SyncContext(self, self._loop)
        return self._sync

    # Other components of the server

    async def read_resource(self, uri: str) -> types.ReadResourceResult:
        """Read a resource of this server, as the client would.

        Raises:
            RPCError: The client has no access to a resource with that URI.
        """
        from mcpwire.types import ReadResourceResult, decode

        result = await self._services.resources.read({"uri": uri}, self.request)
        return decode(ReadResourceResult, result)

    async def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None
    ) -> types.CallToolResult:
        """Call a tool of this server, as the client would; it may ask questions.

        Raises:
            RPCError: The client has no access to a tool with that name.
        """
        from mcpwire.types import CallToolResult, decode

        tools = self._services.tools
        result = await tools.call_from_handler(name, arguments or {}, self.request)
        return decode(CallToolResult, result)

    # Internals

    @property
    def rounds(self) -> InputRounds:
        """The questions and answers of this call so far."""
        return self.request.rounds or get_rounds(self.request, self._services.sealer)

    async def _ask(self, question: InputRequest, key: str | None) -> Any:
        """Return the decoded answer; raise `InputNeeded` without one."""
        self._check_declared(question)
        request, rounds = self.request, self.rounds
        name = rounds.key_for(question.key_prefix, key)
        if request.can_ask or request.era is Era.SESSION:
            return await self._ask_client(question, name)
        answer = await rounds.ask(
            name, question.method, question.params, is_named=key is not None
        )
        try:
            return question.decode(answer)
        except (MCPError, ValueError) as error:
            # 2026-07-28 basic/patterns/mrtr, "Error Handling".
            raise InvalidParams(f"params.inputResponses[{name!r}]: {error}") from error

    async def _ask_client(self, question: InputRequest, name: str) -> Any:
        method = question.method
        try:
            answer = await self.request.ask(method, question.params, key=name)
        except RPCError as error:
            reason = error.message or f"error {error.code}"
            raise self._failure(f"the client refused {method!r}: {reason}") from error
        except RequestTimeout as error:
            raise self._failure(
                f"the client did not answer {method!r} in time"
            ) from error
        try:
            return question.decode(answer)
        except (MCPError, ValueError) as error:
            raise self._failure(
                f"the client's answer to {method!r} is malformed: {error}"
            ) from error

    def _check_declared(self, question: InputRequest) -> None:
        request, capability = self.request, question.capability
        if is_supported(capability, request.revision, request.client_capabilities):
            return
        message = (
            f"{question.method!r} needs a client that declares {capability!r}, "
            "which this one does not"
        )
        if request.era is Era.SESSION:
            raise self._failure(message)
        # 2026-07-28 basic, "_meta": such a request MUST be refused with this error.
        raise MissingCapability(
            message, data={"requiredCapabilities": capability_object(capability)}
        )

    def _failure(self, message: str) -> MCPError:
        is_tool = self.request.method == "tools/call"
        return ToolError(message) if is_tool else InternalError(message)

    # While the handler runs, `current_context` returns the context. At the end queued
    # notifications are sent, and waiting threads are woken.

    @property
    def is_entered(self) -> bool:
        """Whether the handler is running."""
        return self._token is not None

    def __enter__(self) -> Self:
        self._token = _current.set(self)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        # Also by a timeout: a plain function runs on in its thread.
        self._is_cancelled = kind is asyncio.CancelledError
        assert self._token is not None
        _current.reset(self._token)
        self._token = None
        if self._throttle is not None:
            self._throttle.flush()
        if self._sync is not None:
            self._sync.stop()


def current_context() -> Context:
    """Return the context of the current request.

    Raises:
        LocalProtocolError: No handler is running here.
    """
    try:
        return _current.get()
    except LookupError:
        raise LocalProtocolError(
            "there is a current context only while a handler runs"
        ) from None


def _is_number(value: object) -> bool:
    return type(value) is int or (isinstance(value, float) and isfinite(value))


class SyncContext:
    """`Context.sync`: blocking versions of the methods of a context.

    ::

        @server.tool
        def order(ctx: Context) -> str:
            answer = ctx.sync.elicit("How many?", Order)
            ...

    Each method raises the errors of the context's method. If the request is cancelled
    while its thread waits, `asyncio.CancelledError` is raised there.
    """

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._loop = loop
        self._waiting: set[asyncio.Task[Any]] = set()

    @overload
    def elicit(
        self, message: str, schema: type[T], *, key: str | None = None
    ) -> Elicited[T]: ...

    @overload
    def elicit(
        self, message: str, schema: Mapping[str, Any], *, key: str | None = None
    ) -> Elicited[dict[str, Any]]: ...

    @overload
    def elicit(
        self, message: str, schema: object, *, key: str | None = None
    ) -> Elicited[Any]: ...

    def elicit(
        self, message: str, schema: Any, *, key: str | None = None
    ) -> Elicited[Any]:
        """Ask the user to fill in a form."""
        return self._wait(self._context.elicit(message, schema, key=key))

    def elicit_url(
        self, message: str, url: str, *, key: str | None = None
    ) -> Elicited[None]:
        """Ask the user to visit a URL."""
        return self._wait(self._context.elicit_url(message, url, key=key))

    def require_url(
        self, message: str, url: str, *, key: str | None = None
    ) -> Elicited[None]:
        """Require the user to visit a URL before this call can be made."""
        return self._wait(self._context.require_url(message, url, key=key))

    def sample(
        self, prompt: str | Sequence[Any] | Any, **options: Any
    ) -> types.CreateMessageResult:
        """Request a completion from the client's model."""
        return self._wait(self._context.sample(prompt, **options))

    def roots(self, *, key: str | None = None) -> list[types.Root]:
        """Request the folders and files in which the client allows work."""
        return self._wait(self._context.roots(key=key))

    def once(self, key: str, function: Callable[[], Any]) -> Any:
        """Return the value that the function returned in the first round of this call.

        A plain function runs in the calling thread.
        """
        if inspect.iscoroutinefunction(function):
            return self._wait(self._context.once(key, function))
        rounds = self._context.rounds
        stored = rounds.stored_value(key)
        return rounds.store_value(key, function()) if stored is None else stored[0]

    def read_resource(self, uri: str) -> types.ReadResourceResult:
        """Read a resource of this server."""
        return self._wait(self._context.read_resource(uri))

    def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None
    ) -> types.CallToolResult:
        """Call a tool of this server."""
        return self._wait(self._context.call_tool(name, arguments))

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, and wait for its result in this thread."""
        if is_on_loop(self._loop):
            coroutine.close()
            raise LocalProtocolError(
                "methods of `sync` block and must not run in the event loop's thread: "
                "await the same method of the context itself"
            )
        future = asyncio.run_coroutine_threadsafe(self._run(coroutine), self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            # `concurrent.futures` raises an `Exception`, which `except` may catch.
            raise asyncio.CancelledError from None

    async def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        # On the loop, like `stop`, so that there is no race between the two.
        if not self._context.is_entered:
            coroutine.close()
            raise asyncio.CancelledError
        task = asyncio.current_task()
        assert task is not None
        self._waiting.add(task)
        try:
            return await coroutine
        finally:
            self._waiting.discard(task)

    def stop(self) -> None:
        """Cancel the requests of all waiting threads: the handler has ended."""
        for task in list(self._waiting):
            task.cancel()


Prompt: TypeAlias = "str | Mapping[str, Any] | WireType | Sequence[Any]"
"""A text, a `SamplingMessage`, a content block, either as a dict, or a list of them."""


def _messages(prompt: Any) -> list[SamplingMessage]:
    """Return the messages of a prompt; items without a role are the user's."""
    items = prompt if isinstance(prompt, (list, tuple)) else [prompt]
    if not items:
        raise LocalProtocolError("sampling: at least one message is required")
    return [_as_message(item) for item in items]


def _as_message(item: Any) -> SamplingMessage:
    from mcpwire.types import SamplingMessage, TextContent, WireType

    if isinstance(item, SamplingMessage):
        return item
    if isinstance(item, str):
        return SamplingMessage("user", TextContent(item))
    if isinstance(item, WireType):
        return SamplingMessage("user", item)  # type: ignore[arg-type]  # which blocks there are is checked when the question is made
    if isinstance(item, Mapping):
        members = dict(item)
        if "role" not in members:
            members = {"role": "user", "content": members}
        message: SamplingMessage = _as_type(SamplingMessage, members)
        return message
    raise LocalProtocolError(
        f"sampling: expected a text, a message or a content block, "
        f"got {type(item).__name__}"
    )


def _as_type(cls: type[WireType], value: Any) -> Any:
    """Return a value of a wire type, which may be given as a dict, or ``None``."""
    from mcpwire.types import decode

    if value is None or isinstance(value, cls):
        return value
    try:
        return decode(cls, value)
    except InvalidMessage as error:
        raise LocalProtocolError(f"sampling: {error}") from error
