/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report: one HTML file that needs nothing else. It is there whole or not at all: what is written
 * is another file first, which then gets the name.
 *
 *	err = page_begin(&page, "report.html");
 *	for each recording, or comparison
 *		err = err ? err : page_add(&page, in, "name", &recording);
 *	err = page_finish(&page, err);
 */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include <limits.h>
#include <stdio.h>

#include "recording.h"

/**
 * struct page - a page that is being written
 * @path: its name in the end; "-": standard output
 * @part: its name until then; empty: there is no other
 */
struct page {
	FILE *out;
	const char *path;
	char part[PATH_MAX];
};

/** page_begin() - Return: 0; -errno. Borrows @path until page_finish(), which must follow. */
int page_begin(struct page *page, const char *path);

/**
 * page_add() - one recording or comparison
 * @name: what the page calls it
 * @rec: what was found in it; after -EINVAL where and why
 */
int page_add(struct page *page, FILE *in, const char *name, struct recording *rec);

/** page_finish() - Return: @err, or -errno: it could not be written. Then nothing is left of it. */
int page_finish(struct page *page, int err);

#endif /* REPORT_PAGE_H */
