#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# kvmm-stat tiers: of stores that are whole, in use, damaged or none, and of runs of kvmm-replay. Run
# from the object tree; tests/disk/store makes the stores.
set -u

tool=tools/kvmm-stat
make=tests/disk/store
replay=tools/kvmm-replay
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

$replay seq --host-blocks 60 --blocks 20 --json --no-progress --generate talks --requests 300 \
	>"$dir/run" 2>/dev/null ||
	for i in 1 2 3 1 2 3 1 2 3; do
		echo "{\"timestamp\": $i, \"input_length\": 5120, \"output_length\": 1, \"hash_ids\": [${i}0, ${i}1, ${i}2, ${i}3, ${i}4, ${i}5, ${i}6, ${i}7, ${i}8, ${i}9]}"
	done | $replay seq --block-tokens 512 --blocks 20 --host-blocks 60 --json --no-progress \
	>"$dir/run"
expect "a run" 0 '^  host_blocks        60$' $tool tiers --replay "$dir/run"
expect "two runs" 0 '^run 2$' sh -c "cat '$dir/run' '$dir/run' | $tool tiers --replay -"
hits=$(jq .host_hits "$dir/run")
expect "JSON of a run" 0 "^$hits\$" sh -c "$tool tiers -j --replay '$dir/run' | jq '.runs[0].host_hits'"
for at in 11 22 33 41 52 63; do
	i=${at#?}
	echo "{\"timestamp\": ${at}00000, \"input_length\": 2048, \"output_length\": 1, \"hash_ids\": [${i}0, ${i}1, ${i}2, ${i}3]}"
done | $replay seq --block-tokens 512 --blocks 4 --host-blocks 4 --disk-blocks 20 --write-policy through \
	--json --no-progress - >"$dir/disk" || exit 1
hits=$(jq .disk_hits "$dir/disk")
expect "a run with a disk: it has hits there" 0 '^true$' jq '.disk_hits > 0' "$dir/disk"
expect "and they are shown" 0 "^  disk_hits          $hits\$" $tool tiers --replay "$dir/disk"
want=$(jq -c 'with_entries(select(.key | test("^disk_|^host_lost$")))' "$dir/disk")
expect "all that it says of the disk, as it says it" 0 '^true$' \
	sh -c "$tool tiers -j --replay '$dir/disk' |
		jq --argjson want '$want' '(\$want | length) > 10 and (.runs[0] | contains(\$want))'"
expect "a run without a disk says nothing of one" 0 '^0$' \
	sh -c "$tool tiers -j --replay '$dir/run' | jq '[.runs[0] | keys[] | select(test(\"^disk_\"))] | length'"
echo '{"trace": "t", "host_blocks": 0}' >"$dir/off"
expect "a run without tiers" 1 'no run with tiers' $tool tiers --replay "$dir/off"
echo '{"trace": "a \"}, b", "array": [1, {"x": 2}], "host_blocks": 5, "loads": 3}' >"$dir/odd"
expect "brackets in strings" 0 '^  loads              3$' $tool tiers --replay "$dir/odd"
expect "a string is kept" 0 'a \\"}, b' $tool tiers --replay "$dir/odd"
for text in 'nonsense' '{"a": 1' '{"a' '{"a": "b' '{"a": [1' '{"a" 1}' '{,}x' '{1: 2}'; do
	printf '%s\n' "$text" >"$dir/bad"
	expect "no JSON: $text" 1 'bad:1: not an object' $tool tiers --replay "$dir/bad"
done
expect "no such file" 1 'No such file' $tool tiers --replay "$dir/none"
KVMM_SOCKET_DIR="$dir/none" expect "no engine" 1 'no engine serves' $tool tiers
expect "both" 2 'folders, or' $tool tiers --replay "$dir/run" "$dir/a"
expect "devices have no runs" 2 'for tiers' $tool devices --replay "$dir/run"
expect "full disk" 1 'standard output' sh -c "$tool tiers '$dir/a' >/dev/full"

expect_end
