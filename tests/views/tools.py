#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What all tools have in common: --help with examples and exit codes, --version, the same options for the
same thing, what they say to bad usage, without an engine and to those that are none, valid JSON, what happens
when nobody reads, no colours but on a terminal; and manual pages that man takes without a warning, in which each
option is. Run from the object tree."""
import fcntl
import glob
import json
import os
import pty
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

sys.dont_write_bytecode = True
SRCTREE = os.environ["KVMM_SRCTREE"]
sys.path.insert(0, os.path.join(SRCTREE, "tests/views"))
from engine import Engine, end, expect, run  # noqa: E402

TOOLS = sorted(t for t in glob.glob("tools/kvmm-*") if "." not in os.path.basename(t))
FILE = "FILE"	# stands for one that may be written
# Calls that want an engine: the tool, its arguments, and how --json is: None, "one" (document), or "lines".
LIVE = [(tool, args.split(), json) for tool, args, json in (
    ("kvmm-top", "--batch", None), ("kvmm-top", "", "one"), ("kvmm-slabtop", "--once", "one"),
    ("kvmm-stat", "", "lines"), ("kvmm-stat", "-p kv -i 0.05 -n 2", "lines"), ("kvmm-stat", "kv 0.05 2", "lines"),
    ("kvmm-stat", "pool", "one"), ("kvmm-stat", "pool -p kv", "one"), ("kvmm-stat", "tiers", "one"),
    ("kvmm-stat", "tenants -p kv", "one"), ("kvmm-stat", "classes", "one"),
    ("kvmm-stat", "leaks kv", "one"), ("kvmm-stat", "leaks -p kv 60000", "one"), ("kvmm-stat", "pressure kv", "one"),
    ("kvmm-stat", "families", "one"), ("kvmm-stat", "metrics", None), ("kvmm-stat", "metrics -p kv", None),
    ("kvmm-stat", "buddyinfo kv", None), ("kvmm-stat", "pagetypeinfo", None), ("kvmm-stat", "slabinfo", None),
    ("kvmm-stat", "vmstat -p kv", None), ("kvmm-stat", "pressure-text", None),
    ("kvmm-dump", "snapshot", None), ("kvmm-dump", "show", "one"), ("kvmm-dump", "pickle", None),
    ("kvmm-dump", "graphviz", None), ("kvmm-dump", "record -n 2 -i 0.02 " + FILE, None),
    ("kvmm-defrag", "plan --live --goal shorten", None), ("kvmm-defrag", "status --live", "one"),
    ("kvmm-defrag", "config -l", "one"), ("kvmm-defrag", "watch --live -n 2 -i 0.05", "lines"),
    ("kvmm-migrate", "status", "one"), ("kvmm-migrate", "status -p kv", "one"),
    ("kvmm-events", "tail --seconds 1", "lines"), ("kvmm-events", "names", "lines"),
    ("kvmm-events", "record --seconds 1 " + FILE, None), ("kvmm-trace", "record --from lookups --seconds 1", None))]
# Calls that go on until somebody ends them.
ENDLESS = [(tool, args.split()) for tool, args in (
    ("kvmm-stat", "0.05"), ("kvmm-top", "--batch -i 0.05 -n 100000"), ("kvmm-top", "--json -i 0.05 -n 100000"),
    ("kvmm-defrag", "watch --live -i 0.05"), ("kvmm-events", "tail --what all"))]
# What is bad usage.
BAD = [(tool, args.split()) for tool, args in (
    ("kvmm-top", "more"), ("kvmm-top", "-i 0"), ("kvmm-top", "-n 0"), ("kvmm-top", "--table x"), ("kvmm-slabtop", "more"),
    ("kvmm-slabtop", "-i x"), ("kvmm-slabtop", "-s x"), ("kvmm-stat", "kv 1 2 3"), ("kvmm-stat", "kv x"),
    ("kvmm-stat", "1 0"), ("kvmm-stat", "-n -1"), ("kvmm-stat", "pool a b"), ("kvmm-stat", "families x"),
    ("kvmm-stat", "metrics --json"), ("kvmm-dump", ""), ("kvmm-dump", "tears x"),
    ("kvmm-dump", "tier"), ("kvmm-dump", "tier a b"), ("kvmm-dump", "record"), ("kvmm-dump", "report"),
    ("kvmm-dump", "show --from x -p kv"), ("kvmm-dump", "pickle --json"), ("kvmm-dump", "record -i 0 x"), ("kvmm-defrag", ""),
    ("kvmm-defrag", "dance"), ("kvmm-defrag", "--live dance"), ("kvmm-defrag", "--live"),
    ("kvmm-defrag", "plan --live"), ("kvmm-defrag", "set --live x"), ("kvmm-defrag", "run --want 0"),
    ("kvmm-migrate", ""), ("kvmm-migrate", "start 1"), ("kvmm-migrate", "cancel"), ("kvmm-migrate", "status --wait x"),
    ("kvmm-events", ""), ("kvmm-events", "nix"), ("kvmm-events", "record"), ("kvmm-events", "tail -n 0"),
    ("kvmm-events", "tail --what x"), ("kvmm-trace", ""), ("kvmm-trace", "convert"), ("kvmm-trace", "record --to x"),
    ("kvmm-replay", ""), ("kvmm-replay", "nix"), ("kvmm-replay", "seq --blocks 0"), ("kvmm-replay", "seq --policy x"),
    ("kvmm-bench", "nix"), ("kvmm-bench", "-s x list"))]
# One letter, and one only, for each name in all tools; what they replay has letters of its own.
LETTERS = {"socket": "S", "pool": "p", "json": "j", "interval": "i", "count": "n", "output": "o", "sort": "s",
           "live": "l", "device": "d", "blocks": "n", "block-tokens": "t", "max-runs": "r", "mark": "m", "verify": "v",
           "want": "w", "seed": "s", "delay": "d"}
REPLAYS = {"kvmm-replay": {"interval"}, "kvmm-defrag": {"interval"}}
# What is no engine: what it says at first, and a word of the complaint.
FALSE = ((b"", "gone"), (b"hello\n", "engine's socket?"), (b"x" * 9000, "engine's socket?"),
         (b"kvmm-control 2 x\n", "version 1"), (b"err 11 17\ntoo many clients\n", "too many clients"),
         (b"kvmm-control 1 x\nok 7\n#a\tb\n1\n", ""), (b"kvmm-control 1 x\nok 99999999999\n", ""),
         (b"kvmm-control 1 x\nok 99999999999999999999\n", ""), (b"kvmm-control 1 x\nok 10\nshort", ""),
         (b"kvmm-control 1 x\nok 5\npool\n", ""), (b"kvmm-control 1 x\nok 5\nx\ty\n\0", ""),
         (b"kvmm-control 1 x\nerr 0 0\n", ""),
         (b"kvmm-control 1 x\nerr 13 12\nnot for you\n", "not for you"))
# Commands with a help of their own.
COMMANDS = {"kvmm-dump": ["snapshot", "record", "report"], "kvmm-defrag": ["--live"]}
WIDE = dict(os.environ, ARGP_HELP_FMT="rmargin=5000,opt-doc-col=60")


def check_help(what, *args):
    out = run(*args, "--help")
    expect(what + " --help: exit code 0", out.returncode == 0, out.stderr)
    expect(what + " --help says how it is called", out.stdout.startswith("Usage: " + what.split(" --")[0]), out.stdout[:80])
    expect(what + " --help has examples", re.search(r"^Examples?:\n  .*kvmm-", out.stdout, re.M))
    codes = re.search(r"^Exit code: 0 .*; 1\s.*;\s+2\s+", out.stdout, re.M | re.S)
    expect(what + " --help has exit codes", codes, out.stdout[-300:])
    expect(what + " --help has no colours", "\x1b" not in out.stdout)
    wide = [line for line in out.stdout.splitlines() if len(line) > 110]
    expect(what + " --help is not wide", not wide, wide)
    return out.stdout


def check_tool(tool):
    name = os.path.basename(tool)
    check_help(name, tool)
    for command in COMMANDS.get(name, []):
        check_help("%s %s" % (name, command), tool, command)
    out = run(tool, "--version")
    expect(name + " --version", out.returncode == 0 and
           re.fullmatch(name + r" \d+\.\d+\.\d+\n", out.stdout), out)
    for args in (["--no-such-flag"], ["--help=x"]):
        out = run(tool, *args)
        expect("%s %s: exit code 2" % (name, args[0]), out.returncode == 2, out.returncode)
        expect("%s %s: why, on stderr" % (name, args[0]), "Try `" in out.stderr and not out.stdout, out)


def check_letters(name, *args):
    options = re.findall(r"^ {2,6}(?:-(\S), )?((?:--[a-z-]+(?:=\S+)?(?:, )?)+)", run("tools/" + name, *args, "--help",
                                                                               env=WIDE).stdout, re.M)
    for letter, names in options:
        for option in re.findall(r"--([a-z-]+)", names):
            if option in LETTERS and option not in (() if args else REPLAYS.get(name, ())):
                expect("%s%s --%s is -%s" % (name, args, option, LETTERS[option]), LETTERS[option] in letter, (letter, names))


def call(tool, args, folder, **more):
    return run("tools/" + tool, *[a.replace(FILE, folder + "/written") for a in args], **more)


def complains(what, tool, out, word="", code=1):
    """One line, with the name of the tool; nothing else."""
    expect("%s: exit code %d" % (what, code), out.returncode == code, out)
    expect(what + ": why", out.stderr.startswith(tool + ": ") and out.stderr.count("\n") == 1 and word in out.stderr and
           not out.stdout, out)


def check_bad_usage():
    for tool, args in BAD:
        out = run("tools/" + tool, *args)
        what = " ".join([tool, *args])
        expect(what + ": exit code 2", out.returncode == 2, out)
        expect(what + ": why, and what helps", re.match(r"%s( \w+)?: .*\nTry `%s|Usage: " % (tool, tool), out.stderr) and not
               out.stdout, out)


def check_without_engine(folder):
    env = {k: v for k, v in os.environ.items() if not k.startswith("KVMM_SOCKET")}
    os.mkdir(folder + "/empty", 0o700)
    os.mkdir(folder + "/several", 0o700)
    servers = [socket.socket(socket.AF_UNIX) for _ in range(3)]
    for server, name in zip(servers, ("several/one.sock", "several/two.sock", "dead.sock")):
        server.bind(folder + "/" + name)
    for server in servers[:2]:
        server.listen(1024)
    for tool, args, _ in LIVE:
        what = " ".join([tool, *args])
        for where, word in (("empty", "no engine serves one"), ("none", "no such folder"),
                            ("several", "one.sock"), ("several", "--socket")):
            out = call(tool, args, folder, env=dict(env, KVMM_SOCKET_DIR=folder + "/" + where))
            complains("%s, %s" % (what, where), tool, out, word)
        out = call(tool, args, folder, env=dict(env, KVMM_SOCKET=folder + "/none.sock"))
        complains(what + ", wrong path", tool, out, "no such socket")
        out = call(tool, [*args, "-S", folder + "/dead.sock"], folder, env=env)
        complains(what + ", nobody listens", tool, out, "nobody listens")
    for server in servers:
        server.close()


def check_false_engines(folder):
    """Whatever it says, they end, with 1 and one sentence."""
    path = folder + "/false.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(64)
        said = [b""]

        def serve():
            while True:
                try:
                    one, _ = server.accept()
                except OSError:	# closed
                    return
                with one:
                    one.sendall(said[0])
                    one.shutdown(socket.SHUT_WR)
                    try:
                        one.recv(4096)
                    except ConnectionError:
                        pass

        threading.Thread(target=serve, daemon=True).start()
        for text, word in FALSE:
            said[0] = text
            for tool, args in {tool: args for tool, args, _ in reversed(LIVE)}.items():
                out = call(tool, [*args, "--socket", path], folder)
                complains("%s, and an engine says %s" % (tool, text[:30]), tool, out, word)
        server.shutdown(socket.SHUT_RDWR)


def check_json(what, text, how):
    try:
        for part in [text] if how == "one" else text.splitlines():
            json.loads(part)
    except ValueError as error:
        expect(what + ": is JSON", False, (error, text[:300]))
        return
    expect(what + ": is JSON", True)


def check_with_engine(folder, engine):
    for tool, args, how in LIVE:
        what = " ".join([tool, *args])
        if args or tool != "kvmm-top":	# which wants a terminal
            out = call(tool, args, folder, text=False)
            empty = "lookups" in args	# there is none
            expect(what + ": exit code", out.returncode == empty, out)
            expect(what + ": nothing to complain about", bool(out.stderr) == empty, out.stderr)
            expect(what + ": no colours", b"\x1b" not in out.stdout or "pickle" in args)
        if how:
            out = call(tool, [*args, "--json"], folder)
            expect(what + " --json: exit code", out.returncode == 0, out)
            check_json(what, out.stdout, how)
        if out.stdout and how and (args or tool != "kvmm-top"):
            with open("/dev/full", "w") as full:
                out = subprocess.run(["tools/" + tool, *args], stdout=full, stderr=subprocess.PIPE, text=True)
            expect(what + ", no room: exit code 1", out.returncode == 1, out)
            expect(what + ", no room: why", re.match(tool + r": (standard )?output: No space", out.stderr), out.stderr)
    for args in (["pool", "-p", "nix"], ["leaks", "nix"], ["nix", "--json"], ["-p", "nix"]):
        complains(" ".join(["kvmm-stat", *args]), "kvmm-stat", run("tools/kvmm-stat", *args), "there is no pool 'nix'")


def check_closed_pool():
    """Monitoring goes on for the others, each refusal names the pool, and what it looks like can be kept."""
    engine = Engine("closed")
    out = run("tools/kvmm-stat", "metrics")
    expect("closed: metrics", out.returncode == 0 and not out.stderr, out)
    expect("closed: it is said", '\nkvmm_pool_closed{pool="kv",device="host"} 1\n' in out.stdout)
    expect("closed: of the other", '\nkvmm_capacity_blocks{pool="other",device="host"} 8\n' in out.stdout)
    expect("closed: nothing else of it", out.stdout.count('pool="kv"') == 1)
    complains("closed: by name", "kvmm-stat", run("tools/kvmm-stat", "-p", "kv"),
              "the pool 'kv' contradicts itself and is closed")
    out = run("tools/kvmm-dump", "show", "-p", "kv")
    expect("closed: a dump", out.returncode == 0 and "range" in out.stdout and "private" in out.stdout, out)
    expect("closed: with a word", "the pool 'kv' contradicts itself and is closed" in out.stderr, out.stderr)
    out = run("tools/kvmm-top", "--batch", "-n", "2", "-i", "0.05")
    expect("closed: a page of the next one", out.returncode == 0 and
           out.stdout.count(": other, one of 2 pools (1 closed: kv);") == 2, out)
    out = run("tools/kvmm-top", "--json")
    expect("closed: the next one, as JSON", out.returncode == 0 and '"pool": "other"' in out.stdout, out)
    complains("closed: a page by name", "kvmm-top", run("tools/kvmm-top", "--batch", "-p", "kv"),
              "the pool 'kv' contradicts itself and is closed")
    out = run("tools/kvmm-dump", "snapshot")
    complains("closed: which one", "kvmm-dump", out, "several pools")
    engine.end()


def check_nobody_reads(folder):
    """Of an engine that is busy. As behind a pipe to head: silently where SIGPIPE is as it should be, and with a word where it is not."""
    busy = subprocess.Popen(["tools/kvmm-replay", "conc", "--no-progress", "--blocks", "500", "--slow", "300", "--requests",
                             "100000", "--generate", "chat", "--control", folder + "/busy"], stdout=subprocess.DEVNULL)
    path = folder + "/busy/replay.sock"
    while busy.poll() is None and run("tools/kvmm-stat", "-S", path).returncode:
        time.sleep(0.02)
    for tool, args in ENDLESS:
        args = [*args, "-S", path]
        for ignored in (False, True):
            what = "%s, nobody reads, SIGPIPE %s" % (" ".join([tool, *args]), "ignored" if ignored else "kills")
            with subprocess.Popen(["tools/" + tool, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  restore_signals=not ignored) as process:
                process.stdout.readline()
                process.stdout.close()
                try:
                    code = process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    code = "none"
                err = process.stderr.read()
            expect(what + ": it ends", code == (1 if ignored else -signal.SIGPIPE), code)
            expect(what + ": what it says", re.match(tool + ": .*output: Broken pipe\n$" if ignored else "$", err), err)
    busy.kill()
    busy.wait()


def check_engine_goes(engine):
    running = [(tool, args, subprocess.Popen(["tools/" + tool, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                             text=True)) for tool, args in ENDLESS]
    for tool, args, process in running:
        if tool != "kvmm-events":
            process.stdout.readline()
    time.sleep(0.2)
    engine.kill()
    for tool, args, process in running:
        _, err = process.communicate(timeout=30)
        what = " ".join([tool, *args]) + ", the engine goes"
        expect(what + ": exit code 1", process.returncode == 1, process.returncode)
        expect(what + ": why", re.match(tool + ": .*(gone|nobody listens)", err) and err.count("\n") == 1, err)


def on_terminal(columns, *args, **env):
    """What is seen there."""
    main, tty = pty.openpty()
    fcntl.ioctl(tty, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(args, stdin=tty, stdout=tty, stderr=tty, env=dict(os.environ, TERM="xterm", **env))
    os.close(tty)
    text = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
    process.wait(20)
    os.close(main)
    return text.decode()


def check_terminals():
    names = ("tools/kvmm-events", "names")
    expect("colours on a terminal", "\x1b[" in on_terminal(80, *names))
    expect("but not with NO_COLOR", "\x1b[" not in on_terminal(80, *names, NO_COLOR="1"))
    expect("and not in JSON", "\x1b[" not in on_terminal(80, *names, "--json"))
    for columns in (80, 120, 200):
        lines = on_terminal(columns, "tools/kvmm-stat", "0.05", "2").splitlines()
        expect("kvmm-stat fits %d columns" % columns, len(lines) == 4 and max(map(len, lines)) <= columns, lines)
    all_lines = run("tools/kvmm-stat", "0.05", "2").stdout.splitlines()
    expect("all columns where there is no terminal", "frag" in all_lines[1] and "regist" in all_lines[1], all_lines)
    narrow = on_terminal(60, "tools/kvmm-stat", "pool").split()
    expect("a wide table is a line a field on a narrow terminal", narrow[:4] == ["pool", "kv", "blocks", "4096"], narrow)
    text = run("tools/kvmm-stat", "pool").stdout.splitlines()
    expect("and rows elsewhere", text[0].split()[:2] == ["pool", "blocks"], text)


def check_page(tool, folder):
    name = os.path.basename(tool)
    page = os.path.join(folder, name + ".1")
    with open(page, "w") as file:
        made = subprocess.run([os.path.join(SRCTREE, "scripts/mkman"), "1.2.3", tool,
                               *COMMANDS.get(name, [])], stdout=file, stderr=subprocess.PIPE, text=True)
    expect(name + ": a page", made.returncode == 0 and not made.stderr, made.stderr)
    text = open(page).read()
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT STATUS", "SEE ALSO"):
        expect("%s.1 has %s" % (name, section), ".SH %s\n" % section in text)
    options = re.findall(r"^ {2,6}(?:-\S, )?--([a-z-]+)", run(tool, "--help", env=WIDE).stdout, re.M)
    expect(name + ": options", len(options) > 2, options)
    for option in options:
        expect("%s.1 has --%s" % (name, option), "\\-\\-" + option.replace("-", "\\-") in text)
    if shutil.which("man"):
        out = run("man", "-l", "--warnings=w", "-E", "UTF-8", "-Tutf8", "-P", "cat", page,
                  env=dict(os.environ, LC_ALL="C.UTF-8", MANWIDTH="80"))
        expect("man takes %s.1" % name, out.returncode == 0 and not out.stderr, out.stderr)
        plain = re.sub("\x1b\\[[0-9;]*m|.\b", "", out.stdout)
        expect("%s.1 can be read" % name, re.search(name + " +- ", plain), plain[:300])


expect("there are tools", len(TOOLS) > 4, TOOLS)
NAMES = [os.path.basename(tool) for tool in TOOLS]
LIVE, ENDLESS, BAD = ([row for row in rows if row[0] in NAMES] for rows in (LIVE, ENDLESS, BAD))
with tempfile.TemporaryDirectory(prefix="kvmm-tools-") as folder:
    os.chmod(folder, 0o700)
    for tool in TOOLS:
        check_tool(tool)
        check_page(tool, folder)
        for command in [[], *([c] for c in COMMANDS.get(os.path.basename(tool), []))]:
            check_letters(os.path.basename(tool), *command)
    check_bad_usage()
    check_without_engine(folder)
    check_false_engines(folder)
    engine = Engine()
    check_with_engine(folder, engine)
    check_terminals()
    check_nobody_reads(folder)
    check_engine_goes(engine)
    check_closed_pool()
    shutil.rmtree(engine.dir)
end()
