"""Skills read from folders or mappings, and held to the rules that clients know.

Everything is read once. What a client would refuse raises here.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote

import attrs

from mcpwire.protocol.skills import (
    MAX_BYTES,
    FrontmatterError,
    SkillError,
    check_entry,
    check_file,
    load_yaml,
    read_frontmatter,
    split_document,
)
from mcpwire.server.directories import Folder
from mcpwire.types import Skill, decode

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

__all__ = ["DOCUMENT", "PATH_CHARACTERS", "ReadSkill", "Source", "read_skills"]

Files: TypeAlias = "str | os.PathLike[str] | Mapping[str, str | bytes]"
"""A folder, or what is in it: contents by path."""

Source: TypeAlias = "str | os.PathLike[str] | Mapping[str, Files]"
"""A folder of skills or of one skill, or skills by their path."""

DOCUMENT: Final = "SKILL.md"

PATH_CHARACTERS: Final = "/!$&'()*+,;=:@"
"""What stands in paths of URIs as it is, beside letters and digits."""

_RESERVED: Final = "io.modelcontextprotocol/"


@attrs.frozen(eq=False)
class ReadSkill:
    """One skill, checked."""

    key: str
    """The URI of its `SKILL.md`."""

    path: str
    """Its folder, from that of all skills."""

    files: Mapping[str, bytes]
    """What its files are, by their path within it."""

    entry: Mapping[str, Any]
    """What is said of it."""


def read_skills(source: Source, base: str) -> list[ReadSkill]:
    """Return the skills of a source, by their path.

    Args:
        source: Where they are.
        base: What their URIs begin with.

    Raises:
        ValueError: One breaks a rule; names it and the rule.
        LocalProtocolError: PyYAML is not installed.
    """
    found = sorted(_found(source), key=itemgetter(0))
    if not found:
        raise ValueError(f"there is no skill in {source!r}: none has a {DOCUMENT}")
    skills = [_skill(base, path, files) for path, files in found]
    _check_names(skills)
    return skills


# Where they come from...


def _found(source: Source) -> Iterator[tuple[str, Mapping[str, bytes]]]:
    """Iterate over the skills: their path, and their files by their path."""
    if isinstance(source, Mapping):
        for path, files in source.items():
            yield path.strip("/"), _files(files)
        return
    root = Path(source)
    if (root / DOCUMENT).is_file():
        yield root.resolve().name, _files(root)
        return
    folder = Folder(root)
    documents = [PurePosixPath(path) for path in folder.walk()]
    homes = {path.parent for path in documents if path.name == DOCUMENT}
    for home in homes:
        # A skill within another is a file of that.
        if homes.isdisjoint(home.parents):
            yield str(home), _files(root / home)


def _files(files: Files) -> dict[str, bytes]:
    if isinstance(files, Mapping):
        return {
            path: data.encode() if isinstance(data, str) else bytes(data)
            for path, data in files.items()
        }
    folder = Folder(files, max_bytes=MAX_BYTES)
    read = {path: folder.read_bytes(path) for path in folder.walk()}
    return {path: data for path, data in read.items() if data is not None}


# What is said of them...


def _skill(base: str, path: str, files: Mapping[str, bytes]) -> ReadSkill:
    """Make a skill and hold it to all rules.

    Raises:
        ValueError: It breaks one.
        LocalProtocolError: PyYAML is not installed.
    """
    load_yaml()
    root = base + quote(path, safe=PATH_CHARACTERS)
    by_uri = {f"{root}/{quote(name, safe=PATH_CHARACTERS)}": name for name in files}
    uri = f"{root}/{DOCUMENT}"
    if DOCUMENT not in files:
        raise ValueError(f"the skill {path!r} has no {DOCUMENT}")
    try:
        entry = {
            "uri": uri,
            "frontmatter": read_frontmatter(split_document(files[DOCUMENT])[0]),
            "resources": [_file(each, files[name]) for each, name in by_uri.items()],
        }
        skill = decode(Skill, entry)
        check_entry(skill)
        for each, name in by_uri.items():
            check_file(skill, each, files[name])
    except SkillError as error:
        raise ValueError(f"the skill {path!r}: {error}") from error
    except FrontmatterError as error:
        problem = f"the head of its {DOCUMENT} {error}"
        raise ValueError(f"the skill {path!r}: {problem}") from error
    metadata = skill.frontmatter.get("metadata")
    for key in metadata if isinstance(metadata, dict) else ():
        if key.startswith(_RESERVED):
            raise ValueError(
                f"the skill {path!r}: its metadata has {key!r}, and what begins with "
                f"{_RESERVED!r} is reserved"
            )
    return ReadSkill(uri, path, files, entry)


def _file(uri: str, data: bytes) -> dict[str, Any]:
    digest = f"sha256:{sha256(data).hexdigest()}"
    return {"uri": uri, "digest": digest, "size": len(data)}


def _check_names(skills: Iterable[ReadSkill]) -> None:
    names: dict[str, str] = {}
    for skill in skills:
        other = names.setdefault(skill.path.rpartition("/")[2], skill.path)
        if other != skill.path:
            raise ValueError(f"two skills have one name: {other!r}, {skill.path!r}")
