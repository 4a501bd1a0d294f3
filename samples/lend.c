// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks that are lent to a transfer, with a lease: their addresses are good as long as they are pinned, and
 * what the other side forgets is taken back.
 */
#include <errno.h>
#include <kvmm/kvmm.h>
#include <stdio.h>

#define SECOND	1000000000ull

static struct kvmm_pool *pool;
static kvmm_key_t keys[4];
static const struct kvmm_prefix prompt = { .keys = keys, .nr = 4 };

static int fill(kvmm_ref_t *refs)
{
	kvmm_mut_t muts[4];
	int err = kvmm_alloc(pool, 4, muts);

	for (int i = 0; i < 4; i++)
		keys[i].byte[0] = i + 1;
	return err ? err : kvmm_register(pool, muts, keys, 4, refs);
}

static void show(void)
{
	struct kvmm_hold_info info[4];
	int nr = kvmm_block_holds(pool, &keys[0], NULL, info, 4);

	for (int i = 0; i < nr && i < 4; i++)
		printf("  held by %llu for a %s\n", (unsigned long long)info[i].owner,
		       kvmm_hold_reason_name(info[i].reason));
}

static int lend(struct kvmm_hold_attr *attr)
{
	struct kvmm_pin_addr addr[4];
	struct kvmm_hold_info info;
	kvmm_hold_t hold;
	kvmm_ref_t refs[4];
	int err = kvmm_hold(pool, attr, &hold);

	if (err < 0)
		return err;
	show();
	err = kvmm_hold_get_info(pool, hold, &info);
	if (err)
		return err;
	printf("of it itself: owner %llu\n", (unsigned long long)info.owner);
	kvmm_pin_addrs(pool, hold, addr, 4);	/* these are sent to the other side ... */
	printf("pinned: %s, %d blocks\n", kvmm_strerror(kvmm_pin_check(pool, &addr[0])),
	       kvmm_hold_refs(pool, hold, refs, NULL, 4));
	kvmm_hold_renew(pool, hold, 30 * SECOND);	/* ... which says now and then that it lives */
	err = kvmm_hold_release(pool, hold);
	printf("an address after that: %s\n", kvmm_strerror(kvmm_pin_check(pool, &addr[0])));
	return err;
}

/* References that were the caller's, and a range: each of them has an owner from then on. */
static int give_away(struct kvmm_hold_attr *attr, const kvmm_ref_t *refs)
{
	kvmm_hold_t blocks, whole;
	kvmm_range_t range;
	int err = kvmm_range_alloc(pool, 8, KVMM_RUNS(1), &range);

	attr->prefix = NULL;
	attr->lease_ns = 1;
	if (!err)
		err = kvmm_hold_take(pool, attr, refs, 4, &blocks);
	if (!err)
		err = kvmm_hold_range(pool, attr, range, &whole);
	if (err)
		return err;
	/* Nothing was heard of it again; late owners can do no harm here. */
	printf("%d holds have run out\n", kvmm_hold_expire(pool, kvmm_clock_ns() + SECOND));
	return kvmm_range_free(pool, range);
}

int main(void)
{
	struct kvmm_hold_attr attr = KVMM_HOLD_ATTR_INIT;
	struct kvmm_pool_attr pool_attr = KVMM_POOL_ATTR_INIT;
	kvmm_ref_t refs[4];
	int err;

	pool_attr.nr_blocks = 32;
	pool_attr.block_bytes = 4096;
	err = kvmm_pool_create(&pool_attr, &pool);
	attr.prefix = &prompt;
	attr.owner = 7;
	attr.reason = KVMM_HOLD_TRANSFER;
	attr.lease_ns = 30 * SECOND;
	attr.flags = KVMM_HOLD_PIN;
	if (!err)
		err = fill(refs);
	if (!err)
		err = lend(&attr);
	if (!err)
		err = give_away(&attr, refs);
	if (err)
		fprintf(stderr, "%s\n", kvmm_strerror(err));
	kvmm_pool_destroy(pool);
	return err != 0;
}
