// SPDX-License-Identifier: Apache-2.0
/*
 * E8: pieces to and from pinned host memory: by the kernel, by one batched call, by single calls.
 * Where the kernel stops to win is what the engine's calibration has to find.
 */
#include "gpu.h"

#define MAX_NR	4096u

struct transfer {
	bool to_device;
	u64 piece;
	u32 nr;
	u32 threads;
	struct kv_move_head head;
	kcu_deviceptr dst[MAX_NR], src[MAX_NR];
	size_t bytes[MAX_NR];
};

/* Where the tables of a transfer are: two planes, then the list of moves. */
#define LIST_AT		4096u

/* Scattered on the device; in order in host memory, as a tier has it. */
static void make_moves(struct transfer *t, struct kv_move *moves)
{
	u32 blocks = gpu.pool_bytes / t->piece;

	for (u32 i = 0; i < t->nr; i++) {
		u32 scattered = (i * 2654435761u) & (blocks - 1);

		moves[i] = (struct kv_move){ t->to_device ? i : scattered,
					     t->to_device ? scattered : i, 1 };
	}
}

static void put_tables(struct transfer *t, const struct kv_move *moves)
{
	struct kvmm_plane plane[] = {
		{ t->to_device ? gpu.pinned_addr : gpu.pool, t->piece, t->piece },
		{ t->to_device ? gpu.pool : gpu.pinned_addr, t->piece, t->piece },
	};
	struct kv_launch_planes src = { &plane[0], 1, gpu.tables };
	struct kv_launch_planes dst = { &plane[1], 1, gpu.tables + sizeof(plane[0]) };
	static u32 words[KV_LAUNCH_LIST_WORDS(MAX_NR)];
	int threads = kv_launch_head(&t->head, &src, &dst, true);

	must_be(threads > 0, "tables of a launch");
	t->threads = threads;
	must_be(kv_launch_list(&t->head, words, moves, t->nr) == t->nr, "a list of moves");
	t->head.moves = gpu.tables + LIST_AT;
	CU(memcpy_htod_async, gpu.tables, plane, sizeof(plane), gpu.stream);
	CU(memcpy_htod_async, t->head.moves, words, t->nr * 2 * sizeof(u32), gpu.stream);
	CU(stream_synchronize, gpu.stream);
	for (u32 i = 0; i < t->nr; i++) {
		t->src[i] = plane[0].base + moves[i].src * t->piece;
		t->dst[i] = plane[1].base + moves[i].dst * t->piece;
		t->bytes[i] = t->piece;
	}
}

static void transfer_open(struct transfer *t, bool to_device, u64 piece, u32 nr)
{
	static struct kv_move moves[MAX_NR];
	u64 room = min(gpu.pinned_bytes, gpu.pool_bytes) / piece;

	room = min(room, (u64)MAX_NR);
	t->to_device = to_device;
	t->piece = piece;
	t->nr = min((u64)nr, room);
	make_moves(t, moves);
	put_tables(t, moves);
}

static void submit_kernel(void *arg)
{
	struct transfer *t = arg;
	struct kv_move_head head = t->head;
	void *params[] = { &head };

	CU(launch_kernel, gpu.move16_list, kv_launch_groups(&head, 4 * gpu.nr_sms), 1, 1,
	   t->threads, 1, 1, 0, gpu.stream, params, NULL);
}

static void submit_batch(void *arg)
{
	struct transfer *t = arg;

	batch_copy(t->dst, t->src, t->bytes, t->nr);
}

static void submit_singles(void *arg)
{
	struct transfer *t = arg;

	for (u32 i = 0; i < t->nr; i++)
		CU(memcpy_async, t->dst[i], t->src[i], t->bytes[i], gpu.stream);
}

static void verify(struct transfer *t)
{
	u8 *seen = malloc(t->piece);

	must_be(seen, "memory");
	for (u32 i = 0; i < t->nr; i += 1 + t->nr / 256) {
		kcu_deviceptr there = t->to_device ? t->dst[i] : t->src[i];

		CU(memcpy_dtoh_async, seen, there, t->piece, gpu.stream);
		CU(stream_synchronize, gpu.stream);
		if (memcmp(seen, gpu.pinned + i * t->piece, t->piece))
			give_up("piece %u of %u is wrong after the copy", i, t->nr);
	}
	free(seen);
}

static double measure(struct transfer *t, const char *how, void (*submit)(void *arg), double ref)
{
	struct samples us, gbs = { .nr = 0 };
	u64 bytes = t->nr * t->piece;

	/* Both sides hold different bytes: only the right copies make them equal. */
	if (t->to_device) {
		CU(memset_d8_async, gpu.pool, 0xdb, gpu.pool_bytes, gpu.stream);
		CU(stream_synchronize, gpu.stream);
	} else {
		gpu_randomise();
	}
	for (u64 i = 0; i < t->nr * t->piece / sizeof(u64); i++)
		((u64 *)gpu.pinned)[i] = t->to_device ? i * 0x9e3779b97f4a7c15u + t->piece : 0;
	time_device(&us, submit, t);
	verify(t);
	for (u32 i = 0; i < us.nr; i++)
		add_sample(&gbs, rate(bytes, us.value[i]));
	report(t->to_device ? "h2d_rate" : "d2h_rate", "GB/s", &gbs, ref ? "kernel" : NULL, ref,
	       "how=%s piece=%llu nr=%u", how, (unsigned long long)t->piece, t->nr);
	return median(&gbs);
}

static void measure_all(bool to_device, u64 piece, u32 nr)
{
	static struct transfer t;
	double kernel;

	transfer_open(&t, to_device, piece, nr);
	kernel = measure(&t, "kernel", submit_kernel, 0);
	if (has_batch())
		measure(&t, "batch", submit_batch, kernel);
	measure(&t, "single", submit_singles, kernel);
}

static void measure_pinning(void)
{
	struct samples alloc = { 0 }, reg = { 0 };
	u64 bytes = gpu.pinned_bytes / 2;

	for (u32 i = 0; i < min(wanted_runs(), 5u); i++) {
		u64 begin = now_ns();
		void *ptr;

		CU(mem_host_alloc, &ptr, bytes, 0);
		add_sample(&alloc, (now_ns() - begin) / 1e6 * GIB / bytes);
		CU(mem_free_host, ptr);
		must_be(!posix_memalign(&ptr, 4096, bytes), "memory");
		memset(ptr, 1, bytes);
		begin = now_ns();
		CU(mem_host_register, ptr, bytes, 0);
		add_sample(&reg, (now_ns() - begin) / 1e6 * GIB / bytes);
		CU(mem_host_unregister, ptr);
		free(ptr);
	}
	report("host_alloc_ms_per_gib", "ms", &alloc, NULL, 0, "bytes=%llu",
	       (unsigned long long)bytes);
	report("host_register_ms_per_gib", "ms", &reg, NULL, 0, "bytes=%llu",
	       (unsigned long long)bytes);
}

static void run(void)
{
	static const u64 pieces[] = { 64, 4, 16, 32, 256, 1 };
	static const u32 counts[] = { 1024, 4096, 64 };

	for (u32 n = 0; n < ARRAY_SIZE(counts); n++)
		for (u32 i = 0; i < ARRAY_SIZE(pieces); i++)
			for (u32 to_device = 0; to_device < 2; to_device++) {
				if (out_of_time())
					return;
				measure_all(to_device, pieces[i] * KIB, counts[n]);
			}
	measure_pinning();
}

const struct experiment experiment_pcie = {
	"E8", "pieces to and from pinned host memory", run, 5,
};
