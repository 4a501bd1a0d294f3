/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model of a pool in which everything is called. It shares no code with the pool. It knows what is
 * held: by whom, of which tenant, and what has to lie in each block, and so how much room there is.
 * Where things lie, and who is evicted, it does not know.
 */
#ifndef POOL_TEST_MIX_MODEL_H
#define POOL_TEST_MIX_MODEL_H

#include <kv/env.h>

#include <kvmm/ext/testing.h>

#include "tests/pool/util.h"

#define MAX_BLOCKS	256u
#define NR_TENANTS	4u
#define NR_OWNERS	4u
#define NR_KEYS		96u
#define BATCH		12u
#define NR_SEEN		24u
#define NR_SEQS		11u
#define NR_STALE	16u
#define NR_CPUS		4u
#define SECOND		1000000000ull
#define TEXT		160u

/* What a range or a block holds: word[0] is one of a kind, and names the tenant; word[1] its complement. */
struct content {
	u64 word[2];
};

struct held_range {
	kvmm_range_t range;
	u32 nr, refs, pins, pin_type, sealed, tenant, flags;
	u64 owner, seq;
	u64 serial;			/* another one whenever the engine changes it */
	bool leased;
	u64 word[MAX_BLOCKS];
};

struct held_block {
	kvmm_mut_t mut;
	u64 word, owner;
	u32 tenant, key;
	bool leased;
};

struct held_ref {
	kvmm_ref_t ref;
	u32 pins, pin_type;
};

struct held_hold {
	kvmm_lease_t hold;
	u32 nr;
	kvmm_ref_t ref[BATCH];
	u64 owner;
	bool leased;
};

/* A cached block that somebody references, by index. */
struct active {
	u32 gen, refs, tenant;
	u64 word, serial;
};

/* What a step was told. */
struct seen {
	u32 block, at;
	u64 serial, word;
	kvmm_range_t range;		/* or of a cached block: */
	kvmm_ref_t ref;
	bool is_ref, may_move;
};

struct mix {
	struct kvmm_pool *pool, *other;
	struct kvmm_pool_attr attr;
	u64 seed, random, next_word, nr_calls, step, now;
	const char *what;
	char config[TEXT];
	bool has_quotas, has_arenas, owns_blocks, has_stream, is_open;
	u32 nr_usable;
	struct kvmm_watermarks marks;
	kvmm_stream_t stream;
	struct kvmm_tenant_attr limit[NR_TENANTS];
	u32 nr_ranges, nr_muts, nr_staged, nr_refs, nr_holds, nr_active, nr_gangs, nr_seen;
	struct held_range range[MAX_BLOCKS];
	kvmm_range_t stale[NR_STALE];
	struct held_block mut[MAX_BLOCKS], staged[MAX_BLOCKS];
	struct held_ref ref[4 * MAX_BLOCKS];
	struct held_hold hold[32];
	struct active active[2 * MAX_BLOCKS];
	struct seen seen[NR_SEEN];
	kvmm_promise_t promise;
	u32 nr_promised;
	struct kvmm_gang *gang;
	u32 gang_blocks, gang_range, gang_other, gang_more, gang_tenant;
	kvmm_weak_t weak[32];
	bool is_leaving;		/* memory, beside everything else */
	u32 nr_told;
	struct kvmm_mem_range told[MAX_BLOCKS];
	u64 nr_done, nr_failed;
	u32 cpu;			/* of the next call */
};

extern struct mix m;
extern const struct kvmm_testing_host mix_host;	/* keeps what the pool logs */

struct want {
	u32 nr, prio, tenant, flags, promised, reserve;
	bool is_exact;			/* where it lies does not matter */
};

struct bounds {
	u32 sure, most;			/* what there is */
	u32 sure_quota, quota;		/* what its tenant may have */
	u64 evictions;			/* of all time */
	u32 nr_inactive, nr_copied;	/* cached; of them, being copied */
};

static inline u32 minus(u32 a, u32 b)
{
	return a > b ? a - b : 0;
}

u32 mix_any(u32 below);
void wrong(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define must(cond, ...) \
	do { if (!(cond)) wrong(__FILE__, __LINE__, #cond ": " __VA_ARGS__); } while (0)

/* All blocks, and a pool of which nothing is known. */
void mix_reset(u64 seed);
uintptr_t mix_memory(void);

/* Content. */
u64 new_word(u32 tenant);
u64 key_word(u32 key, u32 tenant);
void fill(u32 block, u64 word);
void expect_content(u32 block, u64 word);
u32 place_of_mut(kvmm_mut_t mut);
u32 place_of_ref(kvmm_ref_t ref);
/* One for each block of the range. */
void places_of(const struct held_range *held, u32 *place);
void expect_range(const struct held_range *held);
/* The engine writes the blocks from @from on, which it has just got. */
void fill_range(struct held_range *held, u32 from, u32 flags);
void expect_everything(void);

/* Blocks that are in use, of one tenant or (NR_TENANTS) of all. */
u32 nr_held(u32 tenant);
/* Blocks that come back when their copies, or the steps that may read them, have ended. */
u32 nr_flying(void);
/* At most: cached blocks that are copied; these, too, come back. */
u32 nr_cached_flying(void);
/* What a request may get, looked at before the call; and what it may answer then. */
struct bounds bounds_of(const struct want *want);
void expect_answer(const struct want *want, const struct bounds *b, int err);

/* What somebody has got, or has put back. */
void ref_get(kvmm_ref_t ref, u64 word, u32 tenant);
void ref_put(kvmm_ref_t ref);
void add_ref(kvmm_ref_t ref, u64 word, u32 tenant);
void keep_muts(const kvmm_mut_t *mut, u32 nr, u32 tenant, u32 flags);

/* Its last reference has gone: the handle is refused from here on. */
void forget_range(struct held_range *held);

/* What a call asks for. Prompts of one tenant begin alike. */
u32 some_keys(u32 *number, kvmm_key_t *key);
u32 some_flags(void);
/* Blocks, of @nr, that come out of a promise: all of them, or 0. */
u32 promised_to(kvmm_promise_t *promise, u32 nr);
void was_promised(u32 nr);

/* Calls on blocks: mix_blocks.c. */
void do_alloc(void);
void do_alloc_ctl(void);
void do_free(void);
void do_register(void);
void do_stage(void);
void do_staged(void);
void do_acquire(void);
void do_match(void);
void do_put(void);
void do_pin(void);
void do_touch(void);
void do_upgrade(void);

/* Calls on ranges, and steps that run meanwhile: mix_ranges.c. */
void do_range(void);
void do_range_free(void);
void do_free_seq(void);
void do_stale(void);
void do_grow(void);
void do_grow_many(void);
void do_shrink(void);
void do_split(void);
void do_seal_or_pin(void);
void do_step(void);
void do_compact(void);
void do_goal(void);

/* ---- mix_elastic.c ---- */

void do_elastic(void);
void make_elastic(void);
/* Blocks that are away, or go there when they become free. */
u32 nr_leaving(void);
/* All of it is there again. */
void end_leaving(void);

#endif /* POOL_TEST_MIX_MODEL_H */
