// SPDX-License-Identifier: Apache-2.0
/* Pages of cells. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "canvas.h"

int canvas_make(struct canvas *canvas, unsigned int width, unsigned int height)
{
	canvas->cell = calloc((size_t)width * height + 1, sizeof(*canvas->cell));
	canvas->width = width;
	canvas->height = height;
	return canvas->cell ? 0 : -1;
}

void canvas_free(struct canvas *canvas)
{
	free(canvas->cell);
	canvas->cell = NULL;
}

void canvas_clear(struct canvas *canvas)
{
	for (size_t i = 0; i < (size_t)canvas->width * canvas->height; i++)
		canvas->cell[i] = (struct cell){ .text = " ", .fg = COLOUR_PLAIN, .bg = COLOUR_PLAIN };
}

struct cell *canvas_cell(struct canvas *canvas, unsigned int line, unsigned int column)
{
	if (line >= canvas->height || column >= canvas->width)
		return NULL;
	return &canvas->cell[(size_t)line * canvas->width + column];
}

const struct style canvas_plain = { COLOUR_PLAIN, false, false };
const struct style canvas_strong = { COLOUR_PLAIN, true, false };
const struct style canvas_inverse = { COLOUR_PLAIN, false, true };

unsigned int canvas_put(struct canvas *canvas, unsigned int line, unsigned int column,
			struct style style, const char *text)
{
	for (; *text && *text != '\n'; text++, column++) {
		struct cell *cell = canvas_cell(canvas, line, column);

		if (!cell)
			break;
		cell->text[0] = (unsigned char)*text < ' ' || (unsigned char)*text > '~' ? '?' : *text;
		cell->text[1] = '\0';
		cell->fg = style.fg;
		cell->bold = style.bold;
		cell->reverse = style.reverse;
	}
	return column;
}

unsigned int canvas_print(struct canvas *canvas, unsigned int line, struct style style,
			  const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return canvas_put(canvas, line, 0, style, text);
}

void flow_add(struct flow *flow, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (flow->column > flow->indent && flow->column + strlen(text) > flow->canvas->width) {
		const char *word = text + strspn(text, " ");

		memmove(text, word, strlen(word) + 1);
		flow->line++;
		flow->column = flow->indent;
	}
	flow->column = canvas_put(flow->canvas, flow->line, flow->column, flow->style, text);
}

void flow_words(struct flow *flow, const char *text)
{
	while (*text) {
		int nr = (int)(strcspn(text + 1, " ") + 1);

		flow_add(flow, "%.*s", nr, text);
		text += nr;
	}
}

/* Of a line, without blanks at its end. */
static unsigned int length_of(const struct canvas *canvas, unsigned int y)
{
	const struct cell *line = &canvas->cell[(size_t)y * canvas->width];
	unsigned int nr = canvas->width;

	while (nr && !strcmp(line[nr - 1].text, " "))
		nr--;
	return nr;
}

void canvas_write(const struct canvas *canvas, FILE *out)
{
	unsigned int height = canvas->height;

	while (height && !length_of(canvas, height - 1))
		height--;
	for (unsigned int y = 0; y < height; y++) {
		const struct cell *line = &canvas->cell[(size_t)y * canvas->width];
		unsigned int nr = length_of(canvas, y);

		for (unsigned int x = 0; x < nr; x++)
			fwrite(line[x].text, 1, strnlen(line[x].text, sizeof(line[x].text)), out);
		putc('\n', out);
	}
}
