"""Verification of a skill's files against the server's description (SEP-2640).

The first fault raises. A caller that reads files calls `check_entry` first, then for
each file `find_file_uri`, reads the file, and calls `check_file`.

The frontmatter of a `SKILL.md` also comes from the peer. PyYAML's safe loader parses
it, with limits and without aliases, which can expand a short text exponentially.
"""

from __future__ import annotations

import functools
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias
from urllib.parse import quote, unquote

from mcpwire._package import import_optional
from mcpwire.errors import LocalProtocolError, RemoteProtocolError, excerpt
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    import yaml

    from mcpwire.types import ReadResourceResult, Skill, SkillResource

MAX_FILES: Final = 512
"""Maximum number of files of one skill, `SKILL.md` included."""

MAX_BYTES: Final = 16 * 1024 * 1024
"""Maximum bytes of all files of one skill."""

MAX_FRONTMATTER: Final = 64 * 1024
"""Maximum characters of a frontmatter; usually it has a few hundred."""

MAX_NODES: Final = 1_000
"""Maximum keys and values of a frontmatter: each takes PyYAML about 0.1 ms."""

MAX_DEPTH: Final = 32
"""Maximum nesting of mappings and lists."""

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
"""The rule that a skill breaks."""

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
_MAX_DELIMITER_CHARS: Final = 64
"""Maximum characters of the delimiters around a frontmatter."""


class SkillError(RemoteProtocolError):
    """A skill does not match the server's description and must not be used.

    Attributes:
        skill: The URI of the skill.
        uri: The URI of the faulty file, or of the skill.
        rule: The broken rule: ``name``, ``description``, ``uri``, ``files``, ``format``
            or ``limit`` in the description of the server; ``contents``, ``size``,
            ``digest`` or ``frontmatter`` of a file that was read.
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


# --- the description


def check_entry(skill: Skill) -> None:
    """Check the description of a skill, before any of its files is read."""
    root = _skill_folder(skill)
    name = skill.name
    if not _NAME.fullmatch(name):
        _refuse(skill, "name", f"{excerpt(name)} is not a name of a skill")
    if root.rpartition("/")[2] != name:
        _refuse(skill, "name", f"its folder is not called {excerpt(name)}")
    if not skill.description.strip():
        _refuse(skill, "description", "its frontmatter has no description")
    if isinstance(skill.resources, list):
        _check_files(skill, root, skill.resources)


def _skill_folder(skill: Skill) -> str:
    """Return the URI of the folder of a skill."""
    root, slash, file = skill.uri.rpartition("/")
    if not slash or file != _FILE or _safe_path(skill.uri) is None:
        _refuse(skill, "uri", f"its URI does not name a {_FILE} within a folder")
    return root


def _safe_path(uri: str) -> str | None:
    """Return the decoded path of a URI with its host; ``None`` if unsafe or ambiguous.

    Hosts may write files at the paths of their URIs, so no path may leave its folder.
    """
    match = _URI.fullmatch(uri)
    if match is None:
        return None
    segments = [unquote(segment) for segment in match[1].split("/")]
    for segment in segments:
        if segment in {"", ".", ".."} or re.search(r"[/\\\x00-\x1f\x7f]", segment):
            return None
    return "/".join(segments)


def _check_files(skill: Skill, root: str, files: list[SkillResource]) -> None:
    if len(files) > MAX_FILES:
        _refuse(skill, "limit", f"it has {len(files)} files, above {MAX_FILES}")
    seen: set[str] = set()
    for file in files:
        path = _safe_path(file.uri)
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


# --- the files


def find_file_uri(skill: Skill, path: str) -> str:
    """Return the URI of a file of a skill, given by its path or URI."""
    root = _skill_folder(skill)
    relative = path.removeprefix("./")
    plain = path if "://" in path else f"{root}/{relative}"
    candidates = (plain, quote(plain, safe=_PATH_CHARACTERS))
    for uri in candidates:
        if isinstance(skill.resources, list):
            if any(file.uri == uri for file in skill.resources):
                return uri
        elif uri.startswith(f"{root}/") and _safe_path(uri) is not None:
            return uri
    # SEP-2640: the verification of a file that is not listed fails.
    _refuse(skill, "files", f"the skill {excerpt(skill.name)} has no such file", path)


def file_bytes(skill: Skill, uri: str, result: ReadResourceResult) -> bytes:
    """Return the bytes of a file from the result of `resources/read`."""
    if len(result.contents) != 1:
        problem = f"reading it gave {len(result.contents)} contents, not one"
        _refuse(skill, "contents", problem, uri)
    return result.bytes


def check_file(skill: Skill, uri: str, data: bytes) -> None:
    """Check a file of a skill against the description of the server.

    The files of a dynamic skill have no digest; only the frontmatter of its `SKILL.md`
    can be compared.
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
        field = find_difference(read_frontmatter(head), skill.frontmatter)
    except FrontmatterError as error:
        _refuse(skill, "frontmatter", f"its frontmatter {error}")
    if field is not None:
        problem = f"its frontmatter has another {excerpt(field)} than the server said"
        _refuse(skill, "frontmatter", problem)


