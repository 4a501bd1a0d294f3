#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model for llama.cpp of a few hundred kilobytes: llama's layers, weights at random, the same
each time; a token is a byte.

usage: model.py FILE
Needs gguf.
"""
import sys

import gguf
import numpy as np

EMBED, HEADS, KV_HEADS, FEED, LAYERS = 64, 4, 2, 128, 3
BYTES = [b"<0x%02X>" % i for i in range(256)]
TOKENS = [b"<unk>", b"<s>", b"</s>", *BYTES, b"\xe2\x96\x81"]    # the last is a word's beginning
KINDS = [gguf.TokenType.UNKNOWN, *2 * [gguf.TokenType.CONTROL], *256 * [gguf.TokenType.BYTE],
         gguf.TokenType.NORMAL]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    random = np.random.default_rng(1)
    file = gguf.GGUFWriter(sys.argv[1], "llama")
    file.add_context_length(8192)
    file.add_embedding_length(EMBED)
    file.add_block_count(LAYERS)
    file.add_feed_forward_length(FEED)
    file.add_head_count(HEADS)
    file.add_head_count_kv(KV_HEADS)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_vocab_size(len(TOKENS))
    file.add_tokenizer_model("llama")
    file.add_token_list(TOKENS)
    file.add_token_scores([0.0] * len(TOKENS))
    file.add_token_types(KINDS)

    def add(name, *shape):
        values = np.ones(shape)
        if len(shape) > 1:
            values = random.standard_normal(shape) / shape[-1] ** 0.5
        if "attn" in name:      # else it sees the mean of a long prompt, which is that of any other
            values *= 4
        file.add_tensor(name + ".weight", values.astype(np.float32))

    add("token_embd", len(TOKENS), EMBED)
    add("output_norm", EMBED)
    add("output", len(TOKENS), EMBED)
    for layer in range(LAYERS):
        for name, *shape in (("attn_norm", EMBED), ("attn_q", EMBED, EMBED),
                             ("attn_k", EMBED * KV_HEADS // HEADS, EMBED),
                             ("attn_v", EMBED * KV_HEADS // HEADS, EMBED),
                             ("attn_output", EMBED, EMBED), ("ffn_norm", EMBED),
                             ("ffn_gate", FEED, EMBED), ("ffn_up", FEED, EMBED),
                             ("ffn_down", EMBED, FEED)):
            add(f"blk.{layer}.{name}", *shape)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


main()
