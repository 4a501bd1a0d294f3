// SPDX-License-Identifier: Apache-2.0
/*
 * States of llama.cpp's sequences in a store on disk: a prompt that begins as one before goes on
 * from there, also after a restart.
 *
 *	samples/llama_state MODEL.gguf FOLDER PROMPT [NR]
 *
 * Prints the likeliest NR tokens that follow; none by default.
 * A state is kept under the key of the last full block of its tokens. Keys are "sha256": those of
 * "local" would mean nothing to the next process. It is cut into records, numbered by
 * the group of their name; record 0 says how long it is. A record that is missing or damaged is a miss.
 *
 * Built where pkg-config finds llama.
 */
#include <errno.h>
#include <kvmm/kvmm.h>
#include <llama.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BLOCK_TOKENS	64u
#define MAX_TOKENS	8192u
#define MAX_BLOCKS	(MAX_TOKENS / BLOCK_TOKENS)
#define PIECE		(4u << 20)
#define STORE_BYTES	((uint64_t)8 << 30)

struct state {
	struct kvmm_disk *disk;
	struct llama_context *llama;
	uint32_t tokens[MAX_TOKENS];
	uint32_t nr;
	kvmm_key_t keys[MAX_BLOCKS];
};

static struct kvmm_disk_name name_of(const kvmm_key_t *key, uint64_t piece)
{
	struct kvmm_disk_name name = { .group = (uint16_t)piece, .key_bytes = sizeof(*key) };

	memcpy(name.key, key, sizeof(*key));
	return name;
}

static int put(struct state *s, const kvmm_key_t *key, uint64_t piece, const void *data,
	       size_t bytes)
{
	struct kvmm_disk_put_args what = { .name = name_of(key, piece), .data = data,
					   .bytes = (uint32_t)bytes };
	int32_t status;
	int nr = kvmm_disk_put(s->disk, &what, 1, 0, &status);

	return nr < 0 ? nr : status == -EEXIST ? 0 : status;
}

static int get(struct state *s, const kvmm_key_t *key, uint64_t piece, void *data, size_t bytes)
{
	struct kvmm_disk_get_args what = { .name = name_of(key, piece), .data = data,
					   .room = (uint32_t)bytes };
	int32_t status;
	int nr = kvmm_disk_get(s->disk, &what, 1, &status);

	return nr < 0 ? nr : status < 0 ? status : (size_t)status == bytes ? 0 : -EBADMSG;
}

static size_t piece_bytes(uint64_t total, uint64_t at)
{
	return total - at < PIECE ? (size_t)(total - at) : PIECE;
}

/* The length last: where it is, all of the state has been. */
static int save(struct state *s, const kvmm_key_t *key)
{
	uint64_t total = llama_state_seq_get_size(s->llama, 0);
	uint8_t *data = malloc(total ? total : 1);
	int err = data ? 0 : -ENOMEM;

	if (!err && (total / PIECE >= UINT16_MAX ||
		     llama_state_seq_get_data(s->llama, data, total, 0) != total))
		err = -EIO;
	for (uint64_t at = 0; !err && at < total; at += PIECE)
		err = put(s, key, 1 + at / PIECE, data + at, piece_bytes(total, at));
	if (!err)
		err = put(s, key, 0, &total, sizeof(total));
	free(data);
	return err;
}

static int load(struct state *s, const kvmm_key_t *key)
{
	uint64_t total;
	uint8_t *data;
	int err = get(s, key, 0, &total, sizeof(total));

	if (err)
		return err;
	data = malloc(total ? total : 1);
	err = data ? 0 : -ENOMEM;
	for (uint64_t at = 0; !err && at < total; at += PIECE)
		err = get(s, key, 1 + at / PIECE, data + at, piece_bytes(total, at));
	if (!err && llama_state_seq_set_data(s->llama, data, total, 0) != total)
		err = -EIO;	/* and what is in the sequence now is of no use */
	free(data);
	return err;
}

static int decode(struct state *s, uint32_t from, uint32_t to)
{
	uint32_t most = llama_n_batch(s->llama);

	for (uint32_t nr; from < to; from += nr) {
		nr = to - from < most ? to - from : most;
		if (llama_decode(s->llama, llama_batch_get_one((llama_token *)s->tokens + from,
							       (int32_t)nr)))
			return -EIO;
	}
	return 0;
}

