#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# kvmm-stat tiers: of stores that are whole, in use, damaged or none. Run from the object tree;
# tests/disk/store makes the stores.
set -u

tool=tools/kvmm-stat
make=tests/disk/store
dir=$(mktemp -d "${TMPDIR:-/tmp}/kvmm-stat-XXXXXX")
trap 'rm -rf "$dir"' EXIT
. "$KVMM_SRCTREE/tests/expect.sh"

$make "$dir/a" 30 || exit 1
$make "$dir/b" 7 || exit 1
bytes=$(tools/kvmm-dump tier -j "$dir/a" | jq '[.segments[].records[].bytes] | add')
layouts=$(tools/kvmm-dump tier -j "$dir/a" | jq '[.segments[].records[].layout] | unique | length')

expect "records" 0 "^records      30, $bytes bytes" $tool tiers "$dir/a"
expect "capacity" 0 "^capacity     4218880 bytes, .* superblocks written [0-9]* times" $tool tiers "$dir/a"
expect "segments" 0 "^segments     .* of 65536 bytes; uses 1 to " $tool tiers "$dir/a"
expect "layouts" 0 "^$layouts\$" sh -c "$tool tiers '$dir/a' | grep -c ^layout"
expect "generations" 0 '^generations  ' $tool tiers "$dir/a"
expect "two stores" 0 '^records      7, ' $tool tiers "$dir/a" "$dir/b"
expect "JSON" 0 '^\[30,7\]$' sh -c "$tool tiers -j '$dir/a' '$dir/b' | jq -c '[.tiers[].records]'"
expect "JSON: sums of layouts" 0 '^true$' \
	sh -c "$tool tiers -j '$dir/a' | jq '.tiers[0] | ([.layouts[].bytes] | add) == .bytes'"
expect "JSON: segments" 0 '^64$' \
	sh -c "$tool tiers -j '$dir/a' | jq '.tiers[0] | .sealed + .open + .empty'"

# Somebody has it open: $make waits for the end of its input.
mkfifo "$dir/fifo"
$make "$dir/b" 9 wait <"$dir/fifo" &
exec 3>"$dir/fifo"
while ! $tool tiers "$dir/b" | grep -q '^records      9, '; do
	kill -0 $! 2>/dev/null || break
	sleep 0.05
done
expect "in use" 0 '^records      9, ' $tool tiers "$dir/b"
exec 3>&-
wait $!

before=$(cksum <"$dir/a/store")
expect "nothing is written" 0 "^$before\$" sh -c "$tool tiers '$dir/a' >/dev/null; cksum <'$dir/a/store'"
expect "one of two is not there" 1 'no such thing' $tool tiers "$dir/none" "$dir/a"
expect "and the other is" 1 '^records      30, ' $tool tiers "$dir/none" "$dir/a"
expect "JSON of what is not there" 0 '^\[false,true\]$' \
	sh -c "$tool tiers -j '$dir/none' '$dir/a' | jq -c '[.tiers[].found]'"
mkdir -m 700 "$dir/zero" && dd if=/dev/zero of="$dir/zero/store" bs=8192 count=4 2>/dev/null
chmod 600 "$dir/zero/store"
expect "no superblock" 1 '^tier ' $tool tiers "$dir/zero"

KVMM_SOCKET_DIR="$dir/none" expect "no engine" 1 'no engine serves' $tool tiers
expect "full disk" 1 'standard output' sh -c "$tool tiers '$dir/a' >/dev/full"

expect_end
