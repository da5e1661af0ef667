"""Signatures of all kinds of callables; unusable ones are refused by name."""

from __future__ import annotations

import collections.abc
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
import pydantic
import pytest

from mcpwire.server import context as context_module  # noqa: TC001 - hints are read
from mcpwire.server.authoring.injection import CONTEXT, Dependency, Depends
from mcpwire.server.authoring.schemas import Arg
from mcpwire.server.authoring.signature import read_signature

if TYPE_CHECKING:
    from decimal import Decimal

    from mcpwire.server.context import Context


def names_of(function, **options):
    return read_signature(function, **options).parameters.names


def plain(a: int, b: str = "x") -> int:
    """Add.

    Args:
        a: The first.
    """


async def later(a: int) -> int: ...


class Calculator:
    offset: int = 0

    def add(self, a: int, b: int) -> int:
        """Add two numbers."""

    @classmethod
    def make(cls, start: int) -> int: ...

    @staticmethod
    def half(a: int) -> float: ...

    def __call__(self, a: int) -> int:
        """Be called."""


class Later:
    async def __call__(self, a: int) -> int: ...


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@pytest.mark.parametrize(
    ("function", "names", "is_async"),
    [
        (plain, ("a", "b"), False),
        (later, ("a",), True),
        (Calculator().add, ("a", "b"), False),
        (Calculator.make, ("start",), False),
        (Calculator.half, ("a",), False),
        (Calculator(), ("a",), False),
        (Later(), ("a",), True),
        (functools.partial(plain, 1), ("b",), False),
        (functools.partial(functools.partial(later)), ("a",), True),
        (decorated(plain), ("a", "b"), False),
        (lambda a, b=1: a, ("a", "b"), False),
    ],
    ids=[
        "function",
        "coroutine",
        "method",
        "class method",
        "static method",
        "object",
        "async object",
        "partial",
        "partial of a partial",
        "decorated",
        "lambda",
    ],
)
def test_every_kind_of_callable_is_read(function, names, is_async):
    signature = read_signature(function)
    assert (signature.parameters.names, signature.is_async) == (names, is_async)


@pytest.mark.parametrize(
    ("function", "description"),
    [
        (plain, "Add."),
        (Calculator().add, "Add two numbers."),
        (Calculator(), "Be called."),
        (functools.partial(plain, 1), "Add."),
        (later, None),
    ],
)
def test_docstring_is_the_description(function, description):
    assert read_signature(function).description == description


def test_docstring_describes_a_parameter():
    properties = read_signature(plain).parameters.schema["properties"]
    assert properties["a"] == {"type": "integer", "description": "The first."}


SITE = pydantic.HttpUrl("https://site.example")


def with_fields(
    a: Annotated[int, pydantic.Field(default=1, ge=0)],
    b: int = pydantic.Field(2, description="The b"),
    c: int = pydantic.Field(le=9),
    site: Annotated[pydantic.HttpUrl, pydantic.Field(default_factory=int)] = SITE,
): ...


def test_field_of_pydantic_describes_a_parameter_and_its_default():
    parameters = read_signature(with_fields).parameters
    properties = parameters.schema["properties"]
    assert properties["a"] == {"type": "integer", "minimum": 0, "default": 1}
    assert properties["b"] == {"type": "integer", "description": "The b", "default": 2}
    assert parameters.schema["required"] == ["c"]
    assert parameters.convert({"c": 3}) == {"a": 1, "b": 2, "c": 3, "site": SITE}


def varying(*numbers: int): ...


def named(**numbers: int): ...


def positional(a: int, /): ...


def generating(a: int):
    yield a


async def generating_later(a: int):
    yield a


def strange(a: complex): ...


def strange_inside(a: int, b: list[complex]): ...


def unknown(a: Nothing): ...  # noqa: F821 - it is unknown on purpose


def unknown_result() -> Nothing: ...  # noqa: F821 - as above


def bounded(a: Annotated[str, pydantic.Field(ge=1)]): ...


def doubling(a: Annotated[str | None, Arg(pattern="(a+)+")]): ...


@dataclass
class Doubling:
    text: Annotated[str, msgspec.Meta(pattern="(a+)+")]


def doubling_inside(b: list[Doubling]): ...


def no_text(a: Annotated[int, Arg(pattern="a")]): ...


def no_length(a: Annotated[int | None, Arg(min_length=1)]): ...


def fresh(a: int = pydantic.Field(default_factory=int)): ...


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (varying, "'numbers' takes any number of arguments"),
        (named, "'numbers' takes arguments of any name"),
        (positional, "'a' is positional-only"),
        (generating, "it is a generator"),
        (generating_later, "it is a generator"),
        (Calculator, "it is a class"),
        (Calculator.add, "'self': register the method of an object"),
        (strange, "the parameter 'a': <class 'complex'> has no JSON form"),
        (strange_inside, "the parameter 'b': <class 'complex'> has no JSON form"),
        (unknown, "the hint of the parameter 'a' names 'Nothing'"),
        (unknown_result, "the hint of what it returns names 'Nothing'"),
        (bounded, "the parameter 'a': Can only set `ge` on a numeric type"),
        (doubling, "the parameter 'a': the pattern '(a+)+' repeats '(a+)' without"),
        (doubling_inside, "the parameter 'b': the pattern '(a+)+' repeats '(a+)'"),
        (no_text, "the parameter 'a': Can only set `pattern` on a str type"),
        (no_length, "the parameter 'a': Can only set `min_length` on"),
        (fresh, "the parameter 'a' has a Field with a default_factory: give it"),
        (7, "it cannot be called"),
    ],
)
def test_unusable_function_is_refused_at_registration(function, reason):
    with pytest.raises(TypeError) as caught:
        read_signature(function)
    assert reason in str(caught.value)


