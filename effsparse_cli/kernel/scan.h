/* Weights are read while the pass goes on: one thread more packs piece by piece, the pass takes part when it has to
   wait for a weight. Python opens a tensor shortly before its first piece is due, so that nobody waits for it, and is
   told after the last. That is for the thread of the pass to see to: one that is new to Python takes as long to
   make itself known, and to leave, as a small model takes altogether.

   Of some weights it is enough for the pass to know that all columns are in use, which a few rows may tell. Such a one
   stands in the order twice, the first time as ~k: there it is read until that is known, and what is left of it later,
   when the pass has work of its own. */

#include <pthread.h>
#include <sched.h>

#define AHEAD (8 * piece) /* numbers that are open and not taken, for nobody to wait */
#define PATIENCE 1000     /* looks for work before a thread goes to sleep: waking one takes as long */
#define SPAN (8 * piece)  /* bytes of a file that are given back at a time: all processors have to hear of it */

static isize piece = 1 << 20; /* bytes that a thread packs at a time, and numbers that are opened at a time */

enum { WAITING, OPEN, PACKED, CLOSED };

typedef struct {
    isize rows, columns, width;
    u64 *words, *index, *starts, *used; /* of the whole; the last three for a tight one */
    int state, size, is_signed;
    int twice, known; /* it stands in the order twice; all columns are known to be in use */
    Py_buffer numbers;
    PyObject *done;      /* to be told when all is packed, or None */
    isize taken, packed; /* rows */
    isize left;          /* numbers that are to be read later */
    isize kept[2];
} Sheet;

typedef struct {
    Sheet *sheets;
    const int32_t *order;
    isize count, entries;        /* of sheets, and of the order */
    isize first, opened, closed; /* before `first`, in order, all have been taken, or left for later, and so on */
    isize ahead;                 /* numbers that are open and neither taken nor left */
    pthread_t opener;            /* the thread of the pass */
    PyObject *open;
    PyObject *done;              /* that is to be told of what was read between two addresses, or NULL */
    const char *from, *to;
    PyObject *error[3];
    int failed;
    pthread_mutex_t lock;
    pthread_cond_t changed;
} Scan;

static Sheet *sheet_at(const Scan *s, isize i) { return &s->sheets[s->order[i] < 0 ? ~s->order[i] : s->order[i]]; }

static void start_scan(Scan *s, const Py_buffer *order) {
    s->order = order->buf, s->entries = order->len / 4;
    for (isize i = 0; i < s->entries; i++) sheet_at(s, i)->twice |= s->order[i] < 0;
    pthread_mutex_init(&s->lock, NULL), pthread_cond_init(&s->changed, NULL), s->opener = pthread_self();
}

/* Has it stood in the order before? */
static int is_again(const Scan *s, isize i) { return s->order[i] >= 0 && sheet_at(s, i)->twice; }

/* For weights of so many rows and columns. */
static Sheet *sheets_of(const int64_t *sizes, isize count) {
    Sheet *sheets = calloc(count + 1, sizeof *sheets);
    for (isize k = 0; sheets && k < count; k++) {
        sheets[k].rows = sizes[2 * k], sheets[k].columns = sizes[2 * k + 1];
        sheets[k].width = WORDS(sheets[k].columns);
    }
    return sheets;
}

/* Their bits in one buffer, one after another, each tight one with what it needs more; these are those with rows of so
   many words at least, none for zero. How many words that takes. */
static isize lay_out(Sheet *sheets, isize count, u64 *words, isize tight) {
    u64 *start = words;
    for (isize k = 0; sheets && k < count; k++) {
        Sheet *sheet = &sheets[k];
        sheet->words = words, words += sheet->rows * sheet->width;
        if (!tight || sheet->width < tight || sheet->width > WIDEST_TIGHT) continue;
        words += 8; /* which are read with the last ones, and must not be another sheet's that is being written */
        sheet->index = words, words += sheet->rows * WORDS(sheet->width);
        sheet->starts = words, words += sheet->rows;
        sheet->used = words, words += sheet->width; /* columns */
    }
    return words - start;
}

static int has_failed(const Scan *s) { return __atomic_load_n(&s->failed, __ATOMIC_ACQUIRE); }

/* With Python's lock held, and its error set. The first error counts. */
static void fail(Scan *s) {
    PyObject *error[3];
    PyErr_Fetch(&error[0], &error[1], &error[2]);
    pthread_mutex_lock(&s->lock);
    if (!s->failed) {
        memcpy(s->error, error, sizeof error), memset(error, 0, sizeof error);
        __atomic_store_n(&s->failed, 1, __ATOMIC_RELEASE);
    }
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < 3; i++) Py_XDECREF(error[i]);
}

