# SPDX-License-Identifier: Apache-2.0
#
# What run-tests of the engines have in common: the interpreter, which is their first argument, and
# a line for each check: name, figure, and ok, FAILED, or skipped: why, with tabs between. All else
# goes to stderr. The exit code is rc. Sources of engines are kept in room.
set -u -o pipefail

python=$(command -v "${1:-python3}") || exit 1
[ $# -eq 0 ] || shift
here=$(cd "$(dirname "$0")" && pwd)
tree=$(cd "$here/../../../.." && pwd)
room=${KVMM_ENGINES:-$tree/build/engines}
mkdir -p "$room"
export CUDA_VISIBLE_DEVICES= HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 OMP_NUM_THREADS=1
rc=0

check() {		# NAME COMMAND...: its last line is the figure
	local name=$1 result=ok out
	shift
	out=$("$@" | tee -a /dev/stderr) || { result=FAILED; rc=1; }
	printf '%s\t%s\t%s\n' "$name" "$(tail -n 1 <<<"$out")" "$result"
}

skipped() {		# NAME REASON
	printf '%s\t-\tskipped: %s\n' "$@"
}

ours() {		# TEST...: of this tree, by name
	"$python" -m pytest -q -p no:cacheprovider -W ignore "${@/#/$tree/bindings/python/tests/test_}"
}

version_of() {		# PACKAGE
	"$python" -c 'import importlib.metadata as m, sys; print(m.version(sys.argv[1]))' "$1"
}

tests_of() {		# PACKAGE VERSION [FOLDER]: its source's tests, and that, fetched by pip, in $source
	source=$room/$1-$2
	[ -d "$source/${3:-tests}" ] || {
		"$python" -m pip download -q --no-deps --no-binary "$1" --no-build-isolation -d "$room" \
			"$1==$2" && tar -C "$room" -xzf "$source.tar.gz" "$1-$2/tests" ${3:+"$1-$2/$3"}
	} >&2
}
