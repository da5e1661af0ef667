"""Validation of structured results and of arguments against a tool's schemas.

The validator is jsonschema-rs. A client validates results if `call_tool(validate=...)`
requests it, a server validates the arguments of every call.

Schema and value come from the peer, so neither may cause network requests, or take too
much time or memory. `json_schema` checks the schema first. The regex engine takes
linear time, and has no look-around and no back-references. For each value an upper
bound of the work is computed first, because a validator cannot be stopped.

Dialects: 2020-12, which is the default, 2019-09, draft-07, draft-06 and draft-04.
`format` is an annotation in all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import LocalProtocolError
from mcpwire.protocol.json_schema import mapped, quoted, read_schema, unusable
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import ModuleType

    from mcpwire.protocol.json_schema import SchemaIndex, Subschema
    from mcpwire.types import CallToolResult, Tool

MAX_WORK: Final = 10_000_000
"""Units of work for one value, about 100 ns each at most."""

MAX_TRACED: Final = 50_000
"""Errors that jsonschema-rs may create for one fault: one per branch of an `anyOf` or
`oneOf`, and per error in it. One costs 20 µs and 4 KB; so do 20 copied parts."""

MAX_EFFORT: Final = 2_000_000  # steps to compute the bound
MAX_PARTS: Final = 2_000_000  # of a value, with the names of members
MAX_FRAMES: Final = 4_096
"""Depth of a value times the longest chain of subschemas: the validator is recursive,
and threads have small stacks on some platforms."""

MAX_PATTERNS: Final = 200
MAX_PATTERN: Final = 2_048  # characters
MAX_PATTERN_BYTES: Final = 8 * 1024 * 1024  # of all compiled patterns
MAX_IN_VAIN: Final = 16_384
"""Total characters of unsupported patterns: an attempt to compile them takes up to
60 µs per character. Beyond it, patterns count as unsupported without an attempt."""

_IN_VAIN: Final = 100  # characters that an unsupported pattern counts in addition

# Bytes of a compiled pattern -> units per character, measured in the worst case: the
# states exceed the cache, so that each character creates a new state.
_TIERS: Final = {8 * 1024: 10, 64 * 1024: 100, 1024 * 1024: 1_500}
_STATES_KEPT: Final = 256 * 1024  # cache size per pattern in bytes

_ENDLESS: Final = 10**15

_MAX_PATH: Final = 200  # characters

CHANGED: Final = "notifications/tools/list_changed"


class SchemaValidator:
    """A compiled schema that validates values within limits."""

    def __init__(self, schema: object, *, skip_patterns: bool = False) -> None:
        """Compile a schema; `skip_patterns` removes unsupported patterns."""
        self._rs = rs = _load()
        index = read_schema(schema)
        tiers = _pattern_tiers(rs, index)
        self.skipped = tuple(pattern for pattern, tier in tiers.items() if not tier)
        if self.skipped:
            if not skip_patterns:
                raise unusable(
                    f"its pattern {quoted(self.skipped[0])} is not supported: patterns "
                    "take linear time and little memory, without look-around, "
                    "back-references and large counts"
                )
            schema = mapped(index.root.raw, _without_patterns(self.skipped))
        self._bound = _WorkBound(index, tiers)
        self._chain = index.chain
        try:
            self._validator = rs.validator_for(
                schema,
                pattern_options=rs.RegexOptions(
                    size_limit=max(_TIERS), dfa_size_limit=_STATES_KEPT
                ),
                offline=True,
                validate_formats=False,
            )
        except ValueError as error:
            raise unusable(quoted(str(error).partition("\n")[0])) from error

    def check(self, value: Any, subject: str = "structuredContent") -> str | None:
        """Return path and rule of the first fault of a value; ``None``: it is valid."""
        amounts = _amounts(value)
        if (
            amounts is None
            or len(amounts) * self._chain > MAX_FRAMES
            or self._bound.work(amounts) > MAX_WORK
        ):
            return (
                f"{subject}: too large, or nested too deeply, to be checked against "
                "the schema"
            )
        try:
            is_valid = self._validator.is_valid(value)
            if not is_valid and self._bound.traced(amounts) > MAX_TRACED:
                return f"{subject}: breaks its schema somewhere"
            if not is_valid:
                self._validator.validate(value)
        except self._rs.ValidationError as error:
            return f"{subject}{_fault(error)}"
        except ValueError as error:  # not JSON, such as a lone surrogate
            return f"{subject}: cannot be checked, {quoted(str(error))}"
        return None


def _load() -> ModuleType:
    try:
        import jsonschema_rs
    except ImportError as error:
        raise LocalProtocolError(
            "checking structured output needs jsonschema-rs: pip install jsonschema-rs"
        ) from error
    return jsonschema_rs


# --- patterns


def _pattern_tiers(rs: ModuleType, index: SchemaIndex) -> dict[str, int]:
    """Return the tier of each pattern in a schema; 0: not supported."""
    found = {pattern for item in index.found for pattern in _patterns(item.raw)}
    if len(found) > MAX_PATTERNS:
        raise unusable(f"it has more than {MAX_PATTERNS} patterns")
    tiers: dict[str, int] = {}
    room, in_vain = MAX_PATTERN_BYTES, MAX_IN_VAIN
    for pattern in sorted(found):
        tiers[pattern] = tier = _tier(rs, pattern) if in_vain > 0 else 0
        room -= tier
        if room < 0:
            raise unusable(f"its patterns need more than {MAX_PATTERN_BYTES} bytes")
        if not tier:
            in_vain -= _IN_VAIN + len(pattern)
    return tiers


def _patterns(raw: Any) -> list[str]:
    if not isinstance(raw, dict):
        return []
    of_names = raw.get("patternProperties")
    found = [raw.get("pattern"), *(of_names if isinstance(of_names, dict) else ())]
    return [pattern for pattern in found if isinstance(pattern, str)]


def _tier(rs: ModuleType, pattern: str) -> int:
    for size in _TIERS if len(pattern) <= MAX_PATTERN else ():
        try:
            rs.Draft202012Validator(
                {"pattern": pattern}, pattern_options=rs.RegexOptions(size_limit=size)
            )
        except ValueError:
            continue
        return size
    return 0


def _without_patterns(
    skipped: Sequence[str],
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that removes patterns and the keywords that depend on them."""

    def visit(schema: dict[str, Any]) -> dict[str, Any]:
        if schema.get("pattern") in skipped:
            del schema["pattern"]
        of_names = schema.get("patternProperties")
        if isinstance(of_names, dict) and not of_names.keys().isdisjoint(skipped):
            schema["patternProperties"] = {
                name: inner for name, inner in of_names.items() if name not in skipped
            }
            schema.pop("additionalProperties", None)
        for keyword in ("not", "if", "maxContains", "unevaluatedProperties"):
            schema.pop(keyword, None)
        if "oneOf" in schema:
            schema.setdefault("anyOf", schema.pop("oneOf"))
        return schema

    return visit


