// SPDX-License-Identifier: Apache-2.0
/* What howto.rst shows of calls: new weights, and a tenant that goes. */
#include "tiers.h"

#define BATCH	256

/* No request runs. */
static void new_weights(struct kvmm_pool *pool)
{
	int err;

	while ((err = kvmm_reset_cache(pool)) == -EBUSY) {	/* copies are on their way */
		MUST(kvmm_tier_abort_all(pool));
		MUST(kvmm_tier_poll(pool));
	}
	MUST(err);
}

/* No request of the tenant runs, and nothing moves meanwhile. */
static void delete_tenant(struct kvmm_pool *pool, uint32_t tenant)
{
	struct kvmm_event found[BATCH];
	kvmm_key_t keys[BATCH];
	struct kvmm_events *events;
	struct kvmm_snapshot walk;
	int nr;

	MUST(kvmm_events_open(pool, NULL, &events));
	MUST(kvmm_snapshot_begin(events, &walk));
	while ((nr = MUST(kvmm_snapshot_read(events, &walk, found, BATCH)))) {
		/* A name has a layout and a group, too: those of one domain at a time. */
		for (int i = 0; i < nr;) {
			struct kvmm_prefix names = { .keys = keys, .domain = found[i].domain };

			for (; i < nr && !memcmp(&found[i].domain, &names.domain, sizeof(kvmm_domain_t)); i++) {
				keys[names.nr++] = found[i].key;
				if (names.domain.tenant == tenant && found[i].medium == KVMM_MEDIUM_DEVICE)
					MUST(kvmm_evict_blocks(pool, &found[i].block, 1));
			}
			if (names.domain.tenant == tenant)
				MUST(kvmm_tier_forget(pool, &names));	/* for good, when it returns */
		}
	}
	kvmm_events_close(events);
}

static void serve(struct engine *engine, uint32_t tenant)
{
	engine->tenant = tenant;
	submit(engine, tenant, 0);
	while (turn(engine) | MUST(kvmm_tier_poll(engine->pool)))
		;
}

int main(int argc, char **argv)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct engine engine = { 0 };
	struct tiers tiers;

	attr.device = argc > 1 ? argv[1] : "host";
	attr.nr_blocks = 16;
	open_tiers(&tiers, &attr, argc > 2 ? argv[2] : "howto.kvmm");
	open_engine(&engine, &attr);
	serve(&engine, 1);
	serve(&engine, 2);
	delete_tenant(engine.pool, 2);
	serve(&engine, 1);
	serve(&engine, 2);
	new_weights(engine.pool);
	serve(&engine, 1);
	close_engine(&engine);
	close_tiers(&tiers);
	return 0;
}
