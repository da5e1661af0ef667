# Made by `python tests/sync/generate.py --write`: change the source instead,
# mcpwire/client/skills.py
"""Skills: what a server offers, and the one that is loaded, file by file (SEP-2640).

Nothing is read before it is asked for. What is wrong raises before anything else is
read; which rule it breaks is for `mcpwire.protocol.results.skills` to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.errors import InvalidMessage, LocalProtocolError, RemoteProtocolError
from mcpwire.sync.client.lists import ListVerbs
from mcpwire.types import decode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Unpack

    from mcpwire.sync._made.requests import Requests
    from mcpwire.sync.client.base import CallOptions
    from mcpwire.types import ListSkillsResult, Resource, Skill

__all__ = ["LoadedSkill", "SkillVerbs"]

_DIRECTORY: Final = "resources/directory/read"


class SkillVerbs(ListVerbs):
    """The requests of the extension `io.modelcontextprotocol/skills`.

    They need a client that was made with it (``extensions=[...]``) and a server that
    declares it; otherwise `LocalProtocolError` says what is missing.
    """

    def list_skills(self, **options: Unpack[CallOptions]) -> list[Skill]:
        """Return all skills, all pages; none of their files is read."""
        return self._list("skills/list", options)

    def list_skills_page(
        self, cursor: str | None = None, **options: Unpack[CallOptions]
    ) -> ListSkillsResult:
        """Return one page of the skills and the cursor of the next."""
        page: ListSkillsResult = self._page("skills/list", cursor, options)
        return page

    def iter_skills(self, **options: Unpack[CallOptions]) -> Iterator[Skill]:
        """Iterate over all skills, fetching pages as they are needed."""
        return self._iterate("skills/list", options)

    def get_skill(self, uri: str, **options: Unpack[CallOptions]) -> Skill:
        """Return what the server says of one skill; none of its files is read.

        Raises:
            InvalidParams: The server has no such skill.
            InvalidMessage: The answer is about another skill.
        """
        from mcpwire.types import GetSkillResult

        raw = self._requests.request("skills/get", {"uri": uri}, options)
        skill = decode(GetSkillResult, raw).skill
        if skill.uri != uri:
            raise InvalidMessage(
                "GetSkillResult.skill.uri", expected=repr(uri), got=repr(skill.uri)
            )
        return skill

    def load_skill(
        self, skill: Skill | str, **options: Unpack[CallOptions]
    ) -> LoadedSkill:
        """Read the `SKILL.md` of a skill, and nothing else, and check it.

        Args:
            skill: As it was listed, or its URI, which is then asked for.
            options: As every request takes; each request has its own timeout.

        Raises:
            SkillError: What the server says of it breaks a rule, and nothing was read;
                or the file has another size, digest or frontmatter.
            LocalProtocolError: PyYAML is not installed; nothing was
                sent.
        """
        from mcpwire.protocol.results.frontmatter import load_yaml
        from mcpwire.protocol.results.skills import check_entry, split_document

        load_yaml()
        profile = self._connection.profile
        if "skills/get" in profile.refused:
            raise profile.refusal("skills/get")
        if isinstance(skill, str):
            skill = self.get_skill(skill, **options)
        check_entry(skill)
        document = _read(self._requests, skill, skill.uri, options)
        return LoadedSkill(self._requests, skill, split_document(document))

    def read_directory(
        self, uri: str, **options: Unpack[CallOptions]
    ) -> list[Resource]:
        """Return what a directory holds, all pages, and not what its directories hold.

        Those have the MIME type ``inode/directory``. The server has to declare
        ``directoryRead``.

        Raises:
            InvalidParams: There is no such directory.
        """
        from mcpwire.protocol.paging import PageWalk

        limit = self._connection.settings.limits.pages
        walk = PageWalk(_DIRECTORY, {"uri": uri}, limit=limit)
        found: list[Resource] = []
        while walk.params is not None:
            page = self._requests.request(_DIRECTORY, dict(walk.params), options)
            walk.receive(page)
            found += self._items(_DIRECTORY, page)
        return found


def _read(requests: Requests, skill: Skill, uri: str, options: CallOptions) -> bytes:
    """Read one file of a skill and check it."""
    from mcpwire.protocol.results.skills import check_file, file_bytes
    from mcpwire.types import ReadResourceResult

    raw = requests.request("resources/read", {"uri": uri}, options)
    data = file_bytes(skill, uri, decode(ReadResourceResult, raw))
    check_file(skill, uri, data)
    return data


class LoadedSkill:
    """A skill whose `SKILL.md` was read and checked; its other files come when asked.

    Attributes:
        entry: What the server said of it.
        frontmatter: The head of its `SKILL.md`, in YAML.
        body: Its instructions: what follows the head.
    """

    def __init__(
        self, requests: Requests, entry: Skill, document: tuple[str, str]
    ) -> None:
        self._requests = requests
        self._fault: RemoteProtocolError | None = None
        self.entry = entry
        self.frontmatter, self.body = document

    @property
    def uri(self) -> str:
        """The URI of its `SKILL.md`."""
        return self.entry.uri

    @property
    def name(self) -> str:
        """Its name."""
        return self.entry.name

    @property
    def description(self) -> str:
        """What it is for."""
        return self.entry.description

    @property
    def files(self) -> list[str] | None:
        """The URIs of all its files; ``None`` where they are not known beforehand."""
        if isinstance(self.entry.resources, str):
            return None
        return [file.uri for file in self.entry.resources]

    def read_file(self, path: str, **options: Unpack[CallOptions]) -> bytes:
        """Read one of its files and check it.

        Args:
            path: The file's URI, or its path from the skill's folder, such as
                ``references/FORMS.md``.
            options: As every request takes.

        Raises:
            SkillError: The file has another size or digest; no other can be read then.
                Or the skill has no such file; then nothing was sent.
            LocalProtocolError: It had a file that was wrong; then nothing was sent, or
                what came is not given out.
        """
        from mcpwire.protocol.results.skills import locate

        self._check()
        uri = locate(self.entry, path)
        try:
            data = _read(self._requests, self.entry, uri, options)
        except RemoteProtocolError as error:
            self._fault = error
            raise
        self._check()  # another that was asked for beside it may have been wrong
        return data

    def _check(self) -> None:
        if self._fault is not None:
            raise LocalProtocolError(
                f"the skill {self.name!r} had a file that is not what the server says "
                "of it: load it again"
            ) from self._fault

    def read_text(self, path: str, **options: Unpack[CallOptions]) -> str:
        """Read one of its files as `read_file` does, and return its text.

        Raises:
            LocalProtocolError: It is no text in UTF-8; see `read_file`.
        """
        data = self.read_file(path, **options)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise LocalProtocolError(
                f"{path!r} is no text in UTF-8: use read_file"
            ) from error

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<mcpwire.LoadedSkill {self.name!r} of {self.uri!r}>"
