// SPDX-License-Identifier: Apache-2.0
/*
 * Calls that take a kind: each refuses bad kinds, sizes, handles and NULL with the errno of its
 * header, and a refused call leaves the pool as it was. Short forms answer as the calls that they wrap.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/pool/util.h"

#define NR_BLOCKS	16u
#define CANARY		0xa5

static struct kvmm_pool *pool, *other;
static kvmm_range_t range;
static kvmm_mut_t mut;
static kvmm_ref_t ref;

static void set_up(void)
{
	pool = make_cache(NR_BLOCKS, "lru");
	other = make_cache(NR_BLOCKS, "lru");
	range = take(pool, 4, 0);
	register_keys(pool, 1, 1, &ref);
	cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
	for (u32 i = 0; i < NR_BLOCKS; i++) {
		u8 bytes[TEST_BLOCK_BYTES];

		memset(bytes, i + 1, sizeof(bytes));
		cr_assert_eq(kvmm_block_write(pool, i, 0, bytes, sizeof(bytes)), 0);
	}
}

static void tear_down(void)
{
	end_pool(pool);
	end_pool(other);
}

TestSuite(general, .init = set_up, .fini = tear_down);

/* All that shows of a pool. */
struct shown {
	struct kvmm_pool_stat stat;
	struct kvmm_range_info info;
	u8 bytes[NR_BLOCKS][TEST_BLOCK_BYTES];
	char picture[NR_BLOCKS + 1];
};

static struct shown shown_now(void)
{
	struct shown now;

	memset(&now, 0, sizeof(now));
	cr_assert_eq(kvmm_pool_get_stat(pool, &now.stat), 0);
	cr_assert_eq(kvmm_range_get_info(pool, range, &now.info), 0);
	for (u32 i = 0; i < NR_BLOCKS; i++)
		cr_assert_eq(kvmm_block_read(pool, i, 0, now.bytes[i], TEST_BLOCK_BYTES), 0);
	strcpy(now.picture, picture(pool));
	cr_expect_eq(kvmm_validate(pool), 0);
	return now;
}

