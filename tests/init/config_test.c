// SPDX-License-Identifier: Apache-2.0
/* Settings from texts, files and the environment: all of them, or none and the line that is to blame. */
#include <unistd.h>

#include <kv/sys.h>
#include <kv/tier.h>

#include "init/config.h"
#include "tests/support/fake_env.h"
#include "tests/support/test.h"

struct all {
	struct kvmm_tier_attr host;
	struct kvmm_tier_client_attr client;
	struct kvmm_tier_config knobs;
	struct kvmm_disk_attr disk;
	struct kvmm_tier_disk_attr disk_use;
	struct kvmm_tier_remote_attr remote;
};

static struct all all, before;
static struct kvmm_config config;
static const char *env_name, *env_value;
static struct kv_sys_ops sys;

static const char *fake_getenv(void *ctx, const char *name)
{
	(void)ctx;
	return env_name && !strcmp(name, env_name) ? env_value : NULL;
}

static void set_up(void)
{
	all = (struct all){ KVMM_TIER_ATTR_INIT, KVMM_TIER_CLIENT_ATTR_INIT, KVMM_TIER_CONFIG_INIT,
			    KVMM_DISK_ATTR_INIT, KVMM_TIER_DISK_ATTR_INIT, KVMM_TIER_REMOTE_ATTR_INIT };
	config = (struct kvmm_config)KVMM_CONFIG_INIT;
	config.host = &all.host;
	config.client = &all.client;
	config.knobs = &all.knobs;
	config.disk = &all.disk;
	config.disk_use = &all.disk_use;
	config.remote = &all.remote;
	before = all;
	env_name = NULL;
	sys = kv_sys_system;
	sys.getenv = fake_getenv;
	kv_sys_set(&sys);
}

static void tear_down(void)
{
	kv_sys_set(NULL);
}

TestSuite(config, .init = set_up, .fini = tear_down);

static int parse(const char *text)
{
	return config_parse(&config, "kv.conf", text, strlen(text));
}

static void expect_refused(const char *text, const char *error)
{
	cr_expect_eq(parse(text), -EINVAL, "%s", text);
	cr_expect_str_eq(config.error, error);
	cr_expect_eq(memcmp(&all, &before, sizeof(all)), 0, "%s was applied", text);
	cr_expect_eq(config.nr_set, 0);
	cr_expect_eq(config.names_bytes, 0);
}

Test(config, every_kind_of_value_arrives_where_it_belongs)
{
	cr_assert_eq(parse("# a comment\n\n  host_bytes = 1.5 GiB\t# half\r\nhost_block_bytes=2048\nhost_numa_node=-1\n"
			   "host_device = cuda:0\nhost_policy = slru:protected=80#1\n"
			   "host_down_latency = 12us\nhost_up_bandwidth = 50GB/s\n"
			   "layout_id = 0xFFfffffffffffff0\ncomplete = yes\nmax_up=4294967295\n"
			   "write = back\nhigh = 87.5%\nlow = 0.25\nadapt = no\nstep_bytes=16 MiB\n"
			   "recompute_time = 1.5ms\nreload_time=0\nload_bandwidth=100MB\n"
			   "disk_path = /var/cache/a b#c\ndisk_create = off\ndisk_buffered = on\n"
			   "disk_io = poll\ndisk_high = 1\ndisk_max_put = 7"), 0, "%s", config.error);
	cr_expect_eq(config.nr_set, 24);
	cr_expect_eq(all.host.capacity_bytes, 3ull << 29);
	cr_expect_eq(all.host.block_bytes, 2048);
	cr_expect_eq(all.host.numa_node, -1);
	cr_expect_str_eq(all.host.device, "cuda:0");
	cr_expect_str_eq(all.host.policy, "slru:protected=80#1");
	cr_expect_eq(all.host.down.latency_ns, 12000);
	cr_expect_eq(all.host.up.bytes_per_s, 50000000000ull);
	cr_expect_eq(all.client.layout_id, 0xfffffffffffffff0ull);
	cr_expect_eq(all.client.flags, KVMM_TIER_COMPLETE);
	cr_expect_eq(all.client.max_up, UINT32_MAX);
	cr_expect_eq(all.knobs.write, KVMM_TIER_BACK);
	cr_expect_eq(all.knobs.high_pm, 875);
	cr_expect_eq(all.knobs.low_pm, 250);
	cr_expect_eq(all.knobs.flags, KVMM_TIER_FIXED);
	cr_expect_eq(all.knobs.step_bytes, 16u << 20);
	cr_expect_eq(all.knobs.recompute_ns, 1500000);
	cr_expect_eq(all.knobs.reload_ns, 0);
	cr_expect_eq(all.knobs.up.bytes_per_s, 100000000);
	cr_expect_str_eq(all.disk.path, "/var/cache/a b#c");
	cr_expect_eq(all.disk.flags, KVMM_DISK_BUFFERED);
	cr_expect_eq(all.disk.io, KVMM_DISK_IO_POLL);
	cr_expect_eq(all.disk_use.high_pm, 1000);
	cr_expect_eq(all.disk_use.max_put, 7);
	cr_expect_eq(all.knobs.touches, 2, "what is not named stays");
}

