/* A weight as rows of bits: forward, backward, and which of its connections join what. */

/* Rows of bits, and the channels at their ends. */

typedef struct { isize groups, channels, taps, rows, width; const u64 *words, *index, *starts; } Rows;

static Rows rows_of(const Py_buffer *words, isize groups, isize channels, isize taps) {
    isize width = WORDS(channels * taps);
    Rows rows = {groups, channels, taps, width ? words->len / 8 / width / groups : 0, width, words->buf, NULL, NULL};
    return rows;
}

/* The words of a row, with zeros where some were left out; `room` is for as many as there are then. */
static inline const u64 *row_at(const Rows *w, isize k, u64 *room) {
    if (!w->index) return w->words + k * w->width;
    u64 start = w->starts[k];
    if (start & ENTIRE) return w->words + (start & ~ENTIRE);
    return loosen(w->words + start, w->index + k * WORDS(w->width), w->width, room);
}

/* Is it known, without a look at its words, that a row keeps nothing? */
static inline int is_bare(const Rows *w, isize k) {
    u64 any = !w->index;
    for (isize j = 0; w->index && j < WORDS(w->width); j++) any |= w->index[k * WORDS(w->width) + j];
    return !any;
}

static u64 *room_of(const Rows *w, isize rows, Arena *arena) {
    return take(arena, w->index ? 8 * rows * w->width + 8 : 8);
}

/* Is anything kept in a row, at the columns of a pattern, NULL for all? */
static inline int keeps_any(const Rows *w, isize k, const u64 *pattern, u64 *room) {
    if (w->index && (!pattern || is_bare(w, k))) return !is_bare(w, k);
    const u64 *row = row_at(w, k, room);
    for (isize i = 0; i < w->width; i++)
        if (pattern ? row[i] & pattern[i] : row[i]) return 1;
    return 0;
}

static int32_t number_at(const int32_t *numbers, isize i) { return numbers ? numbers[i] : FULL; }

static void mark_all(u64 *pattern, isize bits) {
    memset(pattern, 0xff, 8 * (bits / 64));
    if (bits % 64) pattern[bits / 64] = ((u64)1 << bits % 64) - 1;
}

/* The taps of a channel as bits, marked or asked for at once in the columns of the channel; NULL stands for all. */
static u64 *bits_of_taps(const Rows *w, const uint8_t *taps, Arena *arena) {
    u64 *bits = take(arena, 8 * WORDS(w->taps) + 8);
    for (isize t = 0; bits && t < w->taps; t++) bits[t >> 6] |= (u64)taps[t] << (t & 63);
    return bits;
}

static void mark_channel(const Rows *w, u64 *pattern, isize c, const u64 *taps) {
    for (isize t = 0; t < w->taps; t += 64) {
        u64 all = w->taps - t < 64 ? ((u64)1 << (w->taps - t)) - 1 : ~(u64)0;
        put_at(pattern, w->width, c * w->taps + t, taps ? taps[t >> 6] : all);
    }
}

static int has_tap(const Rows *w, const u64 *columns, isize c, const u64 *taps) {
    for (isize t = 0; t < w->taps; t += 64)
        if (word_at(columns, w->width, c * w->taps + t) & taps[t >> 6]) return 1;
    return 0;
}

