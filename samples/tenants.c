// SPDX-License-Identifier: Apache-2.0
/* Two tenants of one pool: one is bounded, and what it leaves behind is given to the other. */
#include <errno.h>
#include <kvmm/kvmm.h>
#include <stdio.h>

#define ACME	1u
#define OTHERS	2u

static struct kvmm_pool *pool;

static void show(void)
{
	struct kvmm_tenant_stat stat = { .size = sizeof(stat) };
	uint32_t cursor = 0;

	while (!kvmm_tenant_next(pool, &cursor, &stat))
		if (stat.tenant != KVMM_TENANT_REST)
			printf("tenant %u: %u blocks, %u of them idle\n", stat.tenant, stat.usage,
			       stat.nr_inactive);
}

/* A prompt of six blocks, which stays cached. */
static int serve(uint32_t tenant)
{
	kvmm_key_t keys[6] = { { { 0 } } };
	struct kvmm_prefix prefix = { .keys = keys, .nr = 6, .domain.tenant = tenant };
	kvmm_mut_t muts[6];
	kvmm_ref_t refs[6];
	int err = kvmm_alloc_for(pool, 6, tenant, muts);

	for (int i = 0; i < 6; i++)
		keys[i].byte[0] = i + 1;	/* the same text: no tenant sees the other's */
	if (!err)
		err = kvmm_prefix_register(pool, &prefix, muts, refs);
	return err ? err : kvmm_put_many(pool, refs, 6);
}

static int run(void)
{
	struct kvmm_tenant_attr acme = KVMM_TENANT_ATTR_INIT, others = KVMM_TENANT_ATTR_INIT;
	kvmm_mut_t muts[9];
	int err;

	acme.max = 8;
	err = kvmm_tenant_set(pool, ACME, &acme);
	if (!err)
		err = kvmm_tenant_set(pool, OTHERS, &others);
	if (!err)
		err = serve(ACME);
	if (!err)
		err = serve(OTHERS);
	show();
	if (err)
		return err;
	err = kvmm_alloc_for(pool, 9, ACME, muts);
	printf("nine blocks for tenant %u: %s\n", ACME, kvmm_strerror(err));
	/* It has left: its blocks go, and so does its account. */
	acme.high = 0;
	err = err == -EDQUOT ? kvmm_tenant_set(pool, ACME, &acme) : -EPROTO;
	show();
	if (!err)
		err = kvmm_tenant_del(pool, ACME);
	show();
	return err;
}

int main(void)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	int err;

	attr.nr_blocks = 16;
	err = kvmm_pool_create(&attr, &pool);
	if (!err)
		err = run();
	if (err)
		fprintf(stderr, "%s\n", kvmm_strerror(err));
	kvmm_pool_destroy(pool);
	return err != 0;
}
