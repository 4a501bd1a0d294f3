/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the extension share: errors, arguments that are buffers, and objects.
 *
 * The extension uses the limited API of CPython 3.10, so one binary serves that and all later
 * versions. Calls that may block, or work on a whole pool, let go of the interpreter's lock; no
 * thread of kvmm ever calls Python.
 */
#ifndef KVMM_PYTHON_H
#define KVMM_PYTHON_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030a0000
#endif
#include <Python.h>

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <kvmm/kvmm.h>
#include <kvmm/ext/admission.h>
#include <kvmm/ext/control.h>
#include <kvmm/ext/device.h>
#include <kvmm/ext/disk.h>
#include <kvmm/ext/evict.h>
#include <kvmm/ext/inspect.h>
#include <kvmm/ext/seq.h>

#if Py_LIMITED_API < 0x030b0000
/* Public and of this shape in all versions, but in the limited API from 3.11 on only. */
typedef struct {
	void *buf;
	PyObject *obj;
	Py_ssize_t len;
	Py_ssize_t itemsize;
	int readonly;
	int ndim;
	char *format;
	Py_ssize_t *shape;
	Py_ssize_t *strides;
	Py_ssize_t *suboffsets;
	void *internal;
} Py_buffer;

#define PyBUF_WRITABLE		0x0001
#define PyBUF_FORMAT		0x0004
#define PyBUF_ND		0x0008
#define PyBUF_C_CONTIGUOUS	(0x0020 | 0x0010 | PyBUF_ND)

int PyObject_CheckBuffer(PyObject *object);
int PyObject_GetBuffer(PyObject *object, Py_buffer *view, int flags);
void PyBuffer_Release(Py_buffer *view);
#endif

/* ---- errors.c: a small tree of exceptions, each with errno and why ---- */

/** kvpy_raise() - the exception for a negative errno of @call. Returns NULL. */
PyObject *kvpy_raise(const char *call, int err);
PyObject *kvpy_raise_why(const char *call, int err, const char *why);

/** KVPY_REFUSE() - PyErr_Format(), and -1. */
#define KVPY_REFUSE(...)	(PyErr_Format(__VA_ARGS__), -1)
int kvpy_add_errors(PyObject *module);

/* ---- buffer.c: arrays of the caller, borrowed during a call ---- */

/** struct kvpy_array - @nr elements at @data; of a buffer, of DLPack, or in memory of its own */
struct kvpy_array {
	void *data;
	Py_ssize_t nr;
	Py_buffer view;
	PyObject *capsule;
	void *made;
	uint64_t few[256];
};

/** kvpy_space() - memory for @nr elements of @bytes, to be ended. NULL with an exception. */
void *kvpy_space(struct kvpy_array *array, Py_ssize_t nr, size_t bytes);

/** kvpy_own() - @array's numbers in memory of its own, to be changed. NULL with an exception. */
void *kvpy_own(struct kvpy_array *array);

/** kvpy_ids() - int32 of @object: a buffer, a CPU tensor, or (not @writable) a sequence of int.
 * Return: 0; -1 with an exception. */
int kvpy_ids(PyObject *object, int writable, struct kvpy_array *ids);

/** kvpy_tokens() - likewise uint32; int32 that are not negative, and int64 that fit, too. */
int kvpy_tokens(PyObject *object, struct kvpy_array *tokens);

/** kvpy_bytes() - any contiguous buffer, as bytes; NULL: none. */
int kvpy_bytes(PyObject *object, int writable, struct kvpy_array *bytes);
void kvpy_end(struct kvpy_array *array);

/** kvpy_list() - a list of int of @nr ids, or, without @sign, of tokens. */
PyObject *kvpy_list(const int32_t *ids, Py_ssize_t nr, int sign);

/** kvpy_room() - where a call writes @nr ids: the buffer @out, or memory if that is NULL.
 * Return: 0; -1 with an exception. */
int kvpy_room(PyObject *out, Py_ssize_t nr, struct kvpy_array *ids);

/** kvpy_ids_to() - a list of the first @nr of @ids, or, if they are in @out already, how many. */
PyObject *kvpy_ids_to(PyObject *out, const struct kvpy_array *ids, Py_ssize_t nr);

/* ---- layout.c: objects of CPython's, read where it keeps them ---- */

/** kvpy_items() - the items of a list, which lie there until Python runs. */
static inline PyObject **kvpy_items(PyObject *list)
{
	return *(PyObject ***)((char *)list + sizeof(PyVarObject));
}

/** kvpy_digest() - the bytes of an object that is bytes, and so many; else NULL. */
static inline const void *kvpy_digest(PyObject *object, Py_ssize_t nr)
{
	return Py_IS_TYPE(object, &PyBytes_Type) && Py_SIZE(object) == nr ?
	       (const char *)object + sizeof(PyVarObject) + sizeof(Py_hash_t) : NULL;
}

