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

from mcpwire._package import import_optional
from mcpwire.protocol.json_schema import map_schemas, quote, read_schema, schema_error
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import ModuleType

    from mcpwire.protocol.json_schema import SchemaIndex, Subschema
    from mcpwire.types import CallToolResult, Tool

MAX_WORK: Final = 10_000_000
"""Units of work for one value, about 100 ns each at most."""

MAX_FAULT_ERRORS: Final = 50_000
"""Errors that jsonschema-rs may create for one fault: one per branch of an `anyOf` or
`oneOf`, and per error in it. One costs 20 µs and 4 KB; so do 20 copied parts."""

MAX_BOUND_STEPS: Final = 2_000_000  # steps to compute the bound
MAX_PARTS: Final = 2_000_000  # of a value, with the names of members
MAX_FRAMES: Final = 4_096
"""Depth of a value times the longest chain of subschemas: the validator is recursive,
and threads have small stacks on some platforms."""

MAX_PATTERNS: Final = 200
MAX_PATTERN_CHARS: Final = 2_048  # characters
MAX_PATTERN_BYTES: Final = 8 * 1024 * 1024  # of all compiled patterns
MAX_UNSUPPORTED_CHARS: Final = 16_384
"""Total characters of unsupported patterns: an attempt to compile them takes up to
60 µs per character. Beyond it, patterns count as unsupported without an attempt."""

_PATTERN_COST: Final = 100  # characters that an unsupported pattern counts in addition

# Bytes of a compiled pattern -> units per character, measured in the worst case: the
# states exceed the cache, so that each character creates a new state.
_TIERS: Final = {8 * 1024: 10, 64 * 1024: 100, 1024 * 1024: 1_500}
_STATE_CACHE_BYTES: Final = 256 * 1024  # cache size per pattern in bytes

_UNLIMITED: Final = 10**15

_MAX_PATH: Final = 200  # characters

TOOLS_CHANGED: Final = "notifications/tools/list_changed"


class SchemaValidator:
    """A compiled schema that validates values within limits."""

    def __init__(self, schema: object, *, skip_patterns: bool = False) -> None:
        """Compile a schema; `skip_patterns` removes unsupported patterns."""
        purpose = "checking structured output"
        self._rs = rs = import_optional("jsonschema_rs", "jsonschema-rs", purpose)
        index = read_schema(schema)
        tiers = _pattern_tiers(rs, index)
        self.skipped = tuple(pattern for pattern, tier in tiers.items() if not tier)
        if self.skipped:
            if not skip_patterns:
                raise schema_error(
                    f"its pattern {quote(self.skipped[0])} is not supported: patterns "
                    "take linear time and little memory, without look-around, "
                    "back-references and large counts"
                )
            schema = map_schemas(index.root.raw, _without_patterns(self.skipped))
        self._bound = _WorkBound(index, tiers)
        self._chain = index.longest_chain
        try:
            self._validator = rs.validator_for(
                schema,
                pattern_options=rs.RegexOptions(
                    size_limit=max(_TIERS), dfa_size_limit=_STATE_CACHE_BYTES
                ),
                offline=True,
                validate_formats=False,
            )
        except ValueError as error:
            raise schema_error(quote(str(error).partition("\n")[0])) from error

    def check(self, value: Any, subject: str = "structuredContent") -> str | None:
        """Return path and rule of the first fault of a value; ``None``: it is valid."""
        amounts = _measure(value)
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
            if not is_valid and self._bound.error_cost(amounts) > MAX_FAULT_ERRORS:
                return f"{subject}: does not match its schema"
            if not is_valid:
                self._validator.validate(value)
        except self._rs.ValidationError as error:
            return f"{subject}{_describe_fault(error)}"
        except ValueError as error:  # not JSON, such as a lone surrogate
            return f"{subject}: cannot be checked, {quote(str(error))}"
        return None


# --- patterns


def _pattern_tiers(rs: ModuleType, index: SchemaIndex) -> dict[str, int]:
    """Return the tier of each pattern in a schema; 0: not supported."""
    patterns = {pattern for item in index.subschemas for pattern in _patterns(item.raw)}
    if len(patterns) > MAX_PATTERNS:
        raise schema_error(f"it has more than {MAX_PATTERNS} patterns")
    tiers: dict[str, int] = {}
    bytes_left, chars_left = MAX_PATTERN_BYTES, MAX_UNSUPPORTED_CHARS
    for pattern in sorted(patterns):
        tiers[pattern] = tier = _pattern_tier(rs, pattern) if chars_left > 0 else 0
        bytes_left -= tier
        if bytes_left < 0:
            raise schema_error(f"its patterns need more than {MAX_PATTERN_BYTES} bytes")
        if not tier:
            chars_left -= _PATTERN_COST + len(pattern)
    return tiers


