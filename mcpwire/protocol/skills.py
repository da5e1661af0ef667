"""Check a skill's files against what its server says of it (SEP-2640); pure.

The first fault raises. A reader of files calls `check_entry` first, then for each file
`locate`, reads it, and calls `check_file`.

The frontmatter of a `SKILL.md` comes from the peer, too. PyYAML's safe loader reads it,
within bounds and without aliases, by which a short text stands for an endless one.
"""

from __future__ import annotations

import functools
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias
from urllib.parse import quote, unquote

from mcpwire._text import excerpt
from mcpwire.errors import LocalProtocolError, RemoteProtocolError
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from types import ModuleType

    import yaml

    from mcpwire.types import ReadResourceResult, Skill, SkillResource

__all__ = [
    "MAX_BYTES",
    "MAX_FILES",
    "FrontmatterError",
    "SkillError",
    "SkillRule",
    "check_entry",
    "check_file",
    "differing_field",
    "file_bytes",
    "load_yaml",
    "locate",
    "read_frontmatter",
    "split_document",
]

MAX_FILES: Final = 512
"""Files of one skill, its `SKILL.md` included."""

MAX_BYTES: Final = 16 * 1024 * 1024
"""Bytes of all files of one skill."""

MAX_HEAD: Final = 64 * 1024
"""Characters of a frontmatter; one that describes a skill has some hundreds."""

MAX_NODES: Final = 1_000
"""Keys and values of a frontmatter: each costs PyYAML some tenth of a millisecond."""

MAX_DEPTH: Final = 32
"""Mappings and lists within each other."""

SkillRule: TypeAlias = Literal[
    "name",
    "description",
    "uri",
    "files",
    "format",
    "limit",
    "contents",
    "size",
    "digest",
    "frontmatter",
]
"""Which rule a skill breaks."""

_FILE: Final = "SKILL.md"
# The Agent Skills specification, "name".
_NAME: Final = re.compile(r"(?!.*--)[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([!$-;=@-Z_a-z~]+)", re.ASCII)
_PATH_CHARACTERS: Final = "/%:@!$&'()*+,;=~"

