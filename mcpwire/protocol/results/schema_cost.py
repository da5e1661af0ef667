"""How much work a value can make for a schema, found out before any of it is done.

A schema of a few lines can make a validator work for years: `anyOf` of two references
to the same subschema doubles the work, and thirty of them behind one another double it
thirty times; a recursive schema does so with each level of the value. A validator
cannot be stopped, so what it would have to do is bounded first.

The bound comes from two sides. Of the schema, for each depth: how much it can at most
do to one single value so far below the one it is given; the levels follow from one
another. Of the value: how much there is at each depth. Both are walks without any
multiplication of paths, and their products add up to the bound. It is an upper bound:
no `anyOf` is taken to end early.

One unit is about 100 ns of the validator's time, measured where it is slowest.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.protocol.json_schema import unusable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcpwire.protocol.json_schema import Place, SchemaIndex, Subschema

__all__ = ["CostModel"]

MAX_EFFORT: Final = 300_000
"""Steps that one level of the schema's side of the bound may take."""

MAX_TOTAL_EFFORT: Final = 2_000_000

MAX_FRAMES: Final = 4_096
"""Depth of a value times subschemas behind one another: the validator recurses, and
threads have small stacks on some systems."""

MAX_PARTS: Final = 2_000_000
"""Parts of a value, its names among them; counting them takes time too."""

_ENDLESS: Final = 10**15

# The validator asks what `unevaluated...` has left over by going through everything
# once more, and within that once more: 2.7 times the work for each one, measured.
_UNEVALUATED: Final = 3
_UNEVALUATED_KEYWORDS: Final = ("unevaluatedProperties", "unevaluatedItems")

_CONTAINER_COMPARED: Final = 5  # for each part of an object or array in `enum`, `const`
_PART_HASHED: Final = 4  # for each part of an array with `uniqueItems`
_NUMBER_COMPARED: Final = 5
_FLOAT_DIVIDED: Final = 300  # `multipleOf` a fraction is exact, by big numbers
_TINY_DIVIDED: Final = 2_000
_TINY: Final = 1e-15


