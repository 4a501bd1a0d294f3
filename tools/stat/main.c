// SPDX-License-Identifier: Apache-2.0
/* kvmm-stat: what there is and how it does. */
#include <argp.h>
#include <errno.h>
#include <string.h>

#include "stat.h"
#include "tiers.h"

struct options {
	bool json;
	bool tiers;
	const char *replay;
	unsigned int nr_args;
	char *names[MAX_DEVICES];
	unsigned int nr_names;
};

enum { KEY_JSON = 'j', KEY_REPLAY = 'r' };

static const struct argp_option argp_options[] = {
	{ "json", KEY_JSON, NULL, 0, "One JSON object on standard output", 0 },
	{ "replay", KEY_REPLAY, "FILE", 0, "tiers: of the runs that kvmm-replay --json wrote", 0 },
	{ 0 },
};

static const char doc[] =
	"Say what devices there are and what each can do, or what is in tiers.\v"
	"devices: without a NAME: the host, and every device of the software driver (soft:0, ...) and of the "
	"system's CUDA driver (cuda:0, ...). A device is opened and measured for about 50 ms.\n"
	"\n"
	"tiers: DIR is the folder of a disk tier, which may be in use: nothing is written, and nobody is "
	"locked out. Its records are counted, not verified (that is kvmm-dump tier).\n"
	"\n"
	"Example:\n"
	"  kvmm-stat devices\n"
	"  KVMM_SWCUDA=devices=2,mem=1G kvmm-stat devices soft:0 soft:1\n"
	"  kvmm-stat devices --json cuda:0\n"
	"  kvmm-stat tiers /var/cache/engine/kv\n"
	"  kvmm-replay seq --host-blocks 1000 --json TRACE | kvmm-stat tiers --replay -\n"
	"\n"
	"Exit code: 0 good; 1 a device or a tier that was named is not there (the line says why), or "
	"no run had tiers; 2 bad usage.";

static void add_arg(struct options *opt, struct argp_state *state, char *arg)
{
	if (!opt->nr_args++) {
		opt->tiers = !strcmp(arg, "tiers");
		if (!opt->tiers && strcmp(arg, "devices"))
			argp_error(state, "there is no '%s', only devices and tiers", arg);
		return;
	}
	if (opt->nr_names == MAX_DEVICES)
		argp_error(state, "more than %u names", MAX_DEVICES);
	opt->names[opt->nr_names++] = arg;
}

static void check(const struct options *opt, struct argp_state *state)
{
	if (opt->replay && !opt->tiers)
		argp_error(state, "--replay is for tiers");
	if (opt->tiers && !opt->nr_names == !opt->replay)
		argp_error(state, "tiers: folders, or --replay FILE");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *opt = state->input;

	switch (key) {
	case KEY_JSON:
		opt->json = true;
		return 0;
	case KEY_REPLAY:
		opt->replay = arg;
		return 0;
	case ARGP_KEY_ARG:
		add_arg(opt, state, arg);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_usage(state);
		return 0;
	case ARGP_KEY_END:
		check(opt, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Did all of it arrive? */
static int finish(int code)
{
	if (!fflush(stdout) && !ferror(stdout))
		return code;
	fprintf(stderr, "kvmm-stat: standard output: %s\n", strerror(errno));
	return STAT_MISSING;
}

static int print(const struct options *opt, const struct devices *devices)
{
	if (opt->json)
		devices_print_json(devices, stdout);
	else
		devices_print_table(devices, stdout);
	return finish(STAT_GOOD);
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		argp_options, parse, "devices [NAME...]\ntiers DIR...", doc, NULL, NULL, NULL,
	};
	static struct devices devices;
	struct options opt = { 0 };
	unsigned int nr_missing;
	int code;

	argp_err_exit_status = STAT_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &opt);
	if (opt.replay)
		return finish(stat_replay(opt.replay, opt.json));
	if (opt.tiers)
		return finish(stat_tiers(opt.names, opt.nr_names, opt.json));
	nr_missing = devices_find(&devices, opt.names, opt.nr_names);
	code = print(&opt, &devices);
	return code ? code : nr_missing ? STAT_MISSING : STAT_GOOD;
}
