"""A few lines of Python as a real child process that speaks MCP, or fails to."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

from mcpwire.transports.stdio.target import Stdio

__all__ = ["scripted_command"]


def scripted_command(
    script: str, *args: str, imports: bool = False, **options: Any
) -> Stdio:
    """Return the command of a server that runs these lines of Python.

    ::

        target = scripted_command('''
            handshake()
            request = recv()
            send("no message")
            answer(request, text("hi"))
        ''')

    At hand are ``recv()``, ``send(message)``, ``raw(data)``, ``text(value)``,
    ``answer(request, result)``, ``fail(request, code, message)``,
    ``notify(method, params)``, ``ask(id, method, params)``, ``handshake(version)``,
    ``serve(answers)`` (see `mcpwire.testing.child`) and the modules json, os, signal,
    sys and time. ``recv`` ends the process when the input ends.

    Args:
        script: The lines; what they are indented by in common does not count.
        args: What the lines find in ``sys.argv[1:]``.
        imports: Whether installed packages can be imported, which costs some
            milliseconds at the start.
        options: What `Stdio` takes: `env`, `inherit_env`, `cwd`, `stderr`.
    """
    program = str(Path(__file__).with_name("child.py"))
    flags = ["-P"] if imports else ["-P", "-S"]
    lines = textwrap.dedent(script).strip("\n")
    return Stdio(sys.executable, [*flags, program, lines, *args], **options)
