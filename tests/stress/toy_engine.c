// SPDX-License-Identifier: Apache-2.0
/*
 * The toy engine on the host with a thread for each lane and one that moves blocks, compacts, lends
 * memory and compares checksums; for ThreadSanitizer. Its sources are compiled as one here.
 */
int toy_main(int argc, char **argv);

#define main toy_main
#include "samples/toy/main.c"
#undef main
#include "samples/toy/engine.c"
#include "samples/toy/host.c"
#include "samples/toy/kernels.c"
#include "samples/toy/lane.c"
#include "samples/toy/model.c"
#include "samples/toy/move.c"
#include "samples/toy/request.c"
#include "samples/toy/tier.c"

int driver_device_open(const char *name, struct device **device, const char **why)
{
	*why = "not here";
	return -ENODEV;
}

int device_open(const char *name, struct device **device, const char **why)
{
	*why = "";
	return host_device_open(device);
}

static int run_engine(char *first, char *second)
{
	char *argv[] = { "toy-engine", "--threads", "--requests", "128", first, second, NULL };

	return toy_main(6, argv);
}

/* What lanes publish goes down, and prompts come again from there. */
static int run_with_tier(void)
{
	char *argv[] = { "toy-engine", "--threads", "--requests", "128", "--mode", "beside",
			 "--host-tier", "200", "--prompts", "48", NULL };

	return toy_main(10, argv);
}

int main(void)
{
	return run_engine("--mode", "beside") || run_engine("--mode", "between") ||
	       run_engine("--elastic", "--verify") || run_with_tier();
}