/* The last token is always computed: its logits are what comes next. */
static int prefill(struct state *s)
{
	uint32_t full = (s->nr - 1) / BLOCK_TOKENS, have = full;
	int err = -ENOENT;

	while (have && (err = load(s, &s->keys[have - 1])) == -ENOENT)
		have--;
	if (have && err) {
		fprintf(stderr, "a state is of no use: %s\n", kvmm_strerror(err));
		llama_memory_seq_rm(llama_get_memory(s->llama), 0, -1, -1);
		have = 0;
	}
	printf("%u of %u tokens were in the store\n", have * BLOCK_TOKENS, s->nr);
	err = decode(s, have * BLOCK_TOKENS, full * BLOCK_TOKENS);
	if (!err && full > have)
		err = save(s, &s->keys[full - 1]);
	return err ? err : decode(s, full * BLOCK_TOKENS, s->nr);
}

static llama_token likeliest(struct state *s, int32_t nr_vocab)
{
	const float *logits = llama_get_logits_ith(s->llama, -1);
	llama_token best = 0;

	for (llama_token i = 1; i < nr_vocab; i++)
		if (logits[i] > logits[best])
			best = i;
	return best;
}

static int generate(struct state *s, int32_t nr_vocab, uint32_t nr)
{
	int err = 0;

	for (; nr && !err && s->nr < MAX_TOKENS; nr--) {
		s->tokens[s->nr++] = (uint32_t)likeliest(s, nr_vocab);
		printf("%u ", s->tokens[s->nr - 1]);
		err = decode(s, s->nr - 1, s->nr);
	}
	return err;
}

/* What a state depends on besides tokens. A model is its file, and when that was changed. */
static int make_keys(struct state *s, const char *path)
{
	struct kvmm_key_attr attr = KVMM_KEY_ATTR_INIT;
	struct kvmm_key_seq seq = KVMM_KEY_SEQ_INIT;
	struct kvmm_key_ctx *ctx;
	struct stat file;
	char layout[512];
	int nr;

	if (stat(path, &file))
		return -errno;
	nr = snprintf(layout, sizeof(layout), "%s %lld %lld.%09ld", path, (long long)file.st_size,
		      (long long)file.st_mtim.tv_sec, file.st_mtim.tv_nsec);
	if (nr < 0 || nr >= (int)sizeof(layout))
		return -ENAMETOOLONG;
	attr.block_tokens = BLOCK_TOKENS;
	attr.layout_id = (struct kvmm_key_bytes){ layout, (size_t)nr };
	nr = kvmm_key_ctx_create(&attr, &ctx);
	if (nr)
		return nr;
	seq.tokens = s->tokens;
	seq.nr_tokens = s->nr;
	nr = kvmm_key_chain(ctx, &seq, s->keys, MAX_BLOCKS);
	kvmm_key_ctx_destroy(ctx);
	return nr < 0 ? nr : 0;
}

static int run(struct state *s, struct llama_model *model, char **arg)
{
	struct llama_context_params params = llama_context_default_params();
	struct kvmm_disk_attr attr = KVMM_DISK_ATTR_INIT;
	const struct llama_vocab *vocab = llama_model_get_vocab(model);
	int nr = llama_tokenize(vocab, arg[3], (int32_t)strlen(arg[3]), (llama_token *)s->tokens,
				MAX_TOKENS, true, true);
	int err;

	if (nr < 1)
		return nr < 0 ? -E2BIG : -EINVAL;
	s->nr = (uint32_t)nr;
	params.n_ctx = MAX_TOKENS;
	s->llama = llama_init_from_model(model, params);
	if (!s->llama)
		return -ENOMEM;
	attr.path = arg[2];
	attr.max_bytes = STORE_BYTES;
	err = kvmm_disk_open(&attr, &s->disk);
	if (!err)
		err = make_keys(s, arg[1]);
	if (!err)
		err = prefill(s);
	return err || !arg[4] ? err : generate(s, llama_vocab_n_tokens(vocab), (uint32_t)atoi(arg[4]));
}

int main(int argc, char **argv)
{
	static struct state s;
	struct llama_model *model;
	int err = -ENOENT;

	if (argc != 4 && argc != 5) {
		fprintf(stderr, "usage: llama_state MODEL.gguf FOLDER PROMPT [NR]\n");
		return 2;
	}
	s = (struct state){ .nr = 0 };
	llama_backend_init();
	model = llama_model_load_from_file(argv[1], llama_model_default_params());
	if (model)
		err = run(&s, model, argv);
	if (err)
		fprintf(stderr, "llama_state: %s\n", kvmm_strerror(err));
	kvmm_disk_close(s.disk);
	if (s.llama)
		llama_free(s.llama);
	if (model)
		llama_model_free(model);
	llama_backend_free();
	return err != 0;
}
