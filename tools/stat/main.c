// SPDX-License-Identifier: Apache-2.0
/* kvmm-stat: what there is and how it does. */
#include <argp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../tool.h"
#include "live.h"
#include "stat.h"
#include "tiers.h"

struct options {
	struct client_options client;
	const char *replay;
	const char *listen;
	unsigned int nr_args;
	const char *args[MAX_DEVICES + 1];
};

enum { KEY_REPLAY = 'r', KEY_LISTEN = 'l' };

static const struct argp_option argp_options[] = {
	CLIENT_SOCKET, CLIENT_POOL("all"), CLIENT_JSON, CLIENT_INTERVAL("look once"), CLIENT_COUNT("no end"),
	{ "listen", KEY_LISTEN, "[ADDR:]PORT", 0, "metrics: serve them by HTTP, at /metrics, until it is "
	  "ended [ADDR: 127.0.0.1]", 0 },
	{ "replay", KEY_REPLAY, "FILE", 0, "tiers: of the runs that kvmm-replay --json wrote", 0 },
	{ 0 },
};

static const char doc[] =
	"Say how the pools of a running engine do, what devices there are, what is in tiers.\v"
	"Without a command: a line for each pool (or POOL only), each INTERVAL seconds, COUNT times: blocks "
	"as they are, what has happened a second since the line before, hits of lookups, and the share "
	"of the last ten seconds that somebody waited for blocks. The first line has no line before.\n"
	"\n"
	"Commands:\n"
	"  pool [POOL]              all numbers of a pool\n"
	"  tiers [POOL]             what is below the pools\n"
	"  tiers DIR...             folders of disk tiers, which may be in use: nothing is written, and nobody "
	"is locked out; records are counted, not verified (that is kvmm-dump tier)\n"
	"  leaks POOL [MS [MS]]     leases that have run out, what dead owners left, what has no lease "
	"and is older than MS; or than the second MS, and all that its owner has\n"
	"  pressure [POOL]          time lost waiting for blocks\n"
	"  devices [NAME...]        the host, the devices of the software driver (soft:0, ...) and of the "
	"system's (cuda:0, ...), each opened and measured for about 50 ms; with --socket: those of the "
	"engine's pools\n"
	"  metrics [openmetrics|prometheus [POOL]]  what Prometheus scrapes, or its textfile collector reads\n"
	"  families                 the metrics there are\n"
	"  buddyinfo, pagetypeinfo, vmstat, pressure-text [POOL], slabinfo  in the layouts of Linux\n"
	"  proc DIR [INTERVAL [COUNT]]  these as files below DIR, for what reads /proc: each is replaced as a "
	"whole, and all are removed when the engine has gone\n"
	"\n"
	"Examples:\n"
	"  kvmm-stat 1\n"
	"  kvmm-stat --socket /run/kvmm/engine.sock kv 5 12\n"
	"  kvmm-stat pool --json kv\n"
	"  kvmm-stat leaks kv 60000\n"
	"  kvmm-stat proc /run/kvmm-proc 5\n"
	"  kvmm-stat metrics --listen 9109\n"
	"  kvmm-stat metrics prometheus > kvmm.prom.new && mv kvmm.prom.new kvmm.prom\n"
	"  KVMM_SWCUDA=devices=2,mem=1G kvmm-stat devices soft:0 soft:1\n"
	"  kvmm-stat tiers /var/cache/engine/kv\n"
	"  kvmm-replay seq --host-blocks 1000 --json TRACE | kvmm-stat tiers --replay -\n"
	"\n"
	"Exit code: 0 good; 1 there is no engine, no such pool, a device or a tier that was named is not "
	"there (the line says why), or no run had tiers; 2 bad usage.";

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *opt = state->input;

	switch (key) {
	case KEY_REPLAY:
		opt->replay = arg;
		return 0;
	case KEY_LISTEN:
		opt->listen = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (opt->nr_args == MAX_DEVICES + 1)
			bad_option(state, "more than %u arguments", MAX_DEVICES);
		opt->args[opt->nr_args++] = arg;
		return 0;
	default:
		return client_option(&opt->client, key, arg, state);
	}
}

