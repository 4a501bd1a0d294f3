/* SPDX-License-Identifier: Apache-2.0 */
/* A control socket with one pool, for the tests of what clients do. */
#ifndef ONE_POOL_H
#define ONE_POOL_H

#include "tests/ctl/control_util.h"
#include "tests/pool/util.h"
#include "tests/support/fake_env.h"

static struct kvmm_control *control;
static struct kvmm_pool *pool;
static struct fake_env fake;

static void set_up(void)
{
	fake_env_install(&fake);
	folder_make();
	pool = make_cache(8, "lru");
	control = control_in_folder(NULL);
	cr_assert_eq(kvmm_control_add_pool(control, "alpha", pool), 0);
}

static void tear_down(void)
{
	kvmm_control_close(control);
	end_pool(pool);
	folder_remove();
	cr_expect_eq(kv_mem_bytes(), 0);
	fake_env_remove(&fake);
}

/* With other attributes. */
static void open_anew(const struct kvmm_control_attr *attr)
{
	kvmm_control_close(control);
	control = control_in_folder(attr);
	cr_assert_eq(kvmm_control_add_pool(control, "alpha", pool), 0);
}

static struct kvmm_control_stat counts(void)
{
	struct kvmm_control_stat stat = { .size = sizeof(stat) };

	cr_assert_eq(kvmm_control_get_stat(control, &stat), 0);
	return stat;
}

#endif /* ONE_POOL_H */
