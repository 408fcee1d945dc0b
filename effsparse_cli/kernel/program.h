/* A pass as it was recorded: instructions on values, in order, and the contractions that they name. */

enum Verb { PLUS, TIMES, PRODUCT, TOTAL, PERMUTE, RESHAPE, TAKE, PUT, CONCAT, SPLIT, WINDOW, CONTRACT, BACK, MEET };

/* `twin` is an earlier one that does the same to other values, or -1: where the values are the same, so is what comes
   of them. */
typedef struct {
    int verb, twin, out, outs; /* `out` of a meeting is its number */
    isize inputs, count;
    int32_t *in;
    int64_t *args;
} Instruction;

typedef struct Ways { struct Ways *next; isize batch; Geometry forward, back; } Ways;

/* A weight is [groups * rows, channels * taps] in bits; `turned`: it lies there by columns. x has its channels along
   `axis`, and after it positions of the sizes `in`; y has `out`. `ever`: is every tap used anywhere? */
typedef struct {
    isize sheet, groups, channels, rows, axis, turned, ever, rank;
    int64_t *in, *out;
    Ways *ways; /* by the number of positions in the batch */
} Contraction;

typedef struct {
    isize count, registers, contractions, sheets, meets;
    Instruction *all;
    Contraction *contracted;
    const Value **constants; /* by register */
    int32_t *ranks;
    int64_t *sizes; /* rows and columns of each sheet */
    isize tight;    /* words of a row from which on zeros are left out, none for zero */
    Block *spare;   /* memory that the last pass has left to the next: new one costs more than what is done in it */
    Arena arena;
} Program;

static void *copy_of(Arena *arena, const void *from, isize size) {
    void *own = take(arena, size + 8);
    return own && size ? memcpy(own, from, size) : own;
}

/* Adds what Python says of a size of the batch. */
static Ways *add_ways(Contraction *c, isize batch, PyObject *found) {
    PyObject *forward, *back;
    Ways *ways = calloc(1, sizeof *ways);
    if (!ways) return (Ways *)PyErr_NoMemory();
    if (PyArg_ParseTuple(found, "OO", &forward, &back) && parse_geometry(forward, &ways->forward)) {
        if (parse_geometry(back, &ways->back)) {
            ways->batch = batch, ways->next = c->ways;
            __atomic_store_n(&c->ways, ways, __ATOMIC_RELEASE);
            return ways;
        }
        release_geometry(&ways->forward);
    }
    free(ways);
    return NULL;
}

static void free_program(Program *p) {
    for (isize k = 0; k < p->contractions; k++)
        for (Ways *ways = p->contracted[k].ways, *next; ways; ways = next) {
            next = ways->next;
            release_geometry(&ways->forward), release_geometry(&ways->back), free(ways);
        }
    release(&p->arena), free(p->spare), free(p);
}

static int read_instruction(Program *p, Instruction *into, PyObject *given) {
    const char *in, *args;
    isize inputs, bytes;
    if (!PyArg_ParseTuple(given, "iiy#iiy#", &into->verb, &into->twin, &in, &inputs, &into->out, &into->outs, &args,
                          &bytes))
        return 0;
    into->inputs = inputs / 4, into->count = bytes / 8;
    into->in = copy_of(&p->arena, in, inputs), into->args = copy_of(&p->arena, args, bytes);
    p->meets += into->verb == MEET;
    return 1;
}

static int read_contraction(Program *p, Contraction *into, PyObject *given) {
    PyObject *in, *out, *ways;
    const char *sizes[2];
    isize bytes[2];
    if (!PyArg_ParseTuple(given, "nnnnnnnSSO", &into->sheet, &into->groups, &into->channels, &into->rows, &into->axis,
                          &into->turned, &into->ever, &in, &out, &ways))
        return 0;
    for (int i = 0; i < 2; i++) sizes[i] = PyBytes_AsString(i ? out : in), bytes[i] = PyBytes_Size(i ? out : in);
    into->rank = bytes[0] / 8;
    into->in = copy_of(&p->arena, sizes[0], bytes[0]), into->out = copy_of(&p->arena, sizes[1], bytes[1]);
    return add_ways(into, 1, ways) != NULL;
}

/* NULL, with Python's error set, if it cannot be read. */
static Program *read_program(PyObject *instructions, PyObject *contractions, PyObject *constants, const Py_buffer *ranks,
                             const Py_buffer *sheets) {
    Program *p = calloc(1, sizeof *p);
    if (!p) return (Program *)PyErr_NoMemory();
    isize count = PyList_Size(instructions), number = PyList_Size(contractions), known = PyList_Size(constants);
    isize registers = ranks->len / 4;
    p->all = take(&p->arena, sizeof(Instruction) * (count + 1));
    p->contracted = take(&p->arena, sizeof(Contraction) * (number + 1));
    p->constants = take(&p->arena, sizeof(Value *) * (registers + 1));
    p->ranks = copy_of(&p->arena, ranks->buf, ranks->len);
    p->sizes = copy_of(&p->arena, sheets->buf, sheets->len);
    p->sheets = sheets->len / 16;
    isize words = 0;
    for (isize k = 0; p->sizes && k < p->sheets; k++) words += p->sizes[2 * k] * WORDS(p->sizes[2 * k + 1]);
    p->tight = words >= large ? narrow : 0;
    p->registers = registers;
    int good = !p->arena.failed;
    for (; good && p->count < count; p->count++)
        good = read_instruction(p, &p->all[p->count], PyList_GetItem(instructions, p->count));
    for (; good && p->contractions < number; p->contractions++)
        good = read_contraction(p, &p->contracted[p->contractions], PyList_GetItem(contractions, p->contractions));
    for (isize i = 0; good && i < known; i++) {
        PyObject *form;
        isize at;
        good = PyArg_ParseTuple(PyList_GetItem(constants, i), "nO", &at, &form) &&
               (p->constants[at] = heard(form, p->ranks[at], &p->arena));
    }
    if (good && !p->arena.failed) return p;
    if (!PyErr_Occurred()) PyErr_NoMemory();
    free_program(p);
    return NULL;
}
