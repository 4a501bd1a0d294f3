#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Ranks are processes: other addresses, another clock, other random numbers, another allocator, and
# the same answers and digests all the way. Two replays of one trace have one digest, too.
#
# usage: digest_run.sh	prints "N passed, N failed"
set -u

passed=0 failed=0

same() {
	if [ -n "$2" ] && [ "$2" = "$3" ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: $1"
	fi
}

for policy in default lru glfu; do
	first=$(tests/pool/digest_run $policy 11 20000)
	same "$policy: other addresses" "$first" "$(tests/pool/digest_run $policy 11 20000)"
	same "$policy: other clock, memory and random numbers" "$first" \
	     "$(tests/pool/digest_run $policy 11 20000 other)"
done
if [ "$first" != "$(tests/pool/digest_run glfu 12 20000)" ]; then
	passed=$((passed + 1))
else
	failed=$((failed + 1))
	echo "FAILED: other calls have the same digest"
fi

replay() {
	tools/kvmm-replay --digest --no-progress --requests 500 -n 500 seq | grep -E '^ *(history|digest) '
}
same "kvmm-replay --digest" "$(replay)" "$(replay)"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
