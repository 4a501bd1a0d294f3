// SPDX-License-Identifier: Apache-2.0
/* kvmm.Control: the socket by which tools look at a process; it has a thread of kvmm's own, which
 * never calls Python. */
#include "python.h"

struct control {
	PyObject_HEAD
	struct kvmm_control *control;
	PyObject *pools;		/* a list: they stay as long as they are shown */
};

static PyObject *control_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	static char *known[] = { "name", "dir", "read_only", NULL };
	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;
	int read_only = 0, err;
	struct control *self;

	if (!PyArg_ParseTupleAndKeywords(args, named, "|zzp:Control", known, &attr.name, &attr.dir,
					 &read_only))
		return NULL;
	attr.flags = KVMM_CONTROL_THREAD | (read_only ? KVMM_CONTROL_READ_ONLY : 0);
	self = kvpy_make(type);
	if (!self)
		return NULL;
	self->pools = PyList_New(0);
	err = self->pools ? kvmm_control_open(&attr, &self->control) : -ENOMEM;
	if (err) {
		Py_DECREF(self);
		return kvpy_raise("kvmm_control_open", err);
	}
	return (PyObject *)self;
}

static void stop(struct control *self)
{
	struct kvmm_control *control = self->control;
	PyObject *pools = self->pools;

	self->control = NULL;
	self->pools = NULL;
	Py_BEGIN_ALLOW_THREADS
	kvmm_control_close(control);
	Py_END_ALLOW_THREADS
	for (Py_ssize_t i = 0; pools && i < PyList_Size(pools); i++)
		((struct kvpy_pool *)PyList_GetItem(pools, i))->nr_users--;
	Py_XDECREF(pools);
}

static void control_dealloc(struct control *self)
{
	stop(self);
	kvpy_dispose(self);
}

static PyObject *control_close(struct control *self, PyObject *none)
{
	stop(self);
	Py_RETURN_NONE;
}

static PyObject *control_add(struct control *self, PyObject *args)
{
	const char *name = NULL;
	PyObject *object;
	struct kvpy_pool *pool;
	int err;

	if (!PyArg_ParseTuple(args, "O|z:add", &object, &name))
		return NULL;
	if (!self->control || !PyObject_TypeCheck(object, kvpy_pool_type)) {
		PyErr_SetString(self->control ? PyExc_TypeError : PyExc_ValueError,
				self->control ? "expected a Pool" : "the socket is closed");
		return NULL;
	}
	pool = (struct kvpy_pool *)object;
	if (!kvpy_pool_of(pool))
		return NULL;
	err = kvmm_control_add_pool(self->control, name, pool->pool);	/* short: with the lock */
	if (err)
		return kvpy_raise("kvmm_control_add_pool", err);
	if (PyList_Append(self->pools, object)) {
		kvmm_control_remove_pool(self->control, pool->pool);
		return NULL;
	}
	pool->nr_users++;
	Py_RETURN_NONE;
}

static PyObject *control_path(struct control *self, void *closure)
{
	const char *path = self->control ? kvmm_control_path(self->control) : NULL;

	if (path)
		return PyUnicode_DecodeFSDefault(path);
	Py_RETURN_NONE;
}

static PyObject *control_enter(PyObject *self, PyObject *none)
{
	Py_INCREF(self);
	return self;
}

static PyObject *control_exit(struct control *self, PyObject *args)
{
	return control_close(self, NULL);
}

static PyMethodDef control_methods[] = {
	{ "add", (PyCFunction)control_add, METH_VARARGS, "add(pool, name=None)\n\nShows a pool to tools." },
	{ "close", (PyCFunction)control_close, METH_NOARGS, "close()" },
	{ "__enter__", control_enter, METH_NOARGS, NULL },
	{ "__exit__", (PyCFunction)control_exit, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef control_getset[] = {
	{ "path", (getter)control_path, NULL, "where it listens", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot control_slots[] = {
	{ Py_tp_new, control_new }, { Py_tp_dealloc, control_dealloc },
	{ Py_tp_methods, control_methods }, { Py_tp_getset, control_getset },
	{ Py_tp_doc, "Control(name=None, dir=None, read_only=False)\n\nA socket by which kvmm-stat, "
	  "kvmm-top and python -m kvmm look at pools of this process." },
	{ 0, NULL },
};

static PyType_Spec control_spec = {
	"kvmm.Control", sizeof(struct control), 0, Py_TPFLAGS_DEFAULT, control_slots,
};

int kvpy_add_control(PyObject *module)
{
	return kvpy_add_type(module, &control_spec, "Control") ? 0 : -1;
}
