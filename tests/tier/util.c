// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <kv/registry_radix.h>

#include "tier/internal.h"
#include "tests/support/tier_wait.h"
#include "util.h"

#define MAX_KEYS	512u

struct kvmm_tier *make_tier_of(const struct kvmm_tier_attr *attr)
{
	struct kvmm_tier *tier = NULL;
	int err = kvmm_tier_host_create(attr, &tier);

	cr_assert_eq(err, 0, "kvmm_tier_host_create: %d", err);
	return tier;
}

struct kvmm_tier *make_tier(u32 nr_units)
{
	struct kvmm_tier_attr attr = KVMM_TIER_ATTR_INIT;

	attr.capacity_blocks = nr_units;
	attr.block_bytes = TEST_BLOCK_BYTES;
	return make_tier_of(&attr);
}

void attach_as(struct kvmm_pool *pool, struct kvmm_tier *tier,
	       const struct kvmm_tier_client_attr *attr)
{
	int err = kvmm_tier_attach(pool, tier, attr);

	cr_assert_eq(err, 0, "kvmm_tier_attach: %d", err);
}

void attach(struct kvmm_pool *pool, struct kvmm_tier *tier)
{
	struct kvmm_tier_client_attr attr = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;

	config.write = KVMM_TIER_EXPLICIT;
	attr.config = &config;
	attach_as(pool, tier, &attr);
}

struct both both_of(u32 nr_blocks, u32 nr_units)
{
	struct both both = {
		.attr = KVMM_POOL_ATTR_INIT, .host = KVMM_TIER_ATTR_INIT,
		.client = KVMM_TIER_CLIENT_ATTR_INIT, .config = KVMM_TIER_CONFIG_INIT,
		.below = { .size = sizeof(both.below), .high_pm = 0 },
	};

	both.attr.nr_blocks = nr_blocks;
	both.attr.policy = "lru";
	both.host.capacity_blocks = nr_units;
	both.attr.block_bytes = both.host.block_bytes = TEST_BLOCK_BYTES;
	both.config.write = KVMM_TIER_EXPLICIT;
	return both;
}

struct both both_of_ids(u32 nr_blocks, u32 nr_units, u64 block_bytes)
{
	struct both both = both_of(nr_blocks, nr_units);

	both.attr.block_bytes = both.host.block_bytes = 0;
	both.client.block_bytes = block_bytes;
	both.host.flags = KVMM_TIER_TOLD_CLOCK;
	return both;
}

void both_make(struct both *both)
{
	if (both->host.disk || both->host.remote)
		both->host.disk_attr = &both->below;
	if (!both->tier)
		both->tier = make_tier_of(&both->host);
	both->client.config = &both->config;
	both->attr.host = both->tier;
	both->attr.host_attr = &both->client;
	both->pool = make_pool_of(&both->attr);
}

static char letter_of(const struct tslot *slot)
{
	switch (slot->state) {
	case SLOT_WRITING:
		return 'w';
	case SLOT_READY:
		return slot->readers ? 'R' : 'r';
	default:
		return slot->state == SLOT_DOOMED ? 'D' : '.';
	}
}

const char *tier_picture(struct kvmm_tier *tier)
{
	static char line[4097];
	u32 nr = min(tier->nr_units, 4096u);

	for (u32 i = 0; i < nr;) {
		const struct tslot *slot = slot_at(tier, i);
		u32 units = slot->state == SLOT_FREE ? 1 : slot->nr_units;

		line[i++] = letter_of(slot);
		for (; --units; i++)
			line[i] = '-';
	}
	line[nr] = '\0';
	return line;
}

/* ---- content ---- */

static void fill(u8 *buf, u32 bytes, u32 number)
{
	for (u32 b = 0; b < bytes; b++)
		buf[b] = number * 89 + b * 7 + (b >> 8);
}

static u32 bytes_of(struct kvmm_pool *pool)
{
	struct kvmm_pool_stat stat = stat_of(pool);

	return min(stat.block_bytes, 4096ull);
}

