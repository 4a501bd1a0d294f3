// SPDX-License-Identifier: Apache-2.0
/* Commands that show a pool, and that set it: each against what the pool itself says. */
#define _GNU_SOURCE

#include <kv/tier.h>

#include "ctl/control.h"
#include "pool/internal.h"
#include "tests/ctl/two_pools.h"

TestSuite(command, .init = set_up, .fini = tear_down);

/* ---- looking ---- */

Test(command, which_pool_has_to_be_said_where_there_are_several)
{
	has(ask(control, fd, "config"), "err 22 29\nwhich pool? there are several");
	has(ask(control, fd, "config gamma"), "there is no pool 'gamma'");
	cr_assert_eq(kvmm_control_remove_pool(control, beta), 0);
	has(ask(control, fd, "config"), "ok ");
	has(ask(control, fd, "config -"), "ok ");
}

Test(command, pressure_and_devices_have_a_row_for_each_pool)
{
	const char *answer = ask(control, fd, "pressure");

	has(answer, "\nalpha\tsome\t0.00\t0.00\t0.00\t0\nalpha\tfull\t");
	has(answer, "\nbeta\tsome\t");
	has(ask(control, fd, "devices"), "\nalpha\thost\t0\tzone\tlru\t64\t1024\t0\t0\t");
	has(ask(control, fd, "devices beta"), "closed\nbeta\t");
}

/* Time stands still here: what is counted took nothing. */
Test(command, what_never_took_time_has_no_row_and_what_did_has_all_buckets)
{
	kvmm_range_t range, more;
	const char *answer;

	has(ask(control, fd, "latencies"), "ok 37\n#pool:s\twhat:s\tup_to_ns\tcount\tsum_ns\n");
	cr_assert_eq(kvmm_range_alloc(beta, 16, 0, &range), 0);
	cr_assert_eq(kvmm_range_alloc(beta, 16, 0, &more), -ENOSPC);
	fake_env_advance(&fake, 1000000);
	answer = ask(control, fd, "latencies");
	has(answer, "sum_ns\nbeta\troom\t1000\t1\t0\nbeta\troom\t2000\t0\t0\n");
	has(answer, "\nbeta\troom\t5000000000\t0\t0\nbeta\troom\t-\t0\t0\n");
	cr_expect_eq(kvmm_range_free(beta, range), 0);
}

static struct kv_pool_glance *look_at(const char *name)
{
	struct pool_view *seen;

	has(ask(control, fd, "stat"), "ok ");
	kv_lock(&control->lock);
	seen = control->views.pool;
	while (strcmp(seen->name, name))
		seen++;
	kv_unlock(&control->lock);
	return &seen->glance;
}

/* Within the millisecond for which what was seen counts, it is what the test says. */
static struct kv_pool_glance *seen_of(const char *name)
{
	fake_env_advance(&fake, 1000000);
	return look_at(name);
}

Test(command, what_was_seen_at_the_start_of_the_clock_counts_for_a_millisecond)
{
	fake.now_ns = 0;
	look_at("alpha")->stat.nr_state[KVMM_BLOCK_RANGE] = 61;
	has(ask(control, fd, "stat alpha"), "\t61\t");
}

Test(command, each_number_has_its_column)
{
	struct kvmm_tier_attr attr = { .size = sizeof(attr), .numa_node = -1, .capacity_blocks = 4,
				       .block_bytes = TEST_BLOCK_BYTES };
	struct kv_pool_glance *seen;
	struct kvmm_tier *tier;

	cr_assert_eq(kvmm_tier_host_create(&attr, &tier), 0);
	cr_assert_eq(kvmm_tier_attach(alpha, tier, NULL), 0);
	seen = seen_of("alpha");
	seen->elastic.given_bytes = 11;
	seen->elastic.target_bytes = 12;
	seen->stat.metadata_bytes = 13;
	has(ask(control, fd, "devices alpha"), "\t64\t1024\t11\t12\t13\t");
	for (u32 i = 0; i < KVMM_NR_AVGS; i++) {
		seen->pressure.some.avg[i] = (1 + i) << KVMM_AVG_SHIFT | 1u << (KVMM_AVG_SHIFT - 2);
		seen->pressure.full.avg[i] = (5 + i) << KVMM_AVG_SHIFT | 1u << (KVMM_AVG_SHIFT - 4);
	}
	seen->pressure.some.total_us = 21;
	seen->pressure.full.total_us = 22;
	has(ask(control, fd, "pressure alpha"), "\tsome\t1.25\t2.25\t3.25\t21\nalpha\tfull\t5.06\t6.06\t7.06\t22\n");
	seen->below.blocks = 31;
	seen->below.writing = 32;
	seen->below.queued = 33;
	seen->below.loading = 34;
	seen->below.offloads = 35;
	seen->below.loads = 36;
	seen->below.offload_bytes = 37;
	seen->below.load_bytes = 38;
	seen->below.hits = 39;
	seen->below.misses = 40;
	seen->below.evicted = 41;
	seen->below.failed = 42;
	has(ask(control, fd, "tiers alpha"),
	    "\t256\t0\t31\t32\t33\t34\t35\t36\t37\t38\t39\t40\t41\t42\t");
	kvmm_tier_destroy(tier);
	cr_assert_eq(kvmm_tier_detach(alpha), 0);
}

