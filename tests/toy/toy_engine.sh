#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The toy engine says the same with blocks that move as without kvmm: on the host and on the software
# driver, whose race checker is silent and finds nothing left behind. An engine that goes on using
# places after the end of its step is noticed. With a driver that fails it ends as it should.
#
# usage: toy_engine.sh		prints "N passed, N failed"
set -u

engine=$PWD/samples/toy-engine
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
passed=0 failed=0

good() {
	passed=$((passed + 1))
}

bad() {
	failed=$((failed + 1))
	echo "FAILED: $*"
	tail -n 10 "$out/log"
}

# run OPTIONS-OF-THE-DRIVER ARGS...
run() {
	KVMM_SWCUDA=$1,check_exit=1 timeout 100 "$engine" "${@:2}" >"$out/log" 2>&1
}

# The sum of the numbers before WORDS.
sum_of() {
	awk -v what="$*" 'match($0, "[0-9]+ " what) { n += substr($0, RSTART) } END { print n + 0 }' \
		"$out/log"
}

# moves LEAST OPTIONS ARGS...: all right, and so many blocks moved
moves() {
	local least=$1
	shift
	if run "$@" && [ "$(sum_of blocks moved)" -ge "$least" ]; then
		good
	else
		bad "$*"
	fi
}

moves 1000 "" --device host --requests 192
moves 1000 "" --device host --requests 192 --elastic --verify
moves 1 "" --device host --threads --elastic --verify

# What was evicted comes back from below, and what it says then is still the same.
mkdir -m 700 "$out/disk"
moves 1000 "" --device host --requests 384 --prompts 64 --host-tier 200 --disk-tier "$out/disk"
[ "$(sum_of loaded)" -ge 100 ] && good || bad "little came back from below"
moves 1 "" --device host --requests 384 --prompts 64 --host-tier 600 --threads --elastic --verify

for seed in 1 2 3; do
	moves 100 seed=$seed --device soft:0 --requests 96 --prompts 32 --host-tier 400 --mode beside
	moves 300 seed=$seed --device soft:0 --requests 96
	moves 300 seed=$seed --device soft:0 --requests 96 --elastic --verify
	[ "$(sum_of KiB lent)" -ge 500 ] && [ "$(sum_of checked)" -ge 2000 ] && good ||
		bad "nothing lent, or nothing checked"
done
moves 100 eager=1 --device soft:0 --requests 96 --elastic
moves 1 slow=1 --device soft:0 --requests 16 --mode between
moves 1 threads=1 --device soft:0 --requests 96 --threads --elastic --verify
moves 100 driver=11040,vmm=0 --device soft:0 --requests 96

# It believes that blocks stay where they were: said wrong, and the race checker knows why.
run "" --device soft:0 --requests 96 --wrong --mode still && good || bad "nothing moves, all is well"
for mode in between beside; do
	run "" --device host --requests 96 --wrong --mode $mode && bad "host, $mode: not noticed" ||
		good
	grep -q 'says something else' "$out/log" && good || bad "host, $mode: by something else"
	run "" --device soft:0 --requests 96 --wrong --mode $mode
	[ $? -eq 86 ] && grep -q 'swcuda: race: toy_' "$out/log" && good ||
		bad "soft, $mode: no race seen"
done

# expect CODE OPTIONS ARGS...
expect() {
	local want=$1 rc
	shift
	run "$@"
	rc=$?
	[ $rc -eq "$want" ] && good || bad "$*: exit code $rc, not $want"
}

for nth in 1 2 3 4; do
	expect 1 fail=cuMemAlloc_v2:$((nth + 5)):OUT_OF_MEMORY --device soft:0 --requests 24
	expect 1 fail=cuLaunchKernel:$((nth * 40)):LAUNCH_OUT_OF_RESOURCES --device soft:0 --requests 24
done
expect 3 fail=cuInit:1+:NO_DEVICE --device soft:0
expect 3 "" --device none
expect 2 "" --mode sideways
expect 2 "" --disk-tier "$out/disk"
expect 1 "" --host-tier 200 --disk-tier "$out/none/there"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
