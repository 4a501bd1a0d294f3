// SPDX-License-Identifier: Apache-2.0
/* Calls that make something say which of the reasons for an errno it was. */
#include <criterion/criterion.h>
#include <kvmm/ext/control.h>
#include <kvmm/ext/device.h>
#include <kvmm/ext/disk.h>
#include <kvmm/ext/migrate.h>
#include <kvmm/ext/registry.h>
#include <kvmm/ext/slab.h>
#include <kvmm/pool.h>
#include <kvmm/tier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <kv/bits.h>
#include <kv/err.h>

static void expect_why(int err, int want, const char *why)
{
	cr_expect_eq(err, want, "%s: %d", why, err);
	cr_expect_str_eq(kvmm_why(), why);
}

static int make_pool(struct kvmm_pool_attr *attr)
{
	struct kvmm_pool *pool;
	int err = kvmm_pool_create(attr, &pool);

	if (!err)
		kvmm_pool_destroy(pool);
	*attr = (struct kvmm_pool_attr){ .size = sizeof(*attr), .nr_blocks = 8 };
	return err;
}

Test(why, a_pool_is_refused)
{
	struct { struct kvmm_pool_attr known; u64 more; } longer = { { .size = sizeof(longer) }, 1 };
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_plane planes[2] = { { 4096, 64, 64 }, { 4096, 64, 64 } };
	char text[100];

	expect_why(make_pool(&attr), -EINVAL, "pool: 0 blocks, not 1 to 16777216");
	attr.block_tokens = 65537;
	expect_why(make_pool(&attr), -EINVAL, "pool: 65537 tokens a block, not 1 to 65536");
	attr.flags = KVMM_POOL_ELASTIC;
	expect_why(make_pool(&attr), -EINVAL, "pool: KVMM_POOL_ELASTIC goes with @block_bytes, "
		   "@unit_bytes with KVMM_POOL_ELASTIC");
	attr.flags = 1u << 30;
	expect_why(make_pool(&attr), -EINVAL, "pool: flags 0x40000000, dup_policy 0 or zero 0 is none");
	attr.nr_planes = 1;
	expect_why(make_pool(&attr), -EINVAL, "pool: 1 planes, not 1 to 1024, or none");
	attr.block_bytes = UINT64_MAX;
	expect_why(make_pool(&attr), -EINVAL, "pool: @block_bytes are more than there can be");
	attr.planes = planes;
	attr.nr_planes = 2;
	expect_why(make_pool(&attr), -EINVAL, "pool: two planes share memory");
	attr.planes = planes;
	attr.nr_planes = 1;
	attr.block_bytes = 65;
	expect_why(make_pool(&attr), -EINVAL, "pool: the planes have 64 bytes, not @block_bytes");
	planes[0].bytes = 0;
	attr.planes = planes;
	attr.nr_planes = 1;
	expect_why(make_pool(&attr), -EINVAL, "pool: plane 0 is empty, longer than its stride, or "
		   "beyond the last address");
	attr.policy = "luck";
	expect_why(make_pool(&attr), -ENOENT, "pool: no policy \"luck\"");
	attr.compactor = "press";
	expect_why(make_pool(&attr), -ENOENT, "pool: no compactor \"press\"");
	attr.index = "card";
	expect_why(make_pool(&attr), -ENOENT, "pool: no index \"card\"");
	attr.name = "";
	expect_why(make_pool(&attr), -EINVAL, "name of a pool: it is empty");
	memset(text, 'x', 64);
	text[64] = '\0';
	attr.name = text;
	expect_why(make_pool(&attr), -EINVAL, "name of a pool: 64 bytes, more than 63");
	snprintf(text, sizeof(text), "pool: %zu bytes of attributes, of which %zu are known",
		 sizeof(longer), sizeof(longer.known));
	expect_why(make_pool(&longer.known), -EINVAL, text);
	expect_why(make_pool(&attr), 0, "");
}

static int make_tier(struct kvmm_tier_attr *attr)
{
	const struct kvmm_tier_attr preset = KVMM_TIER_ATTR_INIT;
	struct kvmm_tier *tier;
	int err = kvmm_tier_host_create(attr, &tier);

	if (!err)
		kvmm_tier_destroy(tier);
	*attr = preset;
	return err;
}

Test(why, a_tier_is_refused)
{
	struct kvmm_tier_attr attr = KVMM_TIER_ATTR_INIT;

	attr.flags = 1u << 30;
	attr.numa_node = -2;
	expect_why(make_tier(&attr), -EINVAL, "tier: flags 0x40000000 or node -2 is none");
	attr.capacity_bytes = 4096;
	expect_why(make_tier(&attr), -EINVAL, "tier: @capacity_bytes goes with @block_bytes, and "
		   "without @capacity_blocks");
	attr.block_bytes = UINT64_MAX;
	expect_why(make_tier(&attr), -EINVAL, "tier: @block_bytes are more than there can be");
	attr.policy = "luck";
	expect_why(make_tier(&attr), -ENOENT, "tier: no policy \"luck\"");
	attr.policy = "lru-classic";
	expect_why(make_tier(&attr), -EINVAL, "tier: \"lru-classic\" is a policy of pools only");
	expect_why(make_tier(&attr), -EINVAL, "tier: no block has room in it");
}

static int open_disk(struct kvmm_disk_attr *attr, const char *path)
{
	const struct kvmm_disk_attr preset = KVMM_DISK_ATTR_INIT;
	struct kvmm_disk *disk;
	int err;

	attr->path = path;
	err = kvmm_disk_open(attr, &disk);
	*attr = preset;
	return err;
}

