#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# In how many extents a sequence ends that grew block by block, by the load of its pool. The numbers
# depend on the seed alone, not on the machine. Run from the object tree.
set -u

tool=${KVMM_BENCH:-tools/kvmm-bench}
. "$KVMM_SRCTREE/tests/expect.sh"

# value HOLDER LOAD METRIC: of the last run
value() {
	printf '%s\n' "$out" |
		sed -n "s/.*\"holder\": \"$1\", \"nr\": 16384, \"load\": $2}, \"metric\": \"$3\", \"value\": \([0-9.]*\).*/\1/p"
}

# at LOAD EXTENTS: with what the load is, and nobody goes without a block
at() {
	for holder in grows grows-batch unsaid; do
		bar "$holder at $1 %: extents" "$(value $holder "$1" extents)" le "$2"
		bar "$holder at $1 %: occupancy" "$(value $holder "$1" occupancy)" ge "$1"
		bar "$holder at $1 %: preempted" "$(value $holder "$1" preempted)" le 0
	done
}

out=$($tool -q -j growth) || exit 1
at 50 4
at 60 4
at 70 6
at 80 6
at 90 12
bar "grows+compact at 95 %: extents" "$(value 'grows+compact' 95 extents)" le 20
bar "grows+compact at 95 %: occupancy" "$(value 'grows+compact' 95 occupancy)" ge 95
bar "next-if-free at 70 %: extents, for comparison" "$(value next-if-free 70 extents)" ge 40
bar "stack at 70 %: extents, for comparison" "$(value stack 70 extents)" ge 130
expect_end
