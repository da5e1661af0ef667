"""Let a fork server run a program, and act as it: streams, exit code, signals.

python -I -S launch.py SOCKET PROGRAM [ARGUMENT]...
"""

import json
import os
import signal
import socket
import sys

STREAMS = (0, 1, 2)


def main():
    server = socket.socket(socket.AF_UNIX)
    server.connect(sys.argv[1])
    request = {"argv": sys.argv[2:], "env": dict(os.environ), "cwd": os.getcwd()}  # noqa: PTH109 - pathlib starts slowly
    data = json.dumps(request).encode()
    data = len(data).to_bytes(4, "big") + data
    sent = socket.send_fds(server, [data], STREAMS)
    server.sendall(data[sent:])
    # From here on only the program has them open, so that its end can be detected.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in STREAMS:
        os.dup2(nowhere, stream)
    code = int(server.recv(16) or -signal.SIGKILL)
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
