// SPDX-License-Identifier: Apache-2.0
/* Arrays of the caller: the buffer protocol, DLPack of CPU tensors, or plain sequences. */
#include "python.h"

/* Shapes of DLPack, as its specification gives them. */
struct dl_tensor {
	void *data;
	int32_t device_type;
	int32_t device_id;
	int32_t ndim;
	uint8_t code;
	uint8_t bits;
	uint16_t lanes;
	int64_t *shape;
	int64_t *strides;
	uint64_t byte_offset;
};

enum { DL_CPU = 1, DL_PINNED = 3, DL_INT = 0, DL_UINT = 1 };

/* What is asked for: of a caller, or room for what it is told. */
enum numbers { IDS, ROOM, TOKENS };

static int refuse(struct kvpy_array *array, PyObject *type, const char *text)
{
	PyErr_SetString(type, text);
	kvpy_end(array);
	return -1;
}

void kvpy_end(struct kvpy_array *array)
{
	if (array->view.obj)
		PyBuffer_Release(&array->view);
	Py_CLEAR(array->capsule);
	if (array->made)
		free(array->made);
	array->made = NULL;
}

/* What kvpy_end() looks at. */
static void begin(struct kvpy_array *array)
{
	array->view.obj = NULL;
	array->capsule = NULL;
	array->made = NULL;
}

static void *room(struct kvpy_array *array, Py_ssize_t nr, size_t bytes)
{
	array->data = array->few;
	array->nr = nr;
	if ((size_t)nr > sizeof(array->few) / bytes)
		array->data = array->made = (size_t)nr > PY_SSIZE_T_MAX / bytes ? NULL :
							 malloc((size_t)nr * bytes);
	if (!array->data)
		PyErr_NoMemory();
	return array->data;
}

void *kvpy_space(struct kvpy_array *array, Py_ssize_t nr, size_t bytes)
{
	begin(array);
	return room(array, nr, bytes);
}

void *kvpy_own(struct kvpy_array *array)
{
	const void *from = array->data;

	if (!array->view.obj && !array->capsule)
		return array->data;
	if (room(array, array->nr, sizeof(int32_t)) && array->nr)
		memcpy(array->data, from, (size_t)array->nr * sizeof(int32_t));
	return array->data;
}

/* Tokens of 64 bits, as engines and torch have them: copied, and what they lie in let go. */
static int from_64_bits(struct kvpy_array *array, const int64_t *from, Py_ssize_t nr)
{
	uint32_t *out = room(array, nr, sizeof(*out));
	uint64_t all = 0;

	for (Py_ssize_t i = 0; out && i < nr; i++) {
		all |= (uint64_t)from[i];
		out[i] = (uint32_t)from[i];
	}
	if (array->view.obj)
		PyBuffer_Release(&array->view);
	array->view.obj = NULL;
	Py_CLEAR(array->capsule);
	if (all > UINT32_MAX)
		return refuse(array, PyExc_OverflowError, "a number is out of range");
	return out ? 0 : -1;
}

/* A tensor that has no buffer: in host memory, of integers, without gaps. The capsule goes
 * back to its producer unconsumed, so its own destructor frees the tensor. */
static int from_dlpack(PyObject *object, enum numbers of, struct kvpy_array *array)
{
	const struct dl_tensor *tensor;
	int64_t stride = 1;
	int is_gapless = 1, is_64_bits;

	array->capsule = PyObject_CallMethod(object, "__dlpack__", NULL);
	if (!array->capsule)
		return -1;
	tensor = PyCapsule_GetPointer(array->capsule, "dltensor");
	if (!tensor) {
		kvpy_end(array);
		return -1;
	}
	if (tensor->device_type != DL_CPU && tensor->device_type != DL_PINNED)
		return refuse(array, PyExc_BufferError, "the tensor is not in host memory");
	is_64_bits = of == TOKENS && tensor->bits == 64 && tensor->code == DL_INT;
	if ((tensor->bits != 32 && !is_64_bits) || tensor->lanes != 1 || tensor->code > DL_UINT)
		return refuse(array, PyExc_TypeError, "the tensor is not of 32 bit integers");
	array->nr = 1;
	if (tensor->ndim > 0 && !tensor->shape)
		return refuse(array, PyExc_BufferError, "the tensor has no shape");
	for (int32_t i = tensor->ndim - 1; i >= 0; i--) {
		if (tensor->shape[i] < 0 || tensor->shape[i] > INT32_MAX || array->nr > INT32_MAX)
			return refuse(array, PyExc_OverflowError, "the tensor is too large");
		if (tensor->strides && tensor->shape[i] > 1 && tensor->strides[i] != stride)
			is_gapless = 0;
		stride *= tensor->shape[i];
		array->nr *= tensor->shape[i];
	}
	if (array->nr && !is_gapless)
		return refuse(array, PyExc_BufferError, "the tensor is not contiguous");
	array->data = (char *)tensor->data + tensor->byte_offset;
	return is_64_bits ? from_64_bits(array, array->data, array->nr) : 0;
}

