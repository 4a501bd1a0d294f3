// SPDX-License-Identifier: Apache-2.0
/*
 * Why a name was not found.
 *
 *	31          18 17       10 9          2   1      0
 *	| key          | tenant    | shape      | staged | used |
 *
 * Fingerprints of the name that was staged or registered last at this place. A key that has the
 * same 14 bits by chance gives a wrong reason in one of 2^14 cases; a name whose word was taken by
 * another counts as never heard of. Shape is layout and group.
 */
#include <kv/env.h>
#include <kv/mem.h>
#include <kv/probe.h>
#include <kv/stat.h>

#include "internal.h"

#define TRACE_USED	BIT(0)
#define TRACE_SHAPE	(0xffu << 2)
#define TRACE_TENANT	(0xffu << 10)
#define TRACE_KEY	(0x3fffu << 18)

int trace_init(struct trace *trace, u32 nr_entries, u64 seed)
{
	u32 nr = BIT(kv_order(max(nr_entries, 1u)));

	*trace = (struct trace){
		.missed	= kv_alloc_lines(KV_TALLY_ROWS, sizeof(*trace->missed)),
		.mask	= nr - 1,
		.seed	= ~seed,
	};
	if (!trace->missed)
		return -ENOMEM;
	trace->word = registry_alloc(nr * sizeof(u32));
	if (trace->word)
		return 0;
	kv_free(trace->missed);
	return -ENOMEM;
}

static u64 word_bytes(const struct trace *trace)
{
	return (trace->mask + 1ull) * sizeof(u32);
}

u64 trace_bytes(const struct trace *trace)
{
	return word_bytes(trace) + KV_TALLY_ROWS * sizeof(*trace->missed);
}

void trace_exit(struct trace *trace)
{
	registry_free(trace->word, word_bytes(trace));
	kv_free(trace->missed);
}

static u32 *trace_place(const struct trace *trace, u64 hash)
{
	return &trace->word[(u32)hash & trace->mask];
}

static u32 trace_word(const struct trace *trace, u64 hash, u64 domain)
{
	u64 tenant = kv_mul_fold((u32)domain ^ trace->seed, 0xa0761d6478bd642full);
	u64 shape = kv_mul_fold((domain >> 32) ^ trace->seed, 0xe7037ed1a0b428dbull);

	return TRACE_USED | ((u32)shape & 0xff) << 2 | ((u32)tenant & 0xff) << 10 |
	       ((u32)(hash >> 32) & 0x3fff) << 18;
}

struct trace_spot trace_arrive(const struct trace *trace, const struct kv_entry *entry)
{
	kvmm_key_t key = kv_entry_key(entry);
	u64 hash = kv_hash_key(&key, trace->seed);
	struct trace_spot spot = {
		trace_place(trace, hash),
		trace_word(trace, hash, READ_ONCE(entry->domain)),
	};

	kv_prefetch_write(spot.place);
	return spot;
}

void trace_note(struct trace *trace, const struct kv_entry *entry, bool is_staged)
{
	struct trace_spot spot = trace_arrive(trace, entry);

	trace_write(spot, is_staged);
}

static_assert(KV_EV_MISS_GROUP - KV_EV_MISS_NEVER == KV_MISS_GROUP, "events in the same order");

static enum kv_miss reason(u32 seen, u32 wanted)
{
	if (!(seen & TRACE_USED) || (seen ^ wanted) & TRACE_KEY)
		return KV_MISS_NEVER;
	if ((seen ^ wanted) & TRACE_TENANT)
		return KV_MISS_TENANT;
	if ((seen ^ wanted) & TRACE_SHAPE)
		return KV_MISS_GROUP;
	return seen & TRACE_STAGED ? KV_MISS_STAGED : KV_MISS_EVICTED;
}

void trace_miss(const struct trace *trace, const struct kv_query *query, u32 at)
{
	u64 hash = kv_hash_key(&query->keys[at], trace->seed);
	u32 wanted = trace_word(trace, hash, kv_domain_word(query->domain));

	enum kv_miss why = reason(READ_ONCE(*trace_place(trace, hash)), wanted);

	kv_fetch_add(&trace->missed[kv_tally_row()].nr[why], 1);
	kv_count(KV_EV_MISS_NEVER + why);
	kv_probe2(miss, (u32)why, at);
}

u64 trace_nr_missed(const struct trace *trace, enum kv_miss why)
{
	u64 sum = 0;

	for (u32 i = 0; i < KV_TALLY_ROWS; i++)
		sum += READ_ONCE(trace->missed[i].nr[why]);
	return sum;
}
