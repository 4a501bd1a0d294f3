// SPDX-License-Identifier: Apache-2.0
/*
 * An engine that can be looked at and steered from outside, without a thread of kvmm's: its own loop
 * serves the socket. It ends when sequence 42 has been sent from pool "decode" to pool "spare":
 *
 *	kvmm-migrate start --pool decode spare 42
 *
 * usage: steer [--control DIR]	the socket is DIR/steer.sock
 */
#include <errno.h>
#include <kvmm/kvmm.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define SEQ	42

static int fail(const char *what, int err)
{
	fprintf(stderr, "%s: %s\n", what, kvmm_strerror(err));
	return 1;
}

static int make(struct kvmm_control *control, const char *name, struct kvmm_pool **pool)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	int err;

	attr.name = name;
	attr.nr_blocks = 256;
	attr.block_bytes = 4096;
	err = kvmm_pool_create(&attr, pool);
	return err ? err : kvmm_control_add_pool(control, NULL, *pool);
}

/* Where an engine would look after its requests, too. Return: when to come again, in ms. */
static int turn(struct kvmm_control *control, int wait_ms)
{
	struct pollfd fd = { .fd = kvmm_control_fd(control), .events = POLLIN };

	poll(&fd, 1, wait_ms);
	return kvmm_control_poll(control);
}

/* Until the sequence has left, and whoever asked for that has been told, and has gone. */
static int serve(struct kvmm_control *control, struct kvmm_pool *pool)
{
	struct kvmm_control_stat stat = { .size = sizeof(stat) };
	int wait_ms = 0;

	while (wait_ms >= 0 && (stat.clients || kvmm_range_find_seq(pool, SEQ, NULL, 0))) {
		wait_ms = turn(control, wait_ms);
		kvmm_control_get_stat(control, &stat);
	}
	return wait_ms < 0 ? wait_ms : 0;
}

int main(int argc, char **argv)
{
	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;
	struct kvmm_range_attr range = { .size = sizeof(range), .nr = 75, .seq = SEQ };
	struct kvmm_pool *decode = NULL, *spare = NULL;
	struct kvmm_control *control;
	kvmm_range_t handle;
	int err;

	attr.name = "steer";
	if (argc == 3 && !strcmp(argv[1], "--control"))
		attr.dir = argv[2];
	else if (argc > 1)
		return fail("usage: steer [--control DIR]", -EINVAL) + 1;
	err = kvmm_control_open(&attr, &control);
	if (err)
		return fail("the socket", err);
	err = make(control, "decode", &decode);
	if (!err)
		err = make(control, "spare", &spare);
	if (!err)
		err = kvmm_range_alloc_attr(decode, &range, &handle);
	if (!err)
		err = serve(control, decode);
	if (err)
		return fail("steer", err);
	printf("sequence %d: %d range here, %d there\n", SEQ,
	       kvmm_range_find_seq(decode, SEQ, NULL, 0), kvmm_range_find_seq(spare, SEQ, NULL, 0));
	kvmm_control_remove_pool(control, decode);
	kvmm_control_remove_pool(control, spare);
	kvmm_control_close(control);
	kvmm_pool_destroy(decode);
	kvmm_pool_destroy(spare);
	return 0;
}
