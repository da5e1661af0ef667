"""The methods ``tools/list`` and ``tools/call``, for tools made of functions."""

from __future__ import annotations

import logging
import re
from contextlib import AsyncExitStack
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs

from mcpwire.errors import InvalidMessage, InvalidParams, ToolError
from mcpwire.limits import check_choice, check_count, check_timeout
from mcpwire.protocol.http_headers import ParamHeader, find_param_headers
from mcpwire.server.authoring.conversion import BadArguments
from mcpwire.server.authoring.results import tool_result
from mcpwire.server.authoring.signature import read_signature
from mcpwire.server.calling import PreparedCall, Slots
from mcpwire.server.components import Component, Table, check_options, compose, name_of
from mcpwire.server.dispatcher import tool_failure
from mcpwire.server.request import EXCERPT, RequestContext, member_of
from mcpwire.versions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.server.extensions.tasks import Tasks

logger = logging.getLogger("mcpwire")

# 2025-11-25 server/tools, "Tool Names".
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")

TASK_SUPPORT: Final = ("forbidden", "optional", "required")

_NOV_2025: Final = REVISIONS[3]


@attrs.define(eq=False, kw_only=True, repr=False)
class Tool(Component):
    """A function that a model may call."""

    wire_type: ClassVar[str] = "Tool"

    timeout: float | None = None
    """The timeout of the function in a call, in seconds."""

    slots: Slots | None = None
    """Limits the number of concurrent calls."""

    is_direct: bool = False
    """Whether a call only needs to await the function with its arguments."""

    task: str = "forbidden"
    """Whether calls may (``"optional"``) or must (``"required"``) run as tasks."""

    param_headers: tuple[ParamHeader, ...] = ()
    """The arguments that HTTP repeats in header fields, since 2026-07-28."""


def make_tool(
    function: Callable[..., Any],
    options: Mapping[str, Any],
    *,
    coerce: bool,
    timeout: float | None,
    validate_output: bool,
) -> Tool:
    """Return a tool; `options` are those of `Server.tool`, the others its defaults."""
    check_options("tool", options)
    name = options.get("name") or name_of(function)
    if _NAME.fullmatch(name) is None:
        raise ValueError(
            f"a tool's name must be 1 to 128 of A-Z, a-z, 0-9, '_', '-' and '.', "
            f"got {name[:EXCERPT]!r}"
        )
    own_coerce, own_timeout = options.get("coerce"), options.get("timeout")
    signature = read_signature(
        function,
        coerce=coerce if own_coerce is None else own_coerce,
        input_schema=options.get("input_schema"),
        output_schema=options.get("output_schema"),
        structured=options.get("structured"),
        validate=validate_output,
    )
    task = check_choice(options.get("task", "forbidden"), "task", TASK_SUPPORT)
    schema = signature.parameters.schema
    try:
        headers = find_param_headers(schema)
    except InvalidMessage as error:
        raise ValueError(f"tool {name!r}: {error}") from error
    slots, concurrency = None, options.get("concurrency")
    if concurrency is not None:
        slots = Slots(check_count(concurrency, "concurrency"))
    definition = compose(
        {"name": name, "inputSchema": schema},
        options,
        description=signature.description,
        outputSchema=signature.returns.schema,
        execution=None if task == "forbidden" else {"taskSupport": task},
    )
    tool = Tool.of(
        name,
        definition,
        options,
        function,
        signature,
        make=partial(
            make_tool, coerce=coerce, timeout=timeout, validate_output=validate_output
        ),
        timeout=timeout if own_timeout is None else check_timeout(own_timeout),
        slots=slots,
        task=task,
        param_headers=headers,
    )
    needs_only_await = signature.is_async and signature.dependencies is None
    tool.is_direct = needs_only_await and tool.timeout is None and slots is None
    return tool


class Tools:
    """Handles the requests for one server's tools."""

    def __init__(self, table: Table[Tool]) -> None:
        self.table = table
        self.tasks: Tasks | None = None

    def warn_about_tasks(self) -> None:
        """Log a warning for each tool that needs tasks, if the server has none."""
        if self.tasks is None:
            for name in self.table:
                if self.table.component(name).task == "required":
                    logger.warning("the tool %r needs the extension Tasks", name)

    def param_headers(
        self, request: RequestContext, params: Mapping[str, Any]
    ) -> tuple[ParamHeader, ...]:
        """Return the arguments of a call that header fields repeat."""
        tool = self.table.get(params.get("name"), request)
        return () if tool is None else tool.param_headers

    async def call_from_handler(
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
        """Handle ``tools/call``."""
        name = params.get("name")
        tool = self.table.public.get(name) if type(name) is str else None
        if tool is None:
            tool = self.table.usable(member_of(params, "name", str), request)
        elif tool.scopes:
            tool.check_scopes(request)
        signature = tool.signature
        try:
            arguments = signature.parameters.convert(params.get("arguments"))
        except BadArguments as error:
            # 2025-11-25 changelog (SEP-1303): invalid arguments are reported to the
            # model, as a result; earlier, as a protocol error. That is still used if
            # the request does not match CallToolRequest (server/tools, "Error
            # Handling").
            is_malformed = not isinstance(params.get("arguments"), (dict, NoneType))
            if request.revision < _NOV_2025 or is_malformed:
                raise InvalidParams(str(error)) from error
            raise ToolError(str(error)) from error
        caller = tool.caller  # of the mounted server, if the tool is mounted
        if tool.is_direct and self.tasks is None:
            with caller.context_of(request):
                value = await tool.function(**arguments)
            return tool_result(value, signature.returns, request.revision)
        prepared = PreparedCall(caller, signature, arguments)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(prepared)
            await prepared.resolve_dependencies(request)
            if self.tasks is not None and may_be_task:
                run = partial(self._run_and_close, tool, prepared)
                task = await self.tasks.intercept(tool, params, request, run)
                if task is not None:
                    stack.pop_all()  # the task will close `prepared`
                    return task
            return await self._run(tool, prepared, request)

    async def _run_and_close(
        self, tool: Tool, prepared: PreparedCall, request: RequestContext
    ) -> dict[str, Any]:
        async with prepared:
            return await self._run(tool, prepared, request)

    async def _run(
        self, tool: Tool, prepared: PreparedCall, request: RequestContext
    ) -> dict[str, Any]:
        """Call the function and return the tool's result."""
        slots = None if tool.slots is None else tool.slots.for_running_loop()
        owner = "" if slots is None else request.info.owner
        if slots is not None:
            await slots.acquire(owner)
        try:
            value = await prepared.call(
                request, runs_in_thread=tool.runs_in_thread, timeout=tool.timeout
            )
        finally:
            if slots is not None:
                # An abandoned thread keeps its slot until it ends.
                prepared.call_when_done(partial(slots.release, owner))
        return tool_result(value, tool.signature.returns, request.revision)
