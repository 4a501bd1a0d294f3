#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# samples/decode.c: a reverted step leaves nothing; drafts are accepted up to the first wrong one; the
# newest token is never computed; 12 tokens of output take 5 steps.
#
# usage: request_sample.sh	prints "N passed, N failed"
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

out=$(samples/decode)
result $? "samples/decode: exit code $?"
echo "$out"
grep -q '^reverted *40 tokens, *0 computed, 0 blocks, 0 published$' <<<"$out"
result $? "a reverted step left something"
[ "$(awk '/^decoded/ { print $2 }' <<<"$out" | xargs)" = "41 45 46 50 51 52" ]
result $? "other numbers of tokens were accepted"
awk '/^decoded/ && ($4 != $2 - 1 || $8 != int($4 / 16)) { exit 1 }' <<<"$out"
result $? "computed or published are wrong"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
