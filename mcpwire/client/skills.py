"""Loaded skills of a server, read file by file (SEP-2640).

Each file is read on demand only. After a file that breaks a rule of
`mcpwire.protocol.skills` the skill reads no other file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwire.errors import LocalProtocolError, RemoteProtocolError
from mcpwire.types import decode

if TYPE_CHECKING:
    from typing import Unpack

    from mcpwire.client.client import CallOptions
    from mcpwire.client.requests import Requests
    from mcpwire.types import Skill


async def load(requests: Requests, skill: Skill, options: CallOptions) -> LoadedSkill:
    """Check the server's entry of a skill; read its `SKILL.md` and check that too."""
    from mcpwire.protocol.skills import check_entry, split_document

    check_entry(skill)
    document = await _read_checked(requests, skill, skill.uri, options)
    return LoadedSkill(requests, skill, split_document(document))


async def _read_checked(
    requests: Requests, skill: Skill, uri: str, options: CallOptions
) -> bytes:
    """Read one file of a skill and check it."""
    from mcpwire.protocol.skills import check_file, file_bytes
    from mcpwire.types import ReadResourceResult

    raw = await requests.request("resources/read", {"uri": uri}, options)
    data = file_bytes(skill, uri, decode(ReadResourceResult, raw))
    check_file(skill, uri, data)
    return data


class LoadedSkill:
    """A skill with a checked `SKILL.md`; its other files are read on demand.

    Attributes:
        entry: The server's entry of the skill.
        frontmatter: The YAML frontmatter of its `SKILL.md`.
        body: The instructions that follow the frontmatter.
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
        """The skill's name."""
        return self.entry.name

    @property
    def description(self) -> str:
        """The skill's description."""
        return self.entry.description

    @property
    def files(self) -> list[str] | None:
        """The URIs of all its files; ``None`` if the entry does not list them."""
        if isinstance(self.entry.resources, str):
            return None
        return [file.uri for file in self.entry.resources]

    async def read_file(self, path: str, **options: Unpack[CallOptions]) -> bytes:
        """Read one of its files and check it.

        Args:
            path: The file's URI, or its path from the skill's folder, such as
                ``references/FORMS.md``.
            options: The options of every request.

        Raises:
            SkillError: The file's size or digest differs from the entry, and no other
                file can be read. Or the skill has no such file; no request was sent.
            LocalProtocolError: An earlier or concurrent read found an invalid file; no
                request was sent, or its reply is discarded.
        """
        from mcpwire.protocol.skills import find_file_uri

        self._check()
        uri = find_file_uri(self.entry, path)
        try:
            data = await _read_checked(self._requests, self.entry, uri, options)
        except RemoteProtocolError as error:
            self._fault = error
            raise
        self._check()  # a concurrent read may have found an invalid file
        return data

    def _check(self) -> None:
        if self._fault is not None:
            raise LocalProtocolError(
                f"the skill {self.name!r} had a file that differs from the server's "
                "description: load it again"
            ) from self._fault

    async def read_text(self, path: str, **options: Unpack[CallOptions]) -> str:
        """Read one of its files as `read_file` does, and return its text.

        Raises:
            LocalProtocolError: The file is not UTF-8 text; see `read_file`.
        """
        data = await self.read_file(path, **options)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise LocalProtocolError(
                f"{path!r} is not text in UTF-8: use read_file"
            ) from error

    def __repr__(self) -> str:
        """Return name and URI in one line."""
        return f"<mcpwire.LoadedSkill {self.name!r} of {self.uri!r}>"
