/* A recorded pass is run: forward and backward in one thread, while another reads the weights, and then asks each
   weight which of its connections join what; the first one takes part in both. */

#define MANY 16 /* meetings that are worth waking a thread for */

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
#ifdef __GLIBC__
    sched_setaffinity(0, sizeof p->processors, &p->processors); /* it need not stay where it began */
#endif
    take_part(p);
    pthread_mutex_lock(&p->scan.lock);
    p->left = 1;
    pthread_cond_broadcast(&p->scan.changed);
    pthread_mutex_unlock(&p->scan.lock);
    return NULL;
}

/* Detached, because its end takes as long as the meetings of a small model, and is nothing to wait for. It begins on
   another processor: the system may well put it on this one, where it waits for what it is to help with until that is
   noticed, after some milliseconds, and many a model has been read by then. */
static int start_helper(Pass *p) {
    pthread_t thread;
    pthread_attr_t how;
    if (pthread_attr_init(&how)) return 0;
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
#ifdef __GLIBC__
    int here = sched_getcpu();
    if (here >= 0 && !sched_getaffinity(0, sizeof p->processors, &p->processors)) {
        cpu_set_t others = p->processors;
        CPU_CLR(here, &others);
        if (CPU_COUNT(&others)) pthread_attr_setaffinity_np(&how, sizeof others, &others);
    }
#endif
    int failed = pthread_create(&thread, &how, help, p);
    pthread_attr_destroy(&how);
    return !failed;
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
    p->left = !helped || !start_helper(p);
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
        memcpy(p->tallies + 6 * in->out, p->tallies + 6 * twin->out, 6 * sizeof(isize));
        p->asks[in->out] = p->asks[twin->out];
    }
}
