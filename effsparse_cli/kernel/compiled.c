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
#define CLONED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define POPCOUNT
#define CLONED
#endif

typedef uint64_t u64;
typedef Py_ssize_t isize;
enum { EMPTY, FULL };

#define WORDS(bits) (((bits) + 63) / 64)
#define EACH_BIT(word, at)                                                                                             \
    for (u64 at##_left = (word), at; at##_left && (at = __builtin_ctzll(at##_left), 1); at##_left &= at##_left - 1)

#include "maps.h"
#include "numbers.h"
#include "tight.h"
#include "rows.h"
#include "contract.h"
#include "scan.h"
#include "values.h"
#include "sums.h"
#include "moves.h"
#include "program.h"
#include "pass.h"
#include "run.h"

/* The number of all, if it is the same; or numbers, and the maps if there are any but the empty and the full one. */
static PyObject *numbered(const Numbering *n, const int32_t *numbers, isize count) {
    if (n->failed) return PyErr_NoMemory();
    isize same = 1;
    while (same < count && numbers[same] == numbers[0]) same++;
    if (same >= count && (!count || numbers[0] <= FULL)) return PyLong_FromLong(count ? numbers[0] : EMPTY);
    const char *maps = n->count > 2 ? (const char *)n->maps : NULL;
    return Py_BuildValue("(y#y#)", numbers, 4 * count, maps, 8 * n->count * n->width);
}

static PyObject *tallied(const isize *found) {
    PyObject *result = PyTuple_New(6);
    for (isize i = 0; result && i < 6; i++) {
        PyObject *number = PyLong_FromSsize_t(found[i]);
        if (number) PyTuple_SetItem(result, i, number);
        else Py_CLEAR(result);
    }
    return result;
}

/* None, if no number is EMPTY. */
static PyObject *room_for(const int32_t *numbers, isize count, isize words) {
    for (isize i = 0; numbers && i < count; i++)
        if (numbers[i] == EMPTY) return PyBytes_FromStringAndSize(NULL, 8 * words);
    Py_RETURN_NONE;
}

static u64 *words_in(PyObject *bytes) { return bytes == Py_None ? NULL : (u64 *)PyBytes_AsString(bytes); }

/* What Python calls. */

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
    if (!start_numbering(&numbering, g.out) && into && !start_reader(&reader, &g, maps.buf, maps.len / 8, &arena)) {
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
        int failed = start_numbering(&plain, g.out) || start_reader(&reader, &g, x_maps.buf, x_maps.len / 8, &arena);
        if (!failed) {
            isize count = y_maps.buf && reader.out ? y_maps.len / 8 / reader.out : 2;
            u64 *into = missed.buf;
            misses = run_miss(&w, &reader, x.buf, y.buf, &plain, y_maps.buf, count, &into, &arena);
            failed = arena.failed;
        }
        release(&arena), end_numbering(&plain);
        if (failed) { PyErr_NoMemory(); goto done; }
    }
    run_tally(&w, &(Ends){sources, targets, misses ? missed.buf : NULL}, found);
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
    Rows w = {.groups = groups, .rows = rows, .width = width, .words = words.buf};
    tally_whole(&w, source.buf, source.len < words.len, target.buf, target.len < words.len, missed.buf, found);
    PyBuffer_Release(&words), PyBuffer_Release(&source), PyBuffer_Release(&target), PyBuffer_Release(&missed);
    return tallied(found);
}

static PyObject *transpose(PyObject *self, PyObject *args) {
    Py_buffer words, turned;
    isize rows, columns;
    if (!PyArg_ParseTuple(args, "y*w*nn", &words, &turned, &rows, &columns)) return NULL;
    run_transpose(words.buf, turned.buf, rows, columns);
    PyBuffer_Release(&words), PyBuffer_Release(&turned);
    Py_RETURN_NONE;
}


/* How many connections each keeps, and how many of its rows keep none. */
static PyObject *kept_by(const Scan *scan) {
    PyObject *result = PyBytes_FromStringAndSize(NULL, 16 * scan->count);
    int64_t *into = result ? (int64_t *)PyBytes_AsString(result) : NULL;
    for (isize k = 0; into && k < 2 * scan->count; k++) into[k] = scan->sheets[k / 2].kept[k % 2];
    return result;
}

static PyObject *scan(PyObject *self, PyObject *args) {
    Pass pass = {0};
    Py_buffer sizes, words, order;
    int helped;
    Scan *s = &pass.scan;
    if (!PyArg_ParseTuple(args, "y*w*y*Op", &sizes, &words, &order, &s->open, &helped)) return NULL;
    PyObject *result = NULL;
    s->count = sizes.len / 16, s->sheets = sheets_of(sizes.buf, s->count);
    lay_out(s->sheets, s->count, words.buf, 0);
    if (s->sheets) {
        Program nothing = {0};
        pass.program = &nothing;
        start_scan(s, &order);
        run_pass(&pass, helped);
        end_scan(s);
        if (has_failed(s)) PyErr_Restore(s->error[0], s->error[1], s->error[2]);
        else result = kept_by(s);
        free(s->sheets);
    } else PyErr_NoMemory();
    PyBuffer_Release(&sizes), PyBuffer_Release(&words), PyBuffer_Release(&order);
    return result;
}

