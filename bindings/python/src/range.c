// SPDX-License-Identifier: Apache-2.0
/* kvmm.Range: the memory of one request, as runs of blocks; and kvmm.Step. */
#include "python.h"

#include <kvmm/step.h>

struct range {
	PyObject_HEAD
	struct kvpy_pool *pool;
	kvmm_range_t range;
};

static PyObject *range_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	static char *known[] = { "pool", "nr", "max_runs", "seq", "tenant", "grows", "pinned",
				 "urgent", NULL };
	struct kvmm_range_attr attr = { .size = sizeof(attr) };
	int grows = 0, pinned = 0, urgent = 0, err;
	struct kvpy_pool *pool;
	struct range *self;

	self = kvpy_begin(type, args, named, "O&O&|O&O&O&ppp:Range", known, kvpy_to_pool, &pool,
			  kvpy_to_u32, &attr.nr, kvpy_to_u32, &attr.max_runs, kvpy_to_u64, &attr.seq,
			  kvpy_to_u32, &attr.tenant, &grows, &pinned, &urgent);
	if (!self)
		return NULL;
	attr.prio = urgent ? KVMM_PRIO_URGENT : KVMM_PRIO_NORMAL;
	attr.flags = (grows ? KVMM_ALLOC_GROWS : 0) | (pinned ? KVMM_ALLOC_PINNED : 0);
	Py_BEGIN_ALLOW_THREADS
	err = kvmm_range_alloc_attr(pool->pool, &attr, &self->range);
	Py_END_ALLOW_THREADS
	return kvpy_made(self, "kvmm_range_alloc_attr", err);
}

static PyObject *range_free(struct range *self, PyObject *none)
{
	struct kvpy_pool *pool = self->pool;
	int err = pool ? kvmm_range_free(pool->pool, self->range) : 0;

	if (err)
		return kvpy_raise("kvmm_range_free", err);
	self->pool = NULL;
	kvpy_unuse(pool);
	Py_RETURN_NONE;
}

static void range_finalize(struct range *self)
{
	struct kvpy_pool *pool = self->pool;

	self->pool = NULL;
	if (pool)
		kvmm_range_free(pool->pool, self->range);
	kvpy_unuse(pool);
}

static struct kvmm_pool *pool_of(struct range *self)
{
	if (!self->pool)
		return (void *)PyErr_Format(PyExc_ValueError, "the range was freed");
	return kvpy_pool_of(self->pool);
}

static PyObject *range_extents(struct range *self, PyObject *none)
{
	struct kvmm_pool *pool = pool_of(self);
	struct kvmm_extent *ext;
	struct kvpy_array room;
	PyObject *list = NULL;
	int nr, max;

	if (!pool)
		return NULL;
	max = kvmm_range_extents(pool, self->range, NULL, 0);
	ext = kvpy_space(&room, max < 0 ? 0 : max, sizeof(*ext));
	if (!ext)
		return NULL;
	nr = max < 0 ? max : kvmm_range_extents(pool, self->range, ext, (unsigned int)max);
	nr = nr > max ? -EAGAIN : nr;			/* it grew in between */
	list = nr < 0 ? kvpy_raise("kvmm_range_extents", nr) : PyList_New(nr);
	for (int i = 0; list && i < nr; i++) {
		PyObject *pair = Py_BuildValue("II", ext[i].start, ext[i].nr);

		if (!pair || PyList_SetItem(list, i, pair))
			Py_CLEAR(list);
	}
	kvpy_end(&room);
	return list;
}

static PyObject *change(struct range *self, PyObject *number, const char *call,
			int (*fn)(struct kvmm_pool *, kvmm_range_t, uint32_t))
{
	uint32_t nr = 0;

	if (kvpy_u32(number, &nr) || !pool_of(self))
		return NULL;
	return kvpy_none_or(call, fn(self->pool->pool, self->range, nr));
}

#define CHANGE(name, fn, shown)								\
static PyObject *range_##name(struct range *self, PyObject *number)			\
{											\
	return change(self, number, shown, fn);						\
}

CHANGE(grow, kvmm_range_grow, "kvmm_range_grow_many")
CHANGE(shrink, kvmm_range_shrink, "kvmm_range_cut")
CHANGE(shrink_front, kvmm_range_shrink_front, "kvmm_range_cut")

