// SPDX-License-Identifier: Apache-2.0
/* The device, its arena, copies and checks that several experiments use. */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <unistd.h>

#include <kv/cuda.h>

#include "gpu.h"

struct gpu gpu;

static struct kcu table;

/* ---- opening ---- */

/* As the library looks for it: named, or near this program. */
static const char *soft_driver(void)
{
	static const char *const places[] = { "", "/..", "/../.." };
	static char path[PATH_MAX + 64];
	char self[PATH_MAX] = "";
	const char *named = getenv("KVMM_SOFT_DRIVER");

	if (named)
		return named;
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return "libkvmm-swcuda.so";
	dirname(self);
	for (u32 i = 0; i < ARRAY_SIZE(places); i++) {
		snprintf(path, sizeof(path), "%s%s/libkvmm-swcuda.so", self, places[i]);
		if (!access(path, R_OK))
			return path;
	}
	return "libkvmm-swcuda.so";
}

static kcu_result open_context(void)
{
	kcu_result code = gpu.cu->device_get(&gpu.dev, 0);

	if (!code)
		code = gpu.cu->primary_ctx_retain(&gpu.ctx, gpu.dev);
	if (!code)
		code = gpu.cu->ctx_push_current(gpu.ctx);
	if (!code)
		code = gpu.cu->stream_create_with_priority(&gpu.stream, KCU_STREAM_NON_BLOCKING, 0);
	if (!code)
		code = gpu.cu->event_create(&gpu.begin, 0);
	if (!code)
		code = gpu.cu->event_create(&gpu.end, 0);
	if (!code)
		code = gpu.cu->device_get_attribute(&gpu.nr_sms, KCU_ATTR_SM_COUNT, gpu.dev);
	return code;
}

static kcu_result open_kernels(void)
{
	kcu_module module;
	kcu_result code = gpu.cu->module_load_data_ex(&module, kv_kernel_ptx, 0, NULL, NULL);

	if (!code)
		code = gpu.cu->module_get_function(&gpu.move16, module, "kv_move16");
	if (!code)
		code = gpu.cu->module_get_function(&gpu.move16_list, module, "kv_move16_list");
	if (!code)
		code = gpu.cu->module_get_function(&gpu.sum, module, "kv_sum");
	return code;
}

/* The largest power of two that leaves half of the free memory alone, up to 16 GiB. */
static u64 pool_size(void)
{
	size_t free_bytes = 0, total;
	u64 bytes = gpu.is_quick ? 16 * MIB : 16 * GIB;

	gpu.cu->mem_get_info(&free_bytes, &total);
	while (bytes > free_bytes / 2)
		bytes /= 2;
	return bytes;
}

static kcu_result open_memory(void)
{
	kcu_result code;
	void *ptr = NULL;

	gpu.pool_bytes = pool_size();
	gpu.table_bytes = gpu.is_quick ? 2 * MIB : 64 * MIB;
	gpu.pinned_bytes = gpu.is_quick ? 4 * MIB : 512 * MIB;
	code = gpu.cu->mem_alloc(&gpu.pool, gpu.pool_bytes);
	if (!code)
		code = gpu.cu->mem_alloc(&gpu.tables, gpu.table_bytes);
	if (!code)
		code = gpu.cu->mem_host_alloc(&ptr, gpu.pinned_bytes, KCU_HOST_ALLOC_PORTABLE |
					      KCU_HOST_ALLOC_DEVICEMAP);
	gpu.pinned = ptr;
	if (!code)
		code = gpu.cu->mem_host_get_device_pointer(&gpu.pinned_addr, ptr, 0);
	return code;
}

int gpu_open(const char *device, bool quick)
{
	kcu_result code;
	int err;

	gpu.is_soft = !strcmp(device, "soft");
	gpu.is_quick = quick;
	gpu.ops = gpu.is_soft ? &kv_dev_soft : &kv_dev_cuda;
	err = kcu_load(&table, gpu.is_soft ? soft_driver() : NULL);
	if (err)
		return err;
	gpu.cu = &table;
	code = open_context();
	if (!code)
		code = open_kernels();
	if (!code)
		code = open_memory();
	if (code)
		fprintf(stderr, "kvmm-gpu-check: %s (%d)\n", kcu_error_name(code), code);
	return kcu_errno(code);
}

