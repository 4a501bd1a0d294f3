// SPDX-License-Identifier: Apache-2.0
/* The board as a page: what --json prints, which the page knows how to draw. */
#include <stdio.h>

#include "compare.h"
#include "report.h"

int compare_write_page(const struct board *board, const char *path)
{
	FILE *lines = tmpfile();
	int err;

	if (!lines)
		return -errno;
	compare_print_json(board, lines);
	err = ferror(lines) ? -EIO : report_write(lines, "compare", path);
	fclose(lines);
	return err;
}
