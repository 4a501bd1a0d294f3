// SPDX-License-Identifier: Apache-2.0
/* kvmm.Range: the memory of one request, as runs of blocks; and kvmm.Step. */
#include "python.h"

#include <kvmm/step.h>

struct range {
	PyObject_HEAD
	struct kvpy_pool *pool;
	kvmm_range_t range;
};

static PyTypeObject *range_type, *step_type;

static void leave(struct kvpy_pool **pool)
{
	if (*pool)
		(*pool)->nr_users--;
	Py_CLEAR(*pool);
}

static PyObject *range_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	static char *known[] = { "pool", "nr", "max_runs", "seq", "tenant", "grows", "pinned",
				 "urgent", NULL };
	struct kvmm_range_attr attr = { .size = sizeof(attr) };
	uint32_t nr = 0, runs = 0, tenant = 0;
	uint64_t seq = 0;
	int grows = 0, pinned = 0, urgent = 0, err;
	PyObject *pool;
	struct range *self;

	if (!PyArg_ParseTupleAndKeywords(args, named, "OO&|O&O&O&ppp:Range", known, &pool,
					 kvpy_to_u32, &nr, kvpy_to_u32, &runs, kvpy_to_u64, &seq,
					 kvpy_to_u32, &tenant, &grows, &pinned, &urgent))
		return NULL;
	if (!PyObject_TypeCheck(pool, kvpy_pool_type)) {
		PyErr_SetString(PyExc_TypeError, "Range() is of a Pool");
		return NULL;
	}
	if (!kvpy_pool_of((struct kvpy_pool *)pool))
		return NULL;
	self = kvpy_make(type);
	if (!self)
		return NULL;
	attr.nr = nr;
	attr.max_runs = runs;
	attr.seq = seq;
	attr.tenant = tenant;
	attr.prio = urgent ? KVMM_PRIO_URGENT : KVMM_PRIO_NORMAL;
	attr.flags = (grows ? KVMM_ALLOC_GROWS : 0) | (pinned ? KVMM_ALLOC_PINNED : 0);
	KVPY_UNLOCK((struct kvpy_pool *)pool)
	err = kvmm_range_alloc_attr(((struct kvpy_pool *)pool)->pool, &attr, &self->range);
	KVPY_LOCK((struct kvpy_pool *)pool)
	if (err) {
		Py_DECREF(self);
		return kvpy_raise("kvmm_range_alloc_attr", err);
	}
	Py_INCREF(pool);
	self->pool = (struct kvpy_pool *)pool;
	self->pool->nr_users++;
	return (PyObject *)self;
}

static PyObject *range_free(struct range *self, PyObject *none)
{
	int err = 0;

	if (self->pool) {
		err = kvmm_range_free(self->pool->pool, self->range);
		if (err)
			return kvpy_raise("kvmm_range_free", err);
		leave(&self->pool);
	}
	Py_RETURN_NONE;
}

static void range_dealloc(struct range *self)
{
	if (self->pool)
		kvmm_range_free(self->pool->pool, self->range);
	leave(&self->pool);
	kvpy_dispose(self);
}

static struct kvmm_pool *pool_of(struct range *self)
{
	if (!self->pool) {
		PyErr_SetString(PyExc_ValueError, "the range was freed");
		return NULL;
	}
	return kvpy_pool_of(self->pool);
}

static PyObject *range_extents(struct range *self, PyObject *none)
{
	struct kvmm_extent few[64], *ext = few;
	struct kvmm_pool *pool = pool_of(self);
	PyObject *list = NULL;
	int nr;

	if (!pool)
		return NULL;
	nr = kvmm_range_extents(pool, self->range, few, KVPY_NR(few));
	if (nr > (int)KVPY_NR(few)) {
		int room = nr;

		ext = malloc(sizeof(*ext) * (size_t)room);
		nr = ext ? kvmm_range_extents(pool, self->range, ext, (unsigned int)room) : -ENOMEM;
		nr = nr > room ? -EAGAIN : nr;		/* it grew in between */
	}
	if (nr < 0)
		kvpy_raise("kvmm_range_extents", nr);
	else
		list = PyList_New(nr);
	for (int i = 0; list && i < nr; i++) {
		PyObject *pair = Py_BuildValue("II", ext[i].start, ext[i].nr);

		if (!pair || PyList_SetItem(list, i, pair))
			Py_CLEAR(list);
	}
	if (ext != few)
		free(ext);
	return list;
}

static PyObject *change(struct range *self, PyObject *number, const char *name,
			int (*call)(struct kvmm_pool *, kvmm_range_t, uint32_t))
{
	struct kvmm_pool *pool;
	uint32_t nr = 0;
	int err;

	if (kvpy_u32(number, &nr))
		return NULL;
	pool = pool_of(self);
	if (!pool)
		return NULL;
	err = call(pool, self->range, nr);
	if (err)
		return kvpy_raise(name, err);
	Py_RETURN_NONE;
}

static PyObject *range_grow(struct range *self, PyObject *nr)
{
	return change(self, nr, "kvmm_range_grow_many", kvmm_range_grow);
}

