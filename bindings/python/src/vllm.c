// SPDX-License-Identifier: Apache-2.0
/*
 * kvmm.Blocks: what vLLM's block pool does block by block, for lists of its KVCacheBlock objects.
 *
 * The objects have __slots__. Their places in memory are found once, by giving one object of the
 * class values that are known and looking where they appear; a class that does not show all of them
 * is refused, and the caller goes the long way. References kept in slots are swapped as CPython's
 * own member descriptors do it, under the interpreter's lock.
 */
#include "python.h"

#include <kvmm/ext/ids.h>

enum { BLOCK_ID, REF_CNT, HASH, TOKENS, NR_SLOTS };

static const char *const slot_names[NR_SLOTS] = {
	"block_id", "ref_cnt", "_block_hash", "_block_hash_num_tokens",
};

struct blocks {
	PyObject_HEAD
	struct kvpy_pool *pool;
	PyObject **table;		/* by block id, with references; 0 is the null block */
	PyObject *one;			/* the number 1 */
	uint32_t nr;			/* 0: taken apart by the collector of cycles */
	Py_ssize_t nr_named;
	Py_ssize_t slot[NR_SLOTS];	/* bytes into an object */
};

static PyObject **at(const struct blocks *self, PyObject *block, int slot)
{
	return (PyObject **)((char *)block + self->slot[slot]);
}

/* The number in a slot; -1: none, or one that is no block's. Never runs Python. */
static long number_in(const struct blocks *self, PyObject *block, int slot)
{
	PyObject *object = *at(self, block, slot);
	int over = 0;

	/* An int alone, whose end runs no Python either; the slot may be empty. */
	if (!object || !Py_IS_TYPE(object, &PyLong_Type))
		return -1;
	return PyLong_AsLongAndOverflow(object, &over);
}

/* Takes the reference of @value. */
static void set(const struct blocks *self, PyObject *block, int slot, PyObject *value)
{
	PyObject **place = at(self, block, slot);
	PyObject *old = *place;

	*place = value;
	Py_XDECREF(old);
}

static void set_none(const struct blocks *self, PyObject *block, int slot)
{
	Py_INCREF(Py_None);
	set(self, block, slot, Py_None);
}

/* Where in @probe does @name lie? Its value is replaced by an object that lies nowhere else. */
static int find_slot(struct blocks *self, PyObject *probe, Py_ssize_t bytes, int slot)
{
	PyObject *old = PyObject_GetAttrString(probe, slot_names[slot]);
	PyObject *mark = old ? PyList_New(0) : NULL;
	Py_ssize_t found = 0;
	int err = -1;

	if (!mark || PyObject_SetAttrString(probe, slot_names[slot], mark))
		goto out;
	for (Py_ssize_t i = sizeof(PyObject); i + (Py_ssize_t)sizeof(mark) <= bytes; i += sizeof(mark))
		if (*(PyObject **)((char *)probe + i) == mark) {
			self->slot[slot] = i;
			found++;
		}
	err = PyObject_SetAttrString(probe, slot_names[slot], old);
	if (!err && found != 1) {
		PyErr_Format(PyExc_TypeError, "no slot '%s' in blocks", slot_names[slot]);
		err = -1;
	}
out:
	Py_XDECREF(old);
	Py_XDECREF(mark);
	return err;
}

static int learn(struct blocks *self)
{
	PyObject *probe = self->table[0];
	PyObject *type = (PyObject *)Py_TYPE(probe);
	PyObject *size = PyObject_GetAttrString(type, "__basicsize__");
	Py_ssize_t bytes = size ? PyLong_AsSsize_t(size) : -1;
	int err = bytes < 0 ? -1 : 0;

	Py_XDECREF(size);
	if (!err && PyObject_HasAttrString(probe, "__dict__")) {
		PyErr_SetString(PyExc_TypeError, "blocks have a dictionary, not slots alone");
		err = -1;
	}
	for (int slot = 0; !err && slot < NR_SLOTS; slot++)
		err = find_slot(self, probe, bytes, slot);
	for (uint32_t i = 0; !err && i < self->nr; i++)
		if ((PyObject *)Py_TYPE(self->table[i]) != type ||
		    number_in(self, self->table[i], BLOCK_ID) != (long)i) {
			PyErr_Format(PyExc_TypeError, "block %u of the list is another one", i);
			err = -1;
		}
	return err;
}

