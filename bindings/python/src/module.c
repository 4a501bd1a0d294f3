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
	if (err < -INT32_MAX || err > INT32_MAX) {
		PyErr_SetString(PyExc_OverflowError, "no errno is so large");
		return NULL;
	}
	return PyUnicode_FromString(kvmm_strerror(err > 0 ? -(int)err : (int)err));
}

static PyMethodDef functions[] = {
	{ "policies", policies, METH_NOARGS, "policies() -> list[str]\n\nNames of the eviction "
	  "policies that a pool can be made with." },
	{ "strerror", strerror_of, METH_O, "strerror(errno) -> str\n\nkvmm's own words for an errno." },
	{ NULL, NULL, 0, NULL },
};

static int fill(PyObject *module)
{
	/* Pools and exceptions are the process's: a second interpreter would share them. */
	if (PyInterpreterState_GetID(PyInterpreterState_Get())) {
		PyErr_SetString(PyExc_ImportError, "kvmm works in the main interpreter only");
		return -1;
	}
	if (PyModule_AddStringConstant(module, "version", kvmm_version()) ||
	    PyModule_AddIntConstant(module, "NO_ID", -1) || kvpy_add_errors(module) ||
	    kvpy_add_pool(module) || kvpy_add_range(module) || kvpy_add_seq(module) ||
	    kvpy_add_tier(module) || kvpy_add_events(module) || kvpy_add_blocks(module) ||
	    kvpy_add_control(module) || kvpy_add_device(module))
		return -1;
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
