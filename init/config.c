// SPDX-License-Identifier: Apache-2.0
/*
 * Settings from a file and from the environment. All of it is applied to copies, which replace the
 * caller's at the very end: a mistake in the last line leaves the first one without effect.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <kv/buf.h>
#include <kv/err.h>
#include <kv/mem.h>
#include <kv/pool.h>
#include <kv/sys.h>
#include <kv/tier.h>
#include <kvmm/ext/disk.h>

#include "config.h"

#define MAX_LINE	1024u
#define ENV_PREFIX	"KVMM_TIER_"

enum part { HOST, CLIENT, KNOBS, DISK, DISK_USE, REMOTE, NR_PARTS };

static const char *const write_words[] = {
	[KVMM_TIER_SELECTIVE]	= "selective",
	[KVMM_TIER_EXPLICIT]	= "explicit",
	[KVMM_TIER_THROUGH]	= "through",
	[KVMM_TIER_BACK]	= "back",
	[KVMM_TIER_THRESHOLD]	= "threshold",
	[KVMM_NR_TIER_WRITES]	= NULL,
};

static const char *const io_words[] = { "auto", "poll", NULL };

/* A switch is a bit of its field: @min says which, @max whether "yes" clears it. */
struct key {
	const char *name;
	u8 part;
	u8 kind;
	u16 offset;
	u16 bytes;		/* 4 or 8; of strings those of a pointer */
	s64 min;
	s64 max;
	const char *const *words;
};

#define KEY(_name, _part, _type, _field, _kind, _min, _max, _words)				\
	{ _name, _part, _kind, offsetof(struct _type, _field),					\
	  sizeof(((struct _type *)0)->_field),							\
	  _min, _max, _words }
#define HOST_KEY(name, field, kind, min, max) \
	KEY("host_" name, HOST, kvmm_tier_attr, field, kind, min, max, NULL)
#define CLIENT_KEY(name, field, kind, min, max) \
	KEY(name, CLIENT, kvmm_tier_client_attr, field, kind, min, max, NULL)
#define KNOB(name, field, kind, min, max) \
	KEY(name, KNOBS, kvmm_tier_config, field, kind, min, max, NULL)
#define DISK_KEY(name, field, kind, min, max) \
	KEY("disk_" name, DISK, kvmm_disk_attr, field, kind, min, max, NULL)
#define DISK_USE_KEY(name, field, kind, min, max) \
	KEY("disk_" name, DISK_USE, kvmm_tier_disk_attr, field, kind, min, max, NULL)
#define REMOTE_KEY(name, field, kind, min, max) \
	KEY("remote_" name, REMOTE, kvmm_tier_remote_attr, field, kind, min, max, NULL)

