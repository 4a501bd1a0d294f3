// SPDX-License-Identifier: Apache-2.0
/*
 * Reads what a driver's loader would have to know of a PTX text: the names of its entry points and
 * the sizes of their parameters.
 *
 *	.visible .entry NAME(
 *		.param .align 8 .b8 NAME_param_0[4096],
 *		.param .u32 NAME_param_1
 *	)
 */
#include <ctype.h>

#include "internal.h"

static bool in_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$';
}

static const char *skip_space(const char *at)
{
	return at + strspn(at, " \t\r\n");
}

/* Spaces out comments, in place. */
static void drop_comments(char *text)
{
	for (char *at = text; *at; at++) {
		const char *stop = !strncmp(at, "//", 2) ? "\n" :
				   !strncmp(at, "/*", 2) ? "*/" : NULL;
		char *end;

		if (!stop)
			continue;
		end = strstr(at + 2, stop);
		end = end ? end + strlen(stop) - (*stop == '\n') : at + strlen(at);
		memset(at, ' ', end - at);
	}
}

/* ".u64" and the like: the number at the end is the number of bits. */
static u32 type_bytes(const char *from, const char *to)
{
	for (const char *at = from; at < to; at++) {
		u32 bits;

		if (*at != '.' || !strchr("busf", at[1]) || !isdigit((unsigned char)at[2]))
			continue;
		bits = strtoul(at + 2, NULL, 10);
		if (bits == 8 || bits == 16 || bits == 32 || bits == 64)
			return bits / 8;
	}
	return 0;
}

static u32 param_bytes(const char *from, const char *to)
{
	const char *bracket = memchr(from, '[', to - from);
	u32 bytes = type_bytes(from, bracket ?: to);

	return bracket ? bytes * strtoul(bracket + 1, NULL, 10) : bytes;
}

static int add_param(struct sw_function *fn, u32 bytes)
{
	u32 *wider = realloc(fn->param_bytes, (fn->nr_params + 1) * sizeof(*wider));

	if (!wider)
		return -ENOMEM;
	fn->param_bytes = wider;
	fn->param_bytes[fn->nr_params++] = bytes;
	return 0;
}

/* From behind the opening parenthesis; an entry need not have one. */
static int parse_params(struct sw_function *fn, const char *at)
{
	const char *close = strchr(at, ')');

	if (!close)
		return -EINVAL;
	for (at = skip_space(at); at < close; at = skip_space(at)) {
		const char *end = memchr(at, ',', close - at) ?: close;
		u32 bytes = param_bytes(at, end);

		if (strncmp(at, ".param", 6) || !bytes)
			return -EINVAL;
		if (add_param(fn, bytes))
			return -ENOMEM;
		at = end + (end < close);
	}
	return 0;
}

static int parse_entry(const char *at, struct sw_function **fns)
{
	struct sw_function *fn = calloc(1, sizeof(*fn));
	const char *name = skip_space(at), *end = name;
	int err;

	if (!fn)
		return -ENOMEM;
	while (in_word(*end))
		end++;
	fn->name = strndup(name, end - name);
	fn->next = *fns;
	*fns = fn;
	end = skip_space(end);
	if (!fn->name)
		return -ENOMEM;
	if (!*fn->name || !*end)
		return -EINVAL;
	err = *end == '(' ? parse_params(fn, end + 1) : 0;
	return err;
}

static int parse(const char *text, struct sw_function **fns)
{
	static const char word[] = ".entry";
	int err = 0;

	if (strncmp(skip_space(text), ".version", 8) || !strstr(text, ".target"))
		return -EINVAL;
	for (const char *at = strstr(text, word); at && !err; at = strstr(at + 1, word))
		if (isspace((unsigned char)at[sizeof(word) - 1]))
			err = parse_entry(at + sizeof(word) - 1, fns);
	return err ?: *fns ? err : -EINVAL;
}

int sw_ptx_parse(const char *text, struct sw_function **fns)
{
	char *copy = strdup(text);
	int err;

	if (!copy)
		return -ENOMEM;
	drop_comments(copy);
	err = parse(copy, fns);
	free(copy);
	return err;
}

void sw_functions_free(struct sw_function *fn)
{
	while (fn) {
		struct sw_function *next = fn->next;

		free(fn->name);
		free(fn->param_bytes);
		free(fn);
		fn = next;
	}
}