static int is_one_of(const Py_buffer *view, Py_ssize_t bytes, const char *formats)
{
	const char *format = view->format ? view->format : "B";

	if (view->itemsize != bytes)
		return 0;
	if (*format == '@' || *format == '=' || *format == '<')
		format++;
	while (*formats && *formats != *format)
		formats++;
	return *formats && !format[1];
}

static int from_sequence(PyObject *object, enum numbers of, struct kvpy_array *array)
{
	const long long least = of == TOKENS ? 0 : INT32_MIN;
	const long long most = of == TOKENS ? UINT32_MAX : INT32_MAX;
	Py_ssize_t nr = PySequence_Check(object) ? PySequence_Size(object) : -1;
	int32_t *out;

	if (nr < 0) {
		PyErr_Clear();
		return refuse(array, PyExc_TypeError,
			      "expected a contiguous buffer or a sequence of 32 bit integers");
	}
	out = room(array, nr, sizeof(*out));
	if (!out)
		return -1;
	for (Py_ssize_t i = 0; i < nr; i++) {
		PyObject *item = PySequence_GetItem(object, i);
		long long value = item ? PyLong_AsLongLong(item) : -1;

		Py_XDECREF(item);
		if (value == -1 && PyErr_Occurred()) {
			kvpy_end(array);
			return -1;
		}
		if (value < least || value > most)
			return refuse(array, PyExc_OverflowError, "a number is out of range");
		out[i] = (int32_t)value;
	}
	return 0;
}

static int from_buffer(PyObject *object, enum numbers of, struct kvpy_array *array)
{
	int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (of == ROOM ? PyBUF_WRITABLE : 0);

	if (PyObject_GetBuffer(object, &array->view, flags)) {
		array->view.obj = NULL;
		return -1;
	}
	if (of == TOKENS && is_one_of(&array->view, 8, "ql"))
		return from_64_bits(array, array->view.buf, array->view.len / 8);
	if (!is_one_of(&array->view, 4, "iIlL"))
		return refuse(array, PyExc_TypeError, "the buffer is not of 32 bit integers");
	array->data = array->view.buf;
	array->nr = array->view.len / 4;
	return 0;
}

static int numbers(PyObject *object, enum numbers of, struct kvpy_array *array)
{
	int err;

	begin(array);
	if (PyObject_CheckBuffer(object))
		err = from_buffer(object, of, array);
	/* Asking a list for that makes an exception, and drops it. */
	else if (!PyList_CheckExact(object) && !PyTuple_CheckExact(object) &&
		 PyObject_HasAttrString(object, "__dlpack__"))
		err = from_dlpack(object, of, array);
	else if (of == ROOM)
		err = refuse(array, PyExc_TypeError, "expected a writable buffer of int32");
	else
		err = from_sequence(object, of, array);
	/* Calls of the library count in 32 bits. */
	if (!err && array->nr > INT32_MAX)
		err = refuse(array, PyExc_OverflowError, "too many numbers");
	return err;
}

int kvpy_ids(PyObject *object, int writable, struct kvpy_array *ids)
{
	return numbers(object, writable ? ROOM : IDS, ids);
}

int kvpy_tokens(PyObject *object, struct kvpy_array *tokens)
{
	return numbers(object, TOKENS, tokens);
}

int kvpy_bytes(PyObject *object, int writable, struct kvpy_array *bytes)
{
	begin(bytes);
	bytes->data = NULL;
	bytes->nr = 0;
	if (!object)
		return 0;
	if (PyObject_GetBuffer(object, &bytes->view,
			       PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0))) {
		bytes->view.obj = NULL;
		return -1;
	}
	bytes->data = bytes->view.buf;
	bytes->nr = bytes->view.len;
	return 0;
}

/* The key of one name. 16 bytes are one as they are, in lists as in buffers; of hashes of the
 * engine's own any 16 bytes will do. */
static int name(const void *bytes, size_t nr, int are_digests, kvmm_key_t *key)
{
	struct kvmm_key_names names = KVMM_KEY_NAMES_INIT;
	struct { uint8_t byte[KVMM_KEY_MIN_NAME]; uint64_t nr; } padded;

	if (nr == sizeof(*key)) {
		memcpy(key, bytes, nr);
		return 0;
	}
	names.data = bytes;
	names.bytes = nr;
	names.nr = 1;
	names.flags = are_digests && nr >= sizeof(*key) ? KVMM_NAMES_ARE_HASHES : 0;
	if (nr < KVMM_KEY_MIN_NAME) {			/* with its length it is long enough */
		memset(&padded, 0, sizeof(padded));
		memcpy(padded.byte, bytes, nr);
		padded.nr = nr;
		names.data = &padded;
		names.bytes = sizeof(padded);
	}
	return kvmm_keys_of_names(&names, key);
}