/* Tools go by these names. */
Test(command, columns_have_names)
{
	has(ask(control, fd, "stat"), "\n#pool:s\tblocks\tfree\tinactive\tavailable\tnull\tranges_blocks\t"
	    "private\tstaged\tactive\tranges\tlargest\truns\tblock_tokens\tblock_bytes\tallocs\t"
	    "alloc_blocks\tfrees\tfail_nospc\tfail_frag\tevictions\thit_blocks\tmiss_blocks\tregistered\t"
	    "duplicates\tcompactions\tmoved_blocks\tmoves\tmetadata_bytes\taway\twaiting\tsteps\t"
	    "published_blocks\tpublished_moves\tcopying_blocks\tlimbo_blocks\tstagings\treserved_blocks\n");
	has(ask(control, fd, "devices"), "\n#pool:s\tdevice:s\tnumber\tallocator:s\tpolicy:s\tblock_bytes\t"
	    "bytes\tgiven_bytes\tballoon_bytes\tmetadata_bytes\tstreams\tblocks\tblock_tokens\tclosed\n");
	has(ask(control, fd, "pressure"), "\n#pool:s\tkind:s\tavg10\tavg60\tavg300\ttotal_us\n");
	has(ask(control, fd, "leaks alpha"), "\n#owner\tkind:s\tindex\tgen\tblocks\tbytes\tage_ms\t"
	    "deadline_ns\twhy:s\trefs\tpins\ttext:s\n");
}

/* All columns of stat, each with another number. */
Test(command, each_number_of_a_pool_has_its_column)
{
#define SEEN(column, field) { column, offsetof(struct kv_pool_glance, field), \
			      sizeof(((struct kv_pool_glance *)NULL)->field) }
#define STAT(column, field)	SEEN(column, stat.field)
#define STATE(column, state)	SEEN(column, stat.nr_state[KVMM_BLOCK_##state])
	static const struct { const char *column; size_t at, bytes; } numbers[] = {
		STAT("blocks", nr_blocks), STAT("free", nr_free), STAT("inactive", nr_inactive),
		STAT("available", nr_available), STATE("null", NULL), STATE("ranges_blocks", RANGE),
		STATE("private", PRIVATE), STATE("staged", STAGED), STATE("active", ACTIVE),
		STAT("ranges", nr_ranges), STAT("largest", largest), STAT("runs", nr_runs),
		STAT("block_tokens", block_tokens), STAT("block_bytes", block_bytes),
		STAT("allocs", allocs), STAT("alloc_blocks", alloc_blocks), STAT("frees", frees),
		STAT("fail_nospc", fail_nospc), STAT("fail_frag", fail_frag),
		STAT("evictions", evictions), STAT("hit_blocks", hit_blocks),
		STAT("miss_blocks", miss_blocks), STAT("registered", registered),
		STAT("duplicates", duplicates), STAT("compactions", compactions),
		STAT("moved_blocks", moved_blocks), STAT("moves", moves),
		STAT("metadata_bytes", metadata_bytes), STAT("away", nr_away),
		SEEN("waiting", alloc.nr_waiting), SEEN("steps", step.steps),
		SEEN("published_blocks", step.published_blocks),
		SEEN("published_moves", step.published_moves),
		SEEN("copying_blocks", step.copying_blocks),
		SEEN("limbo_blocks", step.limbo_blocks), STAT("stagings", stagings),
		SEEN("reserved_blocks", growth.nr_reserved),
	};
	char *seen = (char *)seen_of("alpha"), want[16];
	const char *answer;

	for (u64 i = 0, number = 51; i < ARRAY_SIZE(numbers); i++, number++)
		memcpy(seen + numbers[i].at, &number, numbers[i].bytes);
	answer = ask(control, fd, "stat alpha");
	for (u32 i = 0; i < ARRAY_SIZE(numbers); i++) {
		snprintf(want, sizeof(want), "%u", 51 + i);
		expect_cell(answer, numbers[i].column, want);
	}
}

