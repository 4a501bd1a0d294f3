// SPDX-License-Identifier: Apache-2.0
/*
 * buddyinfo and pagetypeinfo, letter for letter in the layout of Linux (mm/vmstat.c), so that the
 * collectors and scripts that read /proc read a zone as well.
 */
#include <string.h>

#include <kv/buf.h>
#include <kv/zone.h>

#include "internal.h"

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

/* The view that is shown, and its name. */
struct view {
	const struct kv_zone_glance *glance;
	struct kv_zone_label label;
};

static void add_buddyinfo(struct kv_buf *buf, const struct view *view)
{
	kv_buf_printf(buf, "Node %d, zone %8s ", view->label.node, view->label.name);
	for (unsigned int order = 0; order < KVMM_NR_ORDERS; order++) {
		unsigned long nr = 0;

		for (unsigned int class = 0; class < KVMM_NR_MOBILITY; class++)
			nr += view->glance->free[class * KVMM_NR_ORDERS + order];
		kv_buf_printf(buf, "%6lu ", nr);
	}
	kv_buf_printf(buf, "\n");
}

static void add_pagetypeinfo(struct kv_buf *buf, const struct view *view)
{
	kv_buf_printf(buf, "Page block order: %u\n", view->glance->pageblock_order);
	kv_buf_printf(buf, "Pages per block:  %lu\n\n", 1ul << view->glance->pageblock_order);
	kv_buf_printf(buf, "%-43s ", "Free pages count per migrate type at order");
	for (unsigned int order = 0; order < KVMM_NR_ORDERS; order++)
		kv_buf_printf(buf, "%6u ", order);
	kv_buf_printf(buf, "\n");
	for (unsigned int i = 0; i < ARRAY_SIZE(types); i++) {
		const u64 *nr = &view->glance->free[types[i].mobility * KVMM_NR_ORDERS];

		kv_buf_printf(buf, "Node %4d, zone %8s, type %12s ", view->label.node,
			      view->label.name, types[i].name);
		for (unsigned int order = 0; order < KVMM_NR_ORDERS; order++)
			kv_buf_printf(buf, "%6lu ", (unsigned long)nr[order]);
		kv_buf_printf(buf, "\n");
	}
	kv_buf_printf(buf, "\n%-23s", "Number of blocks type ");
	for (unsigned int i = 0; i < ARRAY_SIZE(types); i++)
		kv_buf_printf(buf, "%12s ", types[i].name);
	kv_buf_printf(buf, "\nNode %d, zone %8s ", view->label.node, view->label.name);
	for (unsigned int i = 0; i < ARRAY_SIZE(types); i++)
		kv_buf_printf(buf, "%12lu ",
			      (unsigned long)view->glance->nr_pageblocks[types[i].mobility]);
	kv_buf_printf(buf, "\n");
}

int kv_zone_glance_text(const struct kv_zone_glance *glance, const char *what,
		        struct kv_zone_label label, char *buf, size_t bytes)
{
	const struct view view = { glance, label };
	struct kv_buf text = { buf, bytes, 0 };

	if (!strcmp(what, "buddyinfo")) {
		add_buddyinfo(&text, &view);
	} else if (!strcmp(what, "pagetypeinfo")) {
		add_pagetypeinfo(&text, &view);
	} else {
		if (bytes)
			buf[0] = '\0';
		return -ENOENT;
	}
	return text.len;
}
