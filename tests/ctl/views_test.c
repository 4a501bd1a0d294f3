// SPDX-License-Identifier: Apache-2.0
/*
 * Commands that show memory: what they say of a small pool, and what when there is no memory for it. Whole
 * answers of a larger one: tests/views.
 */
#include <kv/alloc.h>
#include <kv/rcu.h>
#include <kvmm/ext/lease.h>
#include <kvmm/ext/registry.h>

#include "ctl/control.h"
#include "tests/ctl/control_util.h"
#include "tests/pool/life_util.h"
#include "tests/pool/lease_util.h"
#include "tests/support/fake_env.h"

#define KEY1	"01000000000000006b65790000000000"
#define KEY2	"02000000000000006b65790000000000"

static struct fake_env fake;
static struct kvmm_registry *reg;
static struct kvmm_control *control;
static struct kvmm_pool *pool;
static int fd;

static void set_up(void)
{
	struct kvmm_registry_attr reg_attr = KVMM_REGISTRY_ATTR_INIT;
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 12, .policy = "lru" };

	fake_env_install(&fake);
	fake.now_ns = 1000ull << 20;		/* ages of blocks are in ticks of so many */
	folder_make();
	cr_assert_eq(kvmm_registry_create(&reg_attr, &reg), 0);
	attr.registry = reg;
	pool = make_pool_of(&attr);
	control = control_in_folder(NULL);
	cr_assert_eq(kvmm_control_add_pool(control, "a", pool), 0);
	fd = visitor(control);
}

static void tear_down(void)
{
	close(fd);
	kvmm_control_close(control);
	end_pool(pool);
	kvmm_registry_destroy(reg);
	folder_remove();
	kv_rcu_barrier();
	cr_expect_eq(fake.nr_live, 0);
	fake_env_remove(&fake);
}

TestSuite(views, .init = set_up, .fini = tear_down);

/* The answer's body. */
static const char *body_of(const char *line)
{
	const char *answer = ask(control, fd, line), *end = strchr(answer, '\n');

	cr_assert_not_null(end, "'%s'", answer);
	cr_assert(!strncmp(answer, "ok ", 3), "%s: %s", line, answer);
	return end + 1;
}

/* Its row @i, the head being 0. */
static const char *row_of(const char *line, unsigned int i)
{
	static char row[512];
	const char *at = body_of(line);

	for (; i && at; i--) {
		at = strchr(at, '\n');
		at += !!at;
	}
	cr_assert(at && strchr(at, '\n'), "%s", line);
	snprintf(row, sizeof(row), "%.*s", (int)strcspn(at, "\n"), at);
	return row;
}

#define expect_row(line, i, text)	cr_expect_str_eq(row_of(line, i), text)
#define expect_start(line, i, text) \
	cr_expect(!strncmp(row_of(line, i), text, strlen(text)), "%s", row_of(line, i))

Test(views, a_map_is_rows_of_runs)
{
	take_owned(pool, 3, 'a', 7, 0, 0);
	cache_keys(pool, 1, 2);
	fake_env_advance(&fake, 5);
	expect_row("map a", 0, "#first\tcount\tstate\tflags:s\towner\tclass\tpins\trefs\tage_ns\tseq\ttenant");
	expect_row("map a", 1, "0\t3\trange\t-\t7\t-\t0\t1\t5\t97\t0");
	expect_row("map a", 2, "3\t2\tcached\t-\t-\t-\t0\t0\t5\t-\t0");
	expect_row("map a", 3, "5\t7\tfree\t-\t-\t-\t-\t-\t-\t-\t-");
	expect_row("map a 4", 1, "4\t1\tcached\t-\t-\t-\t0\t0\t5\t-\t0");
	expect_row("map a 12", 0, "#first\tcount\tstate\tflags:s\towner\tclass\tpins\trefs\tage_ns\tseq\ttenant");
}

/* Rows, the head not counted. */
static u32 nr_rows(const char *line)
{
	u32 nr = 0;

	for (const char *at = body_of(line); (at = strchr(at, '\n')); at++)
		nr++;
	return nr - 1;
}

