// SPDX-License-Identifier: Apache-2.0
/*
 * The control socket of a replay, served by a thread of the library's. Blocks that are moved through it
 * are found again by their handles, as an engine would; mode frag keeps books on its own moves, so there
 * it is for looking only. And the events of its pool on the network, as an engine publishes them.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kvmm/control.h>
#include <kvmm/publisher.h>

#include "live.h"

enum { KEY_CONTROL = 0x1000, KEY_SLOW, KEY_PUBLISH };

static struct {
	const char *dir;
	struct kvmm_control *control;
	const char *endpoint;		/* NULL: nothing is published */
	const char *replay_endpoint;
	struct kvmm_publisher *publisher;
	u32 slow_us;
} live;

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "While it goes on:", 90 },
	{ "control", KEY_CONTROL, "DIR", 0,
	  "Serve a control socket, DIR/replay.sock: kvmm-stat and others look at the replay there", 0 },
	{ "publish", KEY_PUBLISH, "PUB[,ROUTER]", 0,
	  "Publish events of the cache at an endpoint of ZeroMQ, as tcp://127.0.0.1:5557, with replay and "
	  "snapshots at a second one; not in mode frag", 0 },
	{ "slow", KEY_SLOW, "US", 0, "Rest for US microseconds behind each request [0]", 0 },
	{ 0 },
};

static void stop(void)
{
	kvmm_control_close(live.control);
	live.control = NULL;
}

static void start(const char *dir)
{
	live.dir = dir;
	atexit(stop);
}

static void take_endpoints(char *arg)
{
	char *comma = strchr(arg, ',');

	if (comma)
		*comma = '\0';
	live.endpoint = arg;
	live.replay_endpoint = comma ? comma + 1 : NULL;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	char *end;

	switch (key) {
	case KEY_CONTROL:
		start(arg);
		return 0;
	case KEY_PUBLISH:
		take_endpoints(arg);
		return 0;
	case KEY_SLOW:
		live.slow_us = (u32)strtoul(arg, &end, 10);
		if (*arg < '0' || *arg > '9' || *end || live.slow_us > 60000000)
			bad_option(state, "--slow: '%s' is not a number from 0 to 60000000", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp live_argp = { .options = options, .parser = parse };

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

void live_step(void)
{
	struct timespec rest = { live.slow_us / 1000000, live.slow_us % 1000000 * 1000l };

	if (live.slow_us)
		nanosleep(&rest, NULL);
}