# --- the bound of the work


def _amounts(value: Any) -> list[tuple[int, int]] | None:
    """Return the parts and characters at each depth; ``None``: too many parts.

    The names of members count as strings at the depth of the members.
    """
    amounts: list[tuple[int, int]] = []
    left = MAX_PARTS
    level = [value]
    while level:
        left -= len(level)
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
            if len(inner) > left:
                return None
        amounts.append((len(level), characters))
        level = inner
    return amounts


class _WorkBound:
    """An upper bound of the validator's work for a value.

    A short schema can take years of work: an `anyOf` with two references to the same
    subschema doubles the work, and a chain of thirty of them doubles it thirty times; a
    recursive schema doubles it at each level of the value. So the bound multiplies, for
    each depth, the maximum number of steps per value (an `anyOf` never ends early) by
    the number of values.
    """

    def __init__(self, index: SchemaIndex, tiers: dict[str, int]) -> None:
        characters = [0] * len(index.found)
        for item in index.found:
            units = sum(_TIERS.get(tiers[each], 0) for each in _patterns(item.raw))
            # Patterns for names are matched with each name, at the members' depth.
            for each in (item, *item.members):
                characters[each.number] += units
        self._characters = _Levels(index, characters)
        self._steps = _Levels(index, [_own_steps(item.raw) for item in index.found])
        self._branches, self._are_deep = 0, False
        is_deep: list[bool] = []
        for item in index.found:
            inner = any(is_deep[each.number] for each in item.in_place)
            is_deep.append(bool(item.named or item.members) or inner)
            if _has(item, "anyOf", "oneOf"):
                errors = self._steps.of_each[item.number]
                self._branches = max(self._branches, errors)
                self._are_deep |= is_deep[-1]

    def work(self, amounts: Sequence[tuple[int, int]]) -> int:
        """Return the units of work for all parts and characters."""
        return sum(
            parts * self._steps.at(depth) + characters * self._characters.at(depth)
            for depth, (parts, characters) in enumerate(amounts)
        )

    def traced(self, amounts: Sequence[tuple[int, int]]) -> int:
        """Return the maximum cost of the errors for one fault, in errors."""
        if self._are_deep:
            return self.work(amounts)
        copied = sum(parts + characters // 16 for parts, characters in amounts)
        return self._branches * (1 + copied // 20)


def _own_steps(raw: Any) -> int:
    if not isinstance(raw, dict):
        return 1
    options = raw["enum"] if isinstance(raw.get("enum"), list) else []
    # Strings are looked up in a table, other values are compared one by one.
    compared = [each for each in options if type(each) is not str]
    compared += [raw["const"]] if "const" in raw else []
    steps = 1 + len(encode(compared)) // 4 + len(str(raw.get("required", ""))) // 32
    # Division by a fraction uses big numbers.
    return steps + 200 if isinstance(raw.get("multipleOf"), float) else steps


def _has(item: Subschema, *keywords: str) -> bool:
    return isinstance(item.raw, dict) and any(each in item.raw for each in keywords)


class _Levels:
    """The maximum work per value at each depth below the root."""

    def __init__(self, index: SchemaIndex, own: list[int]) -> None:
        self._found, self._root = index.found, index.root.number
        # `unevaluated...` processes all subschemas again, and recursively: 2.7 times
        # the work for each keyword, measured.
        rest = ("unevaluatedProperties", "unevaluatedItems")
        self._factors = [3 if _has(item, *rest) else 1 for item in index.found]
        self.of_each = self._summed(own)
        self._of_root = [self.of_each[self._root]]
        edges = (
            len(each.in_place) + len(each.named) + len(each.members)
            for each in index.found
        )
        self._most_levels = MAX_EFFORT // (len(index.found) + sum(edges))
        self._is_settled = False  # whether each deeper level costs the same

    def _summed(self, costs: Iterable[int]) -> list[int]:
        """Return each subschema's cost, plus the costs of its `in_place` subschemas."""
        sums: list[int] = []
        for item, factor, cost in zip(self._found, self._factors, costs, strict=True):
            inner = sum(sums[each.number] for each in item.in_place)
            sums.append(min(factor * (cost + inner), _ENDLESS))
        return sums

    def at(self, depth: int) -> int:
        while len(self._of_root) <= depth and not self._is_settled:
            if len(self._of_root) > self._most_levels:
                return _ENDLESS
            deeper = self._summed(map(self._of_member, self._found))
            self._is_settled = deeper == self.of_each
            self.of_each = deeper
            self._of_root.append(deeper[self._root])
        return self._of_root[min(depth, len(self._of_root) - 1)]

    def _of_member(self, item: Subschema) -> int:
        named = (self.of_each[each.number] for each in item.named)
        of_all = sum(self.of_each[each.number] for each in item.members)
        return max(named, default=0) + of_all


# --- error messages


def _fault(error: Any) -> str:
    """Return path and rule of an error of jsonschema-rs in one short line.

    The message of the library contains the whole value, which may be long or hostile.
    """
    path, kind = list(error.instance_path), error.kind.name
    keyword = error.schema_path[-1] if error.schema_path else kind
    facts = {} if kind in {"anyOf", "oneOf", "not"} else error.kind.as_dict()
    if kind == "additionalProperties":
        path.append(facts["unexpected"][0])
    elif kind == "additionalItems":
        path.append(facts["limit"])
    if (kind, keyword) == ("falseSchema", "additionalProperties"):
        problem = "no members are allowed"
    elif kind in {"falseSchema", "additionalProperties", "additionalItems"}:
        problem = "is not allowed"
    elif kind == "required":
        problem = f"lacks {quoted(facts['property'])}"
    elif kind == "type":
        types = facts["types"]
        expected = quoted(types[0] if len(types) == 1 else types)
        problem = f"expected type {expected}, got {type(error.instance).__name__}"
    elif kind == "propertyNames":
        problem = f"breaks propertyNames: {quoted(facts['error'].instance)}"
    elif len(facts) == 1:
        problem = f"breaks {keyword}: {quoted(*facts.values())}"
    else:
        problem = f"breaks {keyword}"
    return f"{_spelled(path)}: {problem}"


def _spelled(path: Iterable[str | int]) -> str:
    spelled = ""
    for step in path:
        if isinstance(step, int):
            spelled += f"[{step}]"
        elif step.isidentifier() and len(step) <= _MAX_PATH:
            spelled += f".{step}"
        else:
            spelled += f"[{quoted(step)}]"
        if len(spelled) > _MAX_PATH:
            return f"{spelled[:_MAX_PATH]}..."
    return spelled


# --- the tools of a server


class KnownTools:
    """The tools of one server by name, as listed last."""

    def __init__(self, on_skipped: Callable[[str, tuple[str, ...]], None]) -> None:
        self._on_skipped = on_skipped
        self._tools: dict[str, Tool] = {}
        self._validators: dict[str, SchemaValidator] = {}

    def learn(self, tools: Iterable[Tool]) -> None:
        """Add the tools of a list or of one of its pages."""
        for tool in tools:
            self._tools[tool.name] = tool
            self._validators.pop(tool.name, None)

    def invalidate(self, method: str, _: dict[str, Any] | None) -> None:
        """Remove all tools if the notification is ``tools/list_changed``."""
        if method == CHANGED:
            self.forget()

    def forget(self) -> None:
        """Remove all tools."""
        self._tools.clear()
        self._validators.clear()

    def get(self, name: str) -> Tool | None:
        """Return a tool, or ``None`` if it is not listed."""
        return self._tools.get(name)

    def problem(self, name: str, result: CallToolResult) -> str | None:
        """Return how a result violates its tool's output schema; ``None``: it is valid.

        2025-06-18 and later server/tools, "Output Schema": clients SHOULD validate
        structured results. The schema does not apply to results with ``isError``.
        """
        tool = self._tools.get(name)
        if tool is None or tool.output_schema is None or result.is_error:
            return None
        from mcpwire.types import UNSET

        if result.structured_content is UNSET:
            return "it has no structured content, which its output schema demands"
        validator = self._validators.get(name)
        if validator is None:
            validator = SchemaValidator(tool.output_schema, skip_patterns=True)
            self._validators[name] = validator
            if validator.skipped:
                self._on_skipped(name, validator.skipped)
        return validator.check(result.structured_content)