Test(views, an_answer_has_as_many_rows_as_are_wanted)
{
	kvmm_mut_t muts[6];

	for (u32 i = 0; i < 6; i++)
		alloc_owned(pool, &muts[i], 1, 1 + i, 0, 0);
	cr_expect_eq(nr_rows("map a"), 7);
	cr_expect_eq(nr_rows("map a 0 1"), 1);
	cr_expect_eq(nr_rows("map a 2 3"), 3);
	cr_expect_eq(nr_rows("map a 0 1000 coarse"), 2);
	cr_expect_eq(nr_rows("map a 0 1000 fine"), 7);
	cr_expect_eq(nr_rows("owners a 2"), 2);
	cr_assert_eq(kvmm_free(pool, muts, 6), 0);
	cache_keys(pool, 1, 5);
	cr_expect_eq(nr_rows("prefixes a"), 5);
	cr_expect_eq(nr_rows("prefixes a 0 2"), 2);
	cr_expect_eq(nr_rows("prefixes a 3 16384"), 2);
	cr_expect(!strncmp(ask(control, fd, "map a 0 0"), "err 22 ", 7));
	cr_expect(!strncmp(ask(control, fd, "map a 0 16385"), "err 22 ", 7));
	cr_expect(!strncmp(ask(control, fd, "map a 0 1 rough"), "err 22 ", 7));
	cr_expect(!strncmp(ask(control, fd, "owners a 0"), "err 22 ", 7));
}

Test(views, letters_say_what_is_odd)
{
	kvmm_ref_t refs[2];
	u32 block;

	take_owned(pool, 2, 'a', 7, 0, 0);
	register_keys(pool, 1, 1, &refs[0]);
	register_keys(pool, 1, 1, &refs[1]);
	cr_assert_eq(kvmm_pin_many(pool, refs, 1), 0);
	expect_row("map a", 2, "2\t1\tactive\tp\t-\t-\t1\t2\t0\t-\t0");
	expect_row("map a", 3, "3\t1\tactive\td\t-\t-\t0\t1\t0\t-\t0");
	cr_assert_eq(kvmm_unpin_many(pool, refs, 1), 0);
	block = kvmm_block_of_ref(pool, refs[0]);
	cr_assert_eq(kvmm_put(pool, refs[1]), 0);
	cr_assert_eq(kvmm_evict_blocks(pool, &block, 1), 1);
	cr_expect_not_null(strstr(row_of("map a", 2), "\tactive\th"));
	cr_assert_eq(kvmm_put(pool, refs[0]), 0);
}

Test(views, a_pool_without_a_registry_has_no_prefixes)
{
	struct kvmm_pool *other = make_pool(4);

	cr_assert_eq(kvmm_control_add_pool(control, "b", other), 0);
	cr_expect(!strncmp(ask(control, fd, "prefixes b"), "err 95 ", 7));
	cr_assert_eq(kvmm_control_remove_pool(control, other), 0);
	end_pool(other);
}

/* 4096 are told apart; what the rest has is a row of its own. */
Test(views, more_owners_than_there_is_room_for_are_summed_up)
{
	enum { NR = 4200 };
	struct kvmm_pool *other = make_cache(NR, "lru");
	static kvmm_mut_t muts[NR];
	const char *at;
	u32 nr = 0;

	for (u32 i = 0; i < NR; i++)
		alloc_owned(other, &muts[i], 1, 1 + i, 0, 0);
	cr_assert_eq(kvmm_control_add_pool(control, "b", other), 0);
	at = body_of("owners b 4096");
	cr_expect_not_null(strstr(at, "\nothers\t104\t104\t"));
	for (at = strchr(at, '\n'); (at = strstr(at, "\t1\t1\t0\t0\t0\t0\t")); at++)
		nr++;
	cr_expect_eq(nr, 4096);
	cr_assert_eq(kvmm_control_remove_pool(control, other), 0);
	cr_assert_eq(kvmm_free(other, muts, NR), 0);
	end_pool(other);
}

Test(views, a_snapshot_has_names_and_tiers)
{
	cache_keys(pool, 1, 2);
	cr_expect_not_null(strstr(row_of("snapshot a", 2), "\t0\t0\t1\t-\t-\t"));
	cr_expect_str_eq(strrchr(row_of("snapshot a", 2), '\t'), "\t1");
	cr_expect_str_eq(strrchr(row_of("snapshot a", 3), '\t'), "\t-");
	cr_expect_not_null(strstr(row_of("snapshot a", 1), KEY1 "\t-\t"), "the first has no parent");
	cr_expect_not_null(strstr(row_of("snapshot a", 2), KEY2 "\t" KEY1 "\t"));
	cr_expect(!strncmp(row_of("prefixes a", 2), "1\t" KEY2 "\t" KEY1 "\t", 68));
}

