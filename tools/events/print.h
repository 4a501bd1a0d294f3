/* SPDX-License-Identifier: Apache-2.0 */
/* Events for people, in colours on a terminal, and for programs, an object a line. */
#ifndef TOOLS_EVENTS_PRINT_H
#define TOOLS_EVENTS_PRINT_H

#include <stdbool.h>
#include <stdio.h>

#include <kvmm/event.h>

struct printer {
	FILE *out;
	bool json;
	bool colours;
	bool table;		/* lines as they are */
	unsigned int width;	/* of a line; 0: it has no end */
};

void print_event(const struct printer *printer, const struct kvmm_event *event);
void print_lost(const struct printer *printer, uint64_t nr);

/* Begin and end of a colour for a kind; "" without colours. */
const char *colour_of(const struct printer *printer, unsigned int kind);
const char *colour_end(const struct printer *printer);

#endif /* TOOLS_EVENTS_PRINT_H */