int kvpy_key(PyObject *object, const struct kvpy_pool *pool, kvmm_key_t *key)
{
	char *data;
	Py_ssize_t len;

	if (PyBytes_AsStringAndSize(object, &data, &len))
		return -1;
	if (pool->are_digests && !pool->key_bytes && len == sizeof(kvmm_digest_t)) {
		*key = kvmm_key_of_digest((const kvmm_digest_t *)data);
		return 0;
	}
	if (pool->key_bytes && len != pool->key_bytes)
		PyErr_Format(PyExc_ValueError, "a key of %zd bytes, not %u", len, pool->key_bytes);
	else if (name(data, (size_t)len, pool->are_digests, key))
		PyErr_Format(PyExc_ValueError, "%zd bytes are no key", len);
	else
		return 0;
	return -1;
}

/* The keys of items that are digests, up to the first that is none. Return: how many. */
static Py_ssize_t digests(PyObject *const *items, Py_ssize_t nr, kvmm_key_t *keys)
{
	for (Py_ssize_t i = 0; i < nr; i++) {
		const kvmm_digest_t *digest = kvpy_digest(items[i], sizeof(*digest));

		if (!digest)
			return i;
		keys[i] = kvmm_key_of_digest(digest);
	}
	return nr;
}

int kvpy_first_keys(PyObject *names, Py_ssize_t max, const struct kvpy_pool *pool,
		    struct kvpy_array *keys)
{
	Py_ssize_t nr = PySequence_Size(names), done = 0;
	int is_list = PyList_CheckExact(names);
	kvmm_key_t *out;

	if (nr < 0)
		return -1;
	nr = nr > max ? max : nr;
	out = kvpy_space(keys, nr, sizeof(*out));
	if (out && is_list && kvpy_knows_layout && pool->are_digests && !pool->key_bytes)
		done = digests(kvpy_items(names), nr, out);
	for (Py_ssize_t i = done; out && i < nr; i++) {
		PyObject *item = PySequence_GetItem(names, i);

		if (!item || kvpy_key(item, pool, &out[i])) {
			kvpy_end(keys);
			out = NULL;
		}
		Py_XDECREF(item);
	}
	return out ? 0 : -1;
}

int kvpy_keys(PyObject *object, const struct kvpy_pool *pool, struct kvpy_array *keys)
{
	struct kvmm_key_names names = KVMM_KEY_NAMES_INIT;
	struct kvpy_array raw;
	kvmm_key_t *out;
	int err;

	begin(keys);
	keys->data = NULL;
	if (!object)
		return 0;
	if (!PyObject_CheckBuffer(object)) {
		if (PySequence_Check(object))
			return kvpy_first_keys(object, PY_SSIZE_T_MAX, pool, keys);
		return refuse(keys, PyExc_TypeError, "expected a buffer of keys, or a list of bytes");
	}
	if (kvpy_bytes(object, 0, &raw))
		return -1;
	names.bytes = pool->key_bytes ? pool->key_bytes : (size_t)raw.nr;
	if (raw.nr && raw.nr % (Py_ssize_t)names.bytes) {
		kvpy_end(&raw);
		return PyErr_Format(PyExc_ValueError, "%zd bytes are no keys of %zu bytes", raw.nr,
				    names.bytes) ? 0 : -1;
	}
	keys->nr = raw.nr ? raw.nr / (Py_ssize_t)names.bytes : 0;
	if (names.bytes == sizeof(kvmm_key_t)) {		/* as they are, without a copy */
		keys->view = raw.view;
		keys->data = raw.data;
		return 0;
	}
	out = room(keys, keys->nr, sizeof(*out));
	if (out && keys->nr && !pool->key_bytes) {		/* one name of any length */
		err = name(raw.data, (size_t)raw.nr, pool->are_digests, out);
		goto end;
	}
	names.data = raw.data;
	names.nr = (uint32_t)keys->nr;
	names.flags = pool->are_digests ? KVMM_NAMES_ARE_HASHES : 0;
	err = out && keys->nr ? kvmm_keys_of_names(&names, out) : 0;
end:
	kvpy_end(&raw);
	if (err)
		return refuse(keys, PyExc_ValueError, "keys have 8 to 64 bytes, digests 16 to 64");
	return out ? 0 : -1;
}

PyObject *kvpy_list(const int32_t *ids, Py_ssize_t nr, int sign)
{
	PyObject *list = PyList_New(nr);

	for (Py_ssize_t i = 0; list && i < nr; i++) {
		PyObject *id = PyLong_FromLongLong(sign ? ids[i] : (long long)(uint32_t)ids[i]);

		if (!id || PyList_SetItem(list, i, id))
			Py_CLEAR(list);
	}
	return list;
}

int kvpy_room(PyObject *out, Py_ssize_t nr, struct kvpy_array *ids)
{
	if (!out)
		return kvpy_space(ids, nr, sizeof(int32_t)) ? 0 : -1;
	if (kvpy_ids(out, 1, ids))
		return -1;
	if (ids->nr >= nr)
		return 0;
	PyErr_Format(PyExc_ValueError, "out has room for %zd ids", ids->nr);
	kvpy_end(ids);
	return -1;
}

PyObject *kvpy_ids_to(PyObject *out, const struct kvpy_array *ids, Py_ssize_t nr)
{
	return out ? PyLong_FromSsize_t(nr) : kvpy_list(ids->data, nr, 1);
}
