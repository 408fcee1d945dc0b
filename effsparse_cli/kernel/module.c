/* The Python side of the kernel: arguments in, results out. kernel/numpy_loops.py has the same functions. */

#include "kernel.h"

#define WITHOUT_GIL 65536 /* bytes from which on other threads gain by a release of the GIL */

typedef struct { Geometry g; Py_buffer buffers[6]; } GeometryArgument;

static int parse_geometry(PyObject *tuple, GeometryArgument *argument) {
    Geometry *g = &argument->g;
    Py_buffer *b = argument->buffers;
    if (!PyArg_ParseTuple(tuple, "nnnnny*y*y*y*y*y*", &g->taps, &g->inputs, &g->outputs, &g->last_taps, &g->line_length,
                          &b[0], &b[1], &b[2], &b[3], &b[4], &b[5]))
        return 0;
    g->always = b[0].buf, g->distances = b[1].buf, g->covers = b[2].buf;
    g->front = b[3].buf, g->steps = b[4].buf, g->last = b[5].buf;
    return 1;
}

static void release_geometry(GeometryArgument *argument) {
    for (int i = 0; i < 6; i++) PyBuffer_Release(&argument->buffers[i]);
}

static Rows parse_rows(const Py_buffer *words, isize groups, isize channels, isize taps) {
    isize width = WORDS(channels * taps);
    return (Rows){groups, channels, taps, width && groups ? words->len / 8 / width / groups : 0, width, words->buf};
}

static Maps parse_maps(const Py_buffer *numbers, const Py_buffer *maps) {
    return (Maps){numbers->buf, maps->buf, maps->len / 8};
}

/* The number of all, if it is the same; or all numbers, and the maps if there are any but the empty and the full one. */
static PyObject *build_numbers(const MapTable *table, const int32_t *numbers, isize count) {
    if (table->failed) return PyErr_NoMemory();
    isize same = 1;
    while (same < count && numbers[same] == numbers[0]) same++;
    if (same >= count && (!count || numbers[0] <= FULL)) return PyLong_FromLong(count ? numbers[0] : EMPTY);
    const char *maps = table->count > 2 ? (const char *)table->maps : NULL;
    return Py_BuildValue("(y#y#)", numbers, 4 * count, maps, 8 * table->count * table->width);
}

static PyObject *pack(PyObject *self, PyObject *args) {
    Py_buffer numbers, words;
    isize rows;
    int item_size, ignore_sign;
    Packed packed = {0};
    if (!PyArg_ParseTuple(args, "y*w*nip", &numbers, &words, &rows, &item_size, &ignore_sign)) return NULL;
    isize columns = rows ? numbers.len / item_size / rows : 0;
    int fits = words.len == 8 * rows * WORDS(columns), known = 0;
    if (fits) {
        PyThreadState *state = numbers.len >= WITHOUT_GIL ? PyEval_SaveThread() : NULL;
        known = pack_rows(numbers.buf, words.buf, rows, columns, item_size, ignore_sign, &packed);
        if (state) PyEval_RestoreThread(state);
    }
    PyBuffer_Release(&numbers), PyBuffer_Release(&words);
    if (!known) return PyErr_Format(PyExc_ValueError, "a weight does not have the size of its shape");
    return Py_BuildValue("(nnK)", packed.kept, packed.empty_rows, (unsigned long long)packed.largest);
}

typedef void Loop(const Rows *, TapReader *, const Maps *, int32_t *, MapTable *, Arena *);

static PyObject *contract(PyObject *args, Loop *loop, int backward) {
    Py_buffer words, numbers, maps;
    isize groups, channels;
    PyObject *tuple, *result = NULL;
    GeometryArgument geometry;
    if (!PyArg_ParseTuple(args, "y*nnz*z*O", &words, &groups, &channels, &numbers, &maps, &tuple)) return NULL;
    if (parse_geometry(tuple, &geometry)) {
        Rows rows = parse_rows(&words, groups, channels, geometry.g.taps);
        Maps from = parse_maps(&numbers, &maps);
        isize count = groups * (backward ? channels : rows.rows);
        Arena arena = {0};
        TapReader reader;
        MapTable table;
        int32_t *into = arena_calloc(&arena, 4 * count);
        int ready = map_table_init(&table, geometry.g.outputs) && into;
        if (ready && tap_reader_init(&reader, &geometry.g, from.maps, from.words, &arena))
            loop(&rows, &reader, &from, into, &table, &arena);
        result = arena.failed || !ready ? PyErr_NoMemory() : build_numbers(&table, into, count);
        arena_free(&arena), map_table_free(&table), release_geometry(&geometry);
    }
    PyBuffer_Release(&words), PyBuffer_Release(&numbers), PyBuffer_Release(&maps);
    return result;
}

static PyObject *forward(PyObject *self, PyObject *args) { return contract(args, run_forward, 0); }
static PyObject *backward(PyObject *self, PyObject *args) { return contract(args, run_backward, 1); }