#define expect_refused(call, err)						\
	do {									\
		struct shown before = shown_now(), after;			\
		int got = (call);						\
		cr_expect_eq(got, err, "%s: %d", #call, got);			\
		after = shown_now();						\
		cr_expect_eq(memcmp(&before, &after, sizeof(before)), 0, "%s", #call);	\
	} while (0)

/* Does @call say -ECHILD in a child? */
#define child_refuses(call)							\
	do {									\
		if ((call) != -ECHILD)						\
			_exit(__LINE__ % 251 + 1);				\
	} while (0)

#define expect_child_ends_well(pid)						\
	do {									\
		int status;							\
		cr_assert_eq(waitpid(pid, &status, 0), pid);			\
		cr_expect_eq(status, 0, "line %d modulo 251", WEXITSTATUS(status) - 1);	\
	} while (0)

/* ---- content ---- */

static struct kvmm_content at(u32 of, u32 index, u32 gen)
{
	return (struct kvmm_content){ .of = of, .index = index, .gen = gen };
}

/* One handle or id of each kind, of the pool. */
static struct kvmm_content content_of(u32 kind)
{
	const struct kvmm_content all[] = {
		[KVMM_CONTENT_BLOCK] = at(KVMM_CONTENT_BLOCK, 9, 0),
		[KVMM_CONTENT_RANGE] = at(KVMM_CONTENT_RANGE, range.index, range.gen),
		[KVMM_CONTENT_MUT] = at(KVMM_CONTENT_MUT, mut.index, mut.gen),
		[KVMM_CONTENT_REF] = at(KVMM_CONTENT_REF, ref.index, ref.gen),
	};

	return all[kind];
}

static void expect_content_refused(const struct kvmm_content *where, u64 bytes, int err)
{
	u8 buf[2 * TEST_BLOCK_BYTES];

	memset(buf, CANARY, sizeof(buf));
	expect_refused(kvmm_content_write(pool, where, buf, bytes), err);
	expect_refused(kvmm_content_read(pool, where, buf, bytes), err);
	for (u32 i = 0; i < sizeof(buf); i++)
		cr_assert_eq(buf[i], CANARY);
}

Test(general, content_of_no_kind_or_outside_of_a_block_is_refused)
{
	static const u32 bad[] = { KVMM_CONTENT_REF + 1, UINT32_MAX };
	static const struct { u64 offset, bytes; } part[] = {
		{ 0, TEST_BLOCK_BYTES + 1 }, { TEST_BLOCK_BYTES, 1 }, { 1, TEST_BLOCK_BYTES },
		{ UINT64_MAX, 1 }, { UINT64_MAX, UINT64_MAX }, { 1, UINT64_MAX },
	};
	struct kvmm_content where;
	u8 byte = 0;

	for (u32 i = 0; i < ARRAY_SIZE(bad); i++) {
		where = at(bad[i], 1, 1);
		expect_content_refused(&where, 1, -EINVAL);
	}
	for (u32 kind = KVMM_CONTENT_BLOCK; kind <= KVMM_CONTENT_REF; kind++) {
		where = content_of(kind);
		expect_refused(kvmm_content_write(pool, &where, NULL, 1), -EINVAL);
		expect_refused(kvmm_content_read(pool, &where, NULL, 1), -EINVAL);
		cr_expect_eq(kvmm_content_read(pool, &where, NULL, 0), 0, "nothing of kind %u", kind);
		cr_expect_eq(kvmm_content_read(NULL, &where, &byte, 1), -EINVAL);
		cr_expect_eq(kvmm_content_write(NULL, &where, &byte, 1), -EINVAL);
		for (u32 i = 0; i < ARRAY_SIZE(part); i++) {
			where.offset = part[i].offset;
			expect_content_refused(&where, part[i].bytes, -EINVAL);
		}
	}
	expect_content_refused(NULL, 1, -EINVAL);
	where = content_of(KVMM_CONTENT_REF);
	expect_refused(kvmm_content_write(pool, &where, &byte, 1), -EINVAL);
}

Test(general, content_of_handles_that_are_made_up_old_or_of_another_pool_is_refused)
{
	struct kvmm_content where = at(KVMM_CONTENT_BLOCK, NR_BLOCKS, 0);
	kvmm_range_t theirs = take(other, 2, 0);
	u8 buf[1];
	int got;

	expect_content_refused(&where, 1, -EINVAL);
	where.index = UINT32_MAX;
	expect_content_refused(&where, 1, -EINVAL);
	where = content_of(KVMM_CONTENT_RANGE);
	where.at = 4;
	expect_content_refused(&where, 1, -EINVAL);
	where.at = UINT32_MAX;
	expect_content_refused(&where, 1, -EINVAL);
	for (u32 kind = KVMM_CONTENT_RANGE; kind <= KVMM_CONTENT_REF; kind++) {
		where = at(kind, UINT32_MAX, 1);
		expect_content_refused(&where, 1, -EINVAL);
		where = content_of(kind);
		where.gen = 0;
		got = kvmm_content_read(pool, &where, buf, 1);
		cr_expect(got == -EINVAL || got == -ESTALE, "kind %u: %d", kind, got);
		where = content_of(kind);
		where.gen++;
		got = kvmm_content_read(pool, &where, buf, 1);
		cr_expect(got == -EINVAL || got == -ESTALE, "kind %u: %d", kind, got);
		where = content_of(kind);
		got = kvmm_content_read(other, &where, buf, 1);
		cr_expect(got == -EINVAL || got == -ESTALE, "kind %u: %d", kind, got);
	}
	where = at(KVMM_CONTENT_RANGE, theirs.index, theirs.gen);
	expect_content_refused(&where, 1, -EINVAL);
	where = content_of(KVMM_CONTENT_MUT);
	cr_assert_eq(kvmm_free(pool, &mut, 1), 0);
	expect_content_refused(&where, 1, -ESTALE);
}

Test(general, content_of_pools_without_memory_or_cache_is_refused)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 8 };
	struct kvmm_content where = at(KVMM_CONTENT_BLOCK, 1, 0);
	struct kvmm_pool *ids, *plain __cleanup(end_pool) = make_pool(8);
	u8 byte = 0;

	ids = make_pool_of(&attr);
	cr_expect_eq(kvmm_content_read(ids, &where, &byte, 1), -EINVAL);
	cr_expect_eq(kvmm_content_write(ids, &where, &byte, 1), -EINVAL);
	where = content_of(KVMM_CONTENT_MUT);
	cr_expect_eq(kvmm_content_read(plain, &where, &byte, 1), -EOPNOTSUPP);
	cr_expect_eq(kvmm_content_write(plain, &where, &byte, 1), -EOPNOTSUPP);
	where = content_of(KVMM_CONTENT_REF);
	cr_expect_eq(kvmm_content_read(plain, &where, &byte, 1), -EOPNOTSUPP);
	end_pool(ids);
}

