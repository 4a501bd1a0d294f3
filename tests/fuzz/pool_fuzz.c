// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as a hostile user of what pools can do besides handing out blocks: holds, owners and leases,
 * gangs, steps and moves beside them, classes, limits, promises. Each byte
 * string is a pool, and then calls with handles that are good, stale, of another kind or invented,
 * sizes and flags that nobody has heard of, some of them with the host out of memory.
 *
 * Which handles are whose is known, so each call is known to be refused or not. After each call the
 * pool must be valid; what failed must have left as many blocks in each state as there were. In the end
 * everything is given back, and nothing may be left.
 */
#include <kv/env.h>

#include "tests/fuzz/fuzz.h"
#include "tests/support/lease.h"

#define MAX_BLOCKS	96u
#define MAX_HELD	200u
#define MAX_BATCH	10u
#define NR_KEYS		24u
#define NR_OLD		8u
#define NR_TENANTS	4u
#define SECOND		1000000000ull

/* The types differ by name only. */
struct handle {
	u32 index;
	u32 gen;
};

enum kind { MUT, REF, RANGE, HOLD, STREAM, PROMISE, NR_KINDS };

struct list {
	struct handle handle[MAX_HELD];
	u64 more[MAX_HELD];		/* of a stream: the open step, and */
	bool flag[MAX_HELD];		/* whether there is one */
	u32 nr;
};

static struct fuzz {
	struct kvmm_pool *pool, *other;
	struct kvmm_gang *gang;		/* reserved, or NULL */
	u64 gang_wants;
	u32 nr_blocks, nr_quiet;
	u64 now;
	struct list list[NR_KINDS];
	struct handle old[NR_OLD];
} f;

static void *as(struct handle *handle)
{
	return handle;
}

#define AS(type, handle)	(*(type *)as(&(handle)))

/* ---- handles ---- */

static u32 find(enum kind kind, struct handle handle)
{
	const struct list *list = &f.list[kind];

	for (u32 i = 0; i < list->nr; i++)
		if (!memcmp(&list->handle[i], &handle, sizeof(handle)))
			return i;
	return KV_NONE;
}

static bool has_room(enum kind kind, u32 nr)
{
	return f.list[kind].nr + nr <= MAX_HELD;
}

static u32 keep(enum kind kind, const void *handle)
{
	struct list *list = &f.list[kind];

	require(list->nr < MAX_HELD);
	memcpy(&list->handle[list->nr], handle, sizeof(*list->handle));
	list->more[list->nr] = 0;
	list->flag[list->nr] = false;
	f.old[any(NR_OLD)] = list->handle[list->nr];
	return list->nr++;
}

static void keep_all(enum kind kind, const void *handles, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		keep(kind, (const struct handle *)handles + i);
}

static void drop(enum kind kind, u32 at)
{
	struct list *list = &f.list[kind];

	list->nr--;
	list->handle[at] = list->handle[list->nr];
	list->more[at] = list->more[list->nr];
	list->flag[at] = list->flag[list->nr];
}

static u32 holds_on(struct handle range)
{
	struct kvmm_lease_info info;
	u32 nr = 0;

	for (u32 i = 0; i < f.list[HOLD].nr; i++)
		nr += !kvmm_lease_get_info(f.pool, AS(kvmm_lease_t, f.list[HOLD].handle[i]), &info) &&
		      !memcmp(&info.range, &range, sizeof(range));
	return nr;
}

/* References of a range have no handles of their own: its user's is the one that no hold has. */
static bool is_there(enum kind kind, struct handle handle)
{
	struct kvmm_range_info range;
	struct kvmm_lease_info hold;

	if (kind == MUT)
		return kvmm_block_of_mut(f.pool, AS(kvmm_mut_t, handle)) >= 0;
	if (kind == RANGE)
		return !kvmm_range_get_info(f.pool, AS(kvmm_range_t, handle), &range) &&
		       range.refs > holds_on(handle);
	return !kvmm_lease_get_info(f.pool, AS(kvmm_lease_t, handle), &hold);
}

static u32 prune(enum kind kind)
{
	u32 nr = 0;

	for (u32 i = f.list[kind].nr; i--;)
		if (!is_there(kind, f.list[kind].handle[i])) {
			drop(kind, i);
			nr++;
		}
	return nr;
}

