// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as a snapshot. What is refused is explained; what is accepted tells each block once, is the same
 * when it was written and read again, and can be made a page, a pickle and a graph.
 *
 * The first byte says whether what follows is the whole file, or rows behind a good head: random bytes hardly
 * ever get that far.
 */
#define _GNU_SOURCE

#include "tests/fuzz/require.h"
#include "tools/dump/graphviz.c"
#include "tools/dump/pickle.c"
#include "tools/dump/snap.c"
#include "tools/plain.c"
#include "tools/dump/summary.c"
#include "tools/json.c"

static const char good_head[] =
	"# kvmm-snapshot 1\npool\tkv\nblocks\t64\nblock_bytes\t4096\ntime_ns\t1000000\n"
	"below\thost 0 0 0 1 00000000000000000000000000000001\n"
	"#first\tcount\tstate\tflags\towner\tseq\tage_ns\trefs\tposition\tkey\tparent\n";

static void check(const struct snap *snap)
{
	uint32_t next = 0;

	for (size_t i = 0; i < snap->nr; i++) {
		const struct snap_row *row = &snap->row[i];

		require(row->first == next && row->nr && row->state < KVMM_NR_MAP_STATES);
		require(strnlen(row->flags, sizeof(row->flags)) < sizeof(row->flags));
		next += row->nr;
	}
	require(next == snap->nr_blocks && next <= KVMM_MAX_BLOCKS);
}

static void check_forms(const struct snap *snap)
{
	char *text = NULL;
	size_t bytes;
	FILE *file = open_memstream(&text, &bytes);

	require(file && !snap_pickle(snap, file));
	require(!snap_graphviz(snap, false, 3, file) && !snap_graphviz(snap, true, UINT32_MAX, file));
	snap_summary(snap, false, file);
	snap_summary(snap, true, file);
	fclose(file);
	require(bytes > 100);
	free(text);
}

static void check_again(const struct snap *snap)
{
	char *text = NULL, *twice = NULL;
	size_t bytes, more;
	struct snap again;
	FILE *file = open_memstream(&text, &bytes);

	require(file);
	snap_write(snap, file);
	fclose(file);
	twice = strdup(text);
	require(twice && !snap_parse(&again, twice, bytes));
	require(again.nr == snap->nr);
	free(twice);
	twice = NULL;
	file = open_memstream(&twice, &more);
	require(file);
	snap_write(&again, file);
	fclose(file);
	require(more == bytes && !memcmp(text, twice, bytes));
	snap_free(&again);
	free(text);
	free(twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	size_t head = bytes && data[0] & 1 ? sizeof(good_head) - 1 : 0, nr = bytes ? bytes - 1 : 0;
	char *text = malloc(head + nr + 1);
	struct snap snap;

	require(text);
	memcpy(text, good_head, head);
	if (nr)
		memcpy(text + head, data + 1, nr);
	text[head + nr] = '\0';
	if (snap_parse(&snap, text, head + nr)) {
		require(snap.why[0]);
	} else {
		check(&snap);
		check_forms(&snap);
		check_again(&snap);
	}
	snap_free(&snap);
	free(text);
	return 0;
}
