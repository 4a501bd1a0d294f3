#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The conformance suite on the software driver: with several seeds of its scheduler, with threads,
# with two devices, as an old driver. Then the other way round: whichever call does nothing but say
# that it worked, the suite has to notice.
set -u

suite=$PWD/tests/conformance/kcu-conformance
driver=$PWD/libkvmm-swcuda.so
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
passed=0 failed=0

# good NAME [OPTIONS OF THE DRIVER]: no check fails
good() {
	if KVMM_SWCUDA=${2-} "$suite" "$driver" >"$out/good" 2>"$out/err"; then
		passed=$((passed + $(sed -n 's/ passed, .*//p' "$out/good")))
	else
		echo "$1: exit code $?"
		grep -v '^ok' "$out/good"
		tail -n 5 "$out/err"
		failed=$((failed + 1))
	fi
}

# noticed CALL: a check fails without it, or (3) not even a context is to be had
noticed() {
	"$suite" --stop --without "$1" "$driver" >"$out/bad" 2>&1
	case $? in
	1 | 3)
		passed=$((passed + 1)) ;;
	*)
		echo "$1 does nothing, and no check fails"
		failed=$((failed + 1)) ;;
	esac
}

good "plain"
for seed in 2 3; do
	good "seed $seed" seed=$seed
done
good "threads" threads=1
good "two devices" devices=2
good "two devices without a link" devices=2,peers=0
good "an old driver" driver=11040,missing=cuMemcpyBatchAsync,missing=cuMemcpyBatchAsync_v2

step=1
[ "${KVMM_TEST_LENGTH-}" != short ] || step=6
for call in $("$suite" --list-calls | awk "NR % $step == 0"); do
	noticed "$call"
done

"$suite" --json "$out/json" "$driver" >/dev/null 2>&1
if python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
assert d["driver"] == "swcuda" and d["failed"] == 0 and d["passed"] > 150
assert len(d["checks"]) == d["passed"] + d["skipped"]
assert any(c.get("answer") == 222 for c in d["checks"])' "$out/json"; then
	passed=$((passed + 1))
else
	echo "bad JSON"
	failed=$((failed + 1))
fi

"$suite" /nonexistent/libcuda.so.1 >/dev/null 2>&1
if [ $? -eq 3 ]; then
	passed=$((passed + 1))
else
	echo "a driver that is not there: not exit code 3"
	failed=$((failed + 1))
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
