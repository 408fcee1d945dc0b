/* What a recorded pass does with weights: contracts with them, forward and backward, and asks which of their connections
   join what. */

typedef struct {
    Program *program;
    const Value **values, **grouped; /* what a register has, and the same as a contraction reads it, if one has */
    isize *tallies;   /* six for each meeting */
    uint8_t *asks;    /* Python has to do it */
    isize *meetings;  /* the instructions of those that are ready */
    isize ready, met;
    int ended, left; /* the pass, and by its helper */
    Scan scan;
    Arena arena;
    PyObject *ask, *ways, *owner;
#ifdef __GLIBC__
    cpu_set_t processors; /* that this process may use */
#endif
} Pass;

static int same_value(const Value *a, const Value *b) { return a == b || (is_uniform(a) && a->kind == b->kind); }

/* One end of a contraction: numbers (NULL for all full), maps, the positions of the batch, and what value it is of. */
typedef struct { const int32_t *numbers; const u64 *maps; isize words, batch; const Value *value; } End;

/* Zero if Python has to see to it: maps along the axis of the channels, or not over all positions. */
static int end_of(const Value *a, const Contraction *c, const int64_t *sizes, isize n, Arena *arena, End *end) {
    *end = (End){.batch = 1, .value = a};
    if (a->kind == FULL) return 1;
    if (!(a = end->value = regroup(arena, a, (u64)1 << c->axis))) return 1;
    if (a->maps) {
        if (a->sizes[c->axis] > 1 && !a->axes) return 0;
        for (isize i = 0; i < c->rank; i++)
            if (a->sizes[c->axis + 1 + i] != sizes[i]) return 0;
        for (isize i = 0; i < c->axis; i++) end->batch *= a->sizes[i];
        end->maps = a->maps, end->words = a->count * WORDS(a->positions);
    }
    if (a->n == n) { end->numbers = a->numbers; return 1; }
    int32_t *numbers = take(arena, 4 * n + 4);
    for (isize k = 0; numbers && k < n; k++) numbers[k] = a->numbers[0];
    end->numbers = numbers;
    return 1;
}

static const Ways *ways_for(Pass *p, Contraction *c, isize batch) {
    for (const Ways *ways = __atomic_load_n(&c->ways, __ATOMIC_ACQUIRE); ways; ways = ways->next)
        if (ways->batch == batch) return ways;
    PyGILState_STATE python = PyGILState_Ensure();
    PyObject *found = PyObject_CallFunction(p->ways, "nn", (isize)(c - p->program->contracted), batch);
    const Ways *ways = found ? add_ways(c, batch, found) : NULL;
    Py_XDECREF(found);
    if (!ways) fail(&p->scan);
    PyGILState_Release(python);
    return ways;
}

/* A weight that lies there by columns is the same weight with its ends exchanged. */
static Rows rows_for(const Pass *p, const Contraction *c) {
    const Sheet *sheet = &p->scan.sheets[c->sheet];
    isize taps = c->turned ? 1 : sheet->columns / c->channels, channels = c->turned ? c->groups * c->rows : c->channels;
    isize rows = c->turned ? c->channels : c->rows;
    return (Rows){c->groups, channels, taps, rows, sheet->width, sheet->words, sheet->index, sheet->starts, sheet->used};
}

/* Is there a tap that always reads something, or that does not? */
static int some_tap(Pass *p, Contraction *c, int back, int always) {
    const Ways *ways = ways_for(p, c, 1);
    const Geometry *g = ways ? back ? &ways->back : &ways->forward : NULL;
    return g && memchr(g->always.buf, always, g->always.len);
}

/* Where everything enters, everything leaves as soon as all columns are in use. */
static int is_early(Pass *p, Contraction *c, const Value *x, int back) {
    return x->kind == FULL && back != c->turned && c->groups == 1 && some_tap(p, c, back, 1);
}

/* And where rows are what leaves, if none is empty. */
static int is_whole(Pass *p, Contraction *c, const Value *x, int back) {
    if (x->kind != FULL || back != c->turned || (c->turned && c->groups > 1)) return 0;
    return !p->scan.sheets[c->sheet].kept[1] && some_tap(p, c, back, 1) && !some_tap(p, c, back, 0);
}

static const Value *contract(Pass *p, const Instruction *in, const Value *x, int rank, int back) {
    Contraction *c = &p->program->contracted[in->args[0]];
    const int64_t *from = back ? c->out : c->in, *to = back ? c->in : c->out;
    isize given = c->groups * (back ? c->rows : c->channels), count = c->groups * (back ? c->channels : c->rows);
    if (x->kind == EMPTY) return x;
    int known = wait_for(&p->scan, c->sheet, is_early(p, c, x, back));
    if (known != 1) return known ? x : NULL;
    if (is_whole(p, c, x, back)) return x;
    End end;
    if ((c->turned && c->groups > 1) || !end_of(x, c, from, given, &p->arena, &end)) return &ASK;
    const Ways *ways = p->arena.failed ? NULL : ways_for(p, c, end.batch);
    if (!ways) return NULL;
    __atomic_store_n(&p->grouped[in->in[0]], end.value, __ATOMIC_RELEASE);
    const Geometry *g = back ? &ways->back : &ways->forward;
    Rows rows = rows_for(p, c);
    Arena own = {0}, before = p->arena;
    Reader reader;
    Numbering numbering;
    Value found = {.axes = (u64)(count > 1) << c->axis, .rank = rank, .n = count, .positions = g->out};
    int32_t *numbers = take(&p->arena, 4 * count + 4);
    isize *sizes = new_sizes(&p->arena, rank);
    int bad = start_numbering(&numbering, g->out) || !numbers || !sizes;
    if (!bad && !start_reader(&reader, g, end.maps, end.words, &own))
        (back != c->turned ? run_backward : run_forward)(&rows, &reader, end.numbers, end.maps != NULL, numbers,
                                                         &numbering, &own);
    p->arena.failed |= own.failed;
    release(&own);
    if (p->arena.failed) { end_numbering(&numbering); return NULL; }
    for (isize i = 0; i < c->axis; i++) sizes[i] = end.maps ? end.value->sizes[i] : 1;
    for (isize i = 0; i < c->rank; i++) sizes[c->axis + 1 + i] = to[i];
    sizes[c->axis] = count, found.numbers = numbers, found.sizes = sizes;
    const Value *result = numbered_value(&p->arena, found, &numbering);
    /* Mostly all is full, and nothing has to be kept. */
    if (result && is_uniform(result) && p->arena.last == before.last) p->arena = before;
    return result;
}

