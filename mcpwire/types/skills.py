"""Skills: folders of instructions and files that a server offers (SEP-2640)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from mcpwire.types._base import (
    CacheableResult,
    ListResult,
    RequestParams,
    Result,
    WithMeta,
)

if TYPE_CHECKING:
    from mcpwire.types._base import JsonObject
    from mcpwire.types.resources import Resource


class SkillResource(WithMeta):
    """One file of a skill, with its size and digest."""

    uri: str
    digest: str
    """``sha256:`` and 64 lower-case hexadecimal digits."""

    size: int
    """In bytes, before any encoding."""


class Skill(WithMeta):
    """A server's description of a skill; loading it checks what it says."""

    uri: str
    """The URI of its `SKILL.md`; its other files lie beside and below that."""

    frontmatter: JsonObject
    """The YAML at the head of its `SKILL.md`, as JSON."""

    resources: Literal["dynamic"] | list[SkillResource]
    """All its files, or ``dynamic`` where they are not known beforehand."""

    @property
    def name(self) -> str:
        """Its name; empty where the server gave none."""
        return self._text("name")

    @property
    def description(self) -> str:
        """What it is for; empty where the server did not say."""
        return self._text("description")

    @property
    def is_dynamic(self) -> bool:
        """Whether its files are not known beforehand, so that none can be verified."""
        return self.resources == "dynamic"

    def _text(self, key: str) -> str:
        value = self.frontmatter.get(key)
        return value if isinstance(value, str) else ""


class ListSkillsResult(ListResult):
    """One page of a server's skills."""

    skills: list[Skill]


class GetSkillRequestParams(RequestParams):
    """Parameters of `skills/get`."""

    uri: str


class GetSkillResult(CacheableResult):
    """The result of `skills/get`."""

    skill: Skill


class ReadResourceDirectoryRequestParams(RequestParams):
    """Parameters of `resources/directory/read`."""

    uri: str
    cursor: str | None = None


class ReadResourceDirectoryResult(Result):
    """One page of the entries of a directory, subdirectories not opened."""

    resources: list[Resource]
    """Those that are directories have the MIME type ``inode/directory``."""

    next_cursor: str | None = None
    """Where the next page starts; any string, even an empty one, means there is one."""
