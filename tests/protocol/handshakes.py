"""Drives a negotiation by a script: the answers and their times, then the verdict.

Steps, verdicts and records are written as short lines, so that a row of the transition
table reads like a transcript.
"""

from typing import Any

import attrs

from mcpwire.errors import MCPError, NegotiationError, rpc_error
from mcpwire.protocol.negotiation import (
    Answer,
    Downgrade,
    Identity,
    Negotiation,
    Notify,
    Receive,
    ReceiveTimeout,
    Reopen,
    Send,
    negotiate,
    parse_mode,
)

IDENTITY = Identity(info={"name": "me", "version": "1"}, capabilities={"roots": {}})
PROBE_TIMEOUT = 5.0
INFO = {"name": "srv", "version": "2"}
META = "io.modelcontextprotocol/"
MOST_STEPS = 20


def discovered(*versions: str, **members: Any) -> dict[str, Any]:
    return {
        "resultType": "complete",
        "supportedVersions": list(versions),
        "capabilities": {"tools": {}},
        "ttlMs": 0,
        "cacheScope": "public",
        "_meta": {META + "serverInfo": INFO},
        **members,
    }


def initialized(version: Any = "2025-11-25", **members: Any) -> dict[str, Any]:
    return {
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": INFO,
        **members,
    }


def refused(code: int, *supported: Any) -> MCPError:
    """Return a JSON-RPC error, with the versions its data names."""
    data = {"supported": list(supported)} if supported else None
    return rpc_error(code, "no", data=data)


def probe_gets(outcome: Any, at: float = 1.0) -> Answer:
    return Answer("server/discover", outcome, at)


def initialize_gets(outcome: Any, at: float = 2.0) -> Answer:
    return Answer("initialize", outcome, at)


def silence(at: float = PROBE_TIMEOUT) -> ReceiveTimeout:
    return ReceiveTimeout(at)


@attrs.frozen
class Played:
    """The result of a played script."""

    steps: list[Any]
    agreement: Any
    error: BaseException | None
    negotiation: Negotiation

    @property
    def transcript(self) -> list[str]:
        return [spell(step) for step in self.steps]

    @property
    def record(self) -> list[str]:
        return [f"{step.at:g} {step.event}" for step in self.negotiation.steps]


def spell(step: Any) -> str:
    """Return a step as one short line."""
    if type(step) is Send:
        return f"{step.method} {proposed_by(step)}"
    if type(step) is Receive:
        return "wait" if step.timeout is None else f"wait {step.timeout:g} s"
    if type(step) is Notify:
        return f"{step.method} at {step.revision}"
    if type(step) is Downgrade:
        return "downgrade"
    assert type(step) is Reopen
    return "reopen"


def proposed_by(step: Send) -> str:
    """Return the version that a request proposes."""
    if step.method == "initialize":
        return step.params["protocolVersion"]
    return step.params["_meta"][META + "protocolVersion"]


def play(
    mode: str,
    *script: Answer | ReceiveTimeout,
    over_http: bool = False,
    endpoint: MCPError | None = None,
) -> Played:
    """Negotiate; each wait gets the next entry of the script, which must be used up.

    `endpoint` is the error of opening HTTP+SSE, where a downgrade finds no endpoint.
    """
    record = Negotiation()
    operation = negotiate(
        IDENTITY,
        parse_mode(mode),
        probe_timeout=PROBE_TIMEOUT,
        record=record,
        over_http=over_http,
    )
    remaining = iter(script)
    steps: list[Any] = []
    agreement = error = None
    try:
        step = next(operation)
        while True:
            steps.append(step)
            assert len(steps) <= MOST_STEPS
            outcome = next(remaining) if type(step) is Receive else None
            if type(step) is Downgrade:
                outcome = endpoint
            step = operation.send(outcome)
    except StopIteration as done:
        agreement = done.value
    except MCPError as raised:
        error = raised
    assert list(remaining) == []
    return Played(steps, agreement, error, record)


@attrs.frozen
class Row:
    """One line of the transition table.

    Attributes:
        script: The outcome of each wait.
        steps: The steps that the shell must perform, as `spell` writes them.
        verdict: The revision agreed on, or the error, as `wire_tables.Error`.
        record: Time and event of each step in the record.
    """

    name: str
    mode: str
    script: tuple[Answer | ReceiveTimeout, ...]
    steps: tuple[str, ...]
    verdict: Any
    record: tuple[str, ...] | None = None


def check(row: Row) -> None:
    played = play(row.mode, *row.script)
    assert played.transcript == list(row.steps)
    if isinstance(row.verdict, str):
        assert played.error is None
        assert played.agreement.revision.name == row.verdict
        assert played.agreement.negotiation is played.negotiation
        assert played.negotiation.revision is played.agreement.revision
        assert played.negotiation.reason
    else:
        assert played.agreement is None
        assert played.error == row.verdict
        assert played.negotiation.revision is None
        if type(played.error) is NegotiationError:
            assert played.error.negotiation is played.negotiation
            assert played.negotiation.reason
    if row.record is not None:
        assert played.record == list(row.record)