/* The first time alone finds something. Blocks may run Python when they end. */
static void blocks_finalize(struct blocks *self)
{
	PyObject **table = self->table;
	uint32_t nr = self->nr;

	self->table = NULL;
	self->nr = 0;
	for (uint32_t i = 0; i < nr; i++)
		Py_DECREF(table[i]);
	free(table);
	Py_CLEAR(self->one);
	Py_CLEAR(self->pool);
}

static int blocks_traverse(struct blocks *self, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE((PyObject *)self));
	Py_VISIT(self->pool);
	for (uint32_t i = 0; i < self->nr; i++)
		Py_VISIT(self->table[i]);
	return 0;
}

static PyObject *blocks_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	struct kvpy_pool *pool;
	PyObject *list;
	struct blocks *self;

	if (!PyArg_ParseTuple(args, "O&O!:Blocks", kvpy_to_pool, &pool, &PyList_Type, &list) ||
	    !kvpy_pool_of(pool))
		return NULL;
	self = kvpy_make(type);
	if (!self)
		return NULL;
	Py_INCREF(pool);
	self->pool = pool;
	self->one = PyLong_FromLong(1);
	self->table = calloc(pool->nr_blocks, sizeof(*self->table));
	if (!self->table)
		PyErr_NoMemory();
	else if ((uint64_t)PyList_Size(list) != pool->nr_blocks)
		PyErr_SetString(PyExc_ValueError, "as many blocks as the pool has");
	for (; !PyErr_Occurred() && self->nr < pool->nr_blocks; self->nr++) {
		self->table[self->nr] = PyList_GetItem(list, self->nr);
		Py_INCREF(self->table[self->nr]);
	}
	if (PyErr_Occurred() || learn(self))
		Py_CLEAR(self);
	return (PyObject *)self;
}

/* The pool, if it is open and the blocks are there; else NULL with an exception. */
static struct kvmm_pool *pool_of(struct blocks *self)
{
	if (self->nr)
		return kvpy_pool_of(self->pool);
	PyErr_SetString(PyExc_ValueError, "the blocks are gone");
	return NULL;
}

/* Is it a block of this pool? Its id, or -1. */
static int32_t id_of(const struct blocks *self, PyObject *block)
{
	long id;

	if (!self->nr || Py_TYPE(block) != Py_TYPE(self->table[0]))
		return -1;
	id = number_in(self, block, BLOCK_ID);
	return id >= 0 && id < (long)self->nr && self->table[id] == block ? (int32_t)id : -1;
}

/* ---- get_new_blocks() ---- */

/* The list of @ids' blocks, each with one reference; @named: those of them that had a name. */
static PyObject *hand_out(struct blocks *self, const int32_t *ids, uint32_t nr, PyObject **named)
{
	PyObject *list = PyList_New(nr);

	for (uint32_t i = 0; list && i < nr; i++) {
		PyObject *block = self->table[ids[i]];

		if (*at(self, block, HASH) != Py_None) {	/* it has lost its names for this */
			if (!*named)
				*named = PyList_New(0);
			if (!*named || PyList_Append(*named, block))
				PyErr_Clear();		/* its names are reset below all the same */
		}
		Py_INCREF(self->one);
		set(self, block, REF_CNT, self->one);
		Py_INCREF(block);
		PyList_SetItem(list, i, block);
	}
	return list;
}

