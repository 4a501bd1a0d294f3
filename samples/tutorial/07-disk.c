// SPDX-License-Identifier: Apache-2.0
/* A disk below host memory: another process finds what this one has computed. */
#include "tiers.h"

int main(int argc, char **argv)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct engine engine = { 0 };
	struct tiers tiers;

	attr.device = argc > 1 ? argv[1] : "host";
	attr.nr_blocks = 16;
	open_tiers(&tiers, &attr, argc > 2 ? argv[2] : "tutorial.kvmm");
	open_engine(&engine, &attr);

	for (int i = 0; i < 4; i++)
		submit(&engine, i, i);
	while (turn(&engine) | MUST(kvmm_tier_poll(engine.pool)))
		;
	close_engine(&engine);
	close_tiers(&tiers);
	return 0;
}
