"""The types of the skills extension, which is in no revision's schema (SEP-2640)."""

import pytest

from mcpwire.errors import InvalidMessage
from mcpwire.types import (
    GetSkillResult,
    ListSkillsResult,
    ReadResourceDirectoryResult,
    Skill,
    SkillResource,
    decode,
    encode,
)

URI = "skill://pdf/SKILL.md"
FILE = {"uri": URI, "digest": "sha256:" + "0" * 64, "size": 3}
ENTRY = {
    "uri": URI,
    "frontmatter": {"name": "pdf", "description": "Fills forms", "metadata": {"a": 1}},
    "resources": [FILE],
}


def test_entry_holds_what_the_server_sent():
    skill = decode(Skill, {**ENTRY, "x-more": 1})
    assert skill == Skill(
        URI,
        ENTRY["frontmatter"],
        [SkillResource(URI, FILE["digest"], 3)],
        extra={"x-more": 1},
    )
    assert (skill.name, skill.description) == ("pdf", "Fills forms")
    assert not skill.is_dynamic
    assert encode(skill) == {**ENTRY, "x-more": 1}


def test_dynamic_skill_has_no_file_list():
    skill = decode(Skill, {**ENTRY, "resources": "dynamic"})
    assert skill.resources == "dynamic"
    assert skill.is_dynamic
    assert encode(skill) == {**ENTRY, "resources": "dynamic"}


@pytest.mark.parametrize("frontmatter", [{}, {"name": None, "description": 7}])
def test_missing_frontmatter_members_are_empty(frontmatter):
    skill = decode(Skill, {**ENTRY, "frontmatter": frontmatter})
    assert (skill.name, skill.description) == ("", "")


@pytest.mark.parametrize(
    ("resources", "path", "expected", "got"),
    [
        ("static", "Skill.resources", "'dynamic' or array", "'static'"),
        (None, "Skill.resources", "'dynamic' or array", "null"),
        ({}, "Skill.resources", "'dynamic' or array", "object"),
        (["dynamic"], "Skill.resources[0]", "object", "str"),
        ([{**FILE, "size": "3"}], "Skill.resources[0].size", "int", "str"),
    ],
)
def test_invalid_files_are_refused_with_their_path(resources, path, expected, got):
    with pytest.raises(InvalidMessage) as caught:
        decode(Skill, {**ENTRY, "resources": resources})
    error = caught.value
    assert (error.path, error.expected, error.got) == (path, expected, got)


def test_entry_without_files_is_refused():
    without = {key: ENTRY[key] for key in ("uri", "frontmatter")}
    with pytest.raises(InvalidMessage, match=r"skills\[0\]\.resources"):
        decode(ListSkillsResult, {"skills": [without]})


def test_page_has_a_next_cursor_and_cache_hints():
    hints = {"resultType": "complete", "ttlMs": 5, "cacheScope": "public"}
    page = decode(ListSkillsResult, {"skills": [ENTRY], "nextCursor": "2", **hints})
    assert page.skills == [decode(Skill, ENTRY)]
    assert (page.next_cursor, page.ttl_ms, page.cache_scope) == ("2", 5, "public")
    one = decode(GetSkillResult, {"skill": ENTRY, **hints})
    assert (one.skill, one.ttl_ms) == (page.skills[0], 5)


def test_directory_lists_resources():
    child = {"uri": "skill://pdf/a", "name": "a", "mimeType": "inode/directory"}
    page = decode(ReadResourceDirectoryResult, {"resources": [child]})
    (found,) = page.resources
    assert (found.uri, found.mime_type) == ("skill://pdf/a", "inode/directory")
    assert page.next_cursor is None
