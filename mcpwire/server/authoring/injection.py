"""Parameters that the server fills: the context and dependencies.

A parameter annotated `Context` gets the context. If its default value, or its
`Annotated` metadata, is ``Depends(function)``, it gets the function's result. Injected
parameters are read once, at registration, and are not part of the schema.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import typing
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from traceback import walk_stack
from typing import TYPE_CHECKING, Annotated, Any, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcpwire.server.context import Context

    RunPlain = Callable[[Callable[[], Any]], Awaitable[Any]]
    """Runs a synchronous function in a thread, where it may block."""

    _Function = Callable[..., Any]

_MAX_FRAMES: Final = 16


class _ContextMark:
    def __repr__(self) -> str:
        return "CONTEXT"


CONTEXT: Final = _ContextMark()
"""Marks a parameter that gets the context."""


@attrs.frozen(eq=False)
class Dependency:
    """The value of `Depends`: a parameter gets the function's result."""

    function: Callable[..., Any]


Injected: typing.TypeAlias = "Dependency | _ContextMark"


def Depends(function: Callable[..., Any]) -> Any:  # noqa: N802 - stands for a value
    """Inject the result of a function into a parameter, once per request.

    The function may be plain (it runs in a worker thread), async, a generator or an
    async generator. The code of a generator after its one ``yield`` runs when the
    request is done. If the request failed or was cancelled, the ``yield`` raises the
    error, so code that must always run belongs in a ``finally`` or ``with``.
    The function's own parameters are the context and further dependencies.

    ::

        async def database(ctx: Context) -> AsyncIterator[Database]:
            async with ctx.lifespan.pool.acquire() as connection:
                yield connection


        @server.tool
        async def count(table: str, db: Database = Depends(database)) -> int: ...

    Raises:
        TypeError: The argument is not callable.
    """
    if not callable(function):
        raise TypeError(f"a dependency needs a function, got {function!r}")
    return Dependency(function)


def target_of(function: Callable[..., Any]) -> Any:
    """Return the function that has the code, the hints and the docstring."""
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    inner = inspect.unwrap(inner)
    if callable(inner) and not inspect.isroutine(inner) and not inspect.isclass(inner):
        inner = type(inner).__call__
    return getattr(inner, "__func__", inner)


def describe_function(function: Callable[..., Any]) -> str:
    """Return a function's name and location, for error messages."""
    inner = target_of(function)
    name = getattr(inner, "__qualname__", None) or type(function).__name__
    code = getattr(inner, "__code__", None)
    if code is None:
        return str(name)
    return f"{name} ({code.co_filename}:{code.co_firstlineno})"


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return a function's type hints with their metadata."""
    target = target_of(function)
    if inspect.isclass(target) and not hasattr(target, "__signature__"):
        # Without a constructor of its own, the class has the hints.
        target = target.__init__ if inspect.isfunction(target.__init__) else target
    if not hasattr(target, "__annotations__"):
        return {}  # written in C
    read = functools.partial(typing.get_type_hints, target, include_extras=True)
    try:
        try:
            return read(localns=_closure(target))
        except NameError:
            return read(localns=_enclosing_names(target))
    except NameError as error:
        missing, hints = str(error.name), target.__annotations__
        name = next((name for name in hints if missing in str(hints[name])), "return")
        place = "what it returns" if name == "return" else f"the parameter {name!r}"
        raise TypeError(
            f"the hint of {place} names {missing!r}, "
            "which is not known there: define it in the module"
        ) from error
    except (AttributeError, SyntaxError) as error:
        raise TypeError(f"a type hint cannot be read: {error}") from error


