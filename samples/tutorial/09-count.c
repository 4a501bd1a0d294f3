// SPDX-License-Identifier: Apache-2.0
/* What the pool has counted: as numbers, and as the page that Prometheus reads. */
#include "tiers.h"

static void report(struct kvmm_pool *pool)
{
	struct kvmm_metrics_attr attr = KVMM_METRICS_ATTR_INIT;
	struct kvmm_tier_client_stat below;
	struct kvmm_pool_stat stat;
	char page[65536], *line;

	MUST(kvmm_pool_get_stat(pool, &stat));
	MUST(kvmm_pool_stat_of(pool, KVMM_STAT_TIER, &below, sizeof(below)));
	printf("%u of %u blocks available\n", stat.nr_available, stat.nr_blocks);
	printf("%d blocks went down, %d came up\n", (int)below.offloads, (int)below.loads);
	attr.pools = &pool;
	attr.nr_pools = 1;
	MUST(kvmm_metrics_text(&attr, page, sizeof(page)));
	line = strstr(page, "\nkvmm_available_blocks{") + 1;
	printf("%.*s\n", (int)strcspn(line, "\n"), line);
}

int main(int argc, char **argv)
{
	struct kvmm_control_attr socket = KVMM_CONTROL_ATTR_INIT;
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_control *control;
	struct engine engine = { 0 };
	struct tiers tiers;

	attr.device = argc > 1 ? argv[1] : "host";
	attr.name = "tutorial";
	attr.nr_blocks = 16;
	open_tiers(&tiers, &attr, argc > 2 ? argv[2] : "tutorial.kvmm");
	open_engine(&engine, &attr);
	socket.name = "tutorial";
	MUST(kvmm_control_open(&socket, &control));
	MUST(kvmm_control_add_pool(control, NULL, engine.pool));

	for (int i = 0; i < 4; i++)
		submit(&engine, i, i);
	while (turn(&engine) | MUST(kvmm_tier_poll(engine.pool)))
		MUST(kvmm_control_poll(control));
	report(engine.pool);
	MUST(kvmm_control_remove_pool(control, engine.pool));
	kvmm_control_close(control);
	close_engine(&engine);
	close_tiers(&tiers);
	return 0;
}
