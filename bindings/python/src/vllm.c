// SPDX-License-Identifier: Apache-2.0
/*
 * kvmm.Blocks: what vLLM's block pool does block by block, for lists of its KVCacheBlock objects.
 *
 * The objects have __slots__. Their places in memory are found once, by giving one object of the
 * class values that are known and looking where they appear; a class that does not show all of them
 * is refused, and the caller goes the long way. References kept in slots are swapped as CPython's
 * own member descriptors do it, under the interpreter's lock.
 *
 * What a number says is guessed from its memory, and then looked up in a table that knows: of
 * blocks by id, of the interpreter's own small numbers. A wrong guess finds another object there.
 */
#include "python.h"

#include <kvmm/ext/ids.h>

#define NR_SMALL	64
#define DIGIT_AT	24		/* an int's lowest digit, in all versions since 3.10 */

enum { BLOCK_ID, REF_CNT, HASH, TOKENS, NR_SLOTS };

static const char *const slot_names[NR_SLOTS] = {
	"block_id", "ref_cnt", "_block_hash", "_block_hash_num_tokens",
};

struct blocks {
	PyObject_HEAD
	struct kvpy_pool *pool;
	PyObject **table;		/* by block id, with references; 0 is the null block */
	PyTypeObject *type;		/* of each */
	PyObject *small[NR_SMALL];	/* the numbers themselves: most counts of references */
	uint32_t nr;			/* 0: taken apart by the collector of cycles */
	Py_ssize_t nr_named;
	Py_ssize_t slot[NR_SLOTS];	/* bytes into an object */
};

static PyObject **at(const struct blocks *self, PyObject *block, int slot)
{
	return (PyObject **)((char *)block + self->slot[slot]);
}

/* The int in a slot, else NULL: its end runs no Python. The slot may be empty. */
static inline PyObject *int_in(const struct blocks *self, PyObject *block, int slot)
{
	PyObject *object = *at(self, block, slot);

	return object && Py_IS_TYPE(object, &PyLong_Type) ? object : NULL;
}

/* The int's lowest digit, which is all of it if it is small and not negative. */
static inline uint32_t guess(PyObject *number)
{
	return *(const uint32_t *)((const char *)number + DIGIT_AT);
}

/* References of a block; -1: that is no number, or no count. Never runs Python. */
static inline long refs_of(const struct blocks *self, PyObject *block)
{
	PyObject *number = int_in(self, block, REF_CNT);
	int over = 0;

	if (!number)
		return -1;
	if (guess(number) < NR_SMALL && self->small[guess(number)] == number)
		return guess(number);
	return PyLong_AsLongAndOverflow(number, &over);
}

/* Takes the reference of @value. */
static void set(const struct blocks *self, PyObject *block, int slot, PyObject *value)
{
	PyObject **place = at(self, block, slot);
	PyObject *old = *place;

	*place = value;
	Py_XDECREF(old);
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
	if (!err && found != 1)
		err = KVPY_REFUSE(PyExc_TypeError, "no slot '%s' in blocks", slot_names[slot]);
out:
	Py_XDECREF(old);
	Py_XDECREF(mark);
	return err;
}

/* Is it a block of this pool? Its id, or -1. */
static inline int32_t id_of(const struct blocks *self, PyObject *block)
{
	PyObject *number;

	if (Py_TYPE(block) != self->type)
		return -1;
	number = int_in(self, block, BLOCK_ID);
	return number && guess(number) < self->nr && self->table[guess(number)] == block ?
	       (int32_t)guess(number) : -1;		/* there are none once they are gone */
}

