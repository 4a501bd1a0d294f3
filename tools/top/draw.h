/* SPDX-License-Identifier: Apache-2.0 */
/* A page of kvmm-top, as cells. */
#ifndef TOOLS_TOP_DRAW_H
#define TOOLS_TOP_DRAW_H

#include "canvas.h"
#include "data.h"

enum top_pane { PANE_OWNERS, PANE_SEQUENCES, PANE_HOLDS, NR_PANES };
enum top_sort { SORT_BLOCKS, SORT_PINNED, SORT_AGE, NR_SORTS };

/* How it is to look like. */
struct top_look {
	bool ascii;		/* no half blocks */
	bool batch;		/* on paper */
	bool by_owner;		/* colours of the map */
	bool paused;
	bool help;
	enum top_pane pane;
	enum top_sort sort;
	double seconds;		/* between two looks */
	const char *waits_for;	/* why there is nothing newer; NULL: there is */
};

/* All of @canvas. Rows are sorted in place. */
void draw_page(struct canvas *canvas, struct top_data *data, const struct top_look *look,
	       const char *engine);

#endif /* TOOLS_TOP_DRAW_H */
