#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Do the checkers and the build notice what they should? A small tree with a
# library of two folders is built and broken in one way at a time. A check that
# also fails on the sound tree would prove nothing, so that one comes first.
#
# usage: selftest.sh		prints "N passed, N failed"
set -u

here=$(cd "$(dirname "$0")/.." && pwd)
objtree=$PWD
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# Nothing of the make that called us.
unset MAKEFLAGS MAKELEVEL KVMM_RESULTS KVMM_RUN KVMM_SRCTREE KVMM_JOBS KVMM_TEST_LENGTH
passed=0 failed=0

result() {
	if [ "$1" = ok ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: $2"
		cat "$tmp/out"
	fi
}

# accepts WHAT COMMAND...: the command succeeds
accepts() {
	local what=$1
	shift
	if "$@" >"$tmp/out" 2>&1; then result ok; else result bad "$what"; fi
}

# refuses WHAT PATTERN COMMAND...: it fails, and says why
refuses() {
	local what=$1 why=$2
	shift 2
	if ! "$@" >"$tmp/out" 2>&1 && grep -q -e "$why" "$tmp/out"; then
		result ok
	else
		result bad "$what"
	fi
}

# says WHAT EXPECTED COMMAND...: it succeeds with exactly this output
says() {
	local what=$1 expected=$2
	shift 2
	if "$@" >"$tmp/out" 2>&1 && [ "$(cat "$tmp/out")" = "$expected" ]; then
		result ok
	else
		result bad "$what"
	fi
}

# A fresh sound tree in $tmp/tree, which becomes the current directory.
fresh_tree() {
	cd "$tmp" && rm -rf tree && mkdir -p tree && cd tree || exit 1
	cp -r "$here"/{Makefile,Kconfig,configs,scripts,kvmm.pc.in} .
	# Its names are this library's; a node has to have one.
	sed -i '/^KVMM_0/,/local:/{/^\t\tkvmm_[a-z0-9_]*;$/d; s/global:/& kvmm_nothing;/}' \
		scripts/kvmm.map
	mkdir -p Documentation include/kv include/kvmm lib buddy tools tests
	cp "$here/Documentation/layers.txt" Documentation/
	echo 'obj-y := low.o' >lib/Makefile
	echo 'obj-y := high.o' >buddy/Makefile
	echo 'prog-y := tool' >tools/Makefile
	echo 'int kv_low(int x);' >include/kv/lib.h
	echo 'int kv_high(void);' >include/kv/buddy.h
	echo '__attribute__((visibility("default"))) int kvmm_one(void);' >include/kvmm/api.h
	cat >lib/low.c <<-'END'
		#include <string.h>
		#include <kv/lib.h>
		int kv_low(int x) { char c[8]; memset(c, x, 8); return c[3]; }
	END
	cat >buddy/high.c <<-'END'
		#include <kvmm/api.h>
		#include <kv/buddy.h>
		#include <kv/lib.h>
		int kv_high(void) { return kv_low(1); }
		int kvmm_one(void) { return kv_high(); }
	END
	cat >tools/tool.c <<-'END'
		#include <kvmm/api.h>
		int main(void) { return kvmm_one() - 1; }
	END
}

build() {
	make SAN= DEBUG= WERROR=1 C= CFLAGS= CC=gcc "$@"
}

# What a build with nothing new to show prints: the names of what it makes.
rebuilt() {
	build -j2 "$@" | awk '{ print $1, $2 }' | sort | tr '\n' ';'
}

test_layercheck() {
	fresh_tree
	accepts "layercheck: sound tree" scripts/layercheck .
	echo '#include <kv/buddy.h>' >>lib/low.c
	refuses "layercheck: lower folder uses higher" "lib may not use buddy" scripts/layercheck .

	fresh_tree
	echo '#include <kv/buddy.h>' >>include/kv/lib.h
	refuses "layercheck: header uses higher folder" "include/kv/lib.h:2" scripts/layercheck .

	fresh_tree
	echo '#include "../lib/internal.h"' >>buddy/high.c
	refuses "layercheck: internal.h of another folder" "own folder" scripts/layercheck .

	fresh_tree
	echo '#include "lib/internal.h"' >>buddy/high.c
	refuses "layercheck: the same by way of an -I" "own folder" scripts/layercheck .

	fresh_tree
	echo '#include <lib/internal.h>' >>buddy/high.c
	refuses "layercheck: no room of that house" "reaches into a folder" scripts/layercheck .
	echo 'house kvmm: lib buddy' >>Documentation/layers.txt
	accepts "layercheck: a room above" scripts/layercheck .
	echo '#include <buddy/internal.h>' >>lib/low.c
	refuses "layercheck: a room below" "lib/low.c:4" scripts/layercheck .

	fresh_tree
	echo '#include <kv/lib.h>' >>tools/tool.c
	refuses "layercheck: tool uses kv" "tools sees only" scripts/layercheck .

	fresh_tree
	mkdir tools/bench && echo '#include <kv/buddy.h>' >tools/bench/run.c
	accepts "layercheck: a tool that may look inside" scripts/layercheck .
	echo '#include <kv/cuda.h>' >>tools/bench/run.c
	refuses "layercheck: a tool that looks elsewhere" "may not use cuda" scripts/layercheck .

	fresh_tree
	echo '#include <kv/lib.h>' >>include/kvmm/api.h
	refuses "layercheck: installed header uses kv" "sees only" scripts/layercheck .

	fresh_tree
	touch include/kv/stray.h
	refuses "layercheck: header without owner" "no owner" scripts/layercheck .

	fresh_tree
	printf '/* ---- low.c ---- */\n\nint kv_elsewhere(void);\n' >>include/kv/lib.h
	refuses "layercheck: a prototype below the name of another file" "kv_elsewhere() stands below" \
		scripts/layercheck .
}

test_symcheck() {
	fresh_tree
	accepts "symcheck: sound tree" build symcheck
	cat >>buddy/high.c <<-'END'
		#include <stdlib.h>
		void *kv_leak(void);
		void *kv_leak(void) { return malloc(8); }
	END
	refuses "symcheck: malloc outside lib" "buddy/high.o: uses malloc" build symcheck

	fresh_tree
	cat >>lib/low.c <<-'END'
		#include <time.h>
		long kv_now(void);
		long kv_now(void) { return time(NULL); }
	END
	refuses "symcheck: time in lib, but not in the seam" "lib/low.o: uses time" build symcheck
	mv lib/low.c lib/env.c
	sed -i 's/low/env/' lib/Makefile
	accepts "symcheck: time in the seam" build symcheck
}

test_headercheck() {
	fresh_tree
	accepts "headercheck: sound tree" build headercheck
	echo 'size_t kv_size(void);' >>include/kv/lib.h
	refuses "headercheck: misses an include" "size_t" build headercheck

	fresh_tree
	echo 'int kvmm_new(int class);' >>include/kvmm/api.h
	refuses "headercheck: not C++" "api.h" build headercheck

	fresh_tree
	printf '%s\n' '#define KVMM_API' 'KVMM_API int kvmm_kept(void);' >>include/kvmm/api.h
	refuses "headercheck: a call of the core that may change" "lacks: kvmm_kept" \
		build headercheck

	fresh_tree
	echo 'int kvmm_new(void); /* was kvmm_old() */' >>include/kvmm/api.h
	echo 'kvmm_old kvmm_new # by another name' >Documentation/renames.txt
	accepts "headercheck: a name that has changed" build headercheck
	echo 'kvmm_old kvmm_never' >Documentation/renames.txt
	refuses "headercheck: a new name that is none" "no header has kvmm_never" build headercheck
	echo 'kvmm_new -' >Documentation/renames.txt
	refuses "headercheck: an old name that is left" "kvmm_new is not gone" build headercheck
	echo 'struct kvmm_new { int a; };' >>include/kvmm/api.h
	echo 'struct:kvmm_old struct:kvmm_new' >Documentation/renames.txt
	accepts "headercheck: a struct that has another name" build headercheck
	printf '%s\n' 'kvmm_old() kvmm_new()' 'struct:kvmm_new -' >Documentation/renames.txt
	refuses "headercheck: an old struct that is left" "struct:kvmm_new is not gone" build headercheck
}

test_abicheck() {
	fresh_tree
	printf '%s\n' 'struct kvmm_new {' '	int a;' '	int b;' '};' >>include/kvmm/api.h
	accepts "abicheck: what is there is written" build abi-update
	accepts "abicheck: nothing has changed" build abicheck
	sed -i 's/^	int b;/	char b;/' include/kvmm/api.h
	refuses "abicheck: a field has changed" "field kvmm_new.b: at 4, 1 bytes" build abicheck
}

# worse WHAT WHY TEXT FILE: the text is put at the end of the file, and a number has become worse
worse() {
	git checkout -q . && printf '%s\n' "$3" >>"$4"
	refuses "ratchet: $1" "$2" build ratchet
}

test_ratchet() {
	command -v git >/dev/null || return
	fresh_tree
	cp "$here/.gitignore" .
	rm -f scripts/ratchet.txt
	refuses "ratchet: nothing is committed" "library-lines: not in" build ratchet
	accepts "ratchet: numbers are written" build ratchet-update
	git init -q . && git add . && git -c user.name=a -c user.email=a@b commit -qm all
	accepts "ratchet: sound tree" build ratchet
	worse "lines" "library-lines: was 1[0-9], is 1[0-9], less is better: lib/low.c" "int kv_x;" lib/low.c
	worse "a line too long" "lines-over-100.*is 1.*buddy/high.c" "/*$(printf '%99s')*/" buddy/high.c
	worse "words" "people-words.*lib/low.c" "/* whoever calls */" lib/low.c
	worse "a long function" "functions-over-70.*lib/low.c" \
		"void f(void);
void f(void)
{
$(yes '	;' | head -n 70)
}" lib/low.c
	worse "a call upwards, in a cycle" "upward-edges.*lib/low.o->buddy/high.o" \
		"int kv_high(void); int kv_up(void); int kv_up(void) { return kv_high(); }" lib/low.c
	refuses "ratchet: its cycle" "call-cycle-objects: was 1, is 2.*buddy/high.o lib/low.o" build ratchet
	worse "an export that only tests call" "exports-only-tests-call.*: kvmm_two" \
		'int kvmm_two(void); __attribute__((visibility("default"))) int kvmm_two(void) { return 2; }' \
		buddy/high.c
	worse "a struct that cannot grow" "cannot-grow.*: kvmm_new_attr" "struct kvmm_new_attr {
	int x;
};" include/kvmm/api.h
	worse "a struct of callbacks" "cannot-grow.*: kvmm_new" "struct kvmm_new {
	int x;
};
typedef void kvmm_new_fn(struct kvmm_new *arg);" include/kvmm/api.h
	worse "a struct that is fixed" "that-are-fixed.*: kvmm_new" "/** Fixed: it is a number. */