def test_refusal_names_the_function_and_its_location():
    with pytest.raises(TypeError, match=r"^strange \(.*test_signature\.py:\d+\): "):
        read_signature(strange)


def test_hint_may_name_a_local_class():
    @dataclass
    class Point:
        x: int

    def move(to: Point, by: Annotated[int, "Far"] = 1) -> Point: ...

    signature = read_signature(move)
    assert signature.parameters.schema["properties"]["to"]["title"] == "Point"
    assert signature.returns.schema["title"] == "Point"


def test_hint_may_name_a_context_imported_for_type_checking():
    def ask(question: str, ctx: Context) -> str: ...

    signature = read_signature(ask)
    assert signature.dependencies.injected == {"ctx": CONTEXT}
    assert signature.parameters.names == ("question",)


def test_other_type_checking_import_is_refused_by_name():
    def price(of: Decimal): ...

    with pytest.raises(TypeError, match="the parameter 'of' names 'Decimal'"):
        read_signature(price)


def source(): ...


DEPENDENCY = Depends(source)


def with_context(a: int, ctx: context_module.Context): ...


def with_maybe_context(a: int, ctx: context_module.Context | None = None): ...


def with_default(a: int, db: Any = DEPENDENCY): ...


def with_annotation(a: int, db: Annotated[Any, DEPENDENCY]): ...


def test_parameter_may_begin_with_two_underscores():
    def hidden(__a: int): ...  # noqa: PYI063 - as users do

    assert read_signature(hidden).parameters.convert({"__a": 1}) == {"__a": 1}


class Session:
    limit: int = 1

    def __init__(self, ctx: context_module.Context, db: Any = DEPENDENCY): ...


class Pair(NamedTuple):
    ctx: context_module.Context


class Model(pydantic.BaseModel):
    db: Annotated[Any, DEPENDENCY]


class Struct(msgspec.Struct):
    ctx: context_module.Context


@pytest.mark.parametrize("kind", [Session, Pair, Model, Struct])
def test_constructor_of_a_dependency_gets_the_context(kind):
    dependency = Depends(kind)

    def function(session: Any = dependency): ...

    assert read_signature(function).dependencies


@pytest.mark.parametrize(
    ("function", "name", "kind"),
    [
        (with_context, "ctx", type(CONTEXT)),
        (with_maybe_context, "ctx", type(CONTEXT)),
        (with_default, "db", Dependency),
        (with_annotation, "db", Dependency),
    ],
)
def test_injected_parameters_are_not_in_the_schema(function, name, kind):
    signature = read_signature(function)
    assert signature.parameters.names == ("a",)
    assert type(signature.dependencies.injected[name]) is kind
    assert set(signature.parameters.schema["properties"]) == {"a"}


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def takes_dict(arguments: dict[str, Any], ctx: context_module.Context): ...


def takes_nothing(ctx: context_module.Context): ...


def takes_more(first, second): ...


def takes_one_and_a_default(given, scale=2): ...


@pytest.mark.parametrize(
    ("function", "made"),
    [
        (takes_dict, {"arguments": {"a": 1}}),
        (takes_nothing, {}),
        (takes_one_and_a_default, {"given": {"a": 1}}),
    ],
)
def test_function_with_input_schema_takes_one_dict_or_nothing(function, made):
    signature = read_signature(function, input_schema=SCHEMA)
    assert signature.parameters.convert({"a": 1}) == made


def test_two_parameters_with_input_schema_are_refused():
    with pytest.raises(TypeError, match="'second' is one too many"):
        read_signature(takes_more, input_schema=SCHEMA)


def test_awaitable_return_hint_describes_its_result():
    def returns_awaitable(): ...

    returns_awaitable.__annotations__["return"] = collections.abc.Awaitable[int]

    schema = read_signature(returns_awaitable).returns.schema
    assert schema["properties"]["result"] == {"type": "integer"}


class Documented:
    """Has annotations that differ from those of its `__call__`."""

    size: int = 0

    def __call__(self, name: str) -> str: ...


def test_hints_of_an_object_are_those_of_its_call_method():
    schema = read_signature(Documented()).parameters.schema
    assert schema["properties"] == {"name": {"type": "string"}}


@pytest.mark.parametrize(
    ("hint", "reason"),
    [
        ("1 +", "a type hint cannot be read"),
        ("functools.nothing", "a type hint cannot be read"),
        ("(1, 2)", ""),
        ("1", "is not supported"),
        ("target", "names 'target'"),  # which the library has
    ],
)
def test_invalid_type_hint_is_refused(hint, reason):
    def function(a): ...

    function.__annotations__ = {"a": hint}
    with pytest.raises(TypeError, match=rf"function .*: .*{reason}"):
        read_signature(function)


def test_local_class_with_unresolvable_hints_is_refused():
    class Inner: ...

    @dataclass
    class Outer:
        inner: Inner

    def function(a: Outer): ...

    with pytest.raises(TypeError, match="'a': a hint in Outer names 'Inner'"):
        read_signature(function)
