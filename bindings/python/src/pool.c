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

struct kvmm_pool *kvpy_pool_of(struct kvpy_pool *self)
{
	if (!self->pool)
		PyErr_SetString(PyExc_ValueError, "the pool is closed");
	return self->pool;
}

/* ---- making and closing ---- */

/* What Pool() makes of its options. */
struct making {
	struct kvmm_pool_attr attr;
	struct kvmm_evict_attr evict;
	uint32_t key_bytes;
	uint32_t digests;
	PyObject *planes, *memory;	/* borrowed, as all that options have */
};

/* An option: text, a number up to @most, a bit of 32, or the object itself. */
struct option {
	const char *name;
	uint16_t at;
	uint8_t bytes;			/* of a number; 0: none */
	uint8_t is_text;
	uint64_t most;
	uint32_t bit;
};

#define PLACE(name, field)	#name, offsetof(struct making, field)
#define TEXT(name)		{ PLACE(name, attr.name), .is_text = 1 }
#define LESS(name, field, up)	{ PLACE(name, field), sizeof(((struct making *)0)->field), .most = up }
#define U64(name)		LESS(name, attr.name, UINT64_MAX)
#define U32(name, field)	LESS(name, field, UINT32_MAX)
#define FLAG(name, field, mask)	{ PLACE(name, field), .bit = mask }

static const struct option options_known[] = {
	TEXT(name), TEXT(device), TEXT(allocator), TEXT(policy), TEXT(compactor), U64(block_bytes),
	U64(seed), U32(block_tokens, attr.block_tokens), U32(dup, attr.dup_policy),
	U32(run_window, evict.run_window), U32(max_pins, evict.max_pins),
	LESS(key_bytes, key_bytes, KVMM_KEY_MAX_NAME), FLAG(digests, digests, 1),
	FLAG(null_block, attr.flags, KVMM_POOL_NULL_BLOCK),
	FLAG(deterministic, attr.flags, KVMM_POOL_DETERMINISTIC),
	FLAG(no_magazines, attr.flags, KVMM_POOL_NO_MAGAZINES),
	FLAG(order_as_put, attr.flags, KVMM_POOL_ORDER_AS_PUT),
	{ PLACE(planes, planes) }, { PLACE(memory, memory) },
};

static int take_text(const struct option *option, PyObject *object, const char **text)
{
	Py_ssize_t len = 0;

	*text = strcmp(option->name, "device") ? NULL : kvpy_device_name(object);
	if (*text)
		return 0;
	*text = PyUnicode_AsUTF8AndSize(object, &len);
	if (*text && strlen(*text) != (size_t)len)
		return KVPY_REFUSE(PyExc_ValueError, "a null character in '%s'", option->name);
	return *text ? 0 : -1;
}

static int take_option(const struct option *option, PyObject *object, void *place)
{
	uint64_t number = 0;
	int on;

	if (object == Py_None)
		return 0;
	if (option->is_text)
		return take_text(option, object, place);
	if (option->bytes) {
		if (kvpy_u64(object, option->most, &number))
			return -1;
		memcpy(place, &number, option->bytes);		/* little endian */
		return 0;
	}
	if (!option->bit) {
		*(PyObject **)place = object;
		return 0;
	}
	on = PyObject_IsTrue(object);
	if (on > 0)
		*(uint32_t *)place |= option->bit;
	return on < 0 ? -1 : 0;
}

static int take_options(PyObject *options, struct making *making)
{
	PyObject *key, *value;
	Py_ssize_t at = 0;

	while (options && PyDict_Next(options, &at, &key, &value)) {
		size_t i = 0;

		if (!PyUnicode_Check(key))
			return KVPY_REFUSE(PyExc_TypeError, "names of options are strings");
		while (i < KVPY_NR(options_known) &&
		       PyUnicode_CompareWithASCIIString(key, options_known[i].name))
			i++;
		if (i == KVPY_NR(options_known))
			return KVPY_REFUSE(PyExc_TypeError, "Pool() has no option '%U'", key);
		if (take_option(&options_known[i], value, (char *)making + options_known[i].at))
			return -1;
	}
	return 0;
}

