"""`Context`: what a handler knows of its request, and how it reaches the client.

The same code serves both eras. In a session a question is a request of the server. At
2026-07-28 it ends the run of the handler, and the client calls again with the answer:
**the handler begins anew, and finds the answers that it has**. So what must happen once
only stands behind the questions, or in `once`.

What only sends may be called from any thread. What awaits is for the event loop;
`Context.sync` has the same for worker threads.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
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
from mcpwire.server.input_rounds import InputRounds, StateSealer, begin, may_ask
from mcpwire.server.notifications import Throttle, call_soon
from mcpwire.transports.base import runs_here
from mcpwire.versions import REVISIONS, Era

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Coroutine,
        Generator,
        Sequence,
    )
    from contextvars import Token
    from typing import Self

    from mcpwire import types
    from mcpwire.protocol.input_requests import InputRequest
    from mcpwire.server.auth.resource_server import Principal
    from mcpwire.server.input_rounds import InputRounds
    from mcpwire.server.request import RequestContext
    from mcpwire.types import SamplingMessage, WireType
    from mcpwire.types.elicitation import ElicitAction
    from mcpwire.wire.json import Json
    from mcpwire.wire.jsonrpc import RequestId

    ReadFn = Callable[[dict[str, Any], RequestContext], Awaitable[dict[str, Any]]]

    """Answers ``resources/read`` on behalf of another request."""

    CallFn = Callable[[str, dict[str, Any], RequestContext], Awaitable[dict[str, Any]]]

    """Calls a tool on behalf of a request; returns the raw result."""

__all__ = [
    "Context",
    "Elicited",
    "Services",
    "SyncContext",
    "current_context",
]


@attrs.define(kw_only=True, eq=False)
class Services:
    """What the contexts of one server's requests share."""

    server: Any = None

    lifespan: Any = None
    """What the server's lifespan yielded, while that is entered."""

    sealer: StateSealer = attrs.field(factory=StateSealer)

    read_resource: ReadFn | None = None

    call_tool: CallFn | None = None


T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Elicited(Generic[T]):
    """The user's answer to a form, or to the wish to visit a URL.

    Only what was accepted has a content; users may always say no, or nothing
    (2025-11-25 client/elicitation, "Response Actions").
    """

    action: ElicitAction
    """``"accept"``, ``"decline"`` or ``"cancel"``."""

    content: dict[str, Any] | None = attrs.field(default=None, repr=False)
    """The fields of an accepted form, as they came."""

    value: T | None = attrs.field(default=None, repr=False)
    """The same as the type that was asked for; of a plain schema, the content.

    None unless it was accepted: type checkers follow ``if answer.value is None``.
    """

    elicitation_id: str | None = None
    """What `Context.elicitation_complete` takes (2025-11-25, for URLs only)."""

    @property
    def accepted(self) -> bool:
        """Whether the user agreed. To visit a URL, that is: not that it is done."""
        return self.action == "accept"


_current: Final[ContextVar[Context]] = ContextVar("mcpwire.context")

_NOV_2025: Final = REVISIONS[3]


_COMPLETED: Final = "notifications/elicitation/complete"