static void forget_program(PyObject *capsule) { free_program(PyCapsule_GetPointer(capsule, NULL)); }

static PyObject *compile(PyObject *self, PyObject *args) {
    PyObject *instructions, *contractions, *constants, *result = NULL;
    Py_buffer ranks, sizes;
    if (!PyArg_ParseTuple(args, "O!O!O!y*y*", &PyList_Type, &instructions, &PyList_Type, &contractions, &PyList_Type,
                          &constants, &ranks, &sizes))
        return NULL;
    Program *program = read_program(instructions, contractions, constants, &ranks, &sizes);
    if (program && !(result = PyCapsule_New(program, NULL, forget_program))) free_program(program);
    PyBuffer_Release(&ranks), PyBuffer_Release(&sizes);
    return result;
}

static void forget_pass(PyObject *capsule) {
    Pass *p = PyCapsule_GetPointer(capsule, NULL);
    if (p->owner) {
        free(p->program->spare), p->program->spare = recycle(&p->arena);
        Py_DECREF(p->owner);
    }
    free(p);
}

/* Which values are anything but empty. */
static PyObject *filled(const Pass *p) {
    PyObject *result = PyBytes_FromStringAndSize(NULL, p->program->registers);
    char *into = result ? PyBytes_AsString(result) : NULL;
    for (isize i = 0; into && i < p->program->registers; i++) into[i] = p->values[i]->kind != EMPTY;
    return result;
}

static PyObject *tallies_of(const Pass *p) {
    PyObject *result = PyList_New(p->ready);
    for (isize k = 0; result && k < p->ready; k++) {
        PyObject *tally = tallied(p->tallies + 6 * k);
        if (tally) PyList_SetItem(result, k, tally);
        else Py_CLEAR(result);
    }
    return result;
}

static int start_pass(Pass *p, u64 *words) {
    Program *program = p->program;
    isize registers = program->registers, meets = program->meets;
    if (program->spare) add_block(&p->arena, program->spare), program->spare = NULL;
    p->values = take(&p->arena, sizeof(Value *) * (registers + 1));
    p->grouped = take(&p->arena, sizeof(Value *) * (registers + 1));
    p->tallies = take(&p->arena, 6 * sizeof(isize) * meets + 8);
    p->meetings = take(&p->arena, sizeof(isize) * (meets + 1));
    p->asks = take(&p->arena, meets + 1);
    p->scan.sheets = sheets_of(program->sizes, program->sheets);
    if (p->arena.failed || !p->scan.sheets) { PyErr_NoMemory(); return 0; }
    lay_out(p->scan.sheets, program->sheets, words, program->tight);
    for (isize k = 0; k < program->sheets; k++) {
        const Sheet *sheet = &p->scan.sheets[k];
        if (sheet->used) memset(sheet->used, 0, 8 * sheet->width);
    }
    memcpy(p->values, program->constants, sizeof(Value *) * registers);
    p->scan.count = program->sheets;
    return 1;
}

static PyObject *run(PyObject *self, PyObject *args) {
    PyObject *owner, *capsule, *result = NULL;
    Py_buffer words, order;
    int helped;
    Pass *p = calloc(1, sizeof *p);
    if (!p) return PyErr_NoMemory();
    if (!(capsule = PyCapsule_New(p, NULL, forget_pass))) { free(p); return NULL; }
    Scan *s = &p->scan;
    if (!PyArg_ParseTuple(args, "Ow*y*OOOp", &owner, &words, &order, &s->open, &p->ask, &p->ways, &helped)) {
        Py_DECREF(capsule);
        return NULL;
    }
    p->program = PyCapsule_GetPointer(owner, NULL), p->owner = Py_NewRef(owner);
    if (start_pass(p, words.buf)) {
        start_scan(s, &order);
        run_pass(p, helped);
        end_scan(s);
        if (has_failed(s)) PyErr_Restore(s->error[0], s->error[1], s->error[2]);
        else
            result = Py_BuildValue("(ONy#NN)", capsule, tallies_of(p), p->asks, p->ready, filled(p), kept_by(s));
    }
    free(s->sheets);
    PyBuffer_Release(&words), PyBuffer_Release(&order), Py_DECREF(capsule);
    return result;
}