/* planes = [(base, stride, bytes), ...]: memory of the caller. */
static int planes_of(PyObject *list, struct kvpy_array *planes)
{
	Py_ssize_t nr = list ? PySequence_Size(list) : 0;
	struct kvmm_plane *plane = nr < 0 ? NULL : kvpy_space(planes, nr, sizeof(*plane));

	for (Py_ssize_t i = 0; plane && i < nr; i++) {
		PyObject *item = PySequence_GetItem(list, i);
		uint64_t base, stride, bytes;
		int ok = item && PyArg_ParseTuple(item, "O&O&O&;a plane is (base, stride, bytes)",
						  kvpy_to_u64, &base, kvpy_to_u64, &stride,
						  kvpy_to_u64, &bytes);

		Py_XDECREF(item);
		if (!ok) {
			kvpy_end(planes);
			return -1;
		}
		plane[i] = (struct kvmm_plane){ base, stride, bytes };
	}
	return plane ? 0 : -1;
}

static int create(struct kvpy_pool *self, uint64_t nr_blocks, PyObject *options)
{
	struct making making = { KVMM_POOL_ATTR_INIT, { .size = sizeof(making.evict) },
				 sizeof(kvmm_key_t) };
	struct kvmm_pool_attr *attr = &making.attr;
	struct kvpy_array planes;
	int err = -EINVAL;

	attr->compactor = "off";	/* ids stay what they are */
	if (take_options(options, &making) || planes_of(making.planes, &planes))
		return -1;
	attr->nr_blocks = (uint32_t)nr_blocks;
	attr->planes = planes.nr ? planes.data : NULL;
	attr->nr_planes = (uint32_t)planes.nr;
	attr->evict = &making.evict;
	if (!making.key_bytes || making.key_bytes >= KVMM_KEY_MIN_NAME)
		err = kvmm_pool_create(attr, &self->pool);
	kvpy_end(&planes);
	if (err) {
		kvpy_raise("kvmm_pool_create", err);
		return -1;
	}
	self->key_bytes = making.key_bytes;
	self->are_digests = making.digests;
	self->nr_blocks = attr->nr_blocks;
	self->memory = making.memory;
	Py_XINCREF(self->memory);
	return 0;
}