static int learn(struct blocks *self)
{
	PyObject *probe = self->table[0];
	PyObject *type = (PyObject *)Py_TYPE(probe);
	PyObject *size = PyObject_GetAttrString(type, "__basicsize__");
	Py_ssize_t bytes = size ? PyLong_AsSsize_t(size) : -1;
	int err = bytes < 0 ? -1 : 0;

	Py_XDECREF(size);
	self->type = Py_TYPE(probe);
	if (!err && PyObject_HasAttrString(probe, "__dict__"))
		err = KVPY_REFUSE(PyExc_TypeError, "blocks have a dictionary, not slots alone");
	for (int slot = 0; !err && slot < NR_SLOTS; slot++)
		err = find_slot(self, probe, bytes, slot);
	for (uint32_t i = 0; !err && i < self->nr; i++)
		if (id_of(self, self->table[i]) != (int32_t)i)
			err = KVPY_REFUSE(PyExc_TypeError, "block %u of the list is another one", i);
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
	for (int i = 0; i < NR_SMALL; i++)
		Py_CLEAR(self->small[i]);
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
	if (!kvpy_knows_layout)
		return PyErr_Format(PyExc_NotImplementedError,
				    "objects of this Python are not where 3.10 to 3.14 have them");
	self = kvpy_make(type);
	if (!self)
		return NULL;
	Py_INCREF(pool);
	self->pool = pool;
	for (int i = 0; i < NR_SMALL; i++)
		self->small[i] = PyLong_FromLong(i);
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
	if (!self->nr)
		return (void *)PyErr_Format(PyExc_ValueError, "the blocks are gone");
	return kvpy_pool_of(self->pool);
}

/* ---- get_new_blocks() ---- */

static void forget(struct blocks *self, PyObject *block)
{
	PyObject *name = *at(self, block, HASH);

	if (name && name != Py_None)
		self->nr_named--;
	for (int slot = HASH; slot <= TOKENS; slot++) {
		Py_INCREF(Py_None);
		set(self, block, slot, Py_None);
	}
}

/* The list of @ids' blocks, each with one reference. Those that have lost their names for this are
 * appended to @named, or show none any more if that is NULL. */
static PyObject *hand_out(struct blocks *self, const int32_t *ids, uint32_t nr, PyObject *named)
{
	PyObject *list = PyList_New(nr);

	for (uint32_t i = 0; list && i < nr; i++) {
		PyObject *block = self->table[ids[i]];

		if (*at(self, block, HASH) != Py_None) {
			if (!named)
				forget(self, block);
			else if (PyList_Append(named, block))
				PyErr_Clear();		/* its names are reset later all the same */
		}
		Py_INCREF(self->small[1]);
		set(self, block, REF_CNT, self->small[1]);
		Py_INCREF(block);
		kvpy_items(list)[i] = block;
	}
	return list;
}

static PyObject *blocks_take(struct blocks *self, PyObject *const *args, Py_ssize_t nr_args)
{
	KVPY_THIS_CALL(take, 1, "nr", "named");
	PyObject *slot[2], *list = NULL;
	struct kvpy_array ids;
	uint32_t nr = 0;
	int err;

	if (kvpy_args(&this_call, args, nr_args, NULL, slot) || kvpy_u32(slot[0], &nr) ||
	    !pool_of(self))
		return NULL;
	if (slot[1] && !PyList_Check(slot[1]))
		return PyErr_Format(PyExc_TypeError, "named is a list, or None");
	if (nr > self->nr)
		return kvpy_raise("kvmm_ids_alloc", -ENOSPC);
	if (!kvpy_space(&ids, nr, sizeof(int32_t)))
		return NULL;
	err = kvmm_ids_alloc(self->pool->pool, nr, 0, ids.data);
	if (!err)
		list = hand_out(self, ids.data, nr, slot[1]);
	if (!err && !list)
		kvmm_ids_put(self->pool->pool, ids.data, nr, 0);
	kvpy_end(&ids);
	return err ? kvpy_raise("kvmm_ids_alloc", err) : list;
}

/* ---- free_blocks() and touch() ---- */

static inline PyObject *number_of(const struct blocks *self, long refs)
{
	if (refs < 0 || refs >= NR_SMALL)
		return PyLong_FromLong(refs);
	Py_INCREF(self->small[refs]);
	return self->small[refs];
}

/* A block's references are @refs; the end of the old number runs no Python. */
static inline void set_refs(struct blocks *self, PyObject *block, long refs)
{
	PyObject *number = number_of(self, refs);

	if (number)			/* small ones need no memory */
		set(self, block, REF_CNT, number);
	else
		PyErr_Clear();
}

/* Take back what count() did to these. */
static void uncount(struct blocks *self, const int32_t *ids, Py_ssize_t nr, long by)
{
	for (Py_ssize_t i = 0; i < nr; i++)
		if (ids[i])
			set_refs(self, self->table[ids[i]], refs_of(self, self->table[ids[i]]) - by);
}

/* The references of a block were not those of the common case. 0: they were no count. */
static int add_refs(struct blocks *self, PyObject *block, long by, long *refs)
{
	*refs = refs_of(self, block);
	if (*refs < 0)
		return 0;
	*refs += by;
	set_refs(self, block, *refs);
	return 1;
}

