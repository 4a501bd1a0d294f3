#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Samples end well, and print what they should: two users share what a hybrid model has cached, and a
# window holds no more than 48 blocks; a reverted step leaves nothing, and drafts are accepted up to the
# first wrong one.
#
# usage: samples.sh	prints "N passed, N failed"
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

run() {
	out=$(timeout 60 samples/$1)
	result $? "samples/$1: exit code $?"
	echo "== $1"
	echo "$out"
}

says() {
	grep -q "$1" <<<"$out"
	result $? "$2"
}

for sample in admit chat handover lend owners partial phases promise ranks router slab spill state tenants watch; do
	run $sample
done
run pd
says "^8 requests have come, .*; 48 blocks of prompts were found$" "what was computed there was computed here"
says "^274 tokens, the same as of one process$" "another process says something else"
if ldconfig -p | grep -q libucp; then
	run "pd ucx"
	says "^274 tokens, the same as of one process$" "over UCX it says something else"
fi
run planes
says "^blocks 0 to 74: layer 0 at 0x" "a pool in an engine's memory on a device has other runs"
run vllm_pool
says "^[0-9]* calls of a block pool as vLLM has them$" "a call of a block pool answers wrong"
folder=$(mktemp -d)
run ids
says "^block 0: 2 references" "an id is not counted"
run "store $folder/it"
says '^the second$' "what was written is not read after a restart"
rm -r "$folder"
run hybrid
says '^user 0: 0 of 2000 tokens reused$' "the first user reused something"
says '^user 1: 1600 of 2000 tokens reused$' "the second user did not reuse the common prompt"
[ "$(awk '/held$/ && $5 > most { most = $5 } END { print most + 0 }' <<<"$out")" = 48 ]
result $? "a window holds more, or less, than 48 blocks at most"
run masked
[ "$(grep -o '[0-9]*: cached' <<<"$out" | xargs)" = "12: cached 13: cached 14: cached 15: cached" ]
result $? "the last blocks of a window went before the first"
run decode
says '^reverted *40 tokens, *0 computed, 0 blocks, 0 published$' "a reverted step left something"
[ "$(awk '/^decoded/ { print $2 }' <<<"$out" | xargs)" = "41 45 46 50 51 52" ]
result $? "other numbers of tokens were accepted"
awk '/^decoded/ && ($4 != $2 - 1 || $8 != int($4 / 16)) { exit 1 }' <<<"$out"
result $? "computed or published are wrong"
run beams
[ "$(awk '/blocks$/ { print $2 }' <<<"$out" | xargs)" = "2 3 2 5 3 3" ]
result $? "beams share other blocks, or copy others"
says '^tokens   25$' "another path was accepted"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