Test(general, a_child_gets_no_content)
{
	pid_t pid = fork();
	u8 byte = 0;

	if (!pid) {
		for (u32 kind = 0; kind <= KVMM_CONTENT_REF + 1; kind++) {
			struct kvmm_content where = at(kind, 1, 1);

			child_refuses(kvmm_content_read(pool, &where, &byte, 1));
			child_refuses(kvmm_content_write(pool, &where, &byte, 1));
			child_refuses(kvmm_content_write(pool, &where, NULL, 1));
		}
		child_refuses(kvmm_content_read(pool, NULL, &byte, 1));
		child_refuses(kvmm_content_write(pool, NULL, &byte, 1));
		child_refuses(kvmm_range_cut(pool, range, 0, 0));
		_exit(0);
	}
	expect_child_ends_well(pid);
}

Test(general, content_is_the_same_by_the_short_forms)
{
	u8 want[8], got[8];

	for (u32 kind = KVMM_CONTENT_BLOCK; kind <= KVMM_CONTENT_REF; kind++) {
		struct kvmm_content where = content_of(kind);
		int err = 0;

		where.offset = 40;
		where.at = kind == KVMM_CONTENT_RANGE ? 2 : 0;
		cr_assert_eq(kvmm_content_read(pool, &where, want, sizeof(want)), 0, "kind %u", kind);
		memset(got, 0, sizeof(got));
		err = kind == KVMM_CONTENT_BLOCK ? kvmm_block_read(pool, 9, 40, got, sizeof(got)) :
		      kind == KVMM_CONTENT_RANGE ? kvmm_range_read(pool, range, 2, 40, got, sizeof(got)) :
		      kind == KVMM_CONTENT_MUT ? kvmm_mut_read(pool, mut, 40, got, sizeof(got)) :
		      kvmm_ref_read(pool, ref, 40, got, sizeof(got));
		cr_expect_eq(err, 0, "kind %u", kind);
		cr_expect_eq(memcmp(want, got, sizeof(got)), 0, "kind %u", kind);
		if (kind == KVMM_CONTENT_REF)
			continue;
		memset(want, 0x30 + kind, sizeof(want));
		err = kind == KVMM_CONTENT_BLOCK ? kvmm_block_write(pool, 9, 40, want, sizeof(want)) :
		      kind == KVMM_CONTENT_RANGE ?
		      kvmm_range_write(pool, range, 2, 40, want, sizeof(want)) :
		      kvmm_mut_write(pool, mut, 40, want, sizeof(want));
		cr_expect_eq(err, 0, "kind %u", kind);
		cr_expect_eq(kvmm_content_read(pool, &where, got, sizeof(got)), 0, "kind %u", kind);
		cr_expect_eq(memcmp(want, got, sizeof(got)), 0, "kind %u", kind);
	}
}

/* ---- the ends of a range ---- */

