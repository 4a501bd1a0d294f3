// SPDX-License-Identifier: Apache-2.0
/*
 * The control socket of a replay, served by a thread of the library's. Blocks that are moved through it
 * are found again by their handles, as an engine would; mode frag keeps books on its own moves, so there
 * it is for looking only. And the events of its pool on the network, as an engine publishes them.
 */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <kvmm/ext/control.h>

#include "live.h"

static struct {
	const char *dir;
	struct kvmm_control *control;
	const char *endpoint;		/* NULL: nothing is published */
	const char *replay_endpoint;
	struct kvmm_publisher *publisher;
	u32 slow_us;
} live;

static void stop(void)
{
	kvmm_control_close(live.control);
	live.control = NULL;
}

void live_take_control(struct argp_state *state, void *base, const char *arg)
{
	live.dir = arg;
	atexit(stop);
}

void live_take_publish(struct argp_state *state, void *base, const char *arg)
{
	char *comma = strchr((char *)arg, ',');	/* argv may be written to */

	if (comma)
		*comma = '\0';
	live.endpoint = arg;
	live.replay_endpoint = comma ? comma + 1 : NULL;
}

void live_take_slow(struct argp_state *state, void *base, const char *arg)
{
	live.slow_us = (u32)option_number(state, "slow", arg, 0, 60000000);
}

bool live_is_on(void)
{
	return live.dir;
}

static int open_socket(const struct run *run)
{
	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;

	attr.name = "replay";
	attr.dir = live.dir;
	attr.flags = KVMM_CONTROL_THREAD;
	if (!strcmp(run->opt->mode->name, "frag"))
		attr.flags |= KVMM_CONTROL_READ_ONLY;
	return kvmm_control_open(&attr, &live.control);
}

static int publish(struct kvmm_pool *pool)
{
	struct kvmm_publisher_attr attr = KVMM_PUBLISHER_ATTR_INIT;
	int err;

	attr.endpoint = live.endpoint;
	attr.replay_endpoint = live.replay_endpoint;
	attr.topic = "kv@replay";
	err = kvmm_publisher_start(pool, &attr, &live.publisher);
	if (err)
		complain(EXIT_WRONG, "--publish %s: %s%s", live.endpoint, kvmm_strerror(err),
			 err == -ENOENT ? ": is there a libzmq (package libzmq5)?" : "");
	return err;
}

static int show(const struct run *run, struct kvmm_pool *pool)
{
	int err = live.control ? 0 : open_socket(run);

	if (!err)
		err = kvmm_control_add_pool(live.control, NULL, pool);
	if (err)
		complain(EXIT_WRONG, "--control %s: %s", live.dir, kvmm_strerror(err));
	return err;
}

int live_add(const struct run *run, struct kvmm_pool *pool)
{
	int err = 0;

	if (run->meter)
		return 0;
	if (live.dir)
		err = show(run, pool);
	if (!err && live.endpoint)
		err = publish(pool);
	return err;
}

void live_remove(const struct run *run, struct kvmm_pool *pool)
{
	if (!pool || run->meter)
		return;
	kvmm_publisher_stop(live.publisher);
	live.publisher = NULL;
	if (live.control)
		kvmm_control_remove_pool(live.control, pool);
}

/* Between two requests. */
static void live_step(void)
{
	struct timespec rest = { live.slow_us / 1000000, live.slow_us % 1000000 * 1000l };

	if (live.slow_us)
		nanosleep(&rest, NULL);
}

/* ---- the bar: drawn at most ten times a second, wiped at the end ---- */

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

void bar_start(const struct options *opt, const char *what, u64 total)
{
	memset(&bar, 0, sizeof(bar));
	bar.on = total && !opt->no_progress && (opt->progress || isatty(STDERR_FILENO));
	bar.what = what;
	bar.total = total;
	bar.start_ms = bar.last_ms = now_ms();
	complain_before = bar_stop;
}

static void bar_step(u64 done)
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
		bar_start(run->opt, what, total);
}

void progress_step(const struct run *run, u64 done)
{
	struct meter *meter = run->meter;
	u64 sum;

	live_step();
	if (!meter) {
		bar_step(done);
		return;
	}
	/* Relaxed: only shown to people. */
	sum = __atomic_add_fetch(meter->sum, done - meter->done, __ATOMIC_RELAXED);
	meter->done = done;
	if (meter->shows)
		bar_step(sum);
}

void progress_stop(const struct run *run)
{
	if (!run->meter)
		bar_stop();
}
