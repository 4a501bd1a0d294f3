// SPDX-License-Identifier: Apache-2.0
/* Metrics: what is refused, what is cut, and no memory. Their numbers are metrics.py's. */
#include "ctl/metrics.h"
#include "pool/internal.h"
#include "tests/ctl/two_pools.h"

#define TEXT	(1u << 20)

static char text[TEXT];

static struct kvmm_metrics_attr of(struct kvmm_pool **pool)
{
	struct kvmm_metrics_attr attr = { .size = sizeof(attr), .max_tenants = 64, .pools = pool,
					  .nr_pools = 1 };

	return attr;
}

static int write_text(struct kvmm_metrics_attr *attr, const char *what, char *buf, size_t bytes)
{
	attr->what = what;
	return kvmm_metrics_text(attr, buf, bytes);
}

Test(metrics, refuses_nonsense)
{
	struct kvmm_pool *pool = make_pool(8), *none = NULL;
	struct kvmm_metrics_attr attr = of(&pool);

	cr_expect_eq(kvmm_metrics_text(NULL, text, TEXT), -EINVAL);
	cr_expect_eq(kvmm_metrics_text(&attr, NULL, 1), -EINVAL);
	cr_expect_eq(write_text(&attr, "table", NULL, 1), -EINVAL);
	cr_expect_eq(write_text(&attr, "meminfo", text, TEXT), -ENOENT);
	attr.format = KVMM_NR_METRICS_FORMATS;
	cr_expect_eq(kvmm_metrics_text(&attr, text, TEXT), -EINVAL);
	attr = of(&none);
	cr_expect_eq(kvmm_metrics_text(&attr, text, TEXT), -EINVAL);
	attr.pools = NULL;
	cr_expect_eq(kvmm_metrics_text(&attr, text, TEXT), -EINVAL);
	attr = of(&pool);
	attr.nr_pools = 1025;
	cr_expect_eq(kvmm_metrics_text(&attr, text, TEXT), -EINVAL);
	attr = of(&pool);
	attr.reserved = 1;
	cr_expect_eq(kvmm_metrics_text(&attr, text, TEXT), -EINVAL);
	end_pool(pool);
}

/* What stood there before is nobody's answer. */
Test(metrics, nothing_is_in_the_buffer_after_an_error)
{
	struct kvmm_pool *pool = make_pool(8);
	struct kvmm_metrics_attr attr = of(&pool);

	strcpy(text, "before");
	cr_expect_eq(kvmm_metrics_text(NULL, text, TEXT), -EINVAL);
	cr_expect_str_empty(text);
	strcpy(text, "before");
	attr.reserved = 1;
	cr_expect_eq(write_text(&attr, "vmstat", text, TEXT), -EINVAL);
	cr_expect_str_empty(text);
	attr.reserved = 0;
	strcpy(text, "before");
	cr_expect_eq(write_text(&attr, "meminfo", text, TEXT), -ENOENT);
	cr_expect_str_empty(text);
	end_pool(pool);
}

/* Two pools are zones of two nodes. */
Test(metrics, a_pool_is_a_node)
{
	struct kvmm_pool *pools[2] = { make_pool(8), make_pool(4) };
	const char *names[2] = { "one", "two" };
	struct kvmm_metrics_attr attr = of(pools);

	attr.nr_pools = 2;
	attr.names = names;
	for (u32 i = 0; i < 2; i++) {
		cr_assert_gt(write_text(&attr, i ? "pagetypeinfo" : "buddyinfo", text, TEXT), 0);
		cr_expect_not_null(strstr(text, i ? "Node    0, zone      one" : "Node 0, zone      one"), "%s", text);
		cr_expect_not_null(strstr(text, i ? "Node    1, zone      two" : "Node 1, zone      two"), "%s", text);
	}
	for (u32 i = 0; i < 2; i++)
		end_pool(pools[i]);
}

Test(metrics, of_no_pool_are_heads_only)
{
	struct kvmm_metrics_attr attr = KVMM_METRICS_ATTR_INIT;
	int len = kvmm_metrics_text(&attr, text, TEXT);

	cr_assert_gt(len, 1000);
	cr_expect_null(strchr(text, '{'));
	cr_expect_str_eq(text + len - 6, "# EOF\n");
}

Test(metrics, a_short_buffer_cuts_and_says_how_long)
{
	struct kvmm_pool *pool = make_cache(8, "lru");
	struct kvmm_metrics_attr attr = of(&pool);
	int len = kvmm_metrics_text(&attr, text, TEXT);
	char few[100];

	cr_assert_eq(kvmm_metrics_text(&attr, NULL, 0), len);
	cr_assert_eq(kvmm_metrics_text(&attr, few, sizeof(few)), len);
	cr_expect_eq(strlen(few), sizeof(few) - 1);
	cr_expect_eq(memcmp(few, text, sizeof(few) - 1), 0);
	end_pool(pool);
}

