// SPDX-License-Identifier: Apache-2.0
/* Calls that make something say which of the reasons for an errno it was. */
#include <criterion/criterion.h>
#include <kvmm/ext/control.h>
#include <kvmm/ext/disk.h>
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
	expect_why(make_pool(&attr), -EINVAL, "name of a pool: 0 bytes, not 1 to 63");
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
