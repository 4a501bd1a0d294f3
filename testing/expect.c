// SPDX-License-Identifier: Apache-2.0
/* What a pool looks like, and whether it looks as it should. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static const struct {
	char letter;
	const char *name;
} states[KVMM_NR_BLOCK_STATES] = {
	[KVMM_BLOCK_FREE] = { '.', "free" },
	[KVMM_BLOCK_NULL] = { 'N', "the null block" },
	[KVMM_BLOCK_RANGE] = { '#', "in a range" },
	[KVMM_BLOCK_PRIVATE] = { 'P', "private" },
	[KVMM_BLOCK_STAGED] = { 'S', "staged" },
	[KVMM_BLOCK_ACTIVE] = { 'A', "referenced" },
	[KVMM_BLOCK_INACTIVE] = { 'I', "cached" },
};

/* Is a block of that state somebody's? */
static bool state_is_held(uint32_t state)
{
	return state != KVMM_BLOCK_FREE && state != KVMM_BLOCK_NULL && state != KVMM_BLOCK_INACTIVE;
}

/* ---- pictures ---- */

static char letter_of(const struct kvmm_block_info *info)
{
	if (info->state >= KVMM_NR_BLOCK_STATES || !states[info->state].letter)
		return '?';
	if (info->state == KVMM_BLOCK_RANGE && info->seq >= 'a' && info->seq <= 'z')
		return info->seq;
	return states[info->state].letter;
}

static uint32_t nr_blocks_of(struct kvmm_pool *pool)
{
	struct kvmm_pool_stat stat;

	if (kvmm_pool_get_stat(pool, &stat))
		return 0;
	return stat.nr_blocks + stat.nr_state[KVMM_BLOCK_NULL];
}

/* For the caller to keep_picture(); or NULL. */
static char *draw(struct kvmm_pool *pool)
{
	uint32_t nr = nr_blocks_of(pool), i;
	struct kvmm_block_info info;
	char *picture = malloc((size_t)nr + 1);

	if (!picture)
		return NULL;
	for (i = 0; i < nr && !kvmm_block_get_info(pool, i, &info); i++)
		picture[i] = letter_of(&info);
	picture[i] = '\0';
	return picture;
}

static const char *keep_picture(struct kvmm_testing *t, char *picture)
{
	if (picture) {
		free(t->picture);
		t->picture = picture;
	}
	return picture;
}

const char *kvmm_testing_picture(struct kvmm_testing *t, struct kvmm_pool *pool)
{
	return keep_picture(t, draw(pool));
}

/* @want may be the last picture. */
int kvmm_testing_expect_picture(struct kvmm_testing *t, struct kvmm_pool *pool, const char *want)
{
	char *is = draw(pool);
	size_t same = 0;
	int err = 0;

	if (!is)
		return bench_fail(t, -ENOMEM, "a picture of the pool");
	while (is[same] && is[same] == want[same])
		same++;
	if (is[same] != want[same])
		err = bench_fail(t, 0, "the pool is \"%s\", not \"%s\" (block %zu)", is, want, same);
	keep_picture(t, is);
	return err;
}

/* ---- keys ---- */

int kvmm_testing_expect_prefix(struct kvmm_testing *t, struct kvmm_pool *pool,
			       const kvmm_key_t *keys, uint32_t nr, uint32_t want)
{
	int len = kvmm_match_len(pool, keys, nr);

	if (len < 0)
		return bench_fail(t, len, "looking for %u keys", nr);
	return kvmm_testing_expect(t, (uint32_t)len == want, "%d of %u keys are cached, not %u", len,
				   nr, want);
}

/* What eviction was seen to do: as a list of numbers for the text. */
static void list_victims(const kvmm_key_t *keys, uint32_t nr, char *text, size_t bytes)
{
	size_t at = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < nr && at < bytes; i++)
		at += snprintf(text + at, bytes - at, "%s%lld", i ? " " : "",
			       (long long)kvmm_testing_key_number(&keys[i]));
}

