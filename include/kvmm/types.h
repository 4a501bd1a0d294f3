/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types that all kvmm calls share: handles, runs, limits.
 *
 * Handles are 8 bytes, passed by value. They name a slot and the generation of what lives in it: a
 * call with a handle kept too long says -ESTALE, and never touches another owner's blocks. Each
 * kind is a struct type of its own, so the compiler refuses the wrong one.
 */
#ifndef KVMM_TYPES_H
#define KVMM_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KVMM_API __attribute__((visibility("default")))
#else
#define KVMM_API
#endif

/** Most blocks a zone can hold: block ids fit 24 bits, so tables of them stay small. */
#define KVMM_MAX_BLOCKS		(1u << 24)

/** Most tokens a block; any number from 1 on: hybrids have blocks of 528, 1,056, 2,112. */
#define KVMM_MAX_BLOCK_TOKENS	65536u

/** Most runs ("extents") one range may have. */
#define KVMM_MAX_RUNS		8u

/** Most pieces ("planes") a block may be made of. */
#define KVMM_MAX_PLANES		1024u

/** Bytes of a key: an opaque name of a prefix block, given by the engine. */
#define KVMM_KEY_BYTES		16u

/** Orders shown by buddyinfo: blocks of 2^0 .. 2^(KVMM_NR_ORDERS - 1). */
#define KVMM_NR_ORDERS		11u

/*
 * Structs grow at their end. Most begin with @size. Of others the size goes with the call: kvmm_x()
 * is inline and calls kvmm_x_sized() with sizeof, which programs that have no compiled header call
 * themselves. What is filled in is cut where the caller's struct ends, and 0 behind the library's;
 * arguments that are shorter than in the first version, or not 0 where the library knows no field,
 * are -EINVAL. In arrays it is the size of each element. A struct that is Fixed does not grow.
 */

struct kvmm_pool;

/** A run of blocks: @nr blocks from @start on. Both count blocks, not bytes. Fixed: all of it. */
struct kvmm_extent {
	uint32_t start;
	uint32_t nr;
};

/** The blocks of one request (or of any other owner): 1 to KVMM_MAX_RUNS extents. */
typedef struct {
	uint32_t index;
	uint32_t gen;
} kvmm_range_t;

/** A private block of a caching pool: it has no key yet and only its owner can see it. */
typedef struct {
	uint32_t index;
	uint32_t gen;
} kvmm_mut_t;

/** A full block that has a key, but that no look-up finds yet. */
typedef struct {
	uint32_t index;
	uint32_t gen;
} kvmm_staged_t;

/** A reference on a registered (named, shareable, immutable) block of a caching pool. */
typedef struct {
	uint32_t index;
	uint32_t gen;
} kvmm_ref_t;

/** A registered block without a reference: stale once the block is evicted. */
typedef struct {
	uint32_t index;
	uint32_t gen;
} kvmm_weak_t;

/** A promise of blocks: the pool keeps so many free until they are taken. All 0: none. */
typedef struct {
	uint32_t index;
	uint32_t gen;
} kvmm_promise_t;

/** Name of a prefix block. Equal bytes mean equal content, so use a strong hash. */
typedef struct {
	uint8_t byte[KVMM_KEY_BYTES];
} kvmm_key_t;

/**
 * kvmm_domain_t - tenant, layout and group of a block
 * @tenant: isolation domain
 * @layout: how the bytes of a block are laid out: model, data type, order of dimensions
 * @group: KV cache group
 *
 * A block is a hit only if its key and all three are equal.
 */
typedef struct {
	uint32_t tenant;
	uint16_t layout;
	uint16_t group;
} kvmm_domain_t;

/**
 * enum kvmm_mobility - how long a piece of memory is expected to stay where it is
 * @KVMM_MOVABLE: registered prefixes and requests; may be moved by compaction
 * @KVMM_UNMOVABLE: pinned or immortal; placed from the bottom, never moved
 * @KVMM_RECLAIMABLE: short-lived; placed from the top
 */
enum kvmm_mobility {
	KVMM_MOVABLE,
	KVMM_UNMOVABLE,
	KVMM_RECLAIMABLE,
	KVMM_NR_MOBILITY,
};

