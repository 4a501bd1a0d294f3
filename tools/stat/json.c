// SPDX-License-Identifier: Apache-2.0
/* Devices for programs: one object, a device in it for each that was looked for. */
#include "../json.h"
#include "stat.h"

static void print_pair(const char *key, const char *value, FILE *out)
{
	fprintf(out, ", \"%s\": ", key);
	json_string(value, out);
}

/* The names of bits that are set. */
static void print_bits(const char *key, uint32_t bits, const char *const *names, unsigned int nr,
		       FILE *out)
{
	const char *between = "";

	fprintf(out, ", \"%s\": [", key);
	for (unsigned int i = 0; i < nr && names[i]; i++) {
		if (!(bits & 1u << i))
			continue;
		fprintf(out, "%s\"%s\"", between, names[i]);
		between = ", ";
	}
	putc(']', out);
}

static void print_uuid(const uint8_t *uuid, FILE *out)
{
	fputs(", \"uuid\": \"", out);
	for (unsigned int i = 0; i < 16; i++)
		fprintf(out, "%02x", uuid[i]);
	putc('"', out);
}

static void print_numbers(const struct kvmm_device_info *info, FILE *out)
{
	fprintf(out, ", \"driver_version\": %u, \"cc\": [%u, %u], \"nr_sms\": %u, "
		"\"nr_devices\": %u, \"numa_node\": %d", info->driver_version, info->cc_major,
		info->cc_minor, info->nr_sms, info->nr_devices, info->numa_node);
	fprintf(out, ", \"total_bytes\": %llu, \"free_bytes\": %llu, \"granule_bytes\": %llu, "
		"\"good_granule_bytes\": %llu", (unsigned long long)info->total_bytes,
		(unsigned long long)info->free_bytes, (unsigned long long)info->granule_bytes,
		(unsigned long long)info->good_granule_bytes);
}

static void print_costs(const struct kvmm_path_cost *cost, FILE *out)
{
	const char *between = "";

	fputs("\"cost\": {", out);
	for (unsigned int path = KVMM_PATH_KERNEL; path < KVMM_NR_PATHS; path++) {
		if (!cost[path].mib_per_s)
			continue;
		fprintf(out, "%s\"%s\": {\"call_ns\": %u, \"mib_per_s\": %u}", between,
			path_names[path], cost[path].call_ns, cost[path].mib_per_s);
		between = ", ";
	}
	putc('}', out);
}

static void print_steps(const struct kvmm_path_step *step, FILE *out)
{
	fputs(", \"steps\": [", out);
	for (unsigned int i = 0; i < KVMM_NR_PATHS && step[i].path; i++)
		fprintf(out, "%s{\"from_bytes\": %llu, \"path\": \"%s\"}", i ? ", " : "",
			(unsigned long long)step[i].from_bytes, path_names[step[i].path]);
	putc(']', out);
}

static void print_copies(const struct kvmm_device_info *info, FILE *out)
{
	fprintf(out, ", \"step_pieces\": %u, \"copies\": {", KVMM_STEP_PIECES);
	for (unsigned int dir = 0; dir < KVMM_NR_COPY_DIRS; dir++) {
		fprintf(out, "%s\"%s\": {", dir ? ", " : "", dir_names[dir]);
		print_costs(info->cost[dir], out);
		print_steps(info->step[dir], out);
		putc('}', out);
	}
	putc('}', out);
}

static void print_found(const struct kvmm_device_info *info, FILE *out)
{
	print_pair("device", info->device, out);
	print_pair("driver", info->driver, out);
	print_pair("card", info->card, out);
	print_pair("pci_id", info->pci_id, out);
	print_uuid(info->uuid, out);
	print_numbers(info, out);
	print_bits("features", info->features, feature_names, 32, out);
	print_bits("paths", info->paths, path_names, KVMM_NR_PATHS, out);
	print_copies(info, out);
}

void devices_print_json(const struct devices *devices, FILE *out)
{
	fputs("{\"devices\": [", out);
	for (unsigned int i = 0; i < devices->nr; i++) {
		const struct seen *seen = &devices->seen[i];

		fputs(i ? ",\n{\"name\": " : "\n{\"name\": ", out);
		json_string(seen->name, out);
		fprintf(out, ", \"found\": %s", seen->err ? "false" : "true");
		if (seen->err)
			print_pair("why", seen->info.why, out);
		else
			print_found(&seen->info, out);
		putc('}', out);
	}
	fputs("\n]}\n", out);
}
