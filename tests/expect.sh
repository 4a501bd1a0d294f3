# SPDX-License-Identifier: Apache-2.0
#
# Sourced by scripts that look at what a command says; expect_end says how many were as expected.
passed=0 failed=0

# expect TEXT CODE PATTERN COMMAND...: its exit code, and a line of what it prints
expect() {
	what=$1 code=$2 pattern=$3
	shift 3
	out=$("$@" 2>&1)
	got=$?
	if [ $got -eq "$code" ] && printf '%s\n' "$out" | grep -q -- "$pattern"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL $what: exit code $got: $out" | head -20
	fi
}

expect_end() {
	echo "$passed passed, $failed failed"
	[ $failed -eq 0 ]
}
