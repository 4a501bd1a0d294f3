#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The static probes of the library: all of them, each with its arguments, and each of them a nop. Run in
# the object tree. Built without probes there is nothing to look at.
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
	ours && /Arguments:/ { print name, NF - 1, at; ours = 0 }')

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

# What is there is one nop: nobody traces.
for at in $(printf '%s\n' "$notes" | cut -d' ' -f3 | head -4); do
	code=$(objdump -d --start-address="$at" --stop-address=$((at + 1)) $lib | tail -1 | cut -f3 | tr -d ' ')
	good "code at $at" "$code" nop
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