struct kvmm_new {
	int x;
};" include/kvmm/api.h
	git checkout -q . && sed -i '/kv_high(void);/d' include/kv/buddy.h && sed -i 's/#include <kv.buddy.h>/int kv_high(void);/' buddy/high.c
	accepts "ratchet: better numbers" build ratchet
	echo 'asserts-per-function 9 more' >>scripts/ratchet.txt
	refuses "ratchet: fewer than there were" "asserts-per-function: was 9, is 0, more" build ratchet
}

# What callgrind says is made up: half a percent more than was committed is the same.
test_instructions() {
	fresh_tree
	mkdir tests/bench bin
	cp "$here/tests/bench/instructions.c" tests/bench/
	printf '#!/bin/sh\nfor a; do touch "${a#--callgrind-out-file=}"; done\necho 10\n' >bin/valgrind
	printf '#!/bin/sh\necho "$COUNT (5%%)  a.c:op_x [p]"\n' >bin/callgrind_annotate
	chmod +x bin/*
	count() { PATH=$PWD/bin:$PATH COUNT=$1 scripts/ratchet ${2-} --instructions . ./prog; }
	accepts "instructions: are written" count 10,000 --update
	accepts "instructions: as many" count 10,040
	refuses "instructions: more" "x: was 1000, is 1010" count 10,100
}

# A program in $tmp that prints its first argument and exits with the second.
program() {
	printf '#!/bin/sh\ncat <<END\n%s\nEND\n%s\n' "$1" "$2" >"$tmp/prog"
	chmod +x "$tmp/prog"
}

test_runner() {
	cd "$tmp" || exit 1
	program "" "exit 0"
	accepts "runtests: exit 0" "$here/scripts/runtests" ./prog
	program "" "exit 3"
	refuses "runtests: exit 3" "0 passed, 1 failed" "$here/scripts/runtests" ./prog
	program "" 'kill -SEGV $$'
	refuses "runtests: crash" "0 passed, 1 failed" "$here/scripts/runtests" ./prog
	program "" "sleep 5"
	refuses "runtests: hangs" "no end after" env KVMM_TIMEOUT=1 "$here/scripts/runtests" ./prog
	program "[====] Synthesis: Tested: 5 | Passing: 3 | Failing: 2 | Crashing: 1 " "exit 1"
	refuses "runtests: counts" "3 passed, 2 failed" "$here/scripts/runtests" ./prog
	program "[====] Synthesis: Tested: 0 | Passing: 0 | Failing: 0 | Crashing: 0 " "exit 0"
	refuses "runtests: no tests" "nothing ran" "$here/scripts/runtests" ./prog
	program "[----] some_test.c:7: Assertion Failed
[====] Synthesis: Tested: 5 | Passing: 5 | Failing: 0 | Crashing: 0 " "exit 0"
	refuses "runtests: failure in a tear-down" "5 passed, 1 failed" \
		"$here/scripts/runtests" ./prog
	program "7 passed, 0 failed" "exit 1"
	refuses "runtests: fails after its summary" "7 passed, 1 failed" \
		"$here/scripts/runtests" ./prog
	local taken="criterion: Could not initialize the message server: Address already in use."
	program "" "mkdir again 2>&- || exit 0; echo '$taken'; exit 134"
	accepts "runtests: another process's socket has the name" "$here/scripts/runtests" ./prog
	program "" "echo '$taken'; exit 134"
	refuses "runtests: no socket at all" "0 passed, 1 failed" "$here/scripts/runtests" ./prog
	program "" "mkdir taken && sleep 1 && rmdir taken"
	accepts "runtests: one after the other" "$here/scripts/runtests" ./prog ./prog
	refuses "runtests: two at a time" "1 passed, 1 failed" \
		env KVMM_JOBS=2 "$here/scripts/runtests" ./prog ./prog
	program "runs alone" "mkdir taken && sleep 1 && rmdir taken"
	accepts "runtests: one that runs alone" env KVMM_JOBS=2 "$here/scripts/runtests" ./prog ./prog
	program "" "exit 3"
	refuses "runtests: its end shows what failed" "last lines of" \
		bash -o pipefail -c "'$here/scripts/runtests' ./prog /bin/true | tail -n 3"
}

# By hand, the exit code says whether a program passed.
test_verdict() {
	cd "$tmp" || exit 1
	cat >late.c <<-'END'
		#include <criterion/criterion.h>
		#include <stdlib.h>
		static void bad(void) { cr_expect(0); }
		Test(late, fails, .fini = bad) { }
		Test(late, dies, .fini = abort) { }
		Test(late, passes) { }
	END
	accepts "verdict: builds" "${CC:-cc}" -o late late.c "$here/tests/support/verdict.c" -lcriterion
	refuses "verdict: tear-downs that fail" "Passing: 1 | Failing: 2" ./late
}

test_flake() {
	cd "$tmp" || exit 1
	program "" 'echo >>runs; [ $(wc -l <runs) -ne 2 ]'
	refuses "flake: a run that fails" "1 of 3 runs failed" "$here/scripts/flake" 3 ./prog
	program "" "exit 0"
	accepts "flake: none fails" "$here/scripts/flake" 3 ./prog
}

# Stands in for make: one target prints counts, one fails, the rest succeed.
# How many phases there are is for the script to say, and for the first run.
test_summary() {
	local nr
	cd "$tmp" || exit 1
	program "" "true"
	nr=$("$here/scripts/check" ./prog | sed -n '$s/ passed, 0 failed$//p')
	accepts "check: has phases" test "${nr:-0}" -gt 5
	program "" "for t; do :; done; [ \$t != test ] || echo 4 0 unit >>\$KVMM_RESULTS"
	accepts "check: all good" "$here/scripts/check" ./prog
	says "check: adds up" "$((nr + 3)) passed, 0 failed" \
		sh -c "'$here/scripts/check' ./prog | tail -n 1"
	program "" "for t; do :; done; [ \$t != tsan ]"
	refuses "check: failing phase" "^$((nr - 1)) passed, 1 failed" \
		"$here/scripts/check" ./prog
	program "" "false"
	refuses "check: no build" "0 passed, 1 failed" "$here/scripts/check" ./prog
}

test_build() {
	fresh_tree
	accepts "build: sound tree" build -j2
	accepts "build: tool runs" tools/tool
	says "build: nothing to do" "" rebuilt
	touch include/kv/buddy.h
	says "build: header changed" \
		"AR libkvmm.a;CC buddy/high.o;LD libkvmm.o;LD libkvmm.so.0;LD tools/tool;LN libkvmm.so;" \
		rebuilt
	says "build: flags changed" "CC lib/low.o;" rebuilt CFLAGS=-DX="'\"a b\"'" lib/low.o
	says "build: same flags" "" rebuilt CFLAGS=-DX="'\"a b\"'" lib/low.o
	accepts "build: O=" build O=out DEBUG=1 all buddy/high.s
	accepts "build: products in O=" test -f out/libkvmm.a -a -f out/buddy/high.s
	accepts "build: debug is in the configuration" grep -q DEBUG out/include/generated/autoconf.h
	says "build: exports only kvmm_*" "kvmm_one" \
		sh -c "nm -D --defined-only libkvmm.so.0 | sed -n 's/.* T \\([a-z_]*\\).*/\\1/p'"
	says "build: so do the static library's globals" "kvmm_one" \
		sh -c "nm -g --defined-only libkvmm.a | sed -n 's/.* T //p'"
	accepts "build: install" build install DESTDIR="$tmp/root" prefix=/usr
	says "build: installed" "bin/tool include/kvmm/api.h lib/libkvmm.a lib/libkvmm.so lib/libkvmm.so.0 lib/pkgconfig/kvmm.pc share/man/man1/tool.1" \
		sh -c "cd '$tmp/root/usr' && find . ! -type d | sort | sed 's|^./||' | xargs"
	sed -i 's/kv_low(1)/kv_gone(1)/' buddy/high.c
	refuses "build: error" "kv_gone" build -j2
	accepts "build: clean" build clean
	says "build: clean leaves nothing" "" find lib buddy tools -name '*.o' -o -name '.*'
}

