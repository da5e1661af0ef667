"""Skills as clients see them: listed, and read by file and by folder."""

import pytest
from raw_client import CAPABILITIES_KEY, Hand, modern
from single_request import code, error, in_session, result

import mcpwire
from mcpwire.protocol.methods import SKILLS
from mcpwire.server.extensions.skills import Skills
from mcpwire.server.server import Server

DOCUMENT = """---
name: pdf-processing
description: Extract, fill and assemble PDF documents
---
Read references/FORMS.md first.
"""
FORMS = "# Forms\n"
LOGO = b"\x89PNG\r\n\x1a\n\xff"

FILES = {
    "SKILL.md": DOCUMENT,
    "references/FORMS.md": FORMS,
    "assets/deep/logo.png": LOGO,
}
ROOT = "skill://pdf-processing"


def served(source=None, **options):
    source = {"pdf-processing": FILES} if source is None else source
    return Server("skilled", extensions=[Skills(source, **options)])


def skill(name):
    return {"SKILL.md": f"---\nname: {name}\ndescription: It is {name}.\n---\n"}


async def test_client_loads_a_served_skill():
    async with mcpwire.Client(served(), extensions=[SKILLS]) as client:
        [listed] = await client.list_skills()
        loaded = await client.load_skill(listed)
        assert loaded.uri == f"{ROOT}/SKILL.md"
        assert loaded.body == "Read references/FORMS.md first.\n"
        assert await loaded.read_text("references/FORMS.md") == FORMS
        assert await loaded.read_file("assets/deep/logo.png") == LOGO
        assert await client.get_skill(loaded.uri) == listed


async def test_extension_is_declared_with_directory_read():
    described = await result(served(), "server/discover")
    capabilities = described["capabilities"]
    assert capabilities["extensions"] == {SKILLS: {"directoryRead": True}}
    assert "resources" in capabilities


async def test_client_may_declare_the_extension():
    declared = {CAPABILITIES_KEY: {"extensions": {SKILLS: {}}}}
    hand = Hand(served().dispatcher)
    [listed] = await hand.ask(modern(1, "skills/list", {}, **declared))
    assert (
        listed["result"]["skills"] == (await result(served(), "skills/list"))["skills"]
    )


async def test_an_entry_names_every_file_once():
    listed = await result(served(), "skills/list")
    [entry] = listed["skills"]
    assert entry["uri"] == f"{ROOT}/SKILL.md"
    assert entry["frontmatter"] == {
        "name": "pdf-processing",
        "description": "Extract, fill and assemble PDF documents",
    }
    assert [(each["uri"], each["size"]) for each in entry["resources"]] == [
        (f"{ROOT}/SKILL.md", len(DOCUMENT)),
        (f"{ROOT}/references/FORMS.md", len(FORMS)),
        (f"{ROOT}/assets/deep/logo.png", len(LOGO)),
    ]
    assert "nextCursor" not in listed
    assert listed["ttlMs"] == 0
    assert listed["cacheScope"] == "public"


async def test_skills_get_returns_the_entry_of_the_list():
    server = served(ttl_ms=5_000)
    [entry] = (await result(server, "skills/list"))["skills"]
    got = await result(server, "skills/get", uri=entry["uri"])
    assert got["skill"] == entry
    assert (got["ttlMs"], got["cacheScope"]) == (5_000, "public")
    assert "nextCursor" not in got


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("skills/get", {"uri": "skill://other/SKILL.md"}),
        ("skills/get", {"uri": f"{ROOT}/references/FORMS.md"}),
        ("skills/get", {"uri": ROOT}),
        ("resources/directory/read", {"uri": f"{ROOT}/SKILL.md"}),
        ("resources/directory/read", {"uri": "skill://other"}),
        ("resources/directory/read", {"uri": "skill://"}),
        *(
            ("resources/read", {"uri": f"{ROOT}/{path}"})
            for path in ("references/../SKILL.md", "%2e%2e/x", "references", "NO.md")
        ),
        ("resources/read", {"uri": f"{ROOT}/references/"}),
    ],
)
@pytest.mark.attack("S19")
async def test_uri_of_another_kind_skill_or_file_is_refused(method, params):
    found = await error(served(), method, **params)
    assert (found["code"], found["data"]) == (-32602, params)


@pytest.mark.parametrize("method", ["skills/get", "resources/directory/read"])
async def test_uri_must_be_a_string(method):
    found = await error(served(), method, uri=7)
    assert (found["code"], found["message"]) == (-32602, "params.uri must be a string")


