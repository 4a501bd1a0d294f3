#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The static probes of the library: all of them, each with its arguments, and each of them a nop; and, where
# bpftrace is there and may, what it counts in the toy engine against what that says itself. Run in the
# object tree. Built without probes there is nothing to look at.
set -u

lib=libkvmm.so.0
passed=0 failed=0

if ! grep -q 'CONFIG_USDT 1' include/generated/autoconf.h ||
   ! echo '#include <sys/sdt.h>' | gcc -E -x c - >/dev/null 2>&1; then
	echo "0 passed, 0 failed: built without probes"
	exit 0
fi

notes=$(readelf -n $lib | awk '/Provider: kvmm/ { ours = 1 } /Provider:/ && !/kvmm/ { ours = 0 }
	ours && /Name:/ { name = $2 }
	ours && /Location:/ { at = $2; sub(",", "", at) }
	ours && /Arguments:/ {
		types = ""
		for (i = 2; i <= NF; i++)
			types = types (i > 2 ? "," : "") substr($i, 1, index($i, "@"))
		print name, NF - 1, at, types, /\$/ ? "constant" : "-"
		ours = 0
	}')

good() {
	if [ "$2" = "$3" ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL $1: '$2', not '$3'"
	fi
}

for probe in alloc:3 free:2 evict:2 register:3 match:3 miss:2 move:3 migrate:3 offload:3 load:3; do
	good "$probe" "$(printf '%s\n' "$notes" | awk -v name="${probe%:*}" '$1 == name { print $2 }' |
		sort -u | tr '\n' ' ')" "${probe#*:} "
done
good "names" "$(printf '%s\n' "$notes" | cut -d' ' -f1 | sort -u | wc -l)" 10

# perf attaches to all places of a name or to none: the same types, and no constants. Two hot places have
# some nevertheless (kv_probe2_hot()).
good "types" "$(printf '%s\n' "$notes" | cut -d' ' -f1,4 | sort -u | wc -l)" 10
good "constants" "$(printf '%s\n' "$notes" | awk '$5 == "constant" && $1 !~ /^(alloc|free)$/')" ""

# What is there is one nop: nobody traces.
for at in $(printf '%s\n' "$notes" | cut -d' ' -f3 | head -4); do
	code=$(objdump -d --start-address="$at" --stop-address=$((at + 1)) $lib | tail -1 | cut -f3 | tr -d ' ')
	good "code at $at" "$code" nop
done
# @name: what a sum was in the end, in what bpftrace printed.
sum() { printf '%s\n' "$counted" | sed -n "s/^@$1: //p"; }

# The FIELDth word of the toy engine's line.
said() { printf '%s\n' "$counted" | awk -v field="$1" '$1 == "beside" { print $field }'; }

toy=$PWD/samples/toy-engine skipped=
if ! counted=$(timeout 60 bpftrace -c "$toy --mode beside --requests 200" -e "
	usdt:$toy:kvmm:match { @hits = sum(arg1); }
	usdt:$toy:kvmm:move { @moved = sum(arg2); }" 2>&1); then
	skipped=", SKIPPED: bpftrace is not there, or must not trace"
elif [ -z "$(said 6)" ]; then
	skipped=", SKIPPED: bpftrace did not run the toy engine"
else
	good "hits" "$(sum hits)" "$(said 6)"
	good "moved blocks" "$(sum moved)" "$(said 8)"
fi
echo "$passed passed, $failed failed$skipped"
[ $failed -eq 0 ]
