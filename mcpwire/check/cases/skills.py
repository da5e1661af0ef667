"""Skills, the extension io.modelcontextprotocol/skills (2026-07-28)."""

from __future__ import annotations

import base64
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import MODERN, Family
from mcpwire.check.cases._exchange import Error, Request, add_exchange_case
from mcpwire.check.cases._items import with_capabilities

if TYPE_CHECKING:
    from mcpwire.check.subject import Answer, Subject

FAMILY: Final = Family("skills")

ID: Final = "io.modelcontextprotocol/skills"
CAPABILITIES: Final[dict[str, Any]] = {"extensions": {ID: {}}}
NAME: Final = re.compile(r"(?!.*--)[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?")
DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_FILES: Final = 8  # maximum number per case

case = FAMILY.with_defaults(revisions=MODERN, needs=("extension:skills",))


async def _list_skills(subject: Subject) -> tuple[list[dict[str, Any]], Answer]:
    answer = await subject.request("skills/list", with_capabilities(CAPABILITIES))
    items = (answer.result or {}).get("skills")
    subject.expect(isinstance(items, list), "a list of skills", answer)
    skills = [each for each in items or () if isinstance(each, dict)]
    if not skills:
        subject.raise_absent("skill")
    return skills, answer


def _skill_name(skill: dict[str, Any]) -> str:
    head = skill.get("frontmatter")
    return str(head.get("name")) if isinstance(head, dict) else ""


@case.robust(
    "SKILL-01.a",
    "a server with skills declares resources",
    sends="nothing; checks the capabilities",
    expects="the capability resources",
    why="the files of a skill cannot be read",
)
async def has_resources(subject: Subject) -> None:
    declares = subject.facts.declares("resources")
    subject.expect(declares, "the capability resources", subject.facts.capabilities)


@case.robust(
    "SKILL-02.a",
    "each skill has a URI, frontmatter with a name, and its files",
    sends="skills/list",
    expects="a URI that ends with /<name>/SKILL.md, and that file among its resources "
    "unless they are dynamic",
    why="clients reject the skill",
)
async def entries(subject: Subject) -> None:
    skills, answer = await _list_skills(subject)
    for skill in skills:
        name, uri = _skill_name(skill), str(skill.get("uri"))
        subject.expect(NAME.fullmatch(name), "a name of a-z, 0-9 and -", answer)
        ends = uri.endswith(f"/{name}/SKILL.md")
        subject.expect(ends, f"a URI that ends with /{name}/SKILL.md", answer)
        files = skill.get("resources")
        if files == "dynamic":
            continue
        fits = isinstance(files, list) and uri in [
            each.get("uri") for each in files if isinstance(each, dict)
        ]
        subject.expect(fits, "SKILL.md among its resources", answer)


@case.robust(
    "SKILL-02.b",
    "names of skills are unique",
    sends="skills/list",
    expects="no name twice",
    why="the model cannot choose between them",
)
async def unique_names(subject: Subject) -> None:
    skills, answer = await _list_skills(subject)
    names = [_skill_name(skill) for skill in skills]
    subject.expect(len(set(names)) == len(names), "no name twice", answer)


@case.robust(
    "SKILL-03.a",
    "files of a skill match their digest and size",
    sends="skills/list, then resources/read for the first files",
    expects="contents with that size and SHA-256",
    why="clients reject the file as modified",
)
async def digests(subject: Subject) -> None:
    skills, answer = await _list_skills(subject)
    files = [
        file
        for skill in skills
        for file in (
            skill["resources"] if isinstance(skill.get("resources"), list) else ()
        )
    ]
    if not files:
        subject.raise_absent("file with a digest")
    for file in files[:_MAX_FILES]:
        digest = str(file.get("digest"))
        subject.expect(DIGEST.fullmatch(digest), "sha256: and 64 hex digits", answer)
        read = await subject.request("resources/read", {"uri": file.get("uri")})
        (contents,) = (read.result or {}).get("contents", [{}])[:1]
        if isinstance(contents.get("text"), str):
            data = contents["text"].encode("utf-8", "surrogatepass")
        else:
            data = base64.b64decode(str(contents.get("blob", "")))
        subject.expect(len(data) == file.get("size"), f"{file.get('size')} bytes", read)
        subject.expect(f"sha256:{sha256(data).hexdigest()}" == digest, digest, read)


@case.robust(
    "SKILL-04.a",
    "skills/get returns the same entry as skills/list",
    sends="skills/list, then skills/get for the first",
    expects="the same entry",
    why="clients that load one skill get another",
)
async def single_skill(subject: Subject) -> None:
    skills, _ = await _list_skills(subject)
    params = with_capabilities(CAPABILITIES, {"uri": skills[0].get("uri")})
    answer = await subject.request("skills/get", params)
    is_same = (answer.result or {}).get("skill") == skills[0]
    subject.expect(is_same, "the same entry as in skills/list", answer)


add_exchange_case(
    case.robust,
    "SKILL-04.b",
    "an unknown skill is answered with -32602",
    send=Request(
        "skills/get",
        with_capabilities(CAPABILITIES, {"uri": "skill://mcpwire-none/SKILL.md"}),
    ),
    expect=Error(-32602),
    why="clients cannot tell a missing skill from a failure",
)


def _folder_uri(uri: str) -> str:
    return uri.removesuffix("/SKILL.md")


@case.robust(
    "SKILL-05.a",
    "the folder of a skill can be listed, and a file cannot",
    sends="resources/directory/read for the first skill's folder, and for its SKILL.md",
    expects="SKILL.md among its resources; an error -32602 for the file",
    why="clients cannot list the files of a skill",
)
async def folders(subject: Subject) -> None:
    settings = subject.facts.capabilities["extensions"][ID]
    if settings.get("directoryRead") is not True:
        subject.raise_absent("directoryRead")
    skills, _ = await _list_skills(subject)
    uri = str(skills[0].get("uri"))
    method = "resources/directory/read"
    params = with_capabilities(CAPABILITIES, {"uri": _folder_uri(uri)})
    answer = await subject.request(method, params)
    resources = (answer.result or {}).get("resources")
    uris = [e.get("uri") for e in resources or () if isinstance(e, dict)]
    subject.expect(uri in uris, f"{uri} among the resources", answer)
    of_file = await subject.request(
        method, with_capabilities(CAPABILITIES, {"uri": uri})
    )
    subject.expect_error(of_file, -32602)
