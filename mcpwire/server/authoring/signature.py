"""Reads a function once, when it is registered: what it takes, what it gives back.

Whatever is wrong with it is said then, with its name and place.
"""

from __future__ import annotations

import functools
import inspect
import typing
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.server.authoring.docstrings import read_docstring
from mcpwire.server.authoring.explicit import ExplicitParameters
from mcpwire.server.authoring.faults import BadArguments
from mcpwire.server.authoring.injection import hints_of, injected_by, where
from mcpwire.server.authoring.parameters import MISSING, HintedParameters, Parameter
from mcpwire.server.authoring.returns import Returns, read_returns

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from mcpwire.server.authoring.injection import Injected
    from mcpwire.server.authoring.parameters import Parameters

__all__ = ["BadArguments", "Signature", "read_signature"]

_FRAMES: Final = 16

_REFUSED: Final = {
    inspect.Parameter.VAR_POSITIONAL: "takes any number of arguments, which cannot be "
    "described",
    inspect.Parameter.VAR_KEYWORD: "takes arguments of any name, which cannot be "
    "described",
    inspect.Parameter.POSITIONAL_ONLY: "has no name to call it by: leave out the '/'",
}


@attrs.frozen(eq=False)
class Signature:
    """What is known of a function."""

    parameters: Parameters
    """What a client gives."""

    injected: Mapping[str, Injected]
    """The parameters that the server fills: with the context, or a dependency."""

    returns: Returns

    is_async: bool

    description: str | None
    """The docstring, without what it says of parameters."""

    explicit: bool = False
    """Whether a schema was given, and the function takes one dict."""


def read_signature(
    function: Callable[..., Any],
    *,
    coerce: bool = False,
    explicit: bool = False,
    skip: Collection[str] = (),
    input_schema: Mapping[str, Any] | None = None,
    output_schema: Mapping[str, Any] | None = None,
    structured: bool | None = None,
    validate: bool = True,
) -> Signature:
    """Read a function's parameters, hints and docstring.

    Args:
        function: A function, method, partial or callable object; not a generator.
        coerce: Whether a text is taken for a number, and the like.
        explicit: Whether it takes all arguments in one dict.
        skip: Parameters that are somebody else's business.
        input_schema: The schema of that dict; makes it explicit.
        output_schema: The schema of what it returns, instead of its hint's.
        structured: Whether results are data as well as text; ``None``: where the hint
            says what data.
        validate: Whether results are held against their schema.

    Raises:
        TypeError: It cannot be called by a client; names the parameter and its place.
        ValueError: A schema is none.
    """
    target = _target(function)
    try:
        _check_kind(function, target)
        hints = _hints(target)
        taken, injected = _sorted(function, hints, skip)
        description, told = read_docstring(inspect.getdoc(target))
        is_explicit = explicit or input_schema is not None
        parameters: Parameters
        if is_explicit:
            schema = {"type": "object"} if input_schema is None else input_schema
            parameters = ExplicitParameters(schema, _only(taken))
        else:
            parameters = HintedParameters(
                [_parameter(each, hints, told) for each in taken], coerce=coerce
            )
        returns = read_returns(
            hints.get("return", Any),
            output_schema=output_schema,
            structured=structured,
            validate=validate,
        )
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{where(function)}: {error}") from error
    return Signature(
        parameters, injected, returns, _is_async(function), description, is_explicit
    )


def _target(function: Callable[..., Any]) -> Any:
    """Return the function that has the code, the hints and the docstring."""
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    inner = inspect.unwrap(inner)
    if not inspect.isroutine(inner) and not inspect.isclass(inner):
        inner = getattr(type(inner), "__call__", inner)  # noqa: B004 - not asked but read
    return getattr(inner, "__func__", inner)


def _check_kind(function: Any, target: Any) -> None:
    if not callable(function):
        raise TypeError("it cannot be called")
    if inspect.isclass(target):
        raise TypeError("it is a class: register a function")
    if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
        raise TypeError("it is a generator: return everything at once, in a list")