Test(general, cutting_a_range_refuses_each_wrong_number_and_handle)
{
	static const u32 bad[][2] = {
		{ 0, 0 }, { 1, 1 }, { 4, 0 }, { 0, 4 }, { 5, 0 }, { 0, 5 }, { UINT32_MAX, 0 },
		{ 0, UINT32_MAX }, { UINT32_MAX, 1 }, { 2, UINT32_MAX },
	};
	kvmm_range_t old = { range.index, range.gen + 1 }, none = { UINT32_MAX, 1 };
	kvmm_range_t theirs = take(other, 2, 0);
	int got;

	for (u32 i = 0; i < ARRAY_SIZE(bad); i++)
		expect_refused(kvmm_range_cut(pool, range, bad[i][0], bad[i][1]), -EINVAL);
	expect_refused(kvmm_range_cut(pool, none, 1, 0), -EINVAL);
	expect_refused(kvmm_range_cut(pool, theirs, 1, 0), -EINVAL);
	got = kvmm_range_cut(pool, old, 0, 1);
	cr_expect(got == -ESTALE || got == -EINVAL, "%d", got);
	cr_expect_eq(kvmm_range_cut(NULL, range, 0, 1), -EINVAL);
	cr_assert_eq(kvmm_range_pin(pool, range), 0);
	expect_refused(kvmm_range_cut(pool, range, 1, 0), -EBUSY);
	cr_assert_eq(kvmm_range_unpin(pool, range), 0);
	cr_assert_eq(kvmm_range_get(pool, range), 0);
	expect_refused(kvmm_range_cut(pool, range, 0, 1), -EBUSY);
	cr_assert_eq(kvmm_range_free(pool, range), 0);
}

Test(general, the_buddy_allocator_cuts_no_range)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 16,
				       .allocator = "buddy" };
	struct kvmm_pool *buddy __cleanup(end_pool) = make_pool_of(&attr);
	kvmm_range_t four = take(buddy, 4, 0);

	cr_expect_eq(kvmm_range_cut(buddy, four, 1, 0), -EOPNOTSUPP);
	cr_expect_eq(kvmm_range_free(buddy, four), 0);
}

Test(general, ranges_are_cut_alike_by_the_short_forms)
{
	kvmm_range_t a = take_seq(pool, 4, 0, 'a'), b = take_seq(other, 4, 0, 'a');
	struct kvmm_range_info mine, theirs;

	cr_expect_eq(kvmm_range_shrink(pool, a, 1), kvmm_range_cut(other, b, 0, 1));
	cr_expect_eq(kvmm_range_shrink_front(pool, a, 1), kvmm_range_cut(other, b, 1, 0));
	cr_expect_eq(kvmm_range_shrink(pool, a, 2), kvmm_range_cut(other, b, 0, 2));
	cr_expect_eq(kvmm_range_shrink_front(pool, a, 0), kvmm_range_cut(other, b, 0, 0));
	cr_assert_eq(kvmm_range_get_info(pool, a, &mine), 0);
	cr_assert_eq(kvmm_range_get_info(other, b, &theirs), 0);
	cr_expect_eq(mine.nr, 2);
	cr_expect_eq(theirs.nr, 2);
	cr_expect_eq(mine.nr_ext, theirs.nr_ext);
}

/* ---- names ---- */

Test(general, each_number_of_a_named_enum_has_a_word_of_its_own_by_either_call)
{
	const struct {
		u32 nr;
		const char *(*name)(u32 number);
	} all[KVMM_NR_NAMES] = {
		[KVMM_NAME_STEP] = { KVMM_NR_STEPS, kvmm_step_name },
		[KVMM_NAME_GOAL] = { KVMM_NR_GOALS, kvmm_goal_name },
		[KVMM_NAME_MAP_STATE] = { KVMM_NR_MAP_STATES, kvmm_map_state_name },
		[KVMM_NAME_LEASE_REASON] = { KVMM_NR_LEASE_REASONS, kvmm_lease_reason_name },
		[KVMM_NAME_LEASE_KIND] = { KVMM_NR_LEASE_KINDS, kvmm_lease_kind_name },
		[KVMM_NAME_STAY_REASON] = { KVMM_NR_STAY_REASONS, kvmm_stay_reason_name },
		[KVMM_NAME_MIGRATE_PHASE] = { KVMM_NR_MIGRATE_PHASES, kvmm_migrate_phase_name },
		[KVMM_NAME_MIGRATE_PATH] = { KVMM_NR_MIGRATE_PATHS, kvmm_migrate_path_name },
		[KVMM_NAME_POLICY] = { kvmm_policies(NULL, 0), NULL },
		[KVMM_NAME_KEY_ALGO] = { kvmm_key_algos(NULL, 0), NULL },
	};

	for (u32 of = 0; of < KVMM_NR_NAMES; of++) {
		for (u32 i = 0; i < all[of].nr; i++) {
			const char *name = kvmm_enum_name(of, i);

			cr_assert_not_null(name, "%u, %u", of, i);
			cr_expect_str_neq(name, "?");
			if (all[of].name)
				cr_expect_str_eq(all[of].name(i), name);
			for (u32 other = 0; other < i; other++)
				cr_expect_str_neq(kvmm_enum_name(of, other), name);
		}
		cr_expect_str_eq(kvmm_enum_name(of, all[of].nr), "?");
		cr_expect_str_eq(kvmm_enum_name(of, UINT32_MAX), "?");
		if (all[of].name)
			cr_expect_str_eq(all[of].name(all[of].nr), "?");
	}
	cr_expect_str_eq(kvmm_enum_name(KVMM_NR_NAMES, 0), "?");
	cr_expect_str_eq(kvmm_enum_name(UINT32_MAX, 0), "?");
}

