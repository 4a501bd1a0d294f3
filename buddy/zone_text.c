// SPDX-License-Identifier: Apache-2.0
/*
 * buddyinfo and pagetypeinfo, letter for letter in the layout of Linux (mm/vmstat.c), so that the
 * collectors and scripts that read /proc read a zone as well. The zone is node 0, zone "kv".
 *
 * Counts are copied under the zone's lock, text is made of the copy without it.
 */
#include <string.h>

#include <kv/buf.h>
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

static void add_buddyinfo(struct kv_buf *buf, const struct snapshot *snap)
{
	kv_buf_printf(buf, "Node %d, zone %8s ", snap->label.node, snap->label.name);
	for (unsigned int order = 0; order < KVMM_NR_ORDERS; order++) {
		unsigned long nr = 0;

		for (unsigned int class = 0; class < KVMM_NR_MOBILITY; class++)
			nr += snap->free[class * KVMM_NR_ORDERS + order];
		kv_buf_printf(buf, "%6lu ", nr);
	}
	kv_buf_printf(buf, "\n");
}

static void add_free_by_type(struct kv_buf *buf, const struct snapshot *snap)
{
	kv_buf_printf(buf, "%-43s ", "Free pages count per migrate type at order");
	for (unsigned int order = 0; order < KVMM_NR_ORDERS; order++)
		kv_buf_printf(buf, "%6u ", order);
	kv_buf_printf(buf, "\n");
	for (unsigned int i = 0; i < ARRAY_SIZE(types); i++) {
		const u64 *nr = &snap->free[types[i].mobility * KVMM_NR_ORDERS];

		kv_buf_printf(buf, "Node %4d, zone %8s, type %12s ", snap->label.node, snap->label.name,
		    types[i].name);
		for (unsigned int order = 0; order < KVMM_NR_ORDERS; order++)
			kv_buf_printf(buf, "%6lu ", (unsigned long)nr[order]);
		kv_buf_printf(buf, "\n");
	}
}

static void add_pageblocks_by_type(struct kv_buf *buf, const struct snapshot *snap)
{
	kv_buf_printf(buf, "\n%-23s", "Number of blocks type ");
	for (unsigned int i = 0; i < ARRAY_SIZE(types); i++)
		kv_buf_printf(buf, "%12s ", types[i].name);
	kv_buf_printf(buf, "\nNode %d, zone %8s ", snap->label.node, snap->label.name);
	for (unsigned int i = 0; i < ARRAY_SIZE(types); i++)
		kv_buf_printf(buf, "%12lu ", (unsigned long)snap->nr_pageblocks[types[i].mobility]);
	kv_buf_printf(buf, "\n");
}

static void add_pagetypeinfo(struct kv_buf *buf, const struct snapshot *snap)
{
	kv_buf_printf(buf, "Page block order: %u\n", snap->pageblock_order);
	kv_buf_printf(buf, "Pages per block:  %lu\n\n", 1ul << snap->pageblock_order);
	add_free_by_type(buf, snap);
	add_pageblocks_by_type(buf, snap);
}

static const struct {
	const char *name;
	void (*add)(struct kv_buf *buf, const struct snapshot *snap);
} files[] = {
	{ "buddyinfo",		add_buddyinfo },
	{ "pagetypeinfo",	add_pagetypeinfo },
};

static int print(const struct snapshot *snap, const char *what, char *buf, size_t bytes)
{
	struct kv_buf text = { buf, bytes, 0 };

	for (unsigned int i = 0; i < ARRAY_SIZE(files); i++) {
		if (strcmp(files[i].name, what))
			continue;
		files[i].add(&text, snap);
		return text.len;
	}
	if (bytes)
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

int kvmm_zone_text(struct kvmm_zone *zone, const char *what, char *buf, size_t bytes)
{
	struct snapshot snap;

	if (kv_inherited(zone))
		return -ECHILD;
	if (!zone || !what || (bytes && !buf))
		return -EINVAL;
	if (is_file(what))
		take_snapshot(zone, &snap);
	return print(&snap, what, buf, bytes);
}

int kv_zone_glance_text(const struct kv_zone_glance *glance, const char *what,
		        struct kv_zone_label label, char *buf, size_t bytes)
{
	struct snapshot snap = { .pageblock_order = glance->pageblock_order, .label = label };

	memcpy(snap.free, glance->free, sizeof(snap.free));
	memcpy(snap.nr_pageblocks, glance->nr_pageblocks, sizeof(snap.nr_pageblocks));
	return print(&snap, what, buf, bytes);
}
