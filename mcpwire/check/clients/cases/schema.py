"""Validity of all messages of the client against the schema of their revision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.check.case import LEGACY, Family, NoAnswer, Start
from mcpwire.check.clients.cases._asking import DECLARED, ask_client
from mcpwire.check.clients.cases._forms import observed_case
from mcpwire.check.schemas import MessageValidator
from mcpwire.versions import find_revision

if TYPE_CHECKING:
    from mcpwire.check.clients.subject import ClientSubject
    from mcpwire.versions import Revision

FAMILY: Final = Family("schema", defaults={"role": "client", "source": "schema"})

_WHY: Final = "servers with typed models reject the message, or lose a part of it"


def _problem(validator: MessageValidator) -> str | None:
    """Return the first invalid message, with its problem."""
    for states in validator.states.values():
        for state in states.values():
            if state.message is not None:
                return f"{state.problem}; {state.message.raw.decode(errors='replace')}"
    return None


@observed_case(
    FAMILY.must,
    "C-SCHEMA.requests",
    "each request and notification matches its schema",
    rules=("LIFE-02", "ROOT-01", "SAMP-01", "ELIC-01"),
    expects="each message matches its definition in the schema",
    why=_WHY,
)
def _invalid_message(client: ClientSubject) -> str | None:
    validator = MessageValidator("client")
    for message in client.messages:
        revision: Revision | None = client.revision
        if message.method == "initialize":  # it has the form of the proposed revision
            revision = find_revision(str(message.params.get("protocolVersion")))
        if message.method is not None and revision is not None:
            validator.validate(revision.name, message, None)
    return _problem(validator)


@FAMILY.must(
    "C-SCHEMA.results",
    "each response to a request of the server matches its schema",
    rules=("RPC-09", "SAMP-09", "SAMP-10", "ELIC-08"),
    revisions=LEGACY,
    start=Start.OWN,
    sends="a ping, one request of each capability that the client declares, and one "
    "with an unknown method",
    expects="each response matches its definition in the schema",
    why=_WHY,
)
async def responses_match(client: ClientSubject) -> None:
    declared = [r for need, r in DECLARED.items() if client.facts.declares(need)]
    asked = [("ping", None), *declared, ("mcpwire/unknown", None)]
    validator = MessageValidator("client")
    try:
        responses = await ask_client(client, *asked)
    except NoAnswer as finding:  # other cases find that
        client.raise_absent(finding.expected)
    for (method, _), response in zip(asked, responses, strict=True):
        validator.validate(client.revision.name, response, method)
    if (problem := _problem(validator)) is not None:
        client.raise_broken("each response matches its schema", problem)
