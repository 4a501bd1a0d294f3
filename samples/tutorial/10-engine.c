// SPDX-License-Identifier: Apache-2.0
/* All of it: requests come until SIGTERM, or there were enough; then all is given back. */
#include "tiers.h"
#include <signal.h>

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	stopped = 1;
}

int main(int argc, char **argv)
{
	struct kvmm_range_attr draft = { sizeof(draft), .nr = 4, .flags = KVMM_ALLOC_GROWS };
	struct kvmm_control_attr socket = KVMM_CONTROL_ATTR_INIT;
	struct kvmm_background moves = KVMM_BACKGROUND_INIT;
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	int nr = 0, max = argc > 3 ? atoi(argv[3]) : 100;
	struct kvmm_control *control;
	struct engine engine = { 0 };
	struct kvmm_pool_stat stat;
	struct tiers tiers;
	kvmm_range_t range;

	signal(SIGTERM, stop);
	attr.device = argc > 1 ? argv[1] : "host";
	attr.name = "tutorial";
	attr.nr_blocks = 40;
	open_tiers(&tiers, &attr, argc > 2 ? argv[2] : "tutorial.kvmm");
	open_engine(&engine, &attr);
	MUST(kvmm_background_set(engine.pool, &moves));
	socket.name = "tutorial";
	MUST(kvmm_control_open(&socket, &control));
	MUST(kvmm_control_add_pool(control, NULL, engine.pool));
	MUST(kvmm_range_alloc_attr(engine.pool, &draft, &range));	/* never shared */

	do {
		for (int i = 0; i < MAX_REQUESTS && nr < max && !stopped; i++)
			if (!engine.waiting[i] && !engine.running[i])
				submit(&engine, i, nr++ % 20);
		MUST(kvmm_background_tick(engine.pool));
		MUST(kvmm_control_poll(control));
	} while (turn(&engine) | MUST(kvmm_tier_poll(engine.pool)) || (nr < max && !stopped));

	MUST(kvmm_range_grow(engine.pool, range, 1));
	MUST(kvmm_range_free(engine.pool, range));
	MUST(kvmm_pool_get_stat(engine.pool, &stat));
	printf("%d requests; %u of %u blocks available\n", nr, stat.nr_available, stat.nr_blocks);
	MUST(kvmm_control_remove_pool(control, engine.pool));
	kvmm_control_close(control);
	close_engine(&engine);
	close_tiers(&tiers);
	return 0;
}
