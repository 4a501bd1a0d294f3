/* SPDX-License-Identifier: Apache-2.0 */
/* A control socket with two pools and a visitor, for the tests of commands. */
#ifndef TWO_POOLS_H
#define TWO_POOLS_H

#include <unistd.h>

#include "tests/ctl/control_util.h"
#include "tests/pool/util.h"
#include "tests/support/fake_env.h"

static struct kvmm_control *control;
static struct kvmm_pool *alpha, *beta;
static struct fake_env fake;
static int fd;

static void set_up(void)
{
	fake_env_install(&fake);
	folder_make();
	alpha = make_cache(16, "lru");
	beta = make_cache(16, "lru");
	control = control_in_folder(NULL);
	cr_assert_eq(kvmm_control_add_pool(control, "alpha", alpha), 0);
	cr_assert_eq(kvmm_control_add_pool(control, "beta", beta), 0);
	fd = visitor(control);
}

static void tear_down(void)
{
	close(fd);
	kvmm_control_close(control);
	end_pool(alpha);
	end_pool(beta);
	folder_remove();
	cr_expect_eq(kv_mem_bytes(), 0);
	fake_env_remove(&fake);
}

#endif /* TWO_POOLS_H */