/* A histogram each, with a count of its own in the first bucket. */
Test(command, each_latency_has_its_name)
{
	static const char *const names[] = { "queue", "room", "offload", "load", "disk",
					     "lifetime", "idle", "reuse", "hit_age" };
	struct kv_pool_glance *seen = seen_of("alpha");
	struct kvmm_latency_stat *took[] = { &seen->pressure.queue, &seen->pressure.room,
					     &seen->below.offload_took, &seen->below.load_took,
					     &seen->below.disk_took };
	const char *answer;
	char want[64];

	for (u32 i = 0; i < 9; i++) {
		u64 *bucket = i < 5 ? took[i]->bucket : seen->residency[i - 5].bucket;

		bucket[0] = 11 + i;
		*(i < 5 ? &took[i]->sum_ns : &seen->residency[i - 5].sum_ns) = 21 + i;
	}
	answer = ask(control, fd, "latencies alpha");
	for (u32 i = 0; i < 9; i++) {
		snprintf(want, sizeof(want), "\nalpha\t%s\t%s\t%u\t%u\n", names[i], i < 5 ? "1000" : "1000000",
			 11 + i, 21 + i);
		has(answer, want);
	}
}

/* Of a disk below the tier; NULL: as it is. */
static const struct kvmm_disk_stat *disk_says;

int __real_kv_tier_glance(struct kvmm_tier *tier, struct kv_tier_glance *glance);
int __wrap_kv_tier_glance(struct kvmm_tier *tier, struct kv_tier_glance *glance);

int __wrap_kv_tier_glance(struct kvmm_tier *tier, struct kv_tier_glance *glance)
{
	int err = __real_kv_tier_glance(tier, glance);

	if (!err && disk_says) {
		glance->has_disk = true;
		glance->disk = *disk_says;
	}
	return err;
}

/* One of all that can go wrong with a record is "failed". */
Test(command, a_disk_below_a_tier_has_a_row_of_its_own)
{
	static const struct kvmm_disk_stat disk = {
		.max_bytes = 31, .record_bytes = 32, .nr_records = 33, .nr_pending = 34,
		.nr_put = 35, .nr_got = 36, .put_bytes = 37, .got_bytes = 38, .nr_missed = 39,
		.nr_dropped = 40, .nr_read_errors = 100, .nr_write_errors = 200, .nr_damaged = 400,
	};
	struct kvmm_tier_attr attr = { .size = sizeof(attr), .numa_node = -1, .capacity_blocks = 4,
				       .block_bytes = TEST_BLOCK_BYTES };
	struct kvmm_tier *tier;

	cr_assert_eq(kvmm_tier_host_create(&attr, &tier), 0);
	cr_assert_eq(kvmm_tier_attach(alpha, tier, NULL), 0);
	cr_expect_null(strstr(ask(control, fd, "tiers alpha"), "\tdisk\t"));
	disk_says = &disk;
	fake_env_advance(&fake, 1000000);
	has(ask(control, fd, "tiers alpha"), "#pool:s\ttier:s\tname:s\tmax_bytes\tbytes\tblocks\twriting\t"
	    "queued\tloading\tstored\tloaded\tstored_bytes\tloaded_bytes\thits\tmisses\tevicted\t"
	    "failed\tfrom_disk\n");
	has(ask(control, fd, "tiers alpha"),
	    "\nalpha\tdisk\t-\t31\t32\t33\t34\t-\t-\t35\t36\t37\t38\t36\t39\t40\t700\t-\n");
	disk_says = NULL;
	kvmm_tier_destroy(tier);
	cr_assert_eq(kvmm_tier_detach(alpha), 0);
}

