#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kvmm-stat, kvmm-defrag and kvmm-migrate against a replay in progress and samples.

Run from the object tree. What tools print is compared with what they print as JSON and with each other;
exit codes are looked at.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

SRC = os.environ.get("KVMM_SRCTREE", ".")
good = bad = 0


def check(ok, what):
    global good, bad
    good += bool(ok)
    bad += not ok
    if not ok:
        print("failed:", what)


def run(*args, env=None):
    return subprocess.run(args, capture_output=True, text=True, timeout=60, env=env)


class Engine:
    """A program with a control socket, as long as it is looked at."""

    def __init__(self, name, *args):
        self.dir = tempfile.mkdtemp(prefix="kvmm-tools-")
        self.path = os.path.join(self.dir, name)
        self.log = tempfile.TemporaryFile("w+")
        self.proc = subprocess.Popen([*args, "--control", self.dir], stdout=self.log,
                                     stderr=self.log)
        self.env = {**os.environ, "KVMM_SOCKET_DIR": self.dir}
        self.env.pop("KVMM_SOCKET", None)

    def __enter__(self):
        end = time.time() + 30
        while time.time() < end and self.proc.poll() is None:
            if run("tools/kvmm-stat", env=self.env).returncode == 0:
                break
            time.sleep(0.02)
        return self

    def __exit__(self, *_):
        self.proc.send_signal(signal.SIGKILL)
        self.proc.wait()
        for name in os.listdir(self.dir):
            os.unlink(os.path.join(self.dir, name))
        os.rmdir(self.dir)

    def tool(self, name, *args):
        return run("tools/kvmm-" + name, *args, env=self.env)


def stat(engine):
    out = engine.tool("stat", "0.3", "3")
    rows = [l.split() for l in out.stdout.splitlines() if l.startswith("replay ")]
    check(out.returncode == 0 and len(rows) == 3, f"three lines: {out.stdout} {out.stderr}")
    check(rows[0][8:17] == ["-"] * 9, "the first line has none before it")
    check(float(rows[2][8]) > 0, "and the others have: " + " ".join(rows[2]))
    lines = [json.loads(l) for l in engine.tool("stat", "--json", "replay", "0.1", "2").stdout.splitlines()]
    check(len(lines) == 2 and lines[0]["allocs_per_s"] is None and lines[1]["allocs_per_s"] >= 0,
          lines)
    pool = json.loads(engine.tool("stat", "pool", "--json").stdout)
    check(len(pool) == 1 and pool[0]["pool"] == "replay" and pool[0]["blocks"] == 2000, pool)
    check(pool[0]["available"] <= 2000 and pool[0]["allocs"] > 0, pool)
    check({k[:-6] for k in lines[0] if k.endswith("_per_s")} <= set(pool[0]), "rates are those of columns")
    for table in ("tenants", "classes"):
        out = engine.tool("stat", table, "--json")
        check(out.returncode == 0 and json.loads(out.stdout) == [], f"no {table}: {out}")
    table = engine.tool("stat", "pool", "replay").stdout.split("\n")
    check(table[0].split()[:2] == ["pool", "blocks"] and table[1].split()[:2] == ["replay", "2000"],
          table)
    kinds = [r["kind"] for r in json.loads(engine.tool("stat", "pressure", "--json").stdout)]
    check(kinds == ["some", "full"], kinds)
    check(json.loads(engine.tool("stat", "leaks", "replay", "--json").stdout) == [], "no leaks")
    check(json.loads(engine.tool("stat", "tiers", "--json").stdout) == [], "no tiers")
    check(json.loads(engine.tool("stat", "devices", "--json", "--socket", engine.path).stdout)[0]
          ["pool"] == "replay", "devices")


def refusals(engine):
    for args in (("pool", "nix"), ("leaks", "nix"), ("nix",)):
        out = engine.tool("stat", *args)
        check(out.returncode == 1 and "there is no pool 'nix'" in out.stderr and not out.stdout, args)
    out = engine.tool("defrag", "set", "--live", "no_such_thing", "3")
    check(out.returncode == 1 and "there is no setting" in out.stderr, out.stderr)
    out = engine.tool("migrate", "start", "nix", "3")
    check(out.returncode == 1 and "no other pool 'nix'" in out.stderr, out.stderr)
    check(engine.tool("migrate", "status").returncode == 0, "status")


def migrate(engine):
    out = engine.tool("migrate", "start", "--pool", "decode", "spare", "43", "--wait", "10")
    check(out.returncode == 1, "no such sequence")
    out = engine.tool("migrate", "start", "--pool", "decode", "spare", "42", "--wait", "10", "--json")
    row = json.loads(out.stdout)[0] if not out.returncode else {}
    check((row.get("phase"), row.get("copied"), row.get("verified")) == ("done", 75, 75), out.stderr)
    check(engine.proc.wait(timeout=30) == 0, "the engine sees that it has gone")
    engine.log.seek(0)
    check(engine.log.read() == "sequence 42: 0 range here, 1 there\n", "it is there")


def settings(engine):
    out = engine.tool("defrag", "set", "--live", "--json", "watermark_high", "30")
    check(json.loads(out.stdout) == [{"name": "watermark_high", "before": 0, "value": 30}], out.stdout)
    rows = {r["name"]: r["value"] for r in
            json.loads(engine.tool("defrag", "config", "--live", "--json").stdout)}
    check(rows["watermark_high"] == 30 and rows["tier_write"] is None, rows)


def defrag(engine):
    # What is in use does not move; a moment later it is something else.
    for want in [*range(30, 1, -1)] * 10:
        out = engine.tool("defrag", "run", "--live", "--want", str(want), "--drop", "--json",
                          "--wait", "10")
        if not out.returncode:
            break
        time.sleep(0.02)
    check(out.returncode == 0, out.stdout + out.stderr)
    run_ = json.loads(out.stdout)[0] if not out.returncode else {}
    check(run_.get("state") == "done" and run_.get("largest_after", 0) >= want, run_)
    out = engine.tool("defrag", "status", "--live")
    check(out.returncode == 0 and out.stdout.splitlines()[1].split()[:3] == ["done", "run", str(want)],
          out.stdout)
    out = engine.tool("defrag", "watch", "--live", "--count", "2", "--interval", "0.05", "--json")
    lines = [json.loads(l) for l in out.stdout.splitlines()]
    check(len(lines) == 2 and set(lines[0]) == {"free", "largest", "runs", "rate_percent",
                                                "moved_blocks"}, lines)


def toy():
    with Engine("toy.sock", "samples/toy-engine", "--mode", "beside", "--slow", "2000",
                "--requests", "1024") as engine:
        for _ in range(500):        # the engine may not have begun
            pool = json.loads(engine.tool("stat", "pool", "--json").stdout)
            if pool[0]["steps"]:
                break
            time.sleep(0.02)
        check(pool[0]["pool"] == "beside" and pool[0]["steps"] > 0, pool)
        out = engine.tool("defrag", "run", "--live", "--want", "24", "--best", "--wait", "10")
        check(out.returncode in (0, 1), out.stderr)


def main():
    with Engine("replay.sock", "tools/kvmm-replay", "conc", "--no-progress", "--blocks", "2000",
                "--slow", "300", "--requests", "100000", "--generate", "chat") as engine:
        stat(engine)
        refusals(engine)
        settings(engine)
        defrag(engine)
    with Engine("steer.sock", "samples/steer") as engine:
        migrate(engine)
    toy()
    print(f"{good} passed, {bad} failed")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