/* In the order of struct account, from nr_low on. */
static const char *const events[] = { "low_events", "high_events", "max_events", "refused",
				      "reclaimed_blocks", "evicted_blocks" };

static void count_events(struct kvmm_pool *pool, u32 times)
{
	for (u32 i = QUOTA_REST + 1; i <= 4; i++)
		for (u32 k = 0; k < ARRAY_SIZE(events); k++)
			(&pool->order.quotas->account[i]->nr_low)[k] = times * (10 + k) * i;
}

/* Two limited tenants are shown, and the sum of two others; those without limits are first in line. */
Test(metrics, tenants_are_bounded)
{
	char want[128];
	struct kvmm_pool *pool = make_cache(64, "lru");
	struct kvmm_metrics_attr attr = of(&pool);
	struct kvmm_tenant_attr limits = KVMM_TENANT_ATTR_INIT;
	kvmm_mut_t mut;

	for (u32 i = 1; i <= 4; i++) {
		cr_assert_eq(kvmm_tenant_set(pool, i, &limits), 0);
		cr_assert_eq(kvmm_alloc_for(pool, 1, i, &mut), 0);
	}
	attr.max_tenants = 3;
	cr_assert_gt(kvmm_metrics_text(&attr, text, TEXT), 0);
	cr_expect_not_null(strstr(text, "kvmm_tenant_blocks{pool=\"pool\",device=\"host\",tenant=\"rest\"} 0\n"));
	cr_expect_not_null(strstr(text, "tenant=\"2\"} 1\n"));
	cr_expect_null(strstr(text, "tenant=\"3\"}"));
	cr_expect_null(strstr(text, "} 4294967295\n"), "no limit is no sample");
	cr_expect_null(strstr(text, "kvmm_tenant_max_blocks{"), "nor is a sum of limits");
	cr_expect_not_null(strstr(text, "kvmm_tenant_blocks{pool=\"pool\",device=\"host\",tenant=\"others\"} 2\n"));
	cr_expect_not_null(strstr(text, "kvmm_tenant_peak_blocks{pool=\"pool\",device=\"host\",tenant=\"others\"} 2\n"));
	count_events(pool, 1);
	cr_assert_gt(kvmm_metrics_text(&attr, text, TEXT), 0);
	for (u32 k = 0; k < ARRAY_SIZE(events); k++) {
		snprintf(want, sizeof(want), "kvmm_tenant_%s_total{pool=\"pool\",device=\"host\",tenant=\"others\"} %u\n",
			 events[k], (10 + k) * (3 + 4));
		cr_expect_not_null(strstr(text, want), "%s", want);
	}
	count_events(pool, 0);
	end_pool(pool);
}

Test(metrics, a_tier_that_two_pools_share_is_one)
{
	struct kvmm_pool *pools[2] = { make_cache(8, "lru"), make_cache(8, "lru") };
	struct kvmm_tier_attr tier_attr = { .size = sizeof(tier_attr), .numa_node = -1,
					    .capacity_blocks = 4, .block_bytes = TEST_BLOCK_BYTES };
	struct kvmm_metrics_attr attr = of(pools);
	struct kvmm_tier *tier;

	cr_assert_eq(kvmm_tier_host_create(&tier_attr, &tier), 0);
	for (u32 i = 0; i < 2; i++)
		cr_assert_eq(kvmm_tier_attach(pools[i], tier, NULL), 0);
	attr.nr_pools = 2;
	cr_assert_gt(kvmm_metrics_text(&attr, text, TEXT), 0);
	cr_expect_not_null(strstr(text, "tier=\"host\"} "));
	cr_expect_null(strstr(text, "host#1"));
	for (u32 i = 0; i < 2; i++)
		end_pool(pools[i]);
	kvmm_tier_destroy(tier);
}