Test(command, a_pool_without_a_tier_has_no_row)
{
	struct kvmm_tier_attr attr = { .size = sizeof(attr), .numa_node = -1, .capacity_blocks = 4,
				       .block_bytes = TEST_BLOCK_BYTES };
	struct kvmm_tier *tier;

	has(ask(control, fd, "tiers alpha"), "failed\tfrom_disk\n");
	fake_env_advance(&fake, 1000000);
	cr_assert_eq(kvmm_tier_host_create(&attr, &tier), 0);
	cr_assert_eq(kvmm_tier_attach(alpha, tier, NULL), 0);
	has(ask(control, fd, "tiers"), "failed\tfrom_disk\nalpha\thost\thost\t256\t0\t0\t");
	has(ask(control, fd, "config alpha tier_touches"), "\ntier_touches\t2\t1\t15\t");
	has(ask(control, fd, "set alpha tier_touches 3"), "\ntier_touches\t2\t3\n");
	kvmm_tier_destroy(tier);
	cr_assert_eq(kvmm_tier_detach(alpha), 0);
	has(ask(control, fd, "config alpha tier_touches"), "\ntier_touches\t-\t1\t15\t");
}

Test(command, what_is_old_and_has_no_lease_is_a_leak)
{
	const char *none = "why:s\trefs\tpins\ttext:s\n";
	const char *answer;

	take_seq(alpha, 3, 0, 7);
	fake_env_advance(&fake, 5000 * 1000000ull);
	answer = ask(control, fd, "leaks alpha");
	cr_expect_str_eq(strstr(answer, none) + strlen(none), "");
	answer = ask(control, fd, "leaks alpha 1000");
	has(answer, "\trange\t");
	has(answer, "\t3\t192\t5000\t0\told\t1\t0\t-\n");
	has(ask(control, fd, "leaks alpha soon"), "err 22 ");
	has(ask(control, fd, "leaks alpha 18446744073709"), "ok ");
	has(ask(control, fd, "leaks alpha 18446744073710"), "is no number from 0 to 18446744073709");
}

/* More than are asked for at a time. */
Test(command, all_leaks_are_told)
{
	struct kvmm_pool *other = make_pool(200);
	const char *answer;
	u32 nr = 0;

	for (u32 i = 0; i < 200; i++)
		take_seq(other, 1, 0, 1 + i);
	fake_env_advance(&fake, 5000 * 1000000ull);
	cr_assert_eq(kvmm_control_add_pool(control, "other", other), 0);
	answer = ask(control, fd, "leaks other 1000");
	for (const char *at = answer; (at = strstr(at, "\told\t")); at++)
		nr++;
	cr_expect_eq(nr, 200);
	cr_assert_eq(kvmm_control_remove_pool(control, other), 0);
	end_pool(other);
}

/* ---- settings ---- */

Test(command, a_setting_is_what_the_pool_goes_by)
{
	struct kvmm_background how = KVMM_BACKGROUND_INIT;
	struct kvmm_alloc_stat door;
	struct kvmm_pace_stat pace;

	has(ask(control, fd, "set alpha watermark_high 8"), "\nwatermark_high\t0\t8\n");
	has(ask(control, fd, "set alpha watermark_low 4"), "ok ");
	cr_assert_eq(kvmm_alloc_get_stat(alpha, &door), 0);
	cr_expect_eq(door.marks.low, 4);
	cr_expect_eq(door.marks.high, 8);
	has(ask(control, fd, "config alpha watermark_low"), "\nwatermark_low\t4\t0\t");

	cr_expect_eq(kv_background_get(alpha, &how), -ENOENT);
	has(ask(control, fd, "set alpha background_threshold_pm 300"), "\t0\t300\n");
	has(ask(control, fd, "set alpha background_interval_ms 50"), "\t60000\t50\n");
	cr_assert_eq(kv_background_get(alpha, &how), 0);
	cr_expect_eq(how.threshold_pm, 300);
	cr_expect_eq(how.interval_ms, 50);
	has(ask(control, fd, "set alpha background_threshold_pm 0"), "\t300\t0\n");
	cr_expect_eq(kv_background_get(alpha, &how), -ENOENT);

	has(ask(control, fd, "set alpha pace_bytes_per_ms 4096"), "\t0\t4096\n");
	cr_assert_eq(kvmm_pace_get_stat(alpha, &pace), 0);
	cr_expect_eq(pace.bytes_per_ms, 4096);
	has(ask(control, fd, "set alpha pace_bytes_per_step 8589934593"), "\t0\t8589934593\n");
	cr_assert_eq(kvmm_pace_get_stat(alpha, &pace), 0);
	cr_expect_eq(pace.bytes_per_ms, 4096);
	cr_expect_eq(pace.bytes_per_step, 8589934593ull, "all of its bytes");
	has(ask(control, fd, "set alpha verify_sample_pm 10"), "\t0\t10\n");
}

