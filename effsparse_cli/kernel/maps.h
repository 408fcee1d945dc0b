/* Maps of positions: distinct ones get numbers, and what a tap reads of one is worked out once. */

static void or_into(u64 *into, const u64 *from, isize n) {
    for (isize i = 0; i < n; i++) into[i] |= from[i];
}

static int meets(const u64 *a, const u64 *b, isize n) {
    for (isize i = 0; i < n; i++)
        if (a[i] & b[i]) return 1;
    return 0;
}

/* Memory that is given back all at once. */

typedef struct Block { struct Block *before; size_t room; } Block;
typedef struct { Block *last; char *at; size_t left; int failed; } Arena;

static Block *new_block(size_t room) {
    Block *block = malloc(sizeof *block + room);
    return block ? block->before = NULL, block->room = room, block : NULL;
}

static void add_block(Arena *arena, Block *block) {
    block->before = arena->last;
    arena->last = block, arena->at = (char *)(block + 1), arena->left = block->room;
}

/* As it was left, for what is written whole. */
static void *claim(Arena *arena, size_t size) {
    size = (size + 15) & ~(size_t)15;
    if (arena->left < size) {
        Block *block = new_block(size > 65536 ? size : 65536);
        if (!block) { arena->failed = 1; return NULL; }
        add_block(arena, block);
    }
    void *taken = arena->at;
    arena->at += size, arena->left -= size;
    return taken;
}

/* Zeroed. */
static void *take(Arena *arena, size_t size) {
    void *taken = size ? claim(arena, size) : arena;
    return taken && size ? memset(taken, 0, size) : taken;
}

static void release(Arena *arena) {
    for (Block *block = arena->last, *before; block; block = before) before = block->before, free(block);
}

/* The same, but for one block that has room for all that was taken, or NULL. */
static Block *recycle(Arena *arena) {
    if (arena->last && !arena->last->before) return arena->last;
    size_t room = 0;
    for (Block *block = arena->last; block; block = block->before) room += block->room;
    release(arena);
    return room ? new_block(room) : NULL;
}

/* Distinct maps get numbers, after the empty and the full one. */

typedef struct {
    isize width, count, room, slots;
    u64 tail, *maps;
    int32_t *index, last;
    int failed;
} Numbering;

static int start_numbering(Numbering *n, isize positions) {
    memset(n, 0, sizeof *n);
    n->width = WORDS(positions), n->count = 2, n->room = 16, n->slots = 64;
    n->tail = positions % 64 ? ((u64)1 << positions % 64) - 1 : ~(u64)0;
    n->maps = calloc(n->room * n->width + 1, 8), n->index = calloc(n->slots, 4);
    if (!n->maps || !n->index) return n->failed = 1;
    for (isize i = 0; i < n->width; i++) n->maps[n->width + i] = i + 1 < n->width ? ~(u64)0 : n->tail;
    return 0;
}

static void end_numbering(Numbering *n) { free(n->maps), free(n->index); }

static u64 hash(const u64 *map, isize n) {
    u64 h = 0x9e3779b97f4a7c15u;
    for (isize i = 0; i < n; i++) h = (h ^ map[i]) * 0xff51afd7ed558ccdu, h ^= h >> 32;
    return h;
}

static isize slot_of(const Numbering *n, const u64 *map) {
    isize slot = hash(map, n->width) & (n->slots - 1);
    while (n->index[slot] && memcmp(n->maps + n->index[slot] * n->width, map, 8 * n->width))
        slot = (slot + 1) & (n->slots - 1);
    return slot;
}

static int same_map(const u64 *a, const u64 *b, isize n) { return n == 1 ? *a == *b : !memcmp(a, b, 8 * n); }

static int32_t find_number(Numbering *n, const u64 *map) {
    if (same_map(map, n->maps, n->width)) return EMPTY;
    if (same_map(map, n->maps + n->width, n->width)) return FULL;
    isize slot = slot_of(n, map);
    if (n->index[slot]) return n->index[slot];
    if (n->count == n->room) {
        u64 *maps = realloc(n->maps, 8 * (2 * n->room * n->width + 1));
        if (!maps) { n->failed = 1; return EMPTY; }
        n->maps = maps, n->room *= 2;
    }
    memcpy(n->maps + n->count * n->width, map, 8 * n->width);
    n->index[slot] = (int32_t)n->count++;
    if (2 * n->count > n->slots) {
        int32_t *index = calloc(2 * n->slots, 4);
        if (!index) { n->failed = 1; return EMPTY; }
        free(n->index), n->index = index, n->slots *= 2;
        for (isize i = 2; i < n->count; i++) n->index[slot_of(n, n->maps + i * n->width)] = (int32_t)i;
    }
    return (int32_t)(n->count - 1);
}

static int32_t number_of(Numbering *n, const u64 *map) {
    /* Mostly one follows another like it. */
    if (same_map(map, n->maps + n->last * n->width, n->width)) return n->last;
    return n->last = find_number(n, map);
}

/* What a tap reads of a map. */

typedef struct {
    isize taps, in, out, lasts;
    Py_buffer always, distances, covers, front, steps, last;
} Geometry;

