"""The methods ``tools/list`` and ``tools/call``, for tools made of functions."""

from __future__ import annotations

import logging
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InvalidMessage, InvalidParams, ToolError
from mcpwire.limits import check_timeout
from mcpwire.protocol.http_headers import find_param_headers
from mcpwire.server.auth.challenges import check_scopes
from mcpwire.server.authoring.results import tool_result
from mcpwire.server.authoring.signature import BadArguments, read_signature
from mcpwire.server.calling import Slots
from mcpwire.server.components import (
    Tool,
    check_options,
    compose,
    list_page,
    name_of,
    runs_in_thread,
)
from mcpwire.server.dispatcher import tool_failure
from mcpwire.versions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.protocol.http_headers import ParamHeader
    from mcpwire.server.authoring.signature import Signature
    from mcpwire.server.calling import Calling, Prepared
    from mcpwire.server.components import Table
    from mcpwire.server.dispatcher import Handler
    from mcpwire.server.extensions.tasks import Tasks
    from mcpwire.server.request import RequestContext

__all__ = ["TASK_SUPPORT", "ToolOptions", "Tools"]

logger = logging.getLogger("mcpwire")

# 2025-11-25 server/tools, "Tool Names".
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")

TASK_SUPPORT: Final = ("forbidden", "optional", "required")

_NOV_2025: Final = REVISIONS[3]

EXCERPT: Final = 100
"""How much of a name that the client chose an error message repeats."""


class ToolOptions:
    """Makes tools of functions, by the settings of one server."""

    def __init__(
        self, *, coerce: bool, timeout: float | None, validate_output: bool
    ) -> None:
        self._coerce = coerce
        self._validate_output = validate_output
        self._timeout = check_timeout(timeout, "tool_timeout")

    def make(self, function: Callable[..., Any], options: Mapping[str, Any]) -> Tool:
        """Make a tool; the options are those of `Server.tool`.

        Raises:
            TypeError: The function cannot be a tool; names it and why.
            ValueError: So it is with an option.
        """
        check_options("tool", options)
        given = dict(options)
        name = given.get("name") or name_of(function)
        if _NAME.fullmatch(name) is None:
            raise ValueError(
                f"a tool's name must be 1 to 128 of A-Z, a-z, 0-9, '_', '-' and '.', "
                f"got {name[:EXCERPT]!r}"
            )
        coerce = given.get("coerce")
        signature = read_signature(
            function,
            coerce=self._coerce if coerce is None else coerce,
            input_schema=given.get("input_schema"),
            output_schema=given.get("output_schema"),
            structured=given.get("structured"),
            validate=self._validate_output,
        )
        task = given.get("task", "forbidden")
        if task not in TASK_SUPPORT:
            raise ValueError(f"task must be one of {TASK_SUPPORT}, got {task!r}")
        schema = signature.parameters.schema
        try:
            headers = find_param_headers(schema)
        except InvalidMessage as error:
            raise ValueError(f"tool {name!r}: {error}") from error
        timeout = given.get("timeout")
        timeout = self._timeout if timeout is None else check_timeout(timeout)
        slots = _slots(given.get("concurrency"))
        return Tool(
            key=name,
            definition=self._definition(name, signature, given, task),
            scopes=frozenset(given.get("scopes", ())),
            tags=frozenset(given.get("tags", ())),
            visible=given.get("visible"),
            function=function,
            signature=signature,
            runs_in_thread=runs_in_thread(signature, given.get("thread")),
            timeout=timeout,
            slots=slots,
            is_direct=signature.is_async
            and not signature.injected
            and timeout is None
            and slots is None,
            task=task,
            param_headers=headers,
            options={**given, "name": name},
        )

    def _definition(
        self, name: str, signature: Signature, given: Mapping[str, Any], task: str
    ) -> dict[str, Any]:
        description = given.get("description")
        return compose(
            {"name": name, "inputSchema": signature.parameters.schema},
            title=given.get("title"),
            description=signature.description if description is None else description,
            outputSchema=signature.returns.schema,
            execution=None if task == "forbidden" else {"taskSupport": task},
            annotations=given.get("annotations"),
            icons=given.get("icons") or (),
            meta=given.get("meta"),
        )


def _slots(concurrency: int | None) -> Slots | None:
    if concurrency is None:
        return None
    if type(concurrency) is not int or concurrency < 1:
        raise ValueError(f"concurrency must be an integer above 0, got {concurrency!r}")
    return Slots(concurrency)