Test(config, a_server_below_has_keys_and_its_password_is_in_no_message)
{
	char text[256];

	cr_assert_eq(parse("remote_address = [fd00::7]:6379\nremote_model = llama-3-8b\nremote_user = me\n"
			   "remote_password = a#b\nremote_deadline = 20ms\nremote_ttl_s = 86400"), 0,
		     "%s", config.error);
	cr_expect_str_eq(all.remote.address, "[fd00::7]:6379");
	cr_expect_str_eq(all.remote.model, "llama-3-8b");
	cr_expect_str_eq(all.remote.user, "me");
	cr_expect_str_eq(all.remote.password, "a#b");
	cr_expect_eq(all.remote.deadline_ns, 20000000);
	cr_expect_eq(all.remote.ttl_s, 86400);
	snprintf(text, sizeof(text), "remote_password = %0128d", 7);
	cr_expect_eq(parse(text), -EINVAL);
	cr_expect_str_eq(config.error, "kv.conf:1: remote_password: no text of 1 to 127 bytes, or too much "
				       "text");
	cr_expect_eq(parse("remote_deadline = 2min"), -EINVAL);
}

/* Its structure ends before the server. */
Test(config, an_older_program_knows_of_no_server)
{
	config.size = offsetof(struct kvmm_config, remote);
	cr_expect_eq(parse("remote_ttl_s = 7\nhigh = 95%"), 0, "%s", config.error);
	cr_expect_eq(all.remote.ttl_s, 0);
	cr_expect_eq(all.knobs.high_pm, 950);
}

Test(config, a_mistake_names_its_line_and_nothing_is_applied)
{
	expect_refused("high = 95%\n\nhost_byte = 1\n", "kv.conf:3: no key 'host_byte'");
	cr_expect_eq(config.line, 3);
	expect_refused("h\xc3\xb6he\xff\xc2\x9b = 1\n", "kv.conf:1: no key 'h\xc3\xb6he\?\?\?'");
	expect_refused("host_name = a\nhigh", "kv.conf:2: no 'key = value'");
	expect_refused("high = 95%\nhigh = 90%", "kv.conf:2: 'high' for the second time");
	expect_refused("touches = 16", "kv.conf:1: touches: '16' is out of range");
	expect_refused("touches = 2x", "kv.conf:1: touches: '2x' is not a number");
	expect_refused("reload_time = 10", "kv.conf:1: reload_time: '10' is not a time, as in 10ms");
	expect_refused("high = 100.1%", "kv.conf:1: high: '100.1%' is out of range");
	expect_refused("high = 90.05%", "kv.conf:1: high: '90.05%' is out of range");
	expect_refused("write = lazily", "kv.conf:1: write: 'lazily' is not one of the words for it");
	expect_refused("low = 95%", "kv.conf: low is above high");
	expect_refused("host_bytes = 1\nhost_blocks = 1\1", "kv.conf:2: no line of text of fewer than "
							   "1024 bytes");
}

Test(config, numbers_that_are_none_are_refused)
{
	static const char *const bad[] = {
		"host_bytes =", "host_bytes = -1", "host_bytes = 1.GiB", "host_bytes = .5GiB",
		"host_bytes = 1.5.5GiB", "host_bytes = 0.3B", "host_bytes = 1gib", "host_bytes = GiB",
		"host_bytes = 18446744073709551616", "host_bytes = 9223372036854775808",
		"host_bytes = 16777216TiB", "host_bytes = 1.0000000001GiB", "host_blocks = 1.5",
		"host_numa_node = -2", "host_numa_node = --1", "layout_id = 12", "layout_id = 0x",
		"layout_id = 0x1g", "layout_id = 0x10000000000000000", "complete = 1", "complete = YES",
		"host_up_bandwidth = 1GB/h", "host_name =", "max_up = 4294967296", "= 1", "high = %",
		"host_name = 01234567890123456789012345678901", "recompute_time = 1h",
	};

	for (u32 i = 0; i < ARRAY_SIZE(bad); i++) {
		cr_expect_eq(parse(bad[i]), -EINVAL, "%s", bad[i]);
		cr_expect_eq(memcmp(&all, &before, sizeof(all)), 0, "%s was applied", bad[i]);
		cr_expect_eq(config.line, 1);
	}
}

