# SPDX-License-Identifier: Apache-2.0
"""What the scripts here share: an engine to look at, and counting."""
import os
import shutil
import socket
import subprocess
import sys
import tempfile

passed, failed = 0, 0


def expect(what, good, seen=""):
    global passed, failed
    if good:
        passed += 1
    else:
        failed += 1
        print("FAIL %s: %s" % (what, str(seen)[:600]))


def end():
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(failed != 0)


class Engine:
    """tests/views/serve in a folder of its own."""

    def __init__(self, *args, folder=None):
        self.dir = folder or tempfile.mkdtemp(prefix="kvmm-views-")
        self.path = os.path.join(self.dir, "engine.sock")
        self.process = subprocess.Popen(["tests/views/serve", self.dir, *args], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self.process.stdout.readline() != "ready\n":
            sys.exit("the engine did not start")
        os.environ["KVMM_SOCKET_DIR"] = self.dir
        os.environ.pop("KVMM_SOCKET", None)

    def end(self):
        self.process.stdin.close()
        code = self.process.wait(30)
        shutil.rmtree(self.dir)
        expect("the engine ends well", code == 0, code)

    def kill(self):
        self.process.kill()
        self.process.wait(30)

    def ask(self, line):
        """The answer's head, and its body."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(20)
            s.connect(self.path)
            file = s.makefile("rwb")
            file.readline()
            file.write(line.encode() + b"\n")
            file.flush()
            head = file.readline().decode().split()
            return head, file.read(int(head[-1])).decode()

    def table(self, line):
        """Rows as dictionaries; None: it was refused."""
        head, body = self.ask(line)
        if head[0] != "ok":
            return None
        lines = body.splitlines()
        names = [name.split(":")[0] for name in lines[0][1:].split("\t")]
        return [dict(zip(names, row.split("\t"))) for row in lines[1:]]


def run(*args, text=True, **more):
    return subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=text,
                          stdin=subprocess.DEVNULL, timeout=60, **more)