/* The columns of full channels, at taps that always read something. */
static void mark_saturating(const Rows *w, const int32_t *numbers, isize first, const u64 *always, u64 *pattern) {
    memset(pattern, 0, 8 * w->width);
    for (isize c = 0; c < w->channels; c++)
        if (number_at(numbers, first + c) == FULL) mark_channel(w, pattern, c, always);
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
    u64 *saturating = bits_of_taps(w, always, arena), *room = room_of(w, 1, arena);
    uint32_t *seen = take(arena, 4 * r->count * w->taps), now = 0;
    if (arena->failed) return;
    u64 *most = maps || !all_always ? most_of(r, x, w->groups * w->channels, arena) : NULL;
    for (isize g = 0; g < w->groups; g++) {
        int any = !x && all_always;
        if (!any) mark_saturating(w, x, g * w->channels, saturating, pattern);
        for (isize k = g * w->rows; k < (g + 1) * w->rows; k++) {
            y[k] = keeps_any(w, k, any ? NULL : pattern, room) ? FULL : EMPTY;
            if (y[k] == FULL || !(maps || !all_always) || is_bare(w, k)) continue;
            const u64 *row = row_at(w, k, room);
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

/* Eight rows at a time: what is known of the columns is read and written for all of them at once. */
CLONED static void or_rows(u64 *restrict into, const u64 *const *rows, isize n) {
    const u64 *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3], *e = rows[4], *f = rows[5], *g = rows[6],
              *h = rows[7];
    for (isize i = 0; i < n; i++) into[i] |= a[i] | b[i] | c[i] | d[i] | e[i] | f[i] | g[i] | h[i];
}

/* The columns that rows with the full map have in use, from one row on; says whether these are all. */
static int find_columns(const Rows *w, const int32_t *y, isize first, u64 *columns, const u64 *all, u64 *room) {
    const u64 *rows[8];
    int n = 0;
    memset(columns, 0, 8 * w->width);
    for (isize k = first; k < first + w->rows; k++) {
        if (number_at(y, k) == FULL && !is_bare(w, k)) rows[n] = row_at(w, k, room + n * w->width), n++;
        if (n == 8) or_rows(columns, rows, w->width), n = 0;
        if ((k - first) % 64 == 63 && !memcmp(columns, all, 8 * w->width)) return 1;
    }
    while (n) or_into(columns, rows[--n], w->width);
    return !memcmp(columns, all, 8 * w->width);
}

static void run_backward(const Rows *w, Reader *r, const int32_t *y, int maps, int32_t *x, Numbering *n, Arena *arena) {
    const uint8_t *always = r->g->always.buf;
    uint32_t taps = (uint32_t)w->taps;
    u64 *columns = take(arena, 8 * w->width + 8), *saturating = bits_of_taps(w, always, arena), *pattern = NULL;
    isize *order = take(arena, sizeof(isize) * (w->rows + 1)), *ends = take(arena, sizeof(isize) * (r->count + 1));
    u64 *reads = NULL, *all = take(arena, 8 * w->width + 8), *room = room_of(w, 8, arena);
    if (arena->failed) return;
    int some_always = memchr(always, 1, w->taps) != NULL;
    mark_all(all, w->channels * w->taps);
    for (isize g = 0; g < w->groups; g++, x += w->channels) {
        isize first = g * w->rows, left = 0;
        if (find_columns(w, y, first, columns, all, room) && some_always) {
            for (isize c = 0; c < w->channels; c++) x[c] = FULL;
            continue;
        }
        for (isize c = 0; c < w->channels; c++) {
            u64 column = columns[c >> 6] >> (c & 63) & saturating[0];
            left += !(x[c] = taps == 1 ? (int)column : has_tap(w, columns, c, saturating));
        }
        if (!left || (some_always && w->taps == 1 && !maps)) continue;
        if (!reads && !(reads = take(arena, 8 * w->channels * r->out + 8))) return;
        if (!pattern && !(pattern = take(arena, 8 * w->width + 8))) return;
        mark_saturating(w, NULL, 0, saturating, pattern);
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
                    or_into(columns, row_at(w, order[k], room), w->width);
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

/* `missed` is where, or, as long as nothing is asked, NULL. */
static isize run_miss(const Rows *w, Reader *r, const int32_t *x, const int32_t *y, const Numbering *targets,
                      const u64 *maps, isize count, u64 **missed, Arena *arena) {
    uint32_t taps = (uint32_t)w->taps;
    Asked *asked = take(arena, sizeof(Asked) * count);
    u64 *room = room_of(w, 1, arena);
    isize found = 0;
    for (isize k = 0; k < w->groups * w->rows && !arena->failed; k++) {
        isize g = k / w->rows, number = number_at(y, k);
        if (number == EMPTY || is_bare(w, k)) continue;
        Asked *a = &asked[number];
        const u64 *map = (maps ? maps : targets->maps) + number * r->out;
        if (!a->apart) {
            if (!(a->apart = take(arena, r->count * w->taps))) return 0;
            a->clean = is_clean(r, a, map);
        }
        if (a->clean) continue;
        if (!*missed && !(*missed = take(arena, 8 * w->groups * w->rows * w->width + 8))) return 0;
        const u64 *row = row_at(w, k, room);
        u64 *into = *missed + k * w->width;
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

/* Who has a source, who a target, and how many have. */

/* Of one row: how many are kept, have a source, a target, both, and are active. */
static inline __attribute__((always_inline)) void count_row(const u64 *row, isize width, const u64 *from, u64 to,
                                                            const u64 *missed, isize *found) {
    isize kept = 0, with_source = 0, active = 0;
    if (from) {
        for (isize i = 0; i < width; i++) {
            kept += __builtin_popcountll(row[i]);
            with_source += __builtin_popcountll(row[i] & from[i]);
        }
    } else {
        for (isize i = 0; i < width; i++) kept += __builtin_popcountll(row[i]);
        with_source = kept;
    }
    if (to && missed)
        for (isize i = 0; i < width; i++)
            active += __builtin_popcountll(row[i] & (from ? from[i] : ~(u64)0) & ~missed[i]);
    else active = to ? with_source : 0;
    found[0] += kept, found[1] += with_source, found[2] += to ? kept : 0, found[3] += to ? with_source : 0;
    found[4] += active, found[5] += !active;
}

/* Sources are for each group, targets for each row. */
#define TALLY(name, target)                                                                                            \
    target static void name(const Rows *w, const u64 *source, const u64 *to, const u64 *missed, u64 *room,             \
                            isize *found) {                                                                            \
        for (isize k = 0; k < w->groups * w->rows; k++) {                                                              \
            if (is_bare(w, k)) { found[5]++; continue; }                                                               \
            count_row(row_at(w, k, room), w->width, source ? source + k / w->rows * w->width : NULL, to ? to[k] : 1,   \
                      missed ? missed + k * w->width : NULL, found);                                                   \
        }                                                                                                              \
    }
TALLY(tally_plain, POPCOUNT)
#if defined(__x86_64__)
TALLY(tally_widest, __attribute__((target("avx512f,avx512bw,avx512vl,avx512vpopcntdq,popcnt"))))

static void run_tally(const Rows *w, const u64 *source, const u64 *target, const u64 *missed, u64 *room, isize *found) {
    int wide = __builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("avx512vl");
    (wide && vectors == 2 ? tally_widest : tally_plain)(w, source, target, missed, room, found);
}
#else
#define run_tally tally_plain
#endif

/* Sources or targets are for each connection. */
static void tally_whole(const Rows *w, const u64 *source, isize by_group, const u64 *target, isize by_row,
                        const u64 *missed, isize *found) {
    for (isize k = 0; k < w->groups * w->rows; k++) {
        isize reached = 0;
        for (isize i = 0; i < w->width; i++) {
            u64 kept = w->words[k * w->width + i], with_source = kept, with_target = kept;
            if (source) with_source &= source[(by_group ? k / w->rows : k) * w->width + i];
            if (target) with_target &= target[by_row ? k : k * w->width + i];
            u64 both = with_source & with_target, active = missed ? both & ~missed[k * w->width + i] : both;
            isize number = __builtin_popcountll(active);
            found[0] += __builtin_popcountll(kept), found[1] += __builtin_popcountll(with_source);
            found[2] += __builtin_popcountll(with_target), found[3] += __builtin_popcountll(both);
            found[4] += number, reached += number;
        }
        found[5] += !reached;
    }
}

/* The columns of channels that are anything but empty, for each group. */
static void mark_sources(const Rows *w, const int32_t *x, u64 *source) {
    memset(source, 0, 8 * w->groups * w->width);
    for (isize g = 0; g < w->groups; g++, x += w->channels, source += w->width)
        for (isize c = 0; c < w->channels; c++)
            if (x[c] != EMPTY) mark_channel(w, source, c, NULL);
}

