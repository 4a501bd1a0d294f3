// SPDX-License-Identifier: Apache-2.0
/*
 * The toy engine runs the same requests without moves, with moves between steps, and with moves
 * beside them, as many as there can be. What is said must be what the model says without kvmm, to
 * the last bit.
 */
#include <errno.h>
#include <kvmm/ext/control.h>
#include <kvmm/ext/inspect.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine.h"

static const char usage[] =
"usage: toy-engine [OPTION]...\n"
"  --device NAME    host (the default), soft:0, cuda:0\n"
"  --mode NAME      still, between, beside; all of them, if not given\n"
"  --requests N     how many, at most 4096; 384\n"
"  --threads        one for each stream, and one that moves blocks\n"
"  --verify         checksums of cached blocks, compared when they move\n"
"  --elastic        parts of the pool are lent to somebody else, and come back\n"
"  --control DIR    can be looked at through DIR/toy.sock meanwhile\n"
"  --slow US        rests for so many microseconds behind each turn of a stream\n"
"  --prompts N      different ones; those behind come with the same again; all different, if not given\n"
"  --host-tier N    so many blocks of host memory below the pool\n"
"  --disk-tier DIR  a disk tier below that, in a folder of mode 0700\n"
"  --wrong          break the rules: never ask again where blocks lie\n"
"Exit code: 0 all said what they should; 1 not so; 2 bad usage; 3 no such device.\n";

/* ---- to be looked at ---- */

static struct kvmm_control *control;

static int open_control(const char *dir)
{
	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;

	attr.name = "toy";
	attr.dir = dir;
	attr.flags = KVMM_CONTROL_THREAD;
	return kvmm_control_open(&attr, &control);
}

static int show(struct engine *engine, int err)
{
	return err || !control ? err : kvmm_control_add_pool(control, NULL, engine->pool);
}

/* ---- lanes in turn, or each in a thread ---- */

static void rest(const struct options *opt)
{
	struct timespec time = { opt->slow_us / 1000000, opt->slow_us % 1000000 * 1000l };

	if (opt->slow_us)
		nanosleep(&time, NULL);
}

static int run_in_turn(struct lane *lane, struct mover *mover)
{
	int nr_left;

	do {
		nr_left = 0;
		for (uint32_t i = 0; i < NR_LANES; i++) {
			int left = lane_turn(&lane[i]);

			if (left < 0)
				return left;
			nr_left += left;
			mover_turn(mover);
			rest(mover->engine->opt);
		}
	} while (nr_left);
	return 0;
}

static int is_over(struct engine *engine)
{
	return __atomic_load_n(&engine->is_over, __ATOMIC_ACQUIRE);
}

static void *work(void *arg)
{
	struct lane *lane = arg;
	struct engine *engine = lane->engine;
	int left;

	lane->err = engine->device->enter(engine->device);
	if (lane->err)
		return NULL;
	do {
		left = lane_turn(lane);
		rest(engine->opt);
		if (engine->mode != STILL)
			mover_compact(engine);
	} while (left > 0 && !is_over(engine));
	lane->err = left < 0 ? left : 0;
	engine->device->leave(engine->device);
	return NULL;
}

static void *move(void *arg)
{
	struct mover *mover = arg;
	struct device *device = mover->engine->device;

	mover->err = device->enter(device);
	if (mover->err)
		return NULL;
	while (!mover->err && !is_over(mover->engine))
		mover_turn(mover);
	__atomic_store_n(&mover->engine->is_over, 1, __ATOMIC_RELEASE);
	device->leave(device);
	return NULL;
}

static int run_threads(struct lane *lane, struct mover *mover)
{
	pthread_t thread[NR_LANES], moving;
	int err = 0;

	for (uint32_t i = 0; i < NR_LANES; i++)
		pthread_create(&thread[i], NULL, work, &lane[i]);
	pthread_create(&moving, NULL, move, mover);
	for (uint32_t i = 0; i < NR_LANES; i++) {
		pthread_join(thread[i], NULL);
		err = err ? err : lane[i].err;
	}
	__atomic_store_n(&mover->engine->is_over, 1, __ATOMIC_RELEASE);
	pthread_join(moving, NULL);
	return err ? err : mover->err;
}

