#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# How well the library's own allocator uses a saturated pool of 8192 blocks: at least so much
# occupancy, at most so many moves. Run from the object tree.
set -u

tool=${KVMM_REPLAY:-tools/kvmm-replay}
trace=${KVMM_TRACES:-../shared/traces}/AzureLLMInferenceTrace_conv.csv
. "$KVMM_SRCTREE/tests/expect.sh"

# replay OPTIONS...
replay() {
	echo "frag --blocks 8192 $*"
	out=$("$tool" frag --json --no-progress --blocks 8192 --arrivals sat "$@" "$trace")
}

# mean_moved MARK MOVED-PPM: one pool is chaotic, any change of a tie moves 5 % more or less
mean_moved() {
	moved=0 asked=0
	for blocks in 7680 7800 7920 8040 8160 8280 8400 8520 8640; do
		replay --blocks $blocks --mark "$1" --max-runs 1 --compact direct
		moved=$((moved + $(value moved_blocks))) asked=$((asked + $(value asked_blocks)))
	done
	bar "moved per million allocated, nine pools" "$((moved * 1000000 / asked))" le "$2"
}

# compacted MARK OCCUPANCY-PPM MOVED-PPM
compacted() {
	replay --mark "$1" --max-runs 1 --compact direct --verify
	bar "occupancy, ppm" "$(value occupancy_ppm)" ge "$2"
	bar "failures with enough free" "$(value fail_compacted)" le 0
	bar "retries" "$(value retries)" le 0
	moved=$(value moved_blocks) asked=$(value asked_blocks)
	bar "moved blocks per million allocated" "${moved:+$((moved * 1000000 / asked))}" le "$3"
}

if [ ! -f "$trace" ]; then
	echo "skipped: there is no $trace"
	exit 0
fi
replay --max-runs 4
bar "occupancy, ppm" "$(value occupancy_ppm)" ge 965000
replay --max-runs 1
bar "occupancy, ppm" "$(value occupancy_ppm)" ge 845000
compacted 95 940000 300000
compacted 97 960000 500000
mean_moved 95 174000
mean_moved 97 300000
expect_end
