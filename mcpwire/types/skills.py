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
    """The size in bytes, before any encoding."""


class Skill(WithMeta):
    """A server's description of a skill; it is verified when the skill is loaded."""

    uri: str
    """The URI of `SKILL.md`; the other files are in the same folder or below it."""

    frontmatter: JsonObject
    """The YAML front matter of `SKILL.md` as JSON."""

    resources: Literal["dynamic"] | list[SkillResource]
    """All files of the skill, or ``dynamic`` if they are not known in advance."""

    @property
    def name(self) -> str:
        """The name of the skill; empty if the server gave none."""
        return self._text("name")

    @property
    def description(self) -> str:
        """The purpose of the skill; empty if the server gave none."""
        return self._text("description")

    @property
    def is_dynamic(self) -> bool:
        """Whether the files are not known in advance and cannot be verified."""
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
    """One page of the entries of a directory, without those of subdirectories."""

    resources: list[Resource]
    """The entries; directories have the MIME type ``inode/directory``."""

    next_cursor: str | None = None
    """The cursor of the next page; any string, even an empty one, means more pages."""