/*
 * *@at: where it stands in the list of its kind; KV_NONE: it is none of these, nor a range that only a
 * hold or a gang has.
 */
static struct handle some(enum kind kind, u32 *at)
{
	enum kind another = any(NR_KINDS);
	struct kvmm_range_info range;
	struct handle handle = { any(8) ? any(128) : KV_NONE, any(256) << 12 | any(256) };

	if (f.list[kind].nr && any(8))
		handle = f.list[kind].handle[any(f.list[kind].nr)];
	else if (kind != REF && any(2))
		handle = f.old[any(NR_OLD)];
	else if (kind != REF && f.list[another].nr && any(2))
		handle = f.list[another].handle[any(f.list[another].nr)];
	*at = find(kind, handle);
	if (kind == RANGE && *at == KV_NONE &&
	    !kvmm_range_get_info(f.pool, AS(kvmm_range_t, handle), &range))
		handle.index = KV_NONE;
	return handle;
}

/* What was refused is no handle, or has been refused for another reason. */
static int done(u32 at, int err)
{
	require(at != KV_NONE || err == -ESTALE || err == -EINVAL || err == -EOPNOTSUPP || err == -ENOMEM);
	require(at == KV_NONE || err != -ESTALE);
	return err < 0 ? err : 0;
}

/* @nr references out of the list, and how many it gave. */
static u32 some_refs(kvmm_ref_t *refs)
{
	u32 nr = any(MAX_BATCH);

	nr = nr < f.list[REF].nr ? nr : f.list[REF].nr;
	memcpy(refs, &f.list[REF].handle[f.list[REF].nr - nr], nr * sizeof(*refs));
	return nr;
}

static kvmm_key_t keys[MAX_BATCH];

static struct kvmm_prefix some_prefix(void)
{
	u32 nr = any(MAX_BATCH), first = any(NR_KEYS);

	for (u32 i = 0; i < nr; i++)
		keys[i] = (kvmm_key_t){ { (first + i) % NR_KEYS } };
	return (struct kvmm_prefix){ .keys = keys, .nr = nr, .position = first,
				     .domain.tenant = any(NR_TENANTS) };
}

static size_t some_size(size_t bytes)
{
	return any(16) ? bytes : any(2) ? any(bytes) : SIZE_MAX;
}

static u32 some_flags(void)
{
	static const u32 flags[] = { KVMM_ALLOC_PINNED, KVMM_ALLOC_TOPDOWN, KVMM_ALLOC_NO_COMPACT,
				     KVMM_ALLOC_NO_EVICT, KVMM_ALLOC_GROWS, KVMM_ALLOC_NOWAIT,
				     KVMM_ALLOC_HIGH, KVMM_ALLOC_CONTIG, 1u << 6, 1u << 15 };

	return any(2) ? 0 : flags[any(ARRAY_SIZE(flags))] | (any(2) ? flags[any(8)] : 0);
}

/* ---- blocks and ranges, so that there is something to hold ---- */

static int alloc(void)
{
	struct kvmm_alloc_ctl ctl = { .size = some_size(sizeof(ctl)), .nr = any(20), .prio = any(4),
				      .flags = some_flags(), .tenant = any(NR_TENANTS) };
	kvmm_mut_t mut[20];
	u32 at = KV_NONE;
	struct handle promise = some(PROMISE, &at);
	int err;

	if (!any(4))
		ctl.promise = AS(kvmm_promise_t, promise);
	if (!has_room(MUT, 20))
		return 0;
	err = kvmm_alloc_as(f.pool, &ctl, mut);
	expect(err, 0, -EINVAL, -ENOSPC, -EAGAIN, -EDQUOT, -ENOMEM, -EOPNOTSUPP, -ESTALE);
	if (!err && ctl.size >= sizeof(ctl))
		keep_all(MUT, mut, ctl.nr);
	else if (!err)
		kvmm_free(f.pool, mut, ctl.nr);
	return err;
}

static int free_block(void)
{
	u32 at;
	struct handle handle = some(MUT, &at);
	int err = done(at, kvmm_free(f.pool, as(&handle), 1));

	if (!err)
		drop(MUT, at);
	return err;
}

