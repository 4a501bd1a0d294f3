// SPDX-License-Identifier: Apache-2.0
/* Requests in blocks and keys. */
#include "shape.h"

enum exit_code shape_check(const struct options *opt, const struct trace *trace)
{
	if (opt->keys == KEYS_VLLM || trace->id_tokens == opt->block_tokens)
		return EXIT_GOOD;
	return complain(EXIT_INPUT, "%s: a number stands for %u tokens, not %u: --keys ids with --block-tokens %u, or --keys vllm",
			trace->name, trace->id_tokens, opt->block_tokens, trace->id_tokens);
}

struct shape shape_of(const struct options *opt, const struct trace_request *req)
{
	if (opt->keys == KEYS_IDS)
		return (struct shape){ req->nr_ids, req->nr_ids, req->nr_ids };
	return (struct shape){
		.nr_keys	= req->input / opt->block_tokens,
		.max_hits	= (req->input - 1) / opt->block_tokens,
		.prompt		= blocks_of(opt, req->input),
	};
}

u64 key_name(const struct options *opt, const struct trace *trace,
	     const struct trace_request *req, u32 i)
{
	u32 per_id = trace->id_tokens / opt->block_tokens;
	u64 last = (i + 1ull) * opt->block_tokens - 1;	/* of its tokens */
	u64 id;

	if (opt->keys == KEYS_IDS)
		return trace_id(trace, req, i);
	id = trace_id(trace, req, (u32)(last / trace->id_tokens));
	if (!(opt->block_tokens % trace->id_tokens))
		return id;
	if (!(trace->id_tokens % opt->block_tokens))
		return id * per_id + i % per_id;
	/* A block ends somewhere among the tokens that the number stands for. */
	return mix64(id) + last % trace->id_tokens;
}

kvmm_key_t key_of(u64 name)
{
	u64 words[2] = { mix64(name), mix64(name ^ 0x9e3779b97f4a7c15u) };
	kvmm_key_t key;

	memcpy(&key, words, sizeof(key));
	return key;
}
