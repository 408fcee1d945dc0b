/* Values of a pass: the same everywhere, or by channels along an axis, each of which is empty, full or has a map over the
   other axes. What cannot be said so is Python's, as are the verbs that C does not know how to do. */

enum { BY_CHANNEL = 2, FOREIGN };

typedef struct {
    int kind; /* EMPTY or FULL everywhere, BY_CHANNEL, FOREIGN */
    int axis, rank;
    isize n;                /* channels; one stands for any number of them */
    const int32_t *numbers; /* of their maps */
    const u64 *maps;        /* NULL if there are only empty and full ones */
    isize count, positions; /* of the maps */
    const isize *rest;      /* how many positions on the other axes, as they are stored */
    PyObject *foreign;
} Value;

static const Value EVERYWHERE[2] = {{.kind = EMPTY}, {.kind = FULL}};
static const Value ASK; /* Python has to do it */

static int32_t number_in(const Value *a, isize c) {
    return a->kind < BY_CHANNEL ? a->kind : a->numbers[a->n == 1 ? 0 : c];
}

/* In its plainest form: the same everywhere, if it is; without maps, if no channel has one. */
static const Value *settled(Arena *arena, Value found) {
    isize same = 1, mapped = 0;
    for (isize c = 0; c < found.n; c++) same &= found.numbers[c] == found.numbers[0], mapped |= found.numbers[c] > FULL;
    if (same && !mapped) return &EVERYWHERE[found.n ? found.numbers[0] : EMPTY];
    if (!mapped) found.maps = NULL, found.count = 0, found.rest = NULL, found.positions = 0;
    Value *kept = take(arena, sizeof found);
    if (kept) *kept = found, kept->kind = BY_CHANNEL;
    return kept;
}

/* With the maps of a numbering, which ends. */
static const Value *numbered_value(Arena *arena, Value found, Numbering *n) {
    u64 *maps = n->count > 2 ? take(arena, 8 * n->count * n->width) : NULL;
    if (maps) memcpy(maps, n->maps, 8 * n->count * n->width);
    if (n->failed) arena->failed = 1;
    found.maps = maps, found.count = n->count;
    end_numbering(n);
    return settled(arena, found);
}

static const u64 *map_in(const Value *a, int32_t number, const Numbering *plain) {
    return (a->kind == BY_CHANNEL && a->maps ? a->maps : plain->maps) + number * plain->width;
}

static int same_rest(const Value *a, const Value *b) { return !memcmp(a->rest, b->rest, sizeof(isize) * (a->rank - 1)); }

/* The union or the intersection of two values that are by channels along the same axis. */
static const Value *combine(Arena *arena, const Value *a, const Value *b, int both) {
    const Value *form = a->maps ? a : b;
    if (a->axis != b->axis || (a->maps && b->maps && !same_rest(a, b))) return &ASK;
    Value found = *form;
    found.n = a->n > b->n ? a->n : b->n;
    int32_t *numbers = take(arena, 4 * found.n + 4);
    if (!numbers) return NULL;
    found.numbers = numbers;
    if (!form->maps) {
        for (isize c = 0; c < found.n; c++)
            numbers[c] = both ? number_in(a, c) & number_in(b, c) : number_in(a, c) | number_in(b, c);
        return settled(arena, found);
    }
    Numbering n;
    Arena own = {0};
    start_numbering(&n, form->positions);
    isize many = a->maps ? a->count : 2, others = b->maps ? b->count : 2;
    int32_t *known = many * others <= 1 << 16 ? take(&own, 4 * many * others) : NULL; /* one more than the number */
    u64 *joined = take(&own, 8 * n.width + 8);
    for (isize c = 0; c < found.n && !n.failed && !own.failed; c++) {
        int32_t i = number_in(a, c), j = number_in(b, c), *was = known ? &known[i * others + j] : NULL;
        if (was && *was) { numbers[c] = *was - 1; continue; }
        const u64 *x = map_in(a, i, &n), *y = map_in(b, j, &n);
        for (isize k = 0; k < n.width; k++) joined[k] = both ? x[k] & y[k] : x[k] | y[k];
        numbers[c] = number_of(&n, joined);
        if (was) *was = numbers[c] + 1;
    }
    arena->failed |= own.failed;
    release(&own);
    return numbered_value(arena, found, &n);
}

/* To Python and back: a number, or axis, rank, numbers, maps and rest; or what Python itself has made. */

static PyObject *told(const Value *a) {
    if (a->kind < BY_CHANNEL) return PyLong_FromLong(a->kind);
    if (a->kind == FOREIGN) return Py_NewRef(a->foreign);
    PyObject *rest = PyTuple_New(a->maps ? a->rank - 1 : 0);
    for (int i = 0; rest && a->maps && i < a->rank - 1; i++) PyTuple_SetItem(rest, i, PyLong_FromSsize_t(a->rest[i]));
    const char *maps = (const char *)a->maps;
    isize bytes = 8 * a->count * WORDS(a->positions);
    return Py_BuildValue("(iy#y#N)", a->axis, a->numbers, 4 * a->n, maps, maps ? bytes : 0, rest);
}

/* NULL, with Python's error set, if it cannot be. What is foreign somebody else has to hold. */
static const Value *heard(PyObject *form, int rank, Arena *arena) {
    if (PyLong_Check(form)) {
        long truth = PyLong_AsLong(form);
        return &EVERYWHERE[truth != 0];
    }
    Value *found = take(arena, sizeof *found);
    if (!found) return (const Value *)PyErr_NoMemory();
    found->rank = rank;
    if (!PyTuple_Check(form)) {
        found->kind = FOREIGN, found->foreign = form;
        return found;
    }
    const char *numbers, *maps;
    isize length, bytes;
    PyObject *rest;
    if (!PyArg_ParseTuple(form, "iy#z#O!", &found->axis, &numbers, &length, &maps, &bytes, &PyTuple_Type, &rest))
        return NULL;
    found->kind = BY_CHANNEL, found->n = length / 4;
    int32_t *own = take(arena, length);
    u64 *table = maps ? take(arena, bytes) : NULL;
    isize *sizes = take(arena, sizeof(isize) * rank);
    if (arena->failed) return (const Value *)PyErr_NoMemory();
    found->numbers = memcpy(own, numbers, length);
    if (!maps) return found;
    found->maps = memcpy(table, maps, bytes), found->rest = sizes, found->positions = 1;
    for (int i = 0; i < rank - 1; i++) {
        sizes[i] = PyLong_AsSsize_t(PyTuple_GetItem(rest, i));
        found->positions *= sizes[i];
    }
    found->count = bytes / 8 / WORDS(found->positions);
    return PyErr_Occurred() ? NULL : found;
}
