// SPDX-License-Identifier: Apache-2.0
/*
 * Lists, bytes and reversed() of a list, read where CPython keeps them: its limited API has a call
 * for each item, which costs as much as all else that is done with one of vLLM's blocks. The places
 * are those of 3.10 and all later versions so far; loading the module looks whether they are right.
 * Where they are not, names are read by the API, and there are no Blocks of vLLM's.
 */
#include "python.h"

/* What reversed() of a list is. */
struct backwards {
	PyObject_HEAD
	Py_ssize_t index;
	PyObject *list;		/* NULL: at its end */
};

int kvpy_knows_layout;

int kvpy_row(PyObject *object, struct kvpy_row *row)
{
	const struct backwards *from = (const struct backwards *)object;

	row->made = NULL;
	if (Py_IS_TYPE(object, &PyListRevIter_Type) && from->list && from->index >= 0 &&
	    from->index < PyList_Size(from->list)) {
		row->first = kvpy_items(from->list) + from->index;
		row->nr = from->index + 1;
		row->step = -1;
		return 0;
	}
	if (!PyList_CheckExact(object))
		object = row->made = PySequence_List(object);
	if (!object)
		return -1;
	row->first = kvpy_items(object);
	row->nr = PyList_Size(object);
	row->step = 1;
	return 0;
}

int kvpy_look_at_layout(void)
{
	PyObject *list = Py_BuildValue("[yy]", "", "kvmm");
	PyObject *turned = list ? PyObject_CallMethod(list, "__reversed__", NULL) : NULL;
	const struct backwards *from = (const struct backwards *)turned;
	PyObject *item = list ? PyList_GetItem(list, 1) : NULL;

	if (turned)
		kvpy_knows_layout = Py_IS_TYPE(turned, &PyListRevIter_Type) && from->index == 1 &&
				    from->list == list && kvpy_items(list)[1] == item &&
				    kvpy_digest(item, 4) == PyBytes_AsString(item);
	Py_XDECREF(turned);
	Py_XDECREF(list);
	return turned ? 0 : -1;
}