void make_blocks(struct kvmm_pool *pool, u32 first, u32 nr, kvmm_ref_t *refs)
{
	const struct kvmm_prefix *prefix = prefix_of(first, nr);
	u32 bytes = bytes_of(pool);
	kvmm_mut_t mut[MAX_KEYS];
	u8 buf[4096];

	cr_assert_eq(kvmm_alloc(pool, nr, mut), 0);
	for (u32 i = 0; i < nr && bytes; i++) {
		fill(buf, bytes, first + i);
		cr_assert_eq(kvmm_block_write(pool, kvmm_block_of_mut(pool, mut[i]), 0, buf, bytes), 0);
	}
	cr_assert_eq(kvmm_prefix_register(pool, prefix, mut, refs), 0);
}

void cache_blocks(struct kvmm_pool *pool, u32 first, u32 nr)
{
	kvmm_ref_t refs[MAX_KEYS];

	make_blocks(pool, first, nr, refs);
	cr_assert_eq(kvmm_put_many(pool, refs, nr), 0);
}

bool has_content(struct kvmm_pool *pool, kvmm_ref_t ref, u32 number)
{
	u32 bytes = bytes_of(pool);
	u8 buf[4096], want[4096];

	fill(want, bytes, number);
	return !kvmm_block_read(pool, kvmm_block_of_ref(pool, ref), 0, buf, bytes) &&
	       !memcmp(buf, want, bytes);
}

/* ---- up and down ---- */

const struct kvmm_prefix *prefix_of(u32 first, u32 nr)
{
	static kvmm_key_t keys[MAX_KEYS], parent;
	static struct kvmm_prefix prefix;

	cr_assert_leq(nr, MAX_KEYS);
	for (u32 i = 0; i < nr; i++)
		keys[i] = key_of(first + i);
	parent = key_of(first - 1);
	prefix = (struct kvmm_prefix){ keys, nr, first, first ? &parent : NULL, { 0, 0, 0 } };
	return &prefix;
}

void offload_keys(struct kvmm_pool *pool, u32 first, u32 nr, u32 flags)
{
	struct kvmm_tier_result result = { .size = sizeof(result), .nr = nr };
	kvmm_ref_t refs[MAX_KEYS];
	kvmm_tier_op_t op;

	cr_assert_eq(kvmm_prefix_match(pool, prefix_of(first, nr), refs), nr);
	cr_assert_eq(kvmm_put_many(pool, refs, nr), 0);
	op = begin_offload(pool, refs, nr, flags);
	cr_assert_eq(tier_wait(pool, op, UINT64_MAX), 0);
	cr_assert_eq(kvmm_tier_get_result(pool, op, &result), 0);
	cr_assert_eq(result.nr_failed, 0);
}

int load_keys(struct kvmm_pool *pool, u32 first, u32 nr)
{
	struct kvmm_tier_load_args req = { .size = sizeof(req), .prefix = prefix_of(first, nr) };
	kvmm_ref_t refs[MAX_KEYS];
	kvmm_tier_op_t op;
	int err = kvmm_tier_load(pool, &req, &op);

	if (err)
		return err;
	err = tier_wait(pool, op, UINT64_MAX);
	cr_assert_eq(err, 0, "%d", err);
	err = result_of(pool, op, nr, refs);
	if (err)
		return err;
	for (u32 i = 0; i < nr; i++)
		cr_expect(has_content(pool, refs[i], first + i), "key %u", first + i);
	cr_assert_eq(kvmm_put_many(pool, refs, nr), 0);
	return 0;
}

const char *answers(struct kvmm_pool *pool, u32 first, u32 nr)
{
	static char line[MAX_KEYS + 1];
	kvmm_ref_t refs[MAX_KEYS];
	u8 answer[MAX_KEYS], level[MAX_KEYS];
	struct kvmm_tier_match_args match = { .size = sizeof(match), .prefix = prefix_of(first, nr),
					      .refs = refs, .answers = answer, .levels = level };

	cr_assert_geq(kvmm_tier_match(pool, &match), 0);
	cr_assert_eq(kvmm_put_many(pool, refs, match.nr_device), 0);
	for (u32 i = 0; i < nr; i++)
		line[i] = answer[i] == KVMM_TIER_HIT ? '0' + level[i] : "-?pt"[answer[i]];
	line[nr] = '\0';
	return line;
}