/**
 * enum kvmm_pin_type - the part of the engine that knows the address
 * @KVMM_PIN_USER: the engine, for reasons of its own
 * @KVMM_PIN_RDMA: a remote side reads or writes there
 * @KVMM_PIN_GDS: storage reads or writes there, directly
 * @KVMM_PIN_IPC: another process has it mapped
 * @KVMM_PIN_COPY: a copy of the engine's own is under way
 * @KVMM_PIN_GRAPH: a captured graph has it inside
 */
enum kvmm_pin_type {
	KVMM_PIN_USER,
	KVMM_PIN_RDMA,
	KVMM_PIN_GDS,
	KVMM_PIN_IPC,
	KVMM_PIN_COPY,
	KVMM_PIN_GRAPH,
	KVMM_NR_PIN_TYPES,
};

/** enum kvmm_name_of - enums with names for their numbers: see the inline calls beside each */
enum kvmm_name_of {
	KVMM_NAME_STEP,		/* enum kvmm_step */
	KVMM_NAME_GOAL,		/* enum kvmm_goal */
	KVMM_NAME_MAP_STATE,	/* enum kvmm_map_state */
	KVMM_NAME_LEASE_REASON,	/* enum kvmm_lease_reason */
	KVMM_NAME_LEASE_KIND,	/* enum kvmm_lease_kind */
	KVMM_NAME_STAY_REASON,	/* enum kvmm_stay_reason */
	KVMM_NAME_MIGRATE_PHASE,	/* enum kvmm_migrate_phase */
	KVMM_NAME_MIGRATE_PATH,	/* enum kvmm_migrate_path */
	KVMM_NAME_POLICY,	/* eviction policies, see struct kvmm_pool_attr */
	KVMM_NAME_KEY_ALGO,	/* algorithms, see struct kvmm_key_attr */
	KVMM_NR_NAMES,
};

/** kvmm_enum_name() - the name of a number, a static string; "?" if there is no such number. */
KVMM_API const char *kvmm_enum_name(enum kvmm_name_of what, uint32_t number);

/** kvmm_enum_names() - the first @max names. Return: how many there are, which may be more. */
static inline unsigned int kvmm_enum_names(enum kvmm_name_of what, const char **names,
					   unsigned int max)
{
	const char *name;
	unsigned int nr;

	for (nr = 0; (name = kvmm_enum_name(what, nr))[0] != '?'; nr++)
		if (names && nr < max)
			names[nr] = name;
	return nr;
}

/** kvmm_version() - version of the library that is linked, as "major.minor.patch". */
KVMM_API const char *kvmm_version(void);

/**
 * kvmm_strerror() - one line of English for a negative errno that a kvmm call returned
 * @err: what the call returned
 *
 * Return: a static string; never NULL.
 */
KVMM_API const char *kvmm_strerror(int err);

/**
 * kvmm_why() - why the last call of this thread that makes something was refused, in a line
 *
 * kvmm_pool_create(), kvmm_tier_host_create(), kvmm_disk_open(), kvmm_publisher_start(),
 * kvmm_control_open(), kvmm_control_add_pool(), kvmm_slab_cache_create(), kvmm_migrate_start(),
 * kvmm_migrate_serve(), kvmm_device_get_info(), kvmm_attach_type_create() and kvmm_node_attach()
 * say which of the reasons for an errno it was, where there are several. The same line is logged,
 * see kvmm_log_set().
 *
 * Return: text of the thread's own, until its next such call; "": kvmm_strerror() says all, or more
 * than 256 threads use kvmm and this one has no room for it.
 */
KVMM_API const char *kvmm_why(void);

/** Hears a line, by any thread, with locks of kvmm held: it does not call kvmm. @level: 3 an error,
 * 4 a warning, 6 to know, 7 for developers. */
typedef void kvmm_log_fn(void *arg, int level, const char *line);

/**
 * kvmm_log_set() - what kvmm has to say goes to @fn from here on
 * @fn: NULL: to standard error, as far as KVMM_LOG of the environment says: "error", "warning",
 *	"info" or "debug"; nothing without that
 *
 * Context: no other call of kvmm runs.
 */
KVMM_API void kvmm_log_set(kvmm_log_fn *fn, void *arg);

#ifdef __cplusplus
}
#endif
#endif /* KVMM_TYPES_H */