class Tools:
    """Answers for one server's tools.

    Attributes:
        table: The tools.
        tasks: Makes tasks of calls, where the server has that extension.
    """

    def __init__(
        self, table: Table[Tool], calling: Calling, *, page_size: int | None
    ) -> None:
        self.table = table
        self.tasks: Tasks | None = None
        self._calling = calling
        self._page_size = page_size

    def methods(self) -> dict[str, Handler]:
        """Return the handlers by method."""
        return {"tools/list": self.list, "tools/call": self.call}

    def warn(self) -> None:
        """Say in the log what tools want and the server does not have."""
        if self.tasks is None:
            for name in self.table:
                if self.table[name].component.task == "required":
                    logger.warning("the tool %r needs the extension Tasks", name)

    def list(self, params: dict[str, Any], request: RequestContext) -> dict[str, Any]:
        """Answer ``tools/list``."""
        return list_page("tools", self.table, params, request, size=self._page_size)

    def param_headers(
        self, params: Mapping[str, Any], request: RequestContext
    ) -> tuple[ParamHeader, ...]:
        """Return which arguments of a call its header fields repeat."""
        tool = self.table.get(params.get("name"), request)
        return () if tool is None else tool.param_headers

    async def call_inside(
        self, name: str, arguments: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Return the result of a call that another handler makes."""
        params = {"name": name, "arguments": arguments}
        try:
            return await self.call(params, request, may_be_task=False)
        except ToolError as error:
            return tool_failure(str(error))

    async def call(
        self,
        params: dict[str, Any],
        request: RequestContext,
        *,
        may_be_task: bool = True,
    ) -> dict[str, Any]:
        """Answer ``tools/call``."""
        name = params.get("name")
        tool = self.table.public.get(name) if type(name) is str else None
        if tool is None:
            tool = self._find(params, request)
        if tool.scopes and request.info.transport == "http":
            check_scopes(request.info.principal, tool.scopes)
        signature = tool.signature
        try:
            arguments = signature.parameters.convert(params.get("arguments"))
        except BadArguments as error:
            raise _refusal(error, request) from error
        calling = tool.calling or self._calling  # of another server, if mounted
        if tool.is_direct and self.tasks is None:
            with calling.context_of(request):  # as `entered`
                value = await tool.function(**arguments)
            return tool_result(value, signature.returns, request.revision)
        prepared = calling.prepare(signature, tool.function, arguments)
        try:
            if prepared.needs_making:
                await prepared.make(calling.context_of(request))
            if self.tasks is not None and may_be_task:
                run = _Body(self, tool, prepared)
                task = await self.tasks.intercept(tool, params, request, run)
                if task is not None:
                    return task  # which closes what is prepared
            result = await self.run(tool, prepared, request)
        except BaseException as error:
            await prepared.close(error)
            raise
        await prepared.close()
        return result

    async def run(
        self, tool: Tool, prepared: Prepared, request: RequestContext
    ) -> dict[str, Any]:
        """Call the function and return the result that its value makes."""
        context = (tool.calling or self._calling).context_of(request)
        slots = None if tool.slots is None else tool.slots.here()
        owner = "" if slots is None else request.info.owner
        if slots is not None:
            await slots.acquire(owner)
        try:
            value = await prepared.call(
                context, runs_in_thread=tool.runs_in_thread, timeout=tool.timeout
            )
        finally:
            if slots is not None:
                # A thread may go on that nobody waits for; it is still one of them.
                prepared.when_over(partial(slots.release, owner))
        return tool_result(value, tool.signature.returns, request.revision)

    def _find(self, params: Mapping[str, Any], request: RequestContext) -> Tool:
        name = params.get("name")
        if type(name) is not str:
            raise InvalidParams("params.name must be a string")
        tool = self.table.get(name, request)
        if tool is None:
            raise InvalidParams(f"there is no tool {name[:EXCERPT]!r}")
        return tool


class _Body:
    """What a task runs: the function, with what was made for it, and then its end."""

    def __init__(self, tools: Tools, tool: Tool, prepared: Prepared) -> None:
        self._tools = tools
        self._tool = tool
        self._prepared = prepared

    async def __call__(self, request: RequestContext) -> dict[str, Any]:
        prepared = self._prepared
        try:
            result = await self._tools.run(self._tool, prepared, request)
        except BaseException as error:
            await prepared.close(error)
            raise
        await prepared.close()
        return result


def _refusal(error: BadArguments, request: RequestContext) -> Exception:
    # 2025-11-25 changelog (SEP-1303): what is wrong with the arguments is told to
    # the model, as a result; before, it was a protocol error.
    if request.revision < _NOV_2025:
        return InvalidParams(str(error))
    return ToolError(str(error))
