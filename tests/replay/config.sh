#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# kvmm-replay --config: the same run as with the options. Run from the object tree.
set -u

tool=tools/kvmm-replay
dir=$(mktemp -d "${TMPDIR:-/tmp}/kvmm-config-XXXXXX")
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0

# same TEXT OTHER: are both good, and alike?
same() {
	if cmp -s "$dir/$1" "$dir/$2" && grep -q "^exit 0" "$dir/$1"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL $1 is not $2" && cat "$dir/$1" "$dir/$2"
	fi
}

# run NAME OPTION...
run() {
	name=$1
	shift
	$tool seq --blocks 200 --requests 400 --json --no-progress "$@" >"$dir/$name" 2>"$dir/$name.err"
	echo "exit $?" >>"$dir/$name"
}

cat >"$dir/conf" <<END
host_blocks = 900	# units
host_policy = slru
write = through
high = 95%
host_up_bandwidth = 20GB/s
host_down_bandwidth = 20GB/s
host_up_latency = 7us
host_down_latency = 7us
reload_time = 3s
adapt = no
disk_bytes = 1GiB
END
options="--host-blocks 900 --host-policy slru --write-policy through --offload-threshold 0.95
	 --transfer-bandwidth 20000 --transfer-latency 7 --reload-window 3000 --fixed --disk-blocks 16"
run options $options
run config --config "$dir/conf"
same config options
run fewer $options --host-blocks 300
run behind --config "$dir/conf" --host-blocks 300
same behind fewer
run before --host-blocks 300 --config "$dir/conf"
same before options
export KVMM_TIER_HOST_BLOCKS=300
run environment --config "$dir/conf"
same environment fewer
unset KVMM_TIER_HOST_BLOCKS

# refused FILE PATTERN
refused() {
	# shellcheck disable=SC2086
	if $tool seq --config $1 2>&1 >/dev/null | grep -q -- "$2"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL $1: $2"
	fi
}

echo 'host_block = 1' >"$dir/bad"
refused "$dir/bad" "bad:1: no key 'host_block'"
printf 'host_bytes = 1GiB\nhost_blocks = 7\n' >"$dir/bad"
refused "$dir/bad" 'host_bytes or host_blocks, not both'
printf 'host_blocks = 7\nlow = 80%%\n' >"$dir/low"
refused "$dir/low --offload-threshold 0.5" 'below the low mark'
refused "$dir/none" 'no such thing'

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
