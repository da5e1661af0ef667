"""Run a command and print its exit code and resource usage.

::

    python -I launch.py COMMAND ...

The first line of the output is the process id, the second is JSON with the exit code,
CPU time in seconds and peak memory in bytes of the process and the children that it
waited for. If the command cannot be started, the only line is JSON with the errno.
The command's stdout is discarded; its stderr is inherited.

This program is a separate process because a child inherits the peak memory of its
parent, and this parent is small.
"""

from __future__ import annotations

import json
import os
import sys


def main(command: list[str]) -> None:
    """Run the command; print its process id, and then its result."""
    quiet = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    try:
        pid = os.posix_spawnp(command[0], command, os.environ, file_actions=[quiet])
    except OSError as error:
        os.write(1, json.dumps({"errno": error.errno}).encode())
        return
    os.write(1, b"%d\n" % pid)
    _, status, usage = os.wait4(pid, 0)
    unit = 1 if sys.platform == "darwin" else 1024
    result = {
        "exit_code": os.waitstatus_to_exitcode(status),
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "memory": usage.ru_maxrss * unit,
    }
    os.write(1, json.dumps(result).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