class CostModel:
    """What a schema can at most cost, level by level of a value."""

    def __init__(self, index: SchemaIndex, patterns: Mapping[str, int]) -> None:
        """Take the schema, and for each pattern in it its units for each character.

        Raises:
            RemoteProtocolError: The schema is too intricate to find out.
        """
        graph = _Graph(index)
        self._chain = index.chain
        raws = [item.raw if isinstance(item.raw, dict) else {} for item in index.found]
        self._levels = tuple(
            _Levels(graph, own)
            for own in (
                [_steps(raw) for raw in raws],
                [_for_each_character(raw, patterns) for raw in raws],
                [_for_each_part_below(raw) for raw in raws],
            )
        )

    def is_within(self, value: Any, budget: int) -> bool:
        """Tell whether checking a value takes at most so many units."""
        amounts = _amounts(value, MAX_PARTS)
        if amounts is None or len(amounts) * self._chain > MAX_FRAMES:
            return False
        below = sum(parts + characters // 16 for parts, characters in amounts)
        total = 0
        for depth, (parts, characters) in enumerate(amounts):
            for levels, amount in zip(
                self._levels, (parts, characters, below), strict=True
            ):
                total += amount * levels.at(depth)
            below -= parts + characters // 16
            if total > budget:
                return False
        return True


def _amounts(value: Any, most: int) -> list[tuple[int, int]] | None:
    """Return parts and characters at each depth; ``None``: there are more parts.

    The names of members are strings as deep as the members.
    """
    amounts: list[tuple[int, int]] = []
    level = [value]
    while level:
        most -= len(level)
        characters = 0
        inner: list[Any] = []
        for item in level:
            if isinstance(item, str):
                characters += len(item)
            elif isinstance(item, dict):
                inner += item
                inner += item.values()
            elif isinstance(item, (list, tuple)):
                inner += item
            if len(inner) > most:
                return None
        amounts.append((len(level), characters))
        level = inner
    return amounts


# --- what one subschema costs by itself


def _steps(raw: dict[str, Any]) -> int:
    steps = 1 + len(_sized(raw.get("required"))) // 4
    steps += sum(_compared(option) for option in _sized(raw.get("enum")))
    steps += _compared(raw.get("const"))
    if isinstance(raw.get("dependentRequired"), dict):
        steps += _parts(raw["dependentRequired"])
    divisor = raw.get("multipleOf")
    if isinstance(divisor, float):
        steps += _FLOAT_DIVIDED if divisor > _TINY else _TINY_DIVIDED
    return steps


def _sized(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _compared(option: object) -> int:
    if isinstance(option, (dict, list)):
        return _CONTAINER_COMPARED * _parts(option)
    if isinstance(option, (str, bool)) or option is None:
        return 0  # looked up, and not one by one
    return _NUMBER_COMPARED


def _parts(value: Any) -> int:
    amounts = _amounts(value, _ENDLESS)
    assert amounts is not None
    return sum(parts for parts, _ in amounts)


def _for_each_character(raw: dict[str, Any], patterns: Mapping[str, int]) -> int:
    pattern = raw.get("pattern")
    return patterns.get(pattern, 0) if isinstance(pattern, str) else 0


def _for_each_part_below(raw: dict[str, Any]) -> int:
    return _PART_HASHED if raw.get("uniqueItems") is True else 0


# --- what all of them cost together


class _Graph:
    """The subschemas by number, each after those that it applies to the same value."""

    def __init__(self, index: SchemaIndex) -> None:
        numbers = {item: number for number, item in enumerate(index.found)}
        self.root = numbers[index.root]
        self.factor = [_factor(item.raw) for item in index.found]
        self.in_place = [_numbered(item.in_place, numbers) for item in index.found]
        self.for_all: list[list[tuple[str, int]]] = []
        self.for_others: list[list[tuple[str, int]]] = []
        self.for_named: list[list[tuple[Place, int]]] = []
        for item in index.found:
            self.for_all.append(
                [(kind, numbers[inner]) for kind, inner in item.all_members]
            )
            self.for_others.append(
                [
                    (place[0], numbers[inner])
                    for place, inner in item.members
                    if place[1] is None
                ]
            )
            self.for_named.append(
                [
                    (place, numbers[inner])
                    for place, inner in item.members
                    if place[1] is not None
                ]
            )
        self.effort = self._effort()

    def _effort(self) -> int:
        """Return the steps that one level takes.

        Raises:
            RemoteProtocolError: They are too many.
        """
        effort = 0
        places: list[set[Place]] = []
        for number, inners in enumerate(self.in_place):
            own = {place for place, _ in self.for_named[number]}
            effort += 1 + len(own) + len(self.for_all[number])
            for inner in inners:
                effort += 1 + len(places[inner])
                own |= places[inner]
            places.append(own)
            if effort > MAX_EFFORT:
                raise unusable("its subschemas refer to each other in too many ways")
        return effort


def _factor(raw: object) -> int:
    has_unevaluated = isinstance(raw, dict) and any(
        keyword in raw for keyword in _UNEVALUATED_KEYWORDS
    )
    return _UNEVALUATED if has_unevaluated else 1


def _numbered(
    subschemas: Iterable[Subschema], numbers: Mapping[Subschema, int]
) -> list[int]:
    return [numbers[subschema] for subschema in subschemas]


@attrs.define
class _Vector:
    """What comes to members: to each of a kind, and how much more to one place."""

    each: defaultdict[str, int] = attrs.field(factory=lambda: defaultdict(int))
    more: defaultdict[Place, int] = attrs.field(factory=lambda: defaultdict(int))

    def add(self, other: _Vector) -> None:
        """Add what comes from another subschema."""
        for kind, amount in other.each.items():
            self.each[kind] += amount
        for place, amount in other.more.items():
            self.more[place] += amount

    def times(self, factor: int) -> _Vector:
        """Return as many times as much."""
        if factor > 1:
            for kind in self.each:
                self.each[kind] *= factor
            for place in self.more:
                self.more[place] *= factor
        return self

    def most(self) -> int:
        """Return the most that comes to any one member."""
        most = max(self.each.values(), default=0)
        for place, more in self.more.items():
            most = max(most, self.each[place[0]] + more)
        return min(most, _ENDLESS)


class _Levels:
    """What the whole schema costs for one value so far below the first; lazily."""

    def __init__(self, graph: _Graph, own: list[int]) -> None:
        self._graph = graph
        self._at_all: list[int] = []
        self._is_settled = not any(own)
        for number, cost in enumerate(own):
            inner = sum(self._at_all[inner] for inner in graph.in_place[number])
            self._at_all.append(min(graph.factor[number] * (cost + inner), _ENDLESS))
        self._of_root = [self._at_all[graph.root]]

    def at(self, depth: int) -> int:
        """Return the most that comes to one value at this depth."""
        while len(self._of_root) <= depth and not self._is_settled:
            if len(self._of_root) * self._graph.effort > MAX_TOTAL_EFFORT:
                return _ENDLESS
            self._go_deeper()
        return self._of_root[min(depth, len(self._of_root) - 1)]

    def _go_deeper(self) -> None:
        vectors: list[_Vector] = []
        for number in range(len(self._at_all)):
            vectors.append(self._vector(number, vectors))
        deeper = [vector.most() for vector in vectors]
        self._is_settled = deeper == self._at_all
        self._at_all = deeper
        self._of_root.append(deeper[self._graph.root])

    def _vector(self, number: int, inner_vectors: list[_Vector]) -> _Vector:
        graph, cost = self._graph, self._at_all
        vector = _Vector()
        others: defaultdict[str, int] = defaultdict(int)
        for kind, inner in graph.for_others[number]:
            others[kind] += cost[inner]
        for place, inner in graph.for_named[number]:
            if place not in vector.more:  # what is named is not one of the others
                vector.more[place] = -others[place[0]]
            vector.more[place] += cost[inner]
        for kind, inner in graph.for_all[number]:
            others[kind] += cost[inner]
        vector.each = others
        for inner in graph.in_place[number]:
            vector.add(inner_vectors[inner])
        return vector.times(graph.factor[number])