Test(command, settings_are_refused_that_are_none_or_out_of_range)
{
	struct kvmm_alloc_stat door;

	has(ask(control, fd, "set alpha speed 3"), "there is no setting 'speed'; try config");
	has(ask(control, fd, "set alpha background_threshold_pm 1001"), "is no number from 0 to 1000");
	has(ask(control, fd, "set alpha background_threshold_pm -1"), "is no number");
	has(ask(control, fd, "set alpha watermark_low 18446744073709551616"), "is no number");
	has(ask(control, fd, "set alpha watermark_low 9"), "err 22 ");	/* above high */
	has(ask(control, fd, "set alpha tier_touches 3"), "err 95 ");
	has(ask(control, fd, "set alpha watermark_low"), "usage: set POOL NAME VALUE");
	cr_assert_eq(kvmm_alloc_get_stat(alpha, &door), 0);
	cr_expect_eq(door.marks.low, 0);
}

Test(command, every_setting_can_be_read_and_set_to_what_it_is)
{
	struct kvmm_tier_attr attr = { .size = sizeof(attr), .numa_node = -1, .capacity_blocks = 4,
				       .block_bytes = TEST_BLOCK_BYTES };
	struct kvmm_tier *tier;
	char list[8192], line[256], *row, *rest;
	u32 nr = 0;

	cr_assert_eq(kvmm_tier_host_create(&attr, &tier), 0);
	cr_assert_eq(kvmm_tier_attach(alpha, tier, NULL), 0);
	snprintf(list, sizeof(list), "%s", ask(control, fd, "config alpha"));
	strtok_r(list, "\n", &rest);
	strtok_r(NULL, "\n", &rest);
	while ((row = strtok_r(NULL, "\n", &rest))) {
		char *value = strchr(row, '\t') + 1;

		value[-1] = '\0';
		*strchr(value, '\t') = '\0';
		snprintf(line, sizeof(line), "set alpha %s %s", row, value);
		nr++;
		/* Memory of the host is not given back. */
		has(ask(control, fd, line), strcmp(row, "balloon_bytes") ? "ok " : "\n");
	}
	cr_expect_eq(nr, 23);
	kvmm_tier_destroy(tier);
	cr_assert_eq(kvmm_tier_detach(alpha), 0);
}

/* ---- for looking only ---- */

Test(command, what_steers_is_refused_where_one_may_only_look)
{
	static const char *const steering[] = {
		"set alpha watermark_high 8", "compact-run alpha want=4", "compact-cancel",
		"migrate-start alpha beta 7", "migrate-cancel alpha 1", "migrate-finish alpha 1",
		"prefetch alpha 9 00112233445566778899aabbccddeeff",
	};
	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;
	struct kvmm_control *other;
	int visitor_fd;

	kvmm_control_close(control);
	attr.flags = KVMM_CONTROL_READ_ONLY;
	control = other = control_in_folder(&attr);
	cr_assert_eq(kvmm_control_add_pool(other, "alpha", alpha), 0);
	visitor_fd = visitor(other);
	for (u32 i = 0; i < ARRAY_SIZE(steering); i++)
		has(ask(other, visitor_fd, steering[i]), "err 30 31\nthis socket is for looking only");
	has(ask(other, visitor_fd, "compact-status alpha"), "ok ");
	close(visitor_fd);
}