static PyObject *blocks_take(struct blocks *self, PyObject *number)
{
	PyObject *list = NULL, *named = NULL;
	struct kvpy_array ids;
	uint32_t nr = 0;
	int err;

	if (!pool_of(self) || kvpy_u32(number, &nr))
		return NULL;
	if (nr > self->nr)
		return kvpy_raise("kvmm_ids_alloc", -ENOSPC);
	if (!kvpy_space(&ids, nr, sizeof(int32_t)))
		return NULL;
	err = kvmm_ids_alloc(self->pool->pool, nr, 0, ids.data);
	if (!err)
		list = hand_out(self, ids.data, nr, &named);
	if (!err && !list)
		kvmm_ids_put(self->pool->pool, ids.data, nr, 0);
	kvpy_end(&ids);
	if (!list)
		return kvpy_raise("kvmm_ids_alloc", err);
	return named ? Py_BuildValue("NN", list, named) : Py_BuildValue("NO", list, Py_None);
}

/* ---- free_blocks() ---- */

/* Add @by to the references of each block of @list; those that come to @mark are noted in @ids. */
static Py_ssize_t count(struct blocks *self, PyObject *list, Py_ssize_t nr, long by, long mark,
			int32_t *ids)
{
	Py_ssize_t noted = 0;

	for (Py_ssize_t i = 0; i < nr; i++) {
		PyObject *block = PyList_GetItem(list, i);
		long refs = number_in(self, block, REF_CNT) + by;
		PyObject *number = block == self->table[0] ? NULL : PyLong_FromLong(refs);

		if (!number)		/* the null block has none; numbers so small need no memory */
			continue;
		set(self, block, REF_CNT, number);
		if (refs == mark)
			ids[noted++] = id_of(self, block);
	}
	return noted;
}

/* Are all of @list blocks of this pool, and counted? */
static int are_ours(const struct blocks *self, PyObject *list, Py_ssize_t nr)
{
	for (Py_ssize_t i = 0; i < nr; i++) {
		PyObject *block = PyList_GetItem(list, i);

		if (id_of(self, block) < 0 || number_in(self, block, REF_CNT) < 0)
			return 0;
	}
	return 1;
}

static PyObject *blocks_put(struct blocks *self, PyObject *list)
{
	Py_ssize_t nr = PyList_Check(list) ? PyList_Size(list) : -1, last;
	struct kvpy_array ids;
	int err = 0;

	if (nr < 0) {
		PyErr_SetString(PyExc_TypeError, "put() takes a list");
		return NULL;
	}
	if (!pool_of(self))
		return NULL;
	if (!are_ours(self, list, nr))
		Py_RETURN_FALSE;
	if (!kvpy_space(&ids, nr, sizeof(int32_t)))
		return NULL;
	last = count(self, list, nr, -1, 0, ids.data);
	if (last)
		err = kvmm_ids_put(self->pool->pool, ids.data, (uint32_t)last, KVMM_IDS_FIRST_OUT);
	if (err)
		count(self, list, nr, 1, -1, ids.data);
	kvpy_end(&ids);
	return err ? kvpy_raise("kvmm_ids_put", err) : PyBool_FromLong(1);
}

/* ---- touch() ---- */

static PyObject *blocks_touch(struct blocks *self, PyObject *blocks)
{
	PyObject *list = PySequence_List(blocks), *answer = NULL;
	Py_ssize_t nr = list ? PyList_Size(list) : 0, back;
	struct kvpy_array ids;
	int err = 0;

	if (!list)
		return NULL;
	if (!are_ours(self, list, nr)) {
		PyErr_SetString(PyExc_ValueError, "a block of another pool");
	} else if (pool_of(self) && kvpy_space(&ids, nr, sizeof(int32_t))) {
		/* One that stands there twice comes to 1 once. */
		back = count(self, list, nr, 1, 1, ids.data);
		if (back)
			err = kvmm_ids_get(self->pool->pool, ids.data, (uint32_t)back,
					   KVMM_IDS_INACTIVE);
		if (err)
			count(self, list, nr, -1, -1, ids.data);
		kvpy_end(&ids);
		answer = kvpy_none_or("kvmm_ids_get", err);
	}
	Py_DECREF(list);
	return answer;
}

/* ---- cache_full_blocks() ---- */