Test(views, owners_sequences_and_holds_are_summed_up)
{
	struct kvmm_lease_attr attr = hold_attr_of(9, 0, 0);
	kvmm_key_t keys[2] = { key_of(1), key_of(2) };
	struct kvmm_prefix prefix = { keys, 2, 0, NULL, { 0, 0, 0 } };
	kvmm_lease_t hold;

	take_owned(pool, 3, 'a', 7, 50, 0);
	take_owned(pool, 2, 'b', 7, 40, 0);
	cache_keys(pool, 1, 2);
	attr.prefix = &prefix;
	cr_assert_eq(kvmm_lease_take(pool, &attr, &hold), 2);
	expect_row("owners a", 1, "7\t5\t2\t5\t0\t0\t0\t0\t1048576040");
	expect_row("owners a", 2, "0\t2\t1\t0\t0\t0\t0\t0\t-");
	expect_row("owners a", 3, "9\t0\t0\t0\t0\t1\t2\t0\t-");
	expect_row("sequences a", 1, "97\t3\t1\t0\t0\t0\t7");
	expect_row("sequences a 1", 1, "97\t3\t1\t0\t0\t0\t7");
	cr_expect(!strncmp(row_of("holds a", 1), "9\t", 2));
	cr_assert_eq(drop_lease(pool, hold), 0);
}

static kvmm_lease_t hold_first(u64 owner, u64 lease_ns, u32 flags, u32 nr, const char *text)
{
	struct kvmm_lease_attr attr = hold_attr_of(owner, lease_ns, flags);
	kvmm_key_t keys[3] = { key_of(1), key_of(2), key_of(3) };
	struct kvmm_prefix prefix = { keys, nr, 0, NULL, { 0, 0, 0 } };
	kvmm_lease_t hold;

	attr.prefix = &prefix;
	attr.text = text;
	cr_assert_eq(kvmm_lease_take(pool, &attr, &hold), nr);
	return hold;
}

Test(views, the_oldest_and_the_first_to_end_stand_for_all_that_one_has)
{
	kvmm_lease_t hold[3];
	kvmm_range_t pinned;

	take_owned(pool, 2, 'a', 7, 0, 0);
	fake_env_advance(&fake, 30);
	pinned = take_owned(pool, 3, 'b', 7, 0, 0);
	cr_assert_eq(kvmm_range_pin(pool, pinned), 0);
	cache_keys(pool, 1, 3);
	fake_env_advance(&fake, 5);
	hold[0] = hold_first(9, 60, KVMM_LEASE_PIN, 3, "a\tb c");
	hold[1] = hold_first(9, 40, 0, 3, NULL);
	hold[2] = hold_first(9, 50, 0, 1, NULL);
	/* Blocks that are held count as those that are owned, to find out who has most. */
	cr_expect(!strncmp(row_of("owners a", 1), "9\t0\t0\t0\t0\t3\t7\t0\t1048576075", 27), "%s",
		  row_of("owners a", 1));
	expect_row("owners a", 2, "7\t5\t2\t5\t3\t0\t0\t35\t-");
	cr_expect_eq(nr_rows("holds a"), 3);
	cr_expect_eq(nr_rows("holds a 2"), 2);
	cr_expect_not_null(strstr(body_of("holds a"), "\t3\t1\t0\t1048576095\ta\\x09b\\x20c\n"), "%s",
			   body_of("holds a"));
	for (u32 i = 0; i < 3; i++)
		cr_assert_eq(drop_lease(pool, hold[i]), 0);
	cr_assert_eq(kvmm_range_unpin(pool, pinned), 0);
}