void gpu_close(void)
{
	gpu.cu->mem_free_host(gpu.pinned);
	gpu.cu->mem_free(gpu.tables);
	gpu.cu->mem_free(gpu.pool);
	gpu.cu->event_destroy(gpu.end);
	gpu.cu->event_destroy(gpu.begin);
	gpu.cu->stream_destroy(gpu.stream);
	gpu.cu->primary_ctx_release(gpu.dev);
}

const char *gpu_name(void)
{
	static char name[128];

	gpu.cu->device_get_name(name, sizeof(name), gpu.dev);
	return name;
}

/* ---- content ---- */

static void fill_random(u64 *words, u64 nr)
{
	u64 x = now_ns() | 1;

	for (u64 i = 0; i < nr; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		words[i] = x;
	}
}

/*
 * Random bytes from the host, repeated over the pool at a distance that is no multiple of any
 * piece's length: two pieces of one size never hold the same.
 */
void gpu_randomise(void)
{
	u64 period = gpu.pinned_bytes / 2 + 4096 + 16, done, length;

	fill_random((u64 *)gpu.pinned, period / sizeof(u64));
	CU(memcpy_htod_async, gpu.pool, gpu.pinned, period, gpu.stream);
	for (done = period; done < gpu.pool_bytes; done += length) {
		length = min(done, gpu.pool_bytes - done);
		CU(memcpy_dtod_async, gpu.pool + done, gpu.pool, length, gpu.stream);
	}
	CU(stream_synchronize, gpu.stream);
}

/* ---- time ---- */

void time_both(struct samples *device, struct samples *host, void (*submit)(void *arg), void *arg)
{
	struct samples none;
	float ms;

	device = device ?: &none;
	host = host ?: &none;
	device->nr = 0;
	host->nr = 0;
	submit(arg);
	CU(stream_synchronize, gpu.stream);
	for (u32 i = 0; i < wanted_runs(); i++) {
		u64 before;

		CU(event_record, gpu.begin, gpu.stream);
		before = now_ns();
		submit(arg);
		add_sample(host, (now_ns() - before) / 1e3);
		CU(event_record, gpu.end, gpu.stream);
		CU(event_synchronize, gpu.end);
		CU(event_elapsed_time, &ms, gpu.begin, gpu.end);
		add_sample(device, ms * 1e3);
	}
}

void time_device(struct samples *samples, void (*submit)(void *arg), void *arg)
{
	time_both(samples, NULL, submit, arg);
}

double rate(u64 bytes, double us)
{
	return us > 0 ? bytes / us / 1e3 : 0;
}

/* ---- checksums ---- */

void sum_blocks(kcu_deviceptr planes, u32 nr_planes, kcu_deviceptr blocks, u32 block_words, u32 nr,
		kcu_deviceptr sums)
{
	struct kv_sum_args args = {
		.planes = planes, .nr_planes = nr_planes, .blocks = blocks,
		.block_words = block_words, .nr_blocks = nr, .sums = sums,
	};
	void *params[] = { &args };
	u32 cap = 16 * gpu.nr_sms;

	args.nr_parts = kv_launch_sum_parts(nr, nr_planes, cap);
	CU(memset_d8_async, sums, 0, nr * sizeof(u64), gpu.stream);
	CU(launch_kernel, gpu.sum, kv_launch_sum_groups(&args, cap), 1, 1, 256, 1, 1, 0,
	   gpu.stream, params, NULL);
}

/* ---- scatters ---- */

/* A permutation of 2^bits numbers without system: each step can be undone. */
static u32 shuffle(u32 x, u32 bits, u32 seed)
{
	u32 mask = bits < 32 ? BIT(bits) - 1 : ~0u;

	for (u32 round = 0; round < 3; round++) {
		x = (x * (0x9e3779b1u + 2 * seed) + seed) & mask;
		x ^= x >> (bits / 2 + 1);
	}
	return x & mask;
}

static void make_moves(struct scatter *scatter, u32 half)
{
	u32 bits = kv_log2(half);

	for (u32 i = 0; i < scatter->nr; i++)
		scatter->moves[i] = (struct kv_move){
			shuffle(i, bits, 1), half + shuffle(i, bits, 7), 1,
		};
}

