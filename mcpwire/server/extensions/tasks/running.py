"""One task while it runs here: its handler, what it asks, and who waits for it.

How it stands is a value (`protocol.tasks`); here it is replaced step by step, each step
at once and without waiting, and then written to the store. So whoever reads it in this
process sees the newest, and of several writes the last one counts.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import InternalError, RequestTimeout, RPCError
from mcpwire.protocol.tasks import (
    EVICTED,
    EXPIRED,
    INTERRUPTED,
    check_task_can_ask,
    relate_to_task,
    write_legacy_task,
)
from mcpwire.server.dispatcher import run_handler
from mcpwire.server.log_limit import LimitedLogger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from mcpwire.protocol.tasks import TaskRecord
    from mcpwire.server.extensions.tasks.store import TaskStore
    from mcpwire.server.request import RequestContext

    Body = Callable[[RequestContext], Awaitable[dict[str, Any]]]
    """Runs a handler to the result of its call; may raise what handlers raise."""

__all__ = ["Question", "RunningTask"]

PROGRESS: Final = "notifications/progress"
STATUS: Final = "notifications/tasks/status"

logger = LimitedLogger("mcpwire")


@attrs.define(eq=False)
class Question:
    """What a handler asks the client, until it is answered or not asked any more."""

    method: str

    params: Mapping[str, Any]

    answer: asyncio.Future[dict[str, Any]]

    is_put: bool = False
    """Whether somebody is putting it to the client right now."""


class RunningTask:
    """A task whose handler runs in this process; see the module's text.

    Args:
        record: The task as the store has it already.
        request: The call that it goes on with.
        store: Where its steps are written.
        clock: Returns seconds since the epoch.
        tell: Called after each step of its status.

    Attributes:
        record: How it stands.
        is_saved: Whether the store knows that.
    """

    def __init__(
        self,
        record: TaskRecord,
        request: RequestContext,
        *,
        store: TaskStore,
        clock: Callable[[], float],
        tell: Callable[[TaskRecord], None],
    ) -> None:
        self.record = record
        self.is_saved = True
        self._store = store
        self._clock = clock
        self._tell = tell
        self._session = request.session
        self._request = request.for_task(ask=self._ask, notify=self._hear)
        self._questions: dict[str, Question] = {}
        self._changed = asyncio.Event()
        self._writing = asyncio.Lock()
        self._job: asyncio.Task[None] | None = None
        self._has_begun = False

    def start(
        self, body: Body, params: dict[str, Any], on_end: Callable[[RunningTask], None]
    ) -> asyncio.Task[None]:
        """Let it run; the task that is returned raises nothing but its cancellation."""
        self._job = asyncio.get_running_loop().create_task(
            self._run(body, params, on_end), name=f"mcpwire-task-{self.record.tool}"
        )
        return self._job

    async def _run(
        self, body: Body, params: dict[str, Any], on_end: Callable[[RunningTask], None]
    ) -> None:
        self._has_begun = True
        if self.record.is_final:
            # Stopped before it began. It begins all the same, and finds itself
            # cancelled: what it was given has to be closed.
            self._stop()
        try:
            self._move(await self._outcome(body, params))
        except asyncio.CancelledError:
            # Who cancelled it said before how it ends, but for the end of the loop.
            self._move(self.record.stop(INTERRUPTED, now=self._clock()))
            raise
        finally:
            self._request.close()
            self._drop_questions()
            try:
                await self.save()
            finally:
                on_end(self)

    async def _outcome(self, body: Body, params: dict[str, Any]) -> TaskRecord:
        """Run the handler and return how the task ends."""
        try:
            async with asyncio.timeout(self.record.ttl) as time_kept:
                result = await run_handler(
                    lambda _, request: body(request), params, self._request
                )
        except RPCError as error:
            return self._failed(error)
        except TimeoutError:
            assert time_kept.expired()  # those of handlers do not come this far
            self._request.is_cancelled = True
            return self.record.stop(EXPIRED, now=self._clock())
        if result.get("resultType", "complete") != "complete":
            tool = self.record.tool
            logger.error("a task of the tool %r did not complete", tool, kind=tool)
            return self._failed(InternalError("the handler failed"))
        return self.record.complete(result, now=self._clock())

    def _failed(self, error: RPCError) -> TaskRecord:
        fields: dict[str, Any] = {"code": error.code, "message": error.message}
        if error.data is not None:
            fields["data"] = error.data
        return self.record.fail(fields, now=self._clock())

    # How it stands...

    def _move(self, record: TaskRecord) -> None:
        before, self.record = self.record, record
        if record is before:
            return
        self.is_saved = False
        self._wake()
        self._tell(record)
        if self._session is not None:
            self._send(STATUS, write_legacy_task(record))

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def save(self) -> None:
        """Write how it stands to the store; where that fails, say so in the log."""
        async with self._writing:
            record = self.record
            if self.is_saved:
                return
            try:
                await self._store.update(record)
            except Exception:  # the boundary of stores: the task must go on
                logger.exception("a task was not written to %r", self._store)
                return
            self.is_saved = self.record is record

    async def wait_for_change(self) -> None:
        """Return when it stands in another way than now, or may be asked for more."""
        await self._changed.wait()

    def cancel(self) -> None:
        """Stop it because its client wants that; nothing where it has ended."""
        self._end(self.record.cancel(now=self._clock()))

    def interrupt(self) -> None:
        """Stop it because its server stops; nothing where it has ended."""
        self._end(self.record.stop(INTERRUPTED, now=self._clock()))

    def evict(self) -> None:
        """Stop it for a task of another client; nothing where it has ended."""
        self._end(self.record.stop(EVICTED, now=self._clock()))

    def _end(self, record: TaskRecord) -> None:
        if record is self.record:
            return
        self._request.is_cancelled = True
        self._move(record)
        if self._has_begun:
            self._stop()

    def _stop(self) -> None:
        assert self._job is not None
        self._job.cancel()

    # What it tells and asks...

    def _send(self, method: str, params: dict[str, Any]) -> None:
        """Tell a session's client; a call that stands alone has nobody to tell.

        The extension, "Task Status Notifications": neither progress nor messages go
        to who listens for tasks.
        """
        session = self._session
        if session is not None and not session.is_closed:
            session.send(method, relate_to_task(params, self.record.id))

    def _hear(self, method: str, params: dict[str, Any]) -> None:
        """Take what the handler tells: where its work is becomes part of its status."""
        if method == PROGRESS and (message := params.get("message")) is not None:
            self.record = self.record.describe(message, now=self._clock())
        self._send(method, params)

    async def _ask(
        self, method: str, params: dict[str, Any], key: str | None = None
    ) -> dict[str, Any]:
        """Wait until the client has answered a question of the handler."""
        check_task_can_ask(method, self._request.revision)
        record, key = self.record.ask(method, params, now=self._clock(), key=key)
        question = Question(method, params, asyncio.get_running_loop().create_future())
        self._questions[key] = question
        try:
            self._move(record)
            await self.save()
            return await question.answer
        finally:
            if self._questions.pop(key, None) is not None:
                # The handler waits no longer; who puts the question sees it at once.
                question.answer.cancel()
                self._settle([key])

    def _settle(self, keys: Iterable[str]) -> None:
        self._move(self.record.settle(frozenset(keys), now=self._clock()))

    def _drop_questions(self) -> None:
        for question in self._questions.values():
            question.answer.cancel()
        self._questions.clear()

    def answer(self, answers: Mapping[str, dict[str, Any]]) -> None:
        """Give the handler what the client answered, by key."""
        for key, answer in answers.items():
            question = self._questions.pop(key, None)
            if question is not None and not question.answer.done():
                question.answer.set_result(answer)
        self._settle(answers)

    async def put_question(self, request: RequestContext) -> bool:
        """Put an open question to the client by way of a request of its own.

        Returns:
            Whether there was one.

        Raises:
            MCPError: The client is gone; somebody else may put the question.
        """
        waiting = (item for item in self._questions.items() if not item[1].is_put)
        key, question = next(waiting, (None, None))
        if key is None or question is None:
            return False
        question.is_put = True
        asking = asyncio.ensure_future(
            request.ask(
                question.method, relate_to_task(question.params, self.record.id)
            )
        )
        try:
            await asyncio.wait(
                {asking, question.answer}, return_when=asyncio.FIRST_COMPLETED
            )
            if asking.done() and not question.answer.done():
                self._take(key, question, asking)
        finally:
            question.is_put = False
            self._wake()  # somebody else may put it, if it is not answered
            asking.cancel()
            # Its end is ours to see, whatever it is.
            await asyncio.gather(asking, return_exceptions=True)
        return True

    def _take(
        self, key: str, question: Question, asking: asyncio.Future[dict[str, Any]]
    ) -> None:
        try:
            self.answer({key: asking.result()})
        except (RPCError, RequestTimeout) as error:
            # Outside a task the handler would get this too.
            del self._questions[key]
            question.answer.set_exception(error)
            self._settle([key])
