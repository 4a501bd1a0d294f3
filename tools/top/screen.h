/* SPDX-License-Identifier: Apache-2.0 */
/* A terminal that shows canvases, and says which keys were pressed. */
#ifndef TOOLS_TOP_SCREEN_H
#define TOOLS_TOP_SCREEN_H

#include "canvas.h"

/* Keys that are not characters. */
enum { SCREEN_NOTHING = -1, SCREEN_RESIZED = -2, SCREEN_ENDED = -3, SCREEN_ESCAPE = 27 };

/* 0, or -1: this is no terminal that could. It is left as it was by screen_end(), and by signals. */
int screen_begin(void);
void screen_end(void);

/* Make @canvas as large as the screen: 0, or -1: no memory. */
int screen_fit(struct canvas *canvas);
/* Can it show half blocks, in colours? */
bool screen_has_blocks(void);
void screen_show(const struct canvas *canvas);
/* Wait at most @ms for a key, a new size, or a signal to end. */
int screen_key(int ms);

#endif /* TOOLS_TOP_SCREEN_H */
