"""Structured output held against the schema that its tool declared.

A schema comes from the peer, and so does what is checked against it: neither may fetch,
hang or bloat. A schema is read first (`schema_index`); one that is too large, in an
unknown dialect, refers out of itself, or brings a pattern that is no regular expression
of the linear-time engine is unusable, and says why. Before each check a bound of the
work is made (`schema_cost`); a value beyond it is reported and not checked. The
validator's own errors are never made: in each it copies the value, and in that of an
`anyOf` once for each branch.

Dialects: 2020-12, which is the default, 2019-09, draft-07, draft-06 and draft-04.
`format` is an annotation in all of them; patterns have no look-around and no
back-references.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import LocalProtocolError
from mcpwire.protocol.json_schema import quoted, read_schema, unusable
from mcpwire.protocol.results.schema_cost import CostModel
from mcpwire.protocol.results.schema_fault import Engine, find_fault

if TYPE_CHECKING:
    from types import ModuleType

    from mcpwire.protocol.json_schema import SchemaIndex

__all__ = ["OutputValidator"]

DEFAULT_BUDGET: Final = 10_000_000
"""Units of work, some 100 ns each where it is slowest."""

_SEARCHED: Final = 50  # a fault is looked for where 1 / 50 of the budget is enough

MAX_PATTERNS: Final = 200
MAX_PATTERN: Final = 2_048  # characters
MAX_PATTERN_BYTES: Final = 8 * 1024 * 1024  # all of them, compiled

# Bytes of the compiled pattern -> units for each character, measured where everything
# goes wrong: more states than are kept, so that each character makes a new one.
_TIERS: Final = {8 * 1024: 10, 64 * 1024: 100, 1024 * 1024: 1_500}
_STATES_KEPT: Final = 256 * 1024  # bytes for each pattern


class OutputValidator:
    """One output schema, ready to check values."""

    def __init__(self, schema: object, *, budget: int = DEFAULT_BUDGET) -> None:
        """Prepare a schema.

        Raises:
            RemoteProtocolError: The schema cannot be used; says why.
            LocalProtocolError: jsonschema-rs is not installed.
        """
        rs = _load()
        index = read_schema(schema)
        self._cost = CostModel(index, _patterns(rs, index))
        self._budget = budget
        self._engine = Engine(
            rs,
            index,
            {
                "pattern_options": rs.RegexOptions(
                    size_limit=max(_TIERS), dfa_size_limit=_STATES_KEPT
                ),
                "offline": True,
                "validate_formats": False,
            },
        )

    def check(self, value: Any) -> str | None:
        """Say in one line where a value breaks which rule; ``None``: nowhere."""
        if not self._cost.is_within(value, self._budget):
            return (
                "structuredContent: too large, or nested too deeply, to be checked "
                "against the output schema"
            )
        try:
            if self._engine.accepts(value):
                return None
        except ValueError as error:  # what is no JSON, such as a lone surrogate
            return f"structuredContent: cannot be checked, {quoted(str(error))}"
        if not self._cost.is_within(value, self._budget // _SEARCHED):
            return "structuredContent: breaks its output schema somewhere"
        return find_fault(self._engine, value)


def _load() -> ModuleType:
    try:
        import jsonschema_rs
    except ImportError as error:
        raise LocalProtocolError(
            "checking structured output needs jsonschema-rs: pip install jsonschema-rs"
        ) from error
    return jsonschema_rs


def _patterns(rs: ModuleType, index: SchemaIndex) -> dict[str, int]:
    """Return the units for each character of each pattern in a schema.

    Raises:
        RemoteProtocolError: One is none of the linear-time engine's, or all together
            are too large.
    """
    found = {
        item.raw["pattern"]
        for item in index.found
        if isinstance(item.raw, dict) and isinstance(item.raw.get("pattern"), str)
    }
    if len(found) > MAX_PATTERNS:
        raise unusable(f"it has more than {MAX_PATTERNS} patterns")
    units: dict[str, int] = {}
    room = MAX_PATTERN_BYTES
    for pattern in found:
        tier = _tier(rs, pattern)
        units[pattern] = _TIERS[tier]
        room -= tier
    if room < 0:
        raise unusable(f"its patterns need more than {MAX_PATTERN_BYTES} bytes")
    return units


def _tier(rs: ModuleType, pattern: str) -> int:
    error: ValueError | None = None
    if len(pattern) <= MAX_PATTERN:
        for size in _TIERS:
            try:
                rs.Draft202012Validator(
                    {"pattern": pattern},
                    pattern_options=rs.RegexOptions(size_limit=size),
                )
            except ValueError as refused:
                error = refused
            else:
                return size
    raise unusable(
        f"its pattern {quoted(pattern)} is not supported",
        "patterns need linear time and little memory: no look-around, no "
        "back-references, no large counts",
    ) from error