/* ---- settings and statistics ---- */

static const struct kvmm_watermarks marks = { .min = 1, .low = 2, .high = 3 };

Test(general, settings_refuse_wrong_kinds_and_values_and_stay)
{
	static const u32 bad[] = { KVMM_NR_SETTINGS, KVMM_NR_SETTINGS + 1, 0x80000000u, UINT32_MAX };
	u8 zeros[256] = { 0 }, ones[256];
	struct kvmm_alloc_stat before, after;
#define NEEDS_TIER(kind) ((kind) == KVMM_SET_TIER || (kind) == KVMM_SET_RECALLED)

	memset(ones, 0xff, sizeof(ones));
	cr_assert_eq(kvmm_watermarks_set(pool, &marks), 0);
	cr_assert_eq(kvmm_alloc_get_stat(pool, &before), 0);
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++)
		expect_refused(kvmm_pool_set(pool, bad[i], zeros), -EINVAL);
	for (u32 kind = 0; kind < KVMM_NR_SETTINGS; kind++) {
		cr_expect_eq(kvmm_pool_set(NULL, kind, zeros), -EINVAL, "kind %u", kind);
		if (kind == KVMM_SET_BACKGROUND)
			expect_refused(kvmm_pool_set(pool, kind, NULL), 0);
		else
			expect_refused(kvmm_pool_set(pool, kind, NULL),
				       NEEDS_TIER(kind) ? -EOPNOTSUPP : -EINVAL);
		if (kind != KVMM_SET_BALLOON && kind != KVMM_SET_QUIESCENT)
			expect_refused(kvmm_pool_set(pool, kind, ones),
				       NEEDS_TIER(kind) ? -EOPNOTSUPP : -EINVAL);
	}
	expect_refused(kvmm_pool_set(pool, KVMM_SET_QUIESCENT, zeros), -EINVAL);
	cr_assert_eq(kvmm_alloc_get_stat(pool, &after), 0);
	cr_expect_eq(memcmp(&before.marks, &after.marks, sizeof(before.marks)), 0);
}

Test(general, settings_with_a_size_of_their_own_refuse_sizes_of_garbage)
{
	static const u32 sized[] = { KVMM_SET_PACE, KVMM_SET_BACKGROUND, KVMM_SET_VERIFY,
				     KVMM_SET_ELASTIC, KVMM_SET_COMPLETIONS };
	static const size_t bad[] = { 0, 1, 7, 1u << 20, SIZE_MAX };
	size_t value[64] = { 0 };

	for (u32 i = 0; i < ARRAY_SIZE(sized); i++)
		for (u32 j = 0; j < ARRAY_SIZE(bad); j++) {
			value[0] = bad[j];
			expect_refused(kvmm_pool_set(pool, sized[i], value), -EINVAL);
		}
}

