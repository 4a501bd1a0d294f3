// SPDX-License-Identifier: Apache-2.0
/*
 * Two pools whose evictions are followed name by name: a consumer of their events is told which names go.
 * One has classes with quotas, and pins of each type; the other has tenants with limits of each sort.
 */
#include "metrics_run.h"

#define NR_BLOCKS	48u
#define NR_PROMPTS	14u
#define MAX_NR		8u
#define NR_NAMES	(NR_PROMPTS * MAX_NR)

static u32 name_of(const kvmm_key_t *key)
{
	return (key->byte[0] - 1) * MAX_NR + key->byte[1];
}

/* ---- classes and pins ---- */

#define NR_CLASSES	3u
#define DEFAULT_CLASS	1u
#define NR_OUTSIDE	2u	/* a range of the last class */
#define CLASS_BLOCK_BYTES	64u

static struct {
	struct kvmm_pool *pool;
	kvmm_range_t range;
	struct kvmm_events *events;
	bool is_there[NR_NAMES];
	u32 class[NR_NAMES];
	u64 evicted[NR_CLASSES], demoted[NR_CLASSES], reached[NR_CLASSES];
	struct prompt pinned[4];
	u32 pin_type[4], nr_pinned;
	u64 pins[KVMM_NR_PIN_TYPES];
} classes;

/* After each call. */
static void see_evicted(void)
{
	struct kvmm_event removed[4 * NR_BLOCKS];
	u32 nr = read_removed(classes.events, removed, ARRAY_SIZE(removed));
	bool reached[NR_CLASSES] = { false };

	for (u32 i = 0; i < nr; i++) {
		u32 name = name_of(&removed[i].key);

		classes.evicted[classes.class[name]]++;
		reached[classes.class[name]] = true;
		classes.is_there[name] = false;
	}
	for (u32 c = 0; c < NR_CLASSES; c++)
		classes.reached[c] += reached[c];
}

/* What is registered is of the default class; a quota may want something of it at once. */
static void see_acquired(const struct prompt *prompt)
{
	see_evicted();
	for (u32 i = prompt->nr - prompt->nr_fresh; i < prompt->nr; i++) {
		classes.is_there[prompt->number * MAX_NR + i] = true;
		classes.class[prompt->number * MAX_NR + i] = DEFAULT_CLASS;
	}
}

static void set_class(const struct prompt *prompt)
{
	u32 class = any(NR_CLASSES), name = prompt->number * MAX_NR;
	int err = kvmm_class_set(classes.pool, prompt->ref, prompt->nr, class);

	if (err && err != -EPERM)
		must(err, "class_set");
	for (u32 i = 0; !err && i < prompt->nr; i++)
		classes.class[name + i] = class;
	see_evicted();
}

static void demote(const struct prompt *prompt)
{
	u32 class = any(NR_CLASSES), name = prompt->number * MAX_NR;

	must(kvmm_demote(classes.pool, prompt->ref, prompt->nr, class), "demote");
	for (u32 i = 0; i < prompt->nr; i++) {
		if (classes.class[name + i] <= class)
			continue;
		classes.demoted[classes.class[name + i]]++;
		classes.class[name + i] = class;
	}
	see_evicted();
}

static void pin(const struct prompt *prompt)
{
	u32 type = any(KVMM_NR_PIN_TYPES), i = classes.nr_pinned;

	if (i == ARRAY_SIZE(classes.pinned))
		return;
	must(kvmm_pin_many_as(classes.pool, prompt->ref, prompt->nr, type), "pin");
	classes.pinned[i] = *prompt;
	classes.pin_type[i] = type;
	classes.pins[type] += prompt->nr;
	classes.nr_pinned++;
}

static void unpin(void)
{
	struct prompt *prompt;

	if (!classes.nr_pinned)
		return;
	prompt = &classes.pinned[--classes.nr_pinned];
	must(kvmm_unpin_many_as(classes.pool, prompt->ref, prompt->nr,
				classes.pin_type[classes.nr_pinned]), "unpin");
	classes.pins[classes.pin_type[classes.nr_pinned]] -= prompt->nr;
}

/* No name twice: where one is missing, those up to the next one that is there are computed. */
static u32 nr_to_use(u32 number, u32 nr)
{
	const bool *is_there = classes.is_there + number * MAX_NR;
	u32 i = 0;

	while (i < nr && is_there[i])
		i++;
	while (i < nr && !is_there[i])
		i++;
	return i;
}

static void classes_use(void)
{
	static void (*const ops[])(const struct prompt *prompt) = { set_class, set_class, demote, pin };
	struct prompt prompt = { .number = any(NR_PROMPTS), .nr = 1 + any(MAX_NR) };

	prompt.nr = nr_to_use(prompt.number, prompt.nr);
	if (!any(4))
		unpin();
	if (use_prompt(classes.pool, &prompt, see_acquired))
		return;
	see_evicted();
	if (any(2))
		ops[any(ARRAY_SIZE(ops))](&prompt);
	put_prompt(classes.pool, &prompt);
	see_evicted();
}

