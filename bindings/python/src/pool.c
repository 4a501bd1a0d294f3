// SPDX-License-Identifier: Apache-2.0
/*
 * kvmm.Pool: making one, its blocks by id, its numbers.
 *
 * The library keeps what belongs to an id, so there is no table here. The interpreter's lock stays
 * held where a call only takes and gives blocks: that is shorter than letting go of it.
 */
#include "python.h"

#include <kvmm/ext/ids.h>
#include <kvmm/ext/name.h>

PyTypeObject *kvpy_pool_type;

struct kvmm_pool *kvpy_pool_of(struct kvpy_pool *self)
{
	if (!self->pool)
		PyErr_SetString(PyExc_ValueError, "the pool is closed");
	return self->pool;
}

/* ---- making and closing ---- */

static int text(PyObject *options, const char *name, const char **value)
{
	Py_ssize_t len = 0;
	PyObject *object = options ? PyDict_GetItemString(options, name) : NULL;

	if (!object || object == Py_None)
		return 0;
	*value = strcmp(name, "device") ? NULL : kvpy_device_name(object);
	if (*value)
		return 0;
	*value = PyUnicode_AsUTF8AndSize(object, &len);
	if (*value && strlen(*value) != (size_t)len) {
		PyErr_Format(PyExc_ValueError, "a null character in '%s'", name);
		return -1;
	}
	return *value ? 0 : -1;
}

static int number(PyObject *options, const char *name, uint64_t most, uint64_t *value)
{
	PyObject *object = options ? PyDict_GetItemString(options, name) : NULL;

	return object == Py_None ? 0 : kvpy_u64(object, most, value);
}

static int flag(PyObject *options, const char *name, uint32_t bit, uint32_t *flags)
{
	PyObject *object = options ? PyDict_GetItemString(options, name) : NULL;
	int on = object ? PyObject_IsTrue(object) : 0;

	if (on > 0)
		*flags |= bit;
	return on < 0 ? -1 : 0;
}

static const char *const options_known[] = {
	"name", "device", "allocator", "policy", "compactor", "block_bytes", "block_tokens", "dup",
	"seed", "null_block", "deterministic", "no_magazines", "planes", "memory", "key_bytes",
	"run_window", "max_pins", "digests", "order_as_put",
};

static int check_options(PyObject *options)
{
	PyObject *key, *value;
	Py_ssize_t at = 0;

	while (options && PyDict_Next(options, &at, &key, &value)) {
		size_t i = 0;

		while (i < KVPY_NR(options_known) &&
		       PyUnicode_CompareWithASCIIString(key, options_known[i]))
			i++;
		if (i == KVPY_NR(options_known)) {
			PyErr_Format(PyExc_TypeError, "Pool() has no option '%U'", key);
			return -1;
		}
	}
	return 0;
}

/* planes = [(base, stride, bytes), ...]: memory of the caller. */
static int planes_of(PyObject *options, struct kvmm_plane **planes, uint32_t *nr)
{
	PyObject *list = options ? PyDict_GetItemString(options, "planes") : NULL;
	Py_ssize_t len = list && list != Py_None ? PySequence_Size(list) : 0;

	if (len < 0)
		return -1;
	*planes = len ? calloc((size_t)len, sizeof(**planes)) : NULL;
	if (len && !*planes) {
		PyErr_NoMemory();
		return -1;
	}
	for (Py_ssize_t i = 0; i < len; i++) {
		PyObject *item = PySequence_GetItem(list, i);
		uint64_t base, stride, bytes;
		int ok = item && PyArg_ParseTuple(item, "O&O&O&;a plane is (base, stride, bytes)",
						  kvpy_to_u64, &base, kvpy_to_u64, &stride,
						  kvpy_to_u64, &bytes);

		Py_XDECREF(item);
		if (!ok)
			return -1;
		(*planes)[i] = (struct kvmm_plane){ base, stride, bytes };
	}
	*nr = (uint32_t)len;
	return 0;
}

static int create(struct kvpy_pool *self, uint64_t nr_blocks, PyObject *options)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_evict_attr evict = { .size = sizeof(evict) };
	uint64_t tokens = 0, dup = 0, key_bytes = sizeof(kvmm_key_t), window = 0, pins = 0;
	uint32_t digests = 0;
	struct kvmm_plane *planes = NULL;
	PyObject *memory = options ? PyDict_GetItemString(options, "memory") : NULL;
	int err;

	attr.compactor = "off";		/* ids stay what they are */
	if (check_options(options) || text(options, "name", &attr.name) ||
	    text(options, "device", &attr.device) || text(options, "allocator", &attr.allocator) ||
	    text(options, "policy", &attr.policy) || text(options, "compactor", &attr.compactor) ||
	    number(options, "block_bytes", UINT64_MAX, &attr.block_bytes) ||
	    number(options, "block_tokens", UINT32_MAX, &tokens) ||
	    number(options, "dup", UINT32_MAX, &dup) ||
	    number(options, "seed", UINT64_MAX, &attr.seed) ||
	    number(options, "key_bytes", KVMM_KEY_MAX_NAME, &key_bytes) ||
	    number(options, "run_window", UINT32_MAX, &window) ||
	    number(options, "max_pins", UINT32_MAX, &pins) ||
	    flag(options, "null_block", KVMM_POOL_NULL_BLOCK, &attr.flags) ||
	    flag(options, "deterministic", KVMM_POOL_DETERMINISTIC, &attr.flags) ||
	    flag(options, "no_magazines", KVMM_POOL_NO_MAGAZINES, &attr.flags) ||
	    flag(options, "order_as_put", KVMM_POOL_ORDER_AS_PUT, &attr.flags) ||
	    flag(options, "digests", 1, &digests) ||
	    planes_of(options, &planes, &attr.nr_planes)) {
		free(planes);
		return -1;
	}
	attr.nr_blocks = (uint32_t)nr_blocks;
	attr.block_tokens = (uint32_t)tokens;
	attr.dup_policy = (uint32_t)dup;
	attr.planes = planes;
	evict.run_window = (uint32_t)window;
	evict.max_pins = (uint32_t)pins;
	attr.evict = &evict;
	if (key_bytes && key_bytes < KVMM_KEY_MIN_NAME)
		err = -EINVAL;
	else
		err = kvmm_pool_create(&attr, &self->pool);
	free(planes);
	if (err) {
		kvpy_raise("kvmm_pool_create", err);
		return -1;
	}
	self->key_bytes = (uint32_t)key_bytes;
	self->are_digests = digests;
	self->nr_blocks = attr.nr_blocks;
	self->memory = memory;
	Py_XINCREF(memory);
	return 0;
}

