// SPDX-License-Identifier: Apache-2.0
/* kvmm.Keys: names of blocks from tokens; kvmm.Sequence: tokens of a request and their blocks. */
#include "python.h"

struct keys {
	PyObject_HEAD
	struct kvmm_key_ctx *ctx;
	uint32_t block_tokens;
};

struct seq {
	PyObject_HEAD
	struct kvpy_pool *pool;
	struct keys *keys;
	struct kvmm_seq *seq;
};

/* ---- keys ---- */

static PyObject *keys_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	static char *known[] = { "algo", "block_tokens", "tenant", "layout_id", "lora", "salt",
				 "secret", NULL };
	struct kvmm_key_attr attr = KVMM_KEY_ATTR_INIT;
	Py_ssize_t len[4] = { 0 }, secret_len = 0;
	const char *text[4] = { NULL }, *secret = NULL;
	struct kvmm_key_bytes *to[] = { &attr.tenant, &attr.layout_id, &attr.lora, &attr.salt };
	struct keys *self;
	int err;

	if (!PyArg_ParseTupleAndKeywords(args, named, "|zO&z#z#z#z#z#:Keys", known, &attr.algo,
					 kvpy_to_u32, &attr.block_tokens, &text[0], &len[0], &text[1],
					 &len[1], &text[2], &len[2], &text[3], &len[3], &secret,
					 &secret_len))
		return NULL;
	if (secret && secret_len != KVMM_KEY_SECRET_BYTES)
		return PyErr_Format(PyExc_ValueError, "a secret has %u bytes", KVMM_KEY_SECRET_BYTES);
	for (int i = 0; i < 4; i++)
		*to[i] = (struct kvmm_key_bytes){ text[i], (size_t)len[i] };
	if (secret)
		memcpy(attr.secret, secret, KVMM_KEY_SECRET_BYTES);
	self = kvpy_make(type);
	if (!self)
		return NULL;
	err = kvmm_key_ctx_create(&attr, &self->ctx);
	if (err)
		return kvpy_fail(self, "kvmm_key_ctx_create", err);
	self->block_tokens = attr.block_tokens ? attr.block_tokens : 16;	/* as the library has it */
	return (PyObject *)self;
}

static void keys_finalize(struct keys *self)
{
	kvmm_key_ctx_destroy(self->ctx);
}

/* of(tokens, parent=None): one bytes object of 16 bytes a full block. */
static PyObject *keys_of(struct keys *self, PyObject *const *args, Py_ssize_t nr, PyObject *names)
{
	KVPY_THIS_CALL(of, 1, "tokens", "parent");
	struct kvmm_key_seq seq = KVMM_KEY_SEQ_INIT;
	struct kvpy_array tokens, parent;
	PyObject *slot[2], *bytes = NULL;
	kvmm_key_t *keys;
	Py_ssize_t max;
	int done = 0;

	if (kvpy_args(&this_call, args, nr, names, slot) || kvpy_tokens(slot[0], &tokens))
		return NULL;
	if (kvpy_bytes(slot[1], 0, &parent))
		goto out;
	seq.parent = parent.data;
	seq.tokens = tokens.data;
	seq.nr_tokens = (size_t)tokens.nr;
	max = tokens.nr / self->block_tokens;
	if (slot[1] && parent.nr != sizeof(kvmm_key_t))
		PyErr_SetString(PyExc_ValueError, "parent is a key of 16 bytes");
	else
		bytes = PyBytes_FromStringAndSize(NULL, max * (Py_ssize_t)sizeof(kvmm_key_t));
	keys = bytes ? (kvmm_key_t *)PyBytes_AsString(bytes) : NULL;
	if (keys) {
		Py_BEGIN_ALLOW_THREADS	/* of tokenizers, each with a prompt */
		done = kvmm_key_chain(self->ctx, &seq, keys, (uint32_t)max);
		Py_END_ALLOW_THREADS
	}
	if (done < 0) {
		Py_CLEAR(bytes);
		kvpy_raise("kvmm_key_hash", done);
	}
	kvpy_end(&parent);
out:
	kvpy_end(&tokens);
	return bytes;
}

static PyMethodDef keys_methods[] = {
	KVPY_METHOD(keys, of, KVPY_NAMED, "of(tokens, parent=None) -> bytes\n\n16 bytes for each full "
		    "block of tokens; parent is the key of the block before the first."),
	{ NULL, NULL, 0, NULL },
};

KVPY_TYPE(keys, Keys, sizeof(struct keys), Py_TPFLAGS_DEFAULT,
	  "Keys(algo=None, block_tokens=16, tenant=None, layout_id=None, lora=None, salt=None, "
	  "secret=None)\n\nHow blocks are named: what all of them depend on. algo: 'sha256' (None), "
	  "'siphash', 'vllm-sha256-cbor', or 'local', which costs least and is of no use to another "
	  "process.", KVPY_FINAL(keys));