/* The name as vLLM's blocks have it: the hash, and the group's number in four bytes. */
static PyObject *with_group(PyObject *hash, uint32_t group)
{
	char *from, *to;
	Py_ssize_t len;
	PyObject *name;

	if (PyBytes_AsStringAndSize(hash, &from, &len))
		return NULL;
	name = PyBytes_FromStringAndSize(NULL, len + 4);
	if (name) {
		to = PyBytes_AsString(name);
		memcpy(to, from, (size_t)len);
		for (int i = 0; i < 4; i++)
			to[len + i] = (char)(group >> (24 - 8 * i));
	}
	return name;
}

/* What vLLM's own fields say of these blocks, hash and end by turns: there before the names are. */
static PyObject *make_fields(PyObject *part, uint32_t first, uint32_t group, uint32_t tokens)
{
	Py_ssize_t nr = PySequence_Size(part);
	PyObject *fields = nr < 0 ? NULL : PyList_New(2 * nr);

	for (Py_ssize_t i = 0; i < nr && fields; i++) {
		PyObject *hash = PySequence_GetItem(part, i);
		PyObject *name = hash ? with_group(hash, group) : NULL;
		PyObject *end = PyLong_FromUnsignedLongLong((first + i + 1ull) * tokens);

		Py_XDECREF(hash);
		PyList_SetItem(fields, 2 * i, name);
		PyList_SetItem(fields, 2 * i + 1, end);
		if (!name || !end)
			Py_CLEAR(fields);
	}
	return fields;
}

static void show_names(struct blocks *self, PyObject *mine, PyObject *fields)
{
	for (Py_ssize_t i = 0; i < PyList_Size(mine); i++) {
		for (int k = 0; k < 2; k++) {
			PyObject *value = PyList_GetItem(fields, 2 * i + k);

			Py_INCREF(value);
			set(self, PyList_GetItem(mine, i), k ? TOKENS : HASH, value);
		}
		self->nr_named++;
	}
}

/* cache(blocks, hashes, first, last, group, block_tokens): names for blocks [first, last). False:
 * one of them is the null block, has a name, or is of another pool; nothing was done. */
static PyObject *blocks_cache(struct blocks *self, PyObject *args)
{
	struct kvmm_prefix prefix = { 0 };
	struct kvpy_array keys = { 0 };
	PyObject *list, *hashes, *part, *mine, *fields;
	unsigned int first, last, group, tokens;
	struct kvpy_array ids;
	uint32_t nr;
	int err;

	if (!PyArg_ParseTuple(args, "OOIIII:cache", &list, &hashes, &first, &last, &group, &tokens) ||
	    !pool_of(self))
		return NULL;
	if (!PyList_Check(list) || last < first || last > (size_t)PyList_Size(list) ||
	    group > UINT16_MAX) {
		PyErr_SetString(PyExc_ValueError, "cache(): not a list, or not in it");
		return NULL;
	}
	nr = last - first;
	if (!kvpy_space(&ids, nr, sizeof(int32_t)))
		return NULL;
	for (uint32_t i = 0; i < nr; i++) {
		PyObject *block = PyList_GetItem(list, first + i);
		int32_t id = id_of(self, block);

		((int32_t *)ids.data)[i] = id;
		if (id <= 0 || *at(self, block, HASH) != Py_None) {
			kvpy_end(&ids);
			Py_RETURN_FALSE;
		}
	}
	mine = PyList_GetSlice(list, first, last);		/* what follows may run Python */
	part = mine ? PySequence_GetSlice(hashes, first, last) : NULL;
	fields = part ? make_fields(part, first, group, tokens) : NULL;
	err = !fields || kvpy_keys(part, self->pool, &keys);
	if (!err && (keys.nr != (Py_ssize_t)nr || PyList_Size(fields) != 2 * (Py_ssize_t)nr)) {
		PyErr_SetString(PyExc_ValueError, "cache(): fewer hashes than blocks");
		kvpy_end(&keys);
		err = 1;
	}
	if (!err) {
		prefix.keys = keys.data;
		prefix.nr = nr;
		prefix.position = first;
		prefix.domain.group = (uint16_t)group;
		err = kvmm_ids_register(self->pool->pool, &prefix, ids.data, 0);
		kvpy_end(&keys);
		if (err)
			kvpy_raise("kvmm_ids_register", err);
	}
	if (!err)
		show_names(self, mine, fields);
	Py_XDECREF(mine);
	Py_XDECREF(part);
	Py_XDECREF(fields);
	kvpy_end(&ids);
	if (err)
		return NULL;
	Py_RETURN_TRUE;
}