static PyObject *pool_new(PyTypeObject *type, PyObject *args, PyObject *options)
{
	struct kvpy_pool *self;
	uint64_t nr_blocks;

	if (!PyArg_ParseTuple(args, "O&:Pool", kvpy_to_u64, &nr_blocks))
		return NULL;
	if (nr_blocks > KVMM_MAX_BLOCKS) {
		PyErr_Format(PyExc_ValueError, "a pool has at most %u blocks", KVMM_MAX_BLOCKS);
		return NULL;
	}
	self = kvpy_make(type);
	if (self && create(self, nr_blocks, options))
		Py_CLEAR(self);
	return (PyObject *)self;
}

static void pool_finalize(struct kvpy_pool *self)
{
	struct kvmm_pool *pool = self->pool;
	PyObject *tier = self->tier, *memory = self->memory;

	if (self->nr_users)		/* the collector: what uses the pool ends first */
		return;
	self->pool = NULL;
	self->tier = self->memory = NULL;	/* another close() leaves them alone */
	Py_BEGIN_ALLOW_THREADS
	kvmm_pool_destroy(pool);
	Py_END_ALLOW_THREADS
	Py_XDECREF(tier);
	Py_XDECREF(memory);
}

static PyObject *pool_close(struct kvpy_pool *self, PyObject *none)
{
	if (!self->nr_users)
		return kvpy_close((PyObject *)self, NULL);
	return PyErr_Format(PyExc_RuntimeError, "%u sequences, readers or calls use the pool",
			    self->nr_users);
}

static int pool_traverse(struct kvpy_pool *self, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE((PyObject *)self));
	Py_VISIT(self->memory);			/* a tier has no objects */
	return 0;
}

static int pool_clear(struct kvpy_pool *self)
{
	pool_finalize(self);
	return 0;
}

/* ---- blocks by id ---- */

/* The end of a call that returns 0 or an error. */
static PyObject *none_or(const char *call, int err)
{
	if (err < 0)
		return kvpy_raise(call, err);
	Py_RETURN_NONE;
}

static PyObject *pool_alloc(struct kvpy_pool *self, PyObject *const *args, Py_ssize_t nr,
			    PyObject *names)
{
	static const char *const known[] = { "alloc", "nr", "tenant", "out", NULL };
	PyObject *slot[3], *answer = NULL;
	struct kvpy_array room;
	uint32_t want = 0, tenant = 0;
	int32_t few[128], *ids = few;
	int err = -ENOMEM;

	if (kvpy_args(known, 1, args, nr, names, slot) || kvpy_u32(slot[0], &want) ||
	    kvpy_u32(slot[1], &tenant) || !kvpy_pool_of(self))
		return NULL;
	if (want > self->nr_blocks)
		return kvpy_raise("kvmm_ids_alloc", -ENOSPC);
	if (kvpy_room(slot[2], want, &room))
		return NULL;
	if (want > KVPY_NR(few))
		ids = malloc(want * sizeof(*ids));
	if (ids)
		err = kvmm_ids_alloc(self->pool, want, tenant, ids);
	if (err)
		kvpy_raise("kvmm_ids_alloc", err);
	else
		answer = kvpy_ids_to(slot[2], &room, ids, want);
	if (!err && !answer)
		kvmm_ids_put(self->pool, ids, want, 0);
	if (ids != few)
		free(ids);
	kvpy_end(&room);
	return answer;
}

/* The arguments behind the keys of a prefix, from slot[0] on. */
#define PREFIX_NAMES	"position", "parent", "tenant", "layout", "group"
#define NR_PREFIX	5

struct prefix_args {
	struct kvmm_prefix prefix;
	struct kvpy_array keys;
	struct kvpy_array parent;
};

static void end_prefix(struct prefix_args *args)
{
	kvpy_end(&args->keys);
	kvpy_end(&args->parent);
}

static int get_prefix(struct kvpy_pool *self, PyObject *keys, PyObject **slot,
		      struct prefix_args *args)
{
	uint64_t layout = 0, group = 0;
	struct kvmm_prefix *prefix = &args->prefix;

