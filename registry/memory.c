// SPDX-License-Identifier: Apache-2.0
/*
 * Memory of tables. Large ones come in huge pages: a look-up that misses the cache would
 * otherwise miss the TLB as well, which doubles its time.
 */
#include <kv/bits.h>
#include <kv/mem.h>
#include <kv/sys.h>

#include "internal.h"

/* Half a huge page: less would waste more than it saves. */
#define LARGE_BYTES	(1u << 20)

void *registry_alloc(u64 bytes)
{
	if (bytes < LARGE_BYTES)
		return kv_alloc_lines(1, max(bytes, (u64)1));
	return kv_sys()->map_pages(kv_sys()->ctx, bytes, -1);
}

void registry_free(void *ptr, u64 bytes)
{
	if (!ptr || bytes < LARGE_BYTES)
		kv_free(ptr);
	else
		kv_sys()->unmap_pages(kv_sys()->ctx, ptr, bytes);
}