static int publish(void)
{
	u32 at;
	struct handle handle = some(MUT, &at);
	struct kvmm_prefix prefix = some_prefix();
	kvmm_ref_t ref;
	int err;

	prefix.nr = 1;
	keys[0] = (kvmm_key_t){ { any(NR_KEYS) } };
	if (!has_room(REF, 1))
		return 0;
	err = done(at, kvmm_prefix_register(f.pool, &prefix, as(&handle), &ref));
	if (err)
		return err;
	drop(MUT, at);
	keep(REF, &ref);
	return 0;
}

static int put(void)
{
	u32 at;
	struct handle handle = some(REF, &at);
	int err = done(at, kvmm_put(f.pool, AS(kvmm_ref_t, handle)));

	if (!err)
		drop(REF, at);
	return err;
}

static int match(void)
{
	struct kvmm_prefix prefix = some_prefix();
	kvmm_ref_t ref[MAX_BATCH];
	int nr;

	if (!has_room(REF, MAX_BATCH))
		return 0;
	nr = kvmm_prefix_match(f.pool, &prefix, ref);
	require(nr >= 0 && nr <= (int)prefix.nr);
	keep_all(REF, ref, nr);
	return 0;
}

static int take_range(void)
{
	struct kvmm_range_attr attr = { .size = some_size(sizeof(attr)), .nr = any(24),
					.max_runs = any(10), .prio = any(4), .flags = some_flags(),
					.tenant = any(NR_TENANTS), .owner = any(3),
					.lease_ns = any(2) * SECOND, .own_flags = any(3) };
	kvmm_range_t range;
	int err;

	if (!has_room(RANGE, 1))
		return 0;
	err = kvmm_range_alloc_attr(f.pool, &attr, &range);
	expect(err, 0, -EINVAL, -ENOSPC, -EAGAIN, -EDQUOT, -ENOMEM, -EOPNOTSUPP);
	if (!err)
		keep(RANGE, &range);
	return err;
}

static int free_range(void)
{
	u32 at;
	struct handle handle = some(RANGE, &at);
	int err = done(at, kvmm_range_free(f.pool, AS(kvmm_range_t, handle)));

	if (!err)
		drop(RANGE, at);
	return err;
}

static int change_range(void)
{
	u32 at, nr = any(4) ? any(8) : UINT32_MAX - any(4);
	struct handle handle = some(RANGE, &at);
	kvmm_range_t range = AS(kvmm_range_t, handle);
	int err;

	switch (any(3)) {
	case 0:
		err = kvmm_range_grow(f.pool, range, nr);
		break;
	case 1:
		err = kvmm_range_shrink(f.pool, range, nr);
		break;
	default:
		err = kvmm_range_seal(f.pool, range, nr);
	}
	expect(err, 0, -EINVAL, -ESTALE, -ENOSPC, -EDQUOT, -EBUSY, -ENOMEM, -EOPNOTSUPP);
	return done(at, err);
}

/* ---- holds ---- */

static struct kvmm_lease_attr some_hold(const struct kvmm_prefix *prefix)
{
	static const char *const text[] = { NULL, "", "why", "much longer than any text of a hold may be" };

	return (struct kvmm_lease_attr){ .size = some_size(sizeof(struct kvmm_lease_attr)),
					.prefix = prefix, .owner = any(3), .text = text[any(4)],
					.lease_ns = any(2) ? 0 : any(8) * SECOND,
					.reason = any(KVMM_NR_LEASE_REASONS + 1), .flags = any(9) };
}

static int hold_keys(void)
{
	struct kvmm_prefix prefix = some_prefix();
	struct kvmm_lease_attr attr = some_hold(any(16) ? &prefix : NULL);
	kvmm_lease_t hold;
	int nr;

	if (!has_room(HOLD, 1))
		return 0;
	nr = kvmm_lease_take(f.pool, &attr, &hold);
	if (nr <= 0) {
		expect(nr, -ENOENT, -EBUSY, -E2BIG, -ENOMEM, -EINVAL);
		return nr;
	}
	keep(HOLD, &hold);
	return 0;
}

