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

PyObject *kvpy_raise_why(const char *call, int err, const char *why)
{
	PyObject *type = error;
	PyObject *value, *number;
	const char *text = kvmm_strerror(err);

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
	value = PyObject_CallFunction(type, "s", text);
	if (value) {
		PyObject *reason = PyUnicode_DecodeUTF8(why, (Py_ssize_t)strlen(why), "replace");
		PyObject *name = PyUnicode_FromString(call);

		number = PyLong_FromLong(-err);
		if (reason && name && number && !PyObject_SetAttrString(value, "errno", number) &&
		    !PyObject_SetAttrString(value, "why", reason) &&
		    !PyObject_SetAttrString(value, "call", name))
			PyErr_SetObject(type, value);
		Py_XDECREF(reason);
		Py_XDECREF(name);
		Py_XDECREF(number);
		Py_DECREF(value);
	}
	return NULL;
}

static PyObject *add(PyObject *module, const char *name, const char *doc, PyObject *base,
		     PyObject *second)
{
	char full[64];
	PyObject *bases = second ? PyTuple_Pack(2, base, second) : PyTuple_Pack(1, base);
	PyObject *type;

	if (!bases)
		return NULL;
	PyOS_snprintf(full, sizeof(full), "kvmm.%s", name);
	type = PyErr_NewExceptionWithDoc(full, doc, bases, NULL);
	Py_DECREF(bases);
	if (type && PyModule_AddObjectRef(module, name, type)) {
		Py_DECREF(type);
		return NULL;
	}
	return type;
}

int kvpy_add_errors(PyObject *module)
{
	error = add(module, "Error", "A call was refused: errno, call, and why in words if kvmm has "
		    "any.", PyExc_Exception, NULL);
	if (!error)
		return -1;
	no_space = add(module, "NoSpace", "Too few blocks, or a tenant may not have so many "
		       "(ENOSPC, EDQUOT): nothing was taken.", error, NULL);
	stale = add(module, "Stale", "What was named is gone, or was freed (ESTALE, ENOENT).", error,
		    NULL);
	busy = add(module, "Busy", "Not now (EBUSY, EAGAIN, EINPROGRESS).", error, NULL);
	invalid = add(module, "Invalid", "A bad argument, or one that this object has no use for "
		      "(EINVAL, EOPNOTSUPP).", error, PyExc_ValueError);
	device = add(module, "DeviceError", "The device is lost, or a copy failed (EIO, ENODEV).",
		     error, NULL);
	return no_space && stale && busy && invalid && device ? 0 : -1;
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