def _is_async(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    call = getattr(type(function), "__call__", None)  # noqa: B004 - as above
    return inspect.iscoroutinefunction(function) or (
        not inspect.isroutine(function) and inspect.iscoroutinefunction(call)
    )


# --- hints


def _hints(target: Any) -> dict[str, Any]:
    """Return the hints of a function.

    Raises:
        TypeError: One cannot be evaluated; names the parameter.
    """
    if not hasattr(target, "__annotations__"):
        return {}  # written in C
    try:
        return hints_of(target)
    except TypeError as error:
        if not isinstance(error.__cause__, NameError):
            raise
    except (AttributeError, SyntaxError) as error:
        raise TypeError(f"a type hint cannot be read: {error}") from error
    try:
        return typing.get_type_hints(
            target, localns=_names_around(target), include_extras=True
        )
    except NameError as error:
        raise TypeError(
            f"the hint of {_naming(target, str(error.name))} names {error.name!r}, "
            "which is not known there: define it in the module"
        ) from error


def _names_around(target: Any) -> dict[str, Any]:
    """Return names that a hint may mean although the module has none of them.

    Those of the functions that are running, where the function is made in one of them;
    and `Context`, which is often imported for type checkers only.
    """
    from mcpwire.server.asking.context import Context

    names: dict[str, Any] = {}
    frame = inspect.currentframe()
    left = _FRAMES
    while frame is not None and left:
        left -= 1
        is_ours = frame.f_globals.get("__name__", "").startswith("mcpwire.")
        if frame.f_locals is not frame.f_globals and not is_ours:
            names = {**frame.f_locals, **names}
        frame = frame.f_back
    names = {"Context": Context, **names}
    # What the module itself says comes first.
    return {name: names[name] for name in names.keys() - target.__globals__.keys()}


def _naming(target: Any, missing: str) -> str:
    hints = target.__annotations__
    name = next((name for name in hints if missing in str(hints[name])), "return")
    return "what it returns" if name == "return" else f"the parameter {name!r}"


# --- parameters


def _sorted(
    function: Callable[..., Any], hints: Mapping[str, Any], skip: Collection[str]
) -> tuple[list[inspect.Parameter], dict[str, Injected]]:
    """Return the parameters that the client fills, and those that the server does.

    Raises:
        TypeError: One can be filled by nobody.
    """
    taken: list[inspect.Parameter] = []
    injected: dict[str, Injected] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        found = injected_by(parameter, hints.get(name))
        if name in skip:
            continue
        if found is not None and parameter.kind is not parameter.POSITIONAL_ONLY:
            injected[name] = found
            continue
        if parameter.kind in _REFUSED:
            raise TypeError(f"the parameter {name!r} {_REFUSED[parameter.kind]}")
        if name in {"self", "cls"} and not taken and name not in hints:
            raise TypeError(
                f"the parameter {name!r}: register the method of an object, or a "
                "function"
            )
        taken.append(parameter)
    return taken, injected


def _only(taken: list[inspect.Parameter]) -> str | None:
    """Return the name of the one parameter that gets all arguments.

    Raises:
        TypeError: There are more.
    """
    needed = [each for each in taken if each.default is each.empty] or taken
    if len(needed) > 1:
        raise TypeError(
            f"the parameter {needed[1].name!r} is one too many: with a schema of its "
            "own, a function takes all arguments in one dict"
        )
    return needed[0].name if needed else None


def _parameter(
    parameter: inspect.Parameter, hints: Mapping[str, Any], told: Mapping[str, str]
) -> Parameter:
    default = MISSING if parameter.default is parameter.empty else parameter.default
    if (type(default).__module__ or "").startswith("pydantic."):
        raise TypeError(
            f"the parameter {parameter.name!r} has a Field for its default: put it "
            "into Annotated"
        )
    return Parameter(
        parameter.name,
        hints.get(parameter.name, Any),
        default,
        told.get(parameter.name),
    )
