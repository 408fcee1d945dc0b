/* Values of a pass. A value has channels along some axes, in the order of these, each of which is empty, full or has a
   map over the other axes. On an axis along which all is equal one position is stored. */

enum { BY_CHANNEL = 2, RANKS = 64 }; /* an einsum has 52 letters at most */

typedef struct {
    int kind; /* EMPTY or FULL everywhere, or BY_CHANNEL */
    int rank;
    u64 axes;               /* of the channels: a bit for each */
    isize n;                /* channels */
    const int32_t *numbers; /* of their maps */
    const u64 *maps;        /* NULL if there are only empty and full ones */
    isize count, positions; /* of the maps */
    const isize *sizes;     /* what is stored on each axis; all ones but for the channels, where there are no maps */
} Value;

static const int32_t TRUTHS[2] = {EMPTY, FULL};
static const Value EVERYWHERE[2] = {{.kind = EMPTY, .n = 1, .numbers = TRUTHS},
                                    {.kind = FULL, .n = 1, .numbers = TRUTHS + 1}};
static const Value ASK; /* Python has to do it */

static int is_uniform(const Value *a) { return a->kind < BY_CHANNEL; }
static isize size_on(const Value *a, int axis) { return is_uniform(a) ? 1 : a->sizes[axis]; }
static int is_channel(const Value *a, int axis) { return a->axes >> axis & 1; }

/* Axes that maps have more than one position on. */
static u64 mapped_axes(const Value *a) {
    u64 axes = 0;
    for (int i = 0; a->maps && i < a->rank; i++) axes |= (u64)(a->sizes[i] > 1 && !is_channel(a, i)) << i;
    return axes;
}

/* How far apart channels are that are neighbours along an axis; zero where there is one for all. */
static void find_steps(const Value *a, isize *steps) {
    isize step = 1;
    for (int i = is_uniform(a) ? 0 : a->rank; i-- > 0;) {
        steps[i] = is_channel(a, i) ? step : 0;
        if (is_channel(a, i)) step *= a->sizes[i];
    }
}

/* The same of positions in a map. */
static void find_map_steps(const Value *a, isize *steps) {
    isize step = 1;
    for (int i = a->rank; i-- > 0;) {
        steps[i] = is_channel(a, i) || a->sizes[i] == 1 ? 0 : step;
        if (!is_channel(a, i)) step *= a->sizes[i];
    }
}

/* Through all places of some axes, the last one first, with the offsets that they have in up to three values. */
typedef struct { int count; isize size[RANKS], at[RANKS], by[3][RANKS], offset[3]; } Walk;

/* Behind those that are there. Where it goes on as the one before it does, the two are one. */
static void add_axis(Walk *w, isize size, isize a, isize b, isize c) {
    int i = w->count - 1;
    if (size == 1) return;
    if (i >= 0 && w->by[0][i] == a * size && w->by[1][i] == b * size && w->by[2][i] == c * size) w->size[i] *= size;
    else w->size[++i] = size, w->count++;
    w->by[0][i] = a, w->by[1][i] = b, w->by[2][i] = c;
}

static inline int advance(Walk *w) {
    for (int i = w->count; i-- > 0;) {
        w->offset[0] += w->by[0][i], w->offset[1] += w->by[1][i], w->offset[2] += w->by[2][i];
        if (++w->at[i] < w->size[i]) return 1;
        for (int k = 0; k < 3; k++) w->offset[k] -= w->by[k][i] * w->size[i];
        w->at[i] = 0;
    }
    return 0;
}

/* The last axis of a walk, taken from it: for loops of their own, which are many times as fast. */
typedef struct { isize size, a, b, c; } Line;

static Line last_line(Walk *w) {
    int i = w->count - 1;
    if (i < 0) return (Line){1, 0, 0, 0};
    return w->count = i, (Line){w->size[i], w->by[0][i], w->by[1][i], w->by[2][i]};
}

static void put_last(Walk *w, int i) {
    int last = w->count - 1;
    isize *all[] = {w->size, w->by[0], w->by[1], w->by[2]};
    for (int k = 0; k < 4; k++) { isize own = all[k][i]; all[k][i] = all[k][last], all[k][last] = own; }
}

