// SPDX-License-Identifier: Apache-2.0
/*
 * Segregated lists of free runs: constant time, exact lengths, a good fit but not the best.
 *
 * Runs of like length share a bin, eight bins for each doubling (up to 15 blocks a bin for each
 * length), two levels of bits say which bins have runs. A run carries its length at both ends, so
 * that a freed neighbour finds it without a search. A bitmap of free blocks, against which every
 * free is checked, is what makes double and partial frees safe.
 *
 * Within a bin the first SCAN_MAX runs are looked at and the shortest that fits is taken, so the
 * choice depends on history: quality is a little below best fit, the cost does not depend on the
 * zone's size. Only a request that no larger bin can serve looks at all runs of its own bin.
 *
 * Metadata: 12 bytes a block for tags, a bit for the map. All under the zone's lock.
 */
#include <kv/atomic.h>
#include <kv/bits.h>
#include <kv/zone.h>

#include "holes.h"
#include "research/research.h"

#define STEP_BITS	3u
#define STEPS		BIT(STEP_BITS)		/* bins for each doubling of the length */
#define NR_GROUPS	23u			/* lengths up to 2^24 */
#define NR_BINS		(NR_GROUPS * STEPS)
#define SCAN_MAX	8u

/*
 * Of a free run: all of it at the first block, nr alone at the last. Else meaningless. The tags
 * after the blocks' are the lists' heads, one a bin: lists are rings, so that linking and
 * unlinking need not ask where in the list they are.
 */
struct tag {
	u32	nr;
	u32	next;		/* first block of the next run of the bin, or its head */
	u32	prev;
};

struct lists {
	/* Fixed by init. */
	u32		nr_blocks;
	struct tag	*tag;
	u64		*free;			/* bit set: block is free */

	u32		nr_free;
	u32		nr_runs;
	u32		group_bits;		/* bit g: bin_bits[g] is not 0 */
	u8		bin_bits[NR_GROUPS];
};

/* Monotonic in @nr; exact up to 2 * STEPS - 1. */
static inline u32 bin_of(u32 nr)
{
	unsigned int shift = kv_log2(nr | STEPS) - STEP_BITS;

	return (shift << STEP_BITS) + (nr >> shift);
}

static_assert(NR_GROUPS == 24 - STEP_BITS + 2, "bin_of(KVMM_MAX_BLOCKS) is in the last group");

static inline u32 head_of(const struct lists *l, u32 bin)
{
	return l->nr_blocks + bin;
}

#define for_each_run(l, at, bin)						\
	for (at = (l)->tag[head_of(l, bin)].next; at < (l)->nr_blocks; at = (l)->tag[at].next)

static inline void link_run(struct lists *l, u32 start, u32 nr)
{
	u32 bin = bin_of(nr), head = head_of(l, bin), next = l->tag[head].next;

	l->tag[start] = (struct tag){ nr, next, head };
	l->tag[start + nr - 1].nr = nr;
	l->tag[next].prev = start;
	l->tag[head].next = start;
	l->bin_bits[bin / STEPS] |= BIT(bin % STEPS);
	l->group_bits |= BIT(bin / STEPS);
}

static inline void unlink_run(struct lists *l, u32 start)
{
	u32 next = l->tag[start].next, prev = l->tag[start].prev, bin;

	l->tag[next].prev = prev;
	l->tag[prev].next = next;
	if (next != prev)
		return;
	/* Only a head is on both sides of a run: the bin is empty now. */
	bin = next - l->nr_blocks;
	l->bin_bits[bin / STEPS] &= ~BIT(bin % STEPS);
	if (!l->bin_bits[bin / STEPS])
		l->group_bits &= ~BIT(bin / STEPS);
}

/* First bin from @bin on that has runs, or KV_NONE. */
static inline u32 next_bin(const struct lists *l, u32 bin)
{
	u32 group = bin / STEPS, bits;

	if (group >= NR_GROUPS)
		return KV_NONE;
	bits = l->bin_bits[group] >> bin % STEPS << bin % STEPS;
	if (!bits) {
		u32 groups = l->group_bits & ~(BIT(group + 1) - 1);

		if (!groups)
			return KV_NONE;
		group = kv_lowest64(groups);
		bits = l->bin_bits[group];
	}
	return group * STEPS + kv_lowest64(bits);
}

