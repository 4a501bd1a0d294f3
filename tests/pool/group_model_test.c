// SPDX-License-Identifier: Apache-2.0
/*
 * Random requests on random groups over pools that are too small for them.
 *
 * What a request reads is checked against what was computed: each block that is written gets the
 * number of its group and key, and before a step all blocks that it reads must say what they
 * should. Lengths of hits are compared with those that follow from asking the pools for each key
 * and from what layers read, token by token. KVMM_SEED and KVMM_MODEL_OPS choose the run.
 */
#include "group/internal.h"
#include "tests/pool/util.h"
#include "tests/support/length.h"
#include "tests/support/random.h"

#define MAX_TOKENS	96u
#define MAX_REQUESTS	6u

struct request {
	struct kvmm_tables *tables;
	struct kvmm_prefix prompt;
	kvmm_key_t keys[MAX_TOKENS];
	u32 nr_tokens;		/* of the prompt */
	u32 computed;
	u32 room;		/* tokens that have blocks */
};

static struct model {
	struct kvmm_pool *pool[2];
	struct kvmm_group_attr attr[3];
	struct kvmm_groups *groups;
	u32 nr;
	struct request request[MAX_REQUESTS];
	u32 nr_requests;
	u64 nr_hits;
	u64 nr_full;		/* acquisitions that did not fit */
} m;

/* ---- what layers read ---- */

static bool reads(const struct kvmm_group_attr *attr, u32 n, u32 t)
{
	switch (attr->kind) {
	case KVMM_GROUP_FULL:
		return true;
	case KVMM_GROUP_WINDOW:
		return n - t < attr->span;
	case KVMM_GROUP_CHUNK:
		return t / attr->span == n / attr->span;
	default:
		return (n - 1) / attr->block_tokens - t / attr->block_tokens < attr->span;
	}
}

static bool reads_block(const struct kvmm_group_attr *attr, u32 n, u32 block)
{
	u32 bt = attr->block_tokens;

	for (u32 t = block * bt; t < min((block + 1) * bt, n); t++)
		if (reads(attr, n, t))
			return true;
	return false;
}

/* ---- what is cached ---- */

static const kvmm_key_t *key_at(const struct request *r, u32 group, u32 block)
{
	u32 granules = m.attr[group].block_tokens / kvmm_groups_granule(m.groups);

	return &r->keys[(block + 1) * granules - 1];
}

static bool is_cached(const struct request *r, u32 group, u32 block)
{
	struct kvmm_prefix one = { .keys = key_at(r, group, block), .nr = 1,
				   .domain = { r->prompt.domain.tenant, 0, group } };
	u64 word;

	if ((block + 1) * m.attr[group].block_tokens > r->nr_tokens)
		return false;
	return kvmm_prefix_probe(m.attr[group].pool, &one, &word) == 1;
}

static bool hits(const struct request *r, u32 n, u32 max_tokens)
{
	for (u32 g = 0; g < m.nr; g++) {
		const struct kvmm_group_attr *attr = &m.attr[g];
		u32 end = n / attr->block_tokens;

		for (u32 i = 0; i < end; i++)
			if (reads_block(attr, n, i) && !is_cached(r, g, i))
				return false;
		if (attr->flags & KVMM_GROUP_DROP_LAST &&
		    ((end + 1) * attr->block_tokens > max_tokens || !is_cached(r, g, end)))
			return false;
	}
	return true;
}

static u32 longest(const struct request *r, u32 max_tokens)
{
	u32 n = max_tokens - max_tokens % kvmm_groups_alignment(m.groups);

	while (n && !hits(r, n, max_tokens))
		n -= kvmm_groups_alignment(m.groups);
	return n;
}

/* ---- content ---- */

struct content {
	u32 group;
	u32 nr_tokens;		/* state groups: of which this is the state; else 0 */
	kvmm_key_t key;		/* of the block, or of what is in it so far */
};

/* What block @block of a group holds when @n tokens are computed; only full ones are compared. */
static struct content content_of(const struct request *r, u32 group, u32 block, u32 n)
{
	struct content c;

	memset(&c, 0, sizeof(c));
	c.group = group;
	c.key = *key_at(r, group, block);
	if (m.attr[group].kind == KVMM_GROUP_LAST)
		c.nr_tokens = n;
	return c;
}