static const struct key keys[] = {
	HOST_KEY("name", name, CONFIG_STRING, 1, 31),
	HOST_KEY("device", device, CONFIG_STRING, 1, 63),
	HOST_KEY("bytes", capacity_bytes, CONFIG_BYTES, 0, INT64_MAX),
	HOST_KEY("blocks", capacity_blocks, CONFIG_COUNT, 0, KVMM_MAX_BLOCKS),
	HOST_KEY("block_bytes", block_bytes, CONFIG_BYTES, 0, INT64_MAX),
	HOST_KEY("chunk_bytes", chunk_bytes, CONFIG_BYTES, 0, INT64_MAX),
	HOST_KEY("numa_node", numa_node, CONFIG_COUNT, -1, INT32_MAX),
	HOST_KEY("policy", policy, CONFIG_STRING, 1, 255),
	HOST_KEY("down_latency", down.latency_ns, CONFIG_TIME, 0, INT64_MAX),
	HOST_KEY("down_bandwidth", down.bytes_per_s, CONFIG_RATE, 0, INT64_MAX),
	HOST_KEY("up_latency", up.latency_ns, CONFIG_TIME, 0, INT64_MAX),
	HOST_KEY("up_bandwidth", up.bytes_per_s, CONFIG_RATE, 0, INT64_MAX),

	CLIENT_KEY("layout_id", layout_id, CONFIG_HEX, INT64_MIN, INT64_MAX),
	CLIENT_KEY("complete", flags, CONFIG_SWITCH, KVMM_TIER_COMPLETE, 0),
	CLIENT_KEY("max_units", max_units, CONFIG_COUNT, 0, UINT32_MAX),
	CLIENT_KEY("min_units", min_units, CONFIG_COUNT, 0, UINT32_MAX),
	CLIENT_KEY("max_down", max_down, CONFIG_COUNT, 0, UINT32_MAX),
	CLIENT_KEY("max_up", max_up, CONFIG_COUNT, 0, UINT32_MAX),
	CLIENT_KEY("batch_blocks", batch_blocks, CONFIG_COUNT, 0, UINT32_MAX),

	KEY("write", KNOBS, kvmm_tier_config, write, CONFIG_WORD, 0, KVMM_NR_TIER_WRITES - 1,
	    write_words),
	KNOB("touches", touches, CONFIG_COUNT, 1, 15),
	KNOB("high", high_pm, CONFIG_SHARE, 0, 1000),
	KNOB("low", low_pm, CONFIG_SHARE, 0, 1000),
	KNOB("step_blocks", step_blocks, CONFIG_COUNT, 0, UINT32_MAX),
	KNOB("step_bytes", step_bytes, CONFIG_BYTES, 0, INT64_MAX),
	KNOB("min_load", min_load, CONFIG_COUNT, 0, UINT32_MAX),
	KNOB("verify_every", verify_every, CONFIG_COUNT, 0, UINT32_MAX),
	KNOB("adapt", flags, CONFIG_SWITCH, KVMM_TIER_FIXED, 1),
	KNOB("reload_time", reload_ns, CONFIG_TIME, 0, INT64_MAX),
	KNOB("recompute_time", recompute_ns, CONFIG_TIME, 0, INT64_MAX),
	KNOB("load_latency", up.latency_ns, CONFIG_TIME, 0, INT64_MAX),
	KNOB("load_bandwidth", up.bytes_per_s, CONFIG_RATE, 0, INT64_MAX),

	DISK_KEY("path", path, CONFIG_STRING, 1, 1023),
	DISK_KEY("bytes", max_bytes, CONFIG_BYTES, 0, INT64_MAX),
	DISK_KEY("segment_bytes", segment_bytes, CONFIG_BYTES, 0, UINT32_MAX),
	DISK_KEY("depth", depth, CONFIG_COUNT, 0, UINT32_MAX),
	DISK_KEY("create", flags, CONFIG_SWITCH, KVMM_DISK_CREATE, 0),
	DISK_KEY("buffered", flags, CONFIG_SWITCH, KVMM_DISK_BUFFERED, 0),
	KEY("disk_io", DISK, kvmm_disk_attr, io, CONFIG_WORD, 0, KVMM_DISK_NR_IOS - 1, io_words),
	DISK_USE_KEY("high", high_pm, CONFIG_SHARE, 0, 1000),
	DISK_USE_KEY("max_put", max_put, CONFIG_COUNT, 0, UINT32_MAX),
	DISK_USE_KEY("max_get", max_get, CONFIG_COUNT, 0, UINT32_MAX),

	REMOTE_KEY("address", address, CONFIG_STRING, 1, 63),
	REMOTE_KEY("model", model, CONFIG_STRING, 1, 63),
	REMOTE_KEY("user", user, CONFIG_STRING, 1, 63),
	REMOTE_KEY("password", password, CONFIG_STRING, 1, 127),
	REMOTE_KEY("deadline", deadline_ns, CONFIG_TIME, 0, 60000000000),
	REMOTE_KEY("ttl_s", ttl_s, CONFIG_COUNT, 0, UINT32_MAX),
};

static_assert(ARRAY_SIZE(keys) <= 64, "bits of kvmm_config.set");

/* Settings that are not in force yet. */
struct stage {
	struct kvmm_config *config;
	const char *source;		/* borrowed: for messages */
	u32 line;
	u32 nr_set;
	u32 names_bytes;		/* in use */
	bool seen[ARRAY_SIZE(keys)];	/* by a line of this source */
	u64 set;			/* bit n: keys[n] */
	void *target[NR_PARTS];		/* the caller's, or NULL */
	size_t room[NR_PARTS];		/* bytes of it */
	struct kvmm_tier_attr host;
	struct kvmm_tier_client_attr client;
	struct kvmm_tier_config knobs;
	struct kvmm_disk_attr disk;
	struct kvmm_tier_disk_attr disk_use;
	struct kvmm_tier_remote_attr remote;
	char names[KVMM_CONFIG_NAMES_BYTES];
	char text[KVMM_CONFIG_MAX_BYTES];
	char copy[MAX_LINE];
};

static void *part_of(struct stage *stage, u32 part, size_t *bytes)
{
	static const size_t sizes[NR_PARTS] = {
		sizeof(struct kvmm_tier_attr), sizeof(struct kvmm_tier_client_attr),
		sizeof(struct kvmm_tier_config), sizeof(struct kvmm_disk_attr),
		sizeof(struct kvmm_tier_disk_attr), sizeof(struct kvmm_tier_remote_attr),
	};
	void *const parts[NR_PARTS] = {
		&stage->host, &stage->client, &stage->knobs, &stage->disk, &stage->disk_use,
		&stage->remote,
	};

	*bytes = sizes[part];
	return parts[part];
}