static bool are_victims(const kvmm_key_t *keys, const uint32_t *numbers, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		if (kvmm_testing_key_number(&keys[i]) != numbers[i])
			return false;
	return true;
}

/* Take all that can be had, and give it back. */
static int evict_all(struct kvmm_pool *pool, struct kvmm_acquire_args *req)
{
	int err = kvmm_acquire(pool, req);

	return err ? err : kvmm_free(pool, req->fresh, req->nr_fresh);
}

int kvmm_testing_expect_victims(struct kvmm_testing *t, struct kvmm_pool *pool,
				const uint32_t *numbers, uint32_t nr)
{
	struct kvmm_pool_stat stat = { 0 };
	struct kvmm_acquire_args req = { 0 };
	char text[512];
	int err = kvmm_pool_get_stat(pool, &stat);

	req.nr_blocks = stat.nr_available;
	req.fresh = calloc((size_t)stat.nr_available + 1, sizeof(*req.fresh));
	req.evicted = calloc((size_t)stat.nr_available + 1, sizeof(*req.evicted));
	if (!err)
		err = req.fresh && req.evicted ? evict_all(pool, &req) : -ENOMEM;
	if (err) {
		bench_fail(t, err, "evicting everything");
	} else if (req.nr_evicted != nr || !are_victims(req.evicted, numbers, nr)) {
		list_victims(req.evicted, req.nr_evicted, text, sizeof(text));
		err = bench_fail(t, 0, "%u keys were evicted, in this order: %s", req.nr_evicted,
				 text);
	}
	free(req.fresh);
	free(req.evicted);
	return err;
}

/* ---- what is held ---- */

static void tell_held(struct kvmm_testing *t, uint32_t nr, uint32_t block,
		      const struct kvmm_block_info *info)
{
	const char *name = states[info->state].name;

	bench_fail(t, 0, "%u blocks were not returned, first block %u: %s, %u references, "
		   "sequence %llu", nr, block, name ? name : "held", info->refs,
		   (unsigned long long)info->seq);
}

/* Blocks that are held have an owner to ask. */
static void tell_holds(struct kvmm_testing *t, struct kvmm_pool *pool)
{
	static const struct kvmm_lease_filter holds = {
		.size = sizeof(holds),
		.kinds = 1u << KVMM_LEASED_REFS | 1u << KVMM_LEASED_PINS,
	};
	struct kvmm_lease_info info, first = { 0 };
	uint64_t cursor = 0;
	uint32_t nr = 0;

	while (kvmm_lease_list(pool, &holds, &cursor, &info, 1) == 1)
		if (!nr++)
			first = info;
	if (!nr)
		return;
	bench_fail(t, 0, "%u holds were not released, first one of owner %llu: %s%s%s", nr,
		   (unsigned long long)first.owner, kvmm_lease_reason_name(first.reason),
		   first.text[0] ? ", " : "", first.text);
}

int kvmm_testing_expect_unheld(struct kvmm_testing *t, struct kvmm_pool *pool)
{
	uint32_t nr = nr_blocks_of(pool), nr_held = 0, first = 0;
	struct kvmm_block_info info, first_info = { 0 };

	for (uint32_t i = 0; i < nr && !kvmm_block_get_info(pool, i, &info); i++) {
		if (!state_is_held(info.state))
			continue;
		if (!nr_held++) {
			first = i;
			first_info = info;
		}
	}
	if (!nr_held)
		return 0;
	tell_held(t, nr_held, first, &first_info);
	tell_holds(t, pool);
	return -EBADMSG;
}

int kvmm_testing_validate(struct kvmm_testing *t, struct kvmm_pool *pool)
{
	int err = kvmm_validate(pool);

	return err ? bench_fail(t, 0, "%s: %s", kvmm_strerror(err), t->log_line) : 0;
}