	memset(prefix, 0, sizeof(*prefix));
	memset(&args->parent, 0, offsetof(struct kvpy_array, few));
	if (!kvpy_pool_of(self) || kvpy_u32(slot[0], &prefix->position) ||
	    kvpy_u32(slot[2], &prefix->domain.tenant) || kvpy_u64(slot[3], UINT16_MAX, &layout) ||
	    kvpy_u64(slot[4], UINT16_MAX, &group) || kvpy_keys(keys, self, &args->keys))
		return -1;
	if (slot[1] && (kvpy_keys(slot[1], self, &args->parent) || args->parent.nr != 1)) {
		if (!PyErr_Occurred())
			PyErr_SetString(PyExc_ValueError, "parent is one key");
		end_prefix(args);
		return -1;
	}
	prefix->keys = args->keys.data;
	prefix->nr = (uint32_t)args->keys.nr;
	prefix->parent = slot[1] ? args->parent.data : NULL;
	prefix->domain.layout = (uint16_t)layout;
	prefix->domain.group = (uint16_t)group;
	return 0;
}

static PyObject *pool_register(struct kvpy_pool *self, PyObject *const *args, Py_ssize_t nr,
			       PyObject *names)
{
	static const char *const known[] = { "register", "ids", "keys", PREFIX_NAMES, "out",
					     NULL };
	PyObject *slot[3 + NR_PREFIX], *out, *answer = NULL;
	struct prefix_args prefix;
	struct kvpy_array ids, room;
	int32_t few[128], *own = few;
	int err = -ENOMEM, in_place;

	if (kvpy_args(known, 2, args, nr, names, slot) ||
	    get_prefix(self, slot[1], slot + 2, &prefix))
		return NULL;
	out = slot[2 + NR_PREFIX];
	in_place = out == slot[0];
	if (kvpy_room(in_place ? NULL : out, prefix.prefix.nr, &room))
		goto out_prefix;
	if (kvpy_ids(slot[0], in_place, &ids))
		goto out_room;
	if (ids.nr != prefix.prefix.nr) {
		PyErr_Format(PyExc_ValueError, "%zd ids, but %u keys", ids.nr, prefix.prefix.nr);
		goto out_ids;
	}
	if (ids.nr > (Py_ssize_t)KVPY_NR(few))
		own = malloc((size_t)ids.nr * sizeof(*own));
	if (own && ids.nr)
		memcpy(own, ids.data, (size_t)ids.nr * sizeof(*own));
	if (own)
		err = kvmm_ids_register(self->pool, &prefix.prefix, own, 0);
	if (err)
		kvpy_raise("kvmm_ids_register", err);
	else
		answer = kvpy_ids_to(out, in_place ? &ids : &room, own, ids.nr);
	if (own != few)
		free(own);
out_ids:
	kvpy_end(&ids);
out_room:
	kvpy_end(&room);
out_prefix:
	end_prefix(&prefix);
	return answer;
}

static PyObject *pool_find(struct kvpy_pool *self, PyObject *const *args, Py_ssize_t nr,
			   PyObject *names)
{
	static const char *const known[] = { "find", "keys", "all", PREFIX_NAMES, "out", NULL };
	PyObject *slot[3 + NR_PREFIX], *out, *answer = NULL;
	struct prefix_args prefix;
	struct kvpy_array room;
	int32_t few[128], *ids = few;
	int hits = -ENOMEM, all;
	uint32_t nr_keys;

	if (kvpy_args(known, 1, args, nr, names, slot) ||
	    get_prefix(self, slot[0], slot + 2, &prefix))
		return NULL;
	nr_keys = prefix.prefix.nr;
	out = slot[2 + NR_PREFIX];
	all = slot[1] ? PyObject_IsTrue(slot[1]) : 0;
	if (all < 0 || kvpy_room(out, nr_keys, &room))
		goto end;
	if (nr_keys > KVPY_NR(few))
		ids = malloc(nr_keys * sizeof(*ids));
	if (ids)
		hits = kvmm_ids_find(self->pool, &prefix.prefix, ids, all ? KVMM_FIND_ALL : 0);
	if (hits < 0)
		kvpy_raise("kvmm_ids_find", hits);
	else
		answer = kvpy_ids_to(out, &room, ids, all ? nr_keys : (uint32_t)hits);
	for (uint32_t i = 0; hits >= 0 && !answer && i < nr_keys; i++)
		if (all ? ids[i] != KVMM_NO_ID : i < (uint32_t)hits)
			kvmm_ids_put(self->pool, ids + i, 1, 0);
	if (ids != few)
		free(ids);
	kvpy_end(&room);
end:
	end_prefix(&prefix);
	return answer;
}

static PyObject *pool_probe(struct kvpy_pool *self, PyObject *const *args, Py_ssize_t nr,
			    PyObject *names)
{
	static const char *const known[] = { "probe", "keys", PREFIX_NAMES, NULL };
	PyObject *slot[1 + NR_PREFIX];
	struct prefix_args prefix;
	int hits;

	if (kvpy_args(known, 1, args, nr, names, slot) ||
	    get_prefix(self, slot[0], slot + 1, &prefix))
		return NULL;
	hits = kvmm_prefix_len(self->pool, &prefix.prefix);
	end_prefix(&prefix);
	return hits < 0 ? kvpy_raise("kvmm_prefix_probe", hits) : PyLong_FromLong(hits);
}

/* Where keys lie: no reference, nothing changes. */
static PyObject *pool_peek(struct kvpy_pool *self, PyObject *const *args, Py_ssize_t nr,
			   PyObject *names)
{
	static const char *const known[] = { "peek", "keys", "all", PREFIX_NAMES, NULL };
	PyObject *slot[2 + NR_PREFIX], *list = NULL;
	struct prefix_args prefix;
	struct kvpy_peek peek;
	int hits, all;

	if (kvpy_args(known, 1, args, nr, names, slot) ||
	    get_prefix(self, slot[0], slot + 2, &prefix))
		return NULL;
	all = slot[1] ? PyObject_IsTrue(slot[1]) : 0;
	hits = all < 0 ? -1 : kvpy_peek(self, &prefix.prefix, all, &peek);
	if (hits >= 0) {
		list = kvpy_list((int32_t *)peek.blocks, all ? (Py_ssize_t)prefix.prefix.nr : hits);
		free(peek.made);
	}
	end_prefix(&prefix);
	return list;
}