/* ---- messages ---- */

static __attribute__((format(printf, 2, 3))) int complain(struct stage *stage, const char *format,
							   ...)
{
	struct kvmm_config *config = stage->config;
	va_list args;
	int len = stage->line ? snprintf(config->error, sizeof(config->error), "%.128s:%u: ",
					 stage->source, stage->line) :
				snprintf(config->error, sizeof(config->error), "%.128s: ",
					 stage->source);

	config->line = stage->line;
	va_start(args, format);
	vsnprintf(config->error + len, sizeof(config->error) - (size_t)len, format, args);
	va_end(args);
	/* It quotes the file, and may end within a character. */
	for (char *at = config->error; *at; at += max(kv_char(at), 1u))
		if (!kv_char(at))
			*at = '?';
	return -EINVAL;
}

/* ---- one value ---- */

static int set_string(struct stage *stage, const struct key *key, void *field, const char *text)
{
	size_t bytes = strlen(text) + 1;
	const char *name;

	if (bytes < 2 || bytes - 1 > (size_t)key->max ||
	    bytes > sizeof(stage->names) - stage->names_bytes)
		return -ERANGE;
	memcpy(stage->names + stage->names_bytes, text, bytes);
	/* Where it will be: the caller's room is not written to before all is well. */
	name = stage->config->names + stage->names_bytes;
	memcpy(field, &name, sizeof(name));
	stage->names_bytes += (u32)bytes;
	return 0;
}

static int set_number(const struct key *key, void *field, const char *text)
{
	s64 value;
	u32 word;
	int err = config_value(key->kind, text, key->words, &value);

	if (err)
		return err;
	if (key->kind == CONFIG_SWITCH) {
		memcpy(&word, field, sizeof(word));
		word = value == !key->max ? word | (u32)key->min : word & ~(u32)key->min;
		memcpy(field, &word, sizeof(word));
		return 0;
	}
	if (value < key->min || value > key->max)
		return -ERANGE;
	word = (u32)value;
	memcpy(field, key->bytes == sizeof(word) ? (void *)&word : (void *)&value, key->bytes);
	return 0;
}

static int set(struct stage *stage, const struct key *key, const char *text)
{
	size_t bytes;
	u8 *field = (u8 *)part_of(stage, key->part, &bytes) + key->offset;
	int err;

	if (stage->target[key->part] && (size_t)key->offset + key->bytes > stage->room[key->part])
		return complain(stage, "'%s' is newer than this program", key->name);
	err = key->kind == CONFIG_STRING ? set_string(stage, key, field, text) :
					   set_number(key, field, text);
	if (err && key->kind == CONFIG_STRING)	/* it may be a password */
		return complain(stage, "%s: no text of 1 to %lld bytes, or too much text",
				key->name, (long long)key->max);
	if (err == -ERANGE)
		return complain(stage, "%s: '%.40s' is out of range", key->name, text);
	if (err)
		return complain(stage, "%s: '%.40s' is not %s", key->name, text,
				config_kind_name(key->kind));
	stage->nr_set++;
	stage->set |= 1ull << (key - keys);
	return 0;
}

/* ---- lines ---- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static char *trimmed(char *text, size_t len)
{
	while (len && is_blank(text[len - 1]))
		len--;
	text[len] = '\0';
	while (is_blank(*text))
		text++;
	return text;
}

static int set_line(struct stage *stage, const char *line, size_t len)
{
	const struct key *key = keys;
	char *name, *value;
	bool is_text = len < sizeof(stage->copy);

	for (size_t i = 0; i < len; i++)
		is_text &= ((u8)line[i] >= ' ' || is_blank(line[i])) && line[i] != 0x7f;
	if (!is_text)
		return complain(stage, "no line of text of fewer than %u bytes", MAX_LINE);
	memcpy(stage->copy, line, len);
	for (size_t i = 0; i < len; i++)
		if (line[i] == '#' && (!i || is_blank(line[i - 1])))
			len = i;
	name = trimmed(stage->copy, len);
	if (!*name)
		return 0;
	value = strchr(name, '=');
	if (!value)
		return complain(stage, "no 'key = value'");
	name = trimmed(name, (size_t)(value - name));
	value = trimmed(value + 1, strlen(value + 1));
	while (key < keys + ARRAY_SIZE(keys) && strcmp(key->name, name))
		key++;
	if (key == keys + ARRAY_SIZE(keys))
		return complain(stage, "no key '%.40s'", name);
	if (stage->seen[key - keys])
		return complain(stage, "'%s' for the second time", key->name);
	stage->seen[key - keys] = true;
	return set(stage, key, value);
}

static int set_text(struct stage *stage, const char *text, size_t bytes)
{
	const char *end = text + bytes;
	int err = 0;

	while (!err && text < end) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));

		if (!stop)
			stop = end;
		stage->line++;
		err = set_line(stage, text, (size_t)(stop - text));
		text = stop + 1;
	}
	return err;
}

/* ---- the environment ---- */