/* How many words a program's sheets take, and where in them each begins, or -1 for a tight one. */
static PyObject *room(PyObject *self, PyObject *args) {
    PyObject *capsule, *result = NULL;
    if (!PyArg_ParseTuple(args, "O", &capsule)) return NULL;
    const Program *p = PyCapsule_GetPointer(capsule, NULL);
    Sheet *sheets = p ? sheets_of(p->sizes, p->sheets) : NULL;
    if (!sheets) return p ? PyErr_NoMemory() : NULL;
    isize words = lay_out(sheets, p->sheets, (u64 *)8, p->tight);
    if ((result = PyBytes_FromStringAndSize(NULL, 8 * p->sheets)))
        for (isize k = 0; k < p->sheets; k++)
            ((int64_t *)PyBytes_AsString(result))[k] = sheets[k].index ? -1 : sheets[k].words - (u64 *)8;
    free(sheets);
    return result ? Py_BuildValue("(nN)", words, result) : NULL;
}

/* The rows of a sheet, with zeros where words were left out. */
static PyObject *loose(PyObject *self, PyObject *args) {
    PyObject *capsule;
    Py_buffer words, into;
    isize number;
    if (!PyArg_ParseTuple(args, "Oy*nw*", &capsule, &words, &number, &into)) return NULL;
    const Program *p = PyCapsule_GetPointer(capsule, NULL);
    Sheet *sheets = p ? sheets_of(p->sizes, p->sheets) : NULL;
    if (sheets) {
        lay_out(sheets, p->sheets, words.buf, p->tight);
        const Sheet *sheet = &sheets[number];
        Rows w = {1, 0, 0, sheet->rows, sheet->width, sheet->words, sheet->index, sheet->starts, sheet->used};
        for (isize k = 0; k < w.rows; k++) {
            u64 *to = (u64 *)into.buf + k * w.width;
            memset(to, 0, 8 * w.width);
            EACH_WORD(&w, k, row) to[row.at] = row.word;
        }
        free(sheets);
    } else if (p) PyErr_NoMemory();
    PyBuffer_Release(&words), PyBuffer_Release(&into);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyObject *value(PyObject *self, PyObject *args) {
    PyObject *capsule;
    isize at;
    if (!PyArg_ParseTuple(args, "On", &capsule, &at)) return NULL;
    const Pass *p = PyCapsule_GetPointer(capsule, NULL);
    return p ? told(p->values[at]) : NULL;
}

/* How wide the vectors may be that numbers are read by: 0, 1 or 2; gives back how wide they are. */
static PyObject *widen(PyObject *self, PyObject *args) {
    int widest = widest_vectors(), wanted;
    if (!PyArg_ParseTuple(args, "i", &wanted)) return NULL;
    return PyLong_FromLong(vectors = wanted < widest ? wanted : widest);
}

/* From how many words on, of all weights and of a row, these are tight; gives back what it was. */
static PyObject *tighten(PyObject *self, PyObject *args) {
    isize old[2] = {large, narrow};
    if (!PyArg_ParseTuple(args, "nn", &large, &narrow)) return NULL;
    return Py_BuildValue("(nn)", old[0], old[1]);
}

/* How many bytes a thread packs at a time; gives back what it was. */
static PyObject *cut(PyObject *self, PyObject *args) {
    isize old = piece;
    return PyArg_ParseTuple(args, "n", &piece) ? PyLong_FromSsize_t(old) : NULL;
}

static PyMethodDef methods[] = {
    {"backward", backward, METH_VARARGS, NULL}, {"compile", compile, METH_VARARGS, NULL},
    {"cut", cut, METH_VARARGS, NULL},           {"forward", forward, METH_VARARGS, NULL},
    {"loose", loose, METH_VARARGS, NULL},       {"meet", meet, METH_VARARGS, NULL},
    {"number", number, METH_VARARGS, NULL},     {"room", room, METH_VARARGS, NULL},
    {"run", run, METH_VARARGS, NULL},           {"scan", scan, METH_VARARGS, NULL},
    {"tally", tally, METH_VARARGS, NULL},       {"tighten", tighten, METH_VARARGS, NULL},
    {"transpose", transpose, METH_VARARGS, NULL}, {"value", value, METH_VARARGS, NULL},
    {"widen", widen, METH_VARARGS, NULL},       {NULL, NULL, 0, NULL},
};

static int begin(PyObject *module) {
    vectors = widest_vectors();
    const char *names[] = {"PLUS", "TIMES", "PRODUCT", "TOTAL", "PERMUTE", "RESHAPE", "TAKE",
                           "PUT",  "CONCAT", "SPLIT",  "WINDOW", "CONTRACT", "BACK", "MEET"}; /* as enum Verb has them */
    for (int i = 0; i <= MEET; i++)
        if (PyModule_AddIntConstant(module, names[i], i)) return -1;
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, begin}, {0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "compiled", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_compiled(void) { return PyModuleDef_Init(&definition); }