/* Every `by`th number from a place on. */
static void copy_line(int32_t *into, const int32_t *from, isize by, isize n) {
    if (by == 1) memcpy(into, from, 4 * n);
    else for (isize i = 0; i < n; i++) into[i] = from[i * by];
}

/* Which bits numbers differ in, and which any of them has. */
CLONED static void look_at(const int32_t *numbers, isize n, int32_t *differ, int32_t *any) {
    int32_t first = numbers[0], apart = 0, all = 0;
    for (isize c = 0; c < n; c++) apart |= numbers[c] ^ first, all |= numbers[c];
    *differ = apart, *any = all;
}

/* A value in its plainest form: the same everywhere, if it is; without maps, if no channel has one. */
static const Value *settled(Arena *arena, Value found) {
    int32_t differ, any;
    look_at(found.numbers, found.n, &differ, &any);
    int mapped = any > FULL;
    if (!differ && !mapped) return &EVERYWHERE[found.numbers[0]];
    Value *kept = take(arena, sizeof found);
    if (!kept) return NULL;
    if (!mapped && found.maps) {
        isize *sizes = take(arena, sizeof(isize) * (found.rank + 1));
        if (!sizes) return NULL;
        for (int i = 0; i < found.rank; i++) sizes[i] = is_channel(&found, i) ? found.sizes[i] : 1;
        found.maps = NULL, found.count = 0, found.positions = 1, found.sizes = sizes;
    }
    *kept = found, kept->kind = BY_CHANNEL;
    return kept;
}

/* With the maps of a numbering, which ends. */
static const Value *numbered_value(Arena *arena, Value found, Numbering *n) {
    u64 *maps = take(arena, 8 * n->count * n->width + 8);
    if (maps) memcpy(maps, n->maps, 8 * n->count * n->width);
    arena->failed |= n->failed;
    found.maps = maps, found.count = n->count;
    end_numbering(n);
    return arena->failed ? NULL : settled(arena, found);
}

static isize *new_sizes(Arena *arena, int rank) {
    isize *sizes = take(arena, sizeof(isize) * (rank + 1));
    for (int i = 0; sizes && i < rank; i++) sizes[i] = 1;
    return sizes;
}

/* One position more of channels' maps. */
CLONED static void add_position(u64 *maps, isize width, const int32_t *numbers, isize by, isize n, int bit) {
    if (width == 1 && by == 1) for (isize c = 0; c < n; c++) maps[c] |= (u64)numbers[c] << bit;
    else for (isize c = 0; c < n; c++) maps[c * width] |= (u64)numbers[c * by] << bit;
}

/* With fewer axes of channels: along the others there are maps now. */
static const Value *regroup(Arena *arena, const Value *a, u64 axes) {
    if (is_uniform(a) || !(a->axes & ~axes)) return a;
    Value found = *a;
    isize steps[RANKS], map_steps[RANKS], width = WORDS(a->positions);
    Walk channels = {0}, places = {0};
    find_steps(a, steps), find_map_steps(a, map_steps);
    found.axes = a->axes & axes, found.n = found.positions = 1;
    for (int i = 0; i < a->rank; i++) {
        if (is_channel(&found, i)) add_axis(&channels, a->sizes[i], steps[i], 0, 0), found.n *= a->sizes[i];
        else add_axis(&places, a->sizes[i], steps[i], map_steps[i], 0), found.positions *= a->sizes[i];
    }
    Arena own = {0};
    Numbering n;
    start_numbering(&n, found.positions);
    int32_t *numbers = claim(arena, 4 * found.n + 4);
    u64 *made = take(&own, 8 * found.n * n.width + 8);
    Line line = last_line(&channels);
    for (isize p = 0, more = numbers && made; more; p++, more = advance(&places)) {
        u64 *into = made + (p >> 6);
        do {
            const int32_t *from = a->numbers + channels.offset[0] + places.offset[0];
            if (!a->maps) add_position(into, n.width, from, line.a, line.size, (int)(p & 63));
            for (isize c = 0; a->maps && c < line.size; c++) {
                u64 word = a->maps[from[c * line.a] * width + (places.offset[1] >> 6)];
                into[c * n.width] |= (word >> (places.offset[1] & 63) & 1) << (p & 63);
            }
            into += line.size * n.width;
        } while (advance(&channels));
    }
    for (isize c = 0; numbers && made && c < found.n; c++) numbers[c] = number_of(&n, made + c * n.width);
    arena->failed |= own.failed;
    release(&own);
    found.numbers = numbers;
    return numbered_value(arena, found, &n);
}

