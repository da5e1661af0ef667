"""`Context`: what a handler knows of its request, and how it reaches the client.

The same code serves both eras. In a session a question is a request of the server. At
2026-07-28 it ends the run of the handler, and the client calls again with the answer:
**the handler begins anew, and finds the answers that it has**. So what must happen once
only stands behind the questions, or in `once`.

What only sends may be called from any thread. What awaits is for the event loop;
`Context.sync` has the same for worker threads.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload
from uuid import uuid4

import attrs

from mcpwire.errors import LocalProtocolError, UrlElicitationRequired
from mcpwire.protocol import input_requests
from mcpwire.server.asking.asking import ask, check_declared
from mcpwire.server.asking.elicited import Elicited
from mcpwire.server.asking.rounds import Rounds, begin
from mcpwire.server.asking.telling import Telling
from mcpwire.versions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Self

    from mcpwire import types
    from mcpwire.server.asking.blocking import Blocking
    from mcpwire.server.asking.messages import Prompt
    from mcpwire.wire.json import Json

__all__ = ["Context", "current_context", "entered"]

T = TypeVar("T")

_current: Final[ContextVar[Context]] = ContextVar("mcpwire.context")

_NOV_2025: Final = REVISIONS[3]


class Context(Telling):
    """One request, as its handler sees it; see the module's text.

    Attributes:
        request: The request itself.
    """

    __slots__ = ()

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
        check_declared(question, self.request)
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
        from mcpwire.server.asking.messages import as_messages, as_type
        from mcpwire.types import (
            CreateMessageRequestParams,
            ModelPreferences,
            Tool,
            ToolChoice,
        )

        wanted = CreateMessageRequestParams(
            as_messages(prompt),
            max_tokens,
            system_prompt=system_prompt,
            model_preferences=_maybe(as_type, ModelPreferences, model_preferences),
            include_context=include_context,
            temperature=temperature,
            stop_sequences=None if stop_sequences is None else list(stop_sequences),
            metadata=metadata,
            tools=None if tools is None else [as_type(Tool, tool) for tool in tools],
            tool_choice=_maybe(as_type, ToolChoice, tool_choice),
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
    def sync(self) -> Blocking:
        """The same questions for plain functions, which run in worker threads."""
        if self._blocking is None:
            from mcpwire.server.asking.blocking import Blocking

            self._blocking = Blocking(self, self._loop)
        return self._blocking

    # What else this server has...

    async def read_resource(self, uri: str) -> types.ReadResourceResult:
        """Read a resource of this server, as the client would.

        Raises:
            RPCError: There is none of that URI for this client.
        """
        from mcpwire.types import ReadResourceResult, decode

        read = self._services.read_resource
        assert read is not None
        return decode(ReadResourceResult, await read(uri, self.request))

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
    def rounds(self) -> Rounds:
        """What this call asked so far."""
        return self.request.rounds or begin(self.request, self._services.keeper)

    @property
    def is_entered(self) -> bool:
        """Whether the handler runs."""
        return self._tokens is not None

    async def _ask(self, question: input_requests.InputRequest, key: str | None) -> Any:
        return await ask(question, self.request, self.rounds, key)

    def __enter__(self) -> Self:
        self._tokens = (_current.set(self), self._tokens)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._tokens is not None
        token, self._tokens = self._tokens
        _current.reset(token)
        if self._outbox is not None:
            self._outbox.flush()
        if self._blocking is not None and self._tokens is None:
            self._blocking.stop()


def _maybe(convert: Callable[[type[T], Any], T], cls: type[T], value: Any) -> T | None:
    return None if value is None else convert(cls, value)


def entered(context: Context) -> Context:
    """Let a handler, or its dependencies, run inside of ``with``.

    There the context is what `current_context` finds. At the end what waits to be sent
    is sent, and threads that wait for an answer are woken.
    """
    return context


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
