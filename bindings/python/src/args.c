// SPDX-License-Identifier: Apache-2.0
/* Arguments of calls, and objects. */
#include "python.h"

static int place(const char *const *names, PyObject *name)
{
	for (int i = 1; names[i]; i++)
		if (!PyUnicode_CompareWithASCIIString(name, names[i]))
			return i - 1;
	return -1;
}

int kvpy_args(const char *const *names, unsigned int least, PyObject *const *args, Py_ssize_t nr,
	      PyObject *kwnames, PyObject **out)
{
	Py_ssize_t nr_named = kwnames ? PyTuple_Size(kwnames) : 0;
	unsigned int most = 0;

	for (; names[most + 1]; most++)
		out[most] = NULL;
	if (nr > (Py_ssize_t)most) {
		PyErr_Format(PyExc_TypeError, "%s() takes at most %u arguments", names[0], most);
		return -1;
	}
	for (Py_ssize_t i = 0; i < nr; i++)
		out[i] = args[i];
	for (Py_ssize_t i = 0; i < nr_named; i++) {
		PyObject *name = PyTuple_GetItem(kwnames, i);
		int at = place(names, name);

		if (at < 0 || at < nr) {
			PyErr_Format(PyExc_TypeError, "%s(): argument '%U' is %s", names[0], name,
				     at < 0 ? "unknown" : "given twice");
			return -1;
		}
		out[at] = args[nr + i];
	}
	for (unsigned int i = 0; i < most; i++) {
		if (out[i] == Py_None && i >= least)
			out[i] = NULL;
		if (!out[i] && i < least) {
			PyErr_Format(PyExc_TypeError, "%s() needs '%s'", names[0], names[i + 1]);
			return -1;
		}
	}
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

PyTypeObject *kvpy_add_type(PyObject *module, PyType_Spec *spec, const char *name)
{
	PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);

	if (type && PyModule_AddObjectRef(module, name, type))
		Py_CLEAR(type);
	return (PyTypeObject *)type;
}

void *kvpy_make(PyTypeObject *type)
{
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);

	return alloc(type, 0);
}

void kvpy_dispose(void *self)
{
	PyTypeObject *type = Py_TYPE((PyObject *)self);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	release(self);
	Py_DECREF(type);
}
