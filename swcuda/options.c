// SPDX-License-Identifier: Apache-2.0
/* Options: key=value, separated by commas. */
#include <ctype.h>

#include "internal.h"

struct word {
	const char *at;
	u32 len;
};

static bool is(struct word word, const char *text)
{
	return strlen(text) == word.len && !memcmp(word.at, text, word.len);
}

/* The part before @stop; @word keeps what is behind it. */
static struct word cut(struct word *word, char stop)
{
	const char *end = memchr(word->at, stop, word->len);
	u32 len = end ? end - word->at : word->len;
	struct word part = { word->at, len };
	u32 skip = end ? len + 1 : len;

	word->at += skip;
	word->len -= skip;
	return part;
}

static u32 shift_of(char suffix)
{
	switch (toupper(suffix)) {
	case 'K':
		return 10;
	case 'M':
		return 20;
	case 'G':
		return 30;
	default:
		return 0;
	}
}

/* A decimal number, a size with K, M or G; at most @most. */
static int number(struct word word, u64 most, u64 *value)
{
	u32 shift = word.len ? shift_of(word.at[word.len - 1]) : 0;
	u64 n = 0;

	if (shift)
		word.len--;
	if (!word.len || word.len > 18)
		return -EINVAL;
	for (u32 i = 0; i < word.len; i++) {
		if (!isdigit((unsigned char)word.at[i]))
			return -EINVAL;
		n = n * 10 + (word.at[i] - '0');
	}
	if (n > most >> shift)
		return -EINVAL;
	*value = n << shift;
	return 0;
}

static int result(struct word word, kcu_result *code)
{
	u64 n;

#define MATCH(name, value, class, err)		\
	if (is(word, #name)) {			\
		*code = value;			\
		return 0;			\
	}
	KCU_ERRORS(MATCH)
#undef MATCH
	if (number(word, 9999, &n))
		return -EINVAL;
	*code = n;
	return 0;
}

/* NAME:N:CODE fails once, NAME:N+:CODE from then on, NAME:P%:CODE with a chance of P in 1000. */
static int parse_when(struct sw_fault *fault, struct word when)
{
	char last = when.len ? when.at[when.len - 1] : 0;
	u64 n;

	if (last == '+' || last == '%')
		when.len--;
	if (number(when, last == '%' ? 1000 : UINT32_MAX, &n) || !n)
		return -EINVAL;
	fault->persistent = last == '+';
	if (last == '%')
		fault->per_mille = n;
	else
		fault->nth = n;
	return 0;
}

static int parse_fault(struct sw_options *opt, struct word value, bool async)
{
	struct sw_fault *fault = &opt->fault[opt->nr_faults];
	struct word name = cut(&value, ':'), when = cut(&value, ':');

	if (opt->nr_faults == SW_MAX_FAULTS)
		return -EINVAL;
	*fault = (struct sw_fault){ .async = async };
	fault->call = is(name, "*") ? -1 : sw_call_find(name.at, name.len);
	if (fault->call < -1 || parse_when(fault, when) || result(value, &fault->code) ||
	    !sw_fault_is_good(fault))
		return -EINVAL;
	opt->nr_faults++;
	return 0;
}

static int parse_name(bool *set, struct word value)
{
	int call = sw_call_find(value.at, value.len);

	if (call < 0)
		return -EINVAL;
	set[call] = true;
	return 0;
}

#define OPT(field)	offsetof(struct sw_options, field), sizeof(((struct sw_options *)0)->field)

static const struct number_option {
	const char *name;
	size_t offset, bytes;
	u64 least, most;
} numbers[] = {
	{ "seed",	OPT(seed),		0, UINT64_MAX },
	{ "devices",	OPT(nr_devices),	0, SW_MAX_DEVICES },
	{ "mem",	OPT(mem_bytes),		SW_GRANULE, 1ull << 40 },
	{ "va",		OPT(va_bytes),		SW_GRANULE, 1ull << 46 },
	{ "oom",	OPT(oom_bytes),		0, UINT64_MAX },
	{ "driver",	OPT(driver),		1000, 99990 },
	{ "cc",		OPT(cc),		30, 199 },
	{ "latency_us",	OPT(latency_us),	0, 1000000 },
	{ "gbps",	OPT(gbps),		1, 100000 },
	{ "gbps_local",	OPT(gbps_local),	1, 100000 },
	{ "illegal",	OPT(illegal),		0, UINT32_MAX },
	{ "threads",	OPT(threads),		0, 1 },
	{ "sleep",	OPT(sleep),		0, 1 },
	{ "slow",	OPT(slow),		0, 1 },
	{ "eager",	OPT(eager),		0, 1 },
	{ "poison",	OPT(poison),		0, 1 },
	{ "peers",	OPT(peers),		0, 1 },
	{ "vmm",	OPT(vmm),		0, 1 },
	{ "check_exit",	OPT(check_exit),	0, 1 },
	{ "default_stream", OPT(default_stream), 0, 1 },
};

/* Little-endian, as both architectures are: the low bytes of the number are the number. */
static int parse_number(struct sw_options *opt, const struct number_option *option,
			struct word value)
{
	u64 n;

	if (number(value, option->most, &n) || n < option->least)
		return -EINVAL;
	memcpy((char *)opt + option->offset, &n, option->bytes);
	return 0;
}

/* -ENOENT: there is no such option. */
static int parse_option(struct sw_options *opt, struct word key, struct word value)
{
	for (u32 i = 0; i < ARRAY_SIZE(numbers); i++)
		if (is(key, numbers[i].name))
			return parse_number(opt, &numbers[i], value);
	if (is(key, "fail"))
		return parse_fault(opt, value, false);
	if (is(key, "async"))
		return parse_fault(opt, value, true);
	if (is(key, "jit"))
		return result(value, &opt->jit);
	if (is(key, "missing"))
		return parse_name(opt->missing, value);
	if (is(key, "hidden"))
		return parse_name(opt->hidden, value);
	return -ENOENT;
}

static const struct sw_options defaults = {
	.seed = 1, .nr_devices = 1, .mem_bytes = 256ull << 20, .va_bytes = 256ull << 30,
	.oom_bytes = UINT64_MAX, .driver = 13000, .cc = 90, .latency_us = 3, .gbps = 50,
	.gbps_local = 1500, .poison = true, .peers = true, .vmm = true,
};

int sw_options_parse(struct sw_options *opt, const char *text, char *msg, size_t bytes)
{
	struct word rest = { text ?: "", text ? strlen(text) : 0 };

	*opt = defaults;
	msg[0] = 0;
	while (rest.len) {
		struct word value = cut(&rest, ','), whole = value, key = cut(&value, '=');
		int err = whole.len ? parse_option(opt, key, value) : 0;

		if (!err)
			continue;
		snprintf(msg, bytes, "KVMM_SWCUDA: %s '%.*s'", err == -ENOENT ?
			 "there is no option" : "bad value in", (int)min(whole.len, 80u), whole.at);
		*opt = defaults;
		return -EINVAL;
	}
	opt->mem_bytes &= ~(SW_GRANULE - 1);
	return 0;
}
