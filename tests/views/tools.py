#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What all tools have in common: --help with examples and exit codes, --version, what they say to bad usage
and without an engine, no colours but on a terminal; and manual pages that man takes without a warning, in which
each option is. Run from the object tree."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
SRCTREE = os.environ["KVMM_SRCTREE"]
sys.path.insert(0, os.path.join(SRCTREE, "tests/views"))
from engine import end, expect, run  # noqa: E402

TOOLS = sorted(t for t in glob.glob("tools/kvmm-*") if "." not in os.path.basename(t))
# Calls that want an engine.
LIVE = {"kvmm-top": (["--batch"],), "kvmm-slabtop": (["--once"], ["--json"]),
        "kvmm-dump": (["snapshot"], ["show"], ["pickle"], ["graphviz"]), "kvmm-stat": ([], ["pool"]),
        "kvmm-migrate": (["status"],)}
# Commands with a help of their own.
COMMANDS = {"kvmm-dump": ["snapshot", "report"]}
WIDE = dict(os.environ, ARGP_HELP_FMT="rmargin=5000,opt-doc-col=60")


def check_help(what, *args):
    out = run(*args, "--help")
    expect(what + " --help: exit code 0", out.returncode == 0, out.stderr)
    expect(what + " --help says how it is called", out.stdout.startswith("Usage: " + what), out.stdout[:80])
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


def check_without_engine(tool, folder):
    name = os.path.basename(tool)
    env = {k: v for k, v in os.environ.items() if not k.startswith("KVMM_SOCKET")}
    for args in LIVE.get(name, ()):
        out = run(tool, *args, env=dict(env, KVMM_SOCKET_DIR=folder))
        what = " ".join([name, *args])
        expect(what + " without an engine: exit code 1", out.returncode == 1, out)
        expect(what + " without an engine: why", out.stderr.startswith("kvmm-") and
               out.stderr.count("\n") == 1 and not out.stdout, out)
        out = run(tool, *args, env=dict(env, KVMM_SOCKET=folder + "/none.sock"))
        expect(what + " with a wrong path: exit code 1", out.returncode == 1 and out.stderr, out)


def check_page(tool, folder):
    name = os.path.basename(tool)
    page = os.path.join(folder, name + ".1")
    with open(page, "w") as file:
        made = subprocess.run([os.path.join(SRCTREE, "scripts/mkman"), "0.1.0", tool,
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
with tempfile.TemporaryDirectory(prefix="kvmm-tools-") as folder:
    os.chmod(folder, 0o700)
    os.mkdir(folder + "/empty", 0o700)
    for tool in TOOLS:
        check_tool(tool)
        check_without_engine(tool, folder + "/empty")
        check_page(tool, folder)
end()
