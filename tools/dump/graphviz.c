// SPDX-License-Identifier: Apache-2.0
/*
 * Prefixes of a snapshot as a graph: a box for each stretch of a prompt that nothing branches off from, and
 * that is in one state; arrows to what follows. --all draws each block.
 *
 * A parent is found by its name. One that is not there (it was evicted, or is on another tier) is drawn
 * as a dashed point, so that it can be seen where a prompt is broken.
 *
 * Each tier below is a frame: dotted lines go there from boxes whose names it has as well. What it alone
 * has nobody knows the parents of, so that is one box for each domain.
 *
 * No more boxes are drawn than were asked for: those that most names hang on, so a parent is there
 * whenever its children are.
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
	uint32_t weight;	/* names that hang on it, itself included */
	uint32_t nr_below[SNAP_NR_MEDIA];	/* of a head: how many of the box are there as well */
	bool is_below[SNAP_NR_MEDIA];
	bool is_drawn;		/* of a head */
};

/* What a tier has alone, of one domain. */
struct lone {
	const struct snap_name *first;	/* of these */
	uint32_t nr;
	uint32_t from, to;	/* positions */
};

#define MAX_LONE	16u	/* domains; the last one stands for all others */

struct below {
	uint32_t nr;		/* names */
	uint32_t nr_shared;	/* that the device has, too */
	struct lone lone[MAX_LONE];
	uint32_t nr_lone;
};

