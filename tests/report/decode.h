/* SPDX-License-Identifier: Apache-2.0 */
/* A second reader of recordings, which knows nothing of the first. */
#ifndef TESTS_REPORT_DECODE_H
#define TESTS_REPORT_DECODE_H

#include <stdlib.h>
#include <string.h>

#include "tools/report/recorder.h"

static inline u64 next_random(u64 *seed)
{
	*seed += 0x9e3779b97f4a7c15ull;
	return mix64(*seed);
}

/* The runs of one map, over the picture before it. */
static inline bool decode_map(const char *map, struct cell *row, u32 nr_cells)
{
	u32 at = 0;

	while (*map && *map != '"') {
		char *end;
		unsigned long nr = strtoul(map, &end, 10);
		char state = *end++;
		u32 owner = U32_NONE;

		if (*end >= '0' && *end <= '9')
			owner = (u32)strtoul(end, &end, 10);
		for (; nr; nr--, at++) {
			if (at == nr_cells)
				return false;
			if (state != '=')
				row[at] = (struct cell){ owner, (u32)state };
		}
		map = end + (*end == ' ');
	}
	return at == nr_cells;
}

/* Do the maps of @text, one after the other, show @pictures? */
static inline bool decodes_to(const char *text, const struct cell *pictures, u32 nr_cells, u32 nr)
{
	struct cell *row = calloc(nr_cells, sizeof(*row));
	bool good = true;

	for (u32 i = 0; good && i < nr; i++) {
		text = strstr(text, "\"map\":\"");
		good = text && decode_map(text += strlen("\"map\":\""), row, nr_cells) &&
		       !memcmp(row, pictures + (size_t)i * nr_cells, nr_cells * sizeof(*row));
	}
	free(row);
	return good && !strstr(text, "\"map\":\"");
}

#endif /* TESTS_REPORT_DECODE_H */