# With -flto the assembler runs when all is linked, where nobody tells it of an -I.
test_lto() {
	fresh_tree
	echo 'obj-y += text.o' >>lib/Makefile
	echo 'CFLAGS_text.o := -Wa,-I$(srctree)/lib' >>lib/Makefile
	echo 'some text' >lib/text.txt
	echo '__asm__(".data\n.globl kv_text\n.hidden kv_text\nkv_text: .incbin \"text.txt\"\n");' \
		>lib/text.c
	for cc in gcc clang; do
		accepts "lto: $cc" build CC=$cc CFLAGS='-O2 -flto' LDFLAGS=-flto -j2
		accepts "lto: tool runs, $cc" tools/tool
		says "lto: the static library exports only kvmm_*, $cc" "kvmm_one" \
			sh -c "nm -g --defined-only libkvmm.a | sed -n 's/.* T //p'"
		accepts "lto: and is machine code, $cc" \
			sh -c "objdump -h libkvmm.o | grep .text && ! objdump -h libkvmm.o | grep gnu.lto_"
	done
}

# Products are not offered to git: those of a small tree, then what make has built where we run.
untracked() {
	git ls-files --others --exclude-standard
}

test_ignored() {
	if ! command -v git >/dev/null; then
		echo "skipped: no git: nothing is said of .gitignore"
		return
	fi
	fresh_tree
	cp "$here/.gitignore" .
	mkdir -p samples tests/any
	echo 'prog-y := sample' >samples/Makefile
	cp tools/tool.c samples/sample.c
	echo 'stress-y := any/test' >tests/Makefile
	cp tools/tool.c tests/any/test.c
	git init -q . && git add . || return
	accepts "ignored: build" build -j2 all tests man
	says "ignored: all products of a small tree" "" untracked
	touch tools/new.c samples/new.c tests/any/new.c
	says "ignored: no sources" "samples/new.c tests/any/new.c tools/new.c" sh -c \
		"git ls-files --others --exclude-standard | xargs"
	if git -C "$here" rev-parse >/dev/null 2>&1; then
		says "ignored: no source of this tree" "" git -C "$here" ls-files -i -c --exclude-standard
	fi
	if ! [ "$objtree" -ef "$here" ]; then
		says "ignored: all products of this tree" "" git "--git-dir=$tmp/tree/.git" \
			"--work-tree=$objtree" -C "$objtree" ls-files --others "--exclude-from=$here/.gitignore"
	fi
}

test_layercheck
test_symcheck
test_headercheck
test_abicheck
test_ratchet
test_instructions
test_runner
test_verdict
test_flake
test_summary
test_build
test_lto
test_ignored
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
