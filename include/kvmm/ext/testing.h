/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of programs that use kvmm: link libkvmm-testing.a (pkg-config kvmm-testing).
 *
 * A *bench* is a host that the test turns by hand: time stands still until it is moved on, the n-th
 * allocation of host memory can be made to fail, random numbers are the same in each run. It also
 * builds pools in a given state, shows them as pictures, and in the end says what was left behind.
 *
 *	struct kvmm_testing_pool spec = { .nr_blocks = 8, .nr_cached = 2 };
 *	struct kvmm_testing *t;
 *	struct kvmm_pool *pool;
 *
 *	kvmm_testing_begin(&t);
 *	kvmm_testing_pool_make(t, &spec, &pool);
 *	... the engine does something with the pool ...
 *	kvmm_testing_expect_picture(t, pool, "IIPP....");
 *	return kvmm_testing_end(t, why, sizeof(why));	// 0, or why says what went wrong
 *
 * It belongs to no test framework: expectations are functions that return 0, or -EBADMSG and a
 * text. What goes wrong is kept: it is enough to look at the result of kvmm_testing_end().
 *
 * There is one bench a process at a time. While it is there, kvmm's own time, memory, log and
 * random numbers come from it, in all threads. Calls on one bench are made by one thread, but for
 * those marked "any thread". Documentation/testing.rst has a worked example.
 */
#ifndef KVMM_EXT_TESTING_H
#define KVMM_EXT_TESTING_H

#include <kvmm/pool.h>
#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kvmm_testing;

/** Most characters of kvmm_testing_why() and of what kvmm_testing_end() says, NUL included. */
#define KVMM_TESTING_WHY	4096u

/* ---- the bench ---- */

/**
 * kvmm_testing_begin() - put a bench in place of the system
 *
 * The clock stands at 1 s, the seed is 1. Pools that exist already go on, with the bench's time.
 *
 * Return: 0; -EINVAL; -ENOMEM; -EBUSY there is one.
 */
KVMM_API int kvmm_testing_begin(struct kvmm_testing **t);

/**
 * kvmm_testing_end() - check everything, free everything, give the system back
 * @t: gone on return; NULL does nothing
 * @why: NULL, or room for @bytes: everything that went wrong since the beginning, a line each
 *
 * Pools of kvmm_testing_pool_make() are checked as by kvmm_testing_expect_unheld(), and destroyed.
 * What else the test made in kvmm it has given back before: host memory that is still held counts
 * as a failure, and so do broken invariants of kvmm and reports of the software driver.
 *
 * Return: 0; -EBADMSG something went wrong.
 */
KVMM_API int kvmm_testing_end(struct kvmm_testing *t, char *why, size_t bytes);

/** kvmm_testing_why() - what went wrong last; "" if nothing has. Until the next call. */
KVMM_API const char *kvmm_testing_why(const struct kvmm_testing *t);

/** kvmm_testing_nr_failures() - how many expectations were not met so far. */
KVMM_API unsigned int kvmm_testing_nr_failures(const struct kvmm_testing *t);

/** kvmm_testing_log_line() - the last line that kvmm logged; "" if none. Until the next one. */
KVMM_API const char *kvmm_testing_log_line(const struct kvmm_testing *t);

/* ---- time and random numbers; any thread ---- */

/** kvmm_testing_now() - kvmm's time in nanoseconds. */
KVMM_API uint64_t kvmm_testing_now(const struct kvmm_testing *t);

/** kvmm_testing_set_clock() - it is @now_ns from here on; going back is the test's own risk. */
KVMM_API void kvmm_testing_set_clock(struct kvmm_testing *t, uint64_t now_ns);

/**
 * kvmm_testing_advance() - let @ns nanoseconds go by
 *
 * The only other thing that moves the clock is a wait inside kvmm that comes to its time-out.
 */
KVMM_API void kvmm_testing_advance(struct kvmm_testing *t, uint64_t ns);

/** kvmm_testing_set_seed() - start the random numbers anew; equal seeds, equal numbers. */
KVMM_API void kvmm_testing_set_seed(struct kvmm_testing *t, uint64_t seed);

/** kvmm_testing_random() - 64 bits of the numbers that kvmm gets as well, for dice of the test. */
KVMM_API uint64_t kvmm_testing_random(struct kvmm_testing *t);

/* ---- host memory that runs out ---- */