int kvpy_peek(struct kvpy_pool *pool, const struct kvmm_prefix *prefix, int all,
	      struct kvpy_peek *peek)
{
	kvmm_weak_t few[KVPY_NR(peek->few)], *weak = few;
	int hits = -ENOMEM;

	peek->blocks = peek->few;
	peek->made = NULL;
	if (prefix->nr > KVPY_NR(few)) {
		peek->made = malloc(prefix->nr * (sizeof(*weak) + sizeof(*peek->blocks)));
		weak = peek->made;
		peek->blocks = peek->made ? (uint32_t *)(weak + prefix->nr) : NULL;
	}
	if (weak)
		hits = kvmm_prefix_peek(pool->pool, prefix, weak, peek->blocks,
					all ? KVMM_FIND_ALL : 0);
	if (hits < 0) {
		free(peek->made);
		kvpy_raise("kvmm_prefix_peek", hits);
	}
	return hits;
}

/* The handles behind ids, as references. NULL with an exception; else to be freed. */
static kvmm_ref_t *refs_of(struct kvpy_pool *self, const struct kvpy_array *ids)
{
	struct kvmm_id_info *info = malloc(sizeof(*info) * (size_t)(ids->nr + 1));
	kvmm_ref_t *refs = malloc(sizeof(*refs) * (size_t)(ids->nr + 1));
	int err = info && refs ? kvmm_ids_info(self->pool, ids->data, (uint32_t)ids->nr, info) :
				 -ENOMEM;

	for (Py_ssize_t i = 0; !err && i < ids->nr; i++)
		refs[i] = (kvmm_ref_t){ info[i].handle.index, info[i].handle.gen };
	free(info);
	if (err) {
		free(refs);
		kvpy_raise("kvmm_ids_info", err);
		return NULL;
	}
	return refs;
}

static PyObject *pool_unpublish(struct kvpy_pool *self, PyObject *object)
{
	struct kvpy_array ids;
	kvmm_ref_t *refs;
	int err = -ENOMEM;

	if (!kvpy_pool_of(self) || kvpy_ids(object, 0, &ids))
		return NULL;
	refs = refs_of(self, &ids);
	if (refs) {
		kvmm_mut_t *muts = malloc(sizeof(*muts) * (size_t)(ids.nr + 1));

		if (muts)
			err = kvmm_unpublish(self->pool, refs, (uint32_t)ids.nr, muts);
		free(muts);
	}
	kvpy_end(&ids);
	if (!refs)
		return NULL;
	free(refs);
	return none_or("kvmm_unpublish", err);
}

static int change_names(struct kvpy_pool *self, const struct kvmm_prefix *prefix,
			const kvmm_ref_t *refs, uint32_t op)
{
	struct kvmm_name *names = calloc(prefix->nr + 1u, sizeof(*names));
	int err = names ? 0 : -ENOMEM;

	for (uint32_t i = 0; !err && i < prefix->nr; i++)
		names[i] = (struct kvmm_name){ prefix->keys[i], prefix->domain, prefix->position + i };
	if (!err)
		err = kvmm_names_change(self->pool, names, refs, prefix->nr, op);
	free(names);
	return err;
}

static PyObject *pool_name(struct kvpy_pool *self, PyObject *const *args, Py_ssize_t nr,
			   PyObject *names)
{
	static const char *const known[] = { "name", "ids", "keys", "op", PREFIX_NAMES, NULL };
	PyObject *slot[3 + NR_PREFIX], *answer = NULL;
	struct prefix_args prefix;
	struct kvpy_array ids;
	kvmm_ref_t *refs = NULL;
	uint32_t op = KVMM_NAME_ADD;

	if (kvpy_args(known, 2, args, nr, names, slot) || kvpy_u32(slot[2], &op) ||
	    get_prefix(self, slot[1], slot + 3, &prefix))
		return NULL;
	if (!kvpy_ids(slot[0], 0, &ids)) {
		if (ids.nr == (Py_ssize_t)prefix.prefix.nr)
			refs = refs_of(self, &ids);
		else
			PyErr_Format(PyExc_ValueError, "%zd ids, but %u keys", ids.nr,
				     prefix.prefix.nr);
		if (refs)
			answer = none_or("kvmm_names_change",
					 change_names(self, &prefix.prefix, refs, op));
		free(refs);
		kvpy_end(&ids);
	}
	end_prefix(&prefix);
	return answer;
}

/* get(), touch(), put(), take(): ids, and what may be said with them. */
static PyObject *by_ids(struct kvpy_pool *self, const char *const *known, PyObject *const *args,
			Py_ssize_t nr, PyObject *names, const uint32_t *bits,
			int (*call)(struct kvmm_pool *, const int32_t *, uint32_t, uint32_t, uint32_t))
{
	PyObject *slot[4];
	struct kvpy_array ids;
	uint32_t flags = 0, tenant = 0;
	int err;

	if (kvpy_args(known, 1, args, nr, names, slot) || !kvpy_pool_of(self))
		return NULL;
	for (int i = 1; known[i + 1]; i++) {
		int on = 0;

		if (!bits[i - 1]) {
			if (kvpy_u32(slot[i], &tenant))
				return NULL;
			continue;
		}
		if (slot[i])
			on = PyObject_IsTrue(slot[i]);
		if (on < 0)
			return NULL;
		flags |= on ? bits[i - 1] : 0;
	}
	if (kvpy_ids(slot[0], 0, &ids))
		return NULL;
	err = call(self->pool, ids.data, (uint32_t)ids.nr, flags, tenant);
	kvpy_end(&ids);
	return none_or(known[0], err);
}

