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
static short pair_of[NR_COLOURS + 1][NR_COLOURS + 1];	/* 0: none yet; the last colour is the plain one */
static short nr_pairs;

static void on_end(int sig)
{
	ended = 1;
}

static void catch(int sig)
{
	struct sigaction act = { .sa_handler = on_end };

	sigaction(sig, &act, NULL);
}

/* Numbers that xterm has for them. */
static const uint8_t of_256[NR_COLOURS] = {
	236, 196, 40, 226, 33, 201, 51, 250,   236, 160, 34, 178, 26, 164, 37, 245,
	236, 88, 22, 136, 18, 90, 23, 240,
	33, 40, 196, 201, 51, 226, 208, 93, 118, 39, 199, 166, 75, 114, 210, 141, 87, 229, 173, 63, 155, 203,
	30, 136,
};

/* Of 16 colours the brightest step has the bright ones; 8 are too few for steps. Black and white have none. */
static short terminal_colour(unsigned int colour)
{
	unsigned int base = colour % 8, other = colour - COLOUR_OTHER(0);

	if (colour >= NR_COLOURS)
		return -1;
	if (COLORS >= 256)
		return of_256[colour];
	if (colour >= COLOUR_OTHER(0))
		return 1 + other % 6 + (COLORS >= 16 && other % 12 >= 6 ? 8 : 0);
	return base + (COLORS >= 16 && colour < 8 && base % 7 ? 8 : 0);
}

/* Made when it is first wanted: some terminals have 64 pairs, and few are on a page. */
static short make_pair(unsigned int fg, unsigned int bg)
{
	short *pair = &pair_of[fg < NR_COLOURS ? fg : NR_COLOURS][bg < NR_COLOURS ? bg : NR_COLOURS];

	if (!*pair && nr_pairs + 1 < COLOR_PAIRS &&
	    init_pair(nr_pairs + 1, terminal_colour(fg), terminal_colour(bg)) != ERR)
		*pair = ++nr_pairs;
	return *pair;
}

static void begin_colours(void)
{
	if (!colours_wanted() || !has_colors() || start_color() == ERR)
		return;
	use_default_colors();
	has_pairs = COLORS >= 8 && COLOR_PAIRS >= 64;
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
	begin_colours();
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

/* An attribute by itself has room for 255 pairs only. */
static void set_style(const struct cell *cell)
{
	attr_set((cell->bold ? A_BOLD : 0) | (cell->reverse ? A_REVERSE : 0),
		 has_pairs ? make_pair(cell->fg, cell->bg) : 0, NULL);
}

/* Those of pages before are of no use when they leave none for this one. */
static void spare_pairs(void)
{
	if (nr_pairs + 1 < COLOR_PAIRS)
		return;
	memset(pair_of, 0, sizeof(pair_of));
	nr_pairs = 0;
}

void screen_show(const struct canvas *canvas)
{
	spare_pairs();
	erase();
	for (unsigned int y = 0; y < canvas->height; y++)
		for (unsigned int x = 0; x < canvas->width; x++) {
			const struct cell *cell = &canvas->cell[(size_t)y * canvas->width + x];

			set_style(cell);
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