/* Tables of the device: the plane, the list, then two sums for each piece. */
static void put_tables(struct scatter *scatter)
{
	struct kvmm_plane plane = { gpu.pool, scatter->piece, scatter->piece };
	struct kv_launch_planes planes = { &plane, 1, gpu.tables };
	u64 list_bytes = scatter->nr * 2ull * sizeof(u32);
	u32 *words = malloc(KV_LAUNCH_LIST_WORDS(scatter->nr) * sizeof(u32));
	int threads = kv_launch_head(&scatter->head, &planes, &planes, true);

	must_be(words && threads > 0, "tables of a launch");
	must_be(kv_launch_list(&scatter->head, words, scatter->moves, scatter->nr) == scatter->nr,
		"a list of moves");
	scatter->nr_threads = threads;
	scatter->list = gpu.tables + 4096;
	scatter->head.moves = scatter->list;
	scatter->sums = scatter->list + kv_align_up(list_bytes, 4096);
	CU(memcpy_htod_async, gpu.tables, &plane, sizeof(plane), gpu.stream);
	CU(memcpy_htod_async, scatter->list, words, list_bytes, gpu.stream);
	CU(stream_synchronize, gpu.stream);
	free(words);
}

void scatter_open(struct scatter *scatter, u64 piece, u64 bytes, u32 max_nr)
{
	u64 half = gpu.pool_bytes / 2 / piece;
	u64 room = (gpu.table_bytes - 8 * KIB) / (2 * sizeof(u32) + 2 * sizeof(u64)) - KIB;
	u64 nr = min(half, bytes / piece);

	nr = min(nr, room);
	nr = min(nr, (u64)max_nr);
	*scatter = (struct scatter){ .piece = piece, .nr = max(nr, 1ull) };
	scatter->moves = malloc(scatter->nr * sizeof(*scatter->moves));
	must_be(scatter->moves, "memory for moves");
	make_moves(scatter, half);
	put_tables(scatter);
}

void scatter_close(struct scatter *scatter)
{
	free(scatter->moves);
}

u64 scatter_bytes(const struct scatter *scatter)
{
	return scatter->nr * scatter->piece;
}

void scatter_poison(const struct scatter *scatter)
{
	CU(memset_d8_async, gpu.pool + gpu.pool_bytes / 2, 0xdb, gpu.pool_bytes / 2, gpu.stream);
	CU(stream_synchronize, gpu.stream);
}

void scatter_verify(const struct scatter *scatter)
{
	u64 bytes = scatter->nr * sizeof(u64), *seen = malloc(2 * bytes);

	must_be(seen, "memory for sums");
	sum_blocks(gpu.tables, 1, scatter->list, 2, scatter->nr, scatter->sums);
	sum_blocks(gpu.tables, 1, scatter->list + sizeof(u32), 2, scatter->nr,
		   scatter->sums + bytes);
	CU(memcpy_dtoh_async, seen, scatter->sums, 2 * bytes, gpu.stream);
	CU(stream_synchronize, gpu.stream);
	for (u32 i = 0; i < scatter->nr; i++)
		if (seen[i] != seen[scatter->nr + i])
			give_up("piece %u of %u is wrong after the move", i, scatter->nr);
	free(seen);
}

void scatter_launch(const struct scatter *scatter, u32 nr_groups, u32 nr_threads)
{
	struct kv_move_head head = scatter->head;
	void *params[] = { &head };

	CU(launch_kernel, gpu.move16_list, kv_launch_groups(&head, nr_groups), 1, 1, nr_threads, 1,
	   1, 0, gpu.stream, params, NULL);
}

/* ---- batches ---- */

bool has_batch(void)
{
	return gpu.cu->features & (KCU_F_BATCH12 | KCU_F_BATCH13);
}

bool batch_copy(kcu_deviceptr *dst, kcu_deviceptr *src, size_t *bytes, size_t nr)
{
	kcu_memcpy_attr attr = { .src_access_order = KCU_SRC_ORDER_STREAM };
	size_t from = 0, fail_idx;

	if (gpu.cu->features & KCU_F_BATCH13)
		CU(memcpy_batch_async_v13, dst, src, bytes, nr, &attr, &from, 1, gpu.stream);
	else if (gpu.cu->features & KCU_F_BATCH12)
		CU(memcpy_batch_async_v12, dst, src, bytes, nr, &attr, &from, 1, &fail_idx,
		   gpu.stream);
	return has_batch();
}