static void classes_expect(void)
{
	static const char *const name[] = { "low", "mid", "high" };
	char more[32];

	expect_pins("kvmm_pinned_blocks", "classes", classes.pins);
	for (u32 c = 0; c < NR_CLASSES; c++) {
		u32 nr = 0, nr_outside = c == NR_CLASSES - 1 ? NR_OUTSIDE : 0;

		for (u32 i = 0; i < NR_NAMES; i++)
			nr += classes.is_there[i] && classes.class[i] == c;
		snprintf(more, sizeof(more), ",class=\"%s\"", name[c]);
		expect("kvmm_class_blocks", "classes", more, nr);
		expect("kvmm_class_outside_blocks", "classes", more, nr_outside);
		expect("kvmm_class_bytes", "classes", more, (nr + nr_outside) * CLASS_BLOCK_BYTES);
		if (c < 2)
			expect("kvmm_class_quota_blocks", "classes", more, c ? 24 : 12);
		expect("kvmm_class_evicted_blocks_total", "classes", more, classes.evicted[c]);
		expect("kvmm_class_demoted_blocks_total", "classes", more, classes.demoted[c]);
		expect("kvmm_class_reached_total", "classes", more, classes.reached[c]);
	}
}

static void watch(struct kvmm_pool *pool, struct kvmm_events **events)
{
	struct kvmm_events_attr attr = KVMM_EVENTS_ATTR_INIT;

	attr.ring = 1024;
	must(kvmm_events_open(pool, &attr, events), "events");
}

static struct kvmm_pool *classes_make(const char *dir)
{
	static const struct kvmm_class table[NR_CLASSES] = { { "low", 12, 0, 0, 0 },
							     { "mid", 0, 500, 0, 0 }, { "high", 0, 0, 0, 0 } };
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .classes = table,
					 .nr_classes = NR_CLASSES, .default_class = DEFAULT_CLASS };
	struct kvmm_range_attr range = { .size = sizeof(range), .nr = NR_OUTSIDE,
					 .cls = KVMM_IN_CLASS(NR_CLASSES - 1) };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .name = "classes",
				       .nr_blocks = NR_BLOCKS, .block_bytes = CLASS_BLOCK_BYTES,
				       .policy = "lru", .evict = &evict };

	must(kvmm_pool_create(&attr, &classes.pool), "pool");
	must(kvmm_range_alloc_attr(classes.pool, &range, &classes.range), "range");
	watch(classes.pool, &classes.events);
	return classes.pool;
}

static void classes_end(void)
{
	kvmm_events_close(classes.events);
	must(kvmm_range_free(classes.pool, classes.range), "free");
	kvmm_pool_destroy(classes.pool);
}

const struct part metrics_classes = { classes_make, classes_use, classes_expect, classes_end };

/* ---- tenants ---- */

#define NR_LODGERS	3u
#define NR_LODGINGS	36u	/* less than the others may have together */
#define NR_RENTED	12u

static const struct kvmm_tenant_attr limits[NR_LODGERS] = {
	{ sizeof(limits[0]), 2, 16, UINT32_MAX, UINT32_MAX },
	{ sizeof(limits[0]), 0, 6, 14, 22 },
	{ sizeof(limits[0]), 0, 0, 10, 22 },
};

static struct {
	struct kvmm_pool *pool;
	struct kvmm_events *events;
	struct lodger {
		u32 usage;
		u64 peak, low, high, max, refused, reclaimed, evicted;
		kvmm_mut_t rented[NR_RENTED];
		u32 nr_rented;
	} of[NR_LODGERS];
} lodgers;

static u64 beyond(u64 usage, u32 limit)
{
	return usage > limit ? usage - limit : 0;
}

/* @who has asked for @nr, or nobody has. @own: so many at most go for the limits of their tenant. */
static void see_losses(u32 who, u64 own)
{
	struct kvmm_event removed[4 * NR_BLOCKS];
	u32 nr = read_removed(lodgers.events, removed, ARRAY_SIZE(removed));
	u32 lost[NR_LODGERS] = { 0 };

	for (u32 i = 0; i < nr; i++)
		lost[removed[i].domain.tenant]++;
	for (u32 i = 0; i < NR_LODGERS; i++) {
		struct lodger *lodger = &lodgers.of[i];

		for (u32 k = 0; k < lost[i] && i != who; k++)
			lodger->low += lodger->usage - k <= limits[i].low;
		lodger->reclaimed += i == who ? min((u64)lost[i], own) : 0;
		lodger->evicted += lost[i];
		lodger->usage -= lost[i];
	}
}

