"""Answers a server that asks for an answer of a model: by a text, by a program, or not.

2025-11-25 client/sampling, "User Interaction Model": there SHOULD be a human in the
loop. On a terminal they see what is asked before the program does, and what it answers
before the server does; elsewhere naming the program was leave enough.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from typing import TYPE_CHECKING, Final

from mcpwire.cli.ask.terminal import Left
from mcpwire.cli.text.escape import one_line
from mcpwire.cli.text.quoting import quoted
from mcpwire.errors import InternalError, RPCError
from mcpwire.protocol.client_features import USER_REJECTED
from mcpwire.types import CreateMessageResult, TextContent, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcpwire.cli.ask.host import Asker
    from mcpwire.cli.ask.terminal import Person
    from mcpwire.types import CreateMessageRequestParams

__all__ = ["ask_program", "asked_text", "canned", "rejection", "reviewed"]

CANNED_MODEL: Final = "mcpwire --sample"
MAX_ANSWER: Final = 16 * 1024 * 1024
"""Bytes of a program's answer; no model writes as much."""


def canned(text: str, model: str = CANNED_MODEL) -> CreateMessageResult:
    """Return a text as what a model answered."""
    return CreateMessageResult("assistant", TextContent(text), model, "endTurn")


def rejection(why: str) -> RPCError:
    """Return the answer of somebody who does not want that."""
    return RPCError(why, code=USER_REJECTED)


def asked_text(params: CreateMessageRequestParams) -> str:
    """Write what a server wants a model to read."""
    lines = [f"system: {params.system_prompt}"] if params.system_prompt else []
    for message in params.messages:
        for block in message.blocks:
            text = block.text if isinstance(block, TextContent) else f"[{block.type}]"
            lines.append(f"{message.role}: {text}")
    return "\n".join(lines)


async def reviewed(
    params: CreateMessageRequestParams,
    command: Sequence[str],
    asker: Asker,
    person: Person,
) -> CreateMessageResult:
    """Let the person see what goes to the program, and what it answers.

    Raises:
        RPCError: They do not want that, or the program failed.
    """
    request = asked_text(params)
    person.show(asker.lines("asks for an answer of a model", request, person))
    most = f"at most {params.max_tokens:,} tokens"
    person.show([f"  {most}; the program is {one_line(command[0])}"])
    await _agree(person, "y runs the program, d declines > ")
    result = await ask_program(params, command, asker)
    person.show(["The program answers:", *quoted(result.text, person.width)])
    await _agree(person, "y sends that, d declines > ")
    return result


async def _agree(person: Person, question: str) -> None:
    person.forget()
    try:
        while True:
            text = (await person.ask(question)).lower().removeprefix("!")
            if text in {"y", "yes"}:
                return
            if text in {"d", "n", "no", "decline", "c", "cancel"}:
                break
    except Left:
        pass
    raise rejection("the user declined")


async def ask_program(
    params: CreateMessageRequestParams, command: Sequence[str], asker: Asker
) -> CreateMessageResult:
    """Have a program answer: it reads the request as JSON and prints a text.

    Raises:
        RPCError: It cannot be run, or it failed.
    """
    request = json.dumps(encode(params, asker.revision)).encode()
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            process_group=0,
        )
    except (OSError, ValueError) as error:
        raise InternalError(f"the client's program cannot be run: {error}") from error
    try:
        answer, _ = await process.communicate(request)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode:
        raise InternalError(f"the client's program ended with {process.returncode}")
    if len(answer) > MAX_ANSWER:
        raise InternalError("the client's program answered too much")
    text = answer.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
    return canned(text, command[0])
