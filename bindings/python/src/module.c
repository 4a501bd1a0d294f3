// SPDX-License-Identifier: Apache-2.0
/* The module kvmm._kvmm: its parts, its constants, and what it refuses. */
#include "python.h"

static PyObject *policies(PyObject *module, PyObject *none)
{
	const char *names[64];
	unsigned int nr = kvmm_policies(names, 64);
	PyObject *list = PyList_New(0);

	for (unsigned int i = 0; list && i < nr && i < 64; i++) {
		PyObject *name = PyUnicode_FromString(names[i]);

		if (!name || PyList_Append(list, name))
			Py_CLEAR(list);
		Py_XDECREF(name);
	}
	return list;
}

static PyObject *strerror_of(PyObject *module, PyObject *number)
{
	long err = PyLong_AsLong(number);

	if (err == -1 && PyErr_Occurred())
		return NULL;
	if (err < -INT32_MAX || err > INT32_MAX)
		return PyErr_Format(PyExc_OverflowError, "no errno is so large");
	return PyUnicode_FromString(kvmm_strerror(err > 0 ? -(int)err : (int)err));
}

static PyMethodDef functions[] = {
	{ "policies", policies, METH_NOARGS, "policies() -> list[str]\n\nNames of the eviction "
	  "policies that a pool can be made with." },
	{ "strerror", strerror_of, METH_O, "strerror(errno) -> str\n\nkvmm's own words for an errno." },
	{ NULL, NULL, 0, NULL },
};

#define DEFINE(kind)	PyTypeObject *kvpy_##kind##_type;
KVPY_TYPES(DEFINE)

#define ENTRY(kind)	{ &kvpy_##kind##_spec, &kvpy_##kind##_type },
static const struct {
	PyType_Spec *spec;
	PyTypeObject **type;
} types[] = { KVPY_TYPES(ENTRY) };

static int fill(PyObject *module)
{
	/* Pools and exceptions are the process's: a second interpreter would share them. */
	if (PyInterpreterState_GetID(PyInterpreterState_Get()))
		return KVPY_REFUSE(PyExc_ImportError, "kvmm works in the main interpreter only");
	if (kvpy_look_at_layout() || PyModule_AddStringConstant(module, "version", kvmm_version()) ||
	    kvpy_add_numbers(module) || kvpy_add_errors(module))
		return -1;
	for (size_t i = 0; i < KVPY_NR(types); i++) {
		PyObject *type = PyType_FromModuleAndSpec(module, types[i].spec, NULL);

		*types[i].type = (PyTypeObject *)type;
		if (!type || PyModule_AddObjectRef(module, strchr(types[i].spec->name, '.') + 1, type))
			return -1;
	}
	return 0;
}

static PyModuleDef_Slot slots[] = {
	{ Py_mod_exec, fill },
	{ 0, NULL },
};

static struct PyModuleDef def = {
	PyModuleDef_HEAD_INIT, "kvmm._kvmm", "The memory manager of KV caches, from C.", 0, functions,
	slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kvmm(void)
{
	return PyModuleDef_Init(&def);
}
