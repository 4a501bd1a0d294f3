# SPDX-License-Identifier: Apache-2.0
"""What stands on a terminal after some bytes: as much of an xterm as curses programs use."""
import re

TOKEN = re.compile(rb"\x1b\[([?>!]?)([0-9;]*)([@-~])|\x1b[()][0-9A-Za-z]|\x1b.|[\x00-\x1f]|"
                   rb"[\x20-\x7e]|[\xc2-\xf4][\x80-\xbf]+", re.S)


class Terminal:
    def __init__(self, lines, columns):
        self.size(lines, columns)

    def size(self, lines, columns):
        self.lines, self.columns = lines, columns
        self.line = self.column = 0
        self.top, self.bottom = 0, lines - 1
        self.last = " "
        self.rows = [[" "] * columns for i in range(lines)]
        self.rest = b""

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.rows)

    def feed(self, data):
        data = self.rest + data
        at = 0
        while at < len(data):
            token = TOKEN.match(data, at)
            # Half a token at the end waits for the other half.
            if not token or (token.end() == len(data) and data[at] >= 0x80 and token.end() - at < 3):
                break
            at = token.end()
            if token.group(3):
                self.control(token.group(1), token.group(2), token.group(3).decode())
            else:
                self.plain(token.group(0))
        self.rest = data[at:]

    def put(self, char):
        if self.column >= self.columns:
            self.column = 0
            self.down()
        self.rows[self.line][self.column] = self.last = char
        self.column += 1

    def down(self):
        if self.line == self.bottom:
            self.scroll(self.top, 1)
        elif self.line < self.lines - 1:
            self.line += 1

    def scroll(self, top, nr):
        """Lines from @top to the bottom of the region go up; down if @nr < 0."""
        for i in range(abs(nr)):
            empty = [" "] * self.columns
            if nr > 0:
                del self.rows[top]
                self.rows.insert(self.bottom, empty)
            else:
                del self.rows[self.bottom]
                self.rows.insert(top, empty)

    def plain(self, token):
        if token == b"\r":
            self.column = 0
        elif token in (b"\n", b"\x1bD"):
            self.down()
        elif token == b"\b":
            self.column = max(self.column - 1, 0)
        elif token == b"\t":
            self.column = min((self.column // 8 + 1) * 8, self.columns - 1)
        elif token == b"\x1bM":
            if self.line == self.top:
                self.scroll(self.top, -1)
            else:
                self.line = max(self.line - 1, 0)
        elif token[0] >= 0x20:
            self.put(token.decode(errors="replace"))

    def erase(self, first, last):
        for at in range(first, last):
            self.rows[at // self.columns][at % self.columns] = " "

    def control(self, private, args, code):
        if private:
            return
        numbers = [int(n or 0) for n in args.split(b";")]
        n = numbers[0] or 1
        here = self.line * self.columns + min(self.column, self.columns - 1)
        row = self.rows[self.line]
        if code in "Hf":
            self.line = min(n, self.lines) - 1
            self.column = min((numbers[1] or 1) if len(numbers) > 1 else 1, self.columns) - 1
        elif code == "d":
            self.line = min(n, self.lines) - 1
        elif code in "G`":
            self.column = min(n, self.columns) - 1
        elif code == "A":
            self.line = max(self.line - n, 0)
        elif code == "B":
            self.line = min(self.line + n, self.lines - 1)
        elif code == "C":
            self.column = min(self.column + n, self.columns - 1)
        elif code == "D":
            self.column = max(self.column - n, 0)
        elif code == "K":
            start = self.line * self.columns
            self.erase(here if numbers[0] == 0 else start, here + 1 if numbers[0] == 1 else
                       start + self.columns)
        elif code == "J":
            self.erase(here if numbers[0] == 0 else 0, here + 1 if numbers[0] == 1 else
                       self.lines * self.columns)
        elif code == "X":
            self.erase(here, min(here + n, (self.line + 1) * self.columns))
        elif code == "b":
            for i in range(n):
                self.put(self.last)
        elif code == "@":
            row[self.column:] = ([" "] * n + row[self.column:])[:self.columns - self.column]
        elif code == "P":
            row[self.column:] = (row[self.column + n:] + [" "] * n)[:self.columns - self.column]
        elif code == "L":
            self.scroll(self.line, -n)
        elif code == "M":
            self.scroll(self.line, n)
        elif code == "S":
            self.scroll(self.top, n)
        elif code == "T":
            self.scroll(self.top, -n)
        elif code == "r":
            self.top = n - 1
            self.bottom = (numbers[1] if len(numbers) > 1 and numbers[1] else self.lines) - 1
            self.line = self.column = 0
