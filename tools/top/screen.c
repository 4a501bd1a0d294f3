// SPDX-License-Identifier: Apache-2.0
/*
 * The terminal, by ncurses.
 *
 * SIGINT, SIGTERM and SIGHUP only set a flag: the loop sees it within the time-out of a key, and gives the
 * terminal back in the ordinary way.
 */
#define _XOPEN_SOURCE_EXTENDED 1
#include <langinfo.h>
#include <ncurses.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../client/client.h"
#include "../tool.h"
#include "screen.h"

static volatile sig_atomic_t ended;
static SCREEN *screen;
static bool has_pairs;

static void on_end(int sig)
{
	ended = 1;
}

static void catch(int sig)
{
	struct sigaction act = { .sa_handler = on_end };

	sigaction(sig, &act, NULL);
}

/* Pair of a foreground and a background, of which each is one of nine. */
static short pair_of(uint8_t fg, uint8_t bg)
{
	short f = fg == COLOUR_PLAIN ? 8 : fg, b = bg == COLOUR_PLAIN ? 8 : bg;

	return 1 + f * 9 + b;
}

static void make_pairs(void)
{
	if (!colours_wanted() || !has_colors() || start_color() == ERR)
		return;
	use_default_colors();
	has_pairs = COLORS >= 8 && COLOR_PAIRS > 81;
	for (short f = 0; has_pairs && f < 9; f++)
		for (short b = 0; b < 9; b++)
			init_pair(1 + f * 9 + b, f == 8 ? -1 : f, b == 8 ? -1 : b);
}

int screen_begin(void)
{
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return -1;
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return -1;
	client_stop = &ended;
	catch(SIGINT);
	catch(SIGTERM);
	catch(SIGHUP);
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	curs_set(0);
	make_pairs();
	return 0;
}

void screen_end(void)
{
	if (!screen)
		return;
	curs_set(1);
	endwin();
	delscreen(screen);
	screen = NULL;
}

int screen_fit(struct canvas *canvas)
{
	unsigned int width = COLS > 0 ? COLS : 80, height = LINES > 0 ? LINES : 24;

	if (canvas->cell && width == canvas->width && height == canvas->height)
		return 0;
	canvas_free(canvas);
	return canvas_make(canvas, width, height);
}

bool screen_has_blocks(void)
{
	return has_pairs && !strcmp(nl_langinfo(CODESET), "UTF-8");
}

static attr_t attr_of(const struct cell *cell)
{
	attr_t attr = has_pairs ? COLOR_PAIR(pair_of(cell->fg, cell->bg)) : A_NORMAL;

	return attr | (cell->bold ? A_BOLD : 0) | (cell->reverse ? A_REVERSE : 0);
}

void screen_show(const struct canvas *canvas)
{
	erase();
	for (unsigned int y = 0; y < canvas->height; y++)
		for (unsigned int x = 0; x < canvas->width; x++) {
			const struct cell *cell = &canvas->cell[(size_t)y * canvas->width + x];

			attrset(attr_of(cell));
			mvaddnstr(y, x, cell->text, strnlen(cell->text, sizeof(cell->text)));
		}
	attrset(A_NORMAL);
	refresh();
}

int screen_key(int ms)
{
	int key;

	if (ended)
		return SCREEN_ENDED;
	timeout(ms);
	key = getch();
	if (ended)
		return SCREEN_ENDED;
	if (key == KEY_RESIZE)
		return SCREEN_RESIZED;
	return key == ERR ? SCREEN_NOTHING : key;
}