static int hold_refs(void)
{
	struct kvmm_lease_attr attr = some_hold(NULL);
	kvmm_ref_t ref[MAX_BATCH];
	u32 nr = some_refs(ref);
	kvmm_lease_t hold;
	int err;

	if (!has_room(HOLD, 1))
		return 0;
	err = lease_refs(f.pool, &attr, ref, nr, &hold);
	expect(err, 0, -EBUSY, -E2BIG, -ENOMEM, -EINVAL);
	if (err)
		return err;
	f.list[REF].nr -= nr;
	keep(HOLD, &hold);
	return 0;
}

static int hold_range(void)
{
	struct kvmm_lease_attr attr = some_hold(NULL);
	u32 at;
	struct handle handle = some(RANGE, &at);
	kvmm_lease_t hold;
	int err;

	if (!has_room(HOLD, 1))
		return 0;
	err = done(at, lease_range(f.pool, &attr, AS(kvmm_range_t, handle), &hold));
	if (!err)
		keep(HOLD, &hold);
	return err;
}

static int change_hold(void)
{
	u32 at;
	struct handle handle = some(HOLD, &at);
	kvmm_lease_t hold = AS(kvmm_lease_t, handle);
	int err;

	if (any(3))
		return done(at, renew_lease(f.pool, hold, any(4) * SECOND));
	err = done(at, drop_lease(f.pool, hold));
	if (!err)
		drop(HOLD, at);
	return err;
}

static int look_at_hold(void)
{
	struct kvmm_lease_addr addr[4];
	struct kvmm_lease_info info[2];
	kvmm_ref_t ref[3];
	u64 cursor = any(4) ? 0 : (u64)any(256) << 56 | any(256);
	u32 at, nr = 0;
	struct handle handle = some(HOLD, &at);
	kvmm_lease_t hold = AS(kvmm_lease_t, handle);
	int ret;

	(void)done(at, kvmm_lease_get_info(f.pool, hold, info));
	(void)done(at, refs_of_lease(f.pool, hold, ref, 3));
	ret = kvmm_lease_addrs(f.pool, hold, addr, 4);
	require(at != KV_NONE ? ret >= 0 : ret == -ESTALE || ret == -EINVAL);
	for (int i = 0; i < ret && i < 4 && addr[i].pool_id; i++) {
		require(!kvmm_lease_check(f.pool, &addr[i]));
		((u8 *)&addr[i])[any(sizeof(*addr))] ^= 1 + any(255);
		require(kvmm_lease_check(f.pool, &addr[i]) <= 0);
	}
	while (!next_hold(f.pool, &cursor, info))
		require(nr++ < f.list[HOLD].nr);
	require(leases_of_key(f.pool, &(kvmm_key_t){ { any(NR_KEYS) } }, NULL, info, 2) >= 0);
	return 0;
}

/* ---- owners and leases: what they take away is found out by asking ---- */

static int take_away(void)
{
	int ret;
	u32 nr;

	switch (any(3)) {
	case 0:
		ret = kvmm_lease_release(f.pool, any(4), NULL);
		break;
	case 1:
		ret = kvmm_lease_expire(f.pool, f.now += any(4) * SECOND, NULL);
		break;
	default:
		ret = kvmm_lease_renew(f.pool, any(4), NULL, any(4) * SECOND);
	}
	nr = prune(MUT) + prune(RANGE) + prune(HOLD);
	require(ret < 0 ? !nr : (int)nr <= ret);
	expect(ret < 0 ? ret : 0, 0, -EBUSY, -EINVAL);
	return ret < 0 ? ret : 0;
}

static int own(void)
{
	struct kvmm_lease_attr own = { .size = some_size(sizeof(own)), .owner = any(3),
				.lease_ns = any(3) * SECOND, .flags = any(4) };
	enum kind kind = any(2) ? MUT : RANGE;
	u32 at;
	struct handle handle = some(kind, &at);

	return done(at, kind == MUT ? kvmm_lease_own_muts(f.pool, &own, as(&handle), 1) :
				      kvmm_lease_own_ranges(f.pool, &own, as(&handle), 1));
}