Test(why, a_store_is_refused)
{
	struct kvmm_disk_attr attr = KVMM_DISK_ATTR_INIT;
	char path[] = "/tmp/kvmm-why-XXXXXX";

	attr.segment_bytes = 100;
	expect_why(open_disk(&attr, "x"), -EINVAL, "disk: segments of 100 bytes, no power of two from "
		   "65536 to 268435456");
	attr.nr_layouts = 1;
	expect_why(open_disk(&attr, "x"), -EINVAL, "disk: 1 layouts at NULL");
	attr.io = KVMM_DISK_NR_IOS;
	expect_why(open_disk(&attr, "x"), -EINVAL, "disk: io 2, depth 0 or flags 0x1 is none");
	cr_assert_not_null(mkdtemp(path));
	cr_assert_eq(chmod(path, 0755), 0);
	expect_why(open_disk(&attr, path), -EPERM, "disk: its folder is open to others");
	rmdir(path);
}

static int open_control(struct kvmm_control_attr *attr)
{
	const struct kvmm_control_attr preset = KVMM_CONTROL_ATTR_INIT;
	struct kvmm_control *control;
	int err = kvmm_control_open(attr, &control);

	*attr = preset;
	return err;
}

Test(why, a_control_socket_is_refused)
{
	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;

	attr.flags = 1u << 30;
	expect_why(open_control(&attr), -EINVAL,
		   "control: flags 0x40000000 or what is reserved is none");
	attr.max_clients = 1025;
	expect_why(open_control(&attr), -EINVAL, "control: 1025 clients, not 1 to 1024");
	attr.idle_ms = 0;
	expect_why(open_control(&attr), -EINVAL,
		   "control: @max_rate is not 1 to 1000000, or a time is 0");
	attr.max_answer_bytes = UINT32_MAX;
	cr_expect_eq(open_control(&attr), -EINVAL);
	cr_expect(!strncmp(kvmm_why(), "control: answers of 4294967295 bytes", 36), "%s", kvmm_why());
	attr.name = ".";
	cr_expect_eq(open_control(&attr), -EINVAL);
	cr_expect_str_eq(kvmm_why(), "control: the name is not 1 to 63 of letters, digits, ._-");
	attr.dir = "/dev/null/x";
	cr_expect_lt(open_control(&attr), 0);
	cr_expect(!strncmp(kvmm_why(), "control: the folder /dev/null/x: ", 33), "%s", kvmm_why());
}

Test(why, a_publisher_is_refused)
{
	struct kvmm_publisher_attr attr = KVMM_PUBLISHER_ATTR_INIT;
	struct kvmm_publisher *publisher;

	attr.high_water = 0;
	expect_why(kvmm_publisher_start(NULL, &attr, &publisher), -EINVAL,
		   "publisher: 0 messages of a subscriber, not 1 to 2^30");
	attr.topic = NULL;
	expect_why(kvmm_publisher_start(NULL, &attr, &publisher), -EINVAL,
		   "publisher: no endpoint or no topic, or notes of 0 bytes");
}

static int migrate_to(const char *target)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 8 };
	struct kvmm_migrate_attr how = { .size = sizeof(how), .target = target };
	struct kvmm_migrate *job;
	int err;

	cr_assert_eq(kvmm_pool_create(&attr, &how.src), 0);
	err = kvmm_migrate_start(&how, &job);
	kvmm_pool_destroy(how.src);
	return err;
}

static int serve_at(const char *path)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 8 };
	struct kvmm_migrate_serve_attr how = { .size = sizeof(how), .path = path };
	struct kvmm_migrate_server *server;
	int err;

	cr_assert_eq(kvmm_pool_create(&attr, &how.pool), 0);
	err = kvmm_migrate_serve(&how, &server);
	kvmm_pool_destroy(how.pool);
	return err;
}

Test(why, a_target_of_migration_is_refused)
{
	expect_why(migrate_to("pigeon://loft"), -EINVAL,
		   "migrate: no such transport: pigeon://loft");
	expect_why(migrate_to(""), -EINVAL, "name of a target: it is empty");
	expect_why(serve_at(""), -EINVAL, "name of a socket: it is empty");
	expect_why(serve_at(NULL), -EINVAL, "");
}

#define expect_no_why(call)						\
	do {								\
		struct kvmm_pool_attr attr = { .size = sizeof(attr) };	\
									\
		expect_why(make_pool(&attr), -EINVAL,			\
			   "pool: 0 blocks, not 1 to 16777216");	\
		expect_why(call, -EINVAL, "");				\
	} while (0)

/* Each of them has reasons to give; for this refusal it has none, and gives no older one. */
Test(why, is_not_that_of_an_older_call)
{
	struct kvmm_slab_attr slab = { .size = 1 };
	struct kvmm_slab_cache *cache;
	const struct kvmm_registry_attr preset = KVMM_REGISTRY_ATTR_INIT;
	struct kvmm_registry *reg;

	cr_assert_eq(kvmm_registry_create(&preset, &reg), 0);
	expect_no_why(kvmm_slab_cache_create(&slab, &cache));
	expect_no_why(kvmm_device_get_info(NULL, NULL));
	expect_no_why(kvmm_attach_type_create(reg, "", 0, NULL));
	expect_no_why(kvmm_migrate_start(NULL, NULL));
	expect_no_why(kvmm_migrate_serve(NULL, NULL));
	expect_no_why(kvmm_control_add_pool(NULL, "x", NULL));
	expect_no_why(kvmm_pool_create(NULL, NULL));
	expect_no_why(kvmm_tier_host_create(NULL, NULL));
	expect_no_why(kvmm_disk_open(NULL, NULL));
	expect_no_why(kvmm_control_open(NULL, NULL));
	expect_no_why(kvmm_publisher_start(NULL, NULL, NULL));
	kvmm_registry_destroy(reg);
}
