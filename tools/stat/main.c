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
	const char *listen;
	unsigned int nr_args;
	const char *args[MAX_DEVICES + 1];
};

static const struct option_row rows[] = {
	CLIENT_SOCKET, CLIENT_POOL("all"), CLIENT_JSON, CLIENT_INTERVAL("look once"), CLIENT_COUNT("no end"),
	ROW_TEXT("listen", 'l', "[ADDR:]PORT", struct options, listen,
		"metrics: serve them by HTTP, at /metrics, until it is ended [ADDR: 127.0.0.1]"),
};

static const char doc[] =
	"Say how the pools of a running engine do, what devices there are, what is in tiers.\v"
	"Without a command: a line for each pool (or POOL only), each INTERVAL seconds, COUNT times: blocks "
	"as they are, what has happened a second since the line before, hits of lookups, and the share "
	"of the last ten seconds that somebody waited for blocks. The first line has no line before.\n"
	"\n"
	"Commands:\n"
	"  pool [POOL]              all numbers of a pool\n"
	"  tenants, classes [POOL]  the same of tenants with limits, and of classes\n"
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
	"Columns of the lines, in blocks: free; inactive, cached and in use by no request: evictable; active, "
	"cached and in use; private, of one request, without a name yet; ranges; run, the longest run of free "
	"blocks; and runs, how many there are. A second: alloc and free, calls; evict, hit, miss, regist "
	"(registered) and moved, blocks; nospc, allocations that failed for want of blocks; frag, those that "
	"found enough free blocks and no run long enough. Then hits % of what was looked up, and some %10s, "
	"the share of ten seconds in which at least one request waited. A narrow terminal has fewer.\n"
	"\n"
	"tenants: tenant, blocks charged to it now, and peak, most ever; min never taken by others, low only if "
	"nobody else has any, high beyond which it gives up its own first, max; low_events, blocks lost "
	"though at low or below, high_events and max_events, allocations beyond these, refused; reclaimed, "
	"blocks lost for its own limits, evicted, in all.\n"
	"\n"
	"classes: class, blocks cached of it, outside (private and ranges), bytes of both, quota; evicted and "
	"demoted blocks; reached, calls that evicted from it.\n"
	"\n"
	"tiers: pool, tier (its kind) and name; max_bytes and bytes it may have and has; blocks of copies there; "
	"writing, queued (to be written) and loading now; stored and loaded blocks, stored_bytes, loaded_bytes; "
	"hits and misses of keys; evicted copies; failed copies; from_disk, blocks read from below it.\n"
	"\n"
	"leaks: owner, and kind, index and gen of the handle; blocks and bytes it holds; age_ms; deadline_ns on "
	"kvmm's clock; why it is listed: expired, old, lone or dead; refs and pins; text of the lease.\n"
	"\n"
	"pressure: of each pool the kind of waiting: some, at least one request did, full, room was made for none; "
	"avg10, avg60 and avg300, per cent of so many seconds; total_us, microseconds since the start.\n"
	"\n"
	"devices: device, card, version of the driver, cc (compute capability), SMs, memory and of it free, "
	"granule (the least that can be given back), NUMA node, features; copies that go local, to_device, "
	"to_host: latency and rate by kernel, batch, single calls, and by which 256 pieces go. Of an "
	"engine, besides: number, allocator, policy, block_bytes, bytes, given_bytes (lent to others), "
	"balloon_bytes (to be given), metadata_bytes, streams, blocks, block_tokens, closed (1: the pool "
	"contradicts itself).\n"
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
	"\n"
	"Exit code: 0 good; 1 there is no engine, no such pool, a device or a tier that was named is not "
	"there (the line says why); 2 bad usage.";

static void add_arg(struct argp_state *state, void *base, const char *arg)
{
	struct options *opt = base;

	if (opt->nr_args == MAX_DEVICES + 1)
		bad_option(state, "more than %u arguments", MAX_DEVICES);
	opt->args[opt->nr_args++] = arg;
}

/* ---- commands ---- */

struct command {
	const char *name;
	const char *line;		/* as the socket has it */
	unsigned int max_args;
	int (*fn)(const struct options *opt, const struct command *command);
};

