/* A recorded pass is run: forward and backward in one thread, while another reads the weights, and then asks each
   weight which of its connections join what; the first one takes part in both. */

#define MANY 16 /* meetings that are worth waking a thread for */

typedef struct {
    Program *program;
    const Value **values, **grouped; /* what a register has, and the same as a contraction reads it, if one has */
    int64_t *tallies; /* six for each meeting */
    uint8_t *asks;    /* Python has to do it */
    isize *meetings;  /* the instructions of those that are ready */
    isize ready, met;
    int ended, left; /* the pass, and by its helper */
    Scan scan;
    Arena arena;
    PyObject *ask, *ways, *owner;
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

/* Where everything enters, everything leaves as soon as all columns are in use. */
static int is_early(Pass *p, Contraction *c, const Value *x, int back) {
    if (x->kind != FULL || back == c->turned || c->groups > 1) return 0;
    const Ways *ways = ways_for(p, c, 1);
    const Py_buffer *always = ways ? back ? &ways->back.always : &ways->forward.always : NULL;
    return always && memchr(always->buf, 1, always->len) != NULL;
}

static const Value *contract(Pass *p, const Instruction *in, const Value *x, int rank, int back) {
    Contraction *c = &p->program->contracted[in->args[0]];
    const int64_t *from = back ? c->out : c->in, *to = back ? c->in : c->out;
    isize given = c->groups * (back ? c->rows : c->channels), count = c->groups * (back ? c->channels : c->rows);
    if (x->kind == EMPTY) return x;
    int known = wait_for(&p->scan, c->sheet, is_early(p, c, x, back));
    if (known != 1) return known ? x : NULL;
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
static int meet_ends(Pass *p, Contraction *c, const Value *x, const Value *y, Arena *arena, int64_t *found) {
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

static int next_meeting(Pass *p) {
    if (p->met >= p->ready) return 0;
    const Instruction *all = p->program->all, *in = &all[p->meetings[p->met++]];
    const Instruction *twin = in->twin < 0 ? NULL : &all[in->twin];
    pthread_mutex_unlock(&p->scan.lock);
    /* What has a twin waits for the end, when it can be copied. */
    if (!twin || !same_value(p->values[in->in[0]], p->values[twin->in[0]])) meet_at(p, in);
    pthread_mutex_lock(&p->scan.lock);
    return 1;
}

/* What there is to do beside the pass, until it has ended. */
static void take_part(Pass *p) {
    int patience = PATIENCE;
    pthread_mutex_lock(&p->scan.lock);
    while (!has_failed(&p->scan)) {
        if (pack_next(&p->scan) || next_meeting(p)) patience = PATIENCE;
        else if (p->ended) break;
        else wait_a_while(&p->scan, &patience);
    }
    pthread_mutex_unlock(&p->scan.lock);
}

static void *help(void *pass) {
    Pass *p = pass;
    take_part(p);
    pthread_mutex_lock(&p->scan.lock);
    p->left = 1;
    pthread_cond_broadcast(&p->scan.changed);
    pthread_mutex_unlock(&p->scan.lock);
    return NULL;
}

static void ask_python(Pass *p, isize i) {
    const Instruction *in = &p->program->all[i];
    PyGILState_STATE python = PyGILState_Ensure();
    PyObject *forms = PyList_New(in->inputs), *found = NULL;
    for (isize k = 0; forms && k < in->inputs; k++) PyList_SetItem(forms, k, told(p->values[in->in[k]]));
    if (forms && !PyErr_Occurred()) found = PyObject_CallFunction(p->ask, "nO", i, forms);
    int good = found && PyList_Check(found) && PyList_Size(found) == in->outs;
    for (int k = 0; good && k < in->outs; k++) {
        const Value *value = heard(PyList_GetItem(found, k), p->program->ranks[in->out + k], &p->arena);
        good = (p->values[in->out + k] = value) != NULL;
    }
    if (!good && !PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "not as many results as there should be");
    if (!good) fail(&p->scan);
    Py_XDECREF(forms), Py_XDECREF(found);
    PyGILState_Release(python);
}

/* One instruction: NULL after a failure. */
static const Value *perform(Pass *p, const Instruction *in) {
    Arena *arena = &p->arena;
    const Value *xs[in->inputs + 1];
    for (isize k = 0; k < in->inputs; k++) xs[k] = p->values[in->in[k]];
    int rank = p->program->ranks[in->out];
    switch ((enum Verb)in->verb) {
        case PLUS: return fold(arena, xs, in->inputs, 0);
        case TIMES: return fold(arena, xs, in->inputs, 1);
        case PRODUCT: return product(arena, xs[0], xs[1], rank, in->args);
        case TOTAL: return total(arena, xs[0], in->args);
        case PERMUTE: return permute(arena, xs[0], in->args);
        case RESHAPE: return reshape(arena, xs[0], in->args);
        case TAKE: return take_places(arena, xs[0], rank, in->args, in->count);
        case PUT: return put_places(arena, xs[0], rank, in->args, in->count);
        case CONCAT: return concat(arena, xs, in->inputs, rank, in->args);
        case WINDOW: return window(arena, xs[0], in->args);
        case CONTRACT: return contract(p, in, xs[0], rank, 0);
        case BACK: return contract(p, in, xs[0], rank, 1);
        case SPLIT: {
            int64_t first = 0;
            for (int k = 0; k < in->outs; first += in->args[++k]) {
                const Value *part = part_of(arena, xs[0], rank, (int)in->args[0], first, in->args[k + 1]);
                if (!part || part == &ASK) return part;
                p->values[in->out + k] = part;
            }
            return p->values[in->out];
        }
        default: return &ASK;
    }
}

static void go_through(Pass *p) {
    for (isize i = 0; i < p->program->count && !has_failed(&p->scan); i++) {
        const Instruction *in = &p->program->all[i], *twin = in->twin < 0 ? NULL : &p->program->all[in->twin];
        if (in->verb == MEET) {
            if (!wait_for(&p->scan, p->program->contracted[in->args[0]].sheet, 0)) return;
            pthread_mutex_lock(&p->scan.lock);
            p->meetings[p->ready++] = i;
            if (p->ready - p->met == MANY) pthread_cond_signal(&p->scan.changed);
            pthread_mutex_unlock(&p->scan.lock);
            continue;
        }
        int same = twin != NULL;
        for (isize k = 0; same && k < in->inputs; k++) same = same_value(p->values[in->in[k]], p->values[twin->in[k]]);
        if (same) { memcpy(p->values + in->out, p->values + twin->out, sizeof(Value *) * in->outs); continue; }
        const Value *found = perform(p, in);
        if (found == &ASK) { ask_python(p, i); continue; }
        if (!found) { if (!has_failed(&p->scan)) fail_for_memory(&p->scan); return; }
        p->values[in->out] = found;
    }
}

/* With Python's lock held, before and after. */
static void run_pass(Pass *p, int helped) {
    pthread_t other;
    /* Detached, because its end takes as long as the meetings of a small model, and is nothing to wait for. */
    if (helped && !pthread_create(&other, NULL, help, p)) pthread_detach(other);
    else p->left = 1;
    pthread_mutex_lock(&p->scan.lock);
    open_sheets(&p->scan);
    pthread_mutex_unlock(&p->scan.lock);
    PyThreadState *state = PyEval_SaveThread();
    go_through(p);
    pthread_mutex_lock(&p->scan.lock);
    p->ended = 1;
    pthread_cond_broadcast(&p->scan.changed);
    pthread_mutex_unlock(&p->scan.lock);
    take_part(p);
    int patience = PATIENCE;
    pthread_mutex_lock(&p->scan.lock);
    while (!p->left) wait_a_while(&p->scan, &patience);
    pthread_mutex_unlock(&p->scan.lock);
    PyEval_RestoreThread(state);
    for (isize k = 0; k < p->ready && !has_failed(&p->scan); k++) {
        const Instruction *in = &p->program->all[p->meetings[k]];
        if (in->twin < 0) continue;
        const Instruction *twin = &p->program->all[in->twin];
        if (!same_value(p->values[in->in[0]], p->values[twin->in[0]])) continue;
        memcpy(p->tallies + 6 * in->out, p->tallies + 6 * twin->out, 6 * sizeof(int64_t));
        p->asks[in->out] = p->asks[twin->out];
    }
}
