"""Cancellation by notification: effects on the cancelled call and on other calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.check.case import LEGACY, MODERN, Family, NoAnswer
from mcpwire.check.cases._calls import index_of, params_with_duration, start_slow_call
from mcpwire.check.cases._exchange import IGNORED, Notification, add_exchange_case

if TYPE_CHECKING:
    from mcpwire.check.subject import Subject

FAMILY: Final = Family("cancellation")

CANCELLED: Final = "notifications/cancelled"
SLOW_CALL_S: Final = 1.0
_CANCELLED_CALL_S: Final = 0.5  # long enough for a cancellation before its end
TWELVE_CALLS_TIMEOUT_S: Final = 12.0  # time limit for twelve consecutive calls

case = FAMILY.with_defaults(needs=("role:slow",))


add_exchange_case(
    FAMILY.should,
    "CAN-06.a",
    "a cancellation of an unknown request is ignored",
    source="basic/utilities/cancellation#error-handling",
    rules=("CAN-08",),
    send=(
        Notification(CANCELLED, {"requestId": 2**40, "reason": "mcpwire"}),
        Notification(CANCELLED, {"requestId": "mcpwire-never"}),
    ),
    expect=IGNORED,
    why="a late cancellation breaks the connection",
)

add_exchange_case(
    FAMILY.should,
    "CAN-06.b",
    "a malformed cancellation is ignored",
    source="basic/utilities/cancellation#error-handling",
    send=(
        Notification(CANCELLED, {}),
        Notification(CANCELLED),
        Notification(CANCELLED, {"requestId": None}),
        Notification(CANCELLED, {"requestId": {"a": 1}}),
        Notification(CANCELLED, {"requestId": [1]}),
    ),
    expect=IGNORED,
    why="one invalid notification aborts all other calls",
)


@FAMILY.should(
    "CAN-06.c",
    "a cancellation after the answer is ignored",
    source="basic/utilities/cancellation#timing-considerations",
    rules=("CAN-08",),
    sends="a request, and its cancellation after the answer",
    expects="no second answer, and an answer to the next request",
    why="an answer and a cancellation may cross in transit",
)
async def late_cancellation(subject: Subject) -> None:
    id = subject.next_id()
    await subject.request(subject.facts.barrier, id=id)
    await subject.notify(CANCELLED, {"requestId": id, "reason": "late"})
    await subject.barrier()
    subject.expect_one_answer(id)


ended = case.with_defaults(
    sends="a call of half a second, its cancellation, then the same call again",
    expects="an answer to the second call only",
    why="the client has dropped the request, and treats the answer as an error",
)


# Decorators run from bottom to top: the lower one adds its case first.
@ended.must(
    "TR-STDIO-11.a",
    "nothing more is sent for a cancelled request",
    source="basic/transports/stdio#cancellation",
    rules=("CAN-05",),
    revisions=MODERN,
    transports=("stdio",),
)
@ended.should(
    "CAN-05.a",
    "a cancelled request is not answered",
    source="basic/utilities/cancellation#behavior-requirements",
    revisions=LEGACY,
)
async def cancelled_call(subject: Subject) -> None:
    """Cancel a call; check that it stays unanswered until an equal later call ends."""
    call = await start_slow_call(subject, _CANCELLED_CALL_S)
    await subject.notify(CANCELLED, {"requestId": call.id, "reason": "mcpwire"})
    await subject.barrier()
    read_end = len(subject.received)
    later = subject.next_id()
    message = subject.message("tools/call", call.params, id=later)
    response = await subject.send(message)
    subject.last_sent = b"a call, its cancellation, then the same call again"
    await subject.wait_answer(
        later, response, timeout=_CANCELLED_CALL_S + subject.bound_s
    )
    await subject.barrier()
    for answer in subject.answers_to(call.id):
        if "result" in answer.value and index_of(subject, answer) < read_end:
            # The call ended before the cancellation was read: the machine is busy.
            subject.raise_absent("call that takes long enough to be cancelled")
        subject.raise_broken("no answer to the cancelled call", answer.raw)


@case.robust(
    "CAN-06.d",
    "a cancellation with an id of another JSON type is ignored",
    rules=("CAN-06", "RPC-03"),
    is_quick=False,
    sends="a call whose id is a number, and a cancellation with the same id as a "
    "string",
    expects="an answer to the call",
    why="the cancellation of one call ends another",
)
async def other_type(subject: Subject) -> None:
    call = await start_slow_call(subject, SLOW_CALL_S)
    await subject.notify(CANCELLED, {"requestId": str(call.id)})
    try:
        await subject.wait_answer(
            call.id, call.response, timeout=SLOW_CALL_S + subject.bound_s
        )
    except NoAnswer as error:
        subject.raise_broken("an answer to the call", error.actual)


@case.robust(
    "A15.a",
    "a cancellation does not affect other calls",
    rules=("CAN-05",),
    transports=("stdio",),
    is_quick=False,
    sends="twelve concurrent calls, and the cancellation of every second one",
    expects="one answer to each of the other six",
    why="cancelling one call ends others",
)
async def every_second_call(subject: Subject) -> None:
    params = params_with_duration(subject.need_tool("slow"), SLOW_CALL_S)
    ids = [subject.next_id() for _ in range(12)]
    for id in ids:
        await subject.send(subject.message("tools/call", params, id=id))
    # A server may run the calls one by one.
    await subject.barrier(timeout=TWELVE_CALLS_TIMEOUT_S)
    for id in ids[::2]:
        await subject.notify(CANCELLED, {"requestId": id})
    for id in ids[1::2]:
        await subject.wait_answer(id, timeout=TWELVE_CALLS_TIMEOUT_S)
        subject.expect_one_answer(id)