/*
 * Add @by to the references of each block of @row; the null block has none. Those that have their
 * first then, or their last no more, are the first of @ids, in their order, the others behind.
 * Return: how many are; -1: one is of another pool, or not counted, and none was changed.
 */
static Py_ssize_t count(struct blocks *self, const struct kvpy_row *row, long by, int32_t *ids)
{
	PyObject *const from = self->small[by < 0], *const to = self->small[by > 0];
	PyObject *const *block = row->first;
	Py_ssize_t edge = 0;
	long refs;

	for (Py_ssize_t i = 0; i < row->nr; i++, block += row->step) {
		int32_t id = ids[i] = id_of(self, *block);

		if (!id)
			continue;
		if (id > 0 && *at(self, *block, REF_CNT) == from) {
			refs = by > 0;
			Py_INCREF(to);
			set(self, *block, REF_CNT, to);
		} else if (id < 0 || !add_refs(self, *block, by, &refs)) {
			uncount(self, ids, i, by);
			return -1;
		}
		if (refs == (by > 0)) {
			ids[i] = ids[edge];
			ids[edge++] = id;
		}
	}
	return edge;
}

/* One reference more, or less, for each block of @row. Return: 1; 0: one of them is of another
 * pool, nothing was done; -1 with an exception, likewise. */
static int recount(struct blocks *self, const struct kvpy_row *row, long by)
{
	struct kvpy_array ids;
	Py_ssize_t edge;
	int err = 0;

	if (!kvpy_space(&ids, row->nr, sizeof(int32_t)))
		return -1;
	/* kvmm's one reference comes with their first, and goes with their last. */
	edge = count(self, row, by, ids.data);
	if (edge > 0)
		err = by > 0 ? kvmm_ids_get(self->pool->pool, ids.data, (uint32_t)edge, KVMM_IDS_INACTIVE) :
			       kvmm_ids_put(self->pool->pool, ids.data, (uint32_t)edge,
					    KVMM_IDS_FIRST_OUT);
	if (err) {
		uncount(self, ids.data, row->nr, by);
		kvpy_raise(by > 0 ? "kvmm_ids_get" : "kvmm_ids_put", err);
	}
	kvpy_end(&ids);
	return err ? -1 : edge >= 0;
}