/* ---- a run ---- */

static void report(const struct engine *engine, const struct lane *lane,
		   const struct mover *mover)
{
	struct kvmm_tier_client_stat below = { 0 };
	struct kvmm_verify_stat verify = { 0 };
	struct kvmm_pool_stat stat;
	struct kvmm_step_stat steps;
	uint64_t nr_steps = 0, nr_tokens = 0;

	for (uint32_t i = 0; i < NR_LANES; i++)
		nr_steps += lane[i].nr_steps;
	for (uint32_t i = 0; i < engine->opt->nr_requests; i++)
		nr_tokens += engine->request[i].nr_tokens - engine->request[i].nr_prompt;
	kvmm_pool_get_stat(engine->pool, &stat);
	kvmm_step_get_stat(engine->pool, &steps);
	kvmm_verify_get_stat(engine->pool, &verify);
	kvmm_tier_client_get_stat(engine->pool, &below, sizeof(below));
	printf("%-8s %6llu tokens %6llu steps %6llu hits %7llu blocks moved %6llu KiB lent "
	       "%6llu checked %6llu loaded\n", mode_names[engine->mode], (unsigned long long)nr_tokens,
	       (unsigned long long)nr_steps, (unsigned long long)stat.hit_blocks,
	       (unsigned long long)steps.published_blocks,
	       (unsigned long long)mover->lent_bytes / 1024, (unsigned long long)verify.checks,
	       (unsigned long long)below.loads);
}

static int check_content(const struct engine *engine)
{
	struct kvmm_verify_stat verify = { 0 };

	kvmm_verify_get_stat(engine->pool, &verify);
	return verify.bad_blocks || verify.bad_copies ? -EIO : kvmm_validate(engine->pool);
}

static int run_lanes(struct engine *engine)
{
	struct lane lane[NR_LANES] = { { 0 } };
	struct mover mover = { .engine = engine };
	int err = mover_open(engine, &mover), err2;
	uint32_t nr = 0;

	for (; nr < NR_LANES && !err; nr++)
		err = lane_open(engine, nr, &lane[nr]);
	if (!err)
		err = engine->opt->has_threads ? run_threads(lane, &mover) :
		      run_in_turn(lane, &mover);
	err2 = mover_close(&mover);
	if (!err)
		err = err2;
	if (!err)
		err = check_content(engine);
	if (!err)
		report(engine, lane, &mover);
	while (nr)
		lane_close(&lane[--nr]);
	return err;
}

/* The first request that says something else; nr_requests if none does. */
static uint32_t first_wrong(const struct engine *engine, const struct request *right)
{
	uint32_t i = 0;

	while (i < engine->opt->nr_requests && !memcmp(engine->request[i].tokens, right[i].tokens,
						       sizeof(right[i].tokens)))
		i++;
	return i;
}

static int run(const struct options *opt, struct device *device, enum mode mode,
	       const struct request *right)
{
	struct engine engine = { .opt = opt, .mode = mode, .device = device };
	int err = show(&engine, engine_open(&engine));
	uint32_t wrong;

	if (!err)
		err = run_lanes(&engine);
	if (err) {
		fprintf(stderr, "%s: %s\n", mode_names[mode], kvmm_strerror(err));
	} else {
		wrong = first_wrong(&engine, right);
		err = wrong < opt->nr_requests ? -EBADMSG : 0;
		if (err)
			fprintf(stderr, "%s: request %u says something else\n", mode_names[mode],
				wrong);
	}
	if (control && engine.pool)
		kvmm_control_remove_pool(control, engine.pool);
	engine_close(&engine);
	return err;
}

