// SPDX-License-Identifier: Apache-2.0
/* What a snapshot says in a page: blocks by state, free runs, and who has most of it. */
#include <stdlib.h>

#include "../json.h"
#include "snap.h"

#define MAX_SHOWN	10u

static const char *bar(uint64_t nr, uint64_t of)
{
	static const char full[] = "########################################";
	uint64_t len = of ? nr * (sizeof(full) - 1) / of : 0;

	return full + sizeof(full) - 1 - len;
}

typedef unsigned long long llu;

static void show_states(const struct snap *snap, bool json, FILE *out)
{
	llu nr[KVMM_NR_MAP_STATES] = { 0 }, runs[KVMM_NR_MAP_STATES] = { 0 };
	const char *between = "";

	for (size_t i = 0; i < snap->nr; i++) {
		nr[snap->row[i].state] += snap->row[i].nr;
		runs[snap->row[i].state]++;
	}
	if (json)
		fputs(",\n\"states\": {", out);
	else
		fprintf(out, "%-9s %10s %9s %6s\n", "state", "blocks", "rows", "%");
	for (unsigned int i = 0; i < KVMM_NR_MAP_STATES; i++) {
		if (!nr[i])
			continue;
		if (json)
			fprintf(out, "%s\"%s\": {\"blocks\": %llu, \"rows\": %llu}", between,
				kvmm_map_state_name(i), nr[i], runs[i]);
		else
			fprintf(out, "%-9s %10llu %9llu %6.2f %s\n", kvmm_map_state_name(i), nr[i],
				runs[i], 100.0 * nr[i] / snap->nr_blocks, bar(nr[i], snap->nr_blocks));
		between = ", ";
	}
	fputs(json ? "}" : "", out);
}

static void show_free(const struct snap *snap, bool json, FILE *out)
{
	uint32_t longest = 0, nr = 0;

	for (size_t i = 0; i < snap->nr; i++)
		if (snap->row[i].state == KVMM_MAP_FREE) {
			nr++;
			longest = snap->row[i].nr > longest ? snap->row[i].nr : longest;
		}
	fprintf(out, json ? ",\n\"free_runs\": %u, \"longest_free\": %u" :
			    "\nfree runs %u, the longest %u blocks\n", nr, longest);
}

/* ---- who has most ---- */

struct share {
	uint64_t id;
	uint64_t nr;
	uint64_t age_ns;
};

static int by_id(const void *a, const void *b)
{
	const struct share *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static int by_size(const void *a, const void *b)
{
	const struct share *x = a, *y = b;

	if (x->nr != y->nr)
		return x->nr > y->nr ? -1 : 1;
	return by_id(a, b);
}

static size_t merge(struct share *share, size_t nr)
{
	size_t to = 0;

	qsort(share, nr, sizeof(*share), by_id);
	for (size_t i = 1; i < nr; i++) {
		if (share[i].id != share[to].id) {
			share[++to] = share[i];
			continue;
		}
		share[to].nr += share[i].nr;
		share[to].age_ns = share[i].age_ns > share[to].age_ns ? share[i].age_ns :
									share[to].age_ns;
	}
	return nr ? to + 1 : 0;
}

static void print_shares(const struct share *share, size_t nr, const char *what, FILE *out)
{
	if (nr)
		fprintf(out, "\n%-20s %10s %10s\n", what, "blocks", "age s");
	for (size_t i = 0; i < nr && i < MAX_SHOWN; i++)
		fprintf(out, "%-20llu %10llu %10.3f\n", (llu)share[i].id, (llu)share[i].nr,
			share[i].age_ns / 1e9);
	if (nr > MAX_SHOWN)
		fprintf(out, "and %zu more\n", nr - MAX_SHOWN);
}

static void print_shares_json(const struct share *share, size_t nr, const char *what, FILE *out)
{
	fprintf(out, ",\n\"%ss\": [", what);
	for (size_t i = 0; i < nr; i++)
		fprintf(out, "%s{\"%s\": %llu, \"blocks\": %llu, \"age_ns\": %llu}", i ? ",\n" : "",
			what, (llu)share[i].id, (llu)share[i].nr, (llu)share[i].age_ns);
	fputs("]", out);
}

/* People want the largest ten, programs all. */
static void show_most(const struct snap *snap, enum snap_column column, const char *what, bool json,
		      FILE *out)
{
	struct share *share = calloc(snap->nr + 1, sizeof(*share));
	size_t nr = 0;

	for (size_t i = 0; share && i < snap->nr; i++) {
		const struct snap_row *row = &snap->row[i];

		if (snap_has(row, column))
			share[nr++] = (struct share){
				column == SNAP_OWNER ? row->owner : row->seq, row->nr, row->age_ns,
			};
	}
	nr = share ? merge(share, nr) : 0;
	if (nr)
		qsort(share, nr, sizeof(*share), by_size);
	(json ? print_shares_json : print_shares)(share, nr, what, out);
	free(share);
}

static void show_pool(const struct snap *snap, bool json, FILE *out)
{
	if (!json) {
		fprintf(out, "pool %s of %s: %u blocks of %llu bytes and %u tokens\n\n", snap->pool,
			snap->engine, snap->nr_blocks, (llu)snap->block_bytes, snap->block_tokens);
		return;
	}
	fputs("{\"engine\": ", out);
	json_string(snap->engine, out);
	fputs(", \"pool\": ", out);
	json_string(snap->pool, out);
	fprintf(out, ", \"time_ns\": %llu, \"blocks\": %u, \"block_bytes\": %llu, \"block_tokens\": %u",
		(llu)snap->time_ns, snap->nr_blocks, (llu)snap->block_bytes, snap->block_tokens);
}

void snap_summary(const struct snap *snap, bool json, FILE *out)
{
	show_pool(snap, json, out);
	show_states(snap, json, out);
	show_free(snap, json, out);
	show_most(snap, SNAP_OWNER, "owner", json, out);
	show_most(snap, SNAP_SEQ, "sequence", json, out);
	fputs(json ? "}\n" : "", out);
}
