// SPDX-License-Identifier: Apache-2.0
/*
 * Prefixes of a snapshot as a graph: a box for each stretch of a prompt that nothing branches off from, and
 * that is in one state; arrows to what follows. --all draws each block.
 *
 * A parent is found by its name. One that is not there (it was evicted, or is on another tier) is drawn
 * as a dashed point, so that it can be seen where a prompt is broken.
 */
#include <stdlib.h>
#include <string.h>

#include "snap.h"

#define NONE	UINT32_MAX

struct node {
	const struct snap_row *row;
	uint32_t parent;	/* a node, or NONE */
	uint32_t nr_children;
	uint32_t head;		/* of its box: the first of the stretch */
	uint32_t nr;		/* of a head: nodes in the box */
};

struct graph {
	struct node *node;
	uint32_t nr;
	uint32_t *bucket;	/* a node, or NONE */
	uint32_t mask;
};

static uint32_t hash_of(const uint8_t *key)
{
	uint64_t word;

	memcpy(&word, key, sizeof(word));
	return (word * 0x9e3779b97f4a7c15ull) >> 32;
}

static bool is_of(const struct snap_row *row, const struct snap_row *like, const uint8_t *key)
{
	return !memcmp(row->key, key, SNAP_KEY) && row->tenant == like->tenant &&
	       row->group == like->group && row->layout == like->layout;
}

/* The node of this name, or the place for it. */
static uint32_t *find(const struct graph *graph, const struct snap_row *like, const uint8_t *key)
{
	uint32_t at = hash_of(key) & graph->mask;

	while (graph->bucket[at] != NONE &&
	       !is_of(graph->node[graph->bucket[at]].row, like, key))
		at = (at + 1) & graph->mask;
	return &graph->bucket[at];
}

/* Of blocks of one name the first is drawn. */
static void add_node(struct graph *graph, const struct snap_row *row)
{
	uint32_t *at = find(graph, row, row->key);

	if (*at != NONE)
		return;
	*at = graph->nr;
	graph->node[graph->nr] = (struct node){ .row = row, .parent = NONE, .head = graph->nr, .nr = 1 };
	graph->nr++;
}

static int make_nodes(struct graph *graph, const struct snap *snap)
{
	uint32_t size = 16;

	while (size < 2 * snap->nr)
		size *= 2;
	graph->mask = size - 1;
	graph->node = calloc(snap->nr + 1, sizeof(*graph->node));
	graph->bucket = malloc(size * sizeof(*graph->bucket));
	if (!graph->node || !graph->bucket)
		return -1;
	memset(graph->bucket, 0xff, size * sizeof(*graph->bucket));
	for (size_t i = 0; i < snap->nr; i++)
		if (snap_has(&snap->row[i], SNAP_KEYS))
			add_node(graph, &snap->row[i]);
	return 0;
}

/* A name that is its own ancestor is not believed: positions must rise. */
static void link_nodes(struct graph *graph)
{
	for (uint32_t i = 0; i < graph->nr; i++) {
		struct node *node = &graph->node[i];
		uint32_t parent = NONE;

		if (snap_has(node->row, SNAP_PARENT))
			parent = *find(graph, node->row, node->row->parent);
		if (parent == NONE || graph->node[parent].row->position >= node->row->position)
			continue;
		node->parent = parent;
		graph->node[parent].nr_children++;
	}
}

static bool goes_on(const struct graph *graph, const struct node *node)
{
	const struct node *parent = node->parent == NONE ? NULL : &graph->node[node->parent];

	return parent && parent->nr_children == 1 && parent->row->state == node->row->state &&
	       parent->row->refs == node->row->refs &&
	       !strcmp(parent->row->flags, node->row->flags);
}

static const struct graph *sorted;