static void write_block(struct kvmm_pool *pool, u32 id, const struct content *c)
{
	cr_assert_eq(kvmm_block_write(pool, id, 0, c, sizeof(*c)), 0);
}

/* The engine runs a step: tokens [@from, @to) are written to where the tables say. */
static void compute(const struct request *r, u32 from, u32 to)
{
	u32 ids[MAX_TOKENS];

	for (u32 g = 0; g < m.nr; g++) {
		u32 bt = m.attr[g].block_tokens, end = (to + bt - 1) / bt;
		u32 first = m.attr[g].kind == KVMM_GROUP_LAST ? end - 1 : from / bt;

		cr_assert_geq(kvmm_groups_block_table(r->tables, g, ids, MAX_TOKENS), (int)end);
		for (u32 i = first; i < end; i++) {
			struct content c = content_of(r, g, i, to);

			cr_assert_neq(ids[i], KVMM_BLOCK_NONE);
			write_block(m.attr[g].pool, ids[i], &c);
		}
	}
}

/* All that token number r->computed reads is there, and is what it should be. */
static void check_content(const struct request *r)
{
	u32 ids[MAX_TOKENS];

	cr_assert_eq(tables_check(r->tables), 0);
	for (u32 g = 0; g < m.nr; g++) {
		kvmm_groups_block_table(r->tables, g, ids, MAX_TOKENS);
		for (u32 i = 0; i < r->computed / m.attr[g].block_tokens; i++) {
			u32 end = (i + 1) * m.attr[g].block_tokens;
			struct content got, want = content_of(r, g, i, end);

			if (!reads_block(&m.attr[g], r->computed, i))
				continue;
			/* Older states are only there if a step ended at them. */
			if (m.attr[g].kind == KVMM_GROUP_LAST && end != r->computed)
				continue;
			cr_assert_neq(ids[i], KVMM_BLOCK_NONE);
			cr_assert_eq(kvmm_block_read(m.attr[g].pool, ids[i], 0, &got,
						     sizeof(got)), 0);
			cr_assert_arr_eq(&got, &want, sizeof(got), "group %u block %u", g, i);
		}
	}
}

/* ---- operations ---- */

/* Prompts are paths in a small tree: at each granule there are two ways on. */
static void any_prompt(struct request *r)
{
	u32 granule = kvmm_groups_granule(m.groups), path = 1 + any(3);

	memset(r, 0, sizeof(*r));
	r->nr_tokens = 1 + any(MAX_TOKENS - 1);
	r->prompt = (struct kvmm_prefix){ .keys = r->keys, .nr = r->nr_tokens / granule,
					  .domain.tenant = any(8) == 0 };
	for (u32 i = 0; i < MAX_TOKENS; i++) {
		path = path * 31 + (any(12) == 0);
		r->keys[i] = key_of(path);
	}
}

static void begin(void)
{
	struct request *r = &m.request[m.nr_requests];
	struct kvmm_groups_acquire_args req;
	u32 want;
	int err;

	any_prompt(r);
	want = longest(r, r->nr_tokens - 1);
	req = (struct kvmm_groups_acquire_args){ .prompt = r->prompt, .reserve = any(3),
						 .max_hit_tokens = r->nr_tokens - 1,
						 .nr_tokens = r->nr_tokens,
						 .step_tokens = any(r->nr_tokens) };
	cr_assert_eq(kvmm_groups_hit_len(m.groups, &r->prompt, r->nr_tokens - 1), (int)want);
	err = kvmm_groups_acquire(m.groups, &req, &r->tables);
	if (err) {
		cr_assert_eq(err, -ENOSPC, "%d", err);
		cr_assert_eq(kvmm_groups_hit_len(m.groups, &r->prompt, r->nr_tokens - 1),
			     (int)want);
		m.nr_full++;
		return;
	}
	cr_assert_eq(req.hit_tokens, want);
	m.nr_hits += want > 0;
	r->computed = want;
	r->room = req.step_tokens ? min(want + req.step_tokens, r->nr_tokens) : r->nr_tokens;
	m.nr_requests++;
	check_content(r);
}

static void end(u32 i)
{
	kvmm_groups_release(m.request[i].tables);
	/* Keys move along: the prompt points to them. */
	m.request[i] = m.request[--m.nr_requests];
	m.request[i].prompt.keys = m.request[i].keys;
}

