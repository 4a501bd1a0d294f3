// SPDX-License-Identifier: Apache-2.0
/* Four requests, memory for two: the others wait until one is done, and no thread sleeps. */
#include "engine.h"

int main(int argc, char **argv)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct engine engine = { 0 };

	attr.device = argc > 1 ? argv[1] : "host";
	attr.nr_blocks = 8;
	open_engine(&engine, &attr);

	for (int i = 0; i < 4; i++)
		submit(&engine, i, i);
	while (turn(&engine))
		;
	close_engine(&engine);
	return 0;
}