/* ---- looking up ---- */

/* hits(hashes, group, max): blocks of the longest cached prefix; no references. */
static PyObject *blocks_hits(struct blocks *self, PyObject *args)
{
	struct kvmm_prefix prefix = { 0 };
	struct kvpy_array keys;
	PyObject *hashes, *part, *list = NULL;
	unsigned int group, max;
	struct kvpy_array found;
	int hits;

	if (!PyArg_ParseTuple(args, "OII:hits", &hashes, &group, &max) || !pool_of(self))
		return NULL;
	part = PySequence_GetSlice(hashes, 0, max);
	if (!part || kvpy_keys(part, self->pool, &keys)) {
		Py_XDECREF(part);
		return NULL;
	}
	prefix.keys = keys.data;
	prefix.nr = (uint32_t)keys.nr;
	prefix.domain.group = (uint16_t)group;
	hits = kvpy_peek(self->pool, &prefix, 0, &found);
	if (hits >= 0) {
		list = PyList_New(hits);
		for (int i = 0; list && i < hits; i++) {
			PyObject *block = self->table[((uint32_t *)found.data)[i]];

			Py_INCREF(block);
			PyList_SetItem(list, i, block);
		}
		kvpy_end(&found);
	}
	kvpy_end(&keys);
	Py_DECREF(part);
	return list;
}

/* forgotten(block) -> its first name or None; the block has none from here on. */
static PyObject *blocks_forgotten(struct blocks *self, PyObject *block)
{
	PyObject *name;

	if (id_of(self, block) < 0) {
		PyErr_SetString(PyExc_ValueError, "a block of another pool");
		return NULL;
	}
	name = *at(self, block, HASH) ? *at(self, block, HASH) : Py_None;
	Py_INCREF(name);
	if (name != Py_None)
		self->nr_named--;
	set_none(self, block, HASH);
	set_none(self, block, TOKENS);
	return name;
}

static PyObject *blocks_nr_named(struct blocks *self, void *closure)
{
	return PyLong_FromSsize_t(self->nr_named);
}

static int blocks_set_named(struct blocks *self, PyObject *value, void *closure)
{
	Py_ssize_t nr = value ? PyLong_AsSsize_t(value) : -1;

	if (nr < 0) {
		if (!PyErr_Occurred())
			PyErr_SetString(PyExc_ValueError, "nr_named is a count");
		return -1;
	}
	self->nr_named = nr;
	return 0;
}

static PyMethodDef blocks_methods[] = {
	KVPY_METHOD(blocks, take, METH_O, "take(nr) -> tuple[list, list | None]\n\nBlocks with ref_cnt 1, "
		    "and those of them that lost their names."),
	KVPY_METHOD(blocks, put, METH_O, "put(blocks) -> bool\n\nOne reference less each; the first is "
		    "evicted first. False: one is of another pool, nothing was done."),
	KVPY_METHOD(blocks, touch, METH_O, "touch(blocks)\n\nOne reference more each."),
	KVPY_METHOD(blocks, cache, METH_VARARGS, "cache(blocks, hashes, first, last, group, "
		    "block_tokens) -> bool"),
	KVPY_METHOD(blocks, hits, METH_VARARGS, "hits(hashes, group, max) -> list\n\nBlocks of the "
		    "longest cached prefix, no references."),
	KVPY_METHOD(blocks, forgotten, METH_O, "forgotten(block) -> bytes | None"),
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef blocks_getset[] = {
	{ "nr_named", (getter)blocks_nr_named, (setter)blocks_set_named, "blocks with a name", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

KVPY_TYPE(blocks, Blocks, sizeof(struct blocks), KVPY_GC,
	  "Blocks(pool, blocks)\n\nvLLM's block objects, by id, over a pool.", KVPY_FINAL(blocks),
	  { Py_tp_traverse, blocks_traverse }, { Py_tp_getset, blocks_getset });