Test(config, keys_of_what_is_not_wanted_are_checked_all_the_same)
{
	config.disk = NULL;
	config.disk_use = NULL;
	cr_expect_eq(parse("disk_path = /x\nhigh = 95%"), 0);
	cr_expect_eq(all.knobs.high_pm, 950);
	cr_expect_eq(parse("disk_depth = many"), -EINVAL);
	config.knobs = NULL;
	cr_expect_eq(parse("high = 10%\nlow = 20%"), -EINVAL);
	cr_expect_eq(parse("high = 20%\nlow = 10%"), 0);
}

Test(config, a_structure_of_an_older_program_is_not_written_past_its_end)
{
	all.disk_use.size = offsetof(struct kvmm_tier_disk_attr, max_get) + 4;
	all.disk_use.size &= ~7ul;
	before = all;
	expect_refused("disk_max_get = 7", "kv.conf:1: 'disk_max_get' is newer than this program");
	cr_expect_eq(parse("disk_high = 50%"), 0, "%s", config.error);
	cr_expect_eq(all.disk_use.high_pm, 500);
	all.host.size = 3;
	cr_expect_eq(parse(""), -EINVAL);
	cr_expect_neq(config.error[0], '\0');
	config.size = 8;
	cr_expect_eq(parse(""), -EINVAL);
	cr_expect_eq(config_parse(NULL, "x", "", 0), -EINVAL);
}

Test(config, names_of_an_earlier_call_stay)
{
	cr_assert_eq(parse("host_name = first"), 0);
	cr_assert_eq(parse("host_policy = second"), 0);
	cr_expect_str_eq(all.host.name, "first");
	cr_expect_str_eq(all.host.policy, "second");
	while (!parse("disk_path = /0123456789/0123456789/0123456789"))
		;
	cr_expect_str_eq(config.error, "kv.conf:1: disk_path: no text of 1 to 1023 bytes, or too much "
				       "text");
	cr_expect_str_eq(all.host.name, "first");
}

Test(config, the_environment_goes_before_the_file)
{
	char path[] = "/tmp/kvmm-config-XXXXXX";
	int fd = mkstemp(path);

	cr_assert_eq(write(fd, "high = 95%\ntouches = 3\n", 23), 23);
	env_name = "KVMM_TIER_HIGH";
	env_value = "97%";
	cr_expect_eq(kvmm_config_load(&config, path), 0, "%s", config.error);
	cr_expect_eq(all.knobs.high_pm, 970);
	cr_expect_eq(all.knobs.touches, 3);
	env_value = "97";
	cr_expect_eq(kvmm_config_load(&config, NULL), -EINVAL);
	cr_expect_str_eq(config.error, "KVMM_TIER_HIGH: high: '97' is out of range");
	cr_expect_eq(config.line, 0);
	env_name = "KVMM_TIER_HOST_BYTES";
	env_value = "1GiB";
	cr_expect_eq(kvmm_config_load(&config, NULL), 0);
	cr_expect_eq(all.host.capacity_bytes, 1u << 30);
	for (u32 i = 0; i < 1u << 13; i++)
		cr_assert_eq(write(fd, "########", 8), 8);
	cr_expect_eq(kvmm_config_load(&config, path), -EFBIG);
	close(fd);
	unlink(path);
	cr_expect_eq(kvmm_config_load(&config, path), -ENOENT);
	cr_expect_neq(strstr(config.error, path), NULL);
}

Test(config, a_file_with_a_zero_byte_is_no_text)
{
	char path[] = "/tmp/kvmm-config-XXXXXX";
	int fd = mkstemp(path);

	cr_assert_eq(write(fd, "touches = 3\n\0high = none\n", 25), 25);
	before = all;
	cr_expect_eq(kvmm_config_load(&config, path), -EILSEQ);
	cr_expect_neq(strstr(config.error, "a zero byte in it"), NULL, "%s", config.error);
	cr_expect_eq(memcmp(&all, &before, sizeof(all)), 0);
	close(fd);
	unlink(path);
}

Test(config, no_memory_means_nothing_was_applied)
{
	struct fake_env fake;

	fake_env_install(&fake);
	fake_env_fail(&fake, 1, false);
	cr_expect_eq(parse("high = 95%"), -ENOMEM);
	cr_expect_eq(memcmp(&all, &before, sizeof(all)), 0);
	cr_expect_eq(parse("high = 95%"), 0);
	cr_expect_eq(fake.nr_live, 0);
	fake_env_remove(&fake);
}

/* The page has a table of them: one that it lacks is not known to anybody. */
Test(config, every_key_is_told_once)
{
	u32 nr = 0;

	for (const char *name; (name = kv_config_key(nr)); nr++)
		for (u32 i = 0; i < nr; i++)
			cr_expect_str_neq(kv_config_key(i), name);
	cr_expect_eq(nr, 48);
}