def _closure(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the variables of enclosing functions that a function uses."""
    cells = getattr(function, "__closure__", None) or ()
    names = function.__code__.co_freevars if cells else ()
    variables = {}
    for name, cell in zip(names, cells, strict=False):
        try:
            variables[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    return variables


def _enclosing_names(target: Any) -> dict[str, Any]:
    """Return the names that a hint may use although its module does not define them.

    These are the local variables of the running functions, in case one of them defines
    the function; and `Context`, which is often imported for type checkers only.
    """
    from mcpwire.server.context import Context

    names: dict[str, Any] = {}
    for frame, _ in itertools.islice(walk_stack(None), _MAX_FRAMES):
        is_internal = frame.f_globals.get("__name__", "").startswith("mcpwire.")
        if frame.f_locals is not frame.f_globals and not is_internal:
            names = {**frame.f_locals, **names}
    names = {"Context": Context, **names, **_closure(target)}
    # The module's own names take precedence.
    return {name: names[name] for name in names.keys() - target.__globals__.keys()}


def injection_of(parameter: inspect.Parameter, hint: Any) -> Injected | None:
    """Return the injection of a parameter; ``None``: the client fills it."""
    from mcpwire.server.context import Context

    for item in (parameter.default, *getattr(hint, "__metadata__", ())):
        if isinstance(item, Dependency):
            return item
    if typing.get_origin(hint) is Annotated:
        hint = hint.__origin__
    members = typing.get_args(hint) or (hint,)
    if any(isinstance(kind, type) and issubclass(kind, Context) for kind in members):
        return CONTEXT
    return None


@attrs.frozen(eq=False)
class _Plan:
    """One dependency with its own injected parameters."""

    function: Callable[..., Any]
    kind: str
    injected: Mapping[str, Injected]


def _plan(dependency: Dependency) -> _Plan:
    function = dependency.function
    injected = {}
    hints = hints_of(function)
    for name, parameter in inspect.signature(function).parameters.items():
        injection = injection_of(parameter, hints.get(name))
        if injection is not None:
            injected[name] = injection
        elif parameter.default is inspect.Parameter.empty:
            raise TypeError(
                f"{describe_function(function)}: nothing fills the parameter {name!r} "
                "of a dependency: annotate it Context or give it a Depends"
            )
    return _Plan(function, _kind(function), injected)


def _kind(function: Callable[..., Any]) -> str:
    inner = target_of(function)
    if inspect.isasyncgenfunction(inner):
        return "async generator"
    if inspect.isgeneratorfunction(inner):
        return "generator"
    return "async" if inspect.iscoroutinefunction(inner) else "plain"


class Dependencies:
    """The dependencies of one function, in the order of evaluation."""

    def __init__(self, injected: Mapping[str, Injected]) -> None:
        self.injected = dict(injected)
        self._plans: dict[_Function, _Plan] = {}
        self._add(injected, ())

    def _add(
        self, injected: Mapping[str, Injected], ancestors: tuple[_Function, ...]
    ) -> None:
        for injection in injected.values():
            if not isinstance(injection, Dependency):
                continue
            function = injection.function
            if function in ancestors:
                raise TypeError(
                    f"{describe_function(function)}: the dependency depends on itself"
                )
            if function not in self._plans:
                plan = _plan(injection)
                self._add(plan.injected, (*ancestors, function))
                self._plans[function] = plan

    def __bool__(self) -> bool:
        return bool(self._plans)

    async def resolve(
        self, context: Context, stack: AsyncExitStack, run_plain: RunPlain
    ) -> Mapping[_Function, Any]:
        """Evaluate each dependency once; the stack closes the generators."""
        values: dict[_Function, Any] = {}
        for function, plan in self._plans.items():
            arguments = self.arguments(context, values, plan.injected)
            values[function] = await _evaluate(plan, arguments, stack, run_plain)
        return values

    def arguments(
        self,
        context: Context,
        values: Mapping[_Function, Any],
        injected: Mapping[str, Injected] | None = None,
    ) -> dict[str, Any]:
        """Return the injected arguments, of the function or of a dependency."""
        items = (self.injected if injected is None else injected).items()
        return {
            name: values[item.function] if isinstance(item, Dependency) else context
            for name, item in items
        }


async def _evaluate(
    plan: _Plan, arguments: dict[str, Any], stack: AsyncExitStack, run_plain: RunPlain
) -> Any:
    if plan.kind == "async":
        return await plan.function(**arguments)
    if plan.kind == "plain":
        return await run_plain(lambda: plan.function(**arguments))
    made = plan.function(**arguments)
    # The author may have made it a context manager already.
    if plan.kind == "generator":
        is_manager = hasattr(made, "__enter__")
        manager = made if is_manager else contextmanager(lambda: made)()
        return stack.enter_context(manager)
    is_manager = hasattr(made, "__aenter__")
    manager = made if is_manager else asynccontextmanager(lambda: made)()
    return await stack.enter_async_context(manager)