static int look_at_owned(void)
{
	kvmm_key_t key = { { any(NR_KEYS) } };
	struct kvmm_lease_filter filter = { .size = some_size(sizeof(filter)), .owner = any(3),
					    .older_ns = any(2) * SECOND,
					    .lone_ns = any(2) * SECOND,
					    .now_ns = any(2) ? f.now : 0, .kinds = any(64),
					    .leaks = any(2) ? any(32) : 0,
					    .key = any(4) ? NULL : &key };
	u64 cursor = any(4) ? 0 : (u64)any(256) << 56 | any(256);
	struct kvmm_lease_info row[3];
	const struct kvmm_lease_filter *what = any(4) ? &filter : NULL;
	int nr;

	while ((nr = kvmm_lease_list(f.pool, what, &cursor, row, 3)) == 3)
		require(row->kind < KVMM_NR_LEASE_KINDS);
	require(nr < 3);
	return 0;
}

/* ---- gangs ---- */

static int reserve_gang(void)
{
	struct kvmm_gang_want want[3];
	struct kvmm_pool *pools[2] = { f.pool, f.other };
	struct kvmm_gang_attr attr = { .size = some_size(sizeof(attr)), .wants = want,
				       .nr = any(16) ? 1 + any(3) : any(256) << 24,
				       .pools = pools, .nr_pools = any(32) ? 2 : any(2) };
	int err;

	for (u32 i = 0; i < 3; i++) {
		want[i] = (struct kvmm_gang_want){
			.pool = any(32) ? any(2) : any(256), .kind = any(32) ? any(2) : any(256),
			.nr = any(12), .tenant = any(NR_TENANTS),
		};
		if (want[i].kind == KVMM_GANG_RANGE || !any(8)) {
			want[i].max_runs = any(9);
			want[i].prio = any(3);
			want[i].flags = some_flags();
		} else {
			want[i].reserve = any(2) ? 0 : any(16);
		}
	}
	if (f.gang || !has_room(MUT, 60) || !has_room(RANGE, 3))
		return 0;
	err = kvmm_gang_reserve(&attr, &f.gang, NULL);
	expect(err, 0, -EINVAL, -ENOSPC, -EDQUOT, -ENOMEM, -EAGAIN, -EOPNOTSUPP);
	if (err)
		return err;
	f.gang_wants = attr.nr;
	for (u32 i = 0; i < attr.nr; i++)	/* kinds and numbers, for the commit */
		f.gang_wants |= (u64)(want[i].pool << 5 | want[i].kind << 4 | want[i].nr)
				<< (8 + 8 * i);
	return 0;
}

static void keep_gang(u64 what, const kvmm_mut_t *mut, const kvmm_range_t *range)
{
	for (u32 i = 0; i < (what & 0xff); i++) {
		u32 part = what >> (8 + 8 * i) & 0xff, nr = part & 15;

		if (part >> 4 & 1) {
			if (part >> 5)
				require(!kvmm_range_free(f.other, *range));
			else
				keep(RANGE, range);
			range++;
			continue;
		}
		if (part >> 5)
			require(!kvmm_free(f.other, mut, nr));
		else
			keep_all(MUT, mut, nr);
		mut += nr;
	}
}

static int end_gang(void)
{
	struct kvmm_gang *gang = f.gang;
	kvmm_mut_t mut[40];
	kvmm_range_t range[3];
	bool commit = any(2);

	if (!gang)
		return 0;
	f.gang = NULL;
	require(!(commit ? kvmm_gang_commit(gang, mut, range) : kvmm_gang_abort(gang)));
	if (commit)
		keep_gang(f.gang_wants, mut, range);
	return 0;
}

/* ---- steps, and moves beside them ---- */

static int add_stream(void)
{
	kvmm_stream_t stream;
	int err;

	if (!has_room(STREAM, 1))
		return 0;
	err = kvmm_stream_add(f.pool, (void *)(uintptr_t)any(4), any(3), &stream);
	expect(err, 0, -EINVAL, -ENOSPC, -EEXIST, -ENOMEM);
	if (!err)
		keep(STREAM, &stream);
	return err;
}

static int del_stream(void)
{
	u32 at;
	struct handle handle = some(STREAM, &at);
	int err = done(at, kvmm_stream_del(f.pool, AS(kvmm_stream_t, handle)));

	require(at == KV_NONE || err == (f.list[STREAM].flag[at] ? -EBUSY : 0));
	if (!err)
		drop(STREAM, at);
	return err;
}

