"""Validity of all server messages against the schema of their revision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.check.case import Family, Start
from mcpwire.check.schemas import load_schemas, stem_of

if TYPE_CHECKING:
    from mcpwire.check.subject import Subject

FAMILY: Final = Family("schema")


def _revisions_by_stem() -> dict[str, tuple[str, ...]]:
    """Return the revisions of each type of message that a server sends."""
    revisions_by_stem: dict[str, list[str]] = {}
    for revision, schema in load_schemas().items():
        names = {schema.error, *schema.sendable["server"].values()}
        names |= {schema.result_definition(m) or "" for m in schema.sendable["client"]}
        names |= {"CreateTaskResult"} & schema.definitions.keys()
        for name in sorted(names - {""}):
            revisions_by_stem.setdefault(stem_of(name), []).append(revision)
    return {stem: tuple(revisions) for stem, revisions in revisions_by_stem.items()}


for _stem, _revisions in sorted(_revisions_by_stem().items()):

    async def messages_match(subject: Subject, stem: str = _stem) -> None:
        seen = subject.validator.find_state(subject.revision.name, stem)
        if seen is None:
            subject.raise_absent(f"message of the type {stem}")
        if seen.message is not None:
            subject.last_sent = b""
            subject.raise_broken(f"a valid {stem}: {seen.problem}", seen.message.raw)

    FAMILY.must(
        f"SCHEMA.{_stem}",
        f"each {_stem} matches its schema",
        source="schema",
        sends="nothing; checks all messages of the run",
        expects=f"each received {_stem} matches its definition in the schema",
        why="clients with typed models reject the message, or lose a part of it",
        revisions=_revisions,
        start=Start.LAST,
    )(messages_match)
