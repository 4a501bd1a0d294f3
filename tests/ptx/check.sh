#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Does scripts/ptx notice a text that is not what it should be? Each case is a
# copy of the kernels with one thing wrong, and clang and ptxas are taken away
# or replaced where it is not about them.
#
# usage: check.sh		prints "N passed, N failed"
set -u

src=${KVMM_SRCTREE:-.}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0

result() {
	if [ "$1" -eq 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: $2"
		cat "$tmp/out"
	fi
}

# check: runs it over the copy
check() {
	"$src/scripts/ptx" "$tmp" --check >"$tmp/out" 2>&1
}

fresh() {
	rm -rf "$tmp/cuda"
	mkdir -p "$tmp/cuda/kernel"
	cp "$src"/cuda/kernel/{move.c,kernel.h,port.h,move.sm70.ptx} "$tmp/cuda/kernel"
}

# refuses WHAT WHY SED [FILE]: the check fails after this edit, and says why
refuses() {
	fresh
	sed -i -e "$3" "$tmp/cuda/kernel/${4-move.sm70.ptx}"
	! check && grep -q -e "$2" "$tmp/out"
	result $? "$1"
}

# Header lines and forbidden instructions need no tools.
refuses "another version"	'\.version 6.0'	's/^.version 6.0/.version 9.0/'
refuses "another target"	'\.target sm_70' 's/^.target sm_70/.target sm_90/'
refuses "a second target line"	'\.target sm_70' 's/^.target sm_70/&\n.target sm_90/'
refuses "a barrier"		'no stack'	's/^\tret;/\tbar.sync 0;\n&/'
refuses "a stack"		'no stack'	's/^\t.reg .pred.*/\t.local .align 8 .b8 d[8];\n&/'

fresh
check
result $? "the committed text"
# What is missing is said, and is no failure.
sed -n '/^ptx: no \(clang\|ptxas\)/p' "$tmp/out"
if ! grep -q 'ptx: no clang' "$tmp/out"; then
	refuses "text changed"	'run make ptx'	'0,/add.s32/s//sub.s32/'
	refuses "source changed" 'run make ptx'	's/IN_FLIGHT\t4u/IN_FLIGHT\t5u/'  move.c
	refuses "source broken"	'does not compile' 's/^KERNEL(kv_sum/KERNEL(/' move.c
fi
if ! grep -q 'ptx: no ptxas' "$tmp/out"; then
	refuses "text that ptxas refuses" 'ptxas refuses' '0,/add.s32/s//add.s33/'
fi

fresh
PATH=/usr/bin:/bin CLANG_PTX=/bin/false check
result $? "the committed text, with other tools"

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
