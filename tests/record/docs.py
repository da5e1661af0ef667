"""The record of the documents' examples: the messages of their clients.

`tests/docs` keeps the messages of each example in `.build`, and compares them with the
record. A result that several examples get is written once.
"""

import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from record import shown

TESTS: Final = Path(__file__).parents[1]
LAST: Final = TESTS.parent / ".build" / "record-docs"
AREA: Final = "docs"
SHARED: Final = "results of several examples"
LONG: Final = 200

POLLS: Final = "how often a task is asked for depends on time"

PARTS: Final = {"send": "sent", "receive": "received", "status": "statuses"}
CHANGING: Final = (
    (re.compile(r'(?<="taskId": ")[^"]+|(?<="requestState": ")[^"]+'), "*"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r'(?<="version": ")\d+\.\d+\.\d+(?=")'), "*"),
)
METHODS_ONLY: Final = {
    "docs/client.md Sampling, elicitation and roots 1": "it requests roots later",
    "docs/client.md Tasks 1": POLLS,
    "docs/sync.md Threads 1": "threads send in any order",
    "docs/tasks.md Tools that run as tasks 1": POLLS,
    "docs/tasks.md Requests to the client 1": POLLS,
}
"""Examples with messages that depend on timing, and why: only methods are kept."""


def names() -> set[str]:
    """Return the names of the examples in the record."""
    sys.path.insert(0, str(TESTS / "docs"))
    from documents import DOCUMENTS, EXAMPLES, is_recorded, pairs, record_name

    blocks = [block for document in DOCUMENTS for block, _ in pairs(document)]
    recorded = map(record_name, filter(is_recorded, blocks))
    return {*recorded, *(path.name for path in EXAMPLES)}


def seen(case: str, folder: Path) -> dict[str, Any]:
    """Return the messages of an example from its folder, and keep them for `make`.

    The order is fixed only within one direction of a connection.
    """
    connections = []
    for path in folder.iterdir():
        found: dict[str, list[Any]] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            event, text = json.loads(line)
            found.setdefault(PARTS[event], []).append(_shown(text))
        found.get("statuses", []).sort()  # concurrent calls have no fixed order
        connections.append(found)
    connections.sort(key=json.dumps)
    if case in METHODS_ONLY:
        lines = [line for each in connections for line in each.get("sent", ())]
        methods = {line["method"] for line in lines if "method" in line}
        connections = [{"methods": sorted(methods)}]
    record = {
        f"{number} {part}": messages
        for number, found in enumerate(connections, 1)
        for part, messages in found.items()
    }
    LAST.mkdir(parents=True, exist_ok=True)
    file = LAST / (re.sub(r"\W+", "-", case) + ".json")
    file.write_text(json.dumps([case, record]), encoding="utf-8")
    return record


def _shown(text: str) -> Any:
    """Return a message for the record, or other text unchanged."""
    try:
        text = json.dumps(json.loads(text))
    except ValueError:
        return shown.blank(text)
    for pattern, instead in CHANGING:
        text = pattern.sub(instead, text)
    message = json.loads(text)
    if isinstance(message, dict):
        message.pop("jsonrpc", None)
    return shown.blank(message)


def make() -> dict[str, Any]:
    """Return the messages of the examples of the last run."""
    files = LAST.glob("*.json")
    return dict(json.loads(path.read_text(encoding="utf-8")) for path in files)


def part(kept: dict[str, Any], made: dict[str, Any]) -> dict[str, Any]:
    """Return the kept record of the examples that were run."""
    return {case: each for case, each in kept.items() if case in made}


def fold(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record with each repeated long result in one place."""
    counts = Counter[str]()
    _each(record, lambda message: counts.update([_result(message)]))
    shared = {}

    def change(message: Any) -> Any:
        text = _result(message)
        if len(text) < LONG or counts[text] == 1:
            return message
        key = hashlib.sha256(text.encode()).hexdigest()[:8]
        shared[key] = [message["result"]]
        return message | {"result": key}

    return _each(record, change) | {SHARED: dict(sorted(shared.items()))}


def unfold(record: dict[str, Any]) -> dict[str, Any]:
    """Undo `fold`."""
    shared = record.pop(SHARED)

    def change(message: Any) -> Any:
        key = message.get("result") if isinstance(message, dict) else None
        return message | {"result": shared[key][0]} if type(key) is str else message

    return _each(record, change)


def _each(record: dict[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    return {
        case: {part: [*map(change, messages)] for part, messages in parts.items()}
        for case, parts in record.items()
    }


def _result(message: Any) -> str:
    result = message.get("result") if isinstance(message, dict) else None
    return json.dumps(result, sort_keys=True)
