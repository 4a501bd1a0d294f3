#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Moving blocks beside an engine whose steps read them: a saturated pool is as full as with a world
# that stands still, nobody is refused, and no step waits. And what the cheapest window moves is at
# most half of the cheapest slide. Run from the object tree.
set -u

tool=${KVMM_REPLAY:-tools/kvmm-replay}
traces=${KVMM_TRACES:-../shared/traces}
azure=$traces/AzureLLMInferenceTrace_conv.csv
mooncake=$traces/conversation_trace.jsonl
. "$KVMM_SRCTREE/tests/expect.sh"

# replay TRACE OPTIONS...
replay() {
	in=$1
	shift
	echo "frag $* ${in##*/}"
	out=$("$tool" frag --json --no-progress --blocks 8192 --arrivals sat "$@" "$in")
}

moved_ppm() {
	moved=$(value moved_blocks) asked=$(value asked_blocks)
	echo "${moved:+$((moved * 1000000 / asked))}"
}

# beside MARK OCCUPANCY-PPM MOVED-PPM IN-ONE-PPM: the bars of a world that stands still
beside() {
	replay "$azure" --mark "$1" --max-runs 8 --compact background --device host --verify
	bar "occupancy, ppm" "$(value occupancy_ppm)" ge "$2"
	bar "requests that found no room" "$(value fail_frag)" le 0
	bar "retries" "$(value retries)" le 0
	bar "reader pauses" "$(value pauses)" le 0
	bar "steps" "$(value steps)" ge 100000
	bar "published blocks" "$(value published_blocks)" gt 0
	bar "moved blocks per million allocated" "$(moved_ppm)" le "$3"
	runs=$(value runs) admitted=$(value admitted)
	bar "runs per million requests" "${runs:+$((runs * 1000000 / admitted))}" le "$4"
}

# one_run MARK OCCUPANCY-PPM MOVED-PPM: each request in one run, so that some wait for one. This is
# at the edge of the bars above: 94.0 % and 0.3 moves a block, and a tie more or less decides.
one_run() {
	replay "$azure" --mark "$1" --max-runs 1 --compact background
	bar "occupancy, ppm" "$(value occupancy_ppm)" ge "$2"
	bar "reader pauses" "$(value pauses)" le 0
	bar "moved blocks per million allocated" "$(moved_ppm)" le "$3"
	bar "admitted" "$(value admitted)" ge "$(value requests)"
}

# window TRACE MARK
window() {
	replay "$1" --mark "$2" --max-runs 1 --compact slide
	slide=$(moved_ppm)
	replay "$1" --mark "$2" --max-runs 1 --compact direct
	bar "not helped by compaction" "$(value fail_compacted)" le 0
	bar "moved per million, half of the slide" "$(moved_ppm)" le "${slide:+$((slide / 2))}"
}

if [ ! -f "$azure" ] || [ ! -f "$mooncake" ]; then
	echo "skipped: there are no $traces"
	exit 0
fi
beside 95 940000 300000 1150000
one_run 95 939000 330000

# The pauses are counted: with a world that stands still there are some.
replay "$azure" --mark 95 --max-runs 1 --compact direct --streams 4
bar "reader pauses, standing still" "$(value pauses)" gt 0

# Equal seeds, equal output.
replay "$azure" --mark 95 --max-runs 8 --compact background --seed 7
first=$out
replay "$azure" --mark 95 --max-runs 8 --compact background --seed 7
[ "$first" = "$out" ]
bar "another run is the same" "$?" le 0

# refused TEXT OPTIONS...: bad usage, and the message says so
refused() {
	text=$1
	shift
	why=$("$tool" frag --no-progress "$@" "$azure" 2>&1 >/dev/null)
	bar "refused: $*" "$?" ge 2
	printf '%s\n' "$why" | grep -q -e "$text"
	bar "says '$text'" "$?" le 0
}

refused sideways --compact sideways
refused --streams --compact background --streams 0
refused --streams --compact slide --streams 2
refused --streams --streams 33
refused --step-us --step-us 0
refused --threshold --threshold 1001
refused --ahead --ahead -1

window "$azure" 95
if [ "${KVMM_TEST_LENGTH-}" != short ]; then
	beside 97 960000 500000 1250000
	window "$azure" 90
	window "$azure" 97
	for mark in 90 95 97; do
		window "$mooncake" $mark
	done
fi
expect_end
