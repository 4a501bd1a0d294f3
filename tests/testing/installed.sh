#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What a program sees that uses kvmm from where "make install" put it: headers, pkg-config files,
# the shared and the static library, from make, CMake and Meson; and what tools, samples and pages are
# there, and in which Debian package. Run from the object tree; prints "N passed, N failed".
set -u

src=${KVMM_SRCTREE:?}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
passed=0 failed=0

result() {
	if [ "$1" -eq 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: $2"
		cat "$root/out"
	fi
}

# try WHAT COMMAND...
try() {
	local what=$1
	shift
	"$@" >"$root/out" 2>&1 </dev/null
	result $? "$what"
}

# says WHAT EXPECTED COMMAND...: the last line
says() {
	local what=$1 expected=$2
	shift 2
	"$@" >"$root/out" 2>&1 </dev/null && [ "$(tail -n 1 "$root/out")" = "$expected" ]
	result $? "$what"
}

# Everything was built by who runs the tests: the same options come by MAKEFLAGS.
cc=${CC:-gcc}
arch=$($cc -print-multiarch)
lib=$root/usr/lib/${arch:=any}
try "make install" make -f "$src/Makefile" O= install DESTDIR="$root" prefix=/usr libdir="/usr/lib/$arch" \
	docdir=/usr/share/doc/kvmm-doc
try "manual pages" test -s "$root/usr/share/man/man1/kvmm-stat.1"
version=$(sed -n 's/^VERSION[[:space:]]*:= //p' "$src/Makefile")

# Tools are small, and have the library from where the system has it.
mkdir "$root/stripped"
for tool in "$root"/usr/bin/*; do
	strip -o "$root/stripped/${tool##*/}" "$tool"
	readelf -dW "$tool" >"$root/dynamic"
	if grep -q '\[libkvmm\.so\.0\]' "$root/dynamic"; then
		try "${tool##*/} has a path of its own" sh -c "! grep 'R.*PATH' '$root/dynamic'"
		says "version of ${tool##*/}" "${tool##*/} $version" \
			env LD_LIBRARY_PATH="$lib" "$tool" --version
	else
		echo "${tool##*/}" >>"$root/inside"
	fi