async def test_only_the_documents_are_listed_as_resources():
    listed = await result(served(), "resources/list")
    assert listed["resources"] == [
        {
            "uri": f"{ROOT}/SKILL.md",
            "name": "pdf-processing",
            "description": "Extract, fill and assemble PDF documents",
            "mimeType": "text/markdown",
            "size": len(DOCUMENT),
        }
    ]
    templates = await result(served(), "resources/templates/list")
    [template] = templates["resourceTemplates"]
    assert template["uriTemplate"] == "skill://{path*}"


@pytest.mark.parametrize(
    ("path", "contents"),
    [
        ("SKILL.md", {"mimeType": "text/markdown", "text": DOCUMENT}),
        ("references/FORMS.md", {"mimeType": "text/markdown", "text": FORMS}),
        ("assets/deep/logo.png", {"mimeType": "image/png", "blob": "iVBORw0KGgr/"}),
    ],
)
async def test_every_file_is_read_as_a_resource(path, contents):
    read = await result(served(ttl_ms=9), "resources/read", uri=f"{ROOT}/{path}")
    assert read["contents"] == [{"uri": f"{ROOT}/{path}", **contents}]
    assert (read["ttlMs"], read["cacheScope"]) == (9, "public")


async def test_files_are_read_in_sessions_too():
    uri = f"{ROOT}/references/FORMS.md"
    found = await in_session(served(), "2025-06-18", "resources/read", uri=uri)
    assert found["result"]["contents"][0]["text"] == FORMS


async def test_directory_read_lists_direct_files_and_folders():
    server = served()
    top = await result(server, "resources/directory/read", uri=ROOT)
    assert top["resources"] == [
        {
            "uri": f"{ROOT}/SKILL.md",
            "name": "SKILL.md",
            "mimeType": "text/markdown",
            "size": len(DOCUMENT),
        },
        {"uri": f"{ROOT}/assets", "name": "assets", "mimeType": "inode/directory"},
        {
            "uri": f"{ROOT}/references",
            "name": "references",
            "mimeType": "inode/directory",
        },
    ]
    assert "nextCursor" not in top
    assert (top["ttlMs"], top["cacheScope"]) == (0, "public")
    below = await result(server, "resources/directory/read", uri=f"{ROOT}/assets/deep/")
    [file] = below["resources"]
    assert (file["name"], file["mimeType"]) == ("logo.png", "image/png")


@pytest.mark.case("F05")
async def test_skills_and_folders_are_paginated():
    names = ["a", "b", "c"]
    server = served({name: skill(name) for name in names}, page_size=2)
    first = await result(server, "skills/list")
    second = await result(server, "skills/list", cursor=first["nextCursor"])
    found = [*first["skills"], *second["skills"]]
    assert [each["frontmatter"]["name"] for each in found] == names
    assert "nextCursor" not in second
    folders = served(page_size=2)
    page = await result(folders, "resources/directory/read", uri=ROOT)
    rest = await result(
        folders, "resources/directory/read", uri=ROOT, cursor=page["nextCursor"]
    )
    assert len(page["resources"]) == 2
    assert len(rest["resources"]) == 1
    for method, params in (
        ("skills/list", {"cursor": page["nextCursor"]}),
        ("resources/directory/read", {"uri": ROOT, "cursor": first["nextCursor"]}),
        ("skills/list", {"cursor": ""}),
    ):
        assert await code(folders, method, **params) == -32602


async def test_path_argument_is_completed():
    reference = {"type": "ref/resource", "uri": "skill://{path*}"}
    completed = await result(
        served(),
        "completion/complete",
        ref=reference,
        argument={"name": "path", "value": "pdf-processing/re"},
    )
    assert completed["completion"]["values"] == ["pdf-processing/references/FORMS.md"]


async def test_uri_prefix_and_nested_paths_are_supported():
    server = served({"acme corp/notes": skill("notes")}, uri="skill://host/")
    [entry] = (await result(server, "skills/list"))["skills"]
    assert entry["uri"] == "skill://host/acme%20corp/notes/SKILL.md"
    read = await result(server, "resources/read", uri=entry["uri"])
    assert read["contents"][0]["text"] == skill("notes")["SKILL.md"]
    folder = await result(
        server, "resources/directory/read", uri="skill://host/acme%20corp/notes"
    )
    assert [each["name"] for each in folder["resources"]] == ["SKILL.md"]


def test_repr_lists_the_skill_names():
    assert repr(Skills({"b": skill("b"), "a": skill("a")})) == "<Skills a, b>"
