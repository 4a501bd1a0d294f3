#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The models in Documentation/models: no state of them breaks what they assert, and each of their
# mutants does. Needs spin and a compiler; without spin only what can be read is checked: that the
# steps the models speak of are still called so.
#
# usage: models.sh		prints "N passed, N failed"
set -u

src=${KVMM_SRCTREE:-.}
models=$src/Documentation/models
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0 skipped=0

result() {
	if [ "$1" -eq 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: $2"
	fi
}

# errors MODEL [FLAG]: how many the checker finds; it stops at the first
errors() {
	(cd "$tmp" && rm -f pan* && spin -a ${2-} "$1" >log 2>&1 &&
	 ${CC:-gcc} -O2 -w -DSAFETY -o pan pan.c && ./pan -m100000) >"$tmp/out" 2>&1
	sed -n 's/.*errors: \([0-9]*\).*/\1/p' "$tmp/out"
}

models=$(cd "$models" && pwd)
for name in kv_edge_put kv_edge_claim kv_edge_try_get kv_entry_recycle; do
	grep -q "^static inline int $name(\|^int $name(" "$src"/include/kv/entry*.h
	result $? "include/kv/entry*.h has no $name(), which life.pml models"
done
for name in try_table find_slowly lock_home move_bucket; do
	grep -q "[ *]$name(" "$src"/registry/flat*.c
	result $? "registry/flat*.c has no $name(), which table.pml models"
done

for name in mag_enter mag_leave wait_for_owner fence_owners mags_drain; do
	grep -q "[ *]$name(" "$src"/percpu/mag.[ch]
	result $? "percpu/mag.[ch] has no $name(), which mag.pml models"
done

if ! command -v spin >/dev/null; then
	echo "models: spin is not installed, the models were not checked"
	skipped=16
else
	for model in life table mag; do
		[ "$(errors "$models/$model.pml")" = 0 ]
		result $? "$model.pml breaks what it asserts"
		for bug in $(grep -o 'BUG_[A-Z_]*' "$models/$model.pml" | sort -u); do
			[ "$(errors "$models/$model.pml" -D"$bug")" = 1 ]
			result $? "$model.pml does not notice $bug"
		done
	done
fi
echo "$passed passed, $failed failed$([ $skipped -eq 0 ] || echo ", $skipped skipped")"
[ $failed -eq 0 ]