/* Shortest run of at least @nr among the first @max of a bin, or KV_NONE. */
static inline u32 scan_bin(const struct lists *l, u32 bin, u32 nr, u32 max)
{
	u32 best = KV_NONE, best_nr = KV_NONE, at;

	for_each_run(l, at, bin) {
		u32 have = l->tag[at].nr;

		if (have >= nr && have < best_nr) {
			best = at;
			best_nr = have;
		}
		if (have == nr || !--max)
			break;
	}
	return best;
}

static inline u32 find_run(const struct lists *l, u32 nr)
{
	u32 bin = bin_of(nr), larger, at;

	at = scan_bin(l, bin, nr, SCAN_MAX);
	if (at != KV_NONE)
		return at;
	larger = next_bin(l, bin + 1);
	if (likely(larger != KV_NONE))
		return scan_bin(l, larger, nr, SCAN_MAX);
	return scan_bin(l, bin, nr, KV_NONE);
}

/* Windows, directions, alignment: all runs are looked at, in no special order. */
static noinline struct pick find_place_slow(const struct lists *l, const struct kv_zone_req *req)
{
	struct pick best = PICK_NONE;
	u32 at;

	for (u32 bin = next_bin(l, bin_of(req->nr)); bin != KV_NONE; bin = next_bin(l, bin + 1)) {
		for_each_run(l, at, bin)
			pick_offer(&best, (struct kvmm_extent){ at, l->tag[at].nr }, req);
		if (best.start != KV_NONE && req->fit == KV_FIT_BEST)
			break;			/* later bins have longer runs only */
	}
	return best;
}

/* Take [start, start + nr) out of the free run @run. */
static inline void carve(struct lists *l, struct kvmm_extent run, u32 start, u32 nr)
{
	u32 front = start - run.start, back = run.nr - front - nr;

	unlink_run(l, run.start);
	l->nr_runs--;
	if (front) {
		link_run(l, run.start, front);
		l->nr_runs++;
	}
	if (back) {
		link_run(l, start + nr, back);
		l->nr_runs++;
	}
	map_clear(l->free, start, start + nr);
	l->nr_free -= nr;
}

static struct kvmm_extent run_around(const struct lists *l, u32 block)
{
	u32 start = map_run_start(l->free, block);

	return (struct kvmm_extent){ start, l->tag[start].nr };
}

/* The hot case of carve(): the low end of the run at @at. */
static inline void carve_front(struct lists *l, u32 at, u32 nr)
{
	u32 back = l->tag[at].nr - nr;

	unlink_run(l, at);
	map_clear(l->free, at, at + nr);
	l->nr_free -= nr;
	if (back)
		link_run(l, at + nr, back);
	else
		l->nr_runs--;
}

static u32 lists_take(void *engine, const struct kv_zone_req *req)
{
	struct lists *l = engine;
	struct pick place;

	if (likely(req_is_plain(req, l->nr_blocks, 1))) {
		u32 at = find_run(l, req->nr);

		if (likely(at != KV_NONE))
			carve_front(l, at, req->nr);
		return at;
	}
	place = find_place_slow(l, req);
	if (place.start != KV_NONE)
		carve(l, run_around(l, place.start), place.start, req->nr);
	return place.start;
}

static int lists_take_at(void *engine, u32 start, u32 nr)
{
	struct lists *l = engine;

	if (!map_is_set(l->free, start, start + nr))
		return -EBUSY;
	carve(l, run_around(l, start), start, nr);
	return 0;
}

static int lists_give(void *engine, u32 start, u32 nr)
{
	struct lists *l = engine;
	u32 end = start + nr;

	if (unlikely(!map_is_clear(l->free, start, end)))
		return -EINVAL;
	map_set(l->free, start, end);
	l->nr_free += nr;
	l->nr_runs++;
	if (start && map_test(l->free, start - 1)) {
		start -= l->tag[start - 1].nr;
		unlink_run(l, start);
		l->nr_runs--;
	}
	if (end < l->nr_blocks && map_test(l->free, end)) {
		unlink_run(l, end);
		end += l->tag[end].nr;
		l->nr_runs--;
	}
	link_run(l, start, end - start);
	return 0;
}

static size_t lists_bytes(u32 nr_blocks)
{
	return sizeof(struct lists) + KV_WORDS((size_t)nr_blocks) * sizeof(u64) +
	       ((size_t)nr_blocks + NR_BINS) * sizeof(struct tag);
}

static void lists_init(void *engine, u32 nr_blocks)
{
	struct lists *l = engine;

	l->nr_blocks = nr_blocks;
	l->free = (u64 *)(l + 1);
	l->tag = (struct tag *)(l->free + KV_WORDS(nr_blocks));
	for (u32 head = nr_blocks; head < nr_blocks + NR_BINS; head++)
		l->tag[head] = (struct tag){ 0, head, head };
	lists_give(l, 0, nr_blocks);
}