static int do_get(struct kvmm_pool *pool, const int32_t *ids, uint32_t nr, uint32_t flags,
		  uint32_t tenant)
{
	return kvmm_ids_get(pool, ids, nr, flags);
}

static int do_touch(struct kvmm_pool *pool, const int32_t *ids, uint32_t nr, uint32_t flags,
		    uint32_t tenant)
{
	return kvmm_ids_touch(pool, ids, nr);
}

static int do_put(struct kvmm_pool *pool, const int32_t *ids, uint32_t nr, uint32_t flags,
		  uint32_t tenant)
{
	return kvmm_ids_put(pool, ids, nr, flags);
}

static int do_take(struct kvmm_pool *pool, const int32_t *ids, uint32_t nr, uint32_t flags,
		   uint32_t tenant)
{
	return kvmm_ids_take(pool, ids, nr, tenant, flags);
}

#define BY_IDS(name, ...)								\
static PyObject *pool_##name(struct kvpy_pool *self, PyObject *const *args, Py_ssize_t nr,	\
			     PyObject *names)						\
{											\
	static const uint32_t bits[] = { __VA_ARGS__ };					\
											\
	return by_ids(self, name##_known, args, nr, names, bits, do_##name);		\
}

static const char *const get_known[] = { "get", "ids", "inactive", NULL };
static const char *const touch_known[] = { "touch", "ids", NULL };
static const char *const put_known[] = { "put", "ids", "first_out", "park", NULL };
static const char *const take_known[] = { "take", "ids", "parked", "tenant", NULL };

BY_IDS(get, KVMM_IDS_INACTIVE)
BY_IDS(touch, 0)
BY_IDS(put, KVMM_IDS_FIRST_OUT, KVMM_IDS_PARK)
BY_IDS(take, KVMM_IDS_PARKED, 0)

static PyObject *pool_info(struct kvpy_pool *self, PyObject *object)
{
	static const struct kvpy_field fields[] = {
		KVPY_FIELD(struct kvmm_id_info, state), KVPY_FIELD(struct kvmm_id_info, refs),
		KVPY_FIELD(struct kvmm_id_info, pins), KVPY_FIELD(struct kvmm_id_info, tokens),
		KVPY_FIELD(struct kvmm_id_info, position),
	};
	struct kvmm_id_info info;
	struct kvpy_array ids;
	PyObject *list;

	if (!kvpy_pool_of(self) || kvpy_ids(object, 0, &ids))
		return NULL;
	list = PyList_New(ids.nr);
	for (Py_ssize_t i = 0; list && i < ids.nr; i++) {
		int err = kvmm_ids_info(self->pool, (int32_t *)ids.data + i, 1, &info);
		PyObject *dict, *key = NULL;

		if (err) {
			kvpy_raise("kvmm_ids_info", err);
			Py_CLEAR(list);
			break;
		}
		dict = kvpy_dict(&info, fields, KVPY_NR(fields));
		if (dict)
			key = PyBytes_FromStringAndSize((char *)info.key.byte, sizeof(info.key));
		if (!key || PyDict_SetItemString(dict, "key", key)) {
			Py_XDECREF(dict);
			Py_CLEAR(list);
		} else if (PyList_SetItem(list, i, dict)) {		/* takes dict in any case */
			Py_CLEAR(list);
		}
		Py_XDECREF(key);
	}
	kvpy_end(&ids);
	return list;
}

static PyObject *pool_evict(struct kvpy_pool *self, PyObject *object)
{
	struct kvpy_array ids;
	int nr;

	if (!kvpy_pool_of(self) || kvpy_ids(object, 0, &ids))
		return NULL;
	nr = kvmm_evict_blocks(self->pool, ids.data, (uint32_t)ids.nr);
	kvpy_end(&ids);
	return nr < 0 ? kvpy_raise("kvmm_evict_blocks", nr) : PyLong_FromLong(nr);
}

static PyObject *pool_reset(struct kvpy_pool *self, PyObject *const *args, Py_ssize_t nr,
			    PyObject *names)
{
	static const char *const known[] = { "reset", "inactive_only", NULL };
	PyObject *slot[1];
	int inactive, done;

	if (kvpy_args(known, 0, args, nr, names, slot) || !kvpy_pool_of(self))
		return NULL;
	inactive = slot[0] ? PyObject_IsTrue(slot[0]) : 0;
	if (inactive < 0)
		return NULL;
	KVPY_UNLOCK(self)
	done = kvmm_forget_cached(self->pool, inactive ? 0 : KVMM_FORGET_ALL, NULL);
	KVPY_LOCK(self)
	return done < 0 ? kvpy_raise("kvmm_forget_cached", done) : PyLong_FromLong(done);
}

/* ---- content ---- */

static PyObject *content(struct kvpy_pool *self, PyObject *const *args, Py_ssize_t nr,
			 PyObject *names, const char *const *known, int write)
{
	PyObject *slot[3];
	struct kvpy_array bytes;
	uint64_t offset = 0;
	uint32_t id = 0;
	int err;

	if (kvpy_args(known, 2, args, nr, names, slot) || kvpy_u32(slot[0], &id) ||
	    kvpy_u64(slot[2], UINT64_MAX, &offset) || !kvpy_pool_of(self) ||
	    kvpy_bytes(slot[1], !write, &bytes))
		return NULL;
	KVPY_UNLOCK(self)
	err = write ? kvmm_block_write(self->pool, id, offset, bytes.data, (size_t)bytes.nr) :
		      kvmm_block_read(self->pool, id, offset, bytes.data, (size_t)bytes.nr);
	KVPY_LOCK(self)
	kvpy_end(&bytes);
	return none_or(known[0], err);
}

static PyObject *pool_write(struct kvpy_pool *self, PyObject *const *args, Py_ssize_t nr,
			    PyObject *names)
{
	static const char *const known[] = { "write", "id", "data", "offset", NULL };

	return content(self, args, nr, names, known, 1);
}

static PyObject *pool_read_into(struct kvpy_pool *self, PyObject *const *args, Py_ssize_t nr,
				PyObject *names)
{
	static const char *const known[] = { "read_into", "id", "out", "offset", NULL };

	return content(self, args, nr, names, known, 0);
}

/* ---- numbers ---- */

static PyObject *pool_stat(struct kvpy_pool *self, PyObject *none)
{
	static const struct kvpy_field fields[] = {
		KVPY_FIELD(struct kvmm_pool_stat, nr_blocks), KVPY_FIELD(struct kvmm_pool_stat, nr_free),
		KVPY_FIELD(struct kvmm_pool_stat, nr_inactive),
		KVPY_FIELD(struct kvmm_pool_stat, nr_available),
		KVPY_FIELD(struct kvmm_pool_stat, nr_ranges), KVPY_FIELD(struct kvmm_pool_stat, largest),
		KVPY_FIELD(struct kvmm_pool_stat, nr_runs),
		KVPY_FIELD(struct kvmm_pool_stat, block_tokens),
		KVPY_FIELD(struct kvmm_pool_stat, block_bytes), KVPY_FIELD(struct kvmm_pool_stat, allocs),
		KVPY_FIELD(struct kvmm_pool_stat, frees), KVPY_FIELD(struct kvmm_pool_stat, fail_nospc),
		KVPY_FIELD(struct kvmm_pool_stat, fail_frag),
		KVPY_FIELD(struct kvmm_pool_stat, evictions),
		KVPY_FIELD(struct kvmm_pool_stat, hit_blocks),
		KVPY_FIELD(struct kvmm_pool_stat, miss_blocks),
		KVPY_FIELD(struct kvmm_pool_stat, registered),
		KVPY_FIELD(struct kvmm_pool_stat, duplicates),
		KVPY_FIELD(struct kvmm_pool_stat, compactions),
		KVPY_FIELD(struct kvmm_pool_stat, moved_blocks),
		KVPY_FIELD(struct kvmm_pool_stat, metadata_bytes),
	};
	struct kvmm_pool_stat stat;
	int err;

	if (!kvpy_pool_of(self))
		return NULL;
	err = kvmm_pool_get_stat(self->pool, &stat);
	return err ? kvpy_raise("kvmm_pool_stat_of", err) : kvpy_dict(&stat, fields, KVPY_NR(fields));
}

static PyObject *pool_validate(struct kvpy_pool *self, PyObject *none)
{
	int err;

	if (!kvpy_pool_of(self))
		return NULL;
	KVPY_UNLOCK(self)
	err = kvmm_validate(self->pool);
	KVPY_LOCK(self)
	return none_or("kvmm_validate", err);
}

static PyObject *pool_watermarks(struct kvpy_pool *self, PyObject *const *args, Py_ssize_t nr,
				 PyObject *names)
{
	static const char *const known[] = { "set_watermarks", "min", "low", "high", NULL };
	struct kvmm_watermarks marks = { 0, 0, 0 };
	PyObject *slot[3];

	if (kvpy_args(known, 3, args, nr, names, slot) || kvpy_u32(slot[0], &marks.min) ||
	    kvpy_u32(slot[1], &marks.low) || kvpy_u32(slot[2], &marks.high) || !kvpy_pool_of(self))
		return NULL;
	return none_or("kvmm_watermarks_set", kvmm_watermarks_set(self->pool, &marks));
}

static PyObject *pool_evict_for(struct kvpy_pool *self, PyObject *object)
{
	struct kvmm_evict_for_args room = { .size = sizeof(room) };
	int err;

	if (kvpy_u32(object, &room.nr_blocks) || !kvpy_pool_of(self))
		return NULL;
	err = kvmm_evict_for(self->pool, &room);
	return err ? kvpy_raise("kvmm_evict_for", err) : PyLong_FromUnsignedLong(room.nr_evicted);
}

static PyObject *pool_available(struct kvpy_pool *self, void *closure)
{
	int nr;

	if (!kvpy_pool_of(self))
		return NULL;
	nr = kvmm_pool_available(self->pool, NULL);
	return nr < 0 ? kvpy_raise("kvmm_pool_available", nr) : PyLong_FromLong(nr);
}

static PyObject *pool_nr_blocks(struct kvpy_pool *self, void *closure)
{
	return PyLong_FromUnsignedLong(self->nr_blocks);
}

static PyObject *pool_closed(struct kvpy_pool *self, void *closure)
{
	return PyBool_FromLong(!self->pool);
}

/* ---- tiers below, see tier.c ---- */

static PyObject *pool_attach(struct kvpy_pool *self, PyObject *const *args, Py_ssize_t nr,
			     PyObject *names)
{
	static const char *const known[] = { "attach", "tier", "layout_id", "write", "touches",
					     "verify_every", NULL };
	struct kvmm_tier_client_attr attr = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;
	struct kvmm_tier *tier;
	PyObject *slot[5];
	int err;

	if (kvpy_args(known, 1, args, nr, names, slot) || !kvpy_pool_of(self))
		return NULL;
	tier = kvpy_tier_of(slot[0]);
	if (!tier || kvpy_u64(slot[1], UINT64_MAX, &attr.layout_id) ||
	    kvpy_u32(slot[2], &config.write) || kvpy_u32(slot[3], &config.touches) ||
	    kvpy_u32(slot[4], &config.verify_every))
		return NULL;
	attr.flags = KVMM_TIER_COMPLETE;
	attr.config = &config;
	err = kvmm_tier_attach(self->pool, tier, &attr);
	if (err)
		return kvpy_raise("kvmm_tier_attach", err);
	Py_INCREF(slot[0]);
	Py_XDECREF(self->tier);
	self->tier = slot[0];
	Py_RETURN_NONE;
}

static PyObject *pool_poll(struct kvpy_pool *self, PyObject *none)
{
	int left;

	if (!kvpy_pool_of(self))
		return NULL;
	KVPY_UNLOCK(self)
	left = kvmm_tier_poll(self->pool);
	KVPY_LOCK(self)
	return left < 0 ? kvpy_raise("kvmm_tier_poll", left) : PyLong_FromLong(left);
}

static PyObject *pool_prefetch(struct kvpy_pool *self, PyObject *const *args, Py_ssize_t nr,
			       PyObject *names)
{
	static const char *const known[] = { "prefetch", "keys", PREFIX_NAMES, NULL };
	PyObject *slot[1 + NR_PREFIX];
	struct prefix_args prefix;
	int done;

	if (kvpy_args(known, 1, args, nr, names, slot) ||
	    get_prefix(self, slot[0], slot + 1, &prefix))
		return NULL;
	KVPY_UNLOCK(self)
	done = kvmm_tier_prefetch(self->pool, &prefix.prefix, 0);
	KVPY_LOCK(self)
	end_prefix(&prefix);
	return done < 0 ? kvpy_raise("kvmm_tier_load", done) : PyLong_FromLong(done);
}

/* How many blocks, from the first key on, lie on the device and in a tier below. */
static PyObject *pool_match_tiers(struct kvpy_pool *self, PyObject *const *args, Py_ssize_t nr,
				  PyObject *names)
{
	static const char *const known[] = { "match_tiers", "keys", PREFIX_NAMES, NULL };
	struct kvmm_tier_match_args match = { .size = sizeof(match) };
	PyObject *slot[1 + NR_PREFIX], *answer = NULL;
	struct prefix_args prefix;
	kvmm_ref_t *refs;
	int err;

	if (kvpy_args(known, 1, args, nr, names, slot) ||
	    get_prefix(self, slot[0], slot + 1, &prefix))
		return NULL;
	refs = malloc(sizeof(*refs) * (prefix.prefix.nr + 1));
	match.prefix = &prefix.prefix;
	match.refs = refs;
	err = refs ? kvmm_tier_match(self->pool, &match) : -ENOMEM;
	if (err >= 0 && match.nr_device)
		err = kvmm_put_many(self->pool, refs, match.nr_device);
	if (err < 0)
		kvpy_raise("kvmm_tier_match", err);
	else
		answer = Py_BuildValue("II", match.nr_device, match.nr_lower);
	free(refs);
	end_prefix(&prefix);
	return answer;
}

#define FAST(name, doc)	{ #name, (PyCFunction)(void (*)(void))pool_##name, \
			  METH_FASTCALL | METH_KEYWORDS, doc }
