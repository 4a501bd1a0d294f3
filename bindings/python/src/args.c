// SPDX-License-Identifier: Apache-2.0
/* Arguments of calls, and objects. */
#include "python.h"

/* Looked for from the end: what comes first is mostly given by position. -1: it is none of them. */
static int place(struct kvpy_call *call, PyObject *name)
{
	int at = (int)call->most - 1;
	PyObject *was;

	for (int i = at; i >= 0; i--)
		if (call->known[i] == name)
			return i;
	while (at >= 0 && PyUnicode_CompareWithASCIIString(name, call->names[at]))
		at--;
	if (at >= 0) {
		was = call->known[at];
		Py_INCREF(name);
		call->known[at] = name;
		Py_XDECREF(was);
	}
	return at;
}

/* What may be left out may be None as well. */
static inline PyObject *given(const struct kvpy_call *call, unsigned int at, PyObject *object)
{
	return object == Py_None && at >= call->least ? NULL : object;
}

static int take_named(struct kvpy_call *call, PyObject *const *args, Py_ssize_t nr,
		      PyObject *kwnames, PyObject **out)
{
	Py_ssize_t nr_named = PyTuple_Size(kwnames);

	for (Py_ssize_t i = 0; i < nr_named; i++) {
		PyObject *name = PyTuple_GetItem(kwnames, i);
		int at = place(call, name);

		if (at < 0 || at < nr)
			return KVPY_REFUSE(PyExc_TypeError, "%s(): argument '%U' is %s", call->name, name,
				     at < 0 ? "unknown" : "given twice");
		out[at] = given(call, (unsigned int)at, args[nr + i]);
	}
	return 0;
}

int kvpy_args(struct kvpy_call *call, PyObject *const *args, Py_ssize_t nr,
	      PyObject *kwnames, PyObject **out)
{
	if (nr > (Py_ssize_t)call->most)
		return KVPY_REFUSE(PyExc_TypeError, "%s() takes at most %u arguments", call->name, call->most);
	for (unsigned int i = 0; i < nr; i++)
		out[i] = given(call, i, args[i]);
	memset(out + nr, 0, (call->most - (size_t)nr) * sizeof(*out));
	if (kwnames && take_named(call, args, nr, kwnames, out))
		return -1;
	for (unsigned int i = (unsigned int)nr; i < call->least; i++)
		if (!out[i])
			return KVPY_REFUSE(PyExc_TypeError, "%s() needs '%s'", call->name, call->names[i]);
	return 0;
}

int kvpy_read_u64(PyObject *object, uint64_t most, uint64_t *number)
{
	unsigned long long value;

	if (PyLong_CheckExact(object)) {
		value = PyLong_AsUnsignedLongLong(object);
	} else {
		object = PyNumber_Index(object);
		if (!object)
			return -1;
		value = PyLong_AsUnsignedLongLong(object);
		Py_DECREF(object);
	}
	if (value == (unsigned long long)-1 && PyErr_Occurred())
		return -1;
	if (value > most)
		return KVPY_REFUSE(PyExc_OverflowError, "%llu is more than %llu", value,
			     (unsigned long long)most);
	*number = value;
	return 0;
}

int kvpy_to_u64(PyObject *object, void *number)
{
	return !kvpy_u64(object, UINT64_MAX, number);
}

int kvpy_to_u32(PyObject *object, void *number)
{
	return !kvpy_u32(object, number);
}

int kvpy_to_path(PyObject *object, void *path)
{
	if (object && object == Py_None)
		return 1;
	return PyUnicode_FSConverter(object, path);
}

void *kvpy_make(PyTypeObject *type)
{
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);

	return alloc(type, 0);
}

PyObject *kvpy_fail(void *self, const char *call, int err)
{
	Py_DECREF((PyObject *)self);
	return kvpy_raise(call, err);
}

static void finalize(PyObject *self)
{
	destructor end = (destructor)PyType_GetSlot(Py_TYPE(self), Py_tp_finalize);

	if (end)
		end(self);
}

void kvpy_dealloc(void *self)
{
	PyTypeObject *type = Py_TYPE((PyObject *)self);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	if (PyObject_GC_IsTracked(self))
		PyObject_GC_UnTrack(self);
	finalize(self);
	release(self);
	Py_DECREF(type);
}

PyObject *kvpy_close(PyObject *self, PyObject *none)
{
	finalize(self);
	Py_RETURN_NONE;
}

PyObject *kvpy_enter(PyObject *self, PyObject *none)
{
	Py_INCREF(self);
	return self;
}

PyObject *kvpy_exit(PyObject *self, PyObject *args)
{
	return PyObject_CallMethod(self, "close", NULL);
}

/* ---- objects that use a pool ---- */

int kvpy_to_pool(PyObject *object, void *pool)
{
	if (!PyObject_TypeCheck(object, kvpy_pool_type)) {
		PyErr_SetString(PyExc_TypeError, "expected a Pool");
		return 0;
	}
	*(struct kvpy_pool **)pool = (struct kvpy_pool *)object;
	return 1;
}

void *kvpy_begin(PyTypeObject *type, PyObject *args, PyObject *named, const char *format,
		 char **known, ...)
{
	struct kvpy_user *self = NULL;
	struct kvpy_pool *pool;
	va_list list, again;

	va_start(list, known);
	va_copy(again, list);
	if (PyArg_VaParseTupleAndKeywords(args, named, format, known, list))
		self = kvpy_make(type);
	/* The numbers may have run Python, and so may making it: the pool is looked at behind that. */
	if (self) {
		(void)va_arg(again, int (*)(PyObject *, void *));
		pool = *va_arg(again, struct kvpy_pool **);
		if (kvpy_pool_of(pool)) {
			Py_INCREF(pool);
			self->pool = pool;
			pool->nr_users++;
		} else {
			Py_CLEAR(self);
		}
	}
	va_end(again);
	va_end(list);
	return self;
}

PyObject *kvpy_made(void *self, const char *call, int err)
{
	struct kvpy_user *user = self;

	if (!err)
		return self;
	kvpy_unuse(user->pool);
	user->pool = NULL;
	return kvpy_fail(self, call, err);
}

void kvpy_unuse(struct kvpy_pool *pool)
{
	if (pool)
		pool->nr_users--;
	Py_XDECREF(pool);
}

int kvpy_user_traverse(PyObject *self, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(self));
	Py_VISIT(((struct kvpy_user *)self)->pool);
	return 0;
}
