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

static PyTypeObject *keys_type, *seq_type;

/* ---- keys ---- */

static PyObject *keys_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	static char *known[] = { "algo", "block_tokens", "tenant", "layout_id", "lora", "salt",
				 "secret", NULL };
	struct kvmm_key_attr attr = KVMM_KEY_ATTR_INIT;
	unsigned int tokens = 16;
	Py_ssize_t len[4] = { 0 }, secret_len = 0;
	const char *text[4] = { NULL }, *secret = NULL;
	struct kvmm_key_bytes *to[] = { &attr.tenant, &attr.layout_id, &attr.lora, &attr.salt };
	struct keys *self;
	int err;

	if (!PyArg_ParseTupleAndKeywords(args, named, "|zO&z#z#z#z#z#:Keys", known, &attr.algo,
					 kvpy_to_u32, &tokens,
					 &text[0], &len[0], &text[1], &len[1], &text[2], &len[2],
					 &text[3], &len[3], &secret, &secret_len))
		return NULL;
	if (secret && secret_len != KVMM_KEY_SECRET_BYTES)
		return PyErr_Format(PyExc_ValueError, "a secret has %u bytes", KVMM_KEY_SECRET_BYTES);
	for (int i = 0; i < 4; i++)
		*to[i] = (struct kvmm_key_bytes){ text[i], (size_t)len[i] };
	if (secret)
		memcpy(attr.secret, secret, KVMM_KEY_SECRET_BYTES);
	attr.block_tokens = tokens;
	self = kvpy_make(type);
	if (!self)
		return NULL;
	err = kvmm_key_ctx_create(&attr, &self->ctx);
	if (err)
		return kvpy_fail(self, "kvmm_key_ctx_create", err);
	self->block_tokens = tokens ? tokens : 16;	/* as the library has it */
	return (PyObject *)self;
}

static void keys_finalize(struct keys *self)
{
	kvmm_key_ctx_destroy(self->ctx);
}

/* of(tokens, parent=None): one bytes object of 16 bytes a full block. */
static PyObject *keys_of(struct keys *self, PyObject *const *args, Py_ssize_t nr, PyObject *names)
{
	static const char *const known[] = { "of", "tokens", "parent", NULL };
	struct kvmm_key_seq seq = KVMM_KEY_SEQ_INIT;
	struct kvpy_array tokens, parent;
	PyObject *slot[2], *bytes = NULL;
	kvmm_key_t *keys;
	Py_ssize_t max;
	int done = 0;

	if (kvpy_args(known, 1, args, nr, names, slot) || kvpy_tokens(slot[0], &tokens))
		return NULL;
	if (slot[1]) {
		if (kvpy_bytes(slot[1], 0, &parent))
			goto out;
		if (parent.nr != sizeof(kvmm_key_t)) {
			kvpy_end(&parent);
			PyErr_SetString(PyExc_ValueError, "parent is a key of 16 bytes");
			goto out;
		}
		seq.parent = parent.data;
	}
	seq.tokens = tokens.data;
	seq.nr_tokens = (size_t)tokens.nr;
	max = tokens.nr / self->block_tokens;
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
	if (slot[1])
		kvpy_end(&parent);
out:
	kvpy_end(&tokens);
	return bytes;
}

