#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Either process of a migration is killed at each call of the socket, on the host and on the software
# device, and as if on two machines, by shared memory and by TCP; see kill.c.
#
# usage: kill.sh	prints "N passed, N failed"; KVMM_KILLS=N: see kill.c; 125 make 1000 in all
set -u

passed=0 failed=0 limit=$((300 + ${KVMM_KILLS-0} * 10))
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(umask 077; printf '%064x\n' $$ > "$folder/key")

for device in host soft:0; do
	if KVMM_SOFT_DRIVER=$PWD/libkvmm-swcuda.so timeout $limit tests/net/kill $device; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: $device"
	fi
done
for way in "posix,self 1" "tcp 5"; do
	UCX_TLS=${way% *} timeout $limit tests/net/kill host "$folder/key" ${way#* }
	case $? in
	0)	passed=$((passed + 1)) ;;
	77)	skipped=", SKIPPED: two machines, without UCX or OpenSSL" ;;
	*)	failed=$((failed + 1))
		echo "FAILED: $way" ;;
	esac
done
echo "$passed passed, $failed failed${skipped-}"
[ $failed -eq 0 ]