static int by_position(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint32_t p = sorted->node[x].row->position, q = sorted->node[y].row->position;

	if (p != q)
		return p < q ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Parents come before children, so that each finds the head of its box known. */
static int make_boxes(struct graph *graph)
{
	uint32_t *order = malloc((graph->nr + 1) * sizeof(*order));

	if (!order)
		return -1;
	for (uint32_t i = 0; i < graph->nr; i++)
		order[i] = i;
	sorted = graph;
	qsort(order, graph->nr, sizeof(*order), by_position);
	for (uint32_t i = 0; i < graph->nr; i++) {
		struct node *node = &graph->node[order[i]];

		if (!goes_on(graph, node))
			continue;
		node->head = graph->node[node->parent].head;
		graph->node[node->head].nr++;
	}
	free(order);
	return 0;
}

/* ---- drawing ---- */

static const char *colour_of(uint32_t state)
{
	switch (state) {
	case KVMM_MAP_ACTIVE:
		return "#9ecae1";
	case KVMM_MAP_CACHED:
		return "#c7e9c0";
	case KVMM_MAP_STAGED:
		return "#fdd0a2";
	default:
		return "#d9d9d9";
	}
}

/* Thicker the more share it. */
static double width_of(uint32_t refs)
{
	double width = 1;

	for (; refs > 1 && width < 6; refs /= 2)
		width++;
	return width;
}

static void draw_box(const struct node *node, uint32_t number, FILE *out)
{
	const struct snap_row *row = node->row;

	fprintf(out, "\tn%u [label=\"", number);
	for (unsigned int i = 0; i < 4; i++)
		fprintf(out, "%02x", row->key[i]);
	if (node->nr > 1)
		fprintf(out, "\\nblocks %u to %u", row->position, row->position + node->nr - 1);
	else
		fprintf(out, "\\nblock %u", row->position);
	fprintf(out, "\\n%s", kvmm_map_state_name(row->state));
	if (row->refs)
		fprintf(out, ", %u refs", row->refs);
	if (row->pins)
		fprintf(out, ", pinned");
	if (snap_has(row, SNAP_TENANT) && row->tenant)
		fprintf(out, "\\ntenant %u", row->tenant);
	if (snap_has(row, SNAP_TIERS))
		fprintf(out, "\\ntiers %#x", row->tiers);
	fprintf(out, "\", fillcolor=\"%s\", penwidth=%g];\n", colour_of(row->state),
		width_of(row->refs));
}

/* From the box that the parent is in; a parent that is not there is a point. */
static void draw_arrow(const struct graph *graph, uint32_t number, FILE *out)
{
	const struct node *node = &graph->node[number];

	if (node->parent != NONE) {
		fprintf(out, "\tn%u -> n%u;\n", graph->node[node->parent].head, number);
	} else if (node->row->position) {
		fprintf(out, "\tp%u [shape=point, style=dashed];\n", number);
		fprintf(out, "\tp%u -> n%u [style=dashed];\n", number, number);
	}
}

/* Within quotes. */
static void draw_text(const char *text, FILE *out)
{
	for (; *text; text++)
		fprintf(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
}

static void draw(const struct graph *graph, const struct snap *snap, FILE *out)
{
	fputs("digraph prefixes {\n\tlabel=\"", out);
	draw_text(snap->pool, out);
	fprintf(out, ": %u names\";\n\trankdir=LR;\n"
		     "\tnode [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n",
		graph->nr);
	for (uint32_t i = 0; i < graph->nr; i++) {
		if (graph->node[i].head != i)
			continue;
		draw_box(&graph->node[i], i, out);
		draw_arrow(graph, i, out);
	}
	fprintf(out, "}\n");
}

int snap_graphviz(const struct snap *snap, bool all, FILE *out)
{
	struct graph graph = { 0 };
	int err = make_nodes(&graph, snap);

	if (!err) {
		link_nodes(&graph);
		err = all ? 0 : make_boxes(&graph);
	}
	if (!err)
		draw(&graph, snap, out);
	free(graph.node);
	free(graph.bucket);
	return err;
}
