// SPDX-License-Identifier: Apache-2.0
/* Devices for people: a row for each that is there, its calibration, and why the others are not. */
#include "../tool.h"
#include "stat.h"

#define MIB	(1ull << 20)
#define WIDE	140u		/* columns that the longest lines take */
#define WORD	32u

/* 65536 -> "64 KiB" */
static const char *with_unit(uint64_t bytes, char word[WORD])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB" };
	unsigned int i = 0;

	while (i + 1 < sizeof(units) / sizeof(units[0]) && bytes && !(bytes % 1024)) {
		bytes /= 1024;
		i++;
	}
	snprintf(word, WORD, "%llu %s", (unsigned long long)bytes, units[i]);
	return word;
}

static const char *in_mib(uint64_t bytes, char word[WORD])
{
	if (!bytes)
		return "-";
	snprintf(word, WORD, "%llu MiB", (unsigned long long)(bytes / MIB));
	return word;
}

static const char *number(bool is_known, long value, char word[WORD])
{
	if (!is_known)
		return "-";
	snprintf(word, WORD, "%ld", value);
	return word;
}

/* 12040 -> "12.4", 90 -> "9.0" */
static const char *version(unsigned int major, unsigned int minor, char word[WORD])
{
	if (!major)
		return "-";
	snprintf(word, WORD, "%u.%u", major, minor);
	return word;
}

static unsigned int line_width(void)
{
	unsigned int lines, columns;

	terminal_size(&lines, &columns);
	return columns;
}

static bool is_narrow(void)
{
	return line_width() && line_width() < WIDE;
}

/* A row is two lines on a narrow terminal. */
static const char *break_after_free(void)
{
	return is_narrow() ? "\n        " : " ";
}

static void print_features(uint32_t bits, FILE *out)
{
	const char *between = "";

	for (unsigned int i = 0; feature_names[i]; i++) {
		if (!(bits & 1u << i))
			continue;
		fprintf(out, "%s%s", between, feature_names[i]);
		between = " ";
	}
	fprintf(out, "%s\n", bits ? "" : "-");
}

static void print_head(FILE *out)
{
	fprintf(out, "%-7s %-28s %-6s %-5s %4s %12s %12s%s%8s %4s  %s\n", "device", "card", "driver",
		"cc", "SMs", "memory", "free", break_after_free(), "granule", "node", "features");
}

static void print_row(const struct kvmm_device_info *info, FILE *out)
{
	char driver[WORD], cc[WORD], sms[WORD], total[WORD], free[WORD], granule[WORD], node[WORD];
	unsigned int v = info->driver_version;

	fprintf(out, "%-7s %-28s %-6s %-5s %4s %12s %12s%s%8s %4s  ", info->device,
		*info->card ? info->card : "plain memory", version(v / 1000, v % 1000 / 10, driver),
		version(info->cc_major, info->cc_minor, cc),
		number(info->nr_sms, info->nr_sms, sms), in_mib(info->total_bytes, total),
		in_mib(info->free_bytes, free), break_after_free(),
		info->granule_bytes ? with_unit(info->granule_bytes, granule) : "-",
		number(info->numa_node >= 0, info->numa_node, node));
	print_features(info->features, out);
}

static void print_costs(const struct kvmm_path_cost *cost, FILE *out)
{
	for (unsigned int path = KVMM_PATH_KERNEL; path < KVMM_NR_PATHS; path++) {
		char word[WORD] = "-";

		if (cost[path].mib_per_s)
			snprintf(word, sizeof(word), "%.1f us, %.1f GB/s", cost[path].call_ns / 1e3,
				 cost[path].mib_per_s * (double)MIB / 1e9);
		fprintf(out, "  %-20s", word);
	}
}

/* "kernel, from 128 KiB on batch" */
static void print_steps(const struct kvmm_path_step *step, FILE *out)
{
	char word[WORD];

	for (unsigned int i = 0; i < KVMM_NR_PATHS && step[i].path; i++) {
		if (i)
			fprintf(out, ", from %s on ", with_unit(step[i].from_bytes, word));
		fprintf(out, "%s", path_names[step[i].path]);
	}
	putc('\n', out);
}

static void print_paths(const struct kvmm_device_info *info, FILE *out)
{
	fprintf(out, "\n%s  ", info->device);
	for (unsigned int i = 0; i < sizeof(info->uuid); i++)
		fprintf(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			info->uuid[i]);
	fprintf(out, "  at %s\n  %-10s  %-20s  %-20s  %-20s%s%u pieces go by\n", info->pci_id, "copies",
		"kernel", "batch", "single", is_narrow() ? "\n              " : "  ", KVMM_STEP_PIECES);
	for (unsigned int dir = 0; dir < KVMM_NR_COPY_DIRS; dir++) {
		fprintf(out, "  %-10s", dir_names[dir]);
		print_costs(info->cost[dir], out);
		fputs(is_narrow() ? "\n              " : "  ", out);
		print_steps(info->step[dir], out);
	}
}

static void print_missing(const struct seen *seen, FILE *out)
{
	unsigned int at = (unsigned int)fprintf(out, "%-7s not there:", seen->name);

	fputc(' ', out);
	print_words(out, seen->info.why, at + 1, 9, line_width());
	fputc('\n', out);
}

void devices_print_table(const struct devices *devices, FILE *out)
{
	const struct seen *end = devices->seen + devices->nr;
	bool any = false;

	for (const struct seen *seen = devices->seen; seen < end; seen++) {
		if (seen->err)
			continue;
		if (!any)
			print_head(out);
		any = true;
		print_row(&seen->info, out);
	}
	for (const struct seen *seen = devices->seen; seen < end; seen++)
		if (seen->err)
			print_missing(seen, out);
	for (const struct seen *seen = devices->seen; seen < end; seen++)
		if (!seen->err && seen->info.paths)
			print_paths(&seen->info, out);
}