/* Whatever the table says steers is what is refused there, and nothing else changes the pool. */
Test(command, no_name_stands_in_the_table_twice)
{
	for (u32 a = 0; a < KV_NR_COMMAND_SETS; a++)
		for (const struct kv_command *one = kv_command_sets[a]->commands; one->name; one++) {
			u32 nr = 0;

			for (u32 b = 0; b < KV_NR_COMMAND_SETS; b++)
				for (const struct kv_command *two = kv_command_sets[b]->commands;
				     two->name; two++)
					nr += !strcmp(one->name, two->name);
			cr_expect_eq(nr, 1, "%s", one->name);
			cr_expect(one->help && one->args && one->fn);
		}
}

/* ---- words, and how old an answer may be ---- */

Test(command, words_are_cut_at_blanks_and_counted)
{
	char line[256] = "leaks", *end = line + 5;

	has(ask(control, fd, "stat \t\talpha"), "ok ");
	has(ask(control, fd, "compact-plan alpha want="), "'' is no number from 0 to ");
	has(ask(control, fd, "leaks alpha 18446744073709551616"), "is no number from 0 to ");
	for (u32 i = 0; i < KV_CONTROL_ARGS; i++, end += 2)
		strcpy(end, " 1");
	has(ask(control, fd, line), "there is no pool '1'");
	strcpy(end, " 1");
	cr_expect_str_eq(ask(control, fd, line), "err 7 14\ntoo many words");
	has(ask(control, fd, "leaks alpha 1 1 1"), "err 22 ");
	has(ask(control, fd, "leaks alpha 1 1 1"), "usage: leaks POOL");
}

/* Lines that allocators write are read once a millisecond, however often somebody asks. */
Test(command, numbers_are_those_of_the_last_millisecond)
{
	const struct kvmm_watermarks direct = { 1, 2, 9 };
	struct kvmm_alloc_stat now;

	fake_env_advance(&fake, 1000000);
	has(ask(control, fd, "stat alpha"), "\nalpha\t16\t16\t");
	cache_keys(alpha, 1, 3);
	has(ask(control, fd, "stat alpha"), "\nalpha\t16\t16\t");
	fake_env_advance(&fake, 1000000);
	has(ask(control, fd, "stat alpha"), "\nalpha\t16\t13\t");
	/* A command that steers looks anew, and its effect is shown at once. */
	cr_assert_eq(kvmm_watermarks_set(alpha, &direct), 0);
	has(ask(control, fd, "set alpha watermark_low 3"), "watermark_low\t2\t3\n");
	cr_assert_eq(kvmm_alloc_get_stat(alpha, &now), 0);
	cr_expect_eq(now.marks.min, 1);
	cr_expect_eq(now.marks.low, 3);
	cr_expect_eq(now.marks.high, 9);
	has(ask(control, fd, "config alpha watermark_low"), "watermark_low\t3\t");
}

/* Those of Prometheus and in layouts of the kernel as well, of one pool and of all. */
Test(command, metrics_are_those_of_the_last_millisecond)
{
	fake_env_advance(&fake, 1000000);
	has(ask(control, fd, "metrics"), "kvmm_free_blocks{pool=\"alpha\",device=\"host\"} 16\n");
	cache_keys(alpha, 1, 3);
	has(ask(control, fd, "metrics"), "kvmm_free_blocks{pool=\"alpha\",device=\"host\"} 16\n");
	has(ask(control, fd, "metrics prometheus alpha"), "kvmm_free_blocks{pool=\"alpha\",device=\"host\"} 16\n");
	has(ask(control, fd, "vmstat alpha"), "nr_free_pages 16\n");
	fake_env_advance(&fake, 1000000);
	has(ask(control, fd, "metrics prometheus alpha"), "kvmm_free_blocks{pool=\"alpha\",device=\"host\"} 13\n");
	cr_expect(!strstr(ask(control, fd, "metrics prometheus alpha"), "beta"));
	has(ask(control, fd, "vmstat alpha"), "nr_free_pages 13\n");
	cache_keys(alpha, 4, 2);
	has(ask(control, fd, "set alpha watermark_high 8"), "ok ");
	has(ask(control, fd, "metrics"), "kvmm_free_blocks{pool=\"alpha\",device=\"host\"} 11\n");
	has(ask(control, fd, "metrics openmetrics nobody"), "there is no pool 'nobody'");
}

static void hasnt(const char *answer, const char *part)
{
	cr_expect_null(strstr(answer, part), "%s", answer);
}

