// SPDX-License-Identifier: Apache-2.0
#include "../report/page.h"
#include "report.h"

int report_write(FILE *in, const char *name, const char *path)
{
	struct recording recording;
	struct page page;
	int err = page_begin(&page, path);

	if (err)
		return err;
	rewind(in);
	return page_finish(&page, page_add(&page, in, name, &recording));
}
