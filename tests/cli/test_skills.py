"""`mcpwire skills`: the list, and one skill that is verified before it is printed."""

import json
from hashlib import sha256

import pytest

from mcpwire.protocol.methods import SKILLS

CACHE_FIELDS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
URI = "skill://pdf/SKILL.md"
DOCUMENT = "---\nname: pdf\ndescription: Fills forms\n---\nDo it.\n"


def resource_entry(uri, data):
    digest = f"sha256:{sha256(data.encode()).hexdigest()}"
    return {"uri": uri, "digest": digest, "size": len(data)}


ENTRY = {
    "uri": URI,
    "frontmatter": {"name": "pdf", "description": "Fills forms"},
    "resources": [resource_entry(URI, DOCUMENT), resource_entry("skill://pdf/a", "a")],
}
DYNAMIC = {"uri": "skill://odd\x1b", "frontmatter": {}, "resources": "dynamic"}


@pytest.fixture
def server(scripted):
    def make(text=DOCUMENT, extensions=None):
        capabilities = {"resources": {}, "extensions": extensions or {SKILLS: {}}}
        discovered = {
            **CACHE_FIELDS,
            "supportedVersions": ["2026-07-28"],
            "capabilities": capabilities,
        }
        contents = [{"uri": URI, "text": text}]
        return scripted(
            server__discover=[{"result": discovered}],
            skills__list=[{"result": {**CACHE_FIELDS, "skills": [ENTRY, DYNAMIC]}}],
            skills__get=[{"result": {**CACHE_FIELDS, "skill": ENTRY}}],
            resources__read=[{"result": {**CACHE_FIELDS, "contents": contents}}],
        )

    return make


def test_skills_are_listed_without_reading_them(cli, server):
    served = server()
    code, out, _ = cli("skills", served.line)
    assert code == 0
    assert out.splitlines() == [
        "Skills (2)",
        f"  {URI}  [2 file(s)]",
        "      pdf: Fills forms",
        "  skill://odd\\x1b  [dynamic]",
    ]
    assert "resources/read" not in served.log.read_text()


def test_skills_as_json_are_the_server_response(cli, server):
    out = cli("skills", server().line, "--json").out
    assert json.loads(out) == {"skills": [ENTRY, DYNAMIC]}


def test_skill_is_verified_and_its_instructions_are_printed(cli, server):
    code, out, _ = cli("skills", server().line, URI)
    assert (code, out) == (0, "Do it.\n")
    out = cli("skills", server().line, URI, "--json").out
    assert json.loads(out) == {"skill": ENTRY, "body": "Do it.\n"}


def test_skill_with_a_wrong_digest_is_not_printed(cli, server):
    code, out, err = cli("skills", server(DOCUMENT.replace("Do", "Be")).line, URI)
    assert (code, out) == (6, "")
    assert "its digest is sha256:" in err


def test_server_without_skills_capability_is_an_error(cli, server):
    code, _, err = cli("skills", server(extensions={"a/b": {}}).line)
    assert code == 2
    assert f"the server did not declare '{SKILLS}'" in err