/* Tools go by these names. */
Test(views, columns_have_names)
{
	expect_row("owners a", 0, "#owner\tblocks\truns\trange_blocks\tpinned\tholds\theld\tage_ns\tdeadline_ns");
	expect_row("sequences a", 0, "#seq\tblocks\truns\tpinned\ttenant\tage_ns\towner");
	expect_row("holds a", 0, "#owner\treason\tblocks\tpinned\tage_ns\tdeadline_ns\ttext:s");
	expect_row("prefixes a", 0, "#position\tkey:s\tparent:s\ttiers\tchildren\ttenant\tgroup\tlayout");
	expect_row("snapshot a", 0, "#first\tcount\tstate\tflags:s\towner\tclass\tpins\trefs\tage_ns\tseq\t"
		   "tenant\tgroup\tlayout\tposition\tprio\tdeadline_ns\tkey:s\tparent:s\tindex\tgen\ttiers");
}

/* The last block of two, which has no children. */
Test(views, a_name_is_told_with_its_domain)
{
	kvmm_key_t keys[2] = { key_of(1), key_of(2) };
	struct kvmm_prefix prefix = { keys, 2, 0, NULL, { .tenant = 5, .group = 6, .layout = 7 } };
	kvmm_ref_t refs[2];
	kvmm_mut_t muts[2];
	char want[256];

	cr_assert_eq(kvmm_alloc_for(pool, 2, 5, muts), 0);
	cr_assert_eq(kvmm_prefix_register(pool, &prefix, muts, refs), 0);
	expect_row("prefixes a", 1, "0\t" KEY1 "\t-\t1\t1\t5\t6\t7");
	expect_row("prefixes a", 2, "1\t" KEY2 "\t" KEY1 "\t1\t0\t5\t6\t7");
	snprintf(want, sizeof(want), "1\t1\tactive\t-\t-\t-\t0\t1\t0\t-\t5\t6\t7\t1\t-\t-\t" KEY2 "\t" KEY1
		 "\t%u\t%u\t1", refs[1].index, refs[1].gen);
	expect_row("snapshot a", 2, want);
	for (u32 i = 2; i-- > 0;)
		cr_assert_eq(kvmm_put(pool, refs[i]), 0);
}

/* Nobody has them: they have no pins, nor an age. */
Test(views, blocks_that_are_away_are_rows_without_numbers)
{
	struct kvmm_elastic_attr elastic = { .size = sizeof(elastic), .pageblock_blocks = 4 };
	struct kvmm_shrink req = { .size = sizeof(req), .nr_blocks = 4 };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 12 };
	struct kvmm_pool *of_ids = make_pool_of(&attr);

	cr_assert_eq(kvmm_pool_elastic_setup(of_ids, &elastic), 0);
	cr_assert_eq(kvmm_pool_shrink(of_ids, &req), 0);
	cr_assert_eq(kvmm_control_add_pool(control, "b", of_ids), 0);
	expect_row("map b", 1, "0\t8\tfree\t-\t-\t-\t-\t-\t-\t-\t-");
	expect_row("map b", 2, "8\t4\taway\t-\t-\t-\t-\t-\t-\t-\t-");
	expect_row("snapshot b", 2, "8\t4\taway\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-");
	cr_expect_eq(nr_rows("owners b"), 0);
	cr_assert_eq(kvmm_control_remove_pool(control, of_ids), 0);
	end_pool(of_ids);
}

/* The only cache there is; NULL: those that there are. */
static const struct kv_slab_row *slab_says;

int __real_kv_slab_next(u32 *cursor, struct kv_slab_row *row);
int __wrap_kv_slab_next(u32 *cursor, struct kv_slab_row *row);

int __wrap_kv_slab_next(u32 *cursor, struct kv_slab_row *row)
{
	if (!slab_says)
		return __real_kv_slab_next(cursor, row);
	if (*cursor)
		return -ENOENT;
	*cursor = 1;
	*row = *slab_says;
	return 0;
}

/* Each number is another. */
Test(views, each_number_of_a_slab_cache_has_its_column)
{
	static const struct kv_slab_row says = {
		.name = "a page",
		.stat = { .nr_objects = 11, .nr_slots = 12, .nr_slabs = 16, .nr_full = 17,
			  .nr_partial = 18, .nr_empty = 19, .nr_blocks = 20, .held_bytes = 21,
			  .live_bytes = 22, .waste_pm = 23, .allocs = 24, .frees = 25,
			  .fail_nospc = 26 },
		.shape = { .stride = 13, .nr_objects = 14, .nr_blocks = 15 },
	};

	slab_says = &says;
	expect_row("slabs", 0, "#name:s\tobjects\tslots\tobject_bytes\tobjects_per_slab\tblocks_per_slab\t"
		   "slabs\tfull\tpartial\tempty\tblocks\theld_bytes\tlive_bytes\twaste_pm\tallocs\t"
		   "frees\tfail_nospc");
	expect_row("slabs", 1, "a\\x20page\t11\t12\t13\t14\t15\t16\t17\t18\t19\t20\t21\t22\t23\t24\t25\t26");
	cr_expect_eq(nr_rows("slabs"), 1);
	slab_says = NULL;
	fake_env_advance(&fake, 1000000);
	cr_expect_eq(nr_rows("slabs"), 0);
}

