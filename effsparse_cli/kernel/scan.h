/* Weights are read while the pass goes on: one thread more packs piece by piece, the pass takes part when it has to wait
   for a weight. Python opens a tensor when its first piece is due, and closes it after the last. */

#include <pthread.h>

#define PIECE ((isize)1 << 20) /* numbers that a thread packs at a time */

enum { WAITING, OPENING, OPEN, DONE };

typedef struct {
    isize rows, columns, width;
    u64 *words;
    int state, size, is_signed;
    Py_buffer numbers;
    isize taken, packed; /* rows */
    isize kept[2];
} Sheet;

typedef struct {
    Sheet *sheets;
    const int32_t *order;
    isize count, first; /* before `first`, in order, all have been taken whole */
    PyObject *open, *close;
    PyObject *error[3];
    int failed;
    pthread_mutex_t lock;
    pthread_cond_t changed;
} Scan;

static void start_scan(Scan *s) {
    pthread_mutex_init(&s->lock, NULL), pthread_cond_init(&s->changed, NULL);
}

static void end_scan(Scan *s) {
    for (isize k = 0; k < s->count; k++)
        if (s->sheets[k].state == OPEN) PyBuffer_Release(&s->sheets[k].numbers);
    pthread_mutex_destroy(&s->lock), pthread_cond_destroy(&s->changed);
}

/* With Python's lock held, and its error set. The first error counts. */
static void fail(Scan *s) {
    PyObject *error[3];
    PyErr_Fetch(&error[0], &error[1], &error[2]);
    pthread_mutex_lock(&s->lock);
    if (!s->failed) memcpy(s->error, error, sizeof error), memset(error, 0, sizeof error), s->failed = 1;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < 3; i++) Py_XDECREF(error[i]);
}

static void fail_for_memory(Scan *s) {
    PyGILState_STATE python = PyGILState_Ensure();
    PyErr_NoMemory(), fail(s);
    PyGILState_Release(python);
}

static void open_sheet(Scan *s, isize k) {
    Sheet *sheet = &s->sheets[k];
    PyGILState_STATE python = PyGILState_Ensure();
    PyObject *found = PyObject_CallFunction(s->open, "n", k);
    int good = found && PyArg_ParseTuple(found, "y*ip", &sheet->numbers, &sheet->size, &sheet->is_signed);
    if (good && sheet->numbers.len != sheet->rows * sheet->columns * sheet->size) {
        PyBuffer_Release(&sheet->numbers), good = 0;
        PyErr_SetString(PyExc_ValueError, "a weight is not as large as its shape");
    }
    Py_XDECREF(found);
    if (!good) fail(s);
    PyGILState_Release(python);
    pthread_mutex_lock(&s->lock);
    sheet->state = good ? OPEN : DONE;
    pthread_cond_broadcast(&s->changed);
}

/* Locks the scan, as open_sheet does. */
static void close_sheet(Scan *s, isize k) {
    PyGILState_STATE python = PyGILState_Ensure();
    PyBuffer_Release(&s->sheets[k].numbers);
    PyObject *done = PyObject_CallFunction(s->close, "n", k);
    if (!done) fail(s);
    Py_XDECREF(done);
    PyGILState_Release(python);
    pthread_mutex_lock(&s->lock);
    s->sheets[k].state = DONE;
    pthread_cond_broadcast(&s->changed);
}

/* Packs one piece, the next in order, or says that there is none to take. Holds the scan's lock before and after. */
static int pack_next(Scan *s) {
    isize at = s->first, k = 0;
    for (; at < s->count; at++) {
        Sheet *sheet = &s->sheets[k = s->order[at]];
        if (sheet->state == WAITING || (sheet->state == OPEN && sheet->taken < sheet->rows)) break;
        if (at == s->first && sheet->state >= OPEN) s->first++;
    }
    if (at == s->count || s->failed) return 0;
    Sheet *sheet = &s->sheets[k];
    if (sheet->state == WAITING) {
        sheet->state = OPENING;
        pthread_mutex_unlock(&s->lock);
        open_sheet(s, k);
        if (sheet->rows || sheet->state != OPEN) return 1;
    }
    isize step = PIECE / (64 * (sheet->width + 1)) + 1, first = sheet->taken, kept[2] = {0};
    isize rows = first + step < sheet->rows ? step : sheet->rows - first;
    sheet->taken += rows;
    pthread_mutex_unlock(&s->lock);
    const char *numbers = (const char *)sheet->numbers.buf + first * sheet->columns * sheet->size;
    pack_of(sheet->size)(numbers, sheet->words + first * sheet->width, rows, sheet->columns, sheet->is_signed, kept);
    pthread_mutex_lock(&s->lock);
    sheet->kept[0] += kept[0], sheet->kept[1] += kept[1];
    if ((sheet->packed += rows) == sheet->rows) {
        pthread_mutex_unlock(&s->lock);
        close_sheet(s, k);
    }
    return 1;
}

/* Until a weight has been packed whole. */
static int wait_for(Scan *s, isize k) {
    if (__atomic_load_n(&s->sheets[k].state, __ATOMIC_ACQUIRE) == DONE && !s->failed) return 1;
    pthread_mutex_lock(&s->lock);
    while (s->sheets[k].state != DONE && !s->failed)
        if (!pack_next(s)) pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return !s->failed;
}
