#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Descriptors of what prompts would send, one a run of blocks of 16 tokens: by default, in plain
# order, and in plain order if the blocks of a request may go in any order, its best. Loads are the
# conversation trace, prompts of the lengths of the Azure trace, and generated chat, each in pools
# of three sizes. The hits are those of plain order with lru; with the default policy, which goes
# through blocks by number, each load keeps 99.9 % of them. Run from the object tree.
set -u

tool=${KVMM_REPLAY:-tools/kvmm-replay}
traces=${KVMM_TRACES:-../shared/traces}
conversation=$traces/conversation_trace.jsonl
azure=$traces/AzureLLMInferenceTrace_conv.csv
. "$KVMM_SRCTREE/tests/expect.sh"

# replay RUN-WINDOW MODE BLOCKS OPTIONS...: 1 is the default
replay() {
	window=$1 mode=$2 blocks=$3
	shift 3
	out=$("$tool" "$mode" --json --no-progress --block-tokens 16 --keys vllm --transfers \
		--blocks "$blocks" --run-window "$window" "$@")
}

# ratio A B: A / B
ratio() {
	awk -v a="${1:-0}" -v b="${2:-1}" 'BEGIN { printf "%.2f", a / b }'
}

# fewer PLAIN BEST MODE BLOCKS OPTIONS...: times fewer than in plain order, and than in its best
fewer() {
	than_plain=$1 than_best=$2
	shift 2
	replay 0 "$@"
	hits=$(value hits) plain=$(value descriptors) best=$(value descriptors_sorted)
	replay 1 "$@"
	ours=$(value descriptors)
	requests=$(value requests)
	echo "$*: descriptors a request: $(ratio "$ours" "$requests"), in plain order" \
		"$(ratio "$plain" "$requests"), in its best $(ratio "$best" "$requests")"
	bar "hits, as in plain order" "$(value hits)" eq "$hits"
	bar "times fewer than in plain order" "$(ratio "$plain" "$ours")" ge "$than_plain"
	bar "times fewer than in its best order" "$(ratio "$best" "$ours")" ge "$than_best"
}

# keeps MODE "BLOCKS..." OPTIONS...: with the default policy, over all sizes
keeps() {
	mode=$1 sizes=$2 had=0 has=0
	shift 2
	for blocks in $sizes; do
		replay 0 "$mode" "$blocks" --policy lrfu "$@"
		had=$((had + $(value hits)))
		replay 1 "$mode" "$blocks" --policy lrfu "$@"
		has=$((has + $(value hits)))
	done
	bar "$mode $sizes $*: permille of the hits" "$(ratio "$((has * 1000))" "$had")" ge 999
}

end() {
	expect_end
	exit
}

if [ ! -f "$conversation" ] || [ ! -f "$azure" ]; then
	echo "skipped: there are no traces in $traces"
	exit 0
fi
fewer 60 25 seq 4000 --requests 3000 --generate chat
fewer 30 2.1 seq 160000 "$conversation"
[ "${KVMM_TEST_LENGTH-}" != short ] || end
# Where the pool holds most of what is asked for, the best order is hard to beat: a prompt lies where
# those before it left room.
fewer 50 12 seq 40000 "$conversation"
fewer 35 1 seq 640000 "$conversation"
fewer 8 1.1 conc 160000 "$conversation"
fewer 20 1 conc 640000 "$conversation"
fewer 10 8 seq 4000 "$azure"
fewer 6 3.4 seq 16000 "$azure"
fewer 6 1.5 seq 64000 "$azure"
fewer 1.8 1.7 conc 4000 "$azure"
fewer 1.5 1.1 conc 16000 "$azure"
fewer 2.4 1 conc 64000 "$azure"
fewer 40 6.9 seq 16000 --requests 3000 --generate chat
fewer 20 1.3 seq 64000 --requests 3000 --generate chat
fewer 75 30 conc 4000 --requests 3000 --generate chat
fewer 20 5.4 conc 16000 --requests 3000 --generate chat
fewer 12 1.2 conc 64000 --requests 3000 --generate chat
keeps seq "40000 160000 640000" "$conversation"
keeps seq "4000 16000 64000" --requests 3000 --generate chat
keeps conc "4000 16000 64000" --requests 3000 --generate chat
end
