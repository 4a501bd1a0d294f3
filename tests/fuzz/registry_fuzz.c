// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as a hostile user of a registry of names: tiers get and lose names, nodes are held, put,
 * walked and given values, with nodes that are good, stale or invented, some of it with the host out of
 * memory. A table of counts by tier and name says what must be there. In the end nothing may be left.
 */
#include <kv/registry_radix.h>

#include "tests/fuzz/fuzz.h"
#include "tests/support/registry_tree.h"

#define NR_NAMES	48u
#define NR_TIERS	3u
#define MAX_BATCH	12u
#define MAX_HELD	64u

static struct fuzz {
	struct kvmm_registry *reg;
	u32 count[NR_TIERS][NR_NAMES];		/* blocks of a name in a tier */
	kvmm_node_t held[MAX_HELD], old[8];
	u32 nr_held, nr_values, nr_destroyed;
	int unique, multiple;
	u64 silent;				/* types without a destructor */
} f;

static kvmm_key_t keys[MAX_BATCH];

static u32 number_of_key(const kvmm_key_t *key)
{
	return key->byte[0];
}

/* Names that follow one another, so that the one before is always the parent. */
static struct kvmm_prefix some_prefix(void)
{
	u32 first = any(NR_NAMES), nr = any(MAX_BATCH);

	nr = first + nr > NR_NAMES ? NR_NAMES - first : nr;
	for (u32 i = 0; i < nr; i++)
		keys[i] = (kvmm_key_t){ { first + i } };
	return (struct kvmm_prefix){ .keys = keys, .nr = nr, .position = first };
}

static void destroyed(void *value)
{
	require(value == &f.nr_values);
	f.nr_destroyed++;
}

/* ---- what tiers have ---- */

static int present(void)
{
	struct kvmm_prefix prefix = some_prefix();
	u32 tier = any(NR_TIERS + 1);
	int err = kvmm_registry_present(f.reg, tier, &prefix);

	expect(err, 0, -EINVAL, -ENOMEM);
	require(err || tier < NR_TIERS);
	for (u32 i = 0; !err && i < prefix.nr; i++)
		f.count[tier][number_of_key(&keys[i])]++;
	return err;
}

static int absent(void)
{
	struct kvmm_prefix prefix = some_prefix();
	u32 tier = any(NR_TIERS + 1), want = 0;
	int nr = kvmm_registry_absent(f.reg, tier, &prefix);

	if (tier == NR_TIERS) {
		require(nr == -EINVAL);
		return nr;
	}
	for (u32 i = 0; i < prefix.nr; i++) {
		u32 *count = &f.count[tier][number_of_key(&keys[i])];

		want += *count > 0;
		*count -= *count > 0;
	}
	require(nr == (int)want);
	return 0;
}

static int transfer(void)
{
	struct kvmm_prefix prefix = some_prefix();
	u32 from = any(NR_TIERS + 1), to = any(NR_TIERS + 1), want = 0;
	int nr = kvmm_registry_transfer(f.reg, from, to, &prefix);

	if (nr < 0) {
		require(nr == -EINVAL && (from == NR_TIERS || to == NR_TIERS || from == to));
		return nr;
	}
	for (u32 i = 0; i < prefix.nr; i++) {
		u32 at = number_of_key(&keys[i]);

		if (!f.count[from][at])
			continue;
		f.count[from][at]--;
		f.count[to][at]++;
		want++;
	}
	require(nr == (int)want);
	return 0;
}

static int look_up(void)
{
	struct kvmm_prefix prefix = some_prefix();
	u16 tiers[MAX_BATCH];
	u32 mask = any(1u << NR_TIERS), want = 0;
	int len = kvmm_registry_len(f.reg, &prefix, mask);
	int nr = kvmm_registry_presence(f.reg, &prefix, tiers);

	require(nr >= 0);
	for (u32 i = 0; i < prefix.nr; i++) {
		u32 have = 0;

		for (u32 t = 0; t < NR_TIERS; t++)
			have |= (f.count[t][number_of_key(&keys[i])] > 0) << t;
		require(tiers[i] == have);
		want += want == i && have & mask;
	}
	require(len == (int)want || (!mask && len == -EINVAL));
	return 0;
}

/* ---- nodes ---- */

/* Invented ones have a generation that was never given out, or is over. */
static kvmm_node_t some_node(bool *held)
{
	*held = f.nr_held && any(4);
	if (*held)
		return f.held[any(f.nr_held)];
	if (any(2))
		return f.old[any(8)];
	return (kvmm_node_t){ any(4) ? any(256) : KV_NONE, any(256) << 20 | any(256) };
}

static int checked(bool held, int err)
{
	require(!held || (err != -ESTALE && err != -EINVAL));
	return err < 0 ? err : 0;
}

static void keep(const kvmm_node_t *node, u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		f.held[f.nr_held++] = node[i];
		f.old[any(8)] = node[i];
	}
}

static int hold(void)
{
	struct kvmm_prefix prefix = some_prefix();
	kvmm_node_t node[MAX_BATCH];
	int err;

	if (f.nr_held + MAX_BATCH > MAX_HELD)
		return 0;
	err = kvmm_registry_hold(f.reg, &prefix, node);
	expect(err, 0, -ENOMEM);
	if (!err)
		keep(node, prefix.nr);
	return err;
}