class _Sent:
    """What there is to await of something that is sent: nothing."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, None]:
        yield from ()


_SENT: Final = _Sent()


class Context:
    """One request, as its handler sees it; see the module's text.

    Attributes:
        request: The request itself.
    """

    __slots__ = (
        "_loop",
        "_services",
        "_sync",
        "_throttle",
        "_token",
        "request",
    )

    def __init__(self, request: RequestContext, services: Services) -> None:
        self.request = request
        self._services = services
        # Here, on the loop's thread: a worker thread could not tell.
        self._loop = asyncio.get_running_loop()
        self._throttle: Throttle | None = None
        self._sync: SyncContext | None = None
        self._token: Token[Context] | None = None

    def __repr__(self) -> str:
        request = self.request
        return f"<Context {request.method} {request.id!r}, {request.revision}>"

    # What is known...

    @property
    def request_id(self) -> RequestId:
        """Its id on the wire."""
        return self.request.id

    @property
    def method(self) -> str:
        """Its method, such as ``tools/call``."""
        return self.request.method

    @property
    def meta(self) -> Mapping[str, Any]:
        """Its `_meta`, empty where it had none."""
        return self.request.meta

    @property
    def headers(self) -> Mapping[str, str]:
        """Its header fields, by lower-case name; empty off HTTP."""
        return self.request.info.headers

    @property
    def principal(self) -> Principal | None:
        """The authenticated principal; over HTTP with authorization."""
        return self.request.info.principal

    @property
    def session(self) -> dict[str, Any]:
        """What handlers keep for a session; empty where requests stand alone."""
        return self.request.state

    @property
    def client_info(self) -> Mapping[str, Any] | None:
        """What the client calls itself, if it said so; for display only."""
        return self.request.client_info

    @property
    def client_capabilities(self) -> Mapping[str, Any]:
        """What the client declared."""
        return self.request.client_capabilities

    @property
    def protocol_version(self) -> str:
        """The revision that governs the request, such as ``"2026-07-28"``."""
        return self.request.revision.name

    @property
    def lifespan(self) -> Any:
        """What the server's lifespan yielded."""
        return self._services.lifespan

    @property
    def server(self) -> Any:
        """The `Server`."""
        return self._services.server

    @property
    def is_cancelled(self) -> bool:
        """Whether the client withdrew the request, or is gone."""
        return self.request.is_cancelled

    def raise_if_cancelled(self) -> None:
        """Stop a plain function after its request was withdrawn.

        Raises:
            CancelledError: It was.
        """
        if self.request.is_cancelled:
            raise asyncio.CancelledError

    def can(self, what: str) -> bool:
        """Tell whether the client can be asked for something here.

        Args:
            what: ``"sampling"``, ``"sampling.tools"``, ``"elicitation"``,
                ``"elicitation.form"``, ``"elicitation.url"`` or ``"roots"``.
        """
        request = self.request
        return (request.can_ask or may_ask(request)) and is_supported(
            what, request.revision, request.client_capabilities
        )

    # What is told the client...

    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> Awaitable[None]:
        """Tell the client how far the work is, if it asked to hear.

        A value that is not above the one before is passed over. Of values that come
        faster than a few at once, the newest is sent. Awaiting it waits for nothing.

        Raises:
            LocalProtocolError: A value is no finite number.
        """
        if "progressToken" not in self.request.meta:
            return _SENT
        for value in (progress, total):
            if value is not None and not _is_number(value):
                raise LocalProtocolError(
                    f"progress must be a finite number, got {value!r}"
                )
        self._sending().put(progress, total, message, is_log=False)
        return _SENT

    report_progress = progress
    """Another name of `progress`, the one that other libraries have."""

    def log(self, level: str, data: Json, logger: str | None = None) -> Awaitable[None]:
        """Send a log message, if the client wants to hear of that severity.

        Awaiting it waits for nothing.

        Raises:
            LocalProtocolError: The level is none of syslog's, or `data` is not JSON.
        """
        from mcpwire.wire.json import Fragment, encode

        if self.request.wants_log(level):
            # Encoded here: the caller gets its errors, and may change the data now.
            text = Fragment(encode(data))
            self._sending().put(level, text, logger, is_log=True)
        return _SENT

    def debug(self, data: Json) -> Awaitable[None]:
        """Send a log message of that severity."""
        return self.log("debug", data)

    def info(self, data: Json) -> Awaitable[None]:
        """Send a log message of that severity."""
        return self.log("info", data)

    def warning(self, data: Json) -> Awaitable[None]:
        """Send a log message of that severity."""
        return self.log("warning", data)

    def error(self, data: Json) -> Awaitable[None]:
        """Send a log message of that severity."""
        return self.log("error", data)

    def close_stream(self, retry: float | None = None) -> None:
        """End the stream of this call, so that the client comes back for the rest.

        For work that takes long (2025-11-25 basic/transports, "Sending Messages to the
        Server"); nothing where no stream can be taken up again.

        Args:
            retry: How long the client should wait, in seconds.
        """
        close = self.request.info.close_stream
        if close is not None:
            call_soon(self._loop, close, retry)

    def elicitation_complete(self, elicitation_id: str | None) -> None:
        """Tell the client that its user is done at a URL; at any time, even later.

        Nothing at revisions that have no such notification.

        Args:
            elicitation_id: As `elicit_url` returned it.
        """
        session = self.request.session
        if session is None or elicitation_id is None:
            return
        if session.revision == _NOV_2025:
            params = {"elicitationId": elicitation_id}
            call_soon(self._loop, session.send, _COMPLETED, params)

    def _sending(self) -> Throttle:
        if self._throttle is None:
            self._throttle = Throttle(self.request, self._loop)
        return self._throttle

    # What the client is asked...

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
            message: What the user is told.
            schema: The form: a dataclass, a typed dict or the like with plain fields;
                one plain type; ``None`` for no fields; or its JSON Schema.
            key: The question's name, unique in this call. Without one it is counted,
                and an answer counts only for the very text that was asked.

        Raises:
            MissingCapability: The client cannot show forms (2026-07-28).
            ToolError: The same in a session; or the client refused, or what it
                answered does not fit.
        """
        from mcpwire.server.authoring.forms import form_schema, read_answer

        question = input_requests.elicit_form(
            message, form_schema(schema, self.request.revision)
        )
        read = question.decode

        def read_form(raw: dict[str, Any]) -> Elicited[Any]:
            result: types.ElicitResult = read(raw)
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
        """Ask the user to visit a URL, for what must not pass through the client.

        That it was accepted means that the user agreed to go there, no more.

        Raises:
            MissingCapability: The client cannot do that (2026-07-28).
            ToolError: The same in a session; or the client refused.
            LocalProtocolError: It is no URL that a client may show.
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
        """Have the user visit a URL before this call can be made.

        The same as `elicit_url`, but at 2025-11-25: there the call ends with an error
        that names the URL, and is made again when the user has been there. So first
        find out whether they have, and call this only where they have not.

        Raises:
            UrlElicitationRequired: At 2025-11-25; the answer to this call.
            MissingCapability: As `elicit_url`, and all it raises.
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
        """Ask for an answer of the client's model.

        Args:
            prompt: A text, a message, a content block, or a list of them.
            max_tokens: How long the answer may be.
            system_prompt: What the model is to be told first.
            model_preferences: Which model would be best.
            temperature: How freely it may answer.
            stop_sequences: Where it must stop.
            include_context: What the client may add of itself.
            metadata: For the model's provider.
            tools: What the model may use; the uses are yours to carry out.
            tool_choice: Whether it must.
            key: The question's name; see `elicit`.

        Raises:
            MissingCapability: The client has no model for us, or none with tools
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

        wanted = CreateMessageRequestParams(
            _messages(prompt),
            max_tokens,
            system_prompt=system_prompt,
            model_preferences=_maybe(_as_type, ModelPreferences, model_preferences),
            include_context=include_context,
            temperature=temperature,
            stop_sequences=None if stop_sequences is None else list(stop_sequences),
            metadata=metadata,
            tools=None if tools is None else [_as_type(Tool, tool) for tool in tools],
            tool_choice=_maybe(_as_type, ToolChoice, tool_choice),
        )
        request = self.request
        question = input_requests.create_message(
            wanted, request.revision, request.client_capabilities
        )
        answer: types.CreateMessageResult = await self._ask(question, key)
        return answer

    async def roots(self, *, key: str | None = None) -> list[types.Root]:
        """Ask which folders and files the client lets us work in.

        Raises:
            MissingCapability: The client has none (2026-07-28).
            ToolError: The same in a session; or the client refused.
        """
        found: list[types.Root] = await self._ask(input_requests.list_roots(), key)
        return found

    async def once(self, key: str, function: Callable[[], Any]) -> Json:
        """Return what the function returned in the first round of this call.

        For side effects in front of a question, and for what must not change from one
        run of the handler to the next. The value must be JSON, and **the client can
        read it**; it cannot change it.

        Args:
            key: The value's name, unique in this call.
            function: Plain or async; called once.
        """
        return await self.rounds.once(key, function)

    @property
    def sync(self) -> SyncContext:
        """The same questions for plain functions, which run in worker threads."""
        if self._sync is None:
            self._sync = SyncContext(self, self._loop)
        return self._sync

    # What else this server has...

    async def read_resource(self, uri: str) -> types.ReadResourceResult:
        """Read a resource of this server, as the client would.

        Raises:
            RPCError: There is none of that URI for this client.
        """
        from mcpwire.types import ReadResourceResult, decode

        read = self._services.read_resource
        assert read is not None
        return decode(ReadResourceResult, await read({"uri": uri}, self.request))

    async def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None
    ) -> types.CallToolResult:
        """Call a tool of this server, as the client would; what it asks is asked.

        Raises:
            RPCError: There is none of that name for this client.
        """
        from mcpwire.types import CallToolResult, decode

        call = self._services.call_tool
        assert call is not None
        return decode(CallToolResult, await call(name, arguments or {}, self.request))

    # What it is made of...

    @property
    def rounds(self) -> InputRounds:
        """What this call asked so far."""
        return self.request.rounds or begin(self.request, self._services.sealer)

    async def _ask(self, question: InputRequest, key: str | None) -> Any:
        """Return the decoded answer; `InputNeeded` where there is none yet."""
        self._check_declared(question)
        request, rounds = self.request, self.rounds
        name = rounds.name(question.key_prefix, key)
        if request.can_ask or request.era is Era.SESSION:
            return await self._ask_now(question, name)
        answer = await rounds.ask(
            name, question.method, question.params, is_named=key is not None
        )
        try:
            return question.decode(answer)
        except (MCPError, ValueError) as error:
            # 2026-07-28 basic/patterns/mrtr, "Error Handling".
            raise InvalidParams(f"params.inputResponses[{name!r}]: {error}") from error

    async def _ask_now(self, question: InputRequest, name: str) -> Any:
        method = question.method
        try:
            answer = await self.request.ask(method, question.params, key=name)
        except RPCError as error:
            said = error.message or f"error {error.code}"
            raise self._failure(f"the client refused {method!r}: {said}") from error
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
        sentence = (
            f"{question.method!r} needs a client that declares {capability!r}, "
            "which this one does not"
        )
        if request.era is Era.SESSION:
            raise self._failure(sentence)
        # 2026-07-28 basic, "_meta": what cannot be done without it MUST be refused so.
        raise MissingCapability(
            sentence, data={"requiredCapabilities": capability_object(capability)}
        )

    def _failure(self, sentence: str) -> MCPError:
        is_tool = self.request.method == "tools/call"
        return ToolError(sentence) if is_tool else InternalError(sentence)

    # While the handler runs, the context is what `current_context` finds. At the end
    # what waits to be sent is sent, and threads that wait for an answer are woken.

    @property
    def is_entered(self) -> bool:
        """Whether the handler runs."""
        return self._token is not None

    def __enter__(self) -> Self:
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        _current.reset(self._token)
        self._token = None
        if self._throttle is not None:
            self._throttle.flush()
        if self._sync is not None:
            self._sync.stop()


