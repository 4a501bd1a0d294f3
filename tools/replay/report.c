// SPDX-License-Identifier: Apache-2.0
/*
 * Writes the report: report.html with the run's data put where it says DATA. The template is
 * taken into the program by the assembler, so that it can be edited as the page it is.
 */
#include <stdio.h>
#include <string.h>

#include "report.h"

__asm__(
	"	.section .rodata\n"
	"	.global replay_page\n"
	"	.hidden replay_page\n"
	"replay_page:\n"
	"	.incbin \"report.html\"\n"
	"	.byte 0\n"
	"	.previous\n");

extern const char replay_page[];

static void print_lines(const struct line *line, u32 nr, FILE *out)
{
	putc('[', out);
	for (u32 i = 0; i < nr; i++) {
		fputs(i ? ",\n[" : "\n[", out);
		print_json_string(out, line[i].label);
		putc(',', out);
		print_json_string(out, line[i].text);
		putc(']', out);
	}
	putc(']', out);
}

static void print_fields(const struct results *results, FILE *out)
{
	fputs("\"fields\":", out);
	results_print_json(results, out);
	fputs(",\n\"tiles\":", out);
	print_lines(results->tile, results->nr_tiles, out);
	fputs(",\n\"lines\":", out);
	print_lines(results->line, results->nr_lines, out);
}

static void print_data(const struct run *run, FILE *out)
{
	fputs("{\"mode\":", out);
	print_json_string(out, run->opt->mode->name);
	fputs(",\n\"purpose\":", out);
	print_json_string(out, run->opt->mode->purpose);
	fputs(",\n\"trace\":", out);
	print_json_string(out, run->trace->name);
	fputs(",\n", out);
	print_fields(run->results, out);
	if (run->record->whole.nr) {
		fputs(",\n\"record\":{", out);
		record_print(run->record, out);
		putc('}', out);
	}
	putc('}', out);
}

void report_print_style(FILE *out)
{
	fwrite(replay_page, 1, (size_t)(strstr(replay_page, "</style>") - replay_page), out);
}

int report_write(const struct run *run, const char *path)
{
	static const char mark[] = "DATA";
	const char *cut = strstr(replay_page, ">" "DATA" "<");
	FILE *out = fopen(path, "w");
	int err = 0;

	if (!out)
		return -errno;
	if (!cut)
		cut = replay_page + strlen(replay_page) - 1;
	fwrite(replay_page, 1, (size_t)(cut + 1 - replay_page), out);
	print_data(run, out);
	fputs(cut + strlen(mark) + 1, out);
	if (ferror(out))
		err = -EIO;
	if (fclose(out) && !err)
		err = -errno;
	return err;
}