/* Of two pools: the worst average, and the sum of all that is counted. */
Test(metrics, in_the_layouts_of_linux_each_number_has_its_name)
{
	static struct pool_view view[2];
	const struct views views = { .pool = view, .nr_pools = 2 };
	struct kv_text out;

	for (u32 i = 0; i < KVMM_NR_AVGS; i++) {
		view[0].glance.pressure.some.avg[i] = (3 + i) << KVMM_AVG_SHIFT;
		view[1].glance.pressure.full.avg[i] = (7 + i) << KVMM_AVG_SHIFT;
	}
	for (u32 i = 0; i < 2; i++) {
		view[i].glance.pressure.some.total_us = 10 + i;
		view[i].glance.pressure.full.total_us = 20 + i;
		view[i].glance.below.loads = 1;
		view[i].glance.below.offloads = 2;
		view[i].glance.step.failed_moves = 3;
		view[i].glance.step.void_moves = 100;
		view[i].glance.elastic.shrunk_bytes = 4;
		view[i].glance.elastic.grown_bytes = 5;
	}
	kv_text_init(&out, TEXT);
	cr_assert_eq(metrics_write_kernel(&views, "pressure/memory", &out), 0);
	kv_text_bytes(&out, "", 1);
	cr_expect_str_eq(out.buf, "some avg10=3.00 avg60=4.00 avg300=5.00 total=21\n"
				  "full avg10=7.00 avg60=8.00 avg300=9.00 total=41\n");
	kv_text_exit(&out);
	cr_assert_eq(metrics_write_kernel(&views, "vmstat", &out), 0);
	kv_text_bytes(&out, "", 1);
	cr_expect_not_null(strstr(out.buf, "\npgmigrate_fail 6\npswpin 2\npswpout 4\n"
					   "balloon_inflate 8\nballoon_deflate 10\n"), "%s", out.buf);
	kv_text_exit(&out);
}

Test(metrics, limits_of_buckets_are_seconds)
{
	struct kvmm_pool *pool = make_cache(8, "lru");
	struct kvmm_metrics_attr attr = of(&pool);

	cr_assert_gt(kvmm_metrics_text(&attr, text, TEXT), 0);
	cr_expect_not_null(strstr(text, ",le=\"0.001\"} 0\n"));
	cr_expect_not_null(strstr(text, ",le=\"1800.000\"} 0\n"));
	cr_expect_not_null(strstr(text, ",le=\"+Inf\"} 0\n"));
	end_pool(pool);
}

/* Labels come from callers: whatever ends a value is written as it has to be. */
static void expect_label(const char *name, const char *label)
{
	struct kvmm_pool *pool = make_pool(8);
	struct kvmm_metrics_attr attr = of(&pool);

	attr.names = &name;
	cr_assert_gt(kvmm_metrics_text(&attr, text, TEXT), 0);
	cr_expect_not_null(strstr(text, label));
	end_pool(pool);
}

TEST_CALL(metrics, names_are_escaped,
	  expect_label("a\"b\\c\nd\xff", "{pool=\"a\\\"b\\\\c\\nd?\",device=\"host\"}"))

/* Pools whose names differ are two, in whatever language. */
TEST_CALL(metrics, names_are_utf8,
	  expect_label("\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80 \xc2\x9b \xe6\xbc \xed\xa0\x80 \xc0\xaf\x1b",
		       "{pool=\"\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80 ?? ?? ??? ???\",device"))

Test(metrics, a_name_is_a_word_where_readers_go_by_blanks)
{
	struct kvmm_pool *pool = make_pool(8);
	struct kvmm_metrics_attr attr = of(&pool);
	const char *name = "a b\nNode 7\xc3\xa9\xff";

	attr.names = &name;
	cr_assert_gt(write_text(&attr, "buddyinfo", text, TEXT), 0);
	cr_expect_eq(strncmp(text, "Node 0, zone a_b_Node_7\xc3\xa9_ ", 27), 0, "%s", text);
	cr_expect_eq(strchr(text, '\n')[1], '\0');
	end_pool(pool);
}

/* All samples of the closed one are its own family's. */
Test(metrics, a_closed_pool_is_left_out_and_said_to_be_closed)
{
	static const char *const names[] = { "closed", "open" };
	struct kvmm_pool *pools[] = { make_pool(8), make_pool(8) };
	struct kvmm_metrics_attr attr = of(pools);
	u32 nr = 0;

	attr.nr_pools = 2;
	attr.names = names;
	kv_lock(&pools[0]->lock);
	pool_poison(pools[0]);
	kv_unlock(&pools[0]->lock);
	cr_assert_gt(kvmm_metrics_text(&attr, text, TEXT), 0);
	cr_expect_not_null(strstr(text, "\nkvmm_pool_closed{pool=\"closed\",device=\"host\"} 1\n"));
	cr_expect_not_null(strstr(text, "\nkvmm_pool_closed{pool=\"open\",device=\"host\"} 0\n"));
	cr_expect_not_null(strstr(text, "\nkvmm_capacity_blocks{pool=\"open\",device=\"host\"} 8\n"));
	for (const char *at = text; (at = strstr(at, "pool=\"closed\"")); at++)
		nr++;
	cr_expect_eq(nr, 1);
	cr_assert_gt(write_text(&attr, "vmstat", text, TEXT), 0);
	cr_expect_not_null(strstr(text, "nr_free_pages 8\n"));
	cr_assert_gt(write_text(&attr, "buddyinfo", text, TEXT), 0);
	cr_expect_null(strstr(text, "zone closed"));
	cr_expect_not_null(strstr(text, "Node 1, zone"));
	for (u32 i = 0; i < 2; i++)
		kvmm_pool_destroy(pools[i]);
}