static PyObject *pool_new(PyTypeObject *type, PyObject *args, PyObject *options)
{
	struct kvpy_pool *self;
	uint64_t nr_blocks;

	if (!PyArg_ParseTuple(args, "O&:Pool", kvpy_to_u64, &nr_blocks))
		return NULL;
	if (nr_blocks > KVMM_MAX_BLOCKS)
		return PyErr_Format(PyExc_ValueError, "a pool has at most %u blocks", KVMM_MAX_BLOCKS);
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

/* What methods with named arguments are given. */
#define NAMED_ARGS	struct kvpy_pool *self, PyObject *const *args, Py_ssize_t nr, PyObject *names

/* A method of this name, by a function that does several. */
#define NAMED(name, least, given, how, ...)							\
static PyObject *pool_##name(NAMED_ARGS)							\
{												\
	KVPY_THIS_CALL(name, least, given);							\
												\
	return how(self, args, nr, names, &this_call, __VA_ARGS__);					\
}
#define OF(...)	__VA_ARGS__

static PyObject *pool_alloc(NAMED_ARGS)
{
	KVPY_THIS_CALL(alloc, 1, "nr", "tenant", "out");
	PyObject *slot[3], *answer;
	struct kvpy_array ids;
	uint32_t want = 0, tenant = 0;
	int err;

	if (kvpy_args(&this_call, args, nr, names, slot) || kvpy_u32(slot[0], &want) ||
	    kvpy_u32(slot[1], &tenant) || !kvpy_pool_of(self))
		return NULL;
	if (want > self->nr_blocks)
		return kvpy_raise("kvmm_ids_alloc", -ENOSPC);
	if (kvpy_room(slot[2], want, &ids))
		return NULL;
	err = kvmm_ids_alloc(self->pool, want, tenant, ids.data);
	answer = err ? kvpy_raise("kvmm_ids_alloc", err) : kvpy_ids_to(slot[2], &ids, want);
	if (!err && !answer)
		kvmm_ids_put(self->pool, ids.data, want, 0);
	kvpy_end(&ids);
	return answer;
}

/* The arguments behind the keys of a prefix. */
#define PREFIX_NAMES	"position", "parent", "tenant", "layout", "group"
#define NR_PREFIX	5

struct prefix_call {
	PyObject *slot[4 + NR_PREFIX];
	struct kvmm_prefix prefix;
	struct kvpy_array keys;
	struct kvpy_array parent;
};

typedef PyObject *prefix_fn(struct kvpy_pool *self, struct prefix_call *call);

/* @slot: of the first argument behind the keys. */
static int get_prefix(struct kvpy_pool *self, PyObject *keys, PyObject **slot,
		      struct prefix_call *call)
{
	uint64_t layout = 0, group = 0;
	struct kvmm_prefix *prefix = &call->prefix;

	memset(prefix, 0, sizeof(*prefix));
	if (!kvpy_pool_of(self) || kvpy_u32(slot[0], &prefix->position) ||
	    kvpy_u32(slot[2], &prefix->domain.tenant) || kvpy_u64(slot[3], UINT16_MAX, &layout) ||
	    kvpy_u64(slot[4], UINT16_MAX, &group) || kvpy_keys(keys, self, &call->keys))
		return -1;
	if (kvpy_keys(slot[1], self, &call->parent)) {
		kvpy_end(&call->keys);
		return -1;
	}
	prefix->parent = call->parent.data;
	prefix->keys = call->keys.data;
	prefix->nr = (uint32_t)call->keys.nr;
	prefix->domain.layout = (uint16_t)layout;
	prefix->domain.group = (uint16_t)group;
	return 0;
}

/* The keys are the last argument that must be given, the others are from @first on. */
static PyObject *with_prefix(NAMED_ARGS, struct kvpy_call *how, unsigned int first,
			     prefix_fn *fn)
{
	struct prefix_call call;
	PyObject *answer = NULL;

	if (kvpy_args(how, args, nr, names, call.slot) ||
	    get_prefix(self, call.slot[how->least - 1], call.slot + first, &call))
		return NULL;
	if (call.slot[first + 1] && call.parent.nr != 1)
		PyErr_SetString(PyExc_ValueError, "parent is one key");
	else if (kvpy_pool_of(self))		/* keys in lists of the caller's may have run Python */
		answer = fn(self, &call);
	kvpy_end(&call.keys);
	kvpy_end(&call.parent);
	return answer;
}

static PyObject *do_register(struct kvpy_pool *self, struct prefix_call *call)
{
	PyObject *out = call->slot[2 + NR_PREFIX], *answer = NULL;
	int in_place = out == call->slot[0], err;
	struct kvpy_array ids, to;

	if (kvpy_room(in_place ? NULL : out, call->prefix.nr, &to))
		return NULL;
	if (kvpy_ids(call->slot[0], in_place, &ids))
		goto end;
	if (ids.nr != call->prefix.nr) {
		PyErr_Format(PyExc_ValueError, "%zd ids, but %u keys", ids.nr, call->prefix.nr);
	} else if (in_place || kvpy_own(&ids)) {
		err = kvmm_ids_register(self->pool, &call->prefix, ids.data, 0);
		if (!err && out && !in_place && ids.nr)
			memcpy(to.data, ids.data, (size_t)ids.nr * sizeof(int32_t));
		answer = err ? kvpy_raise("kvmm_ids_register", err) : kvpy_ids_to(out, &ids, ids.nr);
	}
	kvpy_end(&ids);
end:
	kvpy_end(&to);
	return answer;
}

static PyObject *do_find(struct kvpy_pool *self, struct prefix_call *call)
{
	PyObject *out = call->slot[2 + NR_PREFIX], *answer;
	int all = call->slot[1] ? PyObject_IsTrue(call->slot[1]) : 0, hits;
	uint32_t nr = call->prefix.nr;
	struct kvpy_array ids;

	if (all < 0 || kvpy_room(out, nr, &ids))
		return NULL;
	hits = kvmm_ids_find(self->pool, &call->prefix, ids.data, all ? KVMM_FIND_ALL : 0);
	answer = hits < 0 ? kvpy_raise("kvmm_ids_find", hits) :
			    kvpy_ids_to(out, &ids, all ? nr : (uint32_t)hits);
	for (uint32_t i = 0; !answer && i < nr; i++) {
		int32_t *id = (int32_t *)ids.data + i;

		if (all ? hits >= 0 && *id != KVMM_NO_ID : (int)i < hits)
			kvmm_ids_put(self->pool, id, 1, 0);
	}
	kvpy_end(&ids);
	return answer;
}

static PyObject *do_probe(struct kvpy_pool *self, struct prefix_call *call)
{
	return kvpy_number_or("kvmm_prefix_probe", kvmm_prefix_len(self->pool, &call->prefix));
}

/* Where keys lie: no reference, nothing changes. */
static PyObject *do_peek(struct kvpy_pool *self, struct prefix_call *call)
{
	int all = call->slot[1] ? PyObject_IsTrue(call->slot[1]) : 0;
	struct kvpy_array blocks;
	PyObject *out = call->slot[2 + NR_PREFIX], *answer = NULL;
	struct kvpy_array ids;
	Py_ssize_t nr;
	int hits;

	if (all < 0 || kvpy_room(out, out ? call->prefix.nr : 0, &ids))
		return NULL;
	hits = kvpy_peek(self, &call->prefix, all, &blocks);
	if (hits >= 0) {
		nr = all ? (Py_ssize_t)call->prefix.nr : hits;
		if (out)
			memcpy(ids.data, blocks.data, (size_t)nr * sizeof(int32_t));
		answer = kvpy_ids_to(out, &blocks, nr);
		kvpy_end(&blocks);
	}
	kvpy_end(&ids);
	return answer;
}

int kvpy_peek(struct kvpy_pool *pool, const struct kvmm_prefix *prefix, int all,
	      struct kvpy_array *blocks)
{
	kvmm_weak_t *weak = kvpy_space(blocks, prefix->nr, sizeof(*weak) + sizeof(uint32_t));
	int hits;

	if (!weak)
		return -1;
	blocks->data = weak + prefix->nr;
	hits = kvmm_prefix_peek(pool->pool, prefix, weak, blocks->data, all ? KVMM_FIND_ALL : 0);
	if (hits < 0) {
		kvpy_end(blocks);
		kvpy_raise("kvmm_prefix_peek", hits);
	}
	return hits;
}

/* The handles behind ids, as references, to be ended, with room for as many behind them; NULL with
 * an exception. They take the place of what is known of the ids, first by first. */
static kvmm_ref_t *refs_of(struct kvpy_pool *self, const struct kvpy_array *ids,
			   struct kvpy_array *refs)
{
	struct kvmm_id_info *info = kvpy_space(refs, ids->nr, sizeof(*info));
	kvmm_ref_t *ref = refs->data;
	int err;

	if (!info)
		return NULL;
	err = kvmm_ids_info(self->pool, ids->data, (uint32_t)ids->nr, info);
	for (Py_ssize_t i = 0; !err && i < ids->nr; i++) {
		kvmm_weak_t handle = info[i].handle;

		ref[i] = (kvmm_ref_t){ handle.index, handle.gen };
	}
	if (!err)
		return ref;
	kvpy_end(refs);
	kvpy_raise("kvmm_ids_info", err);
	return NULL;
}

static PyObject *pool_unpublish(struct kvpy_pool *self, PyObject *object)
{
	struct kvpy_array ids, array;
	kvmm_ref_t *refs;
	int err = 0;

	if (!kvpy_pool_of(self) || kvpy_ids(object, 0, &ids))
		return NULL;
	refs = refs_of(self, &ids, &array);
	if (refs) {
		err = kvmm_unpublish(self->pool, refs, (uint32_t)ids.nr, (kvmm_mut_t *)(refs + ids.nr));
		kvpy_end(&array);
	}
	kvpy_end(&ids);
	return refs ? kvpy_none_or("kvmm_unpublish", err) : NULL;
}

static PyObject *change_names(struct kvpy_pool *self, const struct kvmm_prefix *prefix,
			      const kvmm_ref_t *refs, uint32_t op)
{
	struct kvpy_array array;
	struct kvmm_name *names = kvpy_space(&array, prefix->nr, sizeof(*names));
	int err;

	if (!names)
		return NULL;
	for (uint32_t i = 0; i < prefix->nr; i++)
		names[i] = (struct kvmm_name){ prefix->keys[i], prefix->domain, prefix->position + i };
	err = kvmm_names_change(self->pool, names, refs, prefix->nr, op);
	kvpy_end(&array);
	return kvpy_none_or("kvmm_names_change", err);
}

static PyObject *do_name(struct kvpy_pool *self, struct prefix_call *call)
{
	struct kvpy_array ids, array;
	uint32_t op = KVMM_NAME_ADD;
	PyObject *answer = NULL;
	kvmm_ref_t *refs;

	if (kvpy_u32(call->slot[2], &op) || kvpy_ids(call->slot[0], 0, &ids))
		return NULL;
	if (ids.nr != call->prefix.nr) {
		PyErr_Format(PyExc_ValueError, "%zd ids, but %u keys", ids.nr, call->prefix.nr);
		refs = NULL;
	} else {
		refs = refs_of(self, &ids, &array);
	}
	if (refs) {
		answer = change_names(self, &call->prefix, refs, op);
		kvpy_end(&array);
	}
	kvpy_end(&ids);
	return answer;
}

NAMED(register, 2, OF("ids", "keys", PREFIX_NAMES, "out"), with_prefix, 2, do_register)
NAMED(find, 1, OF("keys", "all", PREFIX_NAMES, "out"), with_prefix, 2, do_find)
NAMED(probe, 1, OF("keys", PREFIX_NAMES), with_prefix, 1, do_probe)
NAMED(peek, 1, OF("keys", "all", PREFIX_NAMES, "out"), with_prefix, 2, do_peek)
NAMED(name, 2, OF("ids", "keys", "op", PREFIX_NAMES), with_prefix, 3, do_name)

/* get(), touch(), put(), take(): ids, and what may be said with them: flags, or 0: the tenant. */
typedef int ids_fn(struct kvmm_pool *, const int32_t *, uint32_t, uint32_t, uint32_t);

static PyObject *by_ids(NAMED_ARGS, struct kvpy_call *call, ids_fn *fn, uint32_t first,
			uint32_t second)
{
	const uint32_t bits[] = { first, second };
	uint32_t flags = 0, tenant = 0;
	struct kvpy_array ids;
	PyObject *slot[3];
	int err;

	if (kvpy_args(call, args, nr, names, slot) || !kvpy_pool_of(self))
		return NULL;
	for (unsigned int i = 0; i + 1 < call->most; i++) {
		int on = bits[i] && slot[i + 1] ? PyObject_IsTrue(slot[i + 1]) : 0;

		if (on < 0 || (!bits[i] && kvpy_u32(slot[i + 1], &tenant)))
			return NULL;
		flags |= on ? bits[i] : 0;
	}
	if (kvpy_ids(slot[0], 0, &ids))
		return NULL;
	err = fn(self->pool, ids.data, (uint32_t)ids.nr, flags, tenant);
	kvpy_end(&ids);
	return kvpy_none_or(call->name, err);
}

#define BY_IDS(name, ...)									\
static int do_##name(struct kvmm_pool *pool, const int32_t *ids, uint32_t nr, uint32_t flags,	\
		     uint32_t tenant)								\
{												\
	return kvmm_ids_##name(pool, ids, nr __VA_OPT__(,) __VA_ARGS__);			\
}