static void fail_for_memory(Scan *s) {
    PyGILState_STATE python = PyGILState_Ensure();
    PyErr_NoMemory(), fail(s);
    PyGILState_Release(python);
}

static isize size_of(const Sheet *sheet) { return sheet->rows * sheet->columns; }

/* The next sheet in order that has been packed and not been closed, or -1; from now on it is nobody else's. */
static isize next_packed(Scan *s) {
    isize found = -1;
    pthread_mutex_lock(&s->lock);
    for (; found < 0 && s->closed < s->entries; s->closed++) {
        Sheet *sheet = sheet_at(s, s->closed);
        if (s->order[s->closed] < 0) continue;
        if (sheet->state < PACKED) break;
        if (sheet->state == PACKED) sheet->state = CLOSED, found = s->order[s->closed];
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}

/* With Python's lock held. */
static void let_go(Sheet *sheet) { PyBuffer_Release(&sheet->numbers), Py_DECREF(sheet->done); }

/* With Python's lock held. */
static void tell(Scan *s) {
    if (!s->done) return;
    PyObject *said = PyObject_CallFunction(s->done, "nn", (isize)s->from, (isize)s->to);
    if (!said) fail(s);
    Py_XDECREF(said), Py_DECREF(s->done), s->done = NULL;
}

/* With Python's lock held. What is told of sheets near to one another is told of all that lies between their ends. */
static void close_sheets(Scan *s) {
    for (isize k; (k = next_packed(s)) >= 0;) {
        Sheet *sheet = &s->sheets[k];
        const char *from = sheet->numbers.buf, *to = from + sheet->numbers.len;
        if (sheet->done != Py_None && from < to) {
            int near = s->done && from >= s->from && to <= s->from + SPAN;
            int alike = near ? PyObject_RichCompareBool(s->done, sheet->done, Py_EQ) : 0;
            if (alike < 0) fail(s);
            if (alike < 1) {
                tell(s);
                s->done = Py_NewRef(sheet->done), s->from = s->to = from;
            }
            if (to > s->to) s->to = to;
            if (s->to >= s->from + SPAN) tell(s);
        }
        let_go(sheet);
    }
}

static int open_sheet(Scan *s, isize k) {
    Sheet *sheet = &s->sheets[k];
    PyObject *found = PyObject_CallFunction(s->open, "n", k);
    int good = found && PyArg_ParseTuple(found, "y*ipO", &sheet->numbers, &sheet->size, &sheet->is_signed, &sheet->done);
    if (good) Py_INCREF(sheet->done);
    Py_XDECREF(found);
    if (good && sheet->numbers.len != sheet->rows * sheet->columns * sheet->size) {
        let_go(sheet), good = 0;
        PyErr_SetString(PyExc_ValueError, "a weight is not as large as its shape");
    }
    if (!good) fail(s);
    return good;
}

/* Closes what is packed, and opens a piece more or a large sheet. Holds the scan's lock before and after. */
static void open_sheets(Scan *s) {
    isize at = s->opened, end = at, good = at, before = s->ahead;
    for (; end < s->entries && s->ahead < AHEAD && s->ahead < before + piece; end++)
        s->ahead += is_again(s, end) ? sheet_at(s, end)->left : size_of(sheet_at(s, end));
    pthread_mutex_unlock(&s->lock);
    PyGILState_STATE python = PyGILState_Ensure();
    close_sheets(s);
    while (good < end && (is_again(s, good) || open_sheet(s, sheet_at(s, good) - s->sheets))) good++;
    PyGILState_Release(python);
    pthread_mutex_lock(&s->lock);
    for (isize i = at; i < end; i++) {
        Sheet *sheet = sheet_at(s, i);
        if (is_again(s, i)) continue;
        sheet->state = i >= good ? CLOSED : size_of(sheet) ? OPEN : PACKED;
        if (sheet->state == PACKED) sheet->kept[1] = sheet->taken = sheet->rows; /* there is nothing in it */
    }
    s->opened = end;
    pthread_cond_broadcast(&s->changed);
}

/* `columns` are those of a tight sheet that these rows have in use. */
static void pack_rows(const Sheet *sheet, isize first, isize rows, isize *kept, u64 *columns) {
    const char *numbers = (const char *)sheet->numbers.buf + first * sheet->columns * sheet->size;
    isize at = first * sheet->width, high = WORDS(sheet->width);
    if (!sheet->index) {
        pack_of(sheet->size)(numbers, sheet->words + at, rows, sheet->columns, sheet->is_signed, kept);
        return;
    }
    u64 row[WIDEST_TIGHT];
    memset(columns, 0, 8 * sheet->width);
    for (isize k = first; k < first + rows; k++, numbers += sheet->columns * sheet->size) {
        isize before = kept[0];
        pack_of(sheet->size)(numbers, row, 1, sheet->columns, sheet->is_signed, kept);
        sheet->starts[k] = (u64)at | (u64)(kept[0] - before) << START_BITS;
        at += (vectors == 2 ? tighten_widest : tighten_plain)(row, sheet->width, sheet->words + at,
                                                              sheet->index + k * high, columns);
    }
}

/* Is there a sheet to open, or a large one to close? */
static int has_turned(const Scan *s) {
    const Sheet *oldest = s->closed < s->entries ? sheet_at(s, s->closed) : NULL;
    if (oldest && oldest->state == PACKED && size_of(oldest) >= piece) return 1;
    return s->opened < s->entries && s->ahead < AHEAD;
}

/* The next sheet in order that has rows to be packed now, or NULL. */
static Sheet *next_sheet(Scan *s) {
    for (; s->first < s->opened; s->first++) {
        Sheet *sheet = sheet_at(s, s->first);
        if (sheet->taken == sheet->rows) continue;
        if (s->order[s->first] >= 0 || !sheet->known) return sheet;
        s->ahead -= sheet->left = (sheet->rows - sheet->taken) * sheet->columns;
    }
    return NULL;
}

/* Adds the columns that some rows of a tight sheet have in use. */
static void add_used(Scan *s, Sheet *sheet, const u64 *columns) {
    if (sheet->known) return;
    or_into(sheet->used, columns, sheet->width);
    isize k = 0, whole = sheet->columns / 64, rest = sheet->columns % 64;
    while (k < whole && !~sheet->used[k]) k++;
    if (k < whole || (rest && sheet->used[k] != ((u64)1 << rest) - 1)) return;
    sheet->known = 1;
    pthread_cond_broadcast(&s->changed);
}

/* Opens sheets or packs one piece, the next in order, or says that there is nothing to do. Holds the scan's lock before
   and after. */
static int pack_next(Scan *s) {
    if (has_failed(s)) return 0;
    Sheet *sheet = next_sheet(s); /* first, because more may be opened for what it leaves for later */
    if (pthread_equal(s->opener, pthread_self()) && has_turned(s)) {
        open_sheets(s);
        return 1;
    }
    if (!sheet) return 0;
    isize step = piece / (sheet->columns * sheet->size) + 1, first = sheet->taken, kept[2] = {0};
    isize rows = first + step < sheet->rows ? step : sheet->rows - first;
    sheet->taken += rows, s->ahead -= rows * sheet->columns;
    pthread_mutex_unlock(&s->lock);
    u64 columns[WIDEST_TIGHT];
    pack_rows(sheet, first, rows, kept, columns);
    pthread_mutex_lock(&s->lock);
    if (sheet->index) add_used(s, sheet, columns);
    sheet->kept[0] += kept[0], sheet->kept[1] += kept[1];
    if ((sheet->packed += rows) < sheet->rows) return 1;
    sheet->state = PACKED;
    pthread_cond_broadcast(&s->changed);
    return 1;
}

/* For something to do, which may not be long. Holds the scan's lock before and after. */
static void wait_a_while(Scan *s, int *patience) {
    if (--*patience < 0) { pthread_cond_wait(&s->changed, &s->lock); return; }
    pthread_mutex_unlock(&s->lock);
    sched_yield();
    pthread_mutex_lock(&s->lock);
}

/* Until a weight has been packed whole, or, if that is all that is asked, its columns are known to be all in use: then it
   gives back 2. Zero after a failure. */
static int wait_for(Scan *s, isize k, int for_columns) {
    int patience = PATIENCE, known;
    pthread_mutex_lock(&s->lock);
    while (!(known = for_columns && s->sheets[k].known) && s->sheets[k].state < PACKED && !has_failed(s)) {
        if (pack_next(s)) patience = PATIENCE;
        else wait_a_while(s, &patience);
    }
    pthread_mutex_unlock(&s->lock);
    return has_failed(s) ? 0 : 1 + known;
}

/* With Python's lock held, when no other thread is left. What was not packed whole, after a failure, is only let go. */
static void end_scan(Scan *s) {
    if (!has_failed(s)) close_sheets(s);
    tell(s);
    for (isize k = 0; k < s->count; k++)
        if (s->sheets[k].state == OPEN || s->sheets[k].state == PACKED) let_go(&s->sheets[k]);
    pthread_mutex_destroy(&s->lock), pthread_cond_destroy(&s->changed);
}
