# SPDX-License-Identifier: Apache-2.0
"""Programs that want a terminal, and have one."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from engine import expect
from terminal import Terminal

LEAVE = b"\x1b[?1049l"	# xterm: the screen that was there before


class Screen:
    """A program on a terminal of ours."""

    def __init__(self, *args, term="xterm-256color", lang="C.UTF-8", size=(40, 100)):
        self.master, self.slave = pty.openpty()
        self.terminal = Terminal(*size)
        self.resize(*size)
        self.before = termios.tcgetattr(self.slave)
        env = dict(os.environ, TERM=term, LC_ALL=lang)
        env.pop("LINES", None)
        env.pop("COLUMNS", None)
        self.process = subprocess.Popen(args, env=env, stdin=self.slave,
                                        stdout=self.slave, stderr=subprocess.PIPE,
                                        start_new_session=True)
        self.all = b""

    def resize(self, lines, columns):
        self.terminal.size(lines, columns)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            data = os.read(self.master, 65536)
            self.all += data
            self.terminal.feed(data)
            return True
        return False

    def wait_for(self, what, pattern, seconds=20):
        """Until that can be seen."""
        until = time.monotonic() + seconds
        while not re.search(pattern, self.terminal.text(), re.S | re.M):
            if time.monotonic() > until or not self.read(0.1) and self.process.poll() is not None:
                expect(what, False, "\n" + self.terminal.text())
                return
        expect(what, True)

    def press(self, keys):
        os.write(self.master, keys.encode())

    def end(self, what, code):
        until = time.monotonic() + 20
        while self.process.poll() is None and time.monotonic() < until:
            self.read(0.1)
        while self.read(0):
            pass
        expect(what + ": it ends", self.process.poll() is not None)
        self.process.kill()
        expect(what + ": exit code", self.process.wait() == code, self.process.returncode)
        expect(what + ": the terminal is as before", termios.tcgetattr(self.slave) == self.before)
        if b"\x1b[?1049h" in self.all:
            expect(what + ": the screen is left", self.all.rfind(LEAVE) > self.all.rfind(b"\x1b[?1049h"))
            expect(what + ": the cursor is there", self.all.rfind(b"\x1b[?25h") > self.all.rfind(b"\x1b[?25l"))
        err = self.process.stderr.read().decode()
        self.process.stderr.close()
        os.close(self.master)
        os.close(self.slave)
        return err
