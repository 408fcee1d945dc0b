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
#else
#define POPCOUNT
#endif

typedef uint64_t u64;
typedef Py_ssize_t isize;
enum { EMPTY, FULL };

#define WORDS(bits) (((bits) + 63) / 64)
#define EACH_BIT(word, at) for (u64 at##_left = (word), at; at##_left && (at = __builtin_ctzll(at##_left), 1); at##_left &= at##_left - 1)

static void or_into(u64 *into, const u64 *from, isize n) {
    for (isize i = 0; i < n; i++) into[i] |= from[i];
}

static int meets(const u64 *a, const u64 *b, isize n) {
    for (isize i = 0; i < n; i++)
        if (a[i] & b[i]) return 1;
    return 0;
}

/* Memory, zeroed, that is given back all at once. */

typedef struct Block { struct Block *before; } Block;
typedef struct { Block *last; char *at; size_t left; int failed; } Arena;

static void *take(Arena *arena, size_t size) {
    size = (size + 15) & ~(size_t)15;
    if (arena->left < size) {
        size_t room = size > 65536 ? size : 65536;
        Block *block = malloc(16 + room);
        if (!block) { arena->failed = 1; return NULL; }
        block->before = arena->last;
        arena->last = block, arena->at = (char *)block + 16, arena->left = room;
    }
    void *taken = arena->at;
    arena->at += size, arena->left -= size;
    return size ? memset(taken, 0, size) : arena;
}

static void release(Arena *arena) {
    for (Block *block = arena->last, *before; block; block = before) before = block->before, free(block);
}

/* Distinct maps get numbers, after the empty and the full one. */

typedef struct { isize width; u64 tail; u64 *maps; isize count, room, slots; int32_t *index; int failed; } Numbering;

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