#define PREFIX_DOC	"position=0, parent=None, tenant=0, layout=0, group=0"

static PyMethodDef pool_methods[] = {
	FAST(alloc, "alloc(nr, tenant=0, out=None) -> list[int]\n\nnr private blocks: free ones, then "
	     "evicted ones. With out, a writable int32 buffer, fills that and returns nr.\n"
	     "Raises NoSpace: nothing was taken."),
	FAST(register, "register(ids, keys, " PREFIX_DOC ", out=None) -> list[int]\n\nNames full "
	     "private blocks; each has one reference then. Returns the ids to use from here on: with "
	     "dup=REJECT the older block of a name that was taken. With out, which may be ids, fills "
	     "that and returns how many."),
	FAST(find, "find(keys, all=False, " PREFIX_DOC ", out=None) -> list[int]\n\nThe longest "
	     "cached prefix, one reference each. With all: an id for each key, NO_ID where it is not "
	     "cached. With out, which has room for an id for each key, fills that and returns how "
	     "many."),
	FAST(probe, "probe(keys, " PREFIX_DOC ") -> int\n\nHow many leading keys are cached. Takes and "
	     "changes nothing."),
	FAST(peek, "peek(keys, all=False, " PREFIX_DOC ") -> list[int]\n\nWhere keys lie, as find(), but "
	     "takes no reference and changes nothing."),
	{ "unpublish", (PyCFunction)pool_unpublish, METH_O, "unpublish(ids)\n\nRegistered blocks with "
	  "this one reference are private again, and their names gone." },
	FAST(name, "name(ids, keys, op=NAME_ADD, " PREFIX_DOC ")\n\nOne more name for each referenced "
	     "block, another first name (NAME_RENAME), or one less (NAME_REMOVE)."),
	FAST(get, "get(ids, inactive=False)\n\nOne more reference each; with inactive also of blocks "
	     "that have none."),
	FAST(touch, "touch(ids)\n\nUsed now: as a hit for the order of eviction, but no reference."),
	FAST(put, "put(ids, first_out=False, park=False)\n\nDrops a reference of registered blocks and "
	     "frees private ones. The last id is evicted first; the first with first_out. With park the "
	     "content of private blocks stays until the memory is reused."),
	FAST(take, "take(ids, parked=False, tenant=0)\n\nExactly these blocks become private, if they "
	     "are free or evictable."),
	{ "info", (PyCFunction)pool_info, METH_O, "info(ids) -> list[dict]\n\nState, references, pins, "
	  "tokens, position and key of each block." },
	{ "evict", (PyCFunction)pool_evict, METH_O, "evict(ids) -> int\n\nForgets the names of these "
	  "blocks; returns how many had one." },
	{ "evict_for", (PyCFunction)pool_evict_for, METH_O, "evict_for(nr) -> int\n\nEvicts until nr "
	  "blocks are free; returns how many were evicted." },
	FAST(reset, "reset(inactive_only=False) -> int\n\nForgets every cached block in every tier: for "
	     "a change of weights. Raises Busy if any block is held."),
	FAST(write, "write(id, data, offset=0)\n\nCopies bytes into a private block, and waits."),
	FAST(read_into, "read_into(id, out, offset=0)\n\nCopies bytes of a block into a writable "
	     "buffer, and waits."),
	{ "stat", (PyCFunction)pool_stat, METH_NOARGS, "stat() -> dict[str, int]\n\nA coherent "
	  "snapshot; blocks, bytes and counts since creation." },
	{ "validate", (PyCFunction)pool_validate, METH_NOARGS, "validate()\n\nRecomputes every count "
	  "of the pool; raises Error if one is wrong." },
	{ "set_watermarks", (PyCFunction)(void (*)(void))pool_watermarks,
	  METH_FASTCALL | METH_KEYWORDS, "set_watermarks(min, low, high)\n\nFree blocks that are kept "
	  "back." },
	FAST(attach, "attach(tier, layout_id=0, write=WRITE_SELECTIVE, touches=2, verify_every=1)\n\n"
	     "Copies of this pool's blocks go down to tier from here on."),
	{ "poll", (PyCFunction)pool_poll, METH_NOARGS, "poll() -> int\n\nEnds copies that are complete "
	  "and begins others, once a step; returns how many are under way." },
	FAST(prefetch, "prefetch(keys, " PREFIX_DOC ") -> int\n\nBegins to load what tiers below have "
	     "of this prefix; returns how many blocks are on their way."),
	FAST(match_tiers, "match_tiers(keys, " PREFIX_DOC ") -> tuple[int, int]\n\nLeading blocks on "
	     "the device, and behind these in tiers below."),
	{ "close", (PyCFunction)pool_close, METH_NOARGS, "close()\n\nFrees the pool with all that is "
	  "held in it; a second call does nothing." }, KVPY_WITH
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef pool_getset[] = {
	{ "available", (getter)pool_available, NULL, "blocks that are free or evictable", NULL },
	{ "nr_blocks", (getter)pool_nr_blocks, NULL, "blocks, the null block included", NULL },
	{ "closed", (getter)pool_closed, NULL, "is it closed", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot pool_slots[] = {
	{ Py_tp_new, pool_new }, KVPY_FINALIZE(pool), { Py_tp_traverse, pool_traverse },
	{ Py_tp_clear, pool_clear }, { Py_tp_methods, pool_methods },
	{ Py_tp_getset, pool_getset },
	{ Py_tp_doc, "Pool(nr_blocks, **options)\n\nThe blocks of one KV cache group on one device." },
	{ 0, NULL },
};

static PyType_Spec pool_spec = {
	"kvmm.Pool", sizeof(struct kvpy_pool), 0, KVPY_GC, pool_slots,
};

int kvpy_add_pool(PyObject *module)
{
	static const struct { const char *name; long value; } numbers[] = {
		{ "NAME_ADD", KVMM_NAME_ADD }, { "NAME_RENAME", KVMM_NAME_RENAME },
		{ "NAME_REMOVE", KVMM_NAME_REMOVE }, { "DUP_ALLOW", KVMM_DUP_ALLOW }, { "DUP_HOLD", KVMM_DUP_HOLD },
		{ "DUP_REJECT", KVMM_DUP_REJECT }, { "FREE", KVMM_BLOCK_FREE },
		{ "PRIVATE", KVMM_BLOCK_PRIVATE }, { "ACTIVE", KVMM_BLOCK_ACTIVE },
		{ "INACTIVE", KVMM_BLOCK_INACTIVE }, { "WRITE_SELECTIVE", KVMM_TIER_SELECTIVE },
		{ "WRITE_EXPLICIT", KVMM_TIER_EXPLICIT }, { "WRITE_THROUGH", KVMM_TIER_THROUGH },
		{ "WRITE_BACK", KVMM_TIER_BACK }, { "WRITE_THRESHOLD", KVMM_TIER_THRESHOLD },
	};

	for (size_t i = 0; i < KVPY_NR(numbers); i++)
		if (PyModule_AddIntConstant(module, numbers[i].name, numbers[i].value))
			return -1;
	kvpy_pool_type = kvpy_add_type(module, &pool_spec, "Pool");
	return kvpy_pool_type ? 0 : -1;
}