def _patterns(raw: Any) -> list[str]:
    if not isinstance(raw, dict):
        return []
    by_name = raw.get("patternProperties")
    values = [raw.get("pattern"), *(by_name if isinstance(by_name, dict) else ())]
    return [pattern for pattern in values if isinstance(pattern, str)]


def _pattern_tier(rs: ModuleType, pattern: str) -> int:
    for size in _TIERS if len(pattern) <= MAX_PATTERN_CHARS else ():
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
        by_name = schema.get("patternProperties")
        if isinstance(by_name, dict) and not by_name.keys().isdisjoint(skipped):
            schema["patternProperties"] = {
                name: inner for name, inner in by_name.items() if name not in skipped
            }
            schema.pop("additionalProperties", None)
        for keyword in ("not", "if", "maxContains", "unevaluatedProperties"):
            schema.pop(keyword, None)
        if "oneOf" in schema:
            schema.setdefault("anyOf", schema.pop("oneOf"))
        return schema

    return visit


# --- the bound of the work


def _measure(value: Any) -> list[tuple[int, int]] | None:
    """Return the parts and characters at each depth; ``None``: too many parts.

    The names of members count as strings at the depth of the members.
    """
    amounts: list[tuple[int, int]] = []
    parts_left = MAX_PARTS
    level = [value]
    while level:
        parts_left -= len(level)
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
            if len(inner) > parts_left:
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
        characters = dict.fromkeys(index.subschemas, 0)
        for item in index.subschemas:
            units = sum(_TIERS.get(tiers[text], 0) for text in _patterns(item.raw))
            # Patterns for names are matched with each name, at the members' depth.
            for applied in (item, *item.all_members_schemas):
                characters[applied] += units
        self._characters = _LevelCosts(index, characters)
        steps = {item: _own_work(item.raw) for item in index.subschemas}
        self._steps = _LevelCosts(index, steps)
        self._branches, self._has_deep_branches = 0, False
        deep: set[Subschema] = set()
        for item in index.subschemas:
            has_members = item.member_schemas or item.all_members_schemas
            if has_members or not deep.isdisjoint(item.in_place):
                deep.add(item)
            if _has_keyword(item, "anyOf", "oneOf"):
                self._branches = max(self._branches, self._steps.costs[item])
                self._has_deep_branches |= item in deep

    def work(self, amounts: Sequence[tuple[int, int]]) -> int:
        """Return the units of work for all parts and characters."""
        return sum(
            parts * self._steps.cost_at(depth)
            + characters * self._characters.cost_at(depth)
            for depth, (parts, characters) in enumerate(amounts)
        )

    def error_cost(self, amounts: Sequence[tuple[int, int]]) -> int:
        """Return the maximum cost of the errors for one fault, in errors."""
        if self._has_deep_branches:
            return self.work(amounts)
        copied = sum(parts + characters // 16 for parts, characters in amounts)
        return self._branches * (1 + copied // 20)


def _own_work(raw: Any) -> int:
    if not isinstance(raw, dict):
        return 1
    options = raw["enum"] if isinstance(raw.get("enum"), list) else []
    # Strings are looked up in a table, other values are compared one by one.
    compared = [option for option in options if type(option) is not str]
    compared += [raw["const"]] if "const" in raw else []
    steps = 1 + len(encode(compared)) // 4 + len(str(raw.get("required", ""))) // 32
    # Division by a fraction uses big numbers.
    return steps + 200 if isinstance(raw.get("multipleOf"), float) else steps


def _has_keyword(item: Subschema, *keywords: str) -> bool:
    return isinstance(item.raw, dict) and any(
        keyword in item.raw for keyword in keywords
    )


class _LevelCosts:
    """The maximum work per value at each depth below the root."""

    def __init__(self, index: SchemaIndex, own: dict[Subschema, int]) -> None:
        self._index = index
        # `unevaluated...` processes all subschemas again, and recursively: 2.7 times
        # the work for each keyword, measured.
        unevaluated = ("unevaluatedProperties", "unevaluatedItems")
        self._factors = {
            item: 3 if _has_keyword(item, *unevaluated) else 1
            for item in index.subschemas
        }
        self.costs = self._add_in_place(own)
        self._root_costs = [self.costs[index.root]]
        edges = (
            len(item.in_place)
            + len(item.member_schemas)
            + len(item.all_members_schemas)
            for item in index.subschemas
        )
        self._max_levels = MAX_BOUND_STEPS // (len(index.subschemas) + sum(edges))
        self._is_settled = False  # whether each deeper level costs the same

    def _add_in_place(self, own: dict[Subschema, int]) -> dict[Subschema, int]:
        """Return each subschema's cost, plus the costs of its `in_place` subschemas."""
        sums: dict[Subschema, int] = {}
        for item in self._index.subschemas:
            inner = sum(sums[applied] for applied in item.in_place)
            sums[item] = min(self._factors[item] * (own[item] + inner), _UNLIMITED)
        return sums

    def cost_at(self, depth: int) -> int:
        while len(self._root_costs) <= depth and not self._is_settled:
            if len(self._root_costs) > self._max_levels:
                return _UNLIMITED
            costs = self.costs
            self.costs = self._add_in_place(
                {item: self._member_cost(item) for item in self._index.subschemas}
            )
            self._is_settled = self.costs == costs
            self._root_costs.append(self.costs[self._index.root])
        return self._root_costs[min(depth, len(self._root_costs) - 1)]

    def _member_cost(self, item: Subschema) -> int:
        members = (self.costs[applied] for applied in item.member_schemas)
        all_members = (self.costs[applied] for applied in item.all_members_schemas)
        return max(members, default=0) + sum(all_members)


# --- error messages


def _describe_fault(error: Any) -> str:
    """Return path and rule of an error of jsonschema-rs in one short line.

    The message of the library contains the whole value, which may be long or hostile.
    """
    path, kind = list(error.instance_path), error.kind.name
    keyword = error.schema_path[-1] if error.schema_path else kind
    details = {} if kind in {"anyOf", "oneOf", "not"} else error.kind.as_dict()
    if kind == "additionalProperties":
        path.append(details["unexpected"][0])
    elif kind == "additionalItems":
        path.append(details["limit"])
    if (kind, keyword) == ("falseSchema", "additionalProperties"):
        problem = "no members are allowed"
    elif kind in {"falseSchema", "additionalProperties", "additionalItems"}:
        problem = "is not allowed"
    elif kind == "required":
        problem = f"lacks {quote(details['property'])}"
    elif kind == "type":
        types = details["types"]
        expected = quote(types[0] if len(types) == 1 else types)
        problem = f"expected type {expected}, got {type(error.instance).__name__}"
    elif kind == "propertyNames":
        problem = f"breaks propertyNames: {quote(details['error'].instance)}"
    elif len(details) == 1:
        problem = f"breaks {keyword}: {quote(*details.values())}"
    else:
        problem = f"breaks {keyword}"
    return f"{_format_path(path)}: {problem}"


def _format_path(path: Iterable[str | int]) -> str:
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier() and len(step) <= _MAX_PATH:
            text += f".{step}"
        else:
            text += f"[{quote(step)}]"
        if len(text) > _MAX_PATH:
            return f"{text[:_MAX_PATH]}..."
    return text


# --- the tools of a server


class KnownTools:
    """The tools of one server, as listed last.

    Attributes:
        tools: The tools by name. Another dict after a change: a list that was
            requested before it is added to the old one.
        latest: Those of the latest list, even if it changed on the way: the best known
            annotations.
    """

    def __init__(self, on_skipped: Callable[[str, tuple[str, ...]], None]) -> None:
        self._on_skipped = on_skipped
        self._validators: dict[str, tuple[Tool, SchemaValidator]] = {}
        self.tools: dict[str, Tool] = {}
        self.latest: dict[str, Tool] = {}

    def add(self, listed: Iterable[Tool], tools: dict[str, Tool]) -> None:
        """Add the tools of a list to the `tools` of the time of its request."""
        for tool in listed:
            tools[tool.name] = self.latest[tool.name] = tool

    def invalidate(self, method: str, _: dict[str, Any] | None) -> None:
        """Remove all tools if the notification is ``tools/list_changed``."""
        if method == TOOLS_CHANGED:
            self.tools = {}
            self.forget()

    def forget(self) -> None:
        """Remove all tools."""
        self.tools.clear()
        self.latest.clear()
        self._validators.clear()

    def problem(self, tool: Tool | None, result: CallToolResult) -> str | None:
        """Return how a result violates its tool's output schema; ``None``: it is valid.

        2025-06-18 and later server/tools, "Output Schema": clients SHOULD validate
        structured results. The schema does not apply to results with ``isError``.
        """
        if tool is None or tool.output_schema is None or result.is_error:
            return None
        from mcpwire.types import UNSET

        if result.structured_content is UNSET:
            return "it has no structured content, which its output schema requires"
        known, validator = self._validators.get(tool.name, (None, None))
        if known is not tool or validator is None:
            validator = SchemaValidator(tool.output_schema, skip_patterns=True)
            self._validators[tool.name] = tool, validator
            if validator.skipped:
                self._on_skipped(tool.name, validator.skipped)
        return validator.check(result.structured_content)
