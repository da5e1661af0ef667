"""Skills: folders of instructions and files, served by the rules of SEP-2640.

All files are read once, in the constructor, so that each file matches its digest for as
long as the server runs. The constructor also checks the rules of clients: a skill that
a client would refuse is an error.

The files are resources, in every revision; the methods that list skills and folders are
for 2026-07-28.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote

import attrs

from mcpwire.errors import InvalidParams
from mcpwire.limits import check_count
from mcpwire.protocol.methods import SKILLS
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
from mcpwire.server.components import check_page_size, page_of
from mcpwire.server.request import EXCERPT, RequestContext, member_of
from mcpwire.server.resources import Folder, file_of
from mcpwire.types import Skill, decode
from mcpwire.wire.uri_template import is_uri

if TYPE_CHECKING:
    import os

    from mcpwire.server.authoring.results import File
    from mcpwire.server.dispatcher import Handler
    from mcpwire.server.server import Server

Files: TypeAlias = "str | os.PathLike[str] | Mapping[str, str | bytes]"
"""A folder, or its contents by path."""

Source: TypeAlias = "str | os.PathLike[str] | Mapping[str, Files]"
"""A folder of skills or of one skill, or skills by their path."""

DOCUMENT: Final = "SKILL.md"

PATH_CHARACTERS: Final = "/!$&'()*+,;=:@"
"""The characters of URI paths that are not escaped, besides letters and digits."""

_RESERVED: Final = "io.modelcontextprotocol/"


@attrs.frozen(eq=False)
class ServedSkill:
    """One checked skill."""

    path: str
    """The path of its folder, relative to the folder of all skills."""

    files: Mapping[str, bytes]
    """The contents of its files, by path within the skill."""

    entry: Mapping[str, Any]
    """Its entry in `skills/list`."""


def read_skills(source: Source, base: str) -> list[ServedSkill]:
    """Return the skills of a source, by their path."""
    sources = sorted(_iter_skills(source), key=itemgetter(0))
    if not sources:
        raise ValueError(f"found no skill in {source!r}: no folder has a {DOCUMENT}")
    skills = [_build_skill(base, path, files) for path, files in sources]
    names: dict[str, str] = {}
    for skill in skills:
        other = names.setdefault(skill.path.rpartition("/")[2], skill.path)
        if other != skill.path:
            raise ValueError(f"two skills have one name: {other!r}, {skill.path!r}")
    return skills


# Reading of sources


def _iter_skills(source: Source) -> Iterator[tuple[str, Mapping[str, bytes]]]:
    """Yield the path of each skill, and its files by path."""
    if isinstance(source, Mapping):
        for path, files in source.items():
            yield path.strip("/"), _read_files(files)
        return
    root = Path(source)
    if (root / DOCUMENT).is_file():
        yield root.resolve().name, _read_files(root)
        return
    folder = Folder(root)
    documents = [PurePosixPath(path) for path in folder.walk()]
    skill_folders = {path.parent for path in documents if path.name == DOCUMENT}
    for skill_folder in skill_folders:
        # A skill inside another skill is part of the outer one.
        if skill_folders.isdisjoint(skill_folder.parents):
            yield str(skill_folder), _read_files(root / skill_folder)


def _read_files(files: Files) -> dict[str, bytes]:
    if isinstance(files, Mapping):
        return {
            path: data.encode() if isinstance(data, str) else bytes(data)
            for path, data in files.items()
        }
    folder = Folder(files, max_bytes=MAX_BYTES)
    contents = {path: folder.read_bytes(path) for path in folder.walk()}
    return {path: data for path, data in contents.items() if data is not None}


# Entries of skills


def _build_skill(base: str, path: str, files: Mapping[str, bytes]) -> ServedSkill:
    """Return a skill; raise `ValueError` if it breaks a rule."""
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
            "resources": [
                {
                    "uri": file_uri,
                    "digest": f"sha256:{sha256(files[name]).hexdigest()}",
                    "size": len(files[name]),
                }
                for file_uri, name in by_uri.items()
            ],
        }
        skill = decode(Skill, entry)
        check_entry(skill)
        for file_uri, name in by_uri.items():
            check_file(skill, file_uri, files[name])
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
    return ServedSkill(path, files, entry)


DIRECTORY: Final = "inode/directory"


class Skills:
    """The extension `io.modelcontextprotocol/skills`, for ``extensions=[...]``.

    ::

        Server("demo", extensions=[Skills("skills/")])

    Args:
        source: A folder of skills or of one, or a mapping of skills by their path
            (``{"pdf-processing": "skills/pdf"}``, or the files themselves as in
            ``{"pdf-processing": {"SKILL.md": "---..."}}``). Names in folders that start
            with a dot are skipped.
        uri: The prefix of all URIs.
        page_size: How many skills, or entries of a folder, one page has.
        ttl_ms: How long clients may cache the results, in milliseconds.

    Attributes:
        id: The extension's identifier.
        settings: The settings that the server declares for it.

    Raises:
        ValueError: A skill breaks a rule; the message names both.
        LocalProtocolError: PyYAML is not installed.
    """

    id: str = SKILLS

    def __init__(
        self,
        source: Source,
        *,
        uri: str = "skill://",
        page_size: int | None = None,
        ttl_ms: int = 0,
    ) -> None:
        if not is_uri(f"{uri}x") or not uri.endswith("/"):
            raise ValueError(f"uri must begin a URI and end with a slash, got {uri!r}")
        self.settings: dict[str, Any] = {"directoryRead": True}
        self._base = uri
        self._page_size = check_page_size(page_size)
        self._ttl_ms = check_count(ttl_ms, "ttl_ms", minimum=0)
        self._skills = {s.entry["uri"]: s for s in read_skills(source, uri)}
        self._files = {
            f"{skill.path}/{name}": data
            for skill in self._skills.values()
            for name, data in skill.files.items()
        }
        self._folders = self._read_folders()

    def __repr__(self) -> str:
        return f"<Skills {', '.join(skill.path for skill in self._skills.values())}>"

    def _read_folders(self) -> dict[str, list[dict[str, Any]]]:
        """Return the entries of each folder of each skill, by the folder's URI."""
        folders: dict[str, dict[str, dict[str, Any]]] = {}
        for skill in self._skills.values():
            for name, data in skill.files.items():
                path = f"{skill.path}/{name}"
                child = self._directory_entry(path)
                child |= {"mimeType": file_of(name, data).mime_type, "size": len(data)}
                # Up to the folder of the skill; the folders above are not served.
                while len(path) > len(skill.path):
                    path = path.rpartition("/")[0]
                    folders.setdefault(self._uri(path), {})[child["uri"]] = child
                    child = {**self._directory_entry(path), "mimeType": DIRECTORY}
        return {
            uri: sorted(children.values(), key=itemgetter("uri"))
            for uri, children in folders.items()
        }

    def _uri(self, path: str) -> str:
        return self._base + quote(path, safe=PATH_CHARACTERS)

    def _directory_entry(self, path: str) -> dict[str, Any]:
        return {"uri": self._uri(path), "name": path.rpartition("/")[2]}

    # Methods of `Extension`

    def attach(self, server: Server) -> None:
        """Register the files as resources: each `SKILL.md`, and a template for all."""
        register: Any = server.add_resource  # accepts more arguments than it declares
        hints = {"ttl_ms": self._ttl_ms, "cache_scope": "public"}
        for uri, skill in self._skills.items():
            data = skill.files[DOCUMENT]
            register(
                uri,
                data.decode(),
                name=skill.entry["frontmatter"]["name"],
                description=skill.entry["frontmatter"]["description"],
                mime_type="text/markdown",
                size=len(data),
                **hints,
            )
        register(
            self._base + "{path*}",
            self._read,
            is_raw=True,
            name="skill-files",
            description="The files of the skills, by their path.",
            completers={"path": self._suggest},
            **hints,
        )

    def methods(self) -> dict[str, Handler]:
        """Return the handlers by method."""
        return {
            "skills/list": self.list_skills,
            "skills/get": self.get_skill,
            "resources/directory/read": self.read_directory,
        }

    def _read(self, path: str) -> File | None:
        data = self._files.get(path)
        return None if data is None else file_of(path, data)

    def _suggest(self, typed: str) -> list[str]:
        return [path for path in self._files if path.startswith(typed)]

    def list_skills(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Handle ``skills/list``."""
        page, following = page_of(
            [skill.entry for skill in self._skills.values()],
            params.get("cursor"),
            size=self._page_size,
            name="skills",
            key=itemgetter("uri"),
        )
        return {"skills": page, **following, **self._hints(request)}

    def get_skill(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Handle ``skills/get``."""
        uri = member_of(params, "uri", str)
        skill = self._skills.get(uri)
        if skill is None:
            raise _unknown("skill", uri)
        return {"skill": skill.entry, **self._hints(request)}

    def read_directory(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Handle ``resources/directory/read``: list one folder."""
        uri = member_of(params, "uri", str)
        children = self._folders.get(uri.removesuffix("/"))
        if children is None:
            raise _unknown("directory", uri)
        page, following = page_of(
            children,
            params.get("cursor"),
            size=self._page_size,
            name=f"directory {uri.removesuffix('/')}",
            key=itemgetter("uri"),
        )
        # Some clients require cache hints here, as in lists of resources.
        return {"resources": page, **following, **self._hints(request)}

    def _hints(self, request: RequestContext) -> dict[str, Any]:
        scope = "public" if request.info.principal is None else "private"
        return {"ttlMs": self._ttl_ms, "cacheScope": scope}


def _unknown(noun: str, uri: str) -> InvalidParams:
    return InvalidParams(f"unknown {noun} {uri[:EXCERPT]!r}", data={"uri": uri})
