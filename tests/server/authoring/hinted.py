"""Types like those of users, and functions that take one of them."""

import dataclasses
import datetime as dt
import enum
from typing import (
    Annotated,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Required,
    TypedDict,
    TypeVar,
)

import attrs
import msgspec
import pydantic
import typing_extensions

from mcpwire import types
from mcpwire.server.authoring.schemas import Arg
from mcpwire.server.authoring.signature import read_signature

T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Rights(enum.IntFlag):
    READ = 1
    WRITE = 2
    RUN = 4


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.5


@dataclasses.dataclass
class Bounded:
    x: Annotated[int, Arg("The x", ge=0)]
    color: Color = Color.RED
    tags: list[str] = dataclasses.field(default_factory=list)
    hidden: int = dataclasses.field(default=0, init=False)


@dataclasses.dataclass
class Node:
    value: int
    next: "Node | None" = None


@dataclasses.dataclass
class BoundedNode:
    value: Annotated[int, Arg(ge=0)]
    next: "BoundedNode | None" = None


@attrs.define
class Named:
    name: str
    _size: Annotated[int, Arg(le=9)] = 1
    made: int = attrs.field(default=0, init=False)


@attrs.define
class Checked:
    size: int = attrs.field(validator=attrs.validators.in_([1, 2]))


class Options(TypedDict, total=False):
    a: int
    b: Required[Annotated[str, "The b"]]


class Marked(typing_extensions.TypedDict):
    a: NotRequired[Annotated[int, Arg(ge=1)]]


class Qualified(TypedDict):
    a: Annotated[Required[int], Arg(ge=1)]


@dataclasses.dataclass
class Page(Generic[T]):
    items: list[T]
    next: "Page[T] | None" = None


@dataclasses.dataclass
class Pages(Page[Page[T]]):
    last: T | None = None


class Numbers(Page["int"]):
    items: Annotated[list[int], Arg(max_length=2)]


class Box(TypedDict, Generic[T]):
    inner: Annotated[T, Arg(ge=1)]


class Labelled(Box[int]):
    label: str


class Couple(NamedTuple, Generic[T]):
    first: T


class Envelope(msgspec.Struct, Generic[T]):
    item: T
    image: types.ImageContent | None = None


Items = typing_extensions.TypeAliasType("Items", list[T], type_params=(T,))


class Pair(NamedTuple):
    first: Annotated[int, Arg("The first", ge=0)]
    second: str = "x"


class Parsed(Pair):
    def __new__(cls, text): ...


class Struct(msgspec.Struct):
    a: int


class Shown(msgspec.Struct):
    image: types.ImageContent
    size: int = 1


class Tagged(Shown, tag=True): ...


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(Cat):
    kind: Literal["dog"]


Pet = Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]


class Model(pydantic.BaseModel):
    n: int
    day: dt.date | None = None
    word: Annotated[str, pydantic.Field(max_length=3)] = "a"


@pydantic.dataclasses.dataclass
class Validated:
    n: Annotated[int, pydantic.Field(gt=0)]


Even = Annotated[int, pydantic.AfterValidator(lambda n: n - n % 2)]
Words = Annotated[list[str], pydantic.BeforeValidator(lambda text: text.split())]
Lower = Annotated[
    str,
    Arg("Small", header="L", max_length=3),
    pydantic.StringConstraints(to_lower=True),
]
Id = NewType("Id", int)
Step = NewType("Step", Annotated[float, Arg(multiple_of=0.1)])
OptionalStep = NewType("OptionalStep", Step | None)
MISSING = object()


def parameters(hint, default=MISSING, **options):
    def function(a): ...

    function.__annotations__ = {"a": hint}
    if default is not MISSING:
        function.__defaults__ = (default,)
    return read_signature(function, **options).parameters


def schema_of(hint, default=MISSING):
    return parameters(hint, default).schema["properties"]["a"]
