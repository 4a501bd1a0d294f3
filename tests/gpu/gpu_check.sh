#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The experiments of kvmm-gpu-check in small, on the software driver: that they run, verify, and
# fail where the device does.
set -u

check=$PWD/tests/gpu/kvmm-gpu-check
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
passed=0 failed=0

# expect CODE NAME OPTIONS-OF-THE-DRIVER ARGS...
expect() {
	local want=$1 name=$2 options=$3 rc
	shift 3
	KVMM_SWCUDA=$options timeout 120 "$check" --device soft --quick "$@" >"$out/log" 2>&1
	rc=$?
	if [ $rc -eq "$want" ]; then
		passed=$((passed + 1))
	else
		echo "$name: exit code $rc, not $want"
		tail -n 20 "$out/log"
		failed=$((failed + 1))
	fi
}

expect 0 "all" "" --json "$out/json"
if python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
assert d["failed"] == 0 and d["driver"] == "soft" and d["quick"]
assert {r["bench"] for r in d["rows"]} == {"E0", "E2", "E4", "E5", "E6", "E7", "E8", "E9", "E10",
					   "B7"}
for r in d["rows"]:
    assert "fact" in r or (r["runs"] >= 2 and r["value"] > 0 and r["unit"]), r
rates = [r for r in d["rows"] if r.get("metric") == "kernel_rate"]
assert len(rates) > 20 and all(r["ratio"] for r in rates)' "$out/json"; then
	passed=$((passed + 1))
else
	echo "bad JSON"
	failed=$((failed + 1))
fi

expect 0 "an old driver" driver=11040,missing=cuMemcpyBatchAsync,missing=cuMemcpyBatchAsync_v2
expect 0 "no virtual memory" vmm=0
expect 0 "one experiment" "" --only E6
expect 0 "no time" "" --only E2 --seconds 0.000001
grep -q 'time is up' "$out/log" || { echo "no word about the time"; failed=$((failed + 1)); }
expect 1 "a launch that fails" "async=cuLaunchKernel:20:ILLEGAL_ADDRESS" --only E2
expect 1 "a copy that is refused" "fail=cuMemcpyDtoDAsync_v2:9:INVALID_VALUE" --only E4
expect 3 "no device" "fail=cuInit:1+:NO_DEVICE"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