static struct kvmm_extent lists_next_free(const void *engine, u32 from)
{
	const struct lists *l = engine;
	u32 block = map_next(l->free, from, l->nr_blocks, true);

	if (block >= l->nr_blocks)
		return (struct kvmm_extent){ KV_NONE, 0 };
	return run_around(l, block);
}

static bool lists_is_free(const void *engine, u32 block)
{
	return map_test(((const struct lists *)engine)->free, block);
}

static u64 lists_peek(const void *engine, u32 word)
{
	return kv_peek(&((const struct lists *)engine)->free[word]);
}

static u32 lists_nr_free(const void *engine)
{
	return kv_peek(&((const struct lists *)engine)->nr_free);
}

static u32 lists_nr_runs(const void *engine)
{
	return ((const struct lists *)engine)->nr_runs;
}

static unsigned int lists_kth_largest(const void *engine, u32 *len, unsigned int k)
{
	const struct lists *l = engine;
	unsigned int have = 0;
	u32 at;

	for (u32 bin = NR_BINS; bin-- > 0 && have < k;)
		for_each_run(l, at, bin)
			have = keep_longest(len, k, have, l->tag[at].nr);
	return have;
}

static u32 lists_largest(const void *engine)
{
	u32 len = 0;

	lists_kth_largest(engine, &len, 1);
	return len;
}

static u32 lists_usable(const void *engine, u32 nr, u32 *pieces)
{
	const struct lists *l = engine;
	u32 blocks = 0, at;

	*pieces = 0;
	for (u32 bin = next_bin(l, bin_of(nr)); bin != KV_NONE; bin = next_bin(l, bin + 1))
		for_each_run(l, at, bin) {
			if (l->tag[at].nr < nr)
				continue;
			blocks += l->tag[at].nr;
			++*pieces;
		}
	return blocks;
}

/* A run that stands in the list of @bin after @prev, against the map and its own ends. */
static bool run_is_sound(const struct lists *l, u32 bin, u32 at, u32 prev)
{
	const struct tag *tag = &l->tag[at];

	if (!tag->nr || tag->nr > l->nr_blocks - at || bin_of(tag->nr) != bin || tag->prev != prev)
		return false;
	return l->tag[at + tag->nr - 1].nr == tag->nr && map_run_start(l->free, at) == at &&
	       map_next(l->free, at, l->nr_blocks, false) == at + tag->nr;
}

/* Counts the runs of one bin, never more than there can be. */
static int check_bin(const struct lists *l, u32 bin, u32 *nr_runs)
{
	u32 head = head_of(l, bin), prev = head, at;

	for_each_run(l, at, bin) {
		if (++*nr_runs > l->nr_blocks || !map_test(l->free, at) ||
		    !run_is_sound(l, bin, at, prev))
			return -EUCLEAN;
		prev = at;
	}
	return at != head || l->tag[head].prev != prev ? -EUCLEAN : 0;
}

static int lists_check(const void *engine)
{
	const struct lists *l = engine;
	u32 nr_runs = 0, nr_free = 0;

	for (u32 bin = 0; bin < NR_BINS; bin++) {
		bool has_runs = l->tag[head_of(l, bin)].next < l->nr_blocks;

		if (has_runs != !!(l->bin_bits[bin / STEPS] & BIT(bin % STEPS)) ||
		    !l->bin_bits[bin / STEPS] != !(l->group_bits & BIT(bin / STEPS)) ||
		    check_bin(l, bin, &nr_runs))
			return -EUCLEAN;
	}
	for (u32 word = 0; word < KV_WORDS(l->nr_blocks); word++)
		nr_free += __builtin_popcountll(l->free[word]);
	return nr_free != l->nr_free || nr_runs != l->nr_runs ? -EUCLEAN : 0;
}

const struct kv_zone_ops kv_zone_lists = {
	.name		= "lists",
	.metadata_bytes	= lists_bytes,
	.init		= lists_init,
	.take		= lists_take,
	.take_at	= lists_take_at,
	.give		= lists_give,
	.next_free	= lists_next_free,
	.is_free	= lists_is_free,
	.nr_free	= lists_nr_free,
	.nr_runs	= lists_nr_runs,
	.largest	= lists_largest,
	.usable		= lists_usable,
	.kth_largest	= lists_kth_largest,
	.check		= lists_check,
	.peek		= lists_peek,
};
