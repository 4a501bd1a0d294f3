// SPDX-License-Identifier: Apache-2.0

#include "tests/pool/life_util.h"

void life_take(struct kvmm_pool *pool, struct life *life)
{
	size_t bytes = pool->parts.evict->bytes(pool->nr_blocks);

	cr_assert_leq(pool->nr_blocks, LIFE_MAX);
	cr_assert_leq(bytes, sizeof(life->policy));
	memset(life, 0, sizeof(*life));
	cr_assert_eq(kvmm_validate(pool), 0);
	life->stat = stat_of(pool);
	for (u32 i = 0; i < pool->nr_blocks; i++) {
		const struct kv_entry *entry = entry_at(pool, i);

		life->entry[i].word = entry->word;
		life->entry[i].place = entry->place;
		life->entry[i].link = entry->link;
		life->entry[i].dup_next = entry->dup_next;
		life->entry[i].dup_prev = entry->dup_prev;
	}
	memcpy(life->policy, pool->order.rest.policy[0], bytes);
}

/* Failures are counted, and are the only thing that is. */
void life_expect_same(struct kvmm_pool *pool, const struct life *before, int line)
{
	static struct life after;

	life_take(pool, &after);
	after.stat.fail_nospc = before->stat.fail_nospc;
	cr_expect_arr_eq(&after.stat, &before->stat, sizeof(after.stat), "line %d: statistics", line);
	cr_expect_arr_eq(after.entry, before->entry, sizeof(after.entry), "line %d: entries", line);
	cr_expect_arr_eq(after.policy, before->policy, sizeof(after.policy),
			 "line %d: order of eviction", line);
}

const char *refs_picture(struct kvmm_pool *pool)
{
	static char line[LIFE_MAX + 1];
	struct kvmm_block_info info;
	u32 i;

	for (i = 0; i < LIFE_MAX && !kvmm_block_get_info(pool, i, &info); i++) {
		bool named = info.state == KVMM_BLOCK_ACTIVE || info.state == KVMM_BLOCK_INACTIVE;

		line[i] = !named ? '.' : info.refs > 9 ? '+' : '0' + info.refs;
	}
	line[i] = '\0';
	return line;
}

void bad_handles(struct kvmm_pool *pool, struct bad_handle bad[NR_BAD_HANDLES])
{
	kvmm_mut_t mut;
	u32 gen;

	make_private(pool, 1, &mut);
	cr_assert_eq(kvmm_free(pool, &mut, 1), 0);
	gen = entry_handle(pool, mut.index).gen;
	bad[0] = (struct bad_handle){ mut_handle(mut), -ESTALE };
	bad[1] = (struct bad_handle){ { mut.index, 0 }, -EINVAL };
	bad[2] = (struct bad_handle){ { mut.index, gen + 1 }, -EINVAL };
	bad[3] = (struct bad_handle){ { pool->nr_blocks, mut.gen }, -EINVAL };
	/* Free; one that waits in a classic order is the old one still. */
	bad[4] = (struct bad_handle){ { mut.index, gen }, gen == mut.gen ? -ESTALE : -EINVAL };
}

struct kvmm_prefix prefix_of(const kvmm_key_t *keys, u32 nr)
{
	return (struct kvmm_prefix){ .keys = keys, .nr = nr };
}

const kvmm_key_t *keys_from(u32 first, u32 nr)
{
	static kvmm_key_t keys[LIFE_MAX];

	cr_assert_leq(nr, LIFE_MAX);
	for (u32 i = 0; i < nr; i++)
		keys[i] = key_of(first + i);
	return keys;
}

void make_private(struct kvmm_pool *pool, u32 nr, kvmm_mut_t *mut)
{
	int err = kvmm_alloc(pool, nr, mut);

	cr_assert_eq(err, 0, "kvmm_alloc(%u): %d", nr, err);
}

void make_staged(struct kvmm_pool *pool, u32 first, u32 nr, kvmm_staged_t *staged)
{
	struct kvmm_prefix prefix = prefix_of(keys_from(first, nr), nr);
	kvmm_mut_t mut[LIFE_MAX];

	make_private(pool, nr, mut);
	cr_assert_eq(kvmm_stage(pool, &prefix, mut, staged), 0);
}

void make_active(struct kvmm_pool *pool, u32 first, u32 nr, kvmm_ref_t *ref)
{
	publish_as(pool, KVMM_DUP_ALLOW, first, nr, ref);
}

u32 publish_as(struct kvmm_pool *pool, u32 dup, u32 first, u32 nr, kvmm_ref_t *ref)
{
	kvmm_staged_t staged[LIFE_MAX];
	struct kvmm_publish_args req = { .staged = staged, .nr = nr, .dup = dup, .refs = ref };

	make_staged(pool, first, nr, staged);
	cr_assert_eq(kvmm_publish(pool, &req), 0);
	return req.nr_dups;
}

int found_under(struct kvmm_pool *pool, u32 number)
{
	kvmm_key_t key = key_of(number);
	kvmm_ref_t ref;
	int block;

	if (kvmm_match(pool, &key, 1, &ref) != 1)
		return -1;
	block = kvmm_block_of_ref(pool, ref);
	cr_assert_eq(kvmm_put_many(pool, &ref, 1), 0);
	return block;
}

struct kvmm_pool *make_life(u32 nr_blocks, const char *policy, u32 flags, u32 dup)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = nr_blocks,
				       .policy = policy, .flags = flags, .dup_policy = dup,
				       .block_bytes = TEST_BLOCK_BYTES };

	return make_pool_of(&attr);
}
