"""What a server says of a skill, and whether its files are that (SEP-2640).

Pure: an entry is checked before anything is read, each file before it is used, and the
first thing that is wrong ends it. Who reads files asks `check_entry` first, then for
each file `locate`, reads it, and hands what came to `check_file`.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Literal, NoReturn, TypeAlias
from urllib.parse import quote, unquote

from mcpwire._text import excerpt
from mcpwire.errors import RemoteProtocolError
from mcpwire.protocol import frontmatter

if TYPE_CHECKING:
    from mcpwire.types import ReadResourceResult, Skill, SkillResource

__all__ = [
    "MAX_BYTES",
    "MAX_FILES",
    "SkillError",
    "SkillRule",
    "check_entry",
    "check_file",
    "file_bytes",
    "locate",
    "split_document",
]

MAX_FILES: Final = 512
"""Files of one skill, its `SKILL.md` included."""

MAX_BYTES: Final = 16 * 1024 * 1024
"""Bytes of all files of one skill."""

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


# The entry...


def check_entry(skill: Skill) -> None:
    """Check what a server says of a skill, before anything of it is read.

    Raises:
        SkillError: It breaks a rule.
    """
    root = _root(skill)
    name = skill.name
    if not _NAME.fullmatch(name):
        _refuse(skill, "name", f"{excerpt(name)} is no name for a skill")
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
        _refuse(skill, "uri", f"its URI is none of a {_FILE} within a folder")
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
            _refuse(skill, "files", "it is no file within the skill", file.uri)
        if path in seen:
            _refuse(skill, "files", "it is named twice", file.uri)
        seen.add(path)
        if not _DIGEST.fullmatch(file.digest):
            problem = f"its digest is no SHA-256: {excerpt(file.digest)}"
            _refuse(skill, "format", problem, file.uri)
        if file.size < 0:
            _refuse(skill, "format", f"its size is {file.size}", file.uri)
    if all(file.uri != skill.uri for file in files):
        _refuse(skill, "files", f"its {_FILE} is not among its files")
    total = sum(file.size for file in files)
    if total > MAX_BYTES:
        _refuse(skill, "limit", f"its files have {total} bytes, above {MAX_BYTES}")


# Its files...


def locate(skill: Skill, path: str) -> str:
    """Return the URI of one file of a skill.

    Args:
        skill: The skill, whose entry has been checked.
        path: The file's URI, or its path within the skill as its `SKILL.md` has it.

    Raises:
        SkillError: The skill has no such file. SEP-2640 has what no entry lists fail
            its verification: there is nothing that it could be held against.
    """
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
    _refuse(skill, "files", f"the skill {excerpt(skill.name)} has no such file", path)


def file_bytes(skill: Skill, uri: str, result: ReadResourceResult) -> bytes:
    """Return the bytes of a file that was read.

    Raises:
        SkillError: What was read is not one file.
        InvalidMessage: Its bytes are no valid Base64.
    """
    if len(result.contents) != 1:
        problem = f"reading it gave {len(result.contents)} contents, not one"
        _refuse(skill, "contents", problem, uri)
    return result.bytes


def check_file(skill: Skill, uri: str, data: bytes) -> None:
    """Check a file of a skill against what the server said of it.

    The files of a dynamic skill have no digest; of them only `SKILL.md` says something
    that can be compared.

    Raises:
        SkillError: Its size, its digest or its frontmatter is another, or it is beyond
            the limit.
        LocalProtocolError: PyYAML is not installed.
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
        head, _ = frontmatter.split(data.decode())
        field = frontmatter.difference(head, skill.frontmatter)
    except UnicodeDecodeError as error:
        raise SkillError(
            "it is not UTF-8", skill=skill.uri, uri=skill.uri, rule="frontmatter"
        ) from error
    except frontmatter.FrontmatterFault as fault:
        raise SkillError(
            f"its frontmatter {fault}",
            skill=skill.uri,
            uri=skill.uri,
            rule="frontmatter",
        ) from fault
    if field is not None:
        problem = f"its frontmatter has another {excerpt(field)} than the server said"
        _refuse(skill, "frontmatter", problem)


def split_document(data: bytes) -> tuple[str, str]:
    """Return the frontmatter of a checked `SKILL.md`, and what follows it."""
    return frontmatter.split(data.decode())