/* With channels along all axes that are stored, and along those others that `sizes` says more of; NULL or ASK if it
   cannot be. */
static const Value *unfold(Arena *arena, const Value *a, const int64_t *sizes, u64 grown) {
    Value found = *a;
    isize steps[RANKS], map_steps[RANKS], *own = new_sizes(arena, a->rank), width = WORDS(a->positions);
    Walk walk = {0};
    if (!own) return NULL;
    find_steps(a, steps), find_map_steps(a, map_steps);
    found.n = 1, found.axes = 0;
    for (int i = 0; i < a->rank; i++) {
        own[i] = grown >> i & 1 ? sizes[i] : a->sizes[i];
        if (own[i] > 1) found.axes |= (u64)1 << i, found.n *= own[i], add_axis(&walk, own[i], steps[i], map_steps[i], 0);
    }
    if (found.n > 1 << 20) return &ASK;
    int32_t *numbers = claim(arena, 4 * found.n + 4);
    if (!numbers) return NULL;
    isize c = 0;
    Line line = last_line(&walk);
    do {
        copy_line(numbers + c, a->numbers + walk.offset[0], line.a, line.size);
        for (isize i = 0; a->maps && i < line.size; i++) {
            int32_t number = numbers[c + i];
            isize bit = walk.offset[1] + i * line.b;
            if (number > FULL) numbers[c + i] = a->maps[number * width + (bit >> 6)] >> (bit & 63) & 1;
        }
        c += line.size;
    } while (advance(&walk));
    found.maps = NULL, found.count = 0, found.positions = 1, found.numbers = numbers, found.sizes = own;
    return settled(arena, found);
}

/* To Python and back: EMPTY or FULL, or axes, sizes, numbers and maps. */

static PyObject *told(const Value *a) {
    if (is_uniform(a)) return PyLong_FromLong(a->kind);
    PyObject *sizes = PyTuple_New(a->rank);
    for (int i = 0; sizes && i < a->rank; i++) PyTuple_SetItem(sizes, i, PyLong_FromSsize_t(a->sizes[i]));
    isize bytes = a->maps ? 8 * a->count * WORDS(a->positions) : 0;
    return Py_BuildValue("(KNy#y#)", (unsigned long long)a->axes, sizes, a->numbers, 4 * a->n, a->maps, bytes);
}

/* NULL, with Python's error set, if it cannot be. */
static const Value *heard(PyObject *form, int rank, Arena *arena) {
    if (PyLong_Check(form)) return &EVERYWHERE[PyLong_AsLong(form) != 0];
    const char *numbers, *maps;
    isize length, bytes;
    PyObject *sizes;
    unsigned long long axes;
    if (!PyArg_ParseTuple(form, "KO!y#z#", &axes, &PyTuple_Type, &sizes, &numbers, &length, &maps, &bytes)) return NULL;
    Value *found = take(arena, sizeof *found);
    isize *own = new_sizes(arena, rank);
    int32_t *copied = take(arena, length + 4);
    u64 *table = maps ? take(arena, bytes + 8) : NULL;
    if (arena->failed) return (const Value *)PyErr_NoMemory();
    *found = (Value){BY_CHANNEL, rank, axes, length / 4, memcpy(copied, numbers, length), table, 0, 1, own};
    for (int i = 0; i < rank; i++) {
        own[i] = PyLong_AsSsize_t(PyTuple_GetItem(sizes, i));
        if (!is_channel(found, i)) found->positions *= own[i];
    }
    if (maps) memcpy(table, maps, bytes), found->count = bytes / 8 / WORDS(found->positions);
    return PyErr_Occurred() ? NULL : found;
}