static Py_ssize_t range_len(PyObject *object)
{
	struct range *self = (struct range *)object;
	struct kvmm_range_info info;
	struct kvmm_pool *pool = pool_of(self);
	int err = pool ? kvmm_range_get_info(pool, self->range, &info) : -EINVAL;

	if (err) {
		kvpy_raise("kvmm_range_get_info_of", err);
		return -1;
	}
	return info.nr;
}

static PyMethodDef range_methods[] = {
	KVPY_METHOD(range, extents, METH_NOARGS, "extents() -> list[tuple[int, int]]\n\n"
		    "(first block, blocks) of each run, in order. True until the next compaction."),
	KVPY_METHOD(range, grow, METH_O, "grow(nr)\n\nnr more blocks at the end."),
	KVPY_METHOD(range, shrink, METH_O, "shrink(nr)\n\nGives the last nr blocks back."),
	KVPY_METHOD(range, shrink_front, METH_O, "shrink_front(nr)\n\nGives the first nr blocks "
		    "back: sliding windows."),
	KVPY_METHOD(range, free, METH_NOARGS, "free()\n\nGives all blocks back; a second call does "
		    "nothing."),
	{ "close", (PyCFunction)range_free, METH_NOARGS, "close()\n\nAs free()." }, KVPY_END,
};

KVPY_USER(range, Range, "Range(pool, nr, max_runs=0, seq=0, tenant=0, grows=False, pinned=False, "
	  "urgent=False)\n\nnr blocks in at most max_runs runs (0: 4). Raises NoSpace.",
	  { Py_sq_length, range_len });

/* ---- steps of an engine, as a context ---- */

struct step {
	PyObject_HEAD
	struct kvpy_pool *pool;
	kvmm_stream_t stream;
	uint64_t epoch;
	int is_open;
};

static PyObject *step_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	static char *known[] = { "pool", "stream", NULL };
	uint64_t stream = 0;
	struct kvpy_pool *pool;
	struct step *self;

	self = kvpy_begin(type, args, named, "O&|O&:Step", known, kvpy_to_pool, &pool,
			  kvpy_to_stream, &stream);
	if (!self)
		return NULL;
	return kvpy_made(self, "kvmm_stream_add",
			 kvmm_stream_add(pool->pool, (void *)(uintptr_t)stream, 0, &self->stream));
}

static PyObject *step_enter(struct step *self, PyObject *none)
{
	int err;

	if (!self->pool)
		return PyErr_Format(PyExc_ValueError, "the stream is closed");
	err = kvmm_step_begin(self->pool->pool, self->stream, &self->epoch);
	if (err)
		return kvpy_raise("kvmm_step_begin", err);
	self->is_open = 1;
	return kvpy_enter((PyObject *)self, NULL);
}

static PyObject *step_exit(struct step *self, PyObject *args)
{
	int err = 0;

	if (self->is_open)
		err = kvmm_step_end(self->pool->pool, self->stream, self->epoch);
	if (err)
		return kvpy_raise("kvmm_step_end", err);
	self->is_open = 0;
	Py_RETURN_NONE;
}

/* The pool stays counted until the stream is gone, which may wait for the device. */
static void step_finalize(struct step *self)
{
	struct kvpy_pool *pool = self->pool;

	if (!pool)
		return;
	self->pool = NULL;
	if (self->is_open)
		kvmm_step_end(pool->pool, self->stream, self->epoch);
	self->is_open = 0;
	Py_BEGIN_ALLOW_THREADS
	kvmm_stream_del(pool->pool, self->stream);
	Py_END_ALLOW_THREADS
	kvpy_unuse(pool);
}

static PyMethodDef step_methods[] = {
	{ "__enter__", (PyCFunction)step_enter, METH_NOARGS, NULL },
	{ "__exit__", (PyCFunction)step_exit, METH_VARARGS, NULL },
	{ "close", kvpy_close, METH_NOARGS, "close()\n\nThe stream is not the pool's any more. Waits "
	  "until its steps have ended on the device; ends the one that is open." },
	{ NULL, NULL, 0, NULL },
};

KVPY_USER(step, Step, "Step(pool, stream=0)\n\nOne stream of an engine: a number, or that of a Device. "
	  "Inside 'with step:' blocks stay where they were when it was entered; work on them is given to "
	  "the stream there only.");
