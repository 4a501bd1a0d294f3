#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What kvmm-stat devices promises: what is there, why the rest is not, exit codes, JSON. Runs in the
object tree, on the software driver; a driver of the system is not touched."""

import json
import os
import subprocess
import sys

STAT = "tools/kvmm-stat"
NO_DRIVER = "./no-such-driver.so"
passed = failed = 0


def check(ok, what):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print("failed:", what)


def run(*args, swcuda="devices=2,mem=64M,driver=12080", cuda=NO_DRIVER, soft=None, **kwargs):
    env = {**os.environ, "KVMM_SWCUDA": swcuda, "KVMM_CUDA_DRIVER": cuda}
    env.pop("KVMM_SOFT_DRIVER", None)
    if soft:
        env["KVMM_SOFT_DRIVER"] = soft
    kwargs = {"capture_output": True, **kwargs}
    return subprocess.run([STAT, *args], text=True, env=env, timeout=120, **kwargs)


def devices_of(out):
    return {d["name"]: d for d in json.loads(out.stdout)["devices"]}


def table():
    out = run("devices")
    lines = out.stdout.splitlines()
    check(out.returncode == 0 and not out.stderr, f"exit {out.returncode}: {out.stderr}")
    check(lines[0].split()[:3] == ["device", "card", "driver"], f"head: {lines[0]}")
    check([l.split()[0] for l in lines[1:5]] == ["host", "soft:0", "soft:1", "cuda:0"],
          f"rows: {lines[1:5]}")
    for word in ("kvmm software device 0", " 12.8 ", " 9.0 ", " 64 MiB ", " 2 MiB ", " vmm batch "):
        check(word in lines[2], f"'{word}' in '{lines[2]}'")
    check(NO_DRIVER in lines[4], f"why: {lines[4]}")
    check(out.stdout.count("256 pieces go by") == 2, "calibration of both cards")
    check("6b766d6d-2d73-7763-7564-612d64657630" in out.stdout, "uuid")


def nothing_there():
    out = run("devices", soft=NO_DRIVER)
    check(out.returncode == 0, "what is not there is no error unless it was named")
    check([l.split()[0] for l in out.stdout.splitlines()] == ["device", "host", "soft:0", "cuda:0"],
          out.stdout)
    out = run("devices", swcuda="devices=0")
    check("CUDA_ERROR_NO_DEVICE" in out.stdout and out.returncode == 0, out.stdout)


def named():
    out = run("devices", "soft:1")
    check(out.returncode == 0 and "soft:1" in out.stdout and "soft:0" not in out.stdout, out.stdout)
    for name, why in (("soft:2", "the driver has 2"), ("cuda:0", NO_DRIVER),
                      ("gpu:0", "no device of that name")):
        out = run("devices", name, "host")
        check(out.returncode == 1 and why in out.stdout and "plain memory" in out.stdout,
              f"{name}: exit {out.returncode}: {out.stdout}")


def as_json():
    out = run("devices", "--json", cuda="./libkvmm-swcuda.so")
    found = devices_of(out)
    check(list(found) == ["host", "soft:0", "soft:1", "cuda:0", "cuda:1"], list(found))
    check(out.returncode == 0 and all(d["found"] for d in found.values()), "all are there")
    soft = found["soft:1"]
    check(soft["driver"] == "soft" and found["cuda:1"]["driver"] == "cuda", "drivers")
    check(soft["total_bytes"] == 64 << 20 and soft["driver_version"] == 12080, soft)
    check(0 < soft["free_bytes"] < soft["total_bytes"] and soft["cc"] == [9, 0], soft)
    check(soft["uuid"] == b"kvmm-swcuda-dev1".hex(), soft["uuid"])
    check(soft["paths"] == ["kernel", "batch", "single"] and "vmm" in soft["features"], soft)
    check(list(soft["copies"]) == ["local", "to_device", "to_host"], soft["copies"])
    for copies in soft["copies"].values():
        check(copies["steps"] and copies["steps"][0]["from_bytes"] == 0, copies)
        check(all(c["mib_per_s"] > 0 for c in copies["cost"].values()), copies)
    check(found["host"]["paths"] == [] and found["host"]["total_bytes"] > 0, found["host"])


def json_of_what_is_missing():
    name = 'no "driver" \\ \x01 é'
    out = run("devices", "--json", "soft:0", "cuda:0", name, cuda="./" + name)
    found = devices_of(out)
    check(out.returncode == 1 and found["soft:0"]["found"], "one is there")
    check(not found["cuda:0"]["found"] and 'no "driver" \\' in found["cuda:0"]["why"], found)
    check(len(found) == 3, "a name that needs escaping is one all the same")


def usage():
    for args in (["kv", "fast"], ["kv", "1", "2", "3"], ["devices", "--no-such-option"],
                 ["devices"] + ["host"] * 65):
        out = run(*args)
        check(out.returncode == 2 and out.stderr and not out.stdout, f"{args[:2]} is refused")
    out = run("--help")
    check(out.returncode == 0 and "Examples:" in out.stdout, "help has an example")
    with open("/dev/full", "w") as full:
        out = run("devices", "host", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    check(out.returncode == 1 and "standard output" in out.stderr, "full disk")


def main():
    for test in (table, nothing_there, named, as_json, json_of_what_is_missing, usage):
        test()
    print(f"{passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
