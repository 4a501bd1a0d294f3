// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks that are lent to a transfer, with a lease: their addresses are good as long as they are pinned, and
 * what the other side forgets is taken back.
 */
#include <errno.h>
#include <kvmm/kvmm.h>
#include <stdio.h>
#include <time.h>

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
	struct kvmm_lease_filter filter = KVMM_LEASE_FILTER_INIT;
	struct kvmm_lease_info info[4];
	uint64_t cursor = 0;
	int nr;

	filter.key = &keys[0];
	nr = kvmm_lease_list(pool, &filter, &cursor, info, 4);
	for (int i = 0; i < nr; i++)
		printf("  held by %llu for a %s\n", (unsigned long long)info[i].owner,
		       kvmm_lease_reason_name(info[i].reason));
}

static int lend(struct kvmm_lease_attr *attr)
{
	struct kvmm_lease_addr addr[4];
	struct kvmm_lease_info info;
	kvmm_lease_t lease;
	int err = kvmm_lease_take(pool, attr, &lease);

	if (err < 0)
		return err;
	show();
	err = kvmm_lease_get_info(pool, lease, &info);
	if (err)
		return err;
	printf("of it itself: owner %llu\n", (unsigned long long)info.owner);
	err = kvmm_lease_addrs(pool, lease, addr, 4);	/* these are sent to the other side ... */
	printf("%d blocks, pinned: %s\n", err, kvmm_strerror(kvmm_lease_check(pool, &addr[0])));
	kvmm_lease_renew(pool, 0, &lease, 30 * SECOND);	/* ... which says that it lives */
	err = kvmm_lease_release(pool, 0, &lease);
	printf("an address after that: %s\n", kvmm_strerror(kvmm_lease_check(pool, &addr[0])));
	return err < 0 ? err : 0;
}

/* kvmm's clock. */
static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* References that were the caller's, and a range: each of them has an owner from then on. */
static int give_away(struct kvmm_lease_attr *attr, const kvmm_ref_t *refs)
{
	kvmm_lease_t blocks, whole;
	kvmm_range_t range;
	int err = kvmm_range_alloc(pool, 8, KVMM_RUNS(1), &range);

	if (err)
		return err;
	attr->prefix = NULL;
	attr->refs = refs;
	attr->nr_refs = 4;
	attr->lease_ns = 1;
	err = kvmm_lease_take(pool, attr, &blocks);
	attr->refs = NULL;
	attr->nr_refs = 0;
	attr->range = range;
	if (err >= 0)
		err = kvmm_lease_take(pool, attr, &whole);
	if (err < 0)
		return err;
	/* Nothing was heard of it again; late owners can do no harm here. */
	printf("%d leases have run out\n", kvmm_lease_expire(pool, now_ns() + SECOND, NULL));
	return kvmm_range_free(pool, range);
}

int main(void)
{
	struct kvmm_lease_attr attr = KVMM_LEASE_ATTR_INIT;
	struct kvmm_pool_attr pool_attr = KVMM_POOL_ATTR_INIT;
	kvmm_ref_t refs[4];
	int err;

	pool_attr.nr_blocks = 32;
	pool_attr.block_bytes = 4096;
	err = kvmm_pool_create(&pool_attr, &pool);
	attr.prefix = &prompt;
	attr.owner = 7;
	attr.reason = KVMM_LEASE_TRANSFER;
	attr.lease_ns = 30 * SECOND;
	attr.flags = KVMM_LEASE_PIN | KVMM_LEASE_RECLAIM;
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
