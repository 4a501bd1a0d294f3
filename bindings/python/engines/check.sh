# SPDX-License-Identifier: Apache-2.0
#
# What run-tests of the engines have in common: the interpreter, which is their first argument, and
# a line for each check: name, figure, and ok, FAILED, or skipped: why, with tabs between. All else
# goes to stderr. The exit code is rc.
set -u -o pipefail

python=$(command -v "${1:-python3}") || exit 1
[ $# -eq 0 ] || shift
tree=$(cd "$(dirname "$0")/../../../.." && pwd)
export CUDA_VISIBLE_DEVICES= HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 OMP_NUM_THREADS=1
rc=0

check() {		# NAME COMMAND...: its last line is the figure
	local name=$1 result=ok out
	shift
	out=$("$@" | tee /dev/stderr) || { result=FAILED; rc=1; }
	printf '%s\t%s\t%s\n' "$name" "$(tail -n 1 <<<"$out")" "$result"
}

ours() {		# TEST...: of this tree, by name
	"$python" -m pytest -q -p no:cacheprovider -W ignore "${@/#/$tree/bindings/python/tests/test_}"
}

version_of() {		# PACKAGE
	"$python" -c 'import importlib.metadata as m, sys; print(m.version(sys.argv[1]))' "$1"
}