static PyObject *range_shrink(struct range *self, PyObject *nr)
{
	return change(self, nr, "kvmm_range_cut", kvmm_range_shrink);
}

static PyObject *range_shrink_front(struct range *self, PyObject *nr)
{
	return change(self, nr, "kvmm_range_cut", kvmm_range_shrink_front);
}

static PyObject *self_of(PyObject *self, PyObject *none)
{
	Py_INCREF(self);
	return self;
}

static PyObject *range_exit(struct range *self, PyObject *args)
{
	return range_free(self, NULL);
}

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
	{ "extents", (PyCFunction)range_extents, METH_NOARGS, "extents() -> list[tuple[int, int]]\n\n"
	  "(first block, blocks) of each run, in order. True until the next compaction." },
	{ "grow", (PyCFunction)range_grow, METH_O, "grow(nr)\n\nnr more blocks at the end." },
	{ "shrink", (PyCFunction)range_shrink, METH_O, "shrink(nr)\n\nGives the last nr blocks back." },
	{ "shrink_front", (PyCFunction)range_shrink_front, METH_O, "shrink_front(nr)\n\nGives the first "
	  "nr blocks back: sliding windows." },
	{ "free", (PyCFunction)range_free, METH_NOARGS, "free()\n\nGives all blocks back; a second call "
	  "does nothing." },
	{ "__enter__", self_of, METH_NOARGS, NULL },
	{ "__exit__", (PyCFunction)range_exit, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot range_slots[] = {
	{ Py_tp_new, range_new }, { Py_tp_dealloc, range_dealloc }, { Py_tp_methods, range_methods },
	{ Py_sq_length, range_len },
	{ Py_tp_doc, "Range(pool, nr, max_runs=0, seq=0, tenant=0, grows=False, pinned=False, "
	  "urgent=False)\n\nnr blocks in at most max_runs runs (0: 4). Raises NoSpace." },
	{ 0, NULL },
};

static PyType_Spec range_spec = {
	"kvmm.Range", sizeof(struct range), 0, Py_TPFLAGS_DEFAULT, range_slots,
};

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
	PyObject *pool;
	struct step *self;
	int err;

	if (!PyArg_ParseTupleAndKeywords(args, named, "O|O&:Step", known, &pool, kvpy_to_u64,
					 &stream))
		return NULL;
	if (!PyObject_TypeCheck(pool, kvpy_pool_type)) {
		PyErr_SetString(PyExc_TypeError, "Step() is of a Pool");
		return NULL;
	}
	if (!kvpy_pool_of((struct kvpy_pool *)pool))
		return NULL;
	self = kvpy_make(type);
	if (!self)
		return NULL;
	err = kvmm_stream_add(((struct kvpy_pool *)pool)->pool, (void *)(uintptr_t)stream, 0,
			      &self->stream);
	if (err) {
		Py_DECREF(self);
		return kvpy_raise("kvmm_stream_add", err);
	}
	Py_INCREF(pool);
	self->pool = (struct kvpy_pool *)pool;
	self->pool->nr_users++;
	return (PyObject *)self;
}

static PyObject *step_enter(struct step *self, PyObject *none)
{
	int err;

	if (!kvpy_pool_of(self->pool))
		return NULL;
	err = kvmm_step_begin(self->pool->pool, self->stream, &self->epoch);
	if (err)
		return kvpy_raise("kvmm_step_begin", err);
	self->is_open = 1;
	Py_INCREF(self);
	return (PyObject *)self;
}

static PyObject *step_exit(struct step *self, PyObject *args)
{
	int err;

	if (!self->is_open)
		Py_RETURN_NONE;
	err = kvmm_step_end(self->pool->pool, self->stream, self->epoch);
	if (err)
		return kvpy_raise("kvmm_step_end", err);
	self->is_open = 0;
	Py_RETURN_NONE;
}

static void step_dealloc(struct step *self)
{
	if (self->pool) {
		if (self->is_open)
			kvmm_step_end(self->pool->pool, self->stream, self->epoch);
		Py_BEGIN_ALLOW_THREADS
		kvmm_stream_del(self->pool->pool, self->stream);
		Py_END_ALLOW_THREADS
	}
	leave(&self->pool);
	kvpy_dispose(self);
}

static PyMethodDef step_methods[] = {
	{ "__enter__", (PyCFunction)step_enter, METH_NOARGS, NULL },
	{ "__exit__", (PyCFunction)step_exit, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot step_slots[] = {
	{ Py_tp_new, step_new }, { Py_tp_dealloc, step_dealloc }, { Py_tp_methods, step_methods },
	{ Py_tp_doc, "Step(pool, stream=0)\n\nOne stream of an engine. Inside 'with step:' blocks stay "
	  "where they were when it was entered; work on them is given to the stream there only." },
	{ 0, NULL },
};

static PyType_Spec step_spec = {
	"kvmm.Step", sizeof(struct step), 0, Py_TPFLAGS_DEFAULT, step_slots,
};

int kvpy_add_range(PyObject *module)
{
	range_type = kvpy_add_type(module, &range_spec, "Range");
	step_type = range_type ? kvpy_add_type(module, &step_spec, "Step") : NULL;
	return step_type ? 0 : -1;
}
