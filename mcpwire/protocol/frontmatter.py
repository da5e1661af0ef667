"""The YAML at the head of a `SKILL.md`, held against what was said of it as JSON.

It comes from the peer, so plain data is read and nothing else: no aliases (by which a
short text stands for an endless one), no tags of one's own, no key twice, all of it
bounded. PyYAML is imported when a head is first read.

Versions of YAML read some words in two ways: ``yes`` is true in 1.1 and a text in 1.2.
Servers use either, so such a word agrees with both of its readings. Dates are texts, as
JSON has none.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, Final

from mcpwire._text import excerpt
from mcpwire.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    import yaml

__all__ = [
    "MAX_DEPTH",
    "MAX_HEAD",
    "MAX_NODES",
    "FrontmatterFault",
    "difference",
    "load_yaml",
    "split",
]

MAX_HEAD: Final = 64 * 1024
"""Characters of a head; one that describes a skill has some hundreds."""

MAX_NODES: Final = 1_000
"""Keys and values of a head: each costs PyYAML some tenth of a millisecond."""

MAX_DEPTH: Final = 32
"""Mappings and lists within each other."""

_HEAD: Final = re.compile(
    r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_AROUND: Final = 64
"""How much longer than the head its delimiters may be."""

_YAML: Final = "tag:yaml.org,2002:"
_TEXTS: Final = frozenset({"str", "timestamp", "value", "merge"})
_TRUE: Final = frozenset({"yes", "true", "on"})

_ABSENT: Final = object()


class FrontmatterFault(Exception):
    """A head that cannot be read; says in half a sentence why."""


def split(text: str) -> tuple[str, str]:
    """Return the head of a document and what follows it.

    Raises:
        FrontmatterFault: It has no head, or one that is too long.
    """
    found = _HEAD.match(text, 0, MAX_HEAD + _AROUND)
    if found is None:
        if len(text) > MAX_HEAD and text.removeprefix("\ufeff").startswith("---"):
            raise FrontmatterFault(f"does not end within {MAX_HEAD} characters")
        raise FrontmatterFault("is not there: no lines of --- around it at the top")
    if len(found[1]) > MAX_HEAD:
        raise FrontmatterFault(f"does not end within {MAX_HEAD} characters")
    return found[1], text[found.end() :]


def load_yaml() -> ModuleType:
    """Return PyYAML.

    Raises:
        LocalProtocolError: It is not installed.
    """
    try:
        import yaml
    except ImportError as error:
        raise LocalProtocolError(
            "loading a skill needs PyYAML: pip install PyYAML"
        ) from error
    return yaml


def difference(head: str, said: Mapping[str, Any]) -> str | None:
    """Return the field in which a head is not what was said of it; ``None``: in none.

    What is null on one side may be absent on the other.

    Raises:
        FrontmatterFault: The head cannot be read.
        LocalProtocolError: PyYAML is not installed.
    """
    yaml = load_yaml()
    try:
        root = yaml.compose(head, _bounded_loader())
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or "unreadable"
        raise FrontmatterFault(f"is no YAML: {excerpt(problem)}") from error
    if not isinstance(root, yaml.MappingNode):
        raise FrontmatterFault("is no mapping")
    return _difference(root, said, "")


@functools.cache
def _bounded_loader() -> type[yaml.SafeLoader]:
    """Return the safe loader that counts while it reads."""
    import yaml

    class BoundedLoader(yaml.SafeLoader):
        nodes = depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.nodes += 1
            if self.nodes > MAX_NODES:
                raise FrontmatterFault(f"has more than {MAX_NODES} keys and values")
            if self.depth >= MAX_DEPTH:
                raise FrontmatterFault(f"is nested more than {MAX_DEPTH} levels deep")
            if self.check_event(yaml.AliasEvent):
                raise FrontmatterFault("has an alias, which is not allowed")
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    return BoundedLoader


# What was read, held against JSON...


def _difference(node: Any, value: Any, path: str) -> str | None:
    kind = node.tag.removeprefix(_YAML)
    if node.id == "mapping" and kind == "map":
        if not isinstance(value, dict):
            return path
        return _difference_of_members(_members(node), value, path)
    if node.id == "sequence" and kind == "seq":
        if not isinstance(value, list) or len(value) != len(node.value):
            return path
        return _first(
            _difference(inner, value[at], f"{path}[{at}]")
            for at, inner in enumerate(node.value)
        )
    if node.id != "scalar":
        raise FrontmatterFault(f"has a value of the type {excerpt(node.tag)}")
    same = any(_is_same(reading, value) for reading in _readings(node, kind))
    return None if same else path


def _first(found: Any) -> str | None:
    return next((path for path in found if path is not None), None)


def _difference_of_members(
    members: Mapping[str, Any], value: Mapping[str, Any], path: str
) -> str | None:
    for key in (*members, *(key for key in value if key not in members)):
        where = f"{path}.{key}" if path else key
        node, said = members.get(key), value.get(key)
        if node is None:
            if said is not None:
                return where
        elif (found := _difference(node, said, where)) is not None:
            return found
    return None


def _members(node: Any) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, inner in node.value:
        if key.id != "scalar":
            raise FrontmatterFault("has a key that is no text")
        if key.tag == f"{_YAML}merge":
            raise FrontmatterFault("has a merge, which is not allowed")
        if key.value in members:
            raise FrontmatterFault(f"has the key {excerpt(key.value)} twice")
        members[key.value] = inner
    return members


def _is_same(reading: Any, value: Any) -> bool:
    if isinstance(reading, bool) or isinstance(value, bool):
        return reading is value
    if isinstance(reading, (int, float)) and isinstance(value, (int, float)):
        return reading == value
    return type(reading) is type(value) and bool(reading == value)


def _readings(node: Any, kind: str) -> list[Any]:
    """Return what a scalar is to YAML 1.1 and to YAML 1.2."""
    found = [_first_reading(node, kind)]
    if node.style is None:
        found.append(_core_reading(node.value))
    return found


def _first_reading(node: Any, kind: str) -> Any:
    if kind in _TEXTS:
        return node.value
    if kind == "null":
        return None
    if kind == "bool":
        return node.value.lower() in _TRUE
    if kind not in {"int", "float"}:
        raise FrontmatterFault(f"has a value of the type {excerpt(node.tag)}")
    constructor = load_yaml().constructor.SafeConstructor()
    try:
        return getattr(constructor, f"construct_yaml_{kind}")(node)
    except (ValueError, LookupError):  # `0b_`, digits without end, an empty `!!int`
        return _ABSENT


_CORE_WORDS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_CORE_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,300}")
_CORE_PREFIXED: Final = re.compile(r"0o[0-7]{1,300}|0x[0-9a-fA-F]{1,300}")
_CORE_FLOAT: Final = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
)


def _core_reading(text: str) -> Any:
    """Return what a plain scalar is to YAML 1.2 (its "Core Schema", 10.3.2)."""
    if text in _CORE_WORDS:
        return _CORE_WORDS[text]
    if _CORE_INTEGER.fullmatch(text):
        return int(text)
    if _CORE_PREFIXED.fullmatch(text):
        return int(text, 0)
    if _CORE_FLOAT.fullmatch(text):
        return float(text)
    return text