/** kvmm_testing_fail_alloc() - the @nth allocation of host memory from now on fails (1: the next;
 * 0: none does), and all those behind it too if @and_all_later. */
KVMM_API void kvmm_testing_fail_alloc(struct kvmm_testing *t, uint64_t nth, int and_all_later);

/** kvmm_testing_alloc_failed() - was one refused since kvmm_testing_fail_alloc()? 0 or 1. */
KVMM_API int kvmm_testing_alloc_failed(const struct kvmm_testing *t);

/**
 * kvmm_testing_next_failure() - make the first allocation fail, then the second, and so on
 * @nth: 0 at first; moved on by each call
 *
 *	uint64_t nth = 0;
 *
 *	while (kvmm_testing_next_failure(t, &nth))
 *		err = what_is_tested();		// in the last round nothing fails
 *
 * Return: 1 there is a round to go; 0 the round before went by without a failure.
 */
KVMM_API int kvmm_testing_next_failure(struct kvmm_testing *t, uint64_t *nth);

/** kvmm_testing_host_bytes() - host memory that kvmm holds now, as asked for. Waits until what was
 * given up lately is free. */
KVMM_API uint64_t kvmm_testing_host_bytes(const struct kvmm_testing *t);

/* ---- keys, prompts ---- */

/** kvmm_testing_key() - a key with a number in it. */
KVMM_API kvmm_key_t kvmm_testing_key(uint32_t number);

/** kvmm_testing_key_number() - that number; -1: it is no key of kvmm_testing_key(). */
KVMM_API int64_t kvmm_testing_key_number(const kvmm_key_t *key);

/** kvmm_testing_keys() - keys @first, @first + 1, ... */
KVMM_API void kvmm_testing_keys(uint32_t first, uint32_t nr, kvmm_key_t *keys);

/**
 * struct kvmm_testing_prompt - a prompt, to be compared with others
 * @nr_blocks: blocks in it, all full
 * @nr_shared: so many at its beginning are those of its family: all prompts of it have them
 * @family: whose
 * @member: what comes behind @nr_shared is this member's alone
 * @block_tokens: tokens a block; 16 if 0
 *
 * Two prompts of one family agree in the first min(@nr_shared) blocks and in nothing behind those;
 * prompts of two families in nothing.
 */
struct kvmm_testing_prompt {
	uint32_t nr_blocks;
	uint32_t nr_shared;
	uint32_t family;
	uint32_t member;
	uint32_t block_tokens;
};

/** kvmm_testing_prompt_keys() - keys of its blocks, for tests that need no tokens. */
KVMM_API void kvmm_testing_prompt_keys(const struct kvmm_testing_prompt *prompt,
				       kvmm_key_t *keys);

/** kvmm_testing_prompt_tokens() - its tokens, all below 2^31. Return: how many. */
KVMM_API uint32_t kvmm_testing_prompt_tokens(const struct kvmm_testing_prompt *prompt,
					     uint32_t *tokens);

/* ---- pools in a given state ---- */

/**
 * struct kvmm_testing_pool - a pool to be made; what is 0 has a default
 * @nr_blocks: 16; with a picture: as many as that has letters
 * @policy: "lru"; "" = a pool without cached blocks
 * @device: "host"
 * @allocator: "zone"
 * @block_bytes: 0 = ids only
 * @block_tokens: 16
 * @flags: KVMM_POOL_*
 * @nr_cached: keys 0 to @nr_cached - 1 are cached and unreferenced, the last one is the first to be
 *	evicted (one prompt, given back)
 * @picture: NULL, or what the pool looks like: see kvmm_testing_paint()
 *
 * One can be made from another: copy it and change a field.
 */
struct kvmm_testing_pool {
	uint32_t nr_blocks;
	const char *policy;
	const char *device;
	const char *allocator;
	uint64_t block_bytes;
	uint32_t block_tokens;
	uint32_t flags;
	uint32_t nr_cached;
	const char *picture;
};

/** kvmm_testing_pool_make() - Return: 0; an error of kvmm_pool_create(), or what
 * kvmm_testing_cache() or kvmm_testing_paint() return, and no pool was made. It is the bench's. */
KVMM_API int kvmm_testing_pool_make(struct kvmm_testing *t, const struct kvmm_testing_pool *spec,
				    struct kvmm_pool **pool);

/** kvmm_testing_pool_end() - destroy it before the bench ends, with the same checks. Return: 0;
 * -EBADMSG; -EINVAL it is not the bench's. */