/** struct kvpy_row - @nr objects, each @step behind the one before, until Python runs */
struct kvpy_row {
	PyObject *const *first;
	Py_ssize_t nr;
	Py_ssize_t step;
	PyObject *made;		/* a list that was made for this */
};

/** kvpy_row() - of a list, or of reversed() of one, without asking it; else of all that it yields.
 * @row->made is the caller's. Return: 0; -1 with an exception. */
int kvpy_row(PyObject *object, struct kvpy_row *row);

/** kvpy_knows_layout - is all where it is read? Else nothing above is called. */
extern int kvpy_knows_layout;

/** kvpy_look_at_layout() - set it. Return: 0; -1 with an exception. */
int kvpy_look_at_layout(void);

/* ---- arguments ---- */

#define KVPY_MOST_ARGS	9

/**
 * struct kvpy_call - its name, how many arguments must and can be given, their names in order
 * @known: NULL, or the object that was the name when it was last compared; ours. A place in the
 *	caller's code gives the same one each time.
 */
struct kvpy_call {
	const char *name;
	unsigned int least;
	unsigned int most;
	const char *names[KVPY_MOST_ARGS];
	PyObject *known[KVPY_MOST_ARGS];
};

/* this_call, of this name. */
#define KVPY_THIS_CALL(call, least, ...)					\
	static struct kvpy_call this_call = {					\
		#call, least, KVPY_NR(((const char *const[]){ __VA_ARGS__ })), { __VA_ARGS__ } }

/**
 * kvpy_args() - sort positional and named arguments into @out
 *
 * Return: 0; -1 with a TypeError. Slots that were not given, or are None, are NULL.
 */
int kvpy_args(struct kvpy_call *call, PyObject *const *args, Py_ssize_t nr,
	      PyObject *kwnames, PyObject **out);

int kvpy_read_u64(PyObject *object, uint64_t most, uint64_t *number);

/** kvpy_u64() - a number up to @most; may run Python; *@number stays if @object is NULL. */
static inline int kvpy_u64(PyObject *object, uint64_t most, uint64_t *number)
{
	return object ? kvpy_read_u64(object, most, number) : 0;
}

static inline int kvpy_u32(PyObject *object, uint32_t *number)
{
	uint64_t wide = *number;

	if (kvpy_u64(object, UINT32_MAX, &wide))
		return -1;
	*number = (uint32_t)wide;
	return 0;
}

/** kvpy_to_u64() - for "O&", where "K" would cut numbers off; likewise kvpy_to_u32() for "I". */
int kvpy_to_u64(PyObject *object, void *number);
int kvpy_to_u32(PyObject *object, void *number);

/** kvpy_to_path() - for "O&": str, bytes or os.PathLike as bytes; None leaves NULL there. */
int kvpy_to_path(PyObject *object, void *path);

/* ---- objects ---- */

/** struct kvpy_pool - kvmm.Pool; @pool is NULL once it is closed */
struct kvpy_pool {
	PyObject_HEAD
	struct kvmm_pool *pool;
	PyObject *tier;			/* keeps the object of the tier below */
	PyObject *memory;		/* and what owns the planes */
	uint32_t key_bytes;		/* of a name; 0: any, in lists */
	int are_digests;		/* names are strong hashes */
	uint32_t nr_blocks;
	uint32_t nr_users;		/* what needs it: objects, and calls without the lock */
};

/* Around calls that let go of the interpreter's lock: close() refuses until they are done. */
#define KVPY_UNLOCK(self)	(self)->nr_users++; Py_BEGIN_ALLOW_THREADS
#define KVPY_LOCK(self)		Py_END_ALLOW_THREADS (self)->nr_users--;

/* The types of the module, in the order in which it makes them: kvpy_X_spec is in X's file. */
#define KVPY_TYPES(do)	do(pool) do(range) do(step) do(keys) do(seq) do(tier) do(disk) do(events) \
			do(blocks) do(control) do(device)
#define KVPY_DECLARE(kind)	extern PyType_Spec kvpy_##kind##_spec; \
				extern PyTypeObject *kvpy_##kind##_type;
KVPY_TYPES(KVPY_DECLARE)

int kvpy_add_numbers(PyObject *module);

/** kvpy_keys() - kvmm_key_t of names of @pool: one buffer, or a sequence of bytes; NULL: none. */
int kvpy_keys(PyObject *object, const struct kvpy_pool *pool, struct kvpy_array *keys);

/** kvpy_first_keys() - of a sequence of bytes, @max of them at most; kvpy_key(): of one. */
int kvpy_first_keys(PyObject *names, Py_ssize_t max, const struct kvpy_pool *pool,
		    struct kvpy_array *keys);
int kvpy_key(PyObject *object, const struct kvpy_pool *pool, kvmm_key_t *key);

/** kvpy_peek() - the @blocks of @prefix, looked up without references, to be ended.
 * Return: hits; negative with an exception. */
int kvpy_peek(struct kvpy_pool *pool, const struct kvmm_prefix *prefix, int all,
	      struct kvpy_array *blocks);

/** kvpy_pool_of() - the open pool of @self, or NULL with an exception. */
struct kvmm_pool *kvpy_pool_of(struct kvpy_pool *self);

/** kvpy_to_pool() - for "O&": a struct kvpy_pool *; whether it is open is asked by kvpy_begin(). */
int kvpy_to_pool(PyObject *object, void *pool);
struct kvmm_tier *kvpy_tier_of(PyObject *tier);

/** kvpy_device_name() - of a Device; NULL: @object is none. kvpy_to_stream() - for "O&": uint64_t. */
const char *kvpy_device_name(PyObject *object);
int kvpy_to_stream(PyObject *object, void *stream);

/** kvpy_make() - an object of @type, all zeros behind its head. */
void *kvpy_make(PyTypeObject *type);

/** kvpy_fail() - of a constructor: drop @self, and the exception for @err of @call. NULL. */
PyObject *kvpy_fail(void *self, const char *call, int err);

/**
 * kvpy_dealloc() - end of all types: Py_tp_finalize, which may run several times, then the memory
 *
 * Whatever an object has is given back by its finalizer: by close() and "with", by the collector of
 * cycles, which runs all finalizers before it takes anything apart, and here.
 */
void kvpy_dealloc(void *self);

PyObject *kvpy_close(PyObject *self, PyObject *none);
PyObject *kvpy_enter(PyObject *self, PyObject *none);
PyObject *kvpy_exit(PyObject *self, PyObject *args);

#define KVPY_METHOD(kind, name, flags, doc)					\
	{ #name, (PyCFunction)(void (*)(void))kind##_##name, flags, doc }
#define KVPY_NAMED	(METH_FASTCALL | METH_KEYWORDS)
#define KVPY_END	{ "__enter__", kvpy_enter, METH_NOARGS, NULL },		\
			{ "__exit__", kvpy_exit, METH_VARARGS, NULL }, { NULL, NULL, 0, NULL }
#define KVPY_CLOSE(doc)	{ "close", kvpy_close, METH_NOARGS, "close()" doc }, KVPY_END

/* The spec of a type that has kind_new(), kind_methods, and more slots. */
#define KVPY_TYPE(kind, name, bytes, flags, doc, ...)				\
	static PyType_Slot kind##_slots[] = {					\
		{ Py_tp_new, kind##_new }, { Py_tp_dealloc, kvpy_dealloc },	\
		{ Py_tp_methods, kind##_methods }, { Py_tp_doc, doc },		\
		__VA_ARGS__ __VA_OPT__(,) { 0, NULL },				\
	};									\
	PyType_Spec kvpy_##kind##_spec = { "kvmm." #name, bytes, 0, flags, kind##_slots }
#define KVPY_FINAL(kind)	{ Py_tp_finalize, kind##_finalize }
#define KVPY_GC			(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC)

/* Likewise of one that begins as struct kvpy_user. */
#define KVPY_USER(kind, name, doc, ...)						\
	KVPY_TYPE(kind, name, sizeof(struct kind), KVPY_GC, doc, KVPY_FINAL(kind), \
		  { Py_tp_traverse, kvpy_user_traverse } __VA_OPT__(,) __VA_ARGS__)

/** struct kvpy_user - how objects begin that use a pool: it is not closed before they are */
struct kvpy_user {
	PyObject_HEAD
	struct kvpy_pool *pool;		/* NULL: closed */
};

/**
 * kvpy_begin() - an object of @type that uses the pool among its arguments
 * @format: as of PyArg_ParseTupleAndKeywords(); the first is the pool
 *
 * Return: NULL with an exception: also, the pool is closed.
 */
void *kvpy_begin(PyTypeObject *type, PyObject *args, PyObject *named, const char *format,
		 char **known, ...);

/** kvpy_made() - what a constructor returns: @self, or the exception for @err of @call. */
PyObject *kvpy_made(void *self, const char *call, int err);

/** kvpy_unuse() - an object, which has forgotten @pool already, does not use it. NULL is fine. */
void kvpy_unuse(struct kvpy_pool *pool);

int kvpy_user_traverse(PyObject *self, visitproc visit, void *arg);

/** kvpy_none_or() - None, or the exception for @err of @call; kvpy_number_or(): the number. */
PyObject *kvpy_none_or(const char *call, int err);
PyObject *kvpy_number_or(const char *call, int nr);

/** struct kvpy_field - a number of a struct, by its name in a dictionary */
struct kvpy_field {
	const char *name;
	size_t offset;
	size_t bytes;
};

#define KVPY_FIELD(type, name)	{ #name, offsetof(type, name), sizeof(((type *)0)->name) }

/** kvpy_dict() - the @nr @fields of @from as a dictionary of int. */
PyObject *kvpy_dict(const void *from, const struct kvpy_field *fields, size_t nr);

#define KVPY_NR(array)	(sizeof(array) / sizeof((array)[0]))

#endif /* KVMM_PYTHON_H */
