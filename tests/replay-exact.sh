#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
exec python3 "$(dirname "$0")/replay-exact.py" "$@"
