// SPDX-License-Identifier: Apache-2.0
/*
 * The allocators that are compared: kvmm's zone with each of its engines, jemalloc, mimalloc, and
 * one that does nothing, which shows how much of a figure is the loop around the calls.
 *
 * The two malloc()s hand out 64 bytes a block. They have no bound, take no lock as long as a
 * thread's cache lasts and promise nothing about adjacency: they show what an allocator can cost,
 * not what one for device memory does.
 */
#include <dlfcn.h>
#include <kvmm/kvmm.h>
#include <stdlib.h>
#include <string.h>

#include "churn.h"

/* ---- kvmm's zone ---- */

static __always_inline int zone_alloc(void *heap, u32 nr, u32 *word)
{
	return kvmm_zone_alloc(heap, nr, word);
}

static __always_inline void zone_free(void *heap, const u32 *word, u32 nr)
{
	kvmm_zone_free(heap, word[0], nr);
}

CHURN_CONTENDER(zone)

static void *zone_open(const char *name, u32 nr_blocks)
{
	struct kvmm_zone_attr attr = KVMM_ZONE_ATTR_INIT;
	struct kvmm_zone *zone;

	attr.nr_blocks = nr_blocks;
	attr.engine = name;
	return kvmm_zone_create(&attr, &zone) ? NULL : zone;
}

static void zone_close(void *heap)
{
	kvmm_zone_destroy(heap);
}

/* ---- jemalloc, which the tools are linked with ---- */

#define OBJECT_BYTES	64u

/* Absent where a sanitizer's malloc has taken its place. */
extern int mallctl(const char *name, void *old, size_t *old_len, void *new, size_t new_len)
	__attribute__((weak));

static __always_inline void keep_pointer(u32 *word, void *mem)
{
	memcpy(word, &mem, sizeof(mem));
}

static __always_inline void *kept_pointer(const u32 *word)
{
	void *mem;

	memcpy(&mem, word, sizeof(mem));
	return mem;
}

static __always_inline int jemalloc_alloc(void *heap, u32 nr, u32 *word)
{
	void *mem = malloc((size_t)nr * OBJECT_BYTES);

	keep_pointer(word, mem);
	return mem ? 0 : -1;
}

static __always_inline void jemalloc_free(void *heap, const u32 *word, u32 nr)
{
	free(kept_pointer(word));
}

CHURN_CONTENDER(jemalloc)

static void *jemalloc_open(const char *name, u32 nr_blocks)
{
	static char heap;

	return &mallctl ? &heap : NULL;
}

static void jemalloc_close(void *heap)
{
}

/* ---- mimalloc, where it can be found ---- */

struct mimalloc {
	void *(*alloc)(size_t bytes);
	void (*free)(void *mem);
};

static __always_inline int mimalloc_alloc(void *heap, u32 nr, u32 *word)
{
	struct mimalloc *mimalloc = heap;
	void *mem = mimalloc->alloc((size_t)nr * OBJECT_BYTES);

	keep_pointer(word, mem);
	return mem ? 0 : -1;
}

static __always_inline void mimalloc_free(void *heap, const u32 *word, u32 nr)
{
	struct mimalloc *mimalloc = heap;

	mimalloc->free(kept_pointer(word));
}

CHURN_CONTENDER(mimalloc)

static void *mimalloc_open(const char *name, u32 nr_blocks)
{
	static struct mimalloc mimalloc;
	void *lib;

	if (mimalloc.free)
		return &mimalloc;
	lib = dlopen("libmimalloc.so.2", RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return NULL;
	*(void **)&mimalloc.alloc = dlsym(lib, "mi_malloc");
	*(void **)&mimalloc.free = dlsym(lib, "mi_free");
	return mimalloc.alloc && mimalloc.free ? &mimalloc : NULL;
}

static void mimalloc_close(void *heap)
{
}

/* ---- nothing: what the loop costs ---- */

static __always_inline int driver_alloc(void *heap, u32 nr, u32 *word)
{
	word[0] = nr;
	return 0;
}

static __always_inline void driver_free(void *heap, const u32 *word, u32 nr)
{
	/* The words must have been read, as any allocator would. */
	__asm__ volatile("" : : "r"(word[0]));
}

CHURN_CONTENDER(driver)

static void *driver_open(const char *name, u32 nr_blocks)
{
	static char heap;

	return &heap;
}

static void driver_close(void *heap)
{
}

/* ---- all of them, the driver last ---- */

static const struct contender all_contenders[] = {
	{ .name = "zone", .is_zone = true, CONTENDER_CALLS(zone) },
	{ .name = "lists", .is_zone = true, CONTENDER_CALLS(zone) },
	{ .name = "buddy", .is_zone = true, CONTENDER_CALLS(zone) },
	{ .name = "jemalloc", CONTENDER_CALLS(jemalloc) },
	{ .name = "mimalloc", CONTENDER_CALLS(mimalloc) },
	{ .name = "driver", CONTENDER_CALLS(driver) },
};

unsigned int contenders(const struct contender **all)
{
	*all = all_contenders;
	return ARRAY_SIZE(all_contenders);
}

const struct contender *contender_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(all_contenders); i++) {
		if (!strcmp(all_contenders[i].name, name))
			return &all_contenders[i];
	}
	return NULL;
}
