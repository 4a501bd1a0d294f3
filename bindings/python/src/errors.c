// SPDX-License-Identifier: Apache-2.0
/* Exceptions: kvmm.Error and what it splits into; and dictionaries of numbers. */
#include "python.h"

static PyObject *error, *no_space, *stale, *busy, *invalid, *device;

/* Only calls that make something say why; of the others the words would be those of an old one. */
static const char *why_of(const char *call)
{
	static const char *const makers[] = {
		"kvmm_pool_create", "kvmm_tier_host_create", "kvmm_disk_open", "kvmm_control_open",
	};

	for (size_t i = 0; i < KVPY_NR(makers); i++)
		if (!strcmp(call, makers[i]))
			return kvmm_why();
	return "";
}

PyObject *kvpy_raise(const char *call, int err)
{
	return kvpy_raise_why(call, err, why_of(call));
}

/* Takes @value, which may be NULL with an exception. */
static int set(PyObject *object, const char *name, PyObject *value)
{
	int err = value ? PyObject_SetAttrString(object, name, value) : -1;

	Py_XDECREF(value);
	return err;
}

PyObject *kvpy_raise_why(const char *call, int err, const char *why)
{
	PyObject *type = error, *value;

	if (PyErr_Occurred())
		return NULL;
	if (err == -ENOMEM)
		return PyErr_NoMemory();
	if (err == -ENOSPC || err == -EDQUOT)
		type = no_space;
	else if (err == -ESTALE || err == -ENOENT)
		type = stale;
	else if (err == -EBUSY || err == -EAGAIN || err == -EINPROGRESS)
		type = busy;
	else if (err == -EINVAL || err == -EOPNOTSUPP)
		type = invalid;
	else if (err == -EIO || err == -ENODEV)
		type = device;
	value = PyObject_CallFunction(type, "s", kvmm_strerror(err));
	if (value && !set(value, "errno", PyLong_FromLong(-err)) &&
	    !set(value, "why", PyUnicode_DecodeUTF8(why, (Py_ssize_t)strlen(why), "replace")) &&
	    !set(value, "call", PyUnicode_FromString(call)))
		PyErr_SetObject(type, value);
	Py_XDECREF(value);
	return NULL;
}

PyObject *kvpy_none_or(const char *call, int err)
{
	if (err < 0)
		return kvpy_raise(call, err);
	Py_RETURN_NONE;
}

PyObject *kvpy_number_or(const char *call, int nr)
{
	return nr < 0 ? kvpy_raise(call, nr) : PyLong_FromLong(nr);
}

static int add(PyObject *module, PyObject **type, const char *name, PyObject *base,
	       PyObject *second, const char *doc)
{
	PyObject *bases = PyTuple_Pack(second ? 2 : 1, base, second);

	*type = bases ? PyErr_NewExceptionWithDoc(name, doc, bases, NULL) : NULL;
	Py_XDECREF(bases);
	return *type ? PyModule_AddObjectRef(module, strchr(name, '.') + 1, *type) : -1;
}

int kvpy_add_errors(PyObject *module)
{
	return add(module, &error, "kvmm.Error", PyExc_Exception, NULL,
		   "A call was refused: errno, call, and why in words if kvmm has any.") ||
	       add(module, &no_space, "kvmm.NoSpace", error, NULL, "Too few blocks, or a tenant may "
		   "not have so many (ENOSPC, EDQUOT): nothing was taken.") ||
	       add(module, &stale, "kvmm.Stale", error, NULL,
		   "What was named is gone, or was freed (ESTALE, ENOENT).") ||
	       add(module, &busy, "kvmm.Busy", error, NULL, "Not now (EBUSY, EAGAIN, EINPROGRESS).") ||
	       add(module, &invalid, "kvmm.Invalid", error, PyExc_ValueError, "A bad argument, or one "
		   "that this object has no use for (EINVAL, EOPNOTSUPP).") ||
	       add(module, &device, "kvmm.DeviceError", error, NULL,
		   "The device is lost, or a copy failed (EIO, ENODEV).");
}

PyObject *kvpy_dict(const void *from, const struct kvpy_field *fields, size_t nr)
{
	PyObject *dict = PyDict_New();

	for (size_t i = 0; dict && i < nr; i++) {
		const char *at = (const char *)from + fields[i].offset;
		uint64_t number = 0;
		PyObject *value;

		memcpy(&number, at, fields[i].bytes);		/* little endian */
		value = PyLong_FromUnsignedLongLong(number);
		if (!value || PyDict_SetItemString(dict, fields[i].name, value))
			Py_CLEAR(dict);
		Py_XDECREF(value);
	}
	return dict;
}