Test(general, settings_are_the_same_by_the_short_forms)
{
	struct kvmm_pace pace = { .size = sizeof(pace) };
	struct kvmm_background back = KVMM_BACKGROUND_INIT;
	struct kvmm_verify_attr verify = { .size = sizeof(verify) };
	struct kvmm_elastic_attr elastic = { .size = sizeof(elastic) };
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;
	struct kvmm_completions told = KVMM_COMPLETIONS_INIT;
	struct kvmm_prefix prefix = { 0 };
	u32 ppm = 1000, on = 1, off = 0;
	u64 bytes = 0;

#define expect_alike(kind, value, call)						\
	cr_expect_eq(kvmm_pool_set(other, kind, value), call, "%s", #call)
	expect_alike(KVMM_SET_WATERMARKS, &marks, kvmm_watermarks_set(pool, &marks));
	expect_alike(KVMM_SET_PACE, &pace, kvmm_pace_set(pool, &pace));
	expect_alike(KVMM_SET_BACKGROUND, &back, kvmm_background_set(pool, &back));
	expect_alike(KVMM_SET_BACKGROUND, NULL, kvmm_background_set(pool, NULL));
	expect_alike(KVMM_SET_VERIFY, &verify, kvmm_verify_set(pool, &verify));
	expect_alike(KVMM_SET_RESIDENCY, &ppm, kvmm_residency_set(pool, ppm));
	expect_alike(KVMM_SET_BALLOON, &bytes, kvmm_balloon_set(pool, bytes));
	expect_alike(KVMM_SET_TIER, &config, kvmm_tier_configure(pool, &config));
	expect_alike(KVMM_SET_ELASTIC, &elastic, kvmm_pool_elastic_setup(pool, &elastic));
	expect_alike(KVMM_SET_QUIESCENT, &on, kvmm_pool_quiesce(pool));
	expect_alike(KVMM_SET_COMPLETIONS, &told, kvmm_completions_set(pool, &told));
	expect_alike(KVMM_SET_RECALLED, &prefix, kvmm_tier_recall(pool, &prefix));
	expect_alike(KVMM_SET_QUIESCENT, &off, kvmm_pool_resume(pool));
	expect_alike(KVMM_SET_QUIESCENT, &off, kvmm_pool_resume(pool));
}

/* Each short form of kvmm_pool_stat_of() into @stat: what it says, and how long its struct is. */
static int stat_by_short_form(u32 kind, void *stat, size_t *bytes)
{
#define SHORT(type, call) (*bytes = sizeof(type), call(pool, stat))
	switch ((enum kvmm_stat_kind)kind) {
	case KVMM_STAT_PEEK: return SHORT(struct kvmm_pool_stat, kvmm_pool_peek);
	case KVMM_STAT_ALLOC: return SHORT(struct kvmm_alloc_stat, kvmm_alloc_get_stat);
	case KVMM_STAT_PRESSURE: return SHORT(struct kvmm_pressure, kvmm_pool_get_pressure);
	case KVMM_STAT_GROWTH:
		((struct kvmm_growth_stat *)stat)->size = sizeof(struct kvmm_growth_stat);
		return SHORT(struct kvmm_growth_stat, kvmm_growth_get_stat);
	case KVMM_STAT_PIN: return SHORT(struct kvmm_pin_stat, kvmm_pin_get_stat);
	case KVMM_STAT_STAY: return SHORT(struct kvmm_stay, kvmm_stay_last);
	case KVMM_STAT_STEP: return SHORT(struct kvmm_step_stat, kvmm_step_get_stat);
	case KVMM_STAT_PACE: return SHORT(struct kvmm_pace_stat, kvmm_pace_get_stat);
	case KVMM_STAT_VERIFY: return SHORT(struct kvmm_verify_stat, kvmm_verify_get_stat);
	case KVMM_STAT_BACKGROUND:
		return SHORT(struct kvmm_background_stat, kvmm_background_get_stat);
	case KVMM_STAT_ELASTIC: return SHORT(struct kvmm_elastic_stat, kvmm_elastic_get_stat);
	case KVMM_STAT_TIER:
		*bytes = sizeof(struct kvmm_tier_client_stat);
		return kvmm_tier_client_get_stat(pool, stat, *bytes);
	case KVMM_STAT_TIER_CONFIG:
		((struct kvmm_tier_config *)stat)->size = sizeof(struct kvmm_tier_config);
		return SHORT(struct kvmm_tier_config, kvmm_tier_get_config);
	case KVMM_STAT_RESIDENCY:
		*bytes = sizeof(struct kvmm_residency_stat);
		return kvmm_residency_get_stat(pool, 0, stat);
	case KVMM_STAT_POOL: return SHORT(struct kvmm_pool_stat, kvmm_pool_get_stat);
	case KVMM_STAT_HISTORY: return SHORT(kvmm_sum_t, kvmm_pool_history);
	case KVMM_STAT_TIER_TIME: return SHORT(struct kvmm_tier_time, kvmm_tier_get_time);
	case KVMM_STAT_COUNTS: return SHORT(struct kvmm_counts, kvmm_pool_get_counts);
	case KVMM_STAT_COMPLETIONS: return SHORT(struct kvmm_completions, kvmm_completions_get);
	case KVMM_NR_STATS: break;
	}
	return -EINVAL;
}

Test(general, numbers_are_the_same_by_the_short_forms)
{
	u64 want[512], got[512];
	size_t bytes;

	for (u32 kind = 0; kind < KVMM_NR_STATS; kind++) {
		memset(want, 0, sizeof(want));
		memset(got, 0, sizeof(got));
		cr_expect_eq(stat_by_short_form(kind, got, &bytes),
			     kvmm_pool_stat_of(pool, kind, want, kind == KVMM_STAT_RESIDENCY ?
					       bytes * KVMM_NR_RESIDENCY_KINDS : bytes), "kind %u", kind);
		if (kind == KVMM_STAT_TIER_CONFIG)	/* there is none, and its size stays */
			got[0] = 0;
		cr_expect_eq(memcmp(got, want, bytes), 0, "kind %u", kind);
	}
}

Test(general, numbers_of_no_kind_or_into_nothing_are_refused)
{
	static const u32 bad[] = { KVMM_NR_STATS, KVMM_NR_STATS + 1, 0x80000000u, UINT32_MAX };
	u64 stat = CANARY;

	for (u32 i = 0; i < ARRAY_SIZE(bad); i++)
		expect_refused(kvmm_pool_stat_of(pool, bad[i], &stat, 8), -EINVAL);
	for (u32 kind = 0; kind < KVMM_NR_STATS; kind++) {
		expect_refused(kvmm_pool_stat_of(pool, kind, NULL, 8), -EINVAL);
		expect_refused(kvmm_pool_stat_of(pool, kind, &stat, SIZE_MAX), -EINVAL);
		cr_expect_eq(kvmm_pool_stat_of(NULL, kind, &stat, 8), -EINVAL);
	}
	cr_expect_eq(stat, CANARY);
}

Test(general, a_child_sets_and_reads_nothing)
{
	u64 value[512] = { 64 };
	pid_t pid = fork();

	if (!pid) {
		for (u32 kind = 0; kind <= KVMM_NR_SETTINGS; kind++) {
			child_refuses(kvmm_pool_set(pool, kind, value));
			child_refuses(kvmm_pool_set(pool, kind, NULL));
		}
		for (u32 kind = 0; kind <= KVMM_NR_STATS; kind++) {
			child_refuses(kvmm_pool_stat_of(pool, kind, value, 8));
			child_refuses(kvmm_pool_stat_of(pool, kind, NULL, 0));
		}
		_exit(0);
	}
	expect_child_ends_well(pid);
}

/* ---- the other short forms of one block ---- */

Test(general, calls_of_one_block_answer_as_those_of_many)
{
	kvmm_ref_t gone = { ref.index, ref.gen + 1 }, got = { 0, 0 };
	kvmm_mut_t no_mut = { UINT32_MAX, 1 };
	kvmm_key_t key = key_of(1);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
	kvmm_weak_t weak = kvmm_weak_of(ref);
	u32 block = 0;

#define expect_same(one, many) cr_expect_eq(one, many, "%s", #one)
	expect_same(kvmm_get(pool, ref), kvmm_get_many(pool, &ref, 1));
	expect_same(kvmm_get(pool, gone), kvmm_get_many(pool, &gone, 1));
	expect_same(kvmm_put(pool, ref), kvmm_put_many(pool, &ref, 1));
	expect_same(kvmm_put(pool, gone), kvmm_put_many(pool, &gone, 1));
	expect_same(kvmm_touch(pool, ref), kvmm_touch_many(pool, &ref, 1));
	expect_same(kvmm_touch(pool, gone), kvmm_touch_many(pool, &gone, 1));
	expect_same(kvmm_pin(pool, ref), kvmm_refs_set_pin(pool, &ref, 1, KVMM_PIN_USER, 1));
	expect_same(kvmm_unpin(pool, ref), kvmm_refs_set_pin(pool, &ref, 1, KVMM_PIN_USER, 0));
	expect_same(kvmm_unpin(pool, ref), kvmm_refs_set_pin(pool, &ref, 1, KVMM_PIN_USER, 0));
	expect_same(kvmm_upgrade(pool, weak, &got), 1);
	cr_expect_eq(got.index, ref.index);
	cr_expect_eq(kvmm_put(pool, got), 0);
	cr_assert_eq(kvmm_blocks_of_refs(pool, &ref, 1, &block), 0);
	expect_same(kvmm_block_of_ref(pool, ref), (int)block);
	expect_same(kvmm_block_of_ref(pool, gone), kvmm_blocks_of_refs(pool, &gone, 1, &block));
	cr_assert_eq(kvmm_blocks_of_muts(pool, &mut, 1, &block), 0);
	expect_same(kvmm_block_of_mut(pool, mut), (int)block);
	expect_same(kvmm_block_of_mut(pool, no_mut), kvmm_blocks_of_muts(pool, &no_mut, 1, &block));
	expect_same(kvmm_match_len(pool, &key, 1), kvmm_prefix_probe(pool, &prefix, NULL));
	expect_same(kvmm_prefix_len(pool, &prefix), 1);
	expect_same(kvmm_match(pool, &key, 1, &got), 1);
	cr_expect_eq(kvmm_put(pool, got), 0);
	expect_same(kvmm_match_len(pool, NULL, 1), kvmm_prefix_probe(pool, NULL, NULL));
	expect_same(kvmm_tenant_del(pool, 5), kvmm_tenant_set_many(pool, &(u32){ 5 }, NULL, 1));
	expect_same(kvmm_tier_detach(pool), kvmm_tier_attach(pool, NULL, NULL));
	expect_same(kvmm_tier_abort_all(pool),
		    kvmm_tier_abort(pool, (kvmm_tier_op_t){ UINT32_MAX, UINT32_MAX }));
	expect_same(kvmm_block_nr_tokens(pool, mut), kvmm_block_tokens(pool, mut, NULL, 0));
}

/* ---- owners ---- */

Test(general, an_owner_is_named_for_things_of_a_kind_only)
{
	static const u32 bad[] = { KVMM_LEASED_REFS, KVMM_LEASED_PINS, KVMM_NR_LEASE_KINDS,
				   UINT32_MAX };
	struct kvmm_pool *plain __cleanup(end_pool) = make_pool(8);
	struct kvmm_lease_attr own = { .size = sizeof(own), .owner = 7 };
	pid_t pid;

	for (u32 i = 0; i < ARRAY_SIZE(bad); i++)
		expect_refused(kvmm_lease_own(pool, &own, bad[i], &range, 1), -EINVAL);
	for (u32 kind = KVMM_LEASED_RANGE; kind <= KVMM_LEASED_STAGED; kind++) {
		kvmm_range_t none = { UINT32_MAX, 1 };

		expect_refused(kvmm_lease_own(pool, NULL, kind, &range, 1), -EINVAL);
		expect_refused(kvmm_lease_own(pool, &own, kind, NULL, 1), -EINVAL);
		expect_refused(kvmm_lease_own(pool, &own, kind, &none, 1), -EINVAL);
		cr_expect_eq(kvmm_lease_own(NULL, &own, kind, &range, 1), -EINVAL);
	}
	expect_refused(kvmm_lease_own(pool, &own, KVMM_LEASED_STAGED, &mut, 1), -EINVAL);
	cr_expect_eq(kvmm_lease_own(plain, &own, KVMM_LEASED_PRIVATE, &mut, 1), -EOPNOTSUPP);
	expect_same(kvmm_lease_own_ranges(pool, &own, &range, 1),
		    kvmm_lease_own(pool, &own, KVMM_LEASED_RANGE, &range, 1));
	expect_same(kvmm_lease_own_muts(pool, &own, &mut, 1),
		    kvmm_lease_own(pool, &own, KVMM_LEASED_PRIVATE, &mut, 1));
	pid = fork();
	if (!pid) {
		child_refuses(kvmm_lease_own(pool, NULL, KVMM_NR_LEASE_KINDS, NULL, 1));
		_exit(0);
	}
	expect_child_ends_well(pid);
}