/* An allocation of @nr has ended so. */
static void see_allocation(u32 who, u32 nr, int err)
{
	struct lodger *lodger = &lodgers.of[who];
	u64 max = beyond(lodger->usage + nr, limits[who].max);
	u64 high = beyond(lodger->usage + nr, limits[who].high);

	if (err && err != -EDQUOT && err != -ENOSPC)
		must(err, "an allocation of a tenant");
	see_losses(who, max(max, high));
	lodger->refused += err == -EDQUOT;
	if (!nr || err == -ENOSPC)
		return;
	lodger->high += high > 0;
	lodger->max += max > 0;
	lodger->usage += err ? 0 : nr;
	lodger->peak = max(lodger->peak, (u64)lodger->usage);
}

static void stay(u32 who)
{
	struct prompt prompt = { .number = any(NR_PROMPTS), .nr = 1 + any(MAX_NR), .tenant = who };
	kvmm_key_t key[MAX_NR];
	struct kvmm_prefix prefix = { .keys = key, .nr = prompt.nr, .domain = { .tenant = who } };
	int nr_hits, err;

	name_keys(prompt.number, 0, prompt.nr, key);
	nr_hits = kvmm_prefix_len(lodgers.pool, &prefix);
	must(nr_hits, "prefix_len");
	err = use_prompt(lodgers.pool, &prompt, NULL);
	see_allocation(who, prompt.nr - nr_hits, err);
	if (!err)
		put_prompt(lodgers.pool, &prompt);
}

static void rent(u32 who)
{
	struct lodger *lodger = &lodgers.of[who];
	u32 nr = 1 + any(4);
	int err;

	if (lodger->nr_rented + nr > NR_RENTED)
		return;
	err = kvmm_alloc_for(lodgers.pool, nr, who, lodger->rented + lodger->nr_rented);
	see_allocation(who, nr, err);
	lodger->nr_rented += err ? 0 : nr;
}

static void move_out(u32 who)
{
	struct lodger *lodger = &lodgers.of[who];
	u32 nr = lodger->nr_rented ? 1 + any(lodger->nr_rented) : 0;

	lodger->nr_rented -= nr;
	lodger->usage -= nr;
	must(kvmm_free(lodgers.pool, lodger->rented + lodger->nr_rented, nr), "free");
}

static void squeeze(u32 who)
{
	struct kvmm_tenant_attr less = limits[who];

	if (any(4))
		return;
	less.high = lodgers.of[who].usage - min(any(5), lodgers.of[who].usage);
	must(kvmm_tenant_set(lodgers.pool, who, &less), "tenant_set");
	must(kvmm_tenant_set(lodgers.pool, who, &limits[who]), "tenant_set");
	see_losses(who, UINT64_MAX);
}

static void lodgers_use(void)
{
	static void (*const ops[])(u32 who) = { stay, stay, stay, rent, move_out, squeeze };

	ops[any(ARRAY_SIZE(ops))](any(NR_LODGERS));
}

static void lodgers_expect(void)
{
	char more[32];

	for (u32 i = 0; i < NR_LODGERS; i++) {
		const struct lodger *lodger = &lodgers.of[i];

		snprintf(more, sizeof(more), ",tenant=\"%u\"", i);
		expect("kvmm_tenant_blocks", "lodgers", more, lodger->usage);
		expect("kvmm_tenant_peak_blocks", "lodgers", more, lodger->peak);
		expect("kvmm_tenant_min_blocks", "lodgers", more, limits[i].min);
		expect("kvmm_tenant_low_blocks", "lodgers", more, limits[i].low);
		if (i)
			expect("kvmm_tenant_high_blocks", "lodgers", more, limits[i].high);
		expect("kvmm_tenant_low_events_total", "lodgers", more, lodger->low);
		expect("kvmm_tenant_high_events_total", "lodgers", more, lodger->high);
		expect("kvmm_tenant_max_events_total", "lodgers", more, lodger->max);
		expect("kvmm_tenant_refused_total", "lodgers", more, lodger->refused);
		expect("kvmm_tenant_reclaimed_blocks_total", "lodgers", more, lodger->reclaimed);
		expect("kvmm_tenant_evicted_blocks_total", "lodgers", more, lodger->evicted);
	}
}

static struct kvmm_pool *lodgers_make(const char *dir)
{
	lodgers.pool = make_pool("lodgers", NR_LODGINGS, 0, "lru");
	for (u32 i = 0; i < NR_LODGERS; i++)
		must(kvmm_tenant_set(lodgers.pool, i, &limits[i]), "tenant_set");
	watch(lodgers.pool, &lodgers.events);
	return lodgers.pool;
}

static void lodgers_end(void)
{
	kvmm_events_close(lodgers.events);
	kvmm_pool_destroy(lodgers.pool);
}

const struct part metrics_lodgers = { lodgers_make, lodgers_use, lodgers_expect, lodgers_end };