BY_IDS(get, flags)
BY_IDS(touch)
BY_IDS(put, flags)
BY_IDS(take, tenant, flags)
NAMED(get, 1, OF("ids", "inactive"), by_ids, do_get, KVMM_IDS_INACTIVE, 0)
NAMED(touch, 1, "ids", by_ids, do_touch, 0, 0)
NAMED(put, 1, OF("ids", "first_out", "park"), by_ids, do_put, KVMM_IDS_FIRST_OUT, KVMM_IDS_PARK)
NAMED(take, 1, OF("ids", "parked", "tenant"), by_ids, do_take, KVMM_IDS_PARKED, 0)

#define INFO(name)	KVPY_FIELD(struct kvmm_id_info, name)

static PyObject *info_of(struct kvpy_pool *self, int32_t id)
{
	static const struct kvpy_field fields[] = {
		INFO(state), INFO(refs), INFO(pins), INFO(tokens), INFO(position),
	};
	struct kvmm_id_info info;
	int err = kvmm_ids_info(self->pool, &id, 1, &info);
	PyObject *dict = err ? kvpy_raise("kvmm_ids_info", err) :
			       kvpy_dict(&info, fields, KVPY_NR(fields));
	PyObject *key = dict ? PyBytes_FromStringAndSize((char *)info.key.byte, sizeof(info.key)) : NULL;

	if (dict && (!key || PyDict_SetItemString(dict, "key", key)))
		Py_CLEAR(dict);
	Py_XDECREF(key);
	return dict;
}