static int step(void)
{
	u32 at;
	struct handle handle = some(STREAM, &at);
	kvmm_stream_t stream = AS(kvmm_stream_t, handle);
	struct list *list = &f.list[STREAM];
	uint64_t epoch = 0;
	int err;

	if (any(2)) {
		err = done(at, kvmm_step_begin(f.pool, stream, &epoch));
		require(err || !list->flag[at]);
		if (!err) {
			list->flag[at] = true;
			list->more[at] = epoch;
		}
		return err;
	}
	epoch = at != KV_NONE && any(8) ? list->more[at] : any(256);
	err = done(at, kvmm_step_end(f.pool, stream, epoch));
	require(err || list->flag[at]);
	if (!err)
		list->flag[at] = false;
	return err;
}

static int relocate(void)
{
	struct kvmm_relocation moves[8];
	u32 at;
	struct handle handle = some(STREAM, &at);
	int nr = kvmm_relocations(f.pool, AS(kvmm_stream_t, handle), moves, 8), err;

	(void)done(at, nr);
	require(nr <= 8);
	err = kvmm_relocations_ack(f.pool, AS(kvmm_stream_t, handle), any(4) ? (nr > 0 ? nr : 0) : any(256));
	return done(at, err);
}

static int move(void)
{
	struct kvmm_compact goal = { .size = some_size(sizeof(goal)), .want_run = any(32),
				     .max_blocks = any(16), .max_us = any(2) };
	int err;

	switch (any(5)) {
	case 0:
		require(kvmm_compact_poll(f.pool) >= 0);
		return 0;
	case 1:
		require(kvmm_compact_cancel(f.pool) >= 0);
		return 0;
	case 2:
		err = kvmm_pool_compact(f.pool, &goal);
		break;
	default:
		err = kvmm_compact_start(f.pool, &goal, any(3));
	}
	expect(err, 0, -EINVAL, -ENOSPC, -EBUSY, -EAGAIN, -ENOMEM, -EOPNOTSUPP);
	return err;
}

static int quiesce(void)
{
	bool on = any(2) && f.nr_quiet < 3;
	int err = on ? kvmm_pool_quiesce(f.pool) : kvmm_pool_resume(f.pool);

	require(on ? !err || err == -ENOMEM : err == (f.nr_quiet ? 0 : -EINVAL));
	f.nr_quiet += err ? 0 : on ? 1 : -1;
	return err;
}

/* ---- what is evicted ---- */

static int tell(void)
{
	u64 value[MAX_BATCH];
	kvmm_ref_t ref[MAX_BATCH];
	u32 nr = some_refs(ref);
	int err;

	for (u32 i = 0; i < MAX_BATCH; i++)
		value[i] = any(4) ? any(101) : (u64)any(256) << 56;
	if (nr && !any(8))
		ref[any(nr)].gen ^= 1u << 20;
	switch (any(5)) {
	case 0:
		err = kvmm_class_set(f.pool, ref, nr, any(5));
		break;
	case 1:
		err = kvmm_demote(f.pool, ref, nr, any(5));
		break;
	case 2:
		err = kvmm_set_owner(f.pool, ref, nr, any(3));
		break;
	case 3:
		err = kvmm_demote_owner(f.pool, any(3), any(5));
		break;
	default:
		err = kvmm_advise_many(f.pool, ref, any(6), value, nr);
	}
	expect(err < 0 ? err : 0, 0, -EPERM, -ESTALE, -EINVAL, -EOPNOTSUPP, -ENOMEM);
	return err < 0 ? err : 0;
}

static int look_at_classes(void)
{
	struct kvmm_class_event event[4];
	struct kvmm_class_stat stat;
	int ret = kvmm_class_events(f.pool, event, any(5), NULL);

	require(ret == -EOPNOTSUPP || (ret >= 0 && ret <= 4));
	expect(kvmm_class_get_stat(f.pool, any(6), &stat), 0, -EINVAL, -EOPNOTSUPP);
	return 0;
}