static int parse_geometry(PyObject *tuple, Geometry *g) {
    return PyArg_ParseTuple(tuple, "nnnny*y*y*y*y*y*", &g->taps, &g->in, &g->out, &g->lasts, &g->always, &g->distances,
                            &g->covers, &g->front, &g->steps, &g->last);
}

static void release_geometry(Geometry *g) {
    PyBuffer_Release(&g->always), PyBuffer_Release(&g->distances), PyBuffer_Release(&g->covers);
    PyBuffer_Release(&g->front), PyBuffer_Release(&g->steps), PyBuffer_Release(&g->last);
}

typedef struct { const Geometry *g; const u64 *maps; isize count, in, out; u64 **known; Arena *arena; } Reader;

/* `words` are those of the table; without one there are the empty and the full map. */
static int start_reader(Reader *r, const Geometry *g, const u64 *maps, isize words, Arena *arena) {
    r->g = g, r->maps = maps, r->in = WORDS(g->in), r->out = WORDS(g->out), r->arena = arena;
    r->count = maps && r->in ? words / r->in : 2;
    r->known = take(arena, sizeof(u64 *) * r->count * g->taps);
    return !r->known;
}

static u64 word_at(const u64 *words, isize n, isize bit) {
    isize word = bit >> 6, shift = bit & 63;
    u64 low = word >= 0 && word < n ? words[word] : 0;
    if (!shift) return low;
    u64 high = word >= -1 && word + 1 < n ? words[word + 1] : 0;
    return low >> shift | high << (64 - shift);
}

static void put_at(u64 *words, isize n, isize bit, u64 value) {
    isize word = bit >> 6, shift = bit & 63;
    words[word] |= value << shift;
    if (shift && word + 1 < n) words[word + 1] |= value >> (64 - shift);
}

static u64 every_second(u64 x) {
    x &= 0x5555555555555555u;
    x = (x | x >> 1) & 0x3333333333333333u;
    x = (x | x >> 2) & 0x0f0f0f0f0f0f0f0fu;
    x = (x | x >> 4) & 0x00ff00ff00ff00ffu;
    x = (x | x >> 8) & 0x0000ffff0000ffffu;
    return (x | x >> 16) & 0xffffffffu;
}

static u64 spread(u64 x) {
    x &= 0xffffffffu;
    x = (x | x << 16) & 0x0000ffff0000ffffu;
    x = (x | x << 8) & 0x00ff00ff00ff00ffu;
    x = (x | x << 4) & 0x0f0f0f0f0f0f0f0fu;
    x = (x | x << 2) & 0x3333333333333333u;
    return (x | x << 1) & 0x5555555555555555u;
}

/* One line of positions: those from `to` on, `over` apart, read those from `from` on, `by` apart. */
static void read_line(const Reader *r, const u64 *map, u64 *into, isize to, isize over, isize from, isize by, isize n) {
    if (over > 2 || by > 2 || (over == 2 && by == 2)) {
        for (isize k = 0; k < n; k++, to += over, from += by)
            into[to >> 6] |= (map[from >> 6] >> (from & 63) & 1) << (to & 63);
        return;
    }
    isize step = over == 1 && by == 1 ? 64 : 32;
    for (isize k = 0; k < n; k += step, to += over * step, from += by * step) {
        u64 value = word_at(map, r->in, from);
        if (by == 2) value = every_second(value);
        if (n - k < step) value &= ((u64)1 << (n - k)) - 1;
        if (over == 2) value = spread(value);
        put_at(into, r->out, to, value);
    }
}

static void gather(const Reader *r, const u64 *map, isize tap, u64 *into) {
    const Geometry *g = r->g;
    isize length = g->last.len / 4 / g->lasts, lines = length ? g->out / length : 0, end = tap % g->lasts;
    const int32_t *front = (const int32_t *)g->front.buf + tap / g->lasts * lines;
    const int32_t *last = (const int32_t *)g->last.buf + end * length, *s = (const int32_t *)g->steps.buf + 5 * end;
    for (isize line = 0; line < lines; line++) {
        isize to = line * length, from = front[line];
        if (from < 0) continue;
        if (s[4] >= 0) { read_line(r, map, into, to + s[0], s[1], from + s[2], s[3], s[4]); continue; }
        for (isize k = 0; k < length; k++)
            if (last[k] >= 0) read_line(r, map, into, to + k, 3, from + last[k], 3, 1);
    }
}

static const u64 *read_map(Reader *r, isize number, isize tap) {
    const Geometry *g = r->g;
    const u64 *cover = (const u64 *)g->covers.buf + tap * r->out;
    if (number == FULL) return cover;
    u64 **known = &r->known[number * g->taps + tap];
    if (*known) return *known;
    u64 *into = take(r->arena, 8 * r->out);
    if (!into) return cover;
    const u64 *map = r->maps + number * r->in;
    isize distance = (isize)((const int64_t *)g->distances.buf)[tap];
    if (distance == PY_SSIZE_T_MAX) gather(r, map, tap, into);
    else for (isize i = 0; i < r->out; i++) into[i] = word_at(map, r->in, 64 * i + distance) & cover[i];
    return *known = into;
}