static int run_modes(const struct options *opt, struct device *device)
{
	struct request *right = calloc(opt->nr_requests, sizeof(*right));
	int err = right ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < opt->nr_requests && !err; i++)
		request_make(&right[i], i % opt->nr_prompts);
	if (!err)
		err = model_reference(right, opt->nr_requests);
	for (int mode = 0; mode < NR_MODES && !err; mode++)
		if (opt->mode == NR_MODES || opt->mode == mode)
			err = run(opt, device, mode, right);
	free(right);
	return err;
}

/* ---- the command line ---- */

static int parse_value(struct options *opt, const char *key, const char *value)
{
	int mode = 0;

	if (!value)
		return -EINVAL;
	if (!strcmp(key, "--device")) {
		opt->device = value;
		return 0;
	}
	if (!strcmp(key, "--requests")) {
		opt->nr_requests = strtoul(value, NULL, 10);
		return opt->nr_requests && opt->nr_requests <= MAX_REQUESTS ? 0 : -EINVAL;
	}
	if (!strcmp(key, "--prompts")) {
		opt->nr_prompts = strtoul(value, NULL, 10);
		return opt->nr_prompts ? 0 : -EINVAL;
	}
	if (!strcmp(key, "--host-tier")) {
		opt->host_tier = strtoul(value, NULL, 10);
		return opt->host_tier && opt->host_tier <= MAX_HOST_TIER ? 0 : -EINVAL;
	}
	if (!strcmp(key, "--disk-tier")) {
		opt->disk_tier = value;
		return 0;
	}
	if (!strcmp(key, "--control")) {
		opt->control = value;
		return 0;
	}
	if (!strcmp(key, "--slow")) {
		opt->slow_us = strtoul(value, NULL, 10);
		return opt->slow_us && opt->slow_us <= 60000000 ? 0 : -EINVAL;
	}
	if (strcmp(key, "--mode"))
		return -EINVAL;
	while (mode < NR_MODES && strcmp(value, mode_names[mode]))
		mode++;
	opt->mode = mode;
	return mode < NR_MODES ? 0 : -EINVAL;
}

static int refuse(const char *option, const char *value)
{
	fprintf(stderr, "toy-engine: %s %s: no such option, or not one of its values\n", option,
		value ? value : "");
	return -EINVAL;
}

static int parse(struct options *opt, char **arg)
{
	for (; *arg; arg++) {
		if (!strcmp(*arg, "--threads"))
			opt->has_threads = 1;
		else if (!strcmp(*arg, "--verify"))
			opt->is_verified = 1;
		else if (!strcmp(*arg, "--elastic"))
			opt->is_elastic = 1;
		else if (!strcmp(*arg, "--wrong"))
			opt->is_wrong = 1;
		else if (parse_value(opt, arg[0], arg[1]))
			return refuse(arg[0], arg[1]);
		else
			arg++;
	}
	return opt->disk_tier && !opt->host_tier ? refuse("--disk-tier", "needs --host-tier") : 0;
}

int main(int argc, char **argv)
{
	struct options opt = {
		.device = "host", .mode = NR_MODES, .nr_requests = 384, .nr_prompts = MAX_REQUESTS,
	};
	struct device *device;
	const char *why;
	int err;

	if (parse(&opt, argv + 1)) {
		fputs(usage, stderr);
		return 2;
	}
	err = device_open(opt.device, &device, &why);
	if (err) {
		fprintf(stderr, "%s: %s: %s\n", opt.device, kvmm_strerror(err), why);
		return 3;
	}
	err = opt.control ? open_control(opt.control) : 0;
	if (err)
		fprintf(stderr, "%s: %s\n", opt.control, kvmm_strerror(err));
	if (!err)
		err = run_modes(&opt, device);
	kvmm_control_close(control);
	device->close(device);
	if (!err)
		printf("%s: all of it is right\n", opt.device);
	return err ? 1 : 0;
}
