#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What bash completes: options and commands of each tool as they are, sockets, files. Run from the object tree.
set -u

dir=$(mktemp -d "${TMPDIR:-/tmp}/kvmm-complete-XXXXXX")
trap 'rm -rf "$dir"' EXIT
. "$KVMM_SRCTREE/tests/expect.sh"
. "$KVMM_SRCTREE/share/bash-completion/kvmm"
PATH=$PWD/tools:$PATH

# complete WORD...: what the last one can become, in a line
complete_to() {
	COMP_WORDS=("$@")
	COMP_CWORD=$(($# - 1))
	_kvmm "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
	echo "${COMPREPLY[*]}"
}

expect "a command" 0 '^pool$' complete_to kvmm-stat poo
expect "several" 0 "^pagetypeinfo pool pressure pressure-text proc$" complete_to kvmm-stat p
expect "modes" 0 '^compare conc$' complete_to kvmm-replay co
expect "commands for a running engine" 0 '^cancel config$' complete_to kvmm-defrag c
expect "benchmarks" 0 '^alloc-range alloc-request$' complete_to kvmm-bench alloc-r
expect "an option with a value" 0 '^--socket=$' complete_to kvmm-stat --so
expect "one without" 0 '^--json$' complete_to kvmm-migrate status --j
expect "of a command" 0 '^--interval=$' complete_to kvmm-dump record --in
expect "and not those of others" 0 '^$' complete_to kvmm-dump record --qui
expect "an alias" 0 '^--delay=$' complete_to kvmm-top --del
touch "$dir/a.sock" "$dir/b.sock" "$dir/note"
export KVMM_SOCKET_DIR=$dir
expect "sockets" 0 "^$dir/a.sock $dir/b.sock\$" complete_to kvmm-stat -S ""
expect "behind an equal sign" 0 "^$dir/b.sock\$" complete_to kvmm-stat --socket = "$dir/b"
expect "files" 0 "^$dir/note\$" complete_to kvmm-events decode "$dir/n"
for tool in tools/kvmm-*; do
	case $tool in *.*) continue;; esac
	expect "$tool: each option" 0 '^--usage --version$' \
		sh -c "echo \"$(complete_to "${tool#tools/}" -- | tr ' ' '\n' | grep -E '^--(usage|version)$' | tr '\n' ' ')\" | sed 's/ *$//'"
	expect "$tool is completed" 0 '_kvmm' complete -p "${tool#tools/}"
done

expect_end
