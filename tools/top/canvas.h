/* SPDX-License-Identifier: Apache-2.0 */
/* A page of cells; a terminal shows it (screen.h), or it is written as text. */
#ifndef TOOLS_TOP_CANVAS_H
#define TOOLS_TOP_CANVAS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * One of the eight colours, bright, or less so in two steps; one of 24 that differ; or the terminal's own.
 * What a terminal of few colours makes of them is screen.c's.
 */
#define COLOUR(base, step)	((base) + 8 * (step))
#define NR_STEPS		3u
#define NR_OTHERS		24u
#define COLOUR_OTHER(nr)	(COLOUR(0, NR_STEPS) + (nr) % NR_OTHERS)
#define NR_COLOURS		(COLOUR(0, NR_STEPS) + NR_OTHERS)
#define COLOUR_PLAIN		0xffu

struct cell {
	char text[4];		/* UTF-8, of one character; ends with a NUL if shorter */
	uint8_t fg;
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

/*
 * Words that are not to be cut: each goes to ->column, or where it does not fit, on the next line, behind
 * @indent blanks.
 */
struct flow {
	struct canvas *canvas;
	unsigned int line, column, indent;
	struct style style;
};

void flow_add(struct flow *flow, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A text, of which each word is one. */
void flow_words(struct flow *flow, const char *text);

/* As text, without colours, and without what is blank at the ends. */
void canvas_write(const struct canvas *canvas, FILE *out);

#endif /* TOOLS_TOP_CANVAS_H */