/* ---- sequences ---- */

static PyObject *seq_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	static char *known[] = { "pool", "keys", "prompt", "max_output", "tenant", "prompt_keys",
				 NULL };
	struct kvmm_seq_attr attr = KVMM_SEQ_ATTR_INIT;
	PyObject *keys, *prompt, *prompt_keys = NULL;
	Py_ssize_t nr_bytes = 0;
	struct kvpy_pool *pool;
	struct kvpy_array tokens;
	struct seq *self;
	int err;

	attr.max_output = 1u << 20;
	self = kvpy_begin(type, args, named, "O&O!O|O&O&S:Sequence", known, kvpy_to_pool, &pool,
			  kvpy_keys_type, &keys, &prompt, kvpy_to_u32, &attr.max_output, kvpy_to_u32,
			  &attr.domain.tenant, &prompt_keys);
	if (!self)
		return NULL;
	if (prompt_keys) {
		attr.prompt_keys = (const kvmm_key_t *)PyBytes_AsString(prompt_keys);
		nr_bytes = PyBytes_Size(prompt_keys);
	}
	if (nr_bytes % (Py_ssize_t)sizeof(kvmm_key_t))
		PyErr_SetString(PyExc_ValueError, "keys have 16 bytes each");
	if (PyErr_Occurred() || kvpy_tokens(prompt, &tokens)) {
		Py_DECREF((PyObject *)self);
		return NULL;
	}
	Py_INCREF(keys);
	self->keys = (struct keys *)keys;
	attr.nr_prompt_keys = (size_t)nr_bytes / sizeof(kvmm_key_t);
	attr.keys = self->keys->ctx;
	attr.prompt = tokens.data;
	attr.nr_prompt = (uint32_t)tokens.nr;
	err = kvmm_seq_create(pool->pool, &attr, &self->seq);
	kvpy_end(&tokens);
	return kvpy_made(self, "kvmm_seq_create", err);
}

static void seq_finalize(struct seq *self)
{
	struct kvpy_pool *pool = self->pool;

	kvmm_seq_destroy(self->seq);
	self->seq = NULL;
	self->pool = NULL;
	Py_CLEAR(self->keys);
	kvpy_unuse(pool);
}

static struct kvmm_seq *seq_of(struct seq *self)
{
	if (!self->seq)
		PyErr_SetString(PyExc_ValueError, "the sequence is closed");
	return self->seq;
}

typedef int call_fn(struct kvmm_seq *seq);
typedef int number_fn(struct kvmm_seq *seq, uint32_t nr);
typedef int tokens_fn(struct kvmm_seq *seq, const uint32_t *tokens, uint32_t nr);

static PyObject *plain(struct seq *self, PyObject *none, const char *call, call_fn *fn)
{
	return seq_of(self) ? kvpy_number_or(call, fn(self->seq)) : NULL;
}

static PyObject *number(struct seq *self, PyObject *object, const char *call, number_fn *fn)
{
	uint32_t nr = 0;

	if (kvpy_u32(object, &nr) || !seq_of(self))
		return NULL;
	return kvpy_number_or(call, fn(self->seq, nr));
}

static PyObject *tokens(struct seq *self, PyObject *object, const char *call, tokens_fn *fn)
{
	struct kvpy_array array;
	PyObject *answer = NULL;

	if (kvpy_tokens(object, &array))
		return NULL;
	if (seq_of(self))
		answer = kvpy_number_or(call, fn(self->seq, array.data, (uint32_t)array.nr));
	kvpy_end(&array);
	return answer;
}

