// SPDX-License-Identifier: Apache-2.0
/*
 * A process fills device, host and disk, and ends: by itself, or by SIGKILL while it goes on. The next
 * one opens the store with the same layout id, and what it finds and loads is what computing it again
 * gives. With another layout id it finds nothing.
 *
 * Each round has processes of its own; the one that starts them touches nothing of the library. Prints
 * "N passed, N failed".
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kv/disk.h>
#include <kvmm/kvmm.h>

#define NR_BLOCKS	8u
#define NR_UNITS	16u
#define BLOCK_BYTES	16384u
#define NR_KEYS		64u	/* that the first process computes, then as many others for ever */
#define SEGMENT		(256u << 10)
#define LAYOUT		0x6c61796f7574ull

struct stack {
	struct kvmm_disk *disk;
	struct kvmm_tier *tier;
	struct kvmm_pool *pool;
};

static char root[64], path[80];
static unsigned int nr_passed, nr_failed;

#define must(holds)								\
	do {									\
		if (!(holds)) {							\
			fprintf(stderr, "line %d: %s\n", __LINE__, #holds);	\
			_exit(1);						\
		}								\
	} while (0)

static kvmm_key_t key_of(unsigned int number)
{
	kvmm_key_t key = { { (unsigned char)number, (unsigned char)(number >> 8), 'k' } };

	return key;
}

/* What a model would compute: depends on every byte of the name. */
static void compute(unsigned int number, unsigned char *content)
{
	unsigned int x = number * 2654435761u + 1;

	for (unsigned int i = 0; i < BLOCK_BYTES; i++) {
		x = x * 1664525u + 1013904223u;
		content[i] = (unsigned char)(x >> 24);
	}
}

static int open_disk(struct kvmm_disk **disk)
{
	struct kvmm_disk_attr attr = { .size = sizeof(attr), .flags = KVMM_DISK_CREATE,
				       .path = path, .max_bytes = 16 * SEGMENT + 24576,
				       .segment_bytes = SEGMENT };

	return kvmm_disk_open(&attr, disk);
}

static void set_up(struct stack *stack, uint64_t layout, uint64_t unit)
{
	struct kvmm_tier_client_attr client = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_tier_disk_attr below = { .size = sizeof(below), .high_pm = 0 };
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;
	struct kvmm_tier_attr host = KVMM_TIER_ATTR_INIT;
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .block_bytes = BLOCK_BYTES,
				       .nr_blocks = NR_BLOCKS, .policy = "lru" };

	must(!open_disk(&stack->disk));
	host.block_bytes = unit;
	host.capacity_blocks = NR_UNITS;
	host.disk = stack->disk;
	host.disk_attr = &below;
	must(!kvmm_tier_host_create(&host, &stack->tier));
	config.write = KVMM_TIER_THROUGH;
	client.layout_id = layout;
	client.flags = KVMM_TIER_COMPLETE;
	client.config = &config;
	attr.host = stack->tier;
	attr.host_attr = &client;
	must(!kvmm_pool_create(&attr, &stack->pool));
}

static void tear_down(struct stack *stack)
{
	must(!kvmm_validate(stack->pool));
	kvmm_pool_destroy(stack->pool);
	kvmm_tier_destroy(stack->tier);
	must(!kv_disk_check(stack->disk));
	kvmm_disk_close(stack->disk);
}

static void work(struct stack *stack)
{
	for (unsigned int i = 0; i < 200; i++) {
		must(kvmm_tier_poll(stack->pool) >= 0);
		must(kvmm_tier_tick(stack->tier) >= 0);
	}
}

static void fill(struct stack *stack, unsigned int number)
{
	static unsigned char content[BLOCK_BYTES];
	kvmm_key_t key = key_of(number);
	kvmm_mut_t mut;
	kvmm_ref_t ref;

	compute(number, content);
	must(!kvmm_alloc(stack->pool, 1, &mut));
	must(!kvmm_block_write(stack->pool, kvmm_block_of_mut(stack->pool, mut), 0, content,
			       sizeof(content)));
	must(!kvmm_register(stack->pool, &mut, &key, 1, &ref));
	must(!kvmm_put(stack->pool, ref));
	work(stack);
}

/* @told: a byte is written there when all keys are below; the process goes on until it is killed. */
static void first_process(int told)
{
	struct stack stack;

	set_up(&stack, LAYOUT, BLOCK_BYTES);
	for (unsigned int i = 0; i < NR_KEYS; i++)
		fill(&stack, i);
	if (told < 0) {
		tear_down(&stack);
		_exit(0);
	}
	must(write(told, "", 1) == 1);
	/* However late that is: the disk has room for twice as many. */
	for (unsigned int i = 0;; i++)
		fill(&stack, NR_KEYS + i % NR_KEYS);
}

