/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of tiers from a file and from the environment.
 *
 *	struct kvmm_tier_attr host = KVMM_TIER_ATTR_INIT;
 *	struct kvmm_tier_config knobs = KVMM_TIER_CONFIG_INIT;
 *	struct kvmm_config config = KVMM_CONFIG_INIT;
 *
 *	config.host  = &host;
 *	config.knobs = &knobs;
 *	err = kvmm_config_load(&config, "/etc/engine/kv.conf");
 *	if (err)
 *		say("%s", config.error);	// /etc/engine/kv.conf:3: no key 'host_byte'
 *
 * A line is "key = value", empty, or a comment, which begins with # at the start of the line or
 * behind a blank. What is not named keeps the value that it had. Keys, units and ranges:
 * Documentation/tiers.rst.
 */
#ifndef KVMM_CONFIG_H
#define KVMM_CONFIG_H

#include <kvmm/disk.h>
#include <kvmm/tier.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Room for a message, and for the strings that attributes point to. */
#define KVMM_CONFIG_ERROR_BYTES	256u
#define KVMM_CONFIG_NAMES_BYTES	2048u

/** A file of this length is refused. */
#define KVMM_CONFIG_MAX_BYTES	65536u

/**
 * struct kvmm_config - what is to be set
 * @size: sizeof(struct kvmm_config); set by KVMM_CONFIG_INIT
 * @host, @client, @knobs, @disk, @disk_use: filled in before, each with its size set; changed on
 *	success only. NULL: keys for it are checked all the same
 * @nr_set: out: values that were set
 * @line: out: of the error, from 1 on; 0: no line is to blame
 * @error: out: a sentence, empty on success
 * @names: strings that @host and @disk point to from then on; 0 at first, each call adds its own
 * @names_bytes: of them, in use
 * @set: out: bit n: kvmm_config_key(n) was set
 */
struct kvmm_config {
	size_t size;
	struct kvmm_tier_attr *host;
	struct kvmm_tier_client_attr *client;
	struct kvmm_tier_config *knobs;
	struct kvmm_disk_attr *disk;
	struct kvmm_tier_disk_attr *disk_use;
	uint32_t nr_set;
	uint32_t line;
	char error[KVMM_CONFIG_ERROR_BYTES];
	char names[KVMM_CONFIG_NAMES_BYTES];
	uint32_t names_bytes;
	uint32_t reserved;
	uint64_t set;
};

#define KVMM_CONFIG_INIT { sizeof(struct kvmm_config), NULL, NULL, NULL, NULL, NULL, 0, 0, \
			   "", "", 0, 0, 0 }

/**
 * kvmm_config_load() - the settings of a file, and of the environment, which goes first
 * @config: what to set; lives as long as what it has filled in is used, as do its strings
 * @path: the file; NULL: the environment only
 *
 * Of the environment: the key in capitals behind KVMM_TIER_, as in KVMM_TIER_HOST_BYTES=64GiB.
 * Programs that run with more rights than their user have no environment here.
 *
 * Context: reads a file; any thread.
 * Return: 0; -EINVAL an unknown key, a value that is none, a key twice, or too much text:
 * @config->error says where; -ENOENT, -EACCES, ... the file cannot be read; -EILSEQ it has a zero
 * byte; -EFBIG it has KVMM_CONFIG_MAX_BYTES or more; -ENOMEM. A failed call sets nothing.
 */
KVMM_API int kvmm_config_load(struct kvmm_config *config, const char *path);

/**
 * kvmm_config_key() - the keys that there are
 * @number: from 0 on
 *
 * Return: its name, or NULL behind the last one.
 */
KVMM_API const char *kvmm_config_key(uint32_t number);

#ifdef __cplusplus
}
#endif
#endif /* KVMM_CONFIG_H */
