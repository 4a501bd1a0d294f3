// SPDX-License-Identifier: Apache-2.0
/* A control socket, served by the engine's own loop; it ends when a tool has looked. */
#include "tiers.h"

int main(int argc, char **argv)
{
	struct kvmm_control_attr socket = KVMM_CONTROL_ATTR_INIT;
	struct kvmm_control_stat seen = KVMM_CONTROL_STAT_INIT;
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_control *control;
	struct engine engine = { 0 };
	struct tiers tiers;

	attr.device = argc > 1 ? argv[1] : "host";
	attr.name = "tutorial";
	attr.nr_blocks = 16;
	open_tiers(&tiers, &attr, argc > 2 ? argv[2] : "tutorial.kvmm");
	open_engine(&engine, &attr);
	socket.name = "tutorial";		/* the folder is $KVMM_SOCKET_DIR */
	MUST(kvmm_control_open(&socket, &control));
	MUST(kvmm_control_add_pool(control, NULL, engine.pool));

	for (int i = 0; i < 4; i++)
		submit(&engine, i, i);
	do {
		while (turn(&engine) | MUST(kvmm_tier_poll(engine.pool)))
			;
		MUST(kvmm_control_poll(control));
		MUST(kvmm_control_get_stat(control, &seen));
	} while (!seen.requests || seen.clients);
	MUST(kvmm_control_remove_pool(control, engine.pool));
	kvmm_control_close(control);
	close_engine(&engine);
	close_tiers(&tiers);
	return 0;
}