/* 1: loaded, and as computed; 0: a miss. */
static unsigned int load(struct stack *stack, unsigned int number)
{
	static unsigned char content[BLOCK_BYTES], want[BLOCK_BYTES];
	kvmm_key_t key = key_of(number);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
	struct kvmm_tier_load_args how = { .size = sizeof(how), .prefix = &prefix };
	kvmm_ref_t ref;
	struct kvmm_tier_result result = { .size = sizeof(result), .refs = &ref, .nr = 1 };
	kvmm_tier_op_t op;
	int err = kvmm_tier_load(stack->pool, &how, &op);

	if (err) {
		must(err == -ENOENT);
		return 0;
	}
	for (unsigned int i = 0; (err = kvmm_tier_get_result(stack->pool, op, &result)) == -EAGAIN; i++) {
		must(i < 1000000);
		must(kvmm_tier_poll(stack->pool) >= 0);
	}
	must(!err);
	compute(number, want);
	must(!kvmm_block_read(stack->pool, kvmm_block_of_ref(stack->pool, ref), 0, content,
			      sizeof(content)));
	must(!memcmp(content, want, sizeof(want)));
	must(!kvmm_put(stack->pool, ref));
	work(stack);
	return 1;
}

/* Finds from @least to @most of the keys. */
static void next_process(uint64_t layout, uint64_t unit, unsigned int least, unsigned int most)
{
	struct stack stack;
	unsigned int nr = 0;

	set_up(&stack, layout, unit);
	for (unsigned int i = 0; i < NR_KEYS; i++)
		nr += load(&stack, i);
	tear_down(&stack);
	if (nr < least || nr > most)
		fprintf(stderr, "%u of %u keys were found, not %u to %u\n", nr, NR_KEYS, least, most);
	_exit(nr < least || nr > most);
}

/* ---- who starts them ---- */

static void expect_good(pid_t pid, const char *what)
{
	int status = -1;

	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && !WEXITSTATUS(status)) {
		nr_passed++;
		return;
	}
	nr_failed++;
	printf("failed: %s\n", what);
}

static void look_in_units(uint64_t layout, uint64_t unit, unsigned int least, unsigned int most,
			  const char *what)
{
	pid_t pid = fork();

	if (!pid)
		next_process(layout, unit, least, most);
	expect_good(pid, what);
}

static void look(uint64_t layout, unsigned int least, unsigned int most, const char *what)
{
	look_in_units(layout, BLOCK_BYTES, least, most, what);
}

static void after_an_exit(void)
{
	pid_t pid = fork();

	if (!pid)
		first_process(-1);
	expect_good(pid, "the first process ends by itself");
	look(LAYOUT + 1, 0, 0, "another layout finds nothing");
	/* What the host still had and nobody had written when it ended is gone: no promise, but all of the
	 * rest is there, and ticks between the blocks have written everything. */
	look(LAYOUT, NR_KEYS, NR_KEYS, "the same layout finds all of it");
	look(LAYOUT, NR_KEYS, NR_KEYS, "and once more");
	/* A record is as long as the units of its host tier, and a hit that never loads would be for ever. */
	look_in_units(LAYOUT, 2 * BLOCK_BYTES, 0, 0, "a tier with larger units finds none of it");
	look_in_units(LAYOUT, BLOCK_BYTES / 4, NR_KEYS, NR_KEYS, "as many bytes in smaller units are the same");
}

static void after_a_kill(unsigned int wait_us)
{
	int told[2];
	char byte;
	pid_t pid;

	if (pipe(told))
		exit(2);
	pid = fork();
	if (!pid)
		first_process(told[1]);
	close(told[1]);
	if (read(told[0], &byte, 1) != 1)
		printf("failed: the first process came to nothing\n");
	close(told[0]);
	usleep(wait_us);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	look(LAYOUT + 1, 0, 0, "after a kill another layout finds nothing");
	/* It went on computing: older segments may have been used again. */
	look(LAYOUT, 1, NR_KEYS, "after a kill the same layout finds its cache");
}

static void clean(void)
{
	char file[96];

	snprintf(file, sizeof(file), "%s/store", path);
	unlink(file);
	rmdir(path);
}

int main(void)
{
	snprintf(root, sizeof(root), "/tmp/kvmm-restart-XXXXXX");
	if (!mkdtemp(root))
		return 2;
	snprintf(path, sizeof(path), "%s/kv", root);
	after_an_exit();
	for (unsigned int i = 0; i < 5; i++) {
		clean();
		after_a_kill(i * 700);
	}
	clean();
	rmdir(root);
	printf("%u passed, %u failed\n", nr_passed, nr_failed);
	return nr_failed != 0;
}
