"""Import a framework once, and fork each requested program from there.

    python forkserver.py DESCRIPTOR MODULE...

Runs in the environment of a real server, so it needs the standard library only. It
listens on the socket that it inherits. `launch.py` sends the program to run and its own
standard streams; the fork runs it like `python program`, and `launch.py` receives the
exit code. If `launch.py` ends, the program is killed.
"""

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
from pathlib import Path

SIZE_BYTES = 4


def receive(requester):
    """Return the request and the three descriptors that it contains."""
    data, streams, _, _ = socket.recv_fds(requester, 65536, 3)
    while len(data) < SIZE_BYTES or len(data) < SIZE_BYTES + size_of(data):
        data += requester.recv(65536)
    return json.loads(data[SIZE_BYTES:]), streams


def size_of(data):
    return int.from_bytes(data[:SIZE_BYTES], "big")


def watch(program, requester):
    """Send the exit code of the program, or kill it when the requester has ended."""
    gone = os.pidfd_open(program)
    ready, _, _ = select.select([gone, requester], [], [])
    if gone not in ready:
        os.kill(program, signal.SIGKILL)
    _, status = os.waitpid(program, 0)
    try:
        requester.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    except OSError:  # the requester has ended
        return


def serve(listener):
    """Return the request to run, in a process forked for it."""
    # The watching forks are not waited for: the kernel reaps them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        requester, _ = listener.accept()
        if os.fork():
            requester.close()
            continue
        listener.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        request, streams = receive(requester)
        program = os.fork()
        if program:
            for stream in streams:
                os.close(stream)
            watch(program, requester)
            os._exit(0)
        requester.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        return request


def main():
    listener = socket.socket(fileno=int(sys.argv[1]))
    for name in sys.argv[2:]:
        importlib.import_module(name)
    gc.freeze()
    request = serve(listener)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    words = request["argv"]
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path[0] = request["cwd"]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path[0] = str(Path(words[0]).resolve().parent)
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    main()
