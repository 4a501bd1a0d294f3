# SPDX-License-Identifier: Apache-2.0
"""Look at the pools of a running process by its control socket.

usage: python -m kvmm [--socket PATH] COMMAND [ARGUMENT...]
COMMAND is "stat" (all numbers of a pool), "pools", "tiers", "classes", "pressure", "leaks",
"latencies" or any other that "help" lists. Without --socket: $KVMM_SOCKET, or the only socket in
$KVMM_SOCKET_DIR, $XDG_RUNTIME_DIR/kvmm or /run/kvmm.
"""
from __future__ import annotations

import glob
import io
import os
import socket
import sys



def default_socket() -> str:
    given = os.environ.get("KVMM_SOCKET")
    if given:
        return given
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = (os.environ.get("KVMM_SOCKET_DIR") or (runtime and os.path.join(runtime, "kvmm")) or
              "/run/kvmm")
    found = glob.glob(os.path.join(folder, "*.sock"))
    if len(found) != 1:
        sys.exit(f"kvmm: {len(found)} sockets in {folder}; name one with --socket")
    return found[0]


def ask(stream: io.BufferedRWPair, command: str) -> tuple[int, str]:
    """Errno (0: none) and the answer's text."""
    stream.write(command.encode() + b"\n")
    stream.flush()
    words = stream.readline().split()
    if len(words) < 2 or words[0] not in (b"ok", b"err"):
        sys.exit("kvmm: this is no control socket of kvmm's")
    errno = int(words[1]) if words[0] == b"err" else 0
    return errno, stream.read(int(words[-1])).decode(errors="replace")


def table(text: str) -> str:
    rows = [line.split("\t") for line in text.splitlines()]
    if not rows or not rows[0][0].startswith("#"):
        return text
    rows[0] = [name.removesuffix(":s") for name in [rows[0][0][1:], *rows[0][1:]]]
    if len(rows) == 2:                              # one row: a line for each number
        rows = [list(pair) for pair in zip(*rows)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(f"{cell:{w}}" for cell, w in zip(row, widths)).rstrip()
                     for row in rows) + "\n"


def main() -> None:
    words = sys.argv[1:]
    path = None
    if words[:1] == ["--socket"] and len(words) > 1:
        path, words = words[1], words[2:]
    if not words or words[0] in ("-h", "--help"):
        sys.exit(__doc__)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        try:
            connection.connect(path or default_socket())
            stream = connection.makefile("rwb")
            stream.readline()                       # the greeting
            errno, text = ask(stream, " ".join(words))
        except OSError as error:
            sys.exit(f"kvmm: {error}")
    if errno:
        sys.exit(f"kvmm: {text}")
    sys.stdout.write(table(text))


if __name__ == "__main__":
    main()
