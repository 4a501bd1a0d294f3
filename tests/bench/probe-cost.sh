#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What statistics and probes cost: instructions of an allocation and of a lookup, as they are against a
# build in which both are compiled out. Counted by valgrind, so it says the same each time.
#
# usage: probe-cost.sh [FOLDER]		FOLDER: for the two builds; kept. Else they go again.
#
# Exit code 1 if anything costs more than 2 %.
set -eu

src=$(cd "$(dirname "$0")/../.." && pwd)
dir=${1-}
if [ -z "$dir" ]; then
	dir=$(mktemp -d "${TMPDIR:-/tmp}/kvmm-cost-XXXXXX")
	trap 'rm -rf "$dir"' EXIT
fi
command -v valgrind >/dev/null || { echo "probe-cost: valgrind is not there"; exit 2; }

build() {	# NAME SETTINGS...
	mkdir -p "$dir/$1"
	: >"$dir/$1/.config"
	for setting in "$2" "$3"; do printf '%s\n' "$setting" >>"$dir/$1/.config"; done
	make -s -C "$src" O="$dir/$1" -j"$(nproc)" tests/bench/probe_cost
}

count() {	# NAME KIND ROUNDS
	valgrind --tool=callgrind --callgrind-out-file=/dev/null \
		"$dir/$1/tests/bench/probe_cost" "$2" "$3" 2>&1 | sed -n 's/.*Collected : //p'
}

build with CONFIG_USDT=y CONFIG_STATS=y
build without '# CONFIG_USDT is not set' '# CONFIG_STATS is not set'

rounds=20000 bad=0
printf '%-8s %10s %10s %8s\n' "" with without cost
for kind in alloc batch range lookup; do
	a=$(( ($(count with $kind $rounds) - $(count with $kind 0)) * 100 / rounds ))
	b=$(( ($(count without $kind $rounds) - $(count without $kind 0)) * 100 / rounds ))
	cost=$(( (a - b) * 10000 / b ))
	printf '%-8s %10s %10s %7s%%\n' $kind "$(awk "BEGIN { print $a / 100 }")" \
		"$(awk "BEGIN { print $b / 100 }")" "$(awk "BEGIN { print $cost / 100 }")"
	[ $cost -le 200 ] || bad=1
done
exit $bad