/* Every allocation fails once; the last time none does. */
static void fail_each(const char *what)
{
	struct kvmm_pool *pool;
	struct kvmm_metrics_attr attr;
	struct kvmm_tenant_attr limits = KVMM_TENANT_ATTR_INIT;
	u64 nr_live;
	int ret;

	fake_env_install(&fake);
	pool = make_cache(64, "lru");
	cr_assert_eq(kvmm_tenant_set(pool, 1, &limits), 0);
	attr = of(&pool);
	nr_live = fake.nr_live;
	for (u64 n = 1;; n++) {
		fake_env_fail(&fake, n, false);
		strcpy(text, "before");
		ret = write_text(&attr, what, text, TEXT);
		cr_expect_eq(fake.nr_live, nr_live, "%s: allocation %llu", what, (unsigned long long)n);
		if (!fake_env_failed(&fake))
			break;
		cr_expect_eq(ret, -ENOMEM, "%s: allocation %llu: %d", what, (unsigned long long)n, ret);
		cr_expect_str_empty(text);
	}
	cr_expect_gt(ret, 0);
	end_pool(pool);
	fake_env_remove(&fake);
}

Test(metrics, no_memory_leaves_nothing)
{
	fail_each(NULL);
	fail_each("buddyinfo");
	fail_each("pagetypeinfo");
	fail_each("vmstat");
	fail_each("pressure/memory");
	fail_each("slabinfo");
}

Test(metrics, without_memory_the_table_is_empty)
{
	struct kvmm_metrics_attr attr = KVMM_METRICS_ATTR_INIT;

	fake_env_install(&fake);
	fake_env_fail(&fake, 1, false);
	strcpy(text, "before");
	cr_expect_eq(write_text(&attr, "table", text, TEXT), -ENOMEM);
	cr_expect_str_empty(text);
	fake_env_fail(&fake, 0, false);
	cr_expect_eq(fake.nr_live, 0);
	fake_env_remove(&fake);
}

/* ---- by the socket ---- */

TestSuite(metrics_socket, .init = set_up, .fini = tear_down);

Test(metrics_socket, each_line_has_an_answer_of_the_length_that_it_says)
{
	static const char *const lines[] = { "metrics", "metrics prometheus alpha", "metrics-families",
					     "buddyinfo", "pagetypeinfo alpha", "slabinfo", "vmstat",
					     "pressure-text" };

	for (u32 i = 0; i < ARRAY_SIZE(lines); i++) {
		const char *answer = ask(control, fd, lines[i]);

		cr_expect_eq(strncmp(answer, "ok ", 3), 0, "%s: %.60s", lines[i], answer);
		cr_expect_eq((size_t)atoi(answer + 3), strlen(strchr(answer, '\n') + 1), "%s", lines[i]);
	}
	has(ask(control, fd, "buddyinfo"), "Node 0, zone    alpha ");
	cr_expect_eq(strncmp(ask(control, fd, "vmstat gamma"), "err ", 4), 0);
}

/* Both words may be left out, and then it is all pools in the format that has an end. */
Test(metrics_socket, in_that_format_of_that_pool)
{
	static const char *const ofs[] = { "metrics", "metrics openmetrics", "metrics prometheus",
					   "metrics openmetrics beta", "metrics prometheus beta" };

	for (u32 i = 0; i < ARRAY_SIZE(ofs); i++) {
		const char *answer = ask(control, fd, ofs[i]);

		cr_expect_eq(!strstr(answer, "# EOF\n"), i == 2 || i == 4, "%s", ofs[i]);
		cr_expect_eq(!strstr(answer, "kvmm_free_blocks{pool=\"alpha\",device=\"host\"} 16\n"), i > 2, "%s",
			     ofs[i]);
		cr_expect_not_null(strstr(answer, "kvmm_free_blocks{pool=\"beta\",device=\"host\"} 16\n"), "%s", ofs[i]);
	}
	has(ask(control, fd, "metrics openmetrics gamma"), "there is no pool 'gamma'");
	has(ask(control, fd, "metrics xml"), "err 22 ");
	has(ask(control, fd, "metrics xml"), "a format is openmetrics or prometheus");
}