static PyObject *pool_info(struct kvpy_pool *self, PyObject *object)
{
	struct kvpy_array ids;
	PyObject *list;

	if (!kvpy_pool_of(self) || kvpy_ids(object, 0, &ids))
		return NULL;
	list = PyList_New(ids.nr);
	for (Py_ssize_t i = 0; list && i < ids.nr; i++) {
		PyObject *dict = info_of(self, ((int32_t *)ids.data)[i]);

		if (!dict || PyList_SetItem(list, i, dict))	/* takes dict in any case */
			Py_CLEAR(list);
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
	return kvpy_number_or("kvmm_evict_blocks", nr);
}

static PyObject *pool_reset(NAMED_ARGS)
{
	KVPY_THIS_CALL(reset, 0, "inactive_only");
	PyObject *slot[1];
	int inactive, done;

	if (kvpy_args(&this_call, args, nr, names, slot) || !kvpy_pool_of(self))
		return NULL;
	inactive = slot[0] ? PyObject_IsTrue(slot[0]) : 0;
	if (inactive < 0)
		return NULL;
	KVPY_UNLOCK(self)
	done = kvmm_forget_cached(self->pool, inactive ? 0 : KVMM_FORGET_ALL, NULL);
	KVPY_LOCK(self)
	return kvpy_number_or("kvmm_forget_cached", done);
}

/* ---- content ---- */

static PyObject *content(NAMED_ARGS, struct kvpy_call *call, int write)
{
	PyObject *slot[3];
	struct kvpy_array bytes;
	uint64_t offset = 0;
	uint32_t id = 0;
	int err;

	if (kvpy_args(call, args, nr, names, slot) || kvpy_u32(slot[0], &id) ||
	    kvpy_u64(slot[2], UINT64_MAX, &offset) || !kvpy_pool_of(self) ||
	    kvpy_bytes(slot[1], !write, &bytes))
		return NULL;
	KVPY_UNLOCK(self)
	err = write ? kvmm_block_write(self->pool, id, offset, bytes.data, (size_t)bytes.nr) :
		      kvmm_block_read(self->pool, id, offset, bytes.data, (size_t)bytes.nr);
	KVPY_LOCK(self)
	kvpy_end(&bytes);
	return kvpy_none_or(call->name, err);
}

NAMED(write, 2, OF("id", "data", "offset"), content, 1)
NAMED(read_into, 2, OF("id", "out", "offset"), content, 0)

/* ---- numbers ---- */

#define STAT(name)	KVPY_FIELD(struct kvmm_pool_stat, name)

static PyObject *pool_stat(struct kvpy_pool *self, PyObject *none)
{
	static const struct kvpy_field fields[] = {
		STAT(nr_blocks), STAT(nr_free), STAT(nr_inactive), STAT(nr_available), STAT(nr_ranges),
		STAT(largest), STAT(nr_runs), STAT(block_tokens), STAT(block_bytes), STAT(allocs),
		STAT(frees), STAT(fail_nospc), STAT(fail_frag), STAT(evictions), STAT(hit_blocks),
		STAT(miss_blocks), STAT(registered), STAT(duplicates), STAT(compactions),
		STAT(moved_blocks), STAT(metadata_bytes),
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
	return kvpy_none_or("kvmm_validate", err);
}

static PyObject *pool_set_watermarks(NAMED_ARGS)
{
	KVPY_THIS_CALL(set_watermarks, 3, "min", "low", "high");
	struct kvmm_watermarks marks = { 0, 0, 0 };
	PyObject *slot[3];

	if (kvpy_args(&this_call, args, nr, names, slot) || kvpy_u32(slot[0], &marks.min) ||
	    kvpy_u32(slot[1], &marks.low) || kvpy_u32(slot[2], &marks.high) || !kvpy_pool_of(self))
		return NULL;
	return kvpy_none_or("kvmm_watermarks_set", kvmm_watermarks_set(self->pool, &marks));
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
	if (!kvpy_pool_of(self))
		return NULL;
	return kvpy_number_or("kvmm_pool_available", kvmm_pool_available(self->pool, NULL));
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

static PyObject *pool_attach(NAMED_ARGS)
{
	KVPY_THIS_CALL(attach, 1, "tier", "layout_id", "write", "touches", "verify_every");
	struct kvmm_tier_client_attr attr = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;
	struct kvmm_tier *tier;
	PyObject *slot[5];
	int err;

	if (kvpy_args(&this_call, args, nr, names, slot) || !kvpy_pool_of(self))
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
	return kvpy_number_or("kvmm_tier_poll", left);
}

static PyObject *do_prefetch(struct kvpy_pool *self, struct prefix_call *call)
{
	int done;

	KVPY_UNLOCK(self)
	done = kvmm_tier_prefetch(self->pool, &call->prefix, 0);
	KVPY_LOCK(self)
	return kvpy_number_or("kvmm_tier_load", done);
}

/* How many blocks, from the first key on, lie on the device and in a tier below. */
static PyObject *do_match_tiers(struct kvpy_pool *self, struct prefix_call *call)
{
	struct kvmm_tier_match_args match = { .size = sizeof(match), .prefix = &call->prefix };
	struct kvpy_array refs;
	int err;

	if (!kvpy_space(&refs, call->prefix.nr, sizeof(kvmm_ref_t)))
		return NULL;
	match.refs = refs.data;
	err = kvmm_tier_match(self->pool, &match);
	if (err >= 0 && match.nr_device)
		err = kvmm_put_many(self->pool, match.refs, match.nr_device);
	kvpy_end(&refs);
	return err < 0 ? kvpy_raise("kvmm_tier_match", err) :
			 Py_BuildValue("II", match.nr_device, match.nr_lower);
}

NAMED(prefetch, 1, OF("keys", PREFIX_NAMES), with_prefix, 1, do_prefetch)
NAMED(match_tiers, 1, OF("keys", PREFIX_NAMES), with_prefix, 1, do_match_tiers)

#define FAST(name, doc)	KVPY_METHOD(pool, name, KVPY_NAMED, doc)
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
	FAST(peek, "peek(keys, all=False, " PREFIX_DOC ", out=None) -> list[int]\n\nWhere keys lie, as "
	     "find(), but takes no reference and changes nothing."),
	KVPY_METHOD(pool, unpublish, METH_O, "unpublish(ids)\n\nRegistered blocks with "
	  "this one reference are private again, and their names gone."),
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
	KVPY_METHOD(pool, info, METH_O, "info(ids) -> list[dict]\n\nState, references, pins, "
	  "tokens, position and key of each block."),
	KVPY_METHOD(pool, evict, METH_O, "evict(ids) -> int\n\nForgets the names of these "
	  "blocks; returns how many had one."),
	KVPY_METHOD(pool, evict_for, METH_O, "evict_for(nr) -> int\n\nEvicts until nr "
	  "blocks are free; returns how many were evicted."),
	FAST(reset, "reset(inactive_only=False) -> int\n\nForgets every cached block in every tier: for "
	     "a change of weights. Raises Busy if any block is held."),
	FAST(write, "write(id, data, offset=0)\n\nCopies bytes into a private block, and waits."),
	FAST(read_into, "read_into(id, out, offset=0)\n\nCopies bytes of a block into a writable "
	     "buffer, and waits."),
	KVPY_METHOD(pool, stat, METH_NOARGS, "stat() -> dict[str, int]\n\nA coherent "
	  "snapshot; blocks, bytes and counts since creation."),
	KVPY_METHOD(pool, validate, METH_NOARGS, "validate()\n\nRecomputes every count "
	  "of the pool; raises Error if one is wrong."),
	FAST(set_watermarks, "set_watermarks(min, low, high)\n\nFree blocks that are kept back."),
	FAST(attach, "attach(tier, layout_id=0, write=WRITE_SELECTIVE, touches=2, verify_every=1)\n\n"
	     "Copies of this pool's blocks go down to tier from here on."),
	KVPY_METHOD(pool, poll, METH_NOARGS, "poll() -> int\n\nEnds copies that are complete "
	  "and begins others, once a step; returns how many are under way."),
	FAST(prefetch, "prefetch(keys, " PREFIX_DOC ") -> int\n\nBegins to load what tiers below have "
	     "of this prefix; returns how many blocks are on their way."),
	FAST(match_tiers, "match_tiers(keys, " PREFIX_DOC ") -> tuple[int, int]\n\nLeading blocks on "
	     "the device, and behind these in tiers below."),
	KVPY_METHOD(pool, close, METH_NOARGS, "close()\n\nFrees the pool with all that is "
	  "held in it; a second call does nothing."), KVPY_END,
};

static PyGetSetDef pool_getset[] = {
	{ "available", (getter)pool_available, NULL, "blocks that are free or evictable", NULL },
	{ "nr_blocks", (getter)pool_nr_blocks, NULL, "blocks, the null block included", NULL },
	{ "closed", (getter)pool_closed, NULL, "is it closed", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

KVPY_TYPE(pool, Pool, sizeof(struct kvpy_pool), KVPY_GC,
	  "Pool(nr_blocks, **options)\n\nThe blocks of one KV cache group on one device.",
	  KVPY_FINAL(pool), { Py_tp_traverse, pool_traverse }, { Py_tp_clear, pool_clear },
	  { Py_tp_getset, pool_getset });

int kvpy_add_numbers(PyObject *module)
{
#define NUMBER(name)	{ #name, KVMM_##name }
	static const struct { const char *name; long value; } numbers[] = {
		NUMBER(NO_ID), NUMBER(NAME_ADD), NUMBER(NAME_RENAME), NUMBER(NAME_REMOVE),
		NUMBER(DUP_ALLOW), NUMBER(DUP_HOLD), NUMBER(DUP_REJECT), { "FREE", KVMM_BLOCK_FREE },
		{ "PRIVATE", KVMM_BLOCK_PRIVATE }, { "ACTIVE", KVMM_BLOCK_ACTIVE },
		{ "INACTIVE", KVMM_BLOCK_INACTIVE }, { "WRITE_SELECTIVE", KVMM_TIER_SELECTIVE },
		{ "WRITE_EXPLICIT", KVMM_TIER_EXPLICIT }, { "WRITE_THROUGH", KVMM_TIER_THROUGH },
		{ "WRITE_BACK", KVMM_TIER_BACK }, { "WRITE_THRESHOLD", KVMM_TIER_THRESHOLD },
	};

	for (size_t i = 0; i < KVPY_NR(numbers); i++)
		if (PyModule_AddIntConstant(module, numbers[i].name, numbers[i].value))
			return -1;
	return 0;
}