# --- the frontmatter


class FrontmatterError(Exception):
    """The frontmatter is malformed; the message is a predicate, such as "is ..."."""


def split_document(data: bytes) -> tuple[str, str]:
    """Return the frontmatter of a `SKILL.md`, and the text after it."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise FrontmatterError(f"is not UTF-8: {error.reason}") from error
    match = _HEAD.match(text, 0, MAX_FRONTMATTER + _MAX_DELIMITER_CHARS)
    is_long = len(text) > MAX_FRONTMATTER and text.removeprefix("\ufeff").startswith(
        "---"
    )
    if len(match[1]) > MAX_FRONTMATTER if match else is_long:
        raise FrontmatterError(f"does not end within {MAX_FRONTMATTER} characters")
    if match is None:
        raise FrontmatterError("is not there: no lines of --- around it at the top")
    return match[1], text[match.end() :]


def load_yaml() -> Any:
    """Import and return PyYAML."""
    return import_optional("yaml", "PyYAML", "loading a skill")


def read_frontmatter(head: str) -> dict[str, Any]:
    """Parse a frontmatter to JSON values; dates are strings."""
    yaml = load_yaml()
    try:
        data = _bounded_loader()(head).get_single_data()
        encode(data)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or "unreadable"
        raise FrontmatterError(f"is not valid YAML: {problem[:100]!r}") from error
    # Such as `0b_`, too many digits, an empty `!!int`, a too large float in base 60;
    # `.nan`, `!!set`, a key `1`.
    except (LookupError, OverflowError, ValueError, LocalProtocolError) as error:
        problem = str(error)[:100]
        raise FrontmatterError(f"has a value that JSON has not: {problem!r}") from error
    if not isinstance(data, dict):
        raise FrontmatterError("is not a mapping")
    return data


@functools.cache
def _bounded_loader() -> type[yaml.SafeLoader]:
    """Return a safe loader with limits."""
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


def find_difference(actual: Any, declared: Any, path: str = "") -> str | None:
    """Return the path of the first difference between two values, or ``None``.

    A null member equals an absent one.
    """
    pairs: list[tuple[str, Any, Any]] = []
    if isinstance(actual, dict) and isinstance(declared, dict):
        for key in {**actual, **declared}:
            inner_path = f"{path}.{key}" if path else key
            pairs.append((inner_path, actual.get(key), declared.get(key)))
    elif (
        isinstance(actual, list)
        and isinstance(declared, list)
        and len(actual) == len(declared)
    ):
        for index, (left, right) in enumerate(zip(actual, declared, strict=True)):
            pairs.append((f"{path}[{index}]", left, right))
    elif (
        isinstance(actual, bool) is not isinstance(declared, bool) or actual != declared
    ):
        return path
    fields = (
        find_difference(left, right, inner_path) for inner_path, left, right in pairs
    )
    return next((field for field in fields if field is not None), None)
