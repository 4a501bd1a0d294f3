#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kvmm-top: pages in --batch mode, and on terminals of ours, small and large, of many colours and of few: keys,
a new size, signals, an engine that goes away and comes back; and that the terminal is as it was afterwards.
Run from the object tree."""
import os
import re
import signal
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["KVMM_SRCTREE"], "tests/views"))
from engine import Engine, end, expect, run  # noqa: E402
import screen as screens  # noqa: E402

TOP = "tools/kvmm-top"
PINNED = "^(#+P+|P+#+)$"


class Screen(screens.Screen):
    def __init__(self, *args, **more):
        super().__init__(TOP, "-d", "0.2", *args, **more)


def batch():
    out = run(TOP, "--batch", "-n", "2", "-d", "0.1")
    expect("two pages", out.returncode == 0 and out.stdout.count("kvmm-top - engine: kv") == 2, out)
    expect("no colours", "\x1b" not in out.stdout)
    page = out.stdout.split("\n\nkvmm-top")[0]
    expect("blocks", re.search(r"^Blocks +4096 total +1574 used +64 cached +2458 free ", page, re.M) or
           re.search(r"^Blocks +4096 total .* 64 cached ", page, re.M), page)
    # 12 lines of 80: 4.27 blocks a letter
    cells = "".join(line for line in page.splitlines() if len(line) == 80 and set(line) <= set(".#PpacmM-"))
    expect("the map is whole", len(cells) == 960, page)
    for letter, blocks in (("#", 1320), ("P", 120), ("a", 64), ("c", 64)):
        expect("as many %s as there are blocks" % letter,
               abs(cells.count(letter) - blocks * 960 / 4096) <= 3, cells.count(letter))
    expect("in order", re.match(r"#+P+#+a+c+p+\.+$", cells), cells)
    expect("owners", re.search(r"^ +200 +800 ", page, re.M), page)
    out = run(TOP, "--batch", "--table", "sequences", "--width", "120")
    expect("sequences", re.search(r"^ +8 +320 ", out.stdout, re.M), out.stdout)
    out = run(TOP, "--batch", "--table", "owners", "--sort", "pinned")
    expect("sorted", re.search(r"HELD\n +100 ", out.stdout), out.stdout)
    out = run(TOP, "--batch", "--by-owner")
    expect("by owner", re.search(r"^W+S+W+S+$", out.stdout, re.M), out.stdout)	# 100 and 200
    for args in (("-d", "0"), ("-n", "0"), ("-w", "10"), ("--sort", "x"), ("more",), ("-p", "")):
        expect("bad usage %s" % (args,), run(TOP, "-b", *args).returncode == 2)
    out = run(TOP, "-b", "-p", "none")
    expect("no such pool", out.returncode == 1 and "none" in out.stderr, out)
    out = run(TOP)
    expect("no terminal", out.returncode == 1 and "--batch" in out.stderr, out)


def keys():
    screen = Screen()
    screen.wait_for("the first page", "kvmm-top - engine: kv.*OWNER.* 800 ")
    expect("half blocks", "\u2580" * 100 in screen.terminal.text(), screen.terminal.text())
    screen.press("?")
    screen.wait_for("help", "kvmm-top: keys.*half blocks")
    screen.press("?")
    screen.wait_for("and back", "^Blocks +4096")
    screen.press("?")
    screen.wait_for("help", "kvmm-top: keys")
    screen.press("\x1b")
    screen.wait_for("back by Escape", "^Blocks +4096")
    screen.press("t")
    screen.wait_for("sequences", "SEQUENCE.*^ +8 +320 ")
    screen.press("t")
    screen.wait_for("holds", "decode-7")
    screen.press("t")
    screen.wait_for("owners", "HELD *$\n +200 ")
    screen.press("s")
    screen.wait_for("by pinned blocks", "HELD *$\n +100 ")
    screen.press("o")
    screen.wait_for("by owner", "a colour an owner")
    screen.press("u")
    screen.wait_for("letters", "^(W+S+|S+W+)$")
    screen.press("o")
    screen.wait_for("by state", PINNED)
    screen.press("p")
    screen.wait_for("paused", "PAUSED$")
    while screen.read(0.3):
        pass
    text = screen.terminal.text()
    screen.read(0.7)
    expect("nothing changes meanwhile", screen.terminal.text() == text)
    screen.press(" ")
    screen.press("+")
    screen.wait_for("slower, and not paused", "every 0.4 s$")
    screen.press("-")
    screen.wait_for("faster", "every 0.2 s$")
    screen.press("nrx")
    screen.resize(50, 140)
    os.kill(screen.process.pid, signal.SIGWINCH)
    screen.wait_for("a larger screen", "^#{140}$")
    screen.press("q")
    expect("q: nothing is said", screen.end("q", 0) == "")


def small():
    """Nothing is cut in 80 columns, and what is asked for first is in 24 lines."""
    screen = Screen(size=(24, 80))
    screen.wait_for("a small screen", "^moves .*/s.*^failed .*/s.* 800 .*\\n *300 ")
    lines = screen.terminal.text().splitlines()
    for words in ("every 0.2 s$", "^Blocks .* away$", "^Used .*active 64$", "^Free .* 16.0M of 4.0K each$",
                  "^Per s .* failed$", "^Moves .* waiting$", "^\\. free .* away$", "OWNER .* HELD$"):
        expect("a whole line: " + words, any(re.search(words, line) for line in lines), "\n".join(lines))
    expect("a map", sum(line == "\u2580" * 80 for line in lines) >= 7, "\n".join(lines))
    expect("no line is longer", all(len(line) <= 80 for line in lines))
    screen.press("?")
    screen.wait_for("all of the help", "is the next pool$|moving block is seen in any case")
    screen.press("?tt")
    screen.wait_for("all of a hold", "^ +300 +64 +0 +[0-9.]+ transfer +decode-7$")
    screen.press("q")
    screen.end("small", 0)


def large():
    screen = Screen(size=(60, 200))
    screen.wait_for("a large screen", "^used +[_\u2581-\u2588]{3,} 37%, most 37%$")
    screen.wait_for("the map has all lines that nothing else needs", "(^\u2580{200}\n){40,}^\\. free")
    expect("many colours", b"38;5;33" in screen.all, screen.all[:300])
    screen.press("o")
    screen.press("q")
    screen.end("large", 0)


def few_colours():
    screen = Screen(term="xterm")
    screen.wait_for("8 colours: half blocks", "^\u2580{100}$")
    expect("no others", b"38;5;" not in screen.all and b"\x1b[34" in screen.all, screen.all[:300])
    screen.press("q")
    screen.end("8 colours", 0)
    with tempfile.TemporaryDirectory(prefix="kvmm-terminfo-") as folder:
        text = subprocess.run(["infocmp", "xterm"], capture_output=True, text=True).stdout
        text = re.sub(r"colors#\w+", "colors#16", re.sub(r"pairs#\w+", "pairs#256", text))
        text = re.sub(r"setab=[^,]*", r"setab=\\E[%?%p1%{8}%<%t4%p1%d%e%p1%{92}%+%d%;m", text)
        text = re.sub(r"setaf=[^,]*", r"setaf=\\E[%?%p1%{8}%<%t3%p1%d%e%p1%{82}%+%d%;m", text)
        with open(folder + "/source", "w") as file:
            file.write(re.sub(r"^xterm\|", "kvmm-16|", text, flags=re.M))
        if not text or subprocess.run(["tic", "-x", "-o", folder, folder + "/source"]).returncode:
            print("skipped: 16 colours, without infocmp and tic")
            return
        os.environ["TERMINFO"] = folder
        screen = Screen(term="kvmm-16")
        screen.wait_for("16 colours: half blocks", "^\u2580{100}$")
        expect("bright ones", re.search(rb"\x1b\[(\d+;)*94", screen.all), screen.all[:600])
        screen.press("q")
        screen.end("16 colours", 0)
        del os.environ["TERMINFO"]


def ends():
    screen = Screen(lang="C")
    screen.wait_for("no UTF-8: letters", PINNED)
    expect("no half blocks", "\u2580".encode() not in screen.all)
    screen.process.send_signal(signal.SIGTERM)
    screen.end("SIGTERM", 0)
    screen = Screen(term="vt100")
    screen.wait_for("no colours: letters", PINNED)
    screen.wait_for("and strips of letters", "^used +[-=]+ 37%")
    screen.process.send_signal(signal.SIGINT)
    screen.end("an interrupt", 0)
    screen = Screen(size=(3, 10))
    screen.wait_for("a tiny screen", "kvmm-top")
    screen.press("?q")
    screen.end("tiny", 0)
    screen = Screen("-n", "2")
    screen.end("so many looks", 0)


def engine_goes(engine):
    screen = Screen(size=(24, 80))
    screen.wait_for("the first page", "kvmm-top - engine: kv.*every 0.2 s$")
    engine.kill()
    screen.wait_for("it is waited for, and the last page stays", "kv, one .*; WAITING:.*^Blocks .* 800 ")
    engine = Engine(folder=engine.dir)
    screen.wait_for("it has come back", "every 0.2 s\nBlocks .* 800 ")
    engine.kill()
    os.unlink(engine.path)
    screen.wait_for("it is waited for again", "; WAITING:")
    screen.press("q")
    err = screen.end("the engine goes away", 1)
    expect("that is said", re.match(r"kvmm-top: .+\n$", err), err)
    screen = Screen("--pool", "kv", size=(24, 80))
    screen.wait_for("it is waited for from the start", "^kvmm-top: WAITING for an engine.*no engine")
    engine = Engine(folder=engine.dir)
    screen.wait_for("there it is", "^kvmm-top - engine: kv.* 800 ")
    screen.press("q")
    screen.end("it has come", 0)
    screen = Screen("--pool", "none", size=(24, 80))
    screen.wait_for("a pool is waited for", "WAITING.*none")
    screen.process.send_signal(signal.SIGTERM)
    screen.end("a pool has not come", 1)
    engine.kill()
    os.unlink(engine.path)
    out = run(TOP, "-b")
    expect("no engine", out.returncode == 1 and "no engine" in out.stderr, out)
    shutil.rmtree(engine.dir)


if not os.path.exists(TOP):
    print("no kvmm-top: skipped")
    end()
engine = Engine()
batch()
keys()
small()
large()
few_colours()
ends()
engine_goes(engine)
end()
