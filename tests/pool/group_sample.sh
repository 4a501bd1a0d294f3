#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# samples/hybrid.c: the second user reuses what the first one computed, and a window of 256 tokens
# never holds more than itself and the step, of 16-token blocks.
#
# usage: group_sample.sh	prints "N passed, N failed"
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

out=$(samples/hybrid)
result $? "samples/hybrid: exit code $?"
echo "$out"
grep -q '^user 0: 0 of 2000 tokens reused$' <<<"$out"
result $? "the first user reused something"
grep -q '^user 1: 1600 of 2000 tokens reused$' <<<"$out"
result $? "the second user did not reuse the common prompt"
[ "$(awk '/held$/ && $5 > most { most = $5 } END { print most + 0 }' <<<"$out")" = 48 ]
result $? "a window holds more, or less, than 48 blocks at most"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