static int evict(void)
{
	struct kvmm_evict_for_args req = { .size = some_size(sizeof(req)), .nr_blocks = any(40),
					   .bytes = any(4) ? 0 : (u64)any(256) << any(64) };
	struct kvmm_reclaim_args reclaim = { .size = some_size(sizeof(reclaim)),
					     .max_blocks = any(20),
					     .max_us = any(2) };
	int err = any(2) ? kvmm_evict_for(f.pool, &req) : kvmm_reclaim(f.pool, &reclaim);

	expect(err, 0, -EINVAL, -ENOSPC, -EOPNOTSUPP, -EAGAIN);
	return err == -ENOSPC || err == -EAGAIN ? 0 : err;	/* kvmm_reclaim() goes as far as it can */
}

/* ---- who may have how many ---- */

static int limit(void)
{
	static const u32 ids[] = { 0, 1, 2, 3, KVMM_TENANT_REST };
	struct kvmm_tenant_attr attr[2] = { KVMM_TENANT_ATTR_INIT, KVMM_TENANT_ATTR_INIT };
	u32 tenant[2] = { ids[any(5)], ids[any(5)] };
	int err;

	for (u32 i = 0; i < 2; i++) {
		attr[i].min = any(2) ? 0 : any(30);
		attr[i].low = any(2) ? 0 : any(30);
		attr[i].high = any(2) ? KVMM_TENANT_NO_LIMIT : any(60);
		attr[i].max = any(2) ? KVMM_TENANT_NO_LIMIT : any(60);
		attr[i].size = some_size(attr[i].size);
	}
	err = any(4) ? kvmm_tenant_set_many(f.pool, tenant, attr, any(3)) :
		       kvmm_tenant_del(f.pool, tenant[0]);
	expect(err, 0, -EINVAL, -ENOENT, -EBUSY, -ENOMEM, -EOPNOTSUPP);
	return err;
}

static int look_at_tenants(void)
{
	struct kvmm_tenant_stat stat = { .size = sizeof(stat) };
	u32 cursor = any(4) ? 0 : any(256) << 24, nr = 0;

	while (!kvmm_tenant_next(f.pool, &cursor, &stat))
		require(nr++ < 8 && stat.peak >= stat.usage);
	return 0;
}

static int promise(void)
{
	struct kvmm_alloc_ctl ctl = { .size = some_size(sizeof(ctl)), .nr = any(16), .prio = any(4),
				      .flags = any(3) ? 0 : some_flags() };
	kvmm_promise_t made;
	struct handle handle;
	u32 at;
	int err;

	if (any(2) && has_room(PROMISE, 1)) {
		err = kvmm_promise_make(f.pool, &ctl, &made);
		expect(err, 0, -EINVAL, -ENOSPC, -EAGAIN, -ENOMEM, -EDQUOT);
		if (!err)
			keep(PROMISE, &made);
		return err;
	}
	handle = some(PROMISE, &at);
	err = done(at, kvmm_promise_end(f.pool, AS(kvmm_promise_t, handle)));
	if (!err)
		drop(PROMISE, at);
	return err;
}

static int watermarks(void)
{
	struct kvmm_watermarks marks = { any(8), any(12), any(32) };
	int err = kvmm_watermarks_set(f.pool, &marks);

	expect(err, 0, -EINVAL);
	return err;
}

/* ---- a run ---- */

static int (*const calls[])(void) = {
	alloc, alloc, alloc, free_block, publish, publish, publish, put, put, match, take_range,
	take_range, free_range, change_range, hold_keys, hold_refs, hold_range, change_hold, look_at_hold,
	take_away, own, look_at_owned, reserve_gang, end_gang, add_stream, del_stream, step, step,
	relocate, move, move, quiesce, tell, tell, look_at_classes, evict, limit,
	look_at_tenants, promise, watermarks, fail_soon,
};

/* Copies that end meanwhile are no matter of the call: blocks of nobody are left out. */
static u64 digest(void)
{
	struct kvmm_pool_stat stat;
	u64 hash = 0;

	require(!kvmm_pool_get_stat(f.pool, &stat));
	for (u32 i = KVMM_BLOCK_FREE + 1; i < KVMM_NR_BLOCK_STATES; i++)
		hash = mix(hash, stat.nr_state[i]);
	hash = mix(mix(hash, stat.nr_ranges), stat.evictions);
	return mix(mix(hash, stat.registered), stat.hit_blocks);
}

