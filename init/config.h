/* SPDX-License-Identifier: Apache-2.0 */
/* Values of settings: texts become numbers. */
#ifndef INIT_CONFIG_H
#define INIT_CONFIG_H

#include <kv/types.h>
#include <kvmm/ext/disk.h>

enum config_kind {
	CONFIG_COUNT,		/* 123; also negative where the range allows it */
	CONFIG_BYTES,		/* 64GiB, 4096 */
	CONFIG_RATE,		/* 50GB/s */
	CONFIG_TIME,		/* 10ms; in ns */
	CONFIG_SHARE,		/* 90%, 0.9; per mille */
	CONFIG_HEX,		/* 0x1234 */
	CONFIG_SWITCH,		/* yes, no */
	CONFIG_WORD,		/* one of some */
	CONFIG_STRING,
};

/* The form that a value must have, for messages. */
const char *config_kind_name(enum config_kind kind);

/*
 * The value of @text; of CONFIG_WORD the place in @words, which ends with NULL. 0; -EINVAL none;
 * -ERANGE it does not fit 63 bits, or has parts of a unit that do not exist. Not for CONFIG_STRING.
 */
int config_value(enum config_kind kind, const char *text, const char *const *words, s64 *value);

/* The settings of a text, called @name in messages, and nothing else; as kvmm_config_load(). */
int config_parse(struct kvmm_config *config, const char *name, const char *text, size_t bytes);

#endif /* INIT_CONFIG_H */