done
says "tools that look inside the library" "kvmm-bench kvmm-replay" xargs -a "$root/inside"
size=$(du -sbc "$root"/stripped/* | tail -n 1 | cut -f1)
try "$size bytes of tools, 4 MB at most" test "$size" -le 4000000

doc=$root/usr/share/doc/kvmm-doc
for page in README.md CHANGELOG.md $(grep -o 'Documentation/[a-z/-]*\.rst' "$src/README.md" | sort -u); do
	try "installed: $page" test -s "$doc/$page"
done
try "all samples" diff <(cd "$src/samples" && find . -name '*.[ch]' | sort) \
	<(cd "$doc/samples" && find . -name '*.[ch]' | sort)
try "packages" "$src/tests/testing/packages.py" "$root"
export PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_PATH=$lib/pkgconfig
export PKG_CONFIG_SYSTEM_INCLUDE_PATH=/none PKG_CONFIG_SYSTEM_LIBRARY_PATH=/none
unset MAKEFLAGS

command -v pkg-config >/dev/null || { echo "installed: no pkg-config, nothing was compiled"; }

# compile NAME SOURCE FLAG...
compile() {
	local name=$1 source=$2
	shift 2
	# shellcheck disable=SC2046,SC2086 # lists of flags
	try "compile $name" $cc -std=c11 -Wall -Wextra -Werror -o "$root/$name" "$source" "$@"
}

flags() {
	pkg-config --cflags --libs "$@"
}

# shellcheck disable=SC2046 # lists of flags
if command -v pkg-config >/dev/null; then
	compile engine_test "$src/samples/engine_test.c" $(flags kvmm-testing)
	says "engine_test on the shared library" passed \
		env LD_LIBRARY_PATH="$lib" "$root/engine_test"

	# The archive in place of the shared library; what it needs itself is private.
	private=$(pkg-config --static --libs-only-l kvmm | sed 's/-lkvmm\>//')
	compile engine_static "$src/samples/engine_test.c" $(pkg-config --cflags kvmm-testing) \
		"$lib/libkvmm-testing.a" "$lib/libkvmm.a" $private -pthread
	says "engine_test on the static library" passed "$root/engine_static"

	compile share "$src/samples/tutorial/01-share.c" $(flags kvmm)
	try "share" env LD_LIBRARY_PATH="$lib" "$root/share"

	cat >"$root/soft.c" <<-'END'
		#include <kvmm/kvmm.h>
		#include <kvmm/ext/testing.h>
		#include <stdio.h>
		int main(void)
		{
			struct kvmm_testing_pool spec = { .device = "soft:0", .block_bytes = 64,
							  .nr_cached = 4 };
			char why[KVMM_TESTING_WHY];
			struct kvmm_testing *t;
			struct kvmm_pool *pool;

			if (kvmm_testing_begin(&t))
				return 1;
			if (!kvmm_testing_soft(t, "seed=5"))
				kvmm_testing_pool_make(t, &spec, &pool);
			puts(kvmm_testing_end(t, why, sizeof(why)) ? why : "passed");
			return 0;
		}
	END
	compile soft "$root/soft.c" $(flags kvmm-testing)
	says "software device beside the shared library" passed \
		env -u KVMM_SOFT_DRIVER LD_LIBRARY_PATH="$lib" "$root/soft"
fi

# runs TOOL PROGRAM
runs() {
	says "$1, $2 library" "96 tokens were there, 4 are computed" \
		env LD_LIBRARY_PATH="$lib" "$root/$1/build/$2"
}

mkdir "$root/cmake" "$root/meson" "$root/meson/subprojects"
if command -v cmake >/dev/null; then
	cat >"$root/cmake/CMakeLists.txt" <<-END
		cmake_minimum_required(VERSION 3.13)
		project(user C)
		find_package(kvmm 0.1 REQUIRED)
		find_package(kvmm 0.99 QUIET)
		if(kvmm_FOUND)
			message(FATAL_ERROR "a version that is not there is found")
		endif()
		add_executable(shared $src/samples/tutorial/01-share.c)
		target_link_libraries(shared kvmm::kvmm)
		add_executable(static $src/samples/tutorial/01-share.c)
		target_link_libraries(static kvmm::static)
		add_executable(bench $src/samples/engine_test.c)
		target_link_libraries(bench kvmm::testing)
	END
	try "cmake configures" cmake -S "$root/cmake" -B "$root/cmake/build" -DCMAKE_PREFIX_PATH="$root/usr"
	try "cmake builds" cmake --build "$root/cmake/build"
	runs cmake shared
	runs cmake static
	says "cmake, the bench" passed env LD_LIBRARY_PATH="$lib" "$root/cmake/build/bench"
else
	echo "SKIPPED no cmake"
fi

# As a subproject make would build the library: what was built is taken from here.
if command -v meson >/dev/null; then
	printf '#!/bin/sh\nfor a; do case $a in O=*) cp "%s/libkvmm.a" "${a#O=}";; esac; done\n' "$lib" \
		>"$root/meson/make"
	chmod +x "$root/meson/make"
	ln -s "$src" "$root/meson/subprojects/kvmm"
	cat >"$root/meson/meson.build" <<-END
		project('user', 'c')
		subproject('kvmm')
		executable('static', '$src/samples/tutorial/01-share.c', dependencies: dependency('kvmm', version: '$version'))
	END
	try "meson configures" env PATH="$root/meson:$PATH" meson setup "$root/meson/build" "$root/meson"
	try "meson builds" env PATH="$root/meson:$PATH" meson compile -C "$root/meson/build"
	runs meson static
else
	echo "SKIPPED no meson"
fi

# Debug builds know the locks of each thread besides.
if ! nm "$lib/libkvmm.a" 2>/dev/null | grep -q ' held_locks$'; then
	tls=$(readelf -lW "$lib/libkvmm.so.0" | awk '$1 == "TLS" { print $6 }')
	most=$(sed -n 's/.*The whole library takes \([0-9]*\) bytes of static TLS.*/\1/p' \
		"$src/Documentation/locking.rst")
	try "$((tls)) bytes of static TLS, $most by Documentation/locking.rst" test $((tls)) -le "$most"
fi

# The seam is a version of its own, so that packagers see who uses it.
readelf -W --dyn-syms "$lib/libkvmm.so.0" >"$root/syms"
says "version of the seam" "kvmm_testing_get_state@@KVMM_TESTING kvmm_testing_set_host@@KVMM_TESTING" \
	sh -c "grep -o 'kvmm_testing_[a-z_]*@@[A-Z_]*' '$root/syms' | sort | xargs"
says "nothing of the bench in the library" "" \
	sh -c "nm -g --defined-only '$lib/libkvmm.a' | grep testing_begin"'; true'
says "nothing but the bench in its library" "" \
	sh -c "nm -g --defined-only '$lib/libkvmm-testing.a' | grep ' [A-Z] ' | grep -v ' kvmm_testing_'; true"

for page in man3/kvmm_range_alloc_attr.3 man7/kvmm.7; do
	try "$page" test -s "$root/usr/share/man/$page"
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