static void call_and_check(void)
{
	u64 before = digest();

	if (calls[any(ARRAY_SIZE(calls))]())
		require(digest() == before);
	require(!kvmm_validate(f.pool));
	require(!kvmm_validate(f.other));
}

static int make_pool(void)
{
	static const u32 flags[] = { KVMM_POOL_NULL_BLOCK, KVMM_POOL_RESET_ON_RELEASE,
				     KVMM_POOL_DETERMINISTIC, KVMM_POOL_NO_MAGAZINES };
	struct kvmm_class classes[] = KVMM_PHASES(300);
	struct kvmm_evict_attr evict = { .size = sizeof(evict) };
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	const char *policies[64];
	u32 nr = kvmm_policies(policies, ARRAY_SIZE(policies));

	attr.policy = policies[any(nr < 64 ? nr : 64)];
	attr.nr_blocks = 16 + any(MAX_BLOCKS - 16);
	attr.dup_policy = any(KVMM_NR_DUPS);
	for (u32 i = 0; i < 4; i++)
		attr.flags |= any(4) ? 0 : flags[i];
	evict.run_window = any(2) ? 0 : any(8);
	evict.classes = any(2) ? classes : NULL;
	evict.nr_classes = evict.classes ? KVMM_NR_PHASES : 0;
	evict.protect_permille = any(2) * 200;
	evict.protect_above = evict.protect_permille ? 60 : 0;
	evict.max_pins = any(2) * 10;
	attr.evict = any(3) ? &evict : NULL;
	f.nr_blocks = attr.nr_blocks;
	return kvmm_pool_create(&attr, &f.pool);
}

static int make_pools(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 12, .policy = "lru",
				       .name = "other" };
	int err = make_pool();

	if (err)
		return err;
	require(!kvmm_pool_create(&attr, &f.other));
	f.now = kv_clock_ns() + SECOND;	/* 0 would be kvmm's own clock */
	return 0;
}

static void end_pools(void)
{
	struct kvmm_pool_stat stat;
	struct kvmm_relocation moves[8];

	if (f.gang)
		require(!kvmm_gang_abort(f.gang));
	for (u32 i = 0; i < f.list[HOLD].nr; i++)
		require(!drop_lease(f.pool, AS(kvmm_lease_t, f.list[HOLD].handle[i])));
	require(!kvmm_put_many(f.pool, as(f.list[REF].handle), f.list[REF].nr));
	require(!kvmm_free(f.pool, as(f.list[MUT].handle), f.list[MUT].nr));
	for (u32 i = 0; i < f.list[RANGE].nr; i++)
		require(!kvmm_range_free(f.pool, AS(kvmm_range_t, f.list[RANGE].handle[i])));
	for (u32 i = 0; i < f.list[PROMISE].nr; i++)
		require(kvmm_promise_end(f.pool, AS(kvmm_promise_t, f.list[PROMISE].handle[i])) >= 0);
	for (u32 i = 0; i < f.list[STREAM].nr; i++) {
		kvmm_stream_t stream = AS(kvmm_stream_t, f.list[STREAM].handle[i]);
		int nr;

		if (f.list[STREAM].flag[i])
			require(!kvmm_step_end(f.pool, stream, f.list[STREAM].more[i]));
		while ((nr = kvmm_relocations(f.pool, stream, moves, 8)) > 0)
			require(!kvmm_relocations_ack(f.pool, stream, nr));
		require(!kvmm_stream_del(f.pool, stream));
	}
	while (f.nr_quiet--)
		require(!kvmm_pool_resume(f.pool));
	require(kvmm_compact_cancel(f.pool) >= 0);
	require(!kvmm_compact_poll(f.pool));
	require(!kvmm_validate(f.pool));
	require(kvmm_reset_cache(f.pool) >= 0);
	require(!kvmm_pool_get_stat(f.pool, &stat) && stat.nr_free == stat.nr_blocks);
	require(!kvmm_validate(f.pool));
	kvmm_pool_destroy(f.pool);
	kvmm_pool_destroy(f.other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	memset(&f, 0, sizeof(f));
	return fuzz_run(data, bytes, make_pools, call_and_check, end_pools);
}
