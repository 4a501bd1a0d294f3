/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of tools that measure and replay: without it there is nothing to say but that. */
#ifndef TOOLS_MUST_H
#define TOOLS_MUST_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

extern char *program_invocation_short_name;	/* <errno.h> has it for _GNU_SOURCE only */

/* realloc(), or the end of the process. */
static inline void *must_resize(void *mem, size_t bytes)
{
	mem = realloc(mem, bytes ? bytes : 1);
	if (!mem) {
		fprintf(stderr, "%s: out of memory (%zu bytes)\n", program_invocation_short_name,
			bytes);
		exit(1);
	}
	return mem;
}

/* The same for zeroes. */
static inline void *must_alloc(size_t bytes)
{
	void *mem = calloc(1, bytes ? bytes : 1);

	return mem ? mem : must_resize(NULL, bytes);
}

#endif /* TOOLS_MUST_H */
