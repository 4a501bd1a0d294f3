// SPDX-License-Identifier: Apache-2.0
/* The progress bar: drawn at most ten times a second, wiped at the end. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "live.h"
#include "progress.h"

#define WIDTH		40
#define LOOK_EVERY	64	/* steps between two looks at the clock */

/* One process, one bar. */
static struct {
	const char *what;
	u64 total;
	u64 last_ms;
	u64 start_ms;
	u64 last_done;
	bool on;
	bool drawn;
} bar;

static u64 now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000 + (u64)ts.tv_nsec / 1000000;
}

static void draw(u64 done)
{
	u64 ms = bar.last_ms - bar.start_ms;
	int filled = (int)(done * WIDTH / bar.total);
	u64 left_s = done ? ms * (bar.total - done) / done / 1000 : 0;
	char text[WIDTH + 1];

	memset(text, '.', WIDTH);
	memset(text, '#', (size_t)filled);
	text[WIDTH] = '\0';
	fprintf(stderr, "\r%s [%s] %3d %%  %llu s left \033[K", bar.what, text,
		(int)(done * 100 / bar.total), (unsigned long long)left_s);
	bar.drawn = true;
}

void bar_start(enum progress_wish wish, const char *what, u64 total)
{
	memset(&bar, 0, sizeof(bar));
	bar.on = total && (wish == PROGRESS_ON || (wish == PROGRESS_AUTO && isatty(STDERR_FILENO)));
	bar.what = what;
	bar.total = total;
	bar.start_ms = bar.last_ms = now_ms();
	complain_before = bar_stop;
}

void bar_step(u64 done)
{
	u64 ms;

	if (!bar.on || done < bar.last_done + LOOK_EVERY)
		return;
	bar.last_done = done;
	ms = now_ms();
	if (ms - bar.last_ms < 100)
		return;
	bar.last_ms = ms;
	draw(min_u64(done, bar.total));
}

void bar_stop(void)
{
	if (bar.drawn)
		fputs("\r\033[K", stderr);
	bar.on = false;
	bar.drawn = false;
}

void progress_start(const struct run *run, const char *what, u64 total)
{
	if (!run->meter)
		bar_start(run->opt->progress, what, total);
}

void progress_step(const struct run *run, u64 done)
{
	struct meter *meter = run->meter;

	live_step();
	if (!meter) {
		bar_step(done);
		return;
	}
	/* Relaxed: only shown to people. */
	__atomic_fetch_add(meter->sum, done - meter->done, __ATOMIC_RELAXED);
	meter->done = done;
}

void progress_stop(const struct run *run)
{
	if (!run->meter)
		bar_stop();
}