Test(command, a_pool_that_is_damaged_is_an_error_by_name_and_can_be_looked_at)
{
	kvmm_mut_t mut[3];

	cr_assert_eq(kvmm_alloc(alpha, 3, mut), 0);
	fake_env_advance(&fake, 1000000);
	kv_lock(&alpha->lock);
	pool_poison(alpha);
	kv_unlock(&alpha->lock);
	for (u32 i = 0; i < 2; i++) {
		has(ask(control, fd, "stat alpha"), "err 117 ");
		has(ask(control, fd, "stat alpha"), "the pool 'alpha' contradicts itself and is closed");
		has(ask(control, fd, "leaks alpha"), "the pool 'alpha' contradicts itself and is closed");
		has(ask(control, fd, "stat"), "\nbeta\t");
		hasnt(ask(control, fd, "stat"), "alpha");
		has(ask(control, fd, "stat beta"), "ok ");
		has(ask(control, fd, "metrics"), "\nkvmm_capacity_blocks{pool=\"beta\"");
	}
	has(ask(control, fd, "devices"), "\nalpha\thost\t0\tzone\tlru\t64\t1024\t0\t0\t0\t0\t16\t16\t1\n");
	has(ask(control, fd, "map alpha"), "\tprivate\t");
	has(ask(control, fd, "snapshot alpha"), "\tprivate\t");
	has(ask(control, fd, "sequences alpha"), "ok ");
	cr_assert_eq(kvmm_control_remove_pool(control, alpha), 0);
	kvmm_pool_destroy(alpha);
	alpha = make_cache(16, "lru");
}

/* ---- want of memory, and of the system's help ---- */

static const char *const session[] = {
	"help", "version", "pools", "stat", "tenants", "classes", "devices",
	"tiers", "pressure", "latencies",
	"leaks alpha 1",
	"config alpha", "set alpha watermark_high 8", "compact-plan alpha want=4",
	"compact-run alpha want=16", "compact-status alpha", "compact-cancel alpha",
	"migrate-start alpha beta 7 copy", "migrate-status alpha", "migrate-cancel alpha 1",
	"migrate-finish alpha 1",
	"prefetch alpha 9 00112233445566778899aabbccddeeff", "prefetch-status alpha",
	"events alpha new 10 all", "names alpha 10", "map alpha", "snapshot alpha", "owners alpha",
	"sequences alpha", "holds alpha", "prefixes alpha", "slabs", "latencies", "metrics",
	"metrics-families", "buddyinfo", "pagetypeinfo alpha", "slabinfo", "vmstat", "pressure-text",
};

Test(command, the_session_below_has_every_command)
{
	for (u32 set = 0; set < KV_NR_COMMAND_SETS; set++)
		for (const struct kv_command *one = kv_command_sets[set]->commands; one->name; one++) {
			size_t len = strlen(one->name);
			u32 i = 0;

			while (i < ARRAY_SIZE(session) && (strncmp(session[i], one->name, len) ||
							   strcspn(session[i], " ") != len))
				i++;
			cr_expect_lt(i, ARRAY_SIZE(session), "%s", one->name);
		}
}

/* The client is answered, or sent away; nothing is left of him, and the next one is served. */
static void run_session(void)
{
	for (u32 i = 0; i < ARRAY_SIZE(session); i++) {
		int one = connect_to(control);

		say(one, session[i]);
		say(one, "\n");
		control_settle(control);
		hear(one);
		close(one);
		control_settle(control);
	}
}

static u32 nr_clients(void)
{
	struct kvmm_control_stat stat = { .size = sizeof(stat) };

	cr_assert_eq(kvmm_control_get_stat(control, &stat), 0);
	return stat.clients;
}

Test(command, want_of_memory_at_any_moment_costs_an_answer_at_most)
{
	u64 n = 1;

	take_seq(alpha, 3, 0, 7);
	do {
		fake_env_fail(&fake, n++, false);
		run_session();
		cr_expect_eq(nr_clients(), 1);
	} while (fake_env_failed(&fake));
	fake_env_fail(&fake, 0, false);
	cr_expect_gt(n, 10);
	has(ask(control, fd, "pools"), "ok ");
	cr_expect_eq(kvmm_validate(alpha), 0);
	cr_expect_eq(kvmm_validate(beta), 0);
}

