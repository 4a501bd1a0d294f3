#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Descriptors of what each prompt of the conversation trace would send, blocks of 16 tokens: at least
# five times fewer than in plain order, at the same hits. Run from the object tree.
set -u

tool=${KVMM_REPLAY:-tools/kvmm-replay}
trace=${KVMM_TRACES:-../shared/traces}/conversation_trace.jsonl
. "$KVMM_SRCTREE/tests/expect.sh"

# replay MODE BLOCKS RUN-WINDOW
replay() {
	echo "$1 --blocks $2 --run-window $3"
	out=$("$tool" "$1" --json --no-progress --block-tokens 16 --keys vllm --blocks "$2" \
		--run-window "$3" --transfers "$trace")
}

# fewer MODE BLOCKS TIMES: than in plain order, which is all that differs
fewer() {
	replay "$1" "$2" 0
	hits=$(value hits) plain=$(value descriptors) sorted=$(value descriptors_sorted)
	replay "$1" "$2" 1
	ours=$(value descriptors)
	bar "hits, as in plain order" "$(value hits)" eq "$hits"
	bar "descriptors in plain order" "$plain" ge $((${ours:-1000000000} * $3))
	bar "sorted ones in plain order" "$sorted" ge "$(value descriptors_sorted)"
}

end() {
	expect_end
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
end