/* ---- the rest ---- */

struct kvmm_tier_client_stat client_of(struct kvmm_pool *pool)
{
	struct kvmm_tier_client_stat stat;

	cr_assert_eq(kvmm_tier_client_get_stat(pool, &stat, sizeof(stat)), 0);
	return stat;
}

struct kvmm_tier_stat tier_of(struct kvmm_tier *tier)
{
	struct kvmm_tier_stat stat;

	cr_assert_eq(kvmm_tier_get_stat(tier, &stat, sizeof(stat)), 0);
	return stat;
}

void end_both(struct kvmm_pool *pool, struct kvmm_tier *tier)
{
	cr_expect_eq(kv_tier_check(tier), 0);
	end_pool(pool);
	cr_expect_eq(kv_tier_check(tier), 0);
	kvmm_tier_destroy(tier);
}

void tier_flip(struct kvmm_tier *tier, u32 unit)
{
	u8 *ptr = tier->chunk[unit / tier->chunk_units].mem.ptr;

	ptr[unit % tier->chunk_units * tier->unit_bytes + 5] ^= 4;
}

void tiers_of(struct kvmm_registry *reg, u32 first, u32 nr, u16 *masks)
{
	cr_assert_geq(kvmm_registry_presence(reg, prefix_of(first, nr), masks), 0);
	cr_expect_eq(kv_radix_check(reg), 0);
}

int load_keys_raw(struct kvmm_pool *pool, const kvmm_key_t *keys, u32 nr, kvmm_ref_t *refs)
{
	struct kvmm_prefix prefix = { keys, nr, 0, NULL, { 0, 0, 0 } };
	struct kvmm_tier_load_args req = { .size = sizeof(req), .prefix = &prefix };
	kvmm_tier_op_t op;
	int err = kvmm_tier_load(pool, &req, &op);

	if (!err)
		err = tier_wait(pool, op, UINT64_MAX);
	return err ? err : result_of(pool, op, nr, refs);
}

kvmm_tier_op_t begin_offload(struct kvmm_pool *pool, const kvmm_ref_t *refs, u32 nr, u32 flags)
{
	struct kvmm_tier_offload_args req = { .size = sizeof(req), .refs = refs, .nr = nr,
					      .flags = flags };
	kvmm_tier_op_t op = { 0, 0 };
	int err = kvmm_tier_offload(pool, &req, &op);

	cr_assert_eq(err, 0, "%d", err);
	return op;
}

kvmm_tier_op_t begin_load(struct kvmm_pool *pool, u32 first, u32 nr)
{
	struct kvmm_tier_load_args req = { .size = sizeof(req), .prefix = prefix_of(first, nr) };
	kvmm_tier_op_t op = { 0, 0 };
	int err = kvmm_tier_load(pool, &req, &op);

	cr_assert_eq(err, 0, "%d", err);
	return op;
}

int result_of(struct kvmm_pool *pool, kvmm_tier_op_t op, u32 nr, kvmm_ref_t *refs)
{
	struct kvmm_tier_result result = { .size = sizeof(result), .nr = nr, .refs = refs };

	return kvmm_tier_get_result(pool, op, &result);
}

void poll_all(struct kvmm_pool *pool)
{
	for (u32 i = 0; i < 200 && kvmm_tier_poll(pool); i++)
		;
}

void send_down(struct kvmm_pool *pool, u32 first, u32 nr)
{
	struct kvmm_tier_offload_args req = { .size = sizeof(req), .nr = nr };
	kvmm_ref_t refs[MAX_KEYS];

	cr_assert_eq(kvmm_prefix_match(pool, prefix_of(first, nr), refs), nr);
	cr_assert_eq(kvmm_put_many(pool, refs, nr), 0);
	req.refs = refs;
	cr_assert_eq(kvmm_tier_offload(pool, &req, NULL), 0);
}

bool is_readable(int fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return poll(&poll_fd, 1, 0) == 1;
}