static int32_t number_of(Numbering *n, const u64 *map) {
    if (!memcmp(map, n->maps, 8 * n->width)) return EMPTY;
    if (!memcmp(map, n->maps + n->width, 8 * n->width)) return FULL;
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

/* The number of all, if it is the same; or numbers, and the maps if there are any but the empty and the full one. */
static PyObject *numbered(const Numbering *n, const int32_t *numbers, isize count) {
    if (n->failed) return PyErr_NoMemory();
    isize same = 1;
    while (same < count && numbers[same] == numbers[0]) same++;
    if (same >= count && (!count || numbers[0] <= FULL)) return PyLong_FromLong(count ? numbers[0] : EMPTY);
    const char *maps = n->count > 2 ? (const char *)n->maps : NULL;
    return Py_BuildValue("(y#y#)", numbers, 4 * count, maps, 8 * n->count * n->width);
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

static int start_reader(Reader *r, const Geometry *g, const Py_buffer *maps, Arena *arena) {
    r->g = g, r->maps = maps->buf, r->in = WORDS(g->in), r->out = WORDS(g->out), r->arena = arena;
    r->count = maps->buf && r->in ? maps->len / 8 / r->in : 2;
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

/* Rows of bits, and the channels at their ends. */

typedef struct { isize groups, channels, taps, rows, width; const u64 *words; } Rows;

static Rows rows_of(const Py_buffer *words, isize groups, isize channels, isize taps) {
    isize width = WORDS(channels * taps);
    Rows rows = {groups, channels, taps, width ? words->len / 8 / width / groups : 0, width, words->buf};
    return rows;
}

static int32_t number_at(const int32_t *numbers, isize i) { return numbers ? numbers[i] : FULL; }

/* The columns of full channels, at taps that always read something. */
static void mark_saturating(const Rows *w, const int32_t *numbers, isize first, const uint8_t *always, u64 *pattern) {
    memset(pattern, 0, 8 * w->width);
    for (isize c = 0, column = 0; c < w->channels; c++, column += w->taps) {
        if (number_at(numbers, first + c) != FULL) continue;
        for (isize t = 0; t < w->taps; t++) pattern[(column + t) >> 6] |= (u64)always[t] << ((column + t) & 63);
    }
}

/* All that can be read of the maps that occur, if these are few: who has read as much is done. */
static u64 *most_of(Reader *r, const int32_t *numbers, isize count, Arena *arena) {
    if (r->count * r->g->taps > 64) return NULL;
    u64 *most = take(arena, 8 * r->out), occurs = 0;
    for (isize i = 0; i < count; i++) occurs |= (u64)1 << number_at(numbers, i);
    if (most) for (isize m = FULL; m < r->count; m++)
        if (occurs >> m & 1) for (isize t = 0; t < r->g->taps; t++) or_into(most, read_map(r, m, t), r->out);
    return most;
}

static void run_forward(const Rows *w, Reader *r, const int32_t *x, int maps, int32_t *y, Numbering *n, Arena *arena) {
    const uint8_t *always = r->g->always.buf;
    int all_always = !memchr(always, 0, w->taps);
    u64 *pattern = take(arena, 8 * w->width + 8), *read = take(arena, 8 * r->out + 8);
    uint32_t *seen = take(arena, 4 * r->count * w->taps), now = 0;
    if (arena->failed) return;
    u64 *most = maps || !all_always ? most_of(r, x, w->groups * w->channels, arena) : NULL;
    for (isize g = 0; g < w->groups; g++) {
        int any = !x && all_always;
        if (!any) mark_saturating(w, x, g * w->channels, always, pattern);
        for (isize k = g * w->rows; k < (g + 1) * w->rows; k++) {
            const u64 *row = w->words + k * w->width;
            y[k] = EMPTY;
            for (isize i = 0; i < w->width; i++)
                if (any ? row[i] : row[i] & pattern[i]) { y[k] = FULL; break; }
            if (y[k] == FULL || !(maps || !all_always)) continue;
            memset(read, 0, 8 * r->out), now++;
            for (isize i = 0; i < w->width; i++) EACH_BIT(row[i], b) {
                uint32_t column = (uint32_t)(64 * i + b), c = column / (uint32_t)w->taps, t = column - c * (uint32_t)w->taps;
                int32_t m = number_at(x, g * w->channels + c);
                if (m == EMPTY || seen[m * w->taps + t] == now) continue;
                seen[m * w->taps + t] = now;
                or_into(read, read_map(r, m, t), r->out);
                if (most && !memcmp(read, most, 8 * r->out)) goto done;
            }
        done:
            y[k] = number_of(n, read);
        }
    }
}

static void run_backward(const Rows *w, Reader *r, const int32_t *y, int maps, int32_t *x, Numbering *n, Arena *arena) {
    const uint8_t *always = r->g->always.buf;
    uint32_t taps = (uint32_t)w->taps;
    u64 *columns = take(arena, 8 * w->width + 8), *pattern = take(arena, 8 * w->width + 8);
    isize *order = take(arena, sizeof(isize) * (w->rows + 1)), *ends = take(arena, sizeof(isize) * (r->count + 1));
    u64 *reads = NULL, *all = take(arena, 8 * w->width + 8);
    if (arena->failed) return;
    mark_saturating(w, NULL, 0, always, pattern);
    for (isize k = 0; k < w->channels * w->taps; k++) all[k >> 6] |= (u64)1 << (k & 63);
    for (isize g = 0; g < w->groups; g++, x += w->channels) {
        isize first = g * w->rows, left = w->channels;
        memset(columns, 0, 8 * w->width), memset(x, 0, 4 * w->channels);
        for (isize k = first; k < first + w->rows; k++) {
            if (number_at(y, k) == FULL) or_into(columns, w->words + k * w->width, w->width);
            if ((k - first) % 64 == 63 && !memcmp(columns, all, 8 * w->width)) break;
        }
        for (isize i = 0; i < w->width; i++) EACH_BIT(columns[i] & pattern[i], b) {
            uint32_t c = (uint32_t)(64 * i + b) / taps;
            left -= x[c] == EMPTY, x[c] = FULL;
        }
        if (!left) continue;
        if (!reads && !(reads = take(arena, 8 * w->channels * r->out + 8))) return;
        memset(reads, 0, 8 * w->channels * r->out);
        for (isize i = 0; i < w->width; i++) EACH_BIT(columns[i] & ~pattern[i], b) {
            uint32_t column = (uint32_t)(64 * i + b), c = column / taps;
            if (x[c] == EMPTY) or_into(reads + c * r->out, read_map(r, FULL, column - c * taps), r->out);
        }
        if (maps) {
            /* Rows with the same map are asked together. */
            memset(ends, 0, sizeof(isize) * (r->count + 1));
            for (isize k = 0; k < w->rows; k++) ends[y[first + k] + 1]++;
            for (isize m = 0; m < r->count; m++) ends[m + 1] += ends[m];
            for (isize k = 0; k < w->rows; k++) order[ends[y[first + k]]++] = first + k;
            for (isize m = FULL + 1; m < r->count; m++) {
                if (ends[m] == ends[m - 1]) continue;
                memset(columns, 0, 8 * w->width);
                for (isize k = ends[m - 1]; k < ends[m]; k++)
                    or_into(columns, w->words + order[k] * w->width, w->width);
                for (isize i = 0; i < w->width; i++) EACH_BIT(columns[i], b) {
                    uint32_t column = (uint32_t)(64 * i + b), c = column / taps;
                    if (x[c] == EMPTY) or_into(reads + c * r->out, read_map(r, m, column - c * taps), r->out);
                }
            }
        }
        for (isize c = 0; c < w->channels; c++)
            if (x[c] == EMPTY) x[c] = number_of(n, reads + c * r->out);
    }
}

/* A row is asked bit by bit, until as many bits have been asked for the same map as there are columns; from then on
   by a pattern of all columns. */
typedef struct { uint8_t *apart; u64 *pattern; isize asked, group; int clean; } Asked;

static int is_apart(Reader *r, Asked *a, const u64 *map, isize number, isize tap) {
    uint8_t *known = &a->apart[number * r->g->taps + tap];
    if (!*known) *known = meets(read_map(r, number, tap), map, r->out) ? 1 : 2;
    return *known == 2;
}

static int is_clean(Reader *r, Asked *a, const u64 *map) {
    if (r->count * r->g->taps > 64) return 0;
    for (isize m = FULL; m < r->count; m++)
        for (isize t = 0; t < r->g->taps; t++)
            if (is_apart(r, a, map, m, t)) return 0;
    return 1;
}

static isize run_miss(const Rows *w, Reader *r, const int32_t *x, const int32_t *y, const Numbering *targets,
                      const u64 *maps, isize count, u64 *missed, Arena *arena) {
    uint32_t taps = (uint32_t)w->taps;
    Asked *asked = take(arena, sizeof(Asked) * count);
    isize found = 0;
    for (isize k = 0; k < w->groups * w->rows && !arena->failed; k++) {
        isize g = k / w->rows, number = number_at(y, k);
        if (number == EMPTY) continue;
        Asked *a = &asked[number];
        const u64 *row = w->words + k * w->width, *map = (maps ? maps : targets->maps) + number * r->out;
        u64 *into = missed + k * w->width;
        if (!a->apart) {
            if (!(a->apart = take(arena, r->count * w->taps))) return 0;
            a->clean = is_clean(r, a, map);
        }
        if (a->clean) continue;
        if (a->group != g) a->group = g, a->asked = 0;
        if (a->asked >= w->channels * w->taps) {
            if (!a->pattern && !(a->pattern = take(arena, 8 * w->width))) return 0;
            if (a->asked != PY_SSIZE_T_MAX) {
                memset(a->pattern, 0, 8 * w->width), a->asked = PY_SSIZE_T_MAX;
                for (isize column = 0; column < w->channels * w->taps; column++) {
                    int32_t m = number_at(x, g * w->channels + column / taps);
                    if (m != EMPTY && is_apart(r, a, map, m, column % taps))
                        a->pattern[column >> 6] |= (u64)1 << (column & 63);
                }
            }
            for (isize i = 0; i < w->width; i++) found += (into[i] = row[i] & a->pattern[i]) != 0;
            continue;
        }
        for (isize i = 0; i < w->width; i++) EACH_BIT(row[i], b) {
            uint32_t column = (uint32_t)(64 * i + b), c = column / taps;
            int32_t m = number_at(x, g * w->channels + c);
            a->asked++;
            if (m != EMPTY && is_apart(r, a, map, m, column - c * taps)) into[i] |= (u64)1 << b, found++;
        }
    }
    return found;
}

/* One bit per number: is anything left of it without its sign? Sixteen at a time, whose bits processors with SSE2
   gather themselves. */

#if defined(__SSE2__)
#include <emmintrin.h>
#define LOAD(from, k, mask) _mm_and_si128(_mm_loadu_si128((const __m128i *)(from) + (k)), mask)
#define ZERO _mm_setzero_si128()
#define EVEN(a, b, odd) \
    _mm_castps_si128(_mm_shuffle_ps(_mm_castsi128_ps(a), _mm_castsi128_ps(b), (odd) ? 0xdd : 0x88))

static inline unsigned bits_of(__m128i zero) { return ~(unsigned)_mm_movemask_epi8(zero) & 0xffff; }

static inline __m128i zeros2(const void *from, int k, __m128i mask) {
    __m128i a = _mm_cmpeq_epi16(LOAD(from, k, mask), ZERO), b = _mm_cmpeq_epi16(LOAD(from, k + 1, mask), ZERO);
    return _mm_packs_epi16(a, b);
}
static inline __m128i zeros4(const void *from, int k, __m128i mask) {
    __m128i a = _mm_cmpeq_epi32(LOAD(from, k, mask), ZERO), b = _mm_cmpeq_epi32(LOAD(from, k + 1, mask), ZERO);
    return _mm_packs_epi32(a, b);
}
static inline __m128i zeros8(const void *from, int k, __m128i mask) {
    __m128i a = _mm_cmpeq_epi32(LOAD(from, k, mask), ZERO), b = _mm_cmpeq_epi32(LOAD(from, k + 1, mask), ZERO);
    return _mm_and_si128(EVEN(a, b, 0), EVEN(a, b, 1));
}
static inline unsigned sixteen1(const uint8_t *from, uint8_t m) {
    return bits_of(_mm_cmpeq_epi8(LOAD(from, 0, _mm_set1_epi8((char)m)), ZERO));
}
static inline unsigned sixteen2(const uint16_t *from, uint16_t m) {
    return bits_of(zeros2(from, 0, _mm_set1_epi16((short)m)));
}
static inline unsigned sixteen4(const uint32_t *from, uint32_t m) {
    __m128i mask = _mm_set1_epi32((int)m);
    return bits_of(_mm_packs_epi16(zeros4(from, 0, mask), zeros4(from, 2, mask)));
}
static inline unsigned sixteen8(const u64 *from, u64 m) {
    __m128i mask = _mm_set1_epi64x((long long)m);
    __m128i low = _mm_packs_epi32(zeros8(from, 0, mask), zeros8(from, 2, mask));
    return bits_of(_mm_packs_epi16(low, _mm_packs_epi32(zeros8(from, 4, mask), zeros8(from, 6, mask))));
}
#else
#define SIXTEEN(name, type)                                                                                            \
    static inline unsigned name(const type *from, type mask) {                                                         \
        unsigned bits = 0;                                                                                             \
        for (int i = 0; i < 16; i++) bits |= (unsigned)((from[i] & mask) != 0) << i;                                   \
        return bits;                                                                                                   \
    }
SIXTEEN(sixteen1, uint8_t)
SIXTEEN(sixteen2, uint16_t)
SIXTEEN(sixteen4, uint32_t)
SIXTEEN(sixteen8, u64)
#endif

#define PACK(name, type, sixteen)                                                                                      \
    POPCOUNT static void name(const void *numbers, u64 *into, isize rows, isize columns, int is_signed, isize *kept) { \
        const type *from = numbers, mask = (type)(is_signed ? (type)~(type)0 >> 1 : ~(type)0);                         \
        for (isize r = 0; r < rows; r++) {                                                                             \
            isize k = 0, in_row = 0;                                                                                   \
            for (; k + 64 <= columns; k += 64, from += 64) {                                                           \
                u64 low = sixteen(from, mask) | (u64)sixteen(from + 16, mask) << 16;                                   \
                low |= (u64)sixteen(from + 32, mask) << 32 | (u64)sixteen(from + 48, mask) << 48;                      \
                in_row += __builtin_popcountll(*into++ = low);                                                         \
            }                                                                                                          \
            if (k < columns) {                                                                                         \
                u64 last = 0;                                                                                          \
                for (int i = 0; k < columns; k++, i++) last |= (u64)((*from++ & mask) != 0) << i;                      \
                in_row += __builtin_popcountll(*into++ = last);                                                        \
            }                                                                                                          \
            kept[0] += in_row, kept[1] += !in_row;                                                                     \
        }                                                                                                              \
    }
PACK(pack1, uint8_t, sixteen1)
PACK(pack2, uint16_t, sixteen2)
PACK(pack4, uint32_t, sixteen4)
PACK(pack8, u64, sixteen8)

/* Who has a source, who a target, and how many have. */

POPCOUNT static void run_tally(const Rows *w, const u64 *source, isize by_group, const u64 *target, isize by_row,
                           const u64 *missed, isize *found) {
    for (isize k = 0; k < w->groups * w->rows; k++) {
        const u64 *row = w->words + k * w->width;
        const u64 *from = source ? source + (by_group ? k / w->rows : k) * w->width : NULL;
        isize reached = 0;
        if (!source && !target && !missed) {
            for (isize i = 0; i < w->width; i++) reached += __builtin_popcountll(row[i]);
            for (int i = 0; i < 5; i++) found[i] += reached;
            found[5] += !reached;
            continue;
        }
        for (isize i = 0; i < w->width; i++) {
            if (!row[i]) continue;
            u64 kept = row[i], with_source = from ? kept & from[i] : kept;
            u64 with_target = target ? kept & target[by_row ? k : k * w->width + i] : kept;
            u64 both = with_source & with_target, active = both && missed ? both & ~missed[k * w->width + i] : both;
            isize number = __builtin_popcountll(active);
            found[0] += __builtin_popcountll(kept), found[1] += __builtin_popcountll(with_source);
            found[2] += __builtin_popcountll(with_target), found[3] += __builtin_popcountll(both);
            found[4] += number, reached += number;
        }
        found[5] += !reached;
    }
}

static PyObject *tallied(const isize *found) {
    return Py_BuildValue("(nnnnnn)", found[0], found[1], found[2], found[3], found[4], found[5]);
}

/* None, if no number is EMPTY. */
static PyObject *room_for(const int32_t *numbers, isize count, isize words) {
    for (isize i = 0; numbers && i < count; i++)
        if (numbers[i] == EMPTY) return PyBytes_FromStringAndSize(NULL, 8 * words);
    Py_RETURN_NONE;
}

static u64 *words_in(PyObject *bytes) { return bytes == Py_None ? NULL : (u64 *)PyBytes_AsString(bytes); }

static void mark_sources(const Rows *w, const int32_t *x, u64 *source) {
    memset(source, 0, 8 * w->groups * w->width);
    for (isize g = 0; g < w->groups; g++, x += w->channels, source += w->width)
        for (isize c = 0, column = 0; c < w->channels; c++, column += w->taps)
            for (isize k = column; x[c] != EMPTY && k < column + w->taps; k++) source[k >> 6] |= (u64)1 << (k & 63);
}

/* What Python calls. */

#define LITTLE 65536 /* bytes: no other thread gains by less */

static PyObject *pack(PyObject *self, PyObject *args) {
    Py_buffer numbers, words;
    isize rows, size, kept[2] = {0};
    int is_signed;
    if (!PyArg_ParseTuple(args, "y*w*nnp", &numbers, &words, &rows, &size, &is_signed)) return NULL;
    isize columns = rows ? numbers.len / size / rows : 0;
    PyThreadState *state = numbers.len > LITTLE ? PyEval_SaveThread() : NULL;
    (size == 1 ? pack1 : size == 2 ? pack2 : size == 4 ? pack4 : pack8)(numbers.buf, words.buf, rows, columns, is_signed, kept);
    if (state) PyEval_RestoreThread(state);
    PyBuffer_Release(&numbers), PyBuffer_Release(&words);
    return Py_BuildValue("(nn)", kept[0], kept[1]);
}

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
    if (!start_numbering(&numbering, g.out) && into && !start_reader(&reader, &g, &maps, &arena)) {
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
        int failed = start_numbering(&plain, g.out) || start_reader(&reader, &g, &x_maps, &arena);
        if (!failed) {
            isize count = y_maps.buf && reader.out ? y_maps.len / 8 / reader.out : 2;
            misses = run_miss(&w, &reader, x.buf, y.buf, &plain, y_maps.buf, count, missed.buf, &arena);
            failed = arena.failed;
        }
        release(&arena), end_numbering(&plain);
        if (failed) { PyErr_NoMemory(); goto done; }
    }
    run_tally(&w, sources, 1, targets, 1, misses ? missed.buf : NULL, found);
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
    Rows w = {groups, 0, 0, rows, width, words.buf};
    run_tally(&w, source.buf, source.len < words.len, target.buf, target.len < words.len, missed.buf, found);
    PyBuffer_Release(&words), PyBuffer_Release(&source), PyBuffer_Release(&target), PyBuffer_Release(&missed);
    return tallied(found);
}

/* Blocks of 64 x 64 bits: halves of rows change places with halves of columns, then quarters, and so on. */
#define EXCHANGE(block, half, lower)                                                                                   \
    for (int base = 0; base < 64; base += 2 * half)                                                                    \
        for (int k = base; k < base + half; k++) {                                                                     \
            u64 changed = (block[k] >> half ^ block[k + half]) & lower;                                                \
            block[k] ^= changed << half, block[k + half] ^= changed;                                                   \
        }

static PyObject *transpose(PyObject *self, PyObject *args) {
    Py_buffer words, turned;
    isize rows, columns;
    if (!PyArg_ParseTuple(args, "y*w*nn", &words, &turned, &rows, &columns)) return NULL;
    isize width = WORDS(columns), high = WORDS(rows);
    const u64 *from = words.buf;
    u64 *into = turned.buf, block[64];
    PyThreadState *state = words.len > LITTLE ? PyEval_SaveThread() : NULL;
    /* Eight blocks fill a line of the cache in every row that they are turned into. */
    for (isize start = 0; start < high; start += 64)
        for (isize j = 0; j < width; j++)
            for (isize i = start; i < start + 64 && i < high; i++) {
                for (isize k = 0; k < 64; k++) block[k] = 64 * i + k < rows ? from[(64 * i + k) * width + j] : 0;
                EXCHANGE(block, 32, 0x00000000ffffffffu)
                EXCHANGE(block, 16, 0x0000ffff0000ffffu)
                EXCHANGE(block, 8, 0x00ff00ff00ff00ffu)
                EXCHANGE(block, 4, 0x0f0f0f0f0f0f0f0fu)
                EXCHANGE(block, 2, 0x3333333333333333u)
                EXCHANGE(block, 1, 0x5555555555555555u)
                for (isize k = 0; k < 64 && 64 * j + k < columns; k++) into[(64 * j + k) * high + i] = block[k];
            }
    if (state) PyEval_RestoreThread(state);
    PyBuffer_Release(&words), PyBuffer_Release(&turned);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"pack", pack, METH_VARARGS, NULL},     {"forward", forward, METH_VARARGS, NULL},
    {"backward", backward, METH_VARARGS, NULL}, {"meet", meet, METH_VARARGS, NULL},
    {"number", number, METH_VARARGS, NULL}, {"tally", tally, METH_VARARGS, NULL},
    {"transpose", transpose, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "compiled", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_compiled(void) { return PyModuleDef_Init(&definition); }