/* Allocate bytes for this number of words, or return None if no number is EMPTY. */
static PyObject *new_words_if_empty(const int32_t *numbers, isize count, isize words) {
    for (isize i = 0; numbers && i < count; i++)
        if (numbers[i] == EMPTY) return PyBytes_FromStringAndSize(NULL, 8 * words);
    Py_RETURN_NONE;
}

static u64 *get_words(PyObject *bytes) { return bytes == Py_None ? NULL : (u64 *)PyBytes_AsString(bytes); }

/* Returns how many words of `missed` have a bit, or -1 without memory. */
static isize run_find_missed(const Rows *rows, const Geometry *geometry, const Maps *x, const Maps *y, u64 *missed) {
    Arena arena = {0};
    TapReader reader;
    MapTable table;
    isize found = -1;
    if (map_table_init(&table, geometry->outputs) && tap_reader_init(&reader, geometry, x->maps, x->words, &arena))
        found = find_missed(rows, &reader, x, y, &table, missed, &arena);
    if (arena.failed) found = -1;
    arena_free(&arena), map_table_free(&table);
    return found;
}

static PyObject *meet(PyObject *self, PyObject *args) {
    Py_buffer words, x_numbers, x_maps, y_numbers, y_maps, missed;
    isize groups, channels;
    PyObject *tuple, *result = NULL, *source = NULL, *target = NULL;
    GeometryArgument geometry;
    if (!PyArg_ParseTuple(args, "y*nnz*z*z*z*w*O", &words, &groups, &channels, &x_numbers, &x_maps, &y_numbers, &y_maps,
                          &missed, &tuple))
        return NULL;
    if (parse_geometry(tuple, &geometry)) {
        Rows rows = parse_rows(&words, groups, channels, geometry.g.taps);
        Maps x = parse_maps(&x_numbers, &x_maps), y = parse_maps(&y_numbers, &y_maps);
        isize all_rows = groups * rows.rows, found = 0;
        source = new_words_if_empty(x.numbers, groups * channels, groups * rows.width);
        target = new_words_if_empty(y.numbers, all_rows, all_rows);
        if (missed.len) found = run_find_missed(&rows, &geometry.g, &x, &y, missed.buf);
        if (source && target && found >= 0) {
            u64 *sources = get_words(source), *targets = get_words(target);
            if (sources) mark_sources(&rows, x.numbers, sources);
            for (isize k = 0; targets && k < all_rows; k++) targets[k] = y.numbers[k] == EMPTY ? 0 : ~(u64)0;
            Ends ends = {sources, targets, found ? missed.buf : NULL, 1, 1};
            result = Py_BuildValue("(OONN)", source, target, PyBool_FromLong(found != 0), count_connections(&rows, &ends));
        } else if (!PyErr_Occurred()) PyErr_NoMemory();
        Py_XDECREF(source), Py_XDECREF(target), release_geometry(&geometry);
    }
    PyBuffer_Release(&words), PyBuffer_Release(&x_numbers), PyBuffer_Release(&x_maps), PyBuffer_Release(&y_numbers);
    PyBuffer_Release(&y_maps), PyBuffer_Release(&missed);
    return result;
}

static PyObject *number(PyObject *self, PyObject *args) {
    Py_buffer maps;
    isize positions, count;
    if (!PyArg_ParseTuple(args, "y*nn", &maps, &count, &positions)) return NULL;
    MapTable table;
    int32_t *numbers = malloc(4 * count + 1);
    if (map_table_init(&table, positions) && numbers)
        for (isize i = 0; i < count; i++) numbers[i] = map_table_add(&table, (const u64 *)maps.buf + i * table.width);
    PyObject *result = numbers ? build_numbers(&table, numbers, count) : PyErr_NoMemory();
    free(numbers), map_table_free(&table), PyBuffer_Release(&maps);
    return result;
}

static PyObject *tally(PyObject *self, PyObject *args) {
    Py_buffer words, source, target, missed;
    isize groups, width;
    if (!PyArg_ParseTuple(args, "y*nnz*z*z*", &words, &groups, &width, &source, &target, &missed)) return NULL;
    Rows rows = parse_rows(&words, groups, 64 * width, 1);
    Ends ends = {source.buf, target.buf, missed.buf, source.len < words.len, target.len < words.len};
    PyObject *result = count_connections(&rows, &ends);
    PyBuffer_Release(&words), PyBuffer_Release(&source), PyBuffer_Release(&target), PyBuffer_Release(&missed);
    return result;
}

static PyObject *transpose(PyObject *self, PyObject *args) {
    Py_buffer words, transposed;
    isize rows, columns;
    if (!PyArg_ParseTuple(args, "y*w*nn", &words, &transposed, &rows, &columns)) return NULL;
    transpose_bits(words.buf, transposed.buf, rows, columns);
    PyBuffer_Release(&words), PyBuffer_Release(&transposed);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"pack", pack, METH_VARARGS, NULL},         {"forward", forward, METH_VARARGS, NULL},
    {"backward", backward, METH_VARARGS, NULL}, {"meet", meet, METH_VARARGS, NULL},
    {"number", number, METH_VARARGS, NULL},     {"tally", tally, METH_VARARGS, NULL},
    {"transpose", transpose, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "compiled", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_compiled(void) { return PyModuleDef_Init(&definition); }
