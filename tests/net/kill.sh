#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Either process of a migration is killed at each call of the socket, on the host and on the software
# device; see kill.c.
#
# usage: kill.sh	prints "N passed, N failed"
set -u

passed=0 failed=0

for device in host soft:0; do
	if KVMM_SOFT_DRIVER=$PWD/libkvmm-swcuda.so timeout 300 tests/net/kill $device; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: $device"
	fi
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
