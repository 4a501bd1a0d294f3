/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the software driver share: loading it, and short names for common steps. */
#ifndef TEST_SWCUDA_DRIVER_H
#define TEST_SWCUDA_DRIVER_H

#include <kv/kcu.h>

#include "swcuda/control.h"
#include "tests/support/test.h"

#define MIB	(1ull << 20)

extern struct kcu cu;				/* every call that the library exports */
extern const struct kvmm_swcuda_control *ctl;

extern KCU_FN(cuGetProcAddress, 12000) get_proc;

void load(const char *options);			/* loads the library, no call is made */
void start(const char *options);		/* cuInit(), context of device 0 current */

kcu_deviceptr dev_alloc(size_t bytes);
void *host_alloc(size_t bytes);			/* pinned */
kcu_stream stream_new(void);
kcu_event event_new(void);
void copy(kcu_deviceptr dst, kcu_deviceptr src, size_t bytes, kcu_stream stream);
void fill(kcu_deviceptr dst, u8 byte, size_t bytes, kcu_stream stream);
void record(kcu_event event, kcu_stream stream);
void wait_for(kcu_stream stream, kcu_event event);
void finish(kcu_stream stream);
bool all_bytes(const void *mem, u8 byte, size_t bytes);
bool dev_bytes(kcu_deviceptr addr, u8 byte, size_t bytes);	/* through a copy to the host */
u32 races(void);

/* Expects success; says what came instead. */
#define ok(call)	is(KCU_E_SUCCESS, call)
#define is(code, call)									\
	({										\
		kcu_result __rc = (call);						\
		cr_assert_eq(__rc, (code), "%s: %d, not %d", #call, __rc, (int)(code));	\
	})

#endif /* TEST_SWCUDA_DRIVER_H */