/* Calls without arguments, with a number, and with tokens; errors say what the library calls it. */
#define CALL(kind, name, shown)									\
static PyObject *seq_##name(struct seq *self, PyObject *object)					\
{												\
	return kind(self, object, shown, kvmm_seq_##name);					\
}

CALL(plain, match, "kvmm_seq_take")
CALL(plain, acquire, "kvmm_seq_take")
CALL(plain, schedule_decode, "kvmm_seq_schedule")
CALL(plain, revert, "kvmm_seq_schedule")
CALL(plain, release, "kvmm_seq_release")
CALL(number, schedule_prefill, "kvmm_seq_schedule")
CALL(number, truncate, "kvmm_seq_set_tokens")
CALL(tokens, schedule_speculative, "kvmm_seq_schedule")
CALL(tokens, apply, "kvmm_seq_apply_drafts")
CALL(tokens, append, "kvmm_seq_set_tokens")

static PyObject *seq_accept(struct seq *self, PyObject *args)
{
	unsigned int nr, token;

	if (!PyArg_ParseTuple(args, "O&O&:accept", kvpy_to_u32, &nr, kvpy_to_u32, &token) ||
	    !seq_of(self))
		return NULL;
	return kvpy_number_or("kvmm_seq_apply_drafts", kvmm_seq_accept(self->seq, nr, token));
}

static PyObject *seq_list(struct seq *self, int (*call)(struct kvmm_seq *, uint32_t *, uint32_t))
{
	struct kvpy_array ids;
	PyObject *list = NULL;
	int nr;

	if (!seq_of(self))
		return NULL;
	nr = call(self->seq, NULL, 0);
	if (nr >= 0 && kvpy_space(&ids, nr, sizeof(uint32_t))) {
		nr = call(self->seq, ids.data, (uint32_t)nr);
		list = nr < 0 ? NULL : kvpy_list(ids.data, nr, 0);
		kvpy_end(&ids);
	}
	return nr < 0 ? kvpy_raise("kvmm_seq_block_table", nr) : list;
}

static int all_tokens(struct kvmm_seq *seq, uint32_t *tokens, uint32_t max)
{
	return kvmm_seq_tokens(seq, 0, tokens, max);
}

static PyObject *seq_block_table(struct seq *self, PyObject *none)
{
	return seq_list(self, kvmm_seq_block_table);
}

static PyObject *seq_tokens(struct seq *self, PyObject *none)
{
	return seq_list(self, all_tokens);
}

#define INFO(name)	KVPY_FIELD(struct kvmm_seq_info, name)

static PyObject *seq_info(struct seq *self, PyObject *none)
{
	static const struct kvpy_field fields[] = {
		INFO(state), INFO(why), INFO(nr_tokens), INFO(nr_prompt), INFO(nr_computed),
		INFO(nr_remaining), INFO(nr_waiting), INFO(nr_scheduled), INFO(nr_blocks),
		INFO(nr_published), INFO(nr_hits), INFO(nr_missing),
	};
	struct kvmm_seq_info info;
	int err;

	if (!seq_of(self))
		return NULL;
	err = kvmm_seq_get_info(self->seq, &info);
	return err ? kvpy_raise("kvmm_seq_get_info", err) :
		     kvpy_dict(&info, fields, KVPY_NR(fields));
}

static PyMethodDef seq_methods[] = {
	KVPY_METHOD(seq, match, METH_NOARGS, "match() -> int\n\nTakes the longest cached prefix; "
		    "returns its blocks."),
	KVPY_METHOD(seq, acquire, METH_NOARGS, "acquire() -> int\n\nmatch(), and blocks for the rest "
		    "of the prompt, all or nothing."),
	KVPY_METHOD(seq, schedule_prefill, METH_O, "schedule_prefill(nr) -> int\n\nThe next step "
		    "computes nr known tokens."),
	KVPY_METHOD(seq, schedule_decode, METH_NOARGS, "schedule_decode() -> int"),
	KVPY_METHOD(seq, schedule_speculative, METH_O, "schedule_speculative(drafts) -> int\n\n"
		    "Returns how many drafts were taken."),
	KVPY_METHOD(seq, apply, METH_O, "apply(tokens) -> int\n\nEnds a step that yielded these "
		    "tokens; returns the blocks published."),
	KVPY_METHOD(seq, accept, METH_VARARGS, "accept(nr, token) -> int\n\nEnds a speculative step: "
		    "the first nr drafts, and the model's own token."),
	KVPY_METHOD(seq, revert, METH_NOARGS, "revert() -> int\n\nGives the step up."),
	KVPY_METHOD(seq, append, METH_O, "append(tokens) -> int\n\nTokens that no step yielded: "
		    "another turn."),
	KVPY_METHOD(seq, truncate, METH_O, "truncate(nr) -> int\n\nForgets all tokens behind the "
		    "first nr."),
	KVPY_METHOD(seq, release, METH_NOARGS, "release() -> int\n\nGives all blocks back; tokens "
		    "stay known."),
	KVPY_METHOD(seq, block_table, METH_NOARGS, "block_table() -> list[int]"),
	KVPY_METHOD(seq, tokens, METH_NOARGS, "tokens() -> list[int]"),
	KVPY_METHOD(seq, info, METH_NOARGS, "info() -> dict[str, int]"),
	KVPY_CLOSE("\n\nGives all back; a second call does nothing."),
};

KVPY_USER(seq, Sequence, "Sequence(pool, keys, prompt, max_output=2**20, tenant=0, prompt_keys=...)\n\n"
	  "The tokens of one request, and the blocks that hold their K/V.");