static PyObject *blocks_put(struct blocks *self, PyObject *blocks)
{
	struct kvpy_row row;
	int done;

	if (!pool_of(self) || kvpy_row(blocks, &row))
		return NULL;
	done = recount(self, &row, -1);
	if (!done)
		return row.made ? row.made : PySequence_List(blocks);
	Py_XDECREF(row.made);
	if (done < 0)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *blocks_touch(struct blocks *self, PyObject *blocks)
{
	struct kvpy_row row;
	int done;

	if (!pool_of(self) || kvpy_row(blocks, &row))
		return NULL;
	done = recount(self, &row, 1);
	Py_XDECREF(row.made);
	if (!done)
		return PyErr_Format(PyExc_ValueError, "a block of another pool");
	if (done < 0)
		return NULL;
	Py_RETURN_NONE;
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

/* What vLLM's own fields of a block will say: made before it gets its name. */
struct fields {
	PyObject *name, *tokens;
};

static void drop_fields(struct fields *fields, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++) {
		Py_XDECREF(fields[i].name);
		Py_XDECREF(fields[i].tokens);
	}
}

/* The fields and the keys of @hashes from that of @prefix on. May run Python. */
static int make_fields(struct blocks *self, PyObject *hashes, const struct kvmm_prefix *prefix,
		       uint32_t tokens, struct fields *fields, kvmm_key_t *keys)
{
	uint64_t first = prefix->position;

	for (uint32_t i = 0; i < prefix->nr; i++) {
		PyObject *hash = PySequence_GetItem(hashes, (Py_ssize_t)first + i);
		int err = !hash || kvpy_key(hash, self->pool, &keys[i]);

		fields[i].name = err ? NULL : with_group(hash, prefix->domain.group);
		fields[i].tokens = err ? NULL : PyLong_FromUnsignedLongLong((first + i + 1) * tokens);
		Py_XDECREF(hash);
		if (!fields[i].name || !fields[i].tokens) {
			drop_fields(fields, i + 1);
			return -1;
		}
	}
	return 0;
}

/* The ids of blocks of @list; 0 if one is the null block, has a name, or is of another pool. */
static int find_unnamed(const struct blocks *self, PyObject *list, uint32_t first, uint32_t nr,
			int32_t *ids)
{
	PyObject **items;

	if (PyList_Size(list) < (Py_ssize_t)first + nr)
		return 0;
	items = kvpy_items(list) + first;
	for (uint32_t i = 0; i < nr; i++) {
		ids[i] = id_of(self, items[i]);
		if (ids[i] <= 0 || *at(self, items[i], HASH) != Py_None)
			return 0;
	}
	return 1;
}

/* Return: 1; 0: find_unnamed() said so; -1 with an exception. @ids: room for as many. */
static int name_blocks(struct blocks *self, PyObject *list, PyObject *hashes,
		       struct kvmm_prefix *prefix, uint32_t tokens, int32_t *ids)
{
	struct kvpy_array keys, array;
	struct fields *fields = NULL;
	int done = -1, err = -1;

	if (!kvpy_space(&keys, prefix->nr, sizeof(kvmm_key_t)))
		return -1;
	if (kvpy_space(&array, prefix->nr, sizeof(*fields)))
		fields = array.data;
	if (!fields || make_fields(self, hashes, prefix, tokens, fields, keys.data))
		goto out;
	prefix->keys = keys.data;
	/* A list's items are there without running Python. */
	done = PyList_CheckExact(hashes) ||
	       find_unnamed(self, list, prefix->position, prefix->nr, ids);
	err = done ? kvmm_ids_register(self->pool->pool, prefix, ids, 0) : -1;
	if (done && err) {
		kvpy_raise("kvmm_ids_register", err);
		done = -1;
	}
	if (err)
		drop_fields(fields, prefix->nr);
	for (uint32_t i = 0; !err && i < prefix->nr; i++) {
		set(self, self->table[ids[i]], HASH, fields[i].name);
		set(self, self->table[ids[i]], TOKENS, fields[i].tokens);
		self->nr_named++;
	}
out:
	if (fields)
		kvpy_end(&array);
	kvpy_end(&keys);
	return done;
}

/* cache(blocks, hashes, first, last, group, block_tokens): names for blocks [first, last). False:
 * one of them is the null block, has a name, or is of another pool; nothing was done. */
static PyObject *blocks_cache(struct blocks *self, PyObject *const *args, Py_ssize_t nr_args)
{
	KVPY_THIS_CALL(cache, 6, "blocks", "hashes", "first", "last", "group", "block_tokens");
	uint32_t first = 0, last = 0, group = 0, tokens = 0;
	struct kvmm_prefix prefix = { 0 };
	PyObject *slot[6];
	struct kvpy_array ids;
	int done = 0;

	if (kvpy_args(&this_call, args, nr_args, NULL, slot) || kvpy_u32(slot[2], &first) ||
	    kvpy_u32(slot[3], &last) || kvpy_u32(slot[4], &group) || kvpy_u32(slot[5], &tokens))
		return NULL;
	if (!PyList_Check(slot[0]) || last < first || last > (size_t)PyList_Size(slot[0]) ||
	    group > UINT16_MAX)
		return PyErr_Format(PyExc_ValueError, "cache(): not a list, or not in it");
	if (PySequence_Size(slot[1]) < (Py_ssize_t)last)
		return PyErr_Occurred() ? NULL :
		       PyErr_Format(PyExc_ValueError, "cache(): fewer hashes than blocks");
	if (!pool_of(self) || !kvpy_space(&ids, last - first, sizeof(int32_t)))
		return NULL;
	prefix.nr = last - first;
	prefix.position = first;
	prefix.domain.group = (uint16_t)group;
	if (find_unnamed(self, slot[0], first, last - first, ids.data))
		done = name_blocks(self, slot[0], slot[1], &prefix, tokens, ids.data);
	kvpy_end(&ids);
	return done < 0 ? NULL : PyBool_FromLong(done);
}

/* ---- looking up ---- */

/* hits(hashes, group, max): blocks of the longest cached prefix; no references. */
static PyObject *blocks_hits(struct blocks *self, PyObject *const *args, Py_ssize_t nr_args)
{
	KVPY_THIS_CALL(hits, 3, "hashes", "group", "max");
	struct kvmm_prefix prefix = { 0 };
	struct kvpy_array keys, found;
	uint64_t group = 0, max = 0;
	PyObject *slot[3], *list;
	int hits;

	if (kvpy_args(&this_call, args, nr_args, NULL, slot) || !pool_of(self) ||
	    kvpy_u64(slot[1], UINT16_MAX, &group) || kvpy_u64(slot[2], UINT32_MAX, &max) ||
	    kvpy_first_keys(slot[0], (Py_ssize_t)max, self->pool, &keys))
		return NULL;
	prefix.keys = keys.data;
	prefix.nr = (uint32_t)keys.nr;
	prefix.domain.group = (uint16_t)group;
	hits = pool_of(self) ? kvpy_peek(self->pool, &prefix, 0, &found) : -1;
	kvpy_end(&keys);
	if (hits < 0)
		return NULL;
	list = PyList_New(hits);
	for (int i = 0; list && i < hits; i++) {
		PyObject *block = self->table[((uint32_t *)found.data)[i]];

		Py_INCREF(block);
		kvpy_items(list)[i] = block;
	}
	kvpy_end(&found);
	return list;
}

/* Has @key in group @number of a sequence been found? Then its block is added to @list. */
static int add_cached(struct blocks *self, const kvmm_key_t *key, PyObject *number, PyObject *list)
{
	struct kvmm_prefix prefix = { .keys = key, .nr = 1 };
	uint64_t group = 0;
	uint32_t block;
	kvmm_weak_t weak;
	int hits;

	if (!number || kvpy_u64(number, UINT16_MAX, &group) || !pool_of(self))
		return -1;
	prefix.domain.group = (uint16_t)group;
	hits = kvmm_prefix_peek(self->pool->pool, &prefix, &weak, &block, 0);
	if (hits < 0)
		kvpy_raise("kvmm_prefix_peek", hits);
	return hits > 0 && PyList_Append(list, self->table[block]) ? -1 : hits;
}

/* cached(block_hash, groups): its block in each group, or None if one has none; no references. */
static PyObject *blocks_cached(struct blocks *self, PyObject *const *args, Py_ssize_t nr_args)
{
	KVPY_THIS_CALL(cached, 2, "block_hash", "groups");
	PyObject *slot[2], *list;
	Py_ssize_t nr;
	kvmm_key_t key;
	int hit = 1;

	if (kvpy_args(&this_call, args, nr_args, NULL, slot) || !pool_of(self) ||
	    kvpy_key(slot[0], self->pool, &key))
		return NULL;
	nr = PySequence_Size(slot[1]);
	list = nr < 0 ? NULL : PyList_New(0);
	for (Py_ssize_t i = 0; list && hit > 0 && i < nr; i++) {
		PyObject *number = PySequence_GetItem(slot[1], i);

		hit = add_cached(self, &key, number, list);
		Py_XDECREF(number);
	}
	if (list && hit <= 0)
		Py_CLEAR(list);
	if (hit)
		return list;
	Py_RETURN_NONE;
}

/* forgotten(block) -> its first name or None; the block has none from here on. */
static PyObject *blocks_forgotten(struct blocks *self, PyObject *block)
{
	PyObject *name;

	if (id_of(self, block) < 0)
		return PyErr_Format(PyExc_ValueError, "a block of another pool");
	name = *at(self, block, HASH) ? *at(self, block, HASH) : Py_None;
	Py_INCREF(name);
	forget(self, block);
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
	KVPY_METHOD(blocks, take, METH_FASTCALL, "take(nr, named=None, /) -> list\n\nBlocks with ref_cnt 1. "
		    "Those that lost their names are appended to named, and show them still."),
	KVPY_METHOD(blocks, put, METH_O, "put(blocks) -> list | None\n\nOne reference less each; the first "
		    "is evicted first. A list of them: one is of another pool, nothing was done."),
	KVPY_METHOD(blocks, touch, METH_O, "touch(blocks)\n\nOne reference more each."),
	KVPY_METHOD(blocks, cache, METH_FASTCALL, "cache(blocks, hashes, first, last, group, "
		    "block_tokens) -> bool"),
	KVPY_METHOD(blocks, hits, METH_FASTCALL, "hits(hashes, group, max) -> list\n\nBlocks of the "
		    "longest cached prefix, no references."),
	KVPY_METHOD(blocks, cached, METH_FASTCALL, "cached(block_hash, groups) -> list | None\n\nIts block "
		    "in each group, no references. None: one has none."),
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