static int set_env(struct stage *stage)
{
	const struct kv_sys_ops *sys = kv_sys();
	char name[64];
	int err = 0;

	stage->line = 0;
	stage->source = name;
	for (u32 i = 0; i < ARRAY_SIZE(keys) && !err; i++) {
		const char *value;

		snprintf(name, sizeof(name), ENV_PREFIX "%s", keys[i].name);
		for (char *c = name; *c; c++)
			if (*c >= 'a' && *c <= 'z')
				*c = (char)(*c - 'a' + 'A');
		value = sys->getenv(sys->ctx, name);
		if (value)
			err = set(stage, &keys[i], value);
	}
	stage->source = "settings";
	return err;
}

/* ---- all of it ---- */

static int take_targets(struct stage *stage, struct kvmm_config *config)
{
	void *const targets[NR_PARTS] = {
		config->host, config->client, config->knobs, config->disk, config->disk_use,
		config->size >= sizeof(*config) ? config->remote : NULL,
	};
	int err = 0;

	stage->config = config;
	stage->names_bytes = config->names_bytes;
	stage->knobs = (struct kvmm_tier_config)KVMM_TIER_CONFIG_INIT;
	for (u32 i = 0; i < NR_PARTS && !err; i++) {
		size_t bytes;
		void *part = part_of(stage, i, &bytes);

		stage->target[i] = targets[i];
		if (!targets[i])
			continue;
		err = kv_copy_attr(part, bytes, targets[i]);
		memcpy(&stage->room[i], targets[i], sizeof(stage->room[i]));
	}
	return err;
}

static struct stage *begin(struct kvmm_config *config, int *err)
{
	struct stage *stage;

	if (!config || config->size < offsetof(struct kvmm_config, remote) ||
	    config->names_bytes > sizeof(config->names)) {
		*err = -EINVAL;
		return NULL;
	}
	config->nr_set = config->line = 0;
	config->set = 0;
	config->error[0] = '\0';
	stage = kv_alloc(sizeof(*stage));
	*err = stage ? take_targets(stage, config) : -ENOMEM;
	if (*err && stage) {
		stage->source = "settings";
		complain(stage, "a structure without its size");
	}
	return stage;
}

static void apply(struct stage *stage)
{
	struct kvmm_config *config = stage->config;

	for (u32 i = 0; i < NR_PARTS; i++) {
		size_t bytes;
		void *part = part_of(stage, i, &bytes);

		if (stage->target[i])
			memcpy(stage->target[i], part, min(bytes, stage->room[i]));
	}
	memcpy(config->names + config->names_bytes, stage->names + config->names_bytes,
	       stage->names_bytes - config->names_bytes);
	config->names_bytes = stage->names_bytes;
	config->nr_set = stage->nr_set;
	config->set = stage->set;
}

/* Takes @stage. */
static int end(struct stage *stage, int err)
{
	if (!err && stage->knobs.low_pm > stage->knobs.high_pm) {
		stage->line = 0;
		err = complain(stage, "low is above high");
	}
	if (!err)
		apply(stage);
	kv_wipe(stage, sizeof(*stage));
	kv_free(stage);
	return err;
}

int config_parse(struct kvmm_config *config, const char *name, const char *text, size_t bytes)
{
	struct stage *stage;
	int err;

	if (!name || (!text && bytes))
		return -EINVAL;
	stage = begin(config, &err);
	if (!err) {
		stage->source = name;
		err = set_text(stage, text, bytes);
	}
	return stage ? end(stage, err) : err;
}

static int set_file(struct stage *stage, const char *path)
{
	const struct kv_sys_ops *sys = kv_sys();
	int err = sys->read_file(sys->ctx, path, stage->text, sizeof(stage->text));

	stage->source = path;
	if (!err && strlen(stage->text) == sizeof(stage->text) - 1)
		err = -EFBIG;
	if (!err)
		return set_text(stage, stage->text, strlen(stage->text));
	complain(stage, "%s", err == -EILSEQ ? "a zero byte in it" : kvmm_strerror(err));
	return err;
}

int kvmm_config_load(struct kvmm_config *config, const char *path)
{
	struct stage *stage;
	int err;

	stage = begin(config, &err);
	if (!err && path)
		err = set_file(stage, path);
	if (!err)
		err = set_env(stage);
	return stage ? end(stage, err) : err;
}

const char *kv_config_key(u32 number)
{
	return number < ARRAY_SIZE(keys) ? keys[number].name : NULL;
}
