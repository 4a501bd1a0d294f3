#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# samples/engine.c: an engine says the same, to the last bit, whether its blocks stay or move.
#
# usage: engine_sample.sh	prints "N passed, N failed"
set -u

passed=0 failed=0

result() {
	if [ "$1" -eq 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: $2"
	fi
}

out=$(samples/engine)
result $? "samples/engine: exit code $?"
echo "$out"
[ "$(awk '{ print $NF }' <<<"$out" | head -3 | sort -u | wc -l)" = 1 ]
result $? "what was said differs"
awk '$1 == "still" && $8 != 0 { exit 1 }' <<<"$out"
result $? "blocks moved that were to stay"
for mode in between beside; do
	awk -v mode=$mode '$1 == mode && $8 > 100 { found = 1 } END { exit !found }' <<<"$out"
	result $? "$mode: hardly any block moved"
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
