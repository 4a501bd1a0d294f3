// SPDX-License-Identifier: Apache-2.0
/*
 * The runs of kvmm-replay --json that had tiers: one object a line, of which the fields of tiers are
 * taken. Its values are numbers, strings, or arrays that are passed over.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../plain.h"
#include "../tool.h"
#include "stat.h"
#include "tiers.h"

#define MAX_LINE	(1u << 20)	/* bytes, and its end */

static const char *const fields[] = {
	"trace", "policy", "write_policy", "host_blocks", "device_hits", "host_hits", "combined_ppm",
	"offloads", "offload_bytes", "loads", "load_bytes", "stall_us", "latency_us", "reloads",
	"thrash_ppm", "host_evictions", "host_resident_end", "refused_loads",
	"disk_blocks", "disk_hits", "disk_writes", "disk_write_bytes", "disk_write_ns", "disk_reads",
	"disk_read_bytes", "disk_read_ns", "disk_stall_us", "disk_dropped", "disk_resident_end",
	"host_lost",
};

/* Behind the string whose first quote is at @at; NULL: it has no end. */
static const char *skip_string(const char *at)
{
	for (at++; *at && *at != '"'; at++)
		if (*at == '\\' && !*++at)
			return NULL;
	return *at ? at + 1 : NULL;
}

/* Behind the value at @at, which ends at a comma or a bracket of its own depth. */
static const char *skip_value(const char *at)
{
	int depth = 0;

	while (at && *at) {
		if (*at == '"') {
			at = skip_string(at);
			continue;
		}
		if (!depth && (*at == ',' || *at == '}' || *at == ']'))
			return at;
		depth += *at == '{' || *at == '[';
		depth -= *at == '}' || *at == ']';
		at++;
	}
	return NULL;
}

/* The pair at @at, or NULL: key without quotes, value as it stands. */
static const char *next_pair(const char *at, const char **key, size_t *key_len, const char **value,
			     size_t *value_len)
{
	const char *end;

	at += strspn(at, "{, \t");
	if (*at != '"')
		return NULL;
	end = skip_string(at);
	if (!end)
		return NULL;
	*key = at + 1;
	*key_len = (size_t)(end - at) - 2;
	end += strspn(end, " \t");
	if (*end != ':')
		return NULL;
	*value = end + 1 + strspn(end + 1, " \t");
	end = skip_value(*value);
	*value_len = end ? (size_t)(end - *value) : 0;
	return end;
}

static bool is_field(const char *key, size_t len)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (strlen(fields[i]) == len && !memcmp(fields[i], key, len))
			return true;
	return false;
}

/* Does the line have host_blocks above 0? -1: it is no object. */
static int has_tiers(const char *line)
{
	const char *key, *value;
	size_t key_len, value_len;
	int found = 0;

	if (*line != '{')
		return -1;
	while (*line && strcmp(line, "}")) {
		line = next_pair(line, &key, &key_len, &value, &value_len);
		if (!line)
			return -1;
		if (key_len == 11 && !memcmp(key, "host_blocks", 11) && *value != '0')
			found = 1;
	}
	return *line ? found : -1;
}

static void print_run(const char *line, unsigned int number, bool json)
{
	const char *key, *value, *between = "";
	size_t key_len, value_len;

	if (json)
		fputs(number ? ",\n{" : "\n{", stdout);
	else
		printf("%srun %u\n", number ? "\n" : "", number + 1);
	while (strcmp(line, "}")) {
		line = next_pair(line, &key, &key_len, &value, &value_len);
		if (!is_field(key, key_len))
			continue;
		if (json)
			printf("%s\"%.*s\": %.*s", between, (int)key_len, key, (int)value_len, value);
		else
			printf("  %-18.*s %.*s\n", (int)key_len, key, (int)value_len, value);
		between = ", ";
	}
	if (json)
		putchar('}');
}

static int read_runs(FILE *in, const char *path, bool json)
{
	unsigned int nr = 0, nr_lines = 0, nr_idle = 0;
	char *line = malloc(MAX_LINE);
	int found = 0;
	long len = 0;

	while (line && found >= 0 && nr_idle <= MAX_IDLE_LINES &&
	       (len = read_line(in, line, MAX_LINE)) >= 0) {
		nr_lines++;
		nr_idle++;
		line[strcspn(line, "\r")] = '\0';
		if (!*line)
			continue;
		found = has_tiers(line);
		make_plain(line, strlen(line));
		if (found <= 0)
			continue;
		print_run(line, nr++, json);
		nr_idle = 0;
	}
	free(line);
	if (!line)
		return complain(EXIT_WRONG, "no memory");
	if (len == LINE_LONG)
		return complain(EXIT_WRONG, "%s:%u: a line of %u bytes or more", path, nr_lines + 1, MAX_LINE);
	if (found < 0)
		return complain(EXIT_WRONG, "%s:%u: not an object of kvmm-replay --json", path, nr_lines);
	if (ferror(in))
		return complain(EXIT_WRONG, "%s: cannot be read", path);
	if (nr_idle > MAX_IDLE_LINES)
		return complain(EXIT_WRONG, "%s: more than %u lines in a row are no run with tiers", path,
				MAX_IDLE_LINES);
	return nr ? EXIT_GOOD : complain(EXIT_WRONG, "%s: no run with tiers", path);
}

int stat_replay(const char *path, bool json)
{
	FILE *in = strcmp(path, "-") ? fopen(path, "re") : stdin;
	int code;

	if (!in)
		return complain(EXIT_WRONG, "%s: %s", path, strerror(errno));
	if (json)
		fputs("{\"runs\": [", stdout);
	code = read_runs(in, path, json);
	if (json)
		fputs("\n]}\n", stdout);
	if (in != stdin)
		fclose(in);
	return code;
}