_HEAD: Final = re.compile(
    r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_YAML: Final = "tag:yaml.org,2002:"
_AROUND: Final = 64
"""How much longer than the head its delimiters may be."""


class SkillError(RemoteProtocolError):
    """A skill is not what its server says of it; nothing of it is to be used.

    Attributes:
        skill: The URI of the skill.
        uri: The file that it is about, or the skill's own URI.
        rule: What is wrong: ``name``, ``description``, ``uri``, ``files``, ``format``
            or ``limit`` of what the server says; ``contents``, ``size``, ``digest`` or
            ``frontmatter`` of a file that was read.
    """

    def __init__(self, problem: str, *, skill: str, uri: str, rule: SkillRule) -> None:
        super().__init__(f"{excerpt(uri)} is refused: {problem}")
        self.skill = skill
        self.uri = uri
        self.rule = rule


def _refuse(
    skill: Skill, rule: SkillRule, problem: str, uri: str | None = None
) -> NoReturn:
    raise SkillError(
        problem, skill=skill.uri, uri=skill.uri if uri is None else uri, rule=rule
    )


# --- the entry


def check_entry(skill: Skill) -> None:
    """Check what a server says of a skill, before anything of it is read."""
    root = _root(skill)
    name = skill.name
    if not _NAME.fullmatch(name):
        _refuse(skill, "name", f"{excerpt(name)} is not a name of a skill")
    if root.rpartition("/")[2] != name:
        _refuse(skill, "name", f"its folder is not called {excerpt(name)}")
    if not skill.description.strip():
        _refuse(skill, "description", "its frontmatter has no description")
    if isinstance(skill.resources, list):
        _check_files(skill, root, skill.resources)


def _root(skill: Skill) -> str:
    """Return the URI of the folder that holds a skill."""
    root, slash, file = skill.uri.rpartition("/")
    if not slash or file != _FILE or _path(skill.uri) is None:
        _refuse(skill, "uri", f"its URI does not name a {_FILE} within a folder")
    return root


def _path(uri: str) -> str | None:
    """Return what follows a URI's scheme, decoded; ``None``: no two read it alike.

    A host may write files where their URIs say, so none may lead elsewhere.
    """
    found = _URI.fullmatch(uri)
    if found is None:
        return None
    segments = [unquote(segment) for segment in found[1].split("/")]
    for segment in segments:
        if segment in {"", ".", ".."} or re.search(r"[/\\\x00-\x1f\x7f]", segment):
            return None
    return "/".join(segments)


def _check_files(skill: Skill, root: str, files: list[SkillResource]) -> None:
    if len(files) > MAX_FILES:
        _refuse(skill, "limit", f"it has {len(files)} files, above {MAX_FILES}")
    seen: set[str] = set()
    for file in files:
        path = _path(file.uri)
        if path is None or not file.uri.startswith(f"{root}/"):
            _refuse(skill, "files", "it is not a file within the skill", file.uri)
        if path in seen:
            _refuse(skill, "files", "it is named twice", file.uri)
        seen.add(path)
        if not _DIGEST.fullmatch(file.digest):
            problem = f"its digest is not a SHA-256: {excerpt(file.digest)}"
            _refuse(skill, "format", problem, file.uri)
        if file.size < 0:
            _refuse(skill, "format", f"its size is {file.size}", file.uri)
    if all(file.uri != skill.uri for file in files):
        _refuse(skill, "files", f"its {_FILE} is not among its files")
    total = sum(file.size for file in files)
    if total > MAX_BYTES:
        _refuse(skill, "limit", f"its files have {total} bytes, above {MAX_BYTES}")


# --- its files


def locate(skill: Skill, path: str) -> str:
    """Return the URI of one file of a skill."""
    root = _root(skill)
    below = path.removeprefix("./")
    plain = path if "://" in path else f"{root}/{below}"
    candidates = (plain, quote(plain, safe=_PATH_CHARACTERS))
    for uri in candidates:
        if isinstance(skill.resources, list):
            if any(file.uri == uri for file in skill.resources):
                return uri
        elif uri.startswith(f"{root}/") and _path(uri) is not None:
            return uri
    # SEP-2640: what no entry lists fails its verification.
    _refuse(skill, "files", f"the skill {excerpt(skill.name)} has no such file", path)


def file_bytes(skill: Skill, uri: str, result: ReadResourceResult) -> bytes:
    """Return the bytes of a file that was read."""
    if len(result.contents) != 1:
        problem = f"reading it gave {len(result.contents)} contents, not one"
        _refuse(skill, "contents", problem, uri)
    return result.bytes


def check_file(skill: Skill, uri: str, data: bytes) -> None:
    """Check a file of a skill against what the server said of it.

    The files of a dynamic skill have no digest; of them only `SKILL.md` says something
    that can be compared.
    """
    if isinstance(skill.resources, list):
        (file,) = (file for file in skill.resources if file.uri == uri)
        if len(data) != file.size:
            problem = f"it has {len(data)} bytes, and should have {file.size}"
            _refuse(skill, "size", problem, uri)
        digest = f"sha256:{sha256(data).hexdigest()}"
        if digest != file.digest:
            problem = f"its digest is {digest}, and should be {file.digest}"
            _refuse(skill, "digest", problem, uri)
    elif len(data) > MAX_BYTES:
        problem = f"it has {len(data)} bytes, above {MAX_BYTES}"
        _refuse(skill, "limit", problem, uri)
    if uri == skill.uri:
        _check_frontmatter(skill, data)


def _check_frontmatter(skill: Skill, data: bytes) -> None:
    try:
        head, _ = split_document(data)
        field = differing_field(read_frontmatter(head), skill.frontmatter)
    except FrontmatterError as error:
        _refuse(skill, "frontmatter", f"its frontmatter {error}")
    if field is not None:
        problem = f"its frontmatter has another {excerpt(field)} than the server said"
        _refuse(skill, "frontmatter", problem)


# --- the frontmatter


class FrontmatterError(Exception):
    """A frontmatter that cannot be read; says in half a sentence why."""


def split_document(data: bytes) -> tuple[str, str]:
    """Return the frontmatter of a `SKILL.md`, and what follows it."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise FrontmatterError(f"is not UTF-8: {error.reason}") from error
    found = _HEAD.match(text, 0, MAX_HEAD + _AROUND)
    is_long = len(text) > MAX_HEAD and text.removeprefix("\ufeff").startswith("---")
    if len(found[1]) > MAX_HEAD if found else is_long:
        raise FrontmatterError(f"does not end within {MAX_HEAD} characters")
    if found is None:
        raise FrontmatterError("is not there: no lines of --- around it at the top")
    return found[1], text[found.end() :]


def load_yaml() -> ModuleType:
    """Return PyYAML."""
    try:
        import yaml
    except ImportError as error:
        raise LocalProtocolError(
            "loading a skill needs PyYAML: pip install PyYAML"
        ) from error
    return yaml


def read_frontmatter(head: str) -> dict[str, Any]:
    """Return a frontmatter as JSON has it; dates are texts."""
    yaml = load_yaml()
    try:
        data = _bounded_loader()(head).get_single_data()
        encode(data)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or "unreadable"
        raise FrontmatterError(f"is not valid YAML: {problem[:100]!r}") from error
    # Such as `0b_`, digits without end, an empty `!!int`, too large a float in base 60;
    # `.nan`, `!!set`, a key `1`.
    except (LookupError, OverflowError, ValueError, LocalProtocolError) as error:
        problem = str(error)[:100]
        raise FrontmatterError(f"has a value that JSON has not: {problem!r}") from error
    if not isinstance(data, dict):
        raise FrontmatterError("is not a mapping")
    return data


@functools.cache
def _bounded_loader() -> type[yaml.SafeLoader]:
    """Return the safe loader, with bounds."""
    import yaml

    class BoundedLoader(yaml.SafeLoader):
        nodes = depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.nodes += 1
            if self.nodes > MAX_NODES:
                raise FrontmatterError(f"has more than {MAX_NODES} keys and values")
            if self.depth >= MAX_DEPTH:
                raise FrontmatterError(f"is nested more than {MAX_DEPTH} levels deep")
            if self.check_event(yaml.AliasEvent):
                raise FrontmatterError("has an alias, which is not allowed")
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

        def construct_text(self, node: yaml.ScalarNode) -> str:
            return str(self.construct_scalar(node))

    BoundedLoader.add_constructor(f"{_YAML}timestamp", BoundedLoader.construct_text)
    return BoundedLoader


def differing_field(read: Any, said: Any, path: str = "") -> str | None:
    """Return the field in which two values differ; ``None``: in none.

    What is null on one side may be absent on the other.
    """
    pairs: list[tuple[str, Any, Any]] = []
    if isinstance(read, dict) and isinstance(said, dict):
        for key in {**read, **said}:
            below = f"{path}.{key}" if path else key
            pairs.append((below, read.get(key), said.get(key)))
    elif isinstance(read, list) and isinstance(said, list) and len(read) == len(said):
        for at, (one, other) in enumerate(zip(read, said, strict=True)):
            pairs.append((f"{path}[{at}]", one, other))
    elif isinstance(read, bool) is not isinstance(said, bool) or read != said:
        return path
    found = (differing_field(one, other, below) for below, one, other in pairs)
    return next((field for field in found if field is not None), None)
