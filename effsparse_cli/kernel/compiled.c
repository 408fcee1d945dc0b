/* The boolean pass over packed bits. Column k of a row is bit k % 64 of its word k / 64; a map of positions likewise.
   plain.py says what each function does, and does the same in numpy; nothing here checks what Python has not checked. */

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if !defined(__GNUC__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "needs gcc or clang and a little-endian processor; without this module numpy does its work"
#endif
#if defined(__x86_64__) && defined(__GLIBC__)
#define POPCOUNT __attribute__((target_clones("popcnt", "default")))
#else
#define POPCOUNT
#endif

typedef uint64_t u64;
typedef Py_ssize_t isize;
enum { EMPTY, FULL };

#define WORDS(bits) (((bits) + 63) / 64)
#define EACH_BIT(word, at)                                                                                             \
    for (u64 at##_left = (word), at; at##_left && (at = __builtin_ctzll(at##_left), 1); at##_left &= at##_left - 1)

#include "maps.h"
#include "rows.h"
#include "numbers.h"

#define LITTLE 65536 /* bytes: no other thread gains by less */

/* The number of all, if it is the same; or numbers, and the maps if there are any but the empty and the full one. */
static PyObject *numbered(const Numbering *n, const int32_t *numbers, isize count) {
    if (n->failed) return PyErr_NoMemory();
    isize same = 1;
    while (same < count && numbers[same] == numbers[0]) same++;
    if (same >= count && (!count || numbers[0] <= FULL)) return PyLong_FromLong(count ? numbers[0] : EMPTY);
    const char *maps = n->count > 2 ? (const char *)n->maps : NULL;
    return Py_BuildValue("(y#y#)", numbers, 4 * count, maps, 8 * n->count * n->width);
}

static int parse_geometry(PyObject *tuple, Geometry *g) {
    return PyArg_ParseTuple(tuple, "nnnny*y*y*y*y*y*", &g->taps, &g->in, &g->out, &g->lasts, &g->always, &g->distances,
                            &g->covers, &g->front, &g->steps, &g->last);
}

static void release_geometry(Geometry *g) {
    PyBuffer_Release(&g->always), PyBuffer_Release(&g->distances), PyBuffer_Release(&g->covers);
    PyBuffer_Release(&g->front), PyBuffer_Release(&g->steps), PyBuffer_Release(&g->last);
}

static PyObject *tallied(const isize *found) {
    return Py_BuildValue("(nnnnnn)", found[0], found[1], found[2], found[3], found[4], found[5]);
}

/* None, if no number is EMPTY. */
static PyObject *room_for(const int32_t *numbers, isize count, isize words) {
    for (isize i = 0; numbers && i < count; i++)
        if (numbers[i] == EMPTY) return PyBytes_FromStringAndSize(NULL, 8 * words);
    Py_RETURN_NONE;
}

static u64 *words_in(PyObject *bytes) { return bytes == Py_None ? NULL : (u64 *)PyBytes_AsString(bytes); }

/* What Python calls. */

static PyObject *pack(PyObject *self, PyObject *args) {
    Py_buffer numbers, words;
    isize rows, size, kept[2] = {0};
    int is_signed;
    if (!PyArg_ParseTuple(args, "y*w*nnp", &numbers, &words, &rows, &size, &is_signed)) return NULL;
    isize columns = rows ? numbers.len / size / rows : 0;
    PyThreadState *state = numbers.len > LITTLE ? PyEval_SaveThread() : NULL;
    Pack *run_pack = size == 1 ? pack1 : size == 2 ? pack2 : size == 4 ? pack4 : pack8;
    run_pack(numbers.buf, words.buf, rows, columns, is_signed, kept);
    if (state) PyEval_RestoreThread(state);
    PyBuffer_Release(&numbers), PyBuffer_Release(&words);
    return Py_BuildValue("(nn)", kept[0], kept[1]);
}

static PyObject *carry(PyObject *args, int back) {
    Py_buffer words, from, maps;
    isize groups, channels;
    PyObject *tuple, *result = NULL;
    Geometry g;
    if (!PyArg_ParseTuple(args, "y*nnz*z*O", &words, &groups, &channels, &from, &maps, &tuple)) return NULL;
    if (!parse_geometry(tuple, &g)) goto unparsed;
    Rows rows = rows_of(&words, groups, channels, g.taps);
    Arena arena = {0};
    Reader reader;
    Numbering numbering;
    isize count = groups * (back ? channels : rows.rows);
    int32_t *into = take(&arena, 4 * count);
    if (!start_numbering(&numbering, g.out) && into && !start_reader(&reader, &g, &maps, &arena)) {
        (back ? run_backward : run_forward)(&rows, &reader, from.buf, maps.buf != NULL, into, &numbering, &arena);
        if (!arena.failed) result = numbered(&numbering, into, count);
    }
    if (!result && !PyErr_Occurred()) PyErr_NoMemory();
    release(&arena), end_numbering(&numbering), release_geometry(&g);
unparsed:
    PyBuffer_Release(&words), PyBuffer_Release(&from), PyBuffer_Release(&maps);
    return result;
}

static PyObject *forward(PyObject *self, PyObject *args) { return carry(args, 0); }
static PyObject *backward(PyObject *self, PyObject *args) { return carry(args, 1); }

static PyObject *meet(PyObject *self, PyObject *args) {
    Py_buffer words, x, x_maps, y, y_maps, missed;
    isize groups, channels, found[6] = {0};
    PyObject *tuple, *result = NULL, *source = NULL, *target = NULL;
    Geometry g;
    if (!PyArg_ParseTuple(args, "y*nnz*z*z*z*w*O", &words, &groups, &channels, &x, &x_maps, &y, &y_maps, &missed, &tuple))
        return NULL;
    if (!parse_geometry(tuple, &g)) goto unparsed;
    Rows w = rows_of(&words, groups, channels, g.taps);
    Arena arena = {0};
    Reader reader;
    Numbering plain;
    if (!(source = room_for(x.buf, groups * channels, groups * w.width))) goto done;
    if (!(target = room_for(y.buf, groups * w.rows, groups * w.rows))) goto done;
    u64 *sources = words_in(source), *targets = words_in(target);
    if (sources) mark_sources(&w, x.buf, sources);
    for (isize k = 0; targets && k < groups * w.rows; k++)
        targets[k] = ((const int32_t *)y.buf)[k] == EMPTY ? 0 : ~(u64)0;
    isize misses = 0;
    if (missed.len) {
        int failed = start_numbering(&plain, g.out) || start_reader(&reader, &g, &x_maps, &arena);
        if (!failed) {
            isize count = y_maps.buf && reader.out ? y_maps.len / 8 / reader.out : 2;
            misses = run_miss(&w, &reader, x.buf, y.buf, &plain, y_maps.buf, count, missed.buf, &arena);
            failed = arena.failed;
        }
        release(&arena), end_numbering(&plain);
        if (failed) { PyErr_NoMemory(); goto done; }
    }
    run_tally(&w, sources, 1, targets, 1, misses ? missed.buf : NULL, found);
    result = Py_BuildValue("(OONN)", source, target, PyBool_FromLong(misses != 0), tallied(found));
done:
    Py_XDECREF(source), Py_XDECREF(target), release_geometry(&g);
unparsed:
    PyBuffer_Release(&words), PyBuffer_Release(&x), PyBuffer_Release(&x_maps), PyBuffer_Release(&y);
    PyBuffer_Release(&y_maps), PyBuffer_Release(&missed);
    return result;
}

static PyObject *number(PyObject *self, PyObject *args) {
    Py_buffer maps;
    isize positions, count;
    if (!PyArg_ParseTuple(args, "y*nn", &maps, &count, &positions)) return NULL;
    Numbering numbering;
    Arena arena = {0};
    int32_t *into = take(&arena, 4 * count);
    if (!start_numbering(&numbering, positions) && into)
        for (isize i = 0; i < count; i++)
            into[i] = number_of(&numbering, (const u64 *)maps.buf + i * numbering.width);
    PyObject *result = into ? numbered(&numbering, into, count) : PyErr_NoMemory();
    release(&arena), end_numbering(&numbering), PyBuffer_Release(&maps);
    return result;
}

static PyObject *tally(PyObject *self, PyObject *args) {
    Py_buffer words, source, target, missed;
    isize groups, width, found[6] = {0};
    if (!PyArg_ParseTuple(args, "y*nnz*z*z*", &words, &groups, &width, &source, &target, &missed)) return NULL;
    isize rows = width && groups ? words.len / 8 / width / groups : 0;
    Rows w = {groups, 0, 0, rows, width, words.buf};
    run_tally(&w, source.buf, source.len < words.len, target.buf, target.len < words.len, missed.buf, found);
    PyBuffer_Release(&words), PyBuffer_Release(&source), PyBuffer_Release(&target), PyBuffer_Release(&missed);
    return tallied(found);
}

static PyObject *transpose(PyObject *self, PyObject *args) {
    Py_buffer words, turned;
    isize rows, columns;
    if (!PyArg_ParseTuple(args, "y*w*nn", &words, &turned, &rows, &columns)) return NULL;
    PyThreadState *state = words.len > LITTLE ? PyEval_SaveThread() : NULL;
    run_transpose(words.buf, turned.buf, rows, columns);
    if (state) PyEval_RestoreThread(state);
    PyBuffer_Release(&words), PyBuffer_Release(&turned);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"pack", pack, METH_VARARGS, NULL},     {"forward", forward, METH_VARARGS, NULL},
    {"backward", backward, METH_VARARGS, NULL}, {"meet", meet, METH_VARARGS, NULL},
    {"number", number, METH_VARARGS, NULL}, {"tally", tally, METH_VARARGS, NULL},
    {"transpose", transpose, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "compiled", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_compiled(void) { return PyModuleDef_Init(&definition); }
