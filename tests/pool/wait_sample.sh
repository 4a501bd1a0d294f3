#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# samples/wait.c: a deadline that is too short ends with nothing; a longer one gets what another request
# gives back; so does a ticket.
#
# usage: wait_sample.sh	prints "N passed, N failed"
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

out=$(samples/wait)
result $? "samples/wait: exit code $?"
echo "$out"
grep -q '^within *5 ms: took too long$' <<<"$out"
result $? "the short wait did not end in time"
grep -q '^within *1000 ms: got it$' <<<"$out"
result $? "the long wait got nothing"
grep -q '^by ticket: got it$' <<<"$out"
result $? "the ticket got nothing"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
