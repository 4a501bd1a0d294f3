#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A program that knows nothing of kvmm is built with the vendor's cuda.h and -lcuda, and runs on the
# software driver under that name: no report, nothing left at its end, with any seed.
set -u
. "${KVMM_SRCTREE:-../..}/tests/expect.sh"
src=${KVMM_SRCTREE:-../..}/tests/swcuda/plain.c

for call in $(grep -o 'cu[A-Z][A-Za-z0-9]*(' "$src" | tr -d '(' | sort -u); do
	expect "$call is exported" 0 " T $call\(_v[0-9]\)\?\$" nm -D libkvmm-swcuda.so
done
include=
for dir in "${CUDA_HOME:-}" /usr/local/cuda /usr/local/cuda-*; do
	[ -e "$dir/include/cuda.h" ] && include=$dir/include && break
done
if [ -z "$include" ]; then
	echo "skipped: the program, for there is no cuda.h of a toolkit"
	expect_end
	exit
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
ln -s "$PWD/libkvmm-swcuda.so" "$folder/libcuda.so"
expect "it is built" 0 "" ${CC:-cc} -std=gnu11 -isystem "$include" -o "$folder/plain" "$src" -L"$folder" -lcuda
for options in seed=1 seed=2 seed=3,eager=1 seed=4,threads=1; do
	expect "it runs with $options" 0 "software device 0: 0 failed" env LD_LIBRARY_PATH="$PWD" \
		KVMM_SWCUDA="default_stream=1,check_exit=1,$options" "$folder/plain"
done
expect "without default_stream its NULL stream is refused" 1 "INVALID_HANDLE" env LD_LIBRARY_PATH="$PWD" \
	KVMM_SWCUDA="" "$folder/plain"
expect_end
