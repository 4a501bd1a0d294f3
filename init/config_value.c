// SPDX-License-Identifier: Apache-2.0
/*
 * Values of settings. Decimals are kept as an integer and a power of ten, so that 1.5GiB is exact,
 * and an inexact value is refused: no setting gets another number than the one that stands there.
 */
#include <string.h>

#include <kv/bits.h>
#include <kv/err.h>

#include "config.h"

#define MAX_DECIMALS	9u

struct unit {
	const char *name;
	u64 factor;
};

static const struct unit byte_units[] = {
	{ "", 1 },		{ "B", 1 },
	{ "KiB", 1ull << 10 },	{ "kB", 1000ull },		{ "KB", 1000ull },
	{ "MiB", 1ull << 20 },	{ "MB", 1000000ull },
	{ "GiB", 1ull << 30 },	{ "GB", 1000000000ull },
	{ "TiB", 1ull << 40 },	{ "TB", 1000000000000ull },
	{ NULL, 0 },
};

/* Without a unit nothing but 0 is a time: the reader has not to guess which one is meant. */
static const struct unit time_units[] = {
	{ "ns", 1 }, { "us", 1000ull }, { "ms", 1000000ull }, { "s", 1000000000ull },
	{ "min", 60000000000ull }, { NULL, 0 },
};

static const struct unit share_units[] = { { "", 1000 }, { "%", 10 }, { NULL, 0 } };
static const struct unit no_units[] = { { "", 1 }, { NULL, 0 } };
static const char *const switch_words[] = { "no", "yes", "off", "on", "false", "true", NULL };

const char *config_kind_name(enum config_kind kind)
{
	static const char *const names[] = {
		[CONFIG_COUNT]	= "a number",
		[CONFIG_BYTES]	= "bytes, as in 64GiB",
		[CONFIG_RATE]	= "bytes a second, as in 50GB/s",
		[CONFIG_TIME]	= "a time, as in 10ms",
		[CONFIG_SHARE]	= "a share, as in 90% or 0.9",
		[CONFIG_HEX]	= "a hexadecimal number, as in 0x12ab",
		[CONFIG_SWITCH]	= "yes or no",
		[CONFIG_WORD]	= "one of the words for it",
		[CONFIG_STRING]	= "a string that fits",
	};

	return names[kind];
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int add_digit(u64 *number, u64 base, u32 digit)
{
	if (kv_mul_overflows(*number, base, number) ||
	    kv_add_overflows(*number, (u64)digit, number))
		return -ERANGE;
	return 0;
}

/* Digits, and perhaps a point and more digits: *@number / 10 ^ *@nr_decimals. The rest in *@end. */
static int decimal(const char *text, u64 *number, u32 *nr_decimals, const char **end)
{
	bool is_fraction = false;
	int err = 0;

	*number = *nr_decimals = 0;
	if (!is_digit(*text))
		return -EINVAL;
	for (; !err && (is_digit(*text) || (*text == '.' && !is_fraction)); text++) {
		if (*text == '.') {
			is_fraction = true;
			if (!is_digit(text[1]))
				return -EINVAL;
			continue;
		}
		err = is_fraction && ++*nr_decimals > MAX_DECIMALS ? -ERANGE :
		      add_digit(number, 10, (u32)(*text - '0'));
	}
	*end = text;
	return err;
}

static const struct unit *find_unit(const struct unit *units, const char *name, size_t len)
{
	for (; units->name; units++)
		if (strlen(units->name) == len && !memcmp(units->name, name, len))
			return units;
	return NULL;
}

static int scaled(const char *text, const struct unit *units, const char *suffix, s64 *value)
{
	u64 number, power = 1;
	const struct unit *unit;
	const char *name;
	u32 nr_decimals;
	size_t len;
	int err = decimal(text, &number, &nr_decimals, &name);

	if (err)
		return err;
	while (*name == ' ' || *name == '\t')
		name++;
	len = strlen(name);
	if (len > strlen(suffix) && !strcmp(name + len - strlen(suffix), suffix))
		len -= strlen(suffix);
	unit = !number && !len ? &byte_units[0] : find_unit(units, name, len);
	if (!unit)
		return -EINVAL;
	while (nr_decimals--)
		power *= 10;
	if (kv_mul_overflows(number, unit->factor, &number) || number % power ||
	    number / power > INT64_MAX)
		return -ERANGE;
	*value = (s64)(number / power);
	return 0;
}

static int hex(const char *text, s64 *value)
{
	static const char digits[] = "0123456789abcdef";
	u64 number = 0;

	if (strncmp(text, "0x", 2) || !text[2])
		return -EINVAL;
	for (text += 2; *text; text++) {
		char c = *text >= 'A' && *text <= 'F' ? (char)(*text - 'A' + 'a') : *text;
		const char *at = strchr(digits, c);

		if (!at)
			return -EINVAL;
		if (add_digit(&number, 16, (u32)(at - digits)))
			return -ERANGE;
	}
	*value = (s64)number;
	return 0;
}

static int word(const char *text, const char *const *words, s64 *value)
{
	for (u32 i = 0; words[i]; i++) {
		if (strcmp(text, words[i]))
			continue;
		*value = i;
		return 0;
	}
	return -EINVAL;
}

int config_value(enum config_kind kind, const char *text, const char *const *words, s64 *value)
{
	bool is_negative = *text == '-';
	int err;

	*value = 0;
	switch (kind) {
	case CONFIG_COUNT:
		err = scaled(text + is_negative, no_units, "", value);
		*value = is_negative ? -*value : *value;
		return err;
	case CONFIG_BYTES:
		return scaled(text, byte_units, "", value);
	case CONFIG_RATE:
		return scaled(text, byte_units, "/s", value);
	case CONFIG_TIME:
		return scaled(text, time_units, "", value);
	case CONFIG_SHARE:
		return scaled(text, share_units, "", value);
	case CONFIG_HEX:
		return hex(text, value);
	case CONFIG_SWITCH:
		err = word(text, switch_words, value);
		*value &= 1;
		return err;
	case CONFIG_WORD:
		return word(text, words, value);
	default:
		return -EINVAL;
	}
}