static int stat_devices(const struct options *opt, const struct command *command)
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
		  const struct options *opt, const struct command *command)
{
	char line[1024];
	size_t len = (size_t)snprintf(line, sizeof(line), "%s", command->line);

	if (opt->nr_args - 1 > command->max_args)
		return complain_usage("%s: too many arguments", opt->args[0]);
	for (unsigned int i = 1; i < opt->nr_args && len < sizeof(line); i++)
		len += (size_t)snprintf(line + len, sizeof(line) - len, " %s", opt->args[i]);
	return len < sizeof(line) ? how(&opt->client, line) : complain_usage("that is too long");
}

/* A table: its columns are what the engine says they are. */
static int stat_table(const struct options *opt, const struct command *command)
{
	return ask_by(live_show, opt, command);
}

/* Scrapers say which format; of one pool is by --pool. */
static int stat_metrics_served(const struct options *opt)
{
	if (opt->nr_args > 1 || opt->client.json)
		return complain_usage("--listen: no format; of one pool is by --pool");
	return live_listen(&opt->client, opt->listen);
}

/* Texts in the formats of others. */
static int stat_text(const struct options *opt, const struct command *command)
{
	if (opt->client.json)
		return complain_usage("no --json: the format is that of others");
	return ask_by(live_print, opt, command);
}

/* Names of pools have no slash in them, and folders hardly ever none. */
static bool are_folders(const struct options *opt)
{
	return opt->nr_args > 2 || (opt->nr_args == 2 && strchr(opt->args[1], '/')) ||
	       (opt->nr_args == 2 && !opt->client.socket && !access(opt->args[1], F_OK));
}

static int stat_all_tiers(const struct options *opt, const struct command *command)
{
	if (are_folders(opt))
		return stat_tiers(opt->args + 1, opt->nr_args - 1, opt->client.json);
	return stat_table(opt, command);
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
static int stat_proc(const struct options *opt, const struct command *command)
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

static const struct command commands[] = {
	{ "pool", "stat", 1, stat_table }, { "tenants", "tenants", 1, stat_table },
	{ "classes", "classes", 1, stat_table }, { "tiers", "tiers", 1, stat_all_tiers },
	{ "leaks", "leaks", 3, stat_table }, { "pressure", "pressure", 1, stat_table },
	{ "devices", "devices", 0, stat_devices },
	{ "families", "metrics-families", 0, stat_table }, { "metrics", "metrics", 2, stat_text },
	{ "buddyinfo", "buddyinfo", 2, stat_text }, { "pagetypeinfo", "pagetypeinfo", 2, stat_text },
	{ "slabinfo", "slabinfo", 2, stat_text }, { "vmstat", "vmstat", 2, stat_text },
	{ "pressure-text", "pressure-text", 2, stat_text }, { "proc", NULL, 0, stat_proc },
};

static const struct command *command_of(const struct options *opt)
{
	for (unsigned int i = 0; opt->nr_args && i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(opt->args[0], commands[i].name))
			return &commands[i];
	return NULL;
}

static int run(const struct options *opt)
{
	const struct command *command = command_of(opt);

	if (opt->listen)
		return opt->nr_args && !strcmp(opt->args[0], "metrics") ? stat_metrics_served(opt) :
			complain_usage("--listen is for metrics");
	return command ? command->fn(opt, command) : stat_live(opt);
}

/* Commands have it among their arguments: first, but for metrics; some say it themselves. */
static void add_pool(struct options *opt)
{
	unsigned int at = 1;

	if (!opt->client.pool || opt->listen || opt->nr_args == MAX_DEVICES + 1 || !command_of(opt) ||
	    command_of(opt)->fn == stat_proc)
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
	static const struct usage usage = { OPTION_ROWS(rows),
		"[POOL] [INTERVAL [COUNT]]\npool [POOL]\ntenants|classes [POOL]\ntiers [POOL]\ntiers DIR...\n"
		"leaks POOL [MS [MS]]\npressure [POOL]\ndevices [NAME...]\nmetrics [FORMAT [POOL]]\nfamilies\n"
		"buddyinfo|pagetypeinfo|vmstat|pressure-text [POOL]\nslabinfo\nproc DIR [INTERVAL [COUNT]]",
		doc, add_arg, NULL, false };
	struct options opt = { 0 };

	read_options(&usage, argc, argv, &opt);
	add_pool(&opt);
	return finish_output(run(&opt));
}
