#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# kvmm-dump tier: what it says of a store that is whole, in use, damaged, empty, or none. Run from the
# object tree; tests/disk/store makes the stores.
set -u

tool=tools/kvmm-dump
make=tests/disk/store
dir=$(mktemp -d "${TMPDIR:-/tmp}/kvmm-dump-XXXXXX")
trap 'rm -rf "$dir"' EXIT
. "$KVMM_SRCTREE/tests/expect.sh"

$make "$dir/store" 30 || exit 1
expect "a whole store" 0 '^30 records, .* 0 damaged' $tool tier "$dir/store"
expect "sums alone" 0 'sealed' $tool tier --quiet "$dir/store"
expect "the key of a record" 0 ' good .* 1d000000' $tool tier "$dir/store"
expect "JSON" 0 '^30$' sh -c "$tool tier --json '$dir/store' | jq '[.segments[].records[]] | length'"
expect "JSON: sum" 0 '^30$' sh -c "$tool tier -j '$dir/store' | jq '.sum.records'"
expect "JSON: parents" 0 '^"0400000000000000"$' \
	sh -c "$tool tier -j '$dir/store' | jq '.segments[].records[] | select(.position == 5).parent'"
expect "not read" 0 'unread' $tool tier --no-verify "$dir/store"

# Somebody has it open: $make waits for the end of its input.
mkfifo "$dir/fifo"
$make "$dir/store" 30 wait <"$dir/fifo" &
exec 3>"$dir/fifo"
expect "a store in use" 0 '^30 records' $tool tier "$dir/store"
exec 3>&-
wait

# One byte of the payload of the first record: 24 KiB of superblocks and marks, head, header.
printf 'X' | dd of="$dir/store/store" bs=1 seek=$((24576 + 8192 + 100)) conv=notrunc 2>/dev/null
expect "a damaged record" 1 '1 damaged' $tool tier "$dir/store"
printf 'X' | dd of="$dir/store/store" bs=1 seek=10 conv=notrunc 2>/dev/null
expect "one superblock" 1 '2 of 3 good' $tool tier "$dir/store"
for page in 1 2; do
	printf 'X' | dd of="$dir/store/store" bs=1 seek=$((4096 * page + 10)) conv=notrunc 2>/dev/null
done
expect "no superblock" 1 'damaged' $tool tier "$dir/store"
expect "no store" 1 'no such thing' $tool tier "$dir/none"
expect "no folder" 2 'Usage' $tool tier
expect "another word" 2 "there is no command 'tears'" $tool tears "$dir/store"
expect "two folders" 2 'one folder' $tool tier "$dir" "$dir"
expect "help" 0 'Exit code' $tool --help

expect_end