struct graph {
	struct node *node;
	uint32_t nr;
	uint32_t *bucket;	/* a node, or NONE */
	uint32_t mask;
	uint32_t *order;	/* nodes by position */
	uint32_t nr_boxes;
	uint32_t nr_drawn;
	struct below below[SNAP_NR_MEDIA];
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
	graph->node[graph->nr] = (struct node){
		.row = row, .parent = NONE, .head = graph->nr, .nr = 1, .weight = 1,
	};
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

static int sort_nodes(struct graph *graph)
{
	graph->order = malloc((graph->nr + 1) * sizeof(*graph->order));
	if (!graph->order)
		return -1;
	for (uint32_t i = 0; i < graph->nr; i++)
		graph->order[i] = i;
	sorted = graph;
	qsort(graph->order, graph->nr, sizeof(*graph->order), by_position);
	return 0;
}

/* Parents come before children, so that each finds the head of its box known. */
static void make_boxes(struct graph *graph)
{
	for (uint32_t i = 0; i < graph->nr; i++) {
		struct node *node = &graph->node[graph->order[i]];

		if (!goes_on(graph, node))
			continue;
		node->head = graph->node[node->parent].head;
		graph->node[node->head].nr++;
	}
}

/* Children come first here. */
static void weigh(struct graph *graph)
{
	for (uint32_t i = graph->nr; i-- > 0; ) {
		const struct node *node = &graph->node[graph->order[i]];

		if (node->parent != NONE)
			graph->node[node->parent].weight += node->weight;
	}
}

static int by_weight(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint32_t v = sorted->node[x].weight, w = sorted->node[y].weight;

	if (v != w)
		return v > w ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* A parent weighs more than its child. The order by position is not needed any more. */
static void choose_boxes(struct graph *graph, uint32_t max)
{
	for (uint32_t i = 0; i < graph->nr; i++)
		if (graph->node[i].head == i)
			graph->order[graph->nr_boxes++] = i;
	sorted = graph;
	qsort(graph->order, graph->nr_boxes, sizeof(*graph->order), by_weight);
	graph->nr_drawn = graph->nr_boxes < max ? graph->nr_boxes : max;
	for (uint32_t i = 0; i < graph->nr_drawn; i++)
		graph->node[graph->order[i]].is_drawn = true;
}

/* ---- tiers below ---- */

static bool is_of_domain(const struct snap_name *a, const struct snap_name *b)
{
	return a->tenant == b->tenant && a->group == b->group && a->layout == b->layout;
}

static void add_lone(struct below *below, const struct snap_name *name)
{
	struct lone *lone = below->lone;

	while (lone < below->lone + below->nr_lone && !is_of_domain(lone->first, name))
		lone++;
	if (lone == below->lone + MAX_LONE)
		lone--;
	if (!lone->nr) {
		*lone = (struct lone){ .first = name, .from = name->position };
		below->nr_lone++;
	}
	lone->nr++;
	lone->from = name->position < lone->from ? name->position : lone->from;
	lone->to = name->position > lone->to ? name->position : lone->to;
}

/* A tier may tell a name twice, while it is being replaced: it is one. */
static void add_below(struct graph *graph, const struct snap_name *name)
{
	struct below *below = &graph->below[name->medium];
	struct snap_row like = {
		.tenant = name->tenant, .group = name->group, .layout = name->layout,
	};
	uint32_t at = *find(graph, &like, name->key);

	if (at == NONE) {
		below->nr++;
		add_lone(below, name);
	} else if (!graph->node[at].is_below[name->medium]) {
		below->nr++;
		below->nr_shared++;
		graph->node[at].is_below[name->medium] = true;
		graph->node[graph->node[at].head].nr_below[name->medium]++;
	}
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

/* Text from elsewhere, between quotes. */
static void put_quoted(const char *text, FILE *out)
{
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc((unsigned char)*text < 0x80 ? *text : '?', out);
	}
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

/* From a box to the tiers that have its names as well. */
static void draw_presence(const struct node *node, uint32_t number, FILE *out)
{
	for (uint32_t m = 0; m < SNAP_NR_MEDIA; m++)
		if (node->nr_below[m])
			fprintf(out, "\tn%u -> %s [style=dotted, dir=none, label=\"%u of %u\"];\n", number,
				snap_media[m], node->nr_below[m], node->nr);
}

static void draw_lone(const struct lone *lone, const char *medium, uint32_t number, FILE *out)
{
	fprintf(out, "\t\t%s%u [label=\"%u only here\\nblocks %u to %u", medium, number, lone->nr,
		lone->from, lone->to);
	if (number == MAX_LONE - 1)
		fprintf(out, "\\nother domains");
	else if (lone->first->tenant)
		fprintf(out, "\\ntenant %u", lone->first->tenant);
	fprintf(out, "\", fillcolor=\"#d9d9d9\"];\n");
}

static void draw_tier(const struct below *below, const char *medium, FILE *out)
{
	if (!below->nr)
		return;
	fprintf(out, "\tsubgraph cluster_%s {\n\t\tlabel=\"%s: %u names\";\n", medium, medium, below->nr);
	fprintf(out, "\t\t%s [label=\"%u of them in the device\", shape=cylinder, fillcolor=\"#ffffff\"];\n",
		medium, below->nr_shared);
	for (uint32_t i = 0; i < below->nr_lone; i++)
		draw_lone(&below->lone[i], medium, i, out);
	fprintf(out, "\t}\n");
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

static void draw(const struct graph *graph, const struct snap *snap, FILE *out)
{
	fprintf(out, "digraph prefixes {\n\tlabel=\"");
	put_quoted(snap->pool, out);
	fprintf(out, ": %u names", graph->nr);
	if (graph->nr_drawn < graph->nr_boxes)
		fprintf(out, ", %u of %u boxes", graph->nr_drawn, graph->nr_boxes);
	fprintf(out, "\";\n\trankdir=LR;\n\tfontname=\"sans-serif\";\n"
		     "\tnode [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n"
		     "\tedge [fontname=\"sans-serif\", fontsize=9];\n");
	for (uint32_t i = 0; i < graph->nr; i++) {
		if (!graph->node[i].is_drawn)
			continue;
		draw_box(&graph->node[i], i, out);
		draw_arrow(graph, i, out);
		draw_presence(&graph->node[i], i, out);
	}
	for (uint32_t m = 0; m < SNAP_NR_MEDIA; m++)
		draw_tier(&graph->below[m], snap_media[m], out);
	fprintf(out, "}\n");
}

static void arrange(struct graph *graph, const struct snap *snap, bool all, uint32_t max_boxes)
{
	if (!all)
		make_boxes(graph);
	weigh(graph);
	choose_boxes(graph, max_boxes);
	for (size_t i = 0; i < snap->nr_below; i++)
		add_below(graph, &snap->below[i]);
}

int snap_graphviz(const struct snap *snap, bool all, uint32_t max_boxes, FILE *out)
{
	struct graph graph = { 0 };
	int err = make_nodes(&graph, snap);

	if (!err) {
		link_nodes(&graph);
		err = sort_nodes(&graph);
	}
	if (!err) {
		arrange(&graph, snap, all, max_boxes);
		draw(&graph, snap, out);
	}
	free(graph.node);
	free(graph.bucket);
	free(graph.order);
	return err;
}