/* ---- commands ---- */

static int stat_devices(const struct options *opt)
{
	static struct devices devices;
	unsigned int nr_missing;

	if (opt->client.socket)
		return opt->nr_args > 1 ? complain_usage("devices: names, or --socket") :
					  live_show(&opt->client, "devices");
	nr_missing = devices_find(&devices, opt->args + 1, opt->nr_args - 1);
	if (opt->client.json)
		devices_print_json(&devices, stdout);
	else
		devices_print_table(&devices, stdout);
	return nr_missing ? EXIT_WRONG : EXIT_GOOD;
}

/* The command as the socket has it, with its arguments; by live_show() or live_print(). */
static int ask_by(int (*how)(const struct client_options *opt, const char *command),
		  const struct options *opt, const char *command, unsigned int max_args)
{
	char line[1024];
	size_t len = (size_t)snprintf(line, sizeof(line), "%s", command);

	if (opt->nr_args - 1 > max_args)
		return complain_usage("%s: too many arguments", opt->args[0]);
	for (unsigned int i = 1; i < opt->nr_args && len < sizeof(line); i++)
		len += (size_t)snprintf(line + len, sizeof(line) - len, " %s", opt->args[i]);
	return len < sizeof(line) ? how(&opt->client, line) : complain_usage("that is too long");
}

static int ask_engine(const struct options *opt, const char *command, unsigned int max_args)
{
	return ask_by(live_show, opt, command, max_args);
}

/* Scrapers say which format; of one pool is by --pool. */
static int stat_metrics_served(const struct options *opt)
{
	if (opt->nr_args > 1 || opt->client.json)
		return complain_usage("--listen: no format; of one pool is by --pool");
	return live_listen(&opt->client, opt->listen);
}

/* Texts in the formats of others. */
static int stat_text(const struct options *opt)
{
	if (opt->client.json)
		return complain_usage("no --json: the format is that of others");
	return ask_by(live_print, opt, opt->args[0], 2);
}

static int stat_families(const struct options *opt)
{
	return ask_engine(opt, "metrics-families", 0);
}

static int stat_pool(const struct options *opt)
{
	return ask_engine(opt, "stat", 1);
}

static int stat_leaks(const struct options *opt)
{
	return ask_engine(opt, "leaks", 3);
}

static int stat_pressure(const struct options *opt)
{
	return ask_engine(opt, "pressure", 1);
}

/* Names of pools have no slash in them, and folders hardly ever none. */
static bool are_folders(const struct options *opt)
{
	return opt->nr_args > 2 || (opt->nr_args == 2 && strchr(opt->args[1], '/')) ||
	       (opt->nr_args == 2 && !opt->client.socket && !access(opt->args[1], F_OK));
}

static int stat_all_tiers(const struct options *opt)
{
	if (opt->replay)
		return opt->nr_args > 1 ? complain_usage("tiers: folders, or --replay FILE") :
					  stat_replay(opt->replay, opt->client.json);
	if (are_folders(opt))
		return stat_tiers(opt->args + 1, opt->nr_args - 1, opt->client.json);
	return ask_engine(opt, "tiers", 1);
}

/* Positive, and a number to its end. */
static bool read_number(const char *arg, double *number)
{
	char *end;

	if (*arg < '0' || *arg > '9')
		return false;
	*number = strtod(arg, &end);
	return !*end && *number > 0 && *number <= 1e9;
}