static PyMethodDef keys_methods[] = {
	{ "of", (PyCFunction)(void (*)(void))keys_of, METH_FASTCALL | METH_KEYWORDS,
	  "of(tokens, parent=None) -> bytes\n\n16 bytes for each full block of tokens; parent is the key "
	  "of the block before the first." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot keys_slots[] = {
	{ Py_tp_new, keys_new }, KVPY_FINALIZE(keys), { Py_tp_methods, keys_methods },
	{ Py_tp_doc, "Keys(algo=None, block_tokens=16, tenant=None, layout_id=None, lora=None, "
	  "salt=None, secret=None)\n\nHow blocks are named: what all of them depend on. algo: 'sha256' "
	  "(None), 'siphash', 'vllm-sha256-cbor', or 'local', which costs least and is of no use to "
	  "another process." },
	{ 0, NULL },
};

static PyType_Spec keys_spec = {
	"kvmm.Keys", sizeof(struct keys), 0, Py_TPFLAGS_DEFAULT, keys_slots,
};

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
	int err = 0;

	attr.max_output = 1u << 20;
	if (!PyArg_ParseTupleAndKeywords(args, named, "O&O!O|O&O&S:Sequence", known, kvpy_to_pool,
					 &pool, keys_type, &keys, &prompt, kvpy_to_u32,
					 &attr.max_output, kvpy_to_u32, &attr.domain.tenant,
					 &prompt_keys))
		return NULL;
	if (prompt_keys) {
		attr.prompt_keys = (const kvmm_key_t *)PyBytes_AsString(prompt_keys);
		nr_bytes = PyBytes_Size(prompt_keys);
	}
	if (nr_bytes % (Py_ssize_t)sizeof(kvmm_key_t))
		return PyErr_Format(PyExc_ValueError, "keys have 16 bytes each");
	if (kvpy_tokens(prompt, &tokens))
		return NULL;
	attr.nr_prompt_keys = (size_t)nr_bytes / sizeof(kvmm_key_t);
	attr.keys = ((struct keys *)keys)->ctx;
	attr.prompt = tokens.data;
	attr.nr_prompt = (uint32_t)tokens.nr;
	self = kvpy_begin(type, pool);
	if (self)
		err = kvmm_seq_create(pool->pool, &attr, &self->seq);
	kvpy_end(&tokens);
	if (!self || err)
		return self ? kvpy_made(self, "kvmm_seq_create", err) : NULL;
	Py_INCREF(keys);
	self->keys = (struct keys *)keys;
	return (PyObject *)self;
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

static PyObject *number_or(const char *call, int nr)
{
	return nr < 0 ? kvpy_raise(call, nr) : PyLong_FromLong(nr);
}

/* Calls without arguments, with a number, and with tokens. */
#define PLAIN(name, fn, shown)								\
static PyObject *seq_##name(struct seq *self, PyObject *none)				\
{											\
	return seq_of(self) ? number_or(shown, fn(self->seq)) : NULL;			\
}

#define NUMBER(name, fn, shown)								\
static PyObject *seq_##name(struct seq *self, PyObject *number)				\
{											\
	uint32_t nr = 0;								\
											\
	if (kvpy_u32(number, &nr) || !seq_of(self))					\
		return NULL;								\
	return number_or(shown, fn(self->seq, nr));					\
}

#define TOKENS(name, fn, shown)								\
static PyObject *seq_##name(struct seq *self, PyObject *object)				\
{											\
	return with_tokens(self, object, shown, fn);					\
}

PLAIN(match, kvmm_seq_match, "kvmm_seq_take")
PLAIN(acquire, kvmm_seq_acquire, "kvmm_seq_take")
PLAIN(schedule_decode, kvmm_seq_schedule_decode, "kvmm_seq_schedule")
PLAIN(revert, kvmm_seq_revert, "kvmm_seq_schedule")
PLAIN(release, kvmm_seq_release, "kvmm_seq_release")
NUMBER(schedule_prefill, kvmm_seq_schedule_prefill, "kvmm_seq_schedule")
NUMBER(truncate, kvmm_seq_truncate, "kvmm_seq_set_tokens")

typedef int tokens_fn(struct kvmm_seq *seq, const uint32_t *tokens, uint32_t nr);

static PyObject *with_tokens(struct seq *self, PyObject *object, const char *call, tokens_fn *fn)
{
	struct kvpy_array tokens;
	int done;

	if (kvpy_tokens(object, &tokens))
		return NULL;
	done = seq_of(self) ? fn(self->seq, tokens.data, (uint32_t)tokens.nr) : 0;
	kvpy_end(&tokens);
	return number_or(call, self->seq ? done : -EINVAL);
}

TOKENS(schedule_speculative, kvmm_seq_schedule_speculative, "kvmm_seq_schedule")
TOKENS(apply, kvmm_seq_apply, "kvmm_seq_apply_drafts")
TOKENS(append, kvmm_seq_append, "kvmm_seq_set_tokens")

static PyObject *seq_accept(struct seq *self, PyObject *args)
{
	unsigned int nr, token;

	if (!PyArg_ParseTuple(args, "O&O&:accept", kvpy_to_u32, &nr, kvpy_to_u32, &token) ||
	    !seq_of(self))
		return NULL;
	return number_or("kvmm_seq_apply_drafts", kvmm_seq_accept(self->seq, nr, token));
}

static PyObject *seq_list(struct seq *self, int (*call)(struct kvmm_seq *, uint32_t *, uint32_t))
{
	PyObject *list = NULL;
	uint32_t *ids;
	int nr, room;

	if (!seq_of(self))
		return NULL;
	room = call(self->seq, NULL, 0);
	ids = malloc(sizeof(*ids) * (size_t)(room > 0 ? room : 1));
	nr = room < 0 ? room : !ids ? -ENOMEM : call(self->seq, ids, (uint32_t)room);
	if (nr < 0)
		kvpy_raise("kvmm_seq_block_table", nr);
	else
		list = kvpy_list((int32_t *)ids, nr);
	free(ids);
	return list;
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

static PyObject *seq_info(struct seq *self, PyObject *none)
{
	static const struct kvpy_field fields[] = {
		KVPY_FIELD(struct kvmm_seq_info, state), KVPY_FIELD(struct kvmm_seq_info, why),
		KVPY_FIELD(struct kvmm_seq_info, nr_tokens), KVPY_FIELD(struct kvmm_seq_info, nr_prompt),
		KVPY_FIELD(struct kvmm_seq_info, nr_computed),
		KVPY_FIELD(struct kvmm_seq_info, nr_remaining),
		KVPY_FIELD(struct kvmm_seq_info, nr_waiting),
		KVPY_FIELD(struct kvmm_seq_info, nr_scheduled),
		KVPY_FIELD(struct kvmm_seq_info, nr_blocks),
		KVPY_FIELD(struct kvmm_seq_info, nr_published),
		KVPY_FIELD(struct kvmm_seq_info, nr_hits), KVPY_FIELD(struct kvmm_seq_info, nr_missing),
	};
	struct kvmm_seq_info info;
	int err = seq_of(self) ? kvmm_seq_get_info(self->seq, &info) : 0;

	if (!self->seq)
		return NULL;
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
	KVPY_CLOSE("\n\nGives all back; a second call does nothing.")
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot seq_slots[] = {
	{ Py_tp_new, seq_new }, KVPY_USER_SLOTS(seq), { Py_tp_methods, seq_methods },
	{ Py_tp_doc, "Sequence(pool, keys, prompt, max_output=2**20, tenant=0, prompt_keys=...)\n\nThe "
	  "tokens of one request, and the blocks that hold their K/V." },
	{ 0, NULL },
};

static PyType_Spec seq_spec = { "kvmm.Sequence", sizeof(struct seq), 0, KVPY_GC, seq_slots };

int kvpy_add_seq(PyObject *module)
{
	keys_type = kvpy_add_type(module, &keys_spec, "Keys");
	seq_type = keys_type ? kvpy_add_type(module, &seq_spec, "Sequence") : NULL;
	return seq_type ? 0 : -1;
}