KVMM_API int kvmm_testing_pool_end(struct kvmm_testing *t, struct kvmm_pool *pool);

/** kvmm_testing_cache() - keys @first to @first + @nr - 1 become cached and unreferenced.
 * Return: 0; -ENOSPC, -ENOMEM, -EOPNOTSUPP. */
KVMM_API int kvmm_testing_cache(struct kvmm_testing *t, struct kvmm_pool *pool, uint32_t first,
				uint32_t nr);

/** kvmm_testing_reference() - the same, with one reference each in @refs, the test's. */
KVMM_API int kvmm_testing_reference(struct kvmm_testing *t, struct kvmm_pool *pool,
				    uint32_t first, uint32_t nr, kvmm_ref_t *refs);

/**
 * struct kvmm_testing_painted - handles of what was painted, all of them the test's
 * @range: of 'a' to 'z', by letter - 'a'
 * @ref: of 'A', by block; one reference each
 * @mut: of 'P', by block
 *
 * The arrays are as long as the picture and exist as long as the bench.
 */
struct kvmm_testing_painted {
	kvmm_range_t range[26];
	kvmm_ref_t *ref;
	kvmm_mut_t *mut;
};

/**
 * kvmm_testing_paint() - bring an empty pool into the state of a picture
 * @picture: a letter a block, for all of its blocks, as in kvmm_testing_picture(); of ".Nazaz.AIP"
 * @paint: handles; NULL: not wanted. What is held stays held then, see kvmm_testing_forget_held()
 *
 * A letter that comes back later is another extent of that range. Cached blocks have
 * kvmm_testing_key() of their block; of two inactive ones the left one is evicted first.
 *
 * Return: 0; -EINVAL the pool is not empty, or the picture is not of its length, or has other
 * letters; -EOPNOTSUPP the engine of its zone cannot, or A, I or P in a pool without cached blocks;
 * -ENOMEM. On failure all is held or free as it happens to be.
 */
KVMM_API int kvmm_testing_paint(struct kvmm_testing *t, struct kvmm_pool *pool,
				const char *picture, struct kvmm_testing_painted *paint);

/** kvmm_testing_forget_held() - what is held in @pool in the end shall not count as a failure. */
KVMM_API void kvmm_testing_forget_held(struct kvmm_testing *t, struct kvmm_pool *pool);

/* ---- looking ---- */

/**
 * kvmm_testing_picture() - a pool as a text, a letter a block
 *
 * '.' free, 'N' the null block, 'a' to 'z' a range whose sequence (kvmm_range_attr.seq) is that
 * letter, '#' another range, 'P' private, 'S' staged, 'A' active: cached and referenced, 'I'
 * inactive: cached, not referenced; '?' anything else.
 *
 * Return: a string, until the next picture or the end of the bench; NULL no host memory.
 */
KVMM_API const char *kvmm_testing_picture(struct kvmm_testing *t, struct kvmm_pool *pool);

/* ---- expectations: 0, or -EBADMSG and kvmm_testing_why() ---- */

#if defined(__GNUC__)
#define KVMM_TESTING_PRINTF __attribute__((format(printf, 3, 4)))
#else
#define KVMM_TESTING_PRINTF
#endif

/** kvmm_testing_expect() - anything: if @is_so is 0 the text goes among the failures. */
KVMM_API int kvmm_testing_expect(struct kvmm_testing *t, int is_so, const char *fmt, ...)
	KVMM_TESTING_PRINTF;