/*
 * Steps may end anywhere, but every other one ends where blocks of all groups do. States have
 * blocks where the room ends, and nowhere else.
 */
static u32 any_step(const struct request *r)
{
	u32 align = kvmm_groups_alignment(m.groups);
	u32 to = r->computed + 1 + any(r->nr_tokens - r->computed);

	for (u32 g = 0; g < m.nr; g++)
		if (m.attr[g].kind == KVMM_GROUP_LAST && r->room > r->computed)
			return r->room;
	if (any(2) && to - to % align > r->computed)
		to -= to % align;
	return to;
}

static void step(u32 i)
{
	struct request *r = &m.request[i];
	u32 to;
	int err;

	if (r->computed == r->nr_tokens) {
		end(i);
		return;
	}
	to = any_step(r);
	check_content(r);
	err = kvmm_groups_reserve(r->tables, to, 0);
	if (err) {
		cr_assert_eq(err, -ENOSPC);
		end(any(m.nr_requests));
		return;
	}
	r->room = max(r->room, to);
	compute(r, r->computed, to);
	if (any(8) == 0) {	/* the step is taken back, and what it wrote with it */
		cr_assert_eq(kvmm_groups_abort(r->tables), 0);
		cr_assert_eq(tables_check(r->tables), 0);
		end(i);
		return;
	}
	cr_assert_eq(kvmm_groups_commit(r->tables, any(8) ? &r->prompt : NULL, to), 0);
	r->computed = to;
	cr_assert_eq(kvmm_groups_trim(r->tables, any(4) ? to : to - any(to)), 0);
	check_content(r);
}

/* Everything goes back in the end. */
static void play(u32 nr_ops)
{
	for (u32 i = 0; i < nr_ops; i++) {
		if (m.nr_requests < MAX_REQUESTS && any(3) == 0)
			begin();
		else if (m.nr_requests)
			step(any(m.nr_requests));
		if (i % 64 == 0)
			cr_assert_eq(kvmm_validate(m.pool[0]), 0);
	}
	while (m.nr_requests)
		end(0);
	for (u32 i = 0; i < 2; i++) {
		struct kvmm_pool_stat stat = stat_of(m.pool[i]);

		cr_assert_eq(stat.nr_available, stat.nr_blocks);
	}
}

static struct kvmm_pool *any_pool(void)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	const char *policy[32];

	attr.policy = policy[any(kvmm_policies(policy, 32))];
	attr.nr_blocks = 40 + any(200);
	attr.block_bytes = TEST_BLOCK_BYTES;
	attr.dup_policy = any(2) ? KVMM_DUP_ALLOW : KVMM_DUP_REJECT;
	attr.flags = any(8) ? 0 : KVMM_POOL_RESET_ON_RELEASE;
	return make_pool_of(&attr);
}

static void make_world(void)
{
	struct kvmm_groups_attr attr = KVMM_GROUPS_ATTR_INIT;

	m.pool[0] = any_pool();
	m.pool[1] = any_pool();
	m.nr = 1 + any(3);
	for (u32 g = 0; g < m.nr; g++) {
		u32 kind = any(KVMM_NR_GROUP_KINDS);

		m.attr[g] = (struct kvmm_group_attr){
			.pool = m.pool[any(3) == 0], .kind = kind, .block_tokens = 1 + any(3),
			.span = kind == KVMM_GROUP_FULL ? 0 :
				kind == KVMM_GROUP_LAST ? 1 + any(2) : 1 + any(20),
			.flags = any(4) ? 0 : KVMM_GROUP_DROP_LAST };
	}
	attr.group = m.attr;
	attr.nr = m.nr;
	cr_assert_eq(kvmm_groups_create(&attr, &m.groups), 0);
}

Test(group_model, requests_read_what_was_computed, .timeout = 600)
{
	u64 nr_ops = test_length("KVMM_MODEL_OPS", 60000);

	any_state = test_number("KVMM_SEED", 20260731);
	printf("KVMM_SEED=%llu\n", (unsigned long long)any_state);
	any_state |= 1;
	for (u64 done = 0; done < nr_ops; done += 1000) {
		make_world();
		play(1000);
		kvmm_groups_destroy(m.groups);
		end_pool(m.pool[0]);
		end_pool(m.pool[1]);
	}
	cr_expect_gt(m.nr_hits, nr_ops / 100);
	cr_expect_gt(m.nr_full, nr_ops / 500);
}
