// SPDX-License-Identifier: Apache-2.0
/* --version of every tool: linked in, libc finds it by its name. */
#define _GNU_SOURCE
#include <argp.h>
#include <errno.h>

#include <kvmm/types.h>

static void print_version(FILE *out, struct argp_state *state)
{
	fprintf(out, "%s %s\n", program_invocation_short_name, kvmm_version());
}

__attribute__((visibility("default")))
void (*argp_program_version_hook)(FILE *out, struct argp_state *state) = print_version;