/* Limits that there are none of are "-"; the first tenant is all those without limits. New columns come last. */
Test(views, tenants_and_classes_have_a_row_each)
{
	struct kvmm_tenant_attr limits = KVMM_TENANT_ATTR_INIT;
	kvmm_mut_t mut;

	limits.max = 5;
	cr_assert_eq(kvmm_tenant_set(pool, 7, &limits), 0);
	cr_assert_eq(kvmm_alloc_for(pool, 1, 7, &mut), 0);
	expect_start("tenants a", 0, "#pool:s\ttenant:s\tblocks\tpeak\tmin\tlow\thigh\tmax\tlow_events\t");
	expect_start("tenants", 1, "a\trest\t0\t0\t0\t0\t-\t-\t0\t");
	expect_start("tenants a", 2, "a\t7\t1\t1\t0\t0\t-\t5\t0\t");
	cr_expect_eq(nr_rows("tenants"), 2);
	expect_start("classes a", 0, "#pool:s\tclass:s\tblocks\toutside\tbytes\tquota\t");
	cr_expect_eq(nr_rows("classes"), 0);
	cr_assert_eq(kvmm_free(pool, &mut, 1), 0);
}

/* The only thing of its owner, and an old one. */
Test(views, a_leak_has_all_of_its_reasons)
{
	kvmm_mut_t mut;

	alloc_owned(pool, &mut, 1, 7, 0, 0);
	fake_env_advance(&fake, 5000 * 1000000ull);
	cr_expect_not_null(strstr(row_of("leaks a 1000", 1), "\told\t"), "%s", row_of("leaks a 1000", 1));
	cr_expect_not_null(strstr(row_of("leaks a 0 1000", 1), "\tlone\t"), "%s",
			   row_of("leaks a 0 1000", 1));
	cr_expect_not_null(strstr(row_of("leaks a 1000 2000", 1), "\told,lone\t"), "%s",
			   row_of("leaks a 1000 2000", 1));
	cr_expect_eq(nr_rows("leaks a 6000 6000"), 0);
}

/* What has a lease is not judged by its age. */
Test(views, a_leak_says_why_it_is_one)
{
	take_owned(pool, 3, 'a', 7, 50, 0);
	fake_env_advance(&fake, 5000 * 1000000ull);
	cr_expect_not_null(strstr(row_of("leaks a", 1), "\texpired\t"), "%s", row_of("leaks a", 1));
	cr_expect_not_null(strstr(row_of("leaks a 1000", 1), "\texpired\t"), "%s",
			   row_of("leaks a 1000", 1));
}

/* Whatever is missing, the answer says so, and the next one is good. */
Test(views, without_memory_a_command_says_so)
{
	static const char *const lines[] = { "map a", "snapshot a", "owners a", "sequences a",
					     "prefixes a", "holds a", "slabs" };

	cache_keys(pool, 1, 2);
	take_owned(pool, 3, 'a', 7, 50, 0);
	for (u32 i = 0; i < ARRAY_SIZE(lines); i++)
		for (u32 n = 1; ; n++) {
			const char *answer;

			fake_env_fail(&fake, n, false);
			answer = ask(control, fd, lines[i]);
			if (!fake_env_failed(&fake)) {
				fake_env_fail(&fake, 0, false);
				cr_expect(!strncmp(answer, "ok ", 3), "%s: %s", lines[i], answer);
				break;
			}
			fake_env_fail(&fake, 0, false);
			cr_expect(!strncmp(answer, "err 12 ", 7), "%s, failure %u: %s", lines[i], n, answer);
			cr_assert_eq(kvmm_validate(pool), 0);
			cr_assert_lt(n, 50);
		}
}
