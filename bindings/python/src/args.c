// SPDX-License-Identifier: Apache-2.0
/* Arguments of calls, and objects. */
#include "python.h"

/* Looked for from the end: what comes first is mostly given by position. */
static int place(const char *const *names, unsigned int most, PyObject *name)
{
	int at = (int)most;

	while (at > 0 && PyUnicode_CompareWithASCIIString(name, names[at]))
		at--;
	return at - 1;
}

int kvpy_args(const char *const *names, unsigned int least, PyObject *const *args, Py_ssize_t nr,
	      PyObject *kwnames, PyObject **out)
{
	Py_ssize_t nr_named = kwnames ? PyTuple_Size(kwnames) : 0;
	unsigned int most = 0;

	for (; names[most + 1]; most++)
		out[most] = most < nr ? args[most] : NULL;
	if (nr > (Py_ssize_t)most) {
		PyErr_Format(PyExc_TypeError, "%s() takes at most %u arguments", names[0], most);
		return -1;
	}
	for (Py_ssize_t i = 0; i < nr_named; i++) {
		PyObject *name = PyTuple_GetItem(kwnames, i);
		int at = place(names, most, name);

		if (at < 0 || at < nr) {
			PyErr_Format(PyExc_TypeError, "%s(): argument '%U' is %s", names[0], name,
				     at < 0 ? "unknown" : "given twice");
			return -1;
		}
		out[at] = args[nr + i];
	}
	for (unsigned int i = 0; i < least; i++) {
		if (!out[i]) {
			PyErr_Format(PyExc_TypeError, "%s() needs '%s'", names[0], names[i + 1]);
			return -1;
		}
	}
	for (unsigned int i = least; i < most; i++)
		if (out[i] == Py_None)
			out[i] = NULL;
	return 0;
}

int kvpy_u64(PyObject *object, uint64_t most, uint64_t *number)
{
	unsigned long long value;

	if (!object)
		return 0;
	object = PyNumber_Index(object);
	if (!object)
		return -1;
	value = PyLong_AsUnsignedLongLong(object);
	Py_DECREF(object);
	if (value == (unsigned long long)-1 && PyErr_Occurred())
		return -1;
	if (value > most) {
		PyErr_Format(PyExc_OverflowError, "%llu is more than %llu", value,
			     (unsigned long long)most);
		return -1;
	}
	*number = value;
	return 0;
}

int kvpy_u32(PyObject *object, uint32_t *number)
{
	uint64_t wide = *number;

	if (kvpy_u64(object, UINT32_MAX, &wide))
		return -1;
	*number = (uint32_t)wide;
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
		if (!kvpy_pool_of(pool))
			Py_CLEAR(self);
	}
	if (self) {
		Py_INCREF(pool);
		self->pool = pool;
		pool->nr_users++;
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
