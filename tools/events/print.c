// SPDX-License-Identifier: Apache-2.0
/* Single events; see print.h. */
#include <string.h>

#include <kvmm/ext/control.h>

#include "../tool.h"
#include "print.h"

static const char columns[] = KVMM_EVENT_COLUMNS;

const char *colour_of(const struct printer *printer, unsigned int kind)
{
	if (!printer->colours)
		return "";
	if (kind == KVMM_EVENT_STORED)
		return "\033[32m";
	return kind == KVMM_EVENT_REMOVED || kind == KVMM_EVENT_CLEARED ? "\033[31m" : "\033[36m";
}

const char *colour_end(const struct printer *printer)
{
	return printer->colours ? "\033[0m" : "";
}

/* The next cell of a line, or name of a column: false: no more. */
static bool next_cell(const char **at, const char **cell, int *nr)
{
	if (!**at)
		return false;
	*cell = *at;
	*nr = (int)strcspn(*at, "\t");
	*at += *nr;
	*at += **at == '\t';
	return true;
}

static bool is_text(const char *name, int nr)
{
	return !strncmp(name, "kind", nr) || !strncmp(name, "medium", nr);
}

/* Columns whose names end with ":s" are text. */
static void print_json(const struct printer *printer, const char *line)
{
	const char *name_at = columns + 1, *name, *cell;
	const char *comma = "";
	int nr_name, nr;

	fputc('{', printer->out);
	while (next_cell(&name_at, &name, &nr_name) && next_cell(&line, &cell, &nr)) {
		bool text = is_text(name, nr_name);

		if (nr_name > 2 && !strncmp(name + nr_name - 2, ":s", 2)) {
			nr_name -= 2;
			text = true;
		}
		if (nr == 1 && *cell == '-')
			continue;
		fprintf(printer->out, text ? "%s\"%.*s\": \"%.*s\"" : "%s\"%.*s\": %.*s", comma,
			nr_name, name, nr, cell);
		comma = ", ";
	}
	fputs("}\n", printer->out);
}

/* What it has, by name; keys are long enough with half of their digits. */
static void print_people(const struct printer *printer, const struct kvmm_event *event,
			 const char *line)
{
	const char *name_at = columns + 1, *name, *cell;
	unsigned int at = 0;
	int nr_name, nr;

	for (int i = 0; next_cell(&name_at, &name, &nr_name) && next_cell(&line, &cell, &nr); i++) {
		bool key = nr_name > 2 && !strncmp(name + nr_name - 2, ":s", 2);

		if (nr == 1 && *cell == '-')
			continue;
		if (i == 0) {
			at = (unsigned int)fprintf(printer->out, "%8.*s ", nr, cell);
		} else if (i == 1) {
			fprintf(printer->out, "%s%-12.*s%s", colour_of(printer, event->kind), nr,
				cell, colour_end(printer));
			at += 12;
		} else if (i == 2) {
			at += (unsigned int)fprintf(printer->out, " %-8.*s", nr, cell);
		} else {
			char word[96];

			snprintf(word, sizeof(word), " %.*s=%.*s", key ? nr_name - 2 : nr_name, name,
				 key ? 16 : nr, cell);
			at = print_words(printer->out, word, at, 22, printer->width);
		}
	}
	fputc('\n', printer->out);
}

void print_event(const struct printer *printer, const struct kvmm_event *event)
{
	char line[KVMM_EVENT_TEXT_BYTES];

	if (kvmm_event_text(event, line, sizeof(line)) < 0)
		return;
	if (printer->table)
		fprintf(printer->out, "%s\n", line);
	else if (printer->json)
		print_json(printer, line);
	else
		print_people(printer, event, line);
}

void print_lost(const struct printer *printer, uint64_t nr)
{
	unsigned long long lost = nr;

	if (printer->table)
		fprintf(printer->out, "0\tlost\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t%llu\n",
			lost);
	else
		fprintf(printer->out, printer->json ? "{\"lost\": %llu}\n" : "         %llu lost\n",
			lost);
}