/* Targets of a weight by columns that no connection which joins anything leads to. */
static isize count_idle(const Rows *w, const u64 *targets, const u64 *sources, const u64 *missed, Arena *arena) {
    u64 *reached = new_columns(arena, w, 1);
    isize idle = w->channels, all = 0;
    for (isize k = 0; reached && k < w->rows; k++) {
        if (sources && !sources[k]) continue;
        const u64 *gone = missed ? missed + k * w->width : NULL;
        EACH_WORD(w, k, c)
            reached[c.at] |= c.word & (targets ? targets[c.at] : ~(u64)0) & (gone ? ~gone[c.at] : ~(u64)0);
        if (k % 64 == 63) {
            for (all = 0; all < w->channels / 64 && !~reached[all];) all++;
            if (all == w->channels / 64 && w->channels % 64 == 0) return 0;
        }
    }
    for (isize i = 0; reached && i < w->width; i++) idle -= __builtin_popcountll(reached[i]);
    return idle;
}

/* Who has a source, who a target, who both, and who brings anything to a position that matters; of what is not stored by
   columns as plain.py's `meet` says. Zero if Python has to see to it. */
static int meet_ends(Pass *p, Contraction *c, const Value *x, const Value *y, Arena *arena, isize *found) {
    const Sheet *sheet = &p->scan.sheets[c->sheet];
    End source, target;
    if (!end_of(x, c, c->in, c->groups * c->channels, arena, &source)) return 0;
    if (!end_of(y, c, c->out, c->groups * c->rows, arena, &target) || (c->turned && c->groups > 1)) return 0;
    if (arena->failed) return 1;
    for (isize i = 0; source.maps && target.maps && i < c->axis; i++)
        if (source.value->sizes[i] != target.value->sizes[i]) return 0;
    int everywhere = !source.maps && !target.maps && c->ever;
    const Ways *ways = ways_for(p, c, source.maps ? source.batch : target.batch);
    Rows w = rows_for(p, c);
    if (!ways) return 1;
    if (everywhere && !source.numbers && !target.numbers) {
        for (int i = 0; i < 5; i++) found[i] = sheet->kept[0];
        found[5] = c->turned ? count_idle(&w, NULL, NULL, NULL, arena) : sheet->kept[1];
        return 1;
    }
    const Geometry *g = c->turned ? &ways->back : &ways->forward;
    if (c->turned) { End other = source; source = target, target = other; }
    Reader reader;
    Numbering plain;
    u64 *sources = NULL, *targets = NULL, *missed = NULL;
    isize misses = 0, tally[6] = {0};
    if (source.numbers && (sources = new_columns(arena, &w, w.groups))) mark_sources(&w, source.numbers, sources);
    if (target.numbers && (targets = take(arena, 8 * w.groups * w.rows + 8)))
        for (isize k = 0; k < w.groups * w.rows; k++) targets[k] = target.numbers[k] == EMPTY ? 0 : ~(u64)0;
    if (!everywhere) {
        if (!start_numbering(&plain, g->out) && !start_reader(&reader, g, source.maps, source.words, arena)) {
            isize count = target.maps && reader.out ? target.words / reader.out : 2;
            misses = run_miss(&w, &reader, source.numbers, target.numbers, &plain, target.maps, count, &missed, arena);
        }
        arena->failed |= plain.failed;
        end_numbering(&plain);
    }
    if (arena->failed) return 1;
    run_tally(&w, &(Ends){sources, targets, misses ? missed : NULL}, tally);
    for (int i = 0; i < 6; i++) found[i] = tally[i];
    if (!c->turned) return 1;
    found[1] = tally[2], found[2] = tally[1];
    found[5] = count_idle(&w, sources, targets, misses ? missed : NULL, arena);
    return 1;
}

static void meet_at(Pass *p, const Instruction *in) {
    const Value *ends[2];
    Arena own = {0};
    for (int i = 0; i < 2; i++) {
        const Value *grouped = __atomic_load_n(&p->grouped[in->in[i]], __ATOMIC_ACQUIRE);
        ends[i] = grouped ? grouped : p->values[in->in[i]];
    }
    p->asks[in->out] = !meet_ends(p, &p->program->contracted[in->args[0]], ends[0], ends[1], &own,
                                  p->tallies + 6 * in->out);
    if (own.failed) fail_for_memory(&p->scan);
    release(&own);
}
