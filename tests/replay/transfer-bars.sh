#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Descriptors of what each prompt of the conversation trace would send, blocks of 16 tokens: at least
# five times fewer than a plain pool's, at the same hits. Run from the object tree.
set -u

tool=${KVMM_REPLAY:-tools/kvmm-replay}
trace=${KVMM_TRACES:-../shared/traces}/conversation_trace.jsonl
passed=0 failed=0

# value KEY: an integer of the last run
value() {
	printf '%s\n' "$out" | sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p"
}

# bar TEXT GOT ge|eq WANT
bar() {
	if [ -n "$2" ] && [ "$2" "-$3" "$4" ]; then
		passed=$((passed + 1))
		echo "ok   $1: $2 ($3 $4)"
	else
		failed=$((failed + 1))
		echo "FAIL $1: ${2:-nothing} (wanted: $3 $4)"
	fi
}

# replay MODE BLOCKS RUN-WINDOW
replay() {
	echo "$1 --blocks $2 --run-window $3"
	out=$("$tool" "$1" --json --no-progress --block-tokens 16 --keys vllm --blocks "$2" \
		--run-window "$3" --transfers "$trace")
	bar "hits, as a plain pool" "$(value hits)" eq "$(value plain_hits)"
	theirs=$(value plain_descriptors) ours=$(value descriptors)
}

# fewer MODE BLOCKS TIMES
fewer() {
	replay "$1" "$2" 1
	bar "descriptors of a plain pool" "$theirs" ge $((${ours:-1000000000} * $3))
	bar "sorted ones of a plain pool" "$(value plain_descriptors_sorted)" ge \
		"$(value descriptors_sorted)"
}

end() {
	echo "$passed passed, $failed failed"
	[ $failed -eq 0 ]
	exit
}

if [ ! -f "$trace" ]; then
	echo "skipped: there is no $trace"
	exit 0
fi
fewer seq 160000 5
[ "${KVMM_TEST_LENGTH-}" != short ] || end
fewer seq 40000 5
fewer conc 160000 5
fewer conc 640000 5

# That is the order in which blocks are handed out, and nothing else.
replay conc 160000 0
bar "descriptors, plain order, a tenth more" $((ours * 11 / 10)) ge "$theirs"
end