/** A condition, which is its own text. */
#define KVMM_TESTING_EXPECT(t, cond) \
	kvmm_testing_expect((t), !!(cond), "%s:%d: %s", __FILE__, __LINE__, #cond)

/** kvmm_testing_expect_picture() - the pool looks like that; @want may be a
 * kvmm_testing_picture(). */
KVMM_API int kvmm_testing_expect_picture(struct kvmm_testing *t, struct kvmm_pool *pool,
					 const char *want);

/** kvmm_testing_expect_prefix() - so many of the keys are cached, from the first one on. */
KVMM_API int kvmm_testing_expect_prefix(struct kvmm_testing *t, struct kvmm_pool *pool,
					const kvmm_key_t *keys, uint32_t nr, uint32_t want);

/** kvmm_testing_expect_victims() - in this order keys of these numbers would be evicted, and no
 * others. It evicts them all. */
KVMM_API int kvmm_testing_expect_victims(struct kvmm_testing *t, struct kvmm_pool *pool,
					 const uint32_t *numbers, uint32_t nr);

/** kvmm_testing_expect_unheld() - no range, no private block and no reference is left. */
KVMM_API int kvmm_testing_expect_unheld(struct kvmm_testing *t, struct kvmm_pool *pool);

/** kvmm_testing_validate() - kvmm_validate(), with what it logs as text. */
KVMM_API int kvmm_testing_validate(struct kvmm_testing *t, struct kvmm_pool *pool);

/* ---- the software device ---- */

/**
 * kvmm_testing_soft() - "soft:0" and so on are devices of a driver that does what it is told
 * @options: as in KVMM_SWCUDA, see Documentation/swcuda.rst; "" = none. A fault plan is among them:
 *	"fail=cuMemAlloc_v2:3:OUT_OF_MEMORY" fails the third call
 *
 * Everything in the driver begins anew: no pool may be on such a device. libkvmm-swcuda.so is that
 * of KVMM_SOFT_DRIVER in the environment, else the one beside libkvmm.so, else the loader's. What
 * it reports, races above all, is a failure of the bench.
 *
 * Return: 0; -EINVAL @options (the text says what); -ENOENT no library; -EBUSY a pool is there.
 */
KVMM_API int kvmm_testing_soft(struct kvmm_testing *t, const char *options);

/** kvmm_testing_soft_fail() - the @nth call of @call from now on (1: the next) returns @result, a
 * CUresult, and all later ones if @and_all_later. "*": of all calls. Return: 0; -ENOENT no such
 * call; -ENOSPC too many; -EINVAL kvmm_testing_soft() was not called. */
KVMM_API int kvmm_testing_soft_fail(struct kvmm_testing *t, const char *call, uint32_t nth,
				    int result, int and_all_later);

/** kvmm_testing_soft_fail_none() - no further failures. */
KVMM_API void kvmm_testing_soft_fail_none(struct kvmm_testing *t);

/** kvmm_testing_soft_report() - report number @i of the driver; NULL: not that many. */
KVMM_API const char *kvmm_testing_soft_report(struct kvmm_testing *t, uint32_t i);

/** kvmm_testing_soft_forget() - these reports were expected. */
KVMM_API void kvmm_testing_soft_forget(struct kvmm_testing *t);

/* ---- the seam below the bench, which is in libkvmm itself: for benches of your own ---- */

/**
 * struct kvmm_testing_host - answers kvmm instead of the system; what is NULL stays the system's
 * @size: sizeof(struct kvmm_testing_host)
 * @ctx: first argument of all of them
 * @refuse_alloc: asked before each allocation of host memory; not 0: it fails
 * @clock_ns: monotonic time in nanoseconds
 * @waited: a wait has come to its time-out of @ns
 * @random: 64 bits
 * @log: one line of text for the operator
 *
 * They are called by any thread, with locks of kvmm held: they do not call kvmm.
 */
struct kvmm_testing_host {
	size_t size;
	void *ctx;
	int (*refuse_alloc)(void *ctx, size_t bytes);
	uint64_t (*clock_ns)(void *ctx);
	void (*waited)(void *ctx, uint64_t ns);
	uint64_t (*random)(void *ctx);
	void (*log)(void *ctx, int level, const char *line);
};

/**
 * kvmm_testing_set_host() - @host, borrowed, answers from here on; NULL: the system again
 *
 * Memory is always the system's, so objects may outlive the host that they were allocated under.
 *
 * Context: no other call of kvmm runs.
 * Return: 0; -EINVAL; -EBUSY there is a host already.
 */
KVMM_API int kvmm_testing_set_host(const struct kvmm_testing_host *host);

/**
 * struct kvmm_testing_state - what kvmm as a whole has at present, or has seen since it was loaded
 * @size: sizeof(struct kvmm_testing_state)
 * @host_bytes: host memory held, once what was given up lately is free
 * @nr_bugs: invariants of kvmm that were found broken
 * @nr_bad_handles: stale, foreign or made-up handles that were refused
 */
struct kvmm_testing_state {
	size_t size;
	uint64_t host_bytes;
	uint64_t nr_bugs;
	uint64_t nr_bad_handles;
};

/** kvmm_testing_get_state() - waits for what is being freed. Return: 0; -EINVAL. */
KVMM_API int kvmm_testing_get_state(struct kvmm_testing_state *state);

#ifdef __cplusplus
}
#endif
#endif /* KVMM_EXT_TESTING_H */