def _maybe(convert: Callable[[type[T], Any], T], cls: type[T], value: Any) -> T | None:
    return None if value is None else convert(cls, value)


def current_context() -> Context:
    """Return the context of the request that is being answered.

    Raises:
        LocalProtocolError: No handler runs here.
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
    """`Context.sync`: the context's questions for functions that cannot await.

    ::

        @server.tool
        def order(ctx: Context) -> str:
            answer = ctx.sync.elicit("How many?", Order)
            ...

    Each method raises what its twin of the same name raises. Where a request is
    withdrawn while its thread waits, `asyncio.CancelledError` is raised there.
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
        """Have the user visit a URL before this call can be made."""
        return self._wait(self._context.require_url(message, url, key=key))

    def sample(
        self, prompt: str | Sequence[Any] | Any, **options: Any
    ) -> types.CreateMessageResult:
        """Ask for an answer of the client's model."""
        return self._wait(self._context.sample(prompt, **options))

    def roots(self, *, key: str | None = None) -> list[types.Root]:
        """Ask which folders and files the client lets us work in."""
        return self._wait(self._context.roots(key=key))

    def once(self, key: str, function: Callable[[], Any]) -> Any:
        """Return what the function returned in the first round of this call.

        A plain function runs here, in the calling thread.
        """
        if inspect.iscoroutinefunction(function):
            return self._wait(self._context.once(key, function))
        rounds = self._context.rounds
        kept = rounds.kept(key)
        return rounds.keep(key, function()) if kept is None else kept[0]

    def read_resource(self, uri: str) -> types.ReadResourceResult:
        """Read a resource of this server."""
        return self._wait(self._context.read_resource(uri))

    def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None
    ) -> types.CallToolResult:
        """Call a tool of this server."""
        return self._wait(self._context.call_tool(name, arguments))

    def _wait(self, question: Coroutine[Any, Any, T]) -> T:
        """Run a question on the loop, and wait here for what comes of it."""
        if runs_here(self._loop):
            question.close()
            raise LocalProtocolError(
                "what `sync` has waits, which the event loop's thread must not: await "
                "the same method of the context itself"
            )
        future = asyncio.run_coroutine_threadsafe(self._run(question), self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            # Theirs is an `Exception`, which functions catch by accident.
            raise asyncio.CancelledError from None

    async def _run(self, question: Coroutine[Any, Any, T]) -> T:
        # On the loop, like `stop`: neither can miss the other.
        if not self._context.is_entered:
            question.close()
            raise asyncio.CancelledError
        task = asyncio.current_task()
        assert task is not None
        self._waiting.add(task)
        try:
            return await question
        finally:
            self._waiting.discard(task)

    def stop(self) -> None:
        """Wake all threads that wait: the handler has ended."""
        for task in list(self._waiting):
            task.cancel()


W = TypeVar("W", bound="WireType")

Prompt: TypeAlias = "str | Mapping[str, Any] | WireType | Sequence[Any]"
"""A text, a `SamplingMessage`, a content block, either as a dict, or a list of them."""


def _messages(prompt: Any) -> list[SamplingMessage]:
    """Return the messages that a prompt stands for; what has no role is the user's."""
    items = prompt if isinstance(prompt, (list, tuple)) else [prompt]
    if not items:
        raise LocalProtocolError("sampling: there must be a message")
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
        return _as_type(SamplingMessage, members)
    raise LocalProtocolError(
        f"sampling: expected a text, a message or a content block, "
        f"got {type(item).__name__}"
    )


def _as_type(cls: type[W], value: Any) -> W:
    """Return a value of a wire type, which may be given as a dict."""
    from mcpwire.types import decode

    if isinstance(value, cls):
        return value
    try:
        return decode(cls, value)
    except InvalidMessage as error:
        raise LocalProtocolError(f"sampling: {error}") from error