static int put_node(void)
{
	u32 at;

	if (!f.nr_held)
		return 0;
	at = any(f.nr_held);
	require(!kvmm_node_put(f.reg, &f.held[at], 1));
	f.held[at] = f.held[--f.nr_held];
	return 0;
}

static int count_visits(void *ctx, kvmm_node_t node, uint32_t depth)
{
	u32 *nr = ctx;

	(void)node;
	require(depth <= NR_NAMES);
	return ++*nr > 40 ? 7 : 0;
}

static int look_at_node(void)
{
	struct kvmm_node_info info;
	kvmm_node_t more[4];
	u32 nr = 0;
	bool held;
	kvmm_node_t node = some_node(&held);
	int err = checked(held, kvmm_node_get_info(f.reg, node, &info));

	for (u32 t = 0; !err && t < NR_TIERS; t++)
		require(count_of(f.reg, node, t) ==
			(int)f.count[t][number_of_key(&info.name.key)]);
	(void)lineage_of(f.reg, node, more, any(5));
	err = kvmm_node_walk(f.reg, node, count_visits, &nr);
	require(err == 7 || checked(held, err) <= 0);
	require(kv_radix_at(f.reg, any(256), more, any(5)) >= 0);
	return 0;
}

/* ---- values ---- */

static int attach(void)
{
	bool held;
	kvmm_node_t node = some_node(&held);
	u32 mode = any(3);
	int type = any(2) ? f.unique : any(2) ? f.multiple : (int)any(80) - 8, err;

	err = kvmm_node_attach(f.reg, node, type, mode, &f.nr_values);
	expect(err, 0, -EINVAL, -ESTALE, -ENOMEM);
	f.nr_values += !err && !(f.silent >> type & 1);
	return err;
}

static int count_values(void *ctx, int type, void **value)
{
	(void)type;
	require(*value == &f.nr_values);
	++*(u32 *)ctx;
	return 0;
}

static int detach(void)
{
	bool held;
	kvmm_node_t node = some_node(&held);
	u32 before = f.nr_destroyed, nr = 0;
	int ret = kvmm_node_with(f.reg, node, f.multiple, count_values, &nr);

	if (checked(held, ret) < 0)
		return ret;
	ret = kvmm_node_detach(f.reg, node, f.multiple);
	require(ret == (int)nr && f.nr_destroyed == before + nr);
	return 0;
}

static int make_type(void)
{
	static const char *const name[] = { "one", "many", "a name that is longer than any may be, by far", "" };
	u32 which = any(4), mode = any(3) | any(2) << 8;
	bool silent = !any(2);
	int type = kvmm_attach_type_create(f.reg, name[which], mode, silent ? NULL : destroyed);

	f.silent |= type >= 0 && silent ? BIT64(type) : 0;
	require(type >= 0 || type == -EEXIST || type == -ENOSPC || type == -EINVAL || type == -ENOMEM);
	return 0;
}

/* ---- who is told ---- */

static void touched(void *ctx, const struct kvmm_name *names, uint32_t nr)
{
	require(ctx == &f && nr && nr <= KVMM_REGISTRY_BATCH);
	for (u32 i = 0; i < nr; i++)
		require(number_of_key(&names[i].key) < NR_NAMES);
}

static int hooks(void)
{
	const struct kv_radix_name name = { .key = { { any(NR_NAMES) } } };
	struct kvmm_delegate ours = { .on_touch = touched, .ctx = &f };

	kv_radix_touch(f.reg, &name, 1);
	if (any(4))
		expect(kvmm_registry_delegate(f.reg, &ours), 0, -EEXIST);
	ours.on_touch = NULL;
	if (!any(4))
		require(!kvmm_registry_delegate(f.reg, &ours));
	return 0;
}

static int (*const calls[])(void) = {
	present, present, absent, transfer, look_up, hold, put_node, look_at_node,
	attach, attach, detach, make_type, hooks, fail_soon,
};

static void call_and_check(void)
{
	struct kvmm_registry_stat stat;

	(void)calls[any(ARRAY_SIZE(calls))]();
	expect(kv_radix_check(f.reg), 0, -ENOMEM);
	kvmm_registry_get_stat(f.reg, &stat);
	for (u32 t = 0; t < NR_TIERS; t++) {
		u32 nr = 0;

		for (u32 i = 0; i < NR_NAMES; i++)
			nr += f.count[t][i] > 0;
		require(stat.names[t] == nr);
	}
}

static int make_registry(void)
{
	struct kvmm_registry_attr attr = KVMM_REGISTRY_ATTR_INIT;
	int err;

	attr.capacity = any(8) ? any(80) : (u32)any(256) << 24;
	attr.nr_tiers = NR_TIERS;
	if (attr.capacity > 1000)
		attr.capacity = 0;
	err = kvmm_registry_create(&attr, &f.reg);
	if (err)
		return err;
	f.unique = kvmm_attach_type_create(f.reg, "unique", KVMM_ATTACH_UNIQUE, destroyed);
	f.multiple = kvmm_attach_type_create(f.reg, "multiple", KVMM_ATTACH_MULTIPLE, destroyed);
	return 0;
}

static void end_registry(void)
{
	require(!kvmm_node_put(f.reg, f.held, f.nr_held));
	require(!kv_radix_check(f.reg));
	kvmm_registry_destroy(f.reg);
	require(f.nr_destroyed == f.nr_values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	memset(&f, 0, sizeof(f));
	return fuzz_run(data, bytes, make_registry, call_and_check, end_registry);
}