/* The n-th call of the system fails. */
static struct kv_sock_ops flaky;
static u64 nr_calls, fail_at;

static bool fails(void)
{
	return ++nr_calls == fail_at;
}

static int flaky_accept(void *ctx, int at, bool root_too)
{
	int got = kv_sock_system.accept(NULL, at, root_too);

	if (got < 0 || !fails())
		return got;
	close(got);
	return -EMFILE;
}

static s64 flaky_send(void *ctx, int to, const void *buf, size_t bytes, const int *fds, u32 nr)
{
	return fails() ? -EPIPE : kv_sock_system.send(NULL, to, buf, min(bytes, (size_t)97), fds, nr);
}

static s64 flaky_recv(void *ctx, int from, void *buf, size_t bytes, int *fds, u32 *nr)
{
	return fails() ? -EIO : kv_sock_system.recv(NULL, from, buf, min(bytes, (size_t)5), fds, nr);
}

static int flaky_set(void *ctx, int watch, int at, u32 events, bool is_new)
{
	return fails() ? -ENOSPC : kv_sock_system.watch_set(NULL, watch, at, events, is_new);
}

static int flaky_wait(void *ctx, int watch, struct kv_sock_ready *ready, u32 max, int ms)
{
	return fails() ? -EINTR : kv_sock_system.watch_wait(NULL, watch, ready, max, ms);
}

Test(command, a_call_of_the_system_that_fails_costs_a_client_at_most)
{
	close(fd);
	flaky = kv_sock_system;
	flaky.accept = flaky_accept;
	flaky.send = flaky_send;
	flaky.recv = flaky_recv;
	flaky.watch_set = flaky_set;
	flaky.watch_wait = flaky_wait;
	kv_sock_set(&flaky);
	take_seq(alpha, 3, 0, 7);
	for (fail_at = 1, nr_calls = fail_at; nr_calls >= fail_at && fail_at < 4000; fail_at += 1 + fail_at / 16) {
		nr_calls = 0;
		run_session();
		fake_env_advance(&fake, 100 * 1000000ull);	/* who could not be let in then is now */
		control_settle(control);
		cr_expect_eq(nr_clients(), 0);
	}
	kv_sock_set(NULL);
	fd = visitor(control);
	has(ask(control, fd, "pools"), "ok ");
}

/* Opening, with each of its calls failing. */
static int fail_listen(void *ctx, const char *path)
{
	return fails() ? -EMFILE : kv_sock_system.listen(NULL, path);
}

static int fail_watch(void *ctx)
{
	return fails() ? -EMFILE : kv_sock_system.watch(NULL);
}

static int fail_bell(void *ctx)
{
	return fails() ? -EMFILE : kv_sock_system.bell(NULL);
}

static int fail_folder(void *ctx, const char *path)
{
	return fails() ? -EACCES : kv_sock_system.folder(NULL, path);
}

static int open_other(struct kvmm_control **other)
{
	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;

	attr.dir = folder;
	attr.name = "other";
	attr.flags = KVMM_CONTROL_THREAD;
	return kvmm_control_open(&attr, other);
}

Test(command, opening_leaves_nothing_behind_where_it_fails)
{
	u64 bytes = kv_mem_bytes();
	struct kvmm_control *other = NULL;
	int err = -ENOMEM;

	for (u64 n = 1; err == -ENOMEM || err == -EAGAIN; n++) {
		fake_env_fail(&fake, n, false);
		err = open_other(&other);
		if (err)
			cr_expect_eq(kv_mem_bytes(), bytes);
	}
	cr_assert_eq(err, 0);
	kvmm_control_close(other);
	flaky = kv_sock_system;
	flaky.listen = fail_listen;
	flaky.watch = fail_watch;
	flaky.watch_set = flaky_set;
	flaky.bell = fail_bell;
	flaky.folder = fail_folder;
	kv_sock_set(&flaky);
	for (fail_at = 1; fail_at <= 6; fail_at++) {
		nr_calls = 0;
		cr_expect_lt(open_other(&other), 0, "%llu", (unsigned long long)fail_at);
		cr_expect_eq(kv_mem_bytes(), bytes);
	}
	nr_calls = 0;
	cr_assert_eq(open_other(&other), 0);
	kv_sock_set(NULL);
	kvmm_control_close(other);
}
