// SPDX-License-Identifier: Apache-2.0
/*
 * Compares the signatures of <kv/kcu.h> with the vendor's: "make cudacheck" compiles it where
 * cudaTypedefs.h is installed. Nothing here becomes part of the library.
 *
 * Here our names of types stand for the vendor's (KCU_NATIVE), so a signature is the same type
 * or it is wrong. The vendor's typedefs carry the version too: a call that is listed with the
 * signature of another version does not compile.
 */
#include <cuda.h>
#include <cudaTypedefs.h>

#define KCU_NATIVE
#include <kv/kcu.h>

/* All calls and the one that finds calls, once with our types, once with the vendor's. */
#define CALLS(X)	KCU_ALL(X) X(get_proc, , KCU_FN(cuGetProcAddress, 12000), 12000)
#define FIELD(field, name, type, version)	type field;

struct ours {
	CALLS(FIELD)
};

#undef KCU_FN
#define KCU_FN(base, version)	PFN_##base##_v##version

struct vendors {
	CALLS(FIELD)
};

#define SAME(field, name, type, version)						\
	static_assert(__builtin_types_compatible_p(__typeof__(((struct ours *)0)->field),	\
						   __typeof__(((struct vendors *)0)->field)),	\
		      #field);
CALLS(SAME)

static_assert(__builtin_types_compatible_p(kcu_host_fn, CUhostFn), "host function");
