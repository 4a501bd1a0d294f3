// SPDX-License-Identifier: Apache-2.0
/*
 * Puts a page together: page.html with its style, the chart library, the recordings and the script in
 * the places that it marks. All of these are taken into the program by the assembler, so that they can
 * be edited as what they are.
 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "page.h"

#define EMBED(name, file)						\
	__asm__("	.section .rodata\n"				\
		"	.global " #name "\n"				\
		"	.hidden " #name "\n"				\
		#name ":\n"						\
		"	.incbin \"" file "\"\n"				\
		"	.byte 0\n"					\
		"	.previous\n");					\
	extern const char name[]

EMBED(report_html, "page.html");
EMBED(report_css, "page.css");
EMBED(report_script_data, "data.js");
EMBED(report_script_map, "map.js");
EMBED(report_script_clock, "clock.js");
EMBED(report_script_charts, "charts.js");
EMBED(report_script_compare, "compare.js");
EMBED(report_script_main, "main.js");
#ifdef REPORT_NO_CHARTS
static const char report_charts[] = "";
#else
EMBED(report_charts, "dygraph.min.js");
#endif

/* Writes @html up to the line that is @mark. Returns what is behind it. */
static const char *put_until(FILE *out, const char *html, const char *mark)
{
	const char *cut = strstr(html, mark);

	if (!cut)
		return html;
	fwrite(html, 1, (size_t)(cut - html), out);
	return cut + strlen(mark);
}

static const char *behind_data(void)
{
	return strstr(report_html, "@DATA\n") + strlen("@DATA\n");
}

/* A device, a pipe or a link is written to; a file in its place would not be what it was. */
static bool is_replaced(const char *path)
{
	struct stat stat;

	return lstat(path, &stat) || S_ISREG(stat.st_mode);
}

int page_begin(struct page *page, const char *path)
{
	const char *html = report_html;
	bool to_stdout = !strcmp(path, "-"), in_part = !to_stdout && is_replaced(path);

	*page = (struct page){ .path = path };
	if (in_part && snprintf(page->part, sizeof(page->part), "%s.part", path) >=
	    (int)sizeof(page->part))
		return -ENAMETOOLONG;
	page->out = to_stdout ? stdout : fopen(in_part ? page->part : path, "w");
	if (!page->out)
		return -errno;
	html = put_until(page->out, html, "@STYLE\n");
	fputs(report_css, page->out);
	put_until(page->out, html, "@DATA\n");
	return 0;
}

static void put_attribute(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '"' || *text == '<' || *text == '&' || (unsigned char)*text < 0x20)
			fprintf(out, "&#%d;", (unsigned char)*text);
		else
			putc(*text, out);
	}
}

/* A '<' stands in strings only, and there it may be spelt so that no script element ends with it. */
static int put_line(void *arg, const struct recording *rec, const char *text, size_t bytes)
{
	FILE *out = arg;

	for (size_t i = 0; i < bytes; i++) {
		if (text[i] == '<')
			fputs("\\u003c", out);
		else
			putc_unlocked(text[i], out);
	}
	putc_unlocked('\n', out);
	return 0;
}

int page_add(struct page *page, FILE *in, const char *name, struct recording *rec)
{
	int err;

	fputs("<script type=\"application/x-ndjson\" class=\"recording\" data-name=\"", page->out);
	put_attribute(page->out, name);
	fputs("\">\n", page->out);
	err = recording_read(rec, in, put_line, page->out);
	fputs("</script>\n", page->out);
	return err;
}

static void put_scripts(FILE *out)
{
	const char *html = put_until(out, behind_data(), "@CHARTS\n");

	fputs(report_charts, out);
	html = put_until(out, html, "@SCRIPT\n");
	fputs(report_script_data, out);
	fputs(report_script_map, out);
	fputs(report_script_clock, out);
	fputs(report_script_charts, out);
	fputs(report_script_compare, out);
	fputs(report_script_main, out);
	fputs(html, out);
}

static int close_page(struct page *page)
{
	int err = ferror(page->out) ? -EIO : 0;

	if (page->out == stdout)
		return fflush(stdout) ? -errno : err;
	if (fclose(page->out) && !err)
		err = -errno;
	if (!err && *page->part && rename(page->part, page->path))
		err = -errno;
	return err;
}

int page_finish(struct page *page, int err)
{
	int err2;

	if (!page->out)
		return err;
	if (!err)
		put_scripts(page->out);
	else
		page->path = page->part;	/* it keeps that name, and goes */
	err2 = close_page(page);
	if (!err)
		err = err2;
	if (err && *page->part)
		unlink(page->part);
	return err;
}
