/* SPDX-License-Identifier: Apache-2.0 */
/* A page of cells; a terminal shows it (screen.h), or it is written as text. */
#ifndef TOOLS_TOP_CANVAS_H
#define TOOLS_TOP_CANVAS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define COLOUR_PLAIN	0xffu	/* the terminal's own */

struct cell {
	char text[4];		/* UTF-8, of one character; ends with a NUL if shorter */
	uint8_t fg;		/* 0 to 7, or COLOUR_PLAIN */
	uint8_t bg;
	bool bold;
	bool reverse;
};

struct canvas {
	struct cell *cell;	/* ours; a line after the other */
	unsigned int width;
	unsigned int height;
};

struct style {
	uint8_t fg;
	bool bold;
	bool reverse;
};

extern const struct style canvas_plain, canvas_strong, canvas_inverse;

/* 0, or -1: no memory. */
int canvas_make(struct canvas *canvas, unsigned int width, unsigned int height);
void canvas_free(struct canvas *canvas);
void canvas_clear(struct canvas *canvas);

/* NULL: there is no such place. */
struct cell *canvas_cell(struct canvas *canvas, unsigned int line, unsigned int column);

/* ASCII, up to the end of the line; what does not fit is left out. Where it ended. */
unsigned int canvas_put(struct canvas *canvas, unsigned int line, unsigned int column,
			struct style style, const char *text);
unsigned int canvas_print(struct canvas *canvas, unsigned int line, struct style style,
			  const char *format, ...) __attribute__((format(printf, 4, 5)));

/* As text, without colours, and without what is blank at the ends. */
void canvas_write(const struct canvas *canvas, FILE *out);

#endif /* TOOLS_TOP_CANVAS_H */