/* [INTERVAL [COUNT]], where no option says so: the arguments from @i on, and no more. */
static int read_rounds(const struct options *opt, unsigned int i, struct client_options *live)
{
	double count;

	if (i < opt->nr_args && !read_number(opt->args[i++], &live->interval))
		return complain_usage("the interval: '%s' is no number of seconds", opt->args[i - 1]);
	if (i < opt->nr_args) {
		if (!read_number(opt->args[i++], &count))
			return complain_usage("the count: '%s' is no number", opt->args[i - 1]);
		live->count = (unsigned long)count;
	}
	if (i < opt->nr_args)
		return complain_usage("too many arguments");
	if (live->count > 1 && !live->interval)
		live->interval = 1;
	return EXIT_GOOD;
}

/* [POOL] [INTERVAL [COUNT]] */
static int stat_live(const struct options *opt)
{
	struct client_options live = opt->client;
	unsigned int i = 0;
	int code;

	if (opt->nr_args && !live.pool && !read_number(opt->args[0], &live.interval))
		live.pool = opt->args[i++];
	code = read_rounds(opt, i, &live);
	return code ? code : live_watch(&live);
}

/* DIR [INTERVAL [COUNT]] */
static int stat_proc(const struct options *opt)
{
	struct client_options live = opt->client;
	int code;

	if (opt->nr_args < 2)
		return complain_usage("proc: into which folder?");
	if (live.json)
		return complain_usage("no --json: the format is that of others");
	code = read_rounds(opt, 2, &live);
	return code ? code : live_proc(&live, opt->args[1]);
}

static const struct {
	const char *name;
	int (*fn)(const struct options *opt);
} commands[] = {
	{ "pool", stat_pool }, { "tiers", stat_all_tiers }, { "leaks", stat_leaks },
	{ "pressure", stat_pressure }, { "devices", stat_devices }, { "families", stat_families },
	{ "metrics", stat_text }, { "buddyinfo", stat_text }, { "pagetypeinfo", stat_text },
	{ "slabinfo", stat_text }, { "vmstat", stat_text }, { "pressure-text", stat_text },
	{ "proc", stat_proc },
};

static int (*command_of(const char *name))(const struct options *opt)
{
	for (unsigned int i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(name, commands[i].name))
			return commands[i].fn;
	return NULL;
}

static int run(const struct options *opt)
{
	int (*fn)(const struct options *opt) = opt->nr_args ? command_of(opt->args[0]) : NULL;

	if (opt->replay && (!opt->nr_args || strcmp(opt->args[0], "tiers")))
		return complain_usage("--replay is for tiers");
	if (opt->listen)
		return opt->nr_args && !strcmp(opt->args[0], "metrics") ? stat_metrics_served(opt) :
			complain_usage("--listen is for metrics");
	return fn ? fn(opt) : stat_live(opt);
}

/* Commands have it among their arguments: first, but for metrics; some say it themselves. */
static void add_pool(struct options *opt)
{
	unsigned int at = 1;

	if (!opt->client.pool || opt->listen || !opt->nr_args || opt->nr_args == MAX_DEVICES + 1 ||
	    !command_of(opt->args[0]) || command_of(opt->args[0]) == stat_proc)
		return;
	if (!strcmp(opt->args[0], "metrics")) {
		if (opt->nr_args == 1)
			opt->args[opt->nr_args++] = "openmetrics";
		at = 2;
	}
	memmove(opt->args + at + 1, opt->args + at, (opt->nr_args - at) * sizeof(opt->args[0]));
	opt->args[at] = opt->client.pool;
	opt->nr_args++;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		argp_options, parse,
		"[POOL] [INTERVAL [COUNT]]\npool [POOL]\ntiers [POOL]\ntiers DIR...\n"
		"leaks POOL [MS [MS]]\npressure [POOL]\ndevices [NAME...]\nmetrics [FORMAT [POOL]]\nfamilies\n"
		"buddyinfo|pagetypeinfo|vmstat|pressure-text [POOL]\nslabinfo\nproc DIR [INTERVAL [COUNT]]",
		doc, NULL, NULL, NULL,
	};
	struct options opt = { 0 };

	read_options(&argp, argc, argv, 0, &opt);
	add_pool(&opt);
	return finish_output(run(&opt));
}
