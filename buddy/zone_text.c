// SPDX-License-Identifier: Apache-2.0
/*
 * buddyinfo and pagetypeinfo, letter for letter in the layout of Linux (mm/vmstat.c), so that the
 * collectors and scripts that read /proc read a zone as well. The zone is node 0, zone "kv".
 *
 * Counts are copied under the zone's lock, text is made of the copy without it.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <kv/lock.h>
#include <kv/zone.h>

#include "internal.h"

static const struct kv_zone_label default_label = { 0, "kv" };

/* In the order of Linux. */
static const struct {
	u8		mobility;
	const char	*name;
} types[] = {
	{ KVMM_UNMOVABLE,	"Unmovable" },
	{ KVMM_MOVABLE,		"Movable" },
	{ KVMM_RECLAIMABLE,	"Reclaimable" },
};

static_assert(ARRAY_SIZE(types) == KVMM_NR_MOBILITY, "a line for each class");

struct snapshot {
	u64	free[KVMM_NR_MOBILITY * KVMM_NR_ORDERS];
	u64	nr_pageblocks[KVMM_NR_MOBILITY];
	u32	pageblock_order;
	struct kv_zone_label label;
};

/* Goes on counting when the buffer is full. */
struct text {
	char	*buf;		/* the caller's */
	size_t	room;
	size_t	len;		/* of the whole text so far */
};

static __printf(2, 3) void add(struct text *text, const char *fmt, ...)
{
	size_t left = text->len < text->room ? text->room - text->len : 0;
	va_list args;

	va_start(args, fmt);
	text->len += vsnprintf(left ? text->buf + text->len : NULL, left, fmt, args);
	va_end(args);
}

static void take_snapshot(struct kvmm_zone *zone, struct snapshot *snap)
{
	memset(snap->nr_pageblocks, 0, sizeof(snap->nr_pageblocks));
	snap->pageblock_order = zone->pageblock_order;
	snap->label = default_label;
	kv_zone_count_orders(zone, snap->free);
	kv_lock(&zone->lock);
	for (u32 i = 0; i < nr_pageblocks(zone); i++)
		snap->nr_pageblocks[zone->block_class[i]]++;
	kv_unlock(&zone->lock);
}

static void add_buddyinfo(struct text *text, const struct snapshot *snap)
{
	add(text, "Node %d, zone %8s ", snap->label.node, snap->label.name);
	for (unsigned int order = 0; order < KVMM_NR_ORDERS; order++) {
		unsigned long nr = 0;

		for (unsigned int class = 0; class < KVMM_NR_MOBILITY; class++)
			nr += snap->free[class * KVMM_NR_ORDERS + order];
		add(text, "%6lu ", nr);
	}
	add(text, "\n");
}

static void add_free_by_type(struct text *text, const struct snapshot *snap)
{
	add(text, "%-43s ", "Free pages count per migrate type at order");
	for (unsigned int order = 0; order < KVMM_NR_ORDERS; order++)
		add(text, "%6u ", order);
	add(text, "\n");
	for (unsigned int i = 0; i < ARRAY_SIZE(types); i++) {
		const u64 *nr = &snap->free[types[i].mobility * KVMM_NR_ORDERS];

		add(text, "Node %4d, zone %8s, type %12s ", snap->label.node, snap->label.name,
		    types[i].name);
		for (unsigned int order = 0; order < KVMM_NR_ORDERS; order++)
			add(text, "%6lu ", (unsigned long)nr[order]);
		add(text, "\n");
	}
}

static void add_pageblocks_by_type(struct text *text, const struct snapshot *snap)
{
	add(text, "\n%-23s", "Number of blocks type ");
	for (unsigned int i = 0; i < ARRAY_SIZE(types); i++)
		add(text, "%12s ", types[i].name);
	add(text, "\nNode %d, zone %8s ", snap->label.node, snap->label.name);
	for (unsigned int i = 0; i < ARRAY_SIZE(types); i++)
		add(text, "%12lu ", (unsigned long)snap->nr_pageblocks[types[i].mobility]);
	add(text, "\n");
}

static void add_pagetypeinfo(struct text *text, const struct snapshot *snap)
{
	add(text, "Page block order: %u\n", snap->pageblock_order);
	add(text, "Pages per block:  %lu\n\n", 1ul << snap->pageblock_order);
	add_free_by_type(text, snap);
	add_pageblocks_by_type(text, snap);
}

static const struct {
	const char *name;
	void (*add)(struct text *text, const struct snapshot *snap);
} files[] = {
	{ "buddyinfo",		add_buddyinfo },
	{ "pagetypeinfo",	add_pagetypeinfo },
};

static int print(const struct snapshot *snap, const char *what, char *buf, size_t len)
{
	struct text text = { buf, len, 0 };

	for (unsigned int i = 0; i < ARRAY_SIZE(files); i++) {
		if (strcmp(files[i].name, what))
			continue;
		files[i].add(&text, snap);
		return text.len;
	}
	if (len)
		buf[0] = '\0';
	return -ENOENT;
}

static bool is_file(const char *what)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(files); i++)
		if (!strcmp(files[i].name, what))
			return true;
	return false;
}

int kvmm_zone_text(struct kvmm_zone *zone, const char *what, char *buf, size_t len)
{
	struct snapshot snap;

	if (!zone || !what || (len && !buf))
		return -EINVAL;
	if (is_file(what))
		take_snapshot(zone, &snap);
	return print(&snap, what, buf, len);
}

int kv_zone_glance_text(const struct kv_zone_glance *glance, const char *what,
		        struct kv_zone_label label, char *buf, size_t len)
{
	struct snapshot snap = { .pageblock_order = glance->pageblock_order, .label = label };

	memcpy(snap.free, glance->free, sizeof(snap.free));
	memcpy(snap.nr_pageblocks, glance->nr_pageblocks, sizeof(snap.nr_pageblocks));
	return print(&snap, what, buf, len);
}
