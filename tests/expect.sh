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

# value KEY: the integer that the JSON in $out has
value() {
	printf '%s\n' "$out" | sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p"
}

# bar TEXT GOT ge|gt|le|eq WANT: decimal fractions
bar() {
	if [ -n "$2" ] && awk -v a="$2" -v op="$3" -v b="$4" 'BEGIN { a += 0; b += 0
	   exit !(op == "ge" ? a >= b : op == "gt" ? a > b : op == "le" ? a <= b : a == b) }'; then
		passed=$((passed + 1))
		echo "ok   $1: $2 ($3 $4)"
	else
		failed=$((failed + 1))
		echo "FAIL $1: ${2:-nothing} (wanted: $3 $4)"
	fi
}

expect_end() {
	echo "$passed passed, $failed failed"
	[ $failed -eq 0 ]
}
