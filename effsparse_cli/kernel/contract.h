/* What a weight does: forward, backward, and which of its connections join what. */

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
CLONED static void mark_full(const int32_t *numbers, isize n, u64 *pattern) {
    for (isize first = 0; first < n; first += 64) {
        isize some = n - first < 64 ? n - first : 64;
        u64 found = 0;
        for (isize c = 0; c < some; c++) found |= (u64)(numbers[first + c] == FULL) << c;
        pattern[first >> 6] = found;
    }
}

static void mark_saturating(const Rows *w, const int32_t *numbers, isize first, const u64 *always, u64 *pattern) {
    if (numbers && w->taps == 1 && *always) { mark_full(numbers + first, w->channels, pattern); return; }
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
    u64 *pattern = new_columns(arena, w, 1), *read = take(arena, 8 * r->out + 8);
    u64 *saturating = bits_of_taps(w, always, arena);
    uint32_t *seen = take(arena, 4 * r->count * w->taps), now = 0;
    if (arena->failed) return;
    u64 *most = maps || !all_always ? most_of(r, x, w->groups * w->channels, arena) : NULL;
    for (isize g = 0; g < w->groups; g++) {
        int any = !x && all_always;
        if (!any) mark_saturating(w, x, g * w->channels, saturating, pattern);
        for (isize k = g * w->rows; k < (g + 1) * w->rows; k++) {
            y[k] = (any ? keeps_any(w, k) : meets_pattern(w, k, pattern)) ? FULL : EMPTY;
            if (y[k] == FULL || !(maps || !all_always)) continue;
            memset(read, 0, 8 * r->out), now++;
            EACH_WORD(w, k, row) EACH_BIT(row.word, b) {
                uint32_t column = (uint32_t)(64 * row.at + b), c = column / (uint32_t)w->taps, t = column - c * (uint32_t)w->taps;
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

/* The columns that rows with the full map have in use, from one row on; says whether these are all. */
static int find_columns(const Rows *w, const int32_t *y, isize first, u64 *columns, const u64 *all) {
    isize rows[64], n = 0;
    if (!y && w->columns && w->groups == 1) {
        memcpy(columns, w->columns, 8 * w->width);
        return !memcmp(columns, all, 8 * w->width);
    }
    memset(columns, 0, 8 * w->width);
    for (isize k = first; k < first + w->rows; k++) {
        rows[n] = k, n += number_at(y, k) == FULL && !is_bare(w, k);
        if ((k - first) % 64 < 63) continue;
        or_rows(w, rows, n, columns), n = 0;
        if (!memcmp(columns, all, 8 * w->width)) return 1;
    }
    or_rows(w, rows, n, columns);
    return !memcmp(columns, all, 8 * w->width);
}

/* How many of them are zero. */
CLONED static isize bits_to_numbers(const u64 *bits, isize n, u64 lowest, int32_t *numbers) {
    isize none = 0;
    for (isize first = 0; first < n; first += 64) {
        isize some = n - first < 64 ? n - first : 64;
        for (isize c = 0; c < some; c++) numbers[first + c] = (int32_t)(bits[first >> 6] >> c & lowest);
        for (isize c = 0; c < some; c++) none += !numbers[first + c];
    }
    return none;
}

static void run_backward(const Rows *w, Reader *r, const int32_t *y, int maps, int32_t *x, Numbering *n, Arena *arena) {
    const uint8_t *always = r->g->always.buf;
    uint32_t taps = (uint32_t)w->taps;
    u64 *columns = new_columns(arena, w, 1), *saturating = bits_of_taps(w, always, arena), *pattern = NULL;
    isize *order = take(arena, sizeof(isize) * (w->rows + 1)), *ends = take(arena, sizeof(isize) * (r->count + 1));
    u64 *reads = NULL, *all = new_columns(arena, w, 1);
    if (arena->failed) return;
    int some_always = memchr(always, 1, w->taps) != NULL;
    mark_all(all, w->channels * w->taps);
    for (isize g = 0; g < w->groups; g++, x += w->channels) {
        isize first = g * w->rows, left = 0;
        if (find_columns(w, y, first, columns, all) && some_always) {
            for (isize c = 0; c < w->channels; c++) x[c] = FULL;
            continue;
        }
        if (taps == 1) left = bits_to_numbers(columns, w->channels, saturating[0], x);
        else for (isize c = 0; c < w->channels; c++) left += !(x[c] = has_tap(w, columns, c, saturating));
        if (!left || (some_always && w->taps == 1 && !maps)) continue;
        if (!reads && !(reads = take(arena, 8 * w->channels * r->out + 8))) return;
        if (!pattern && !(pattern = new_columns(arena, w, 1))) return;
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
                or_rows(w, order + ends[m - 1], ends[m] - ends[m - 1], columns);
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
        if (!*missed && !(*missed = new_columns(arena, w, w->groups * w->rows))) return 0;
        u64 *into = *missed + k * w->width;
        if (a->group != g) a->group = g, a->asked = 0;
        if (a->asked >= w->channels * w->taps) {
            if (!a->pattern && !(a->pattern = new_columns(arena, w, 1))) return 0;
            if (a->asked != PY_SSIZE_T_MAX) {
                memset(a->pattern, 0, 8 * w->width), a->asked = PY_SSIZE_T_MAX;
                for (isize column = 0; column < w->channels * w->taps; column++) {
                    int32_t m = number_at(x, g * w->channels + column / taps);
                    if (m != EMPTY && is_apart(r, a, map, m, column % taps))
                        a->pattern[column >> 6] |= (u64)1 << (column & 63);
                }
            }
            EACH_WORD(w, k, row) found += (into[row.at] = row.word & a->pattern[row.at]) != 0;
            continue;
        }
        EACH_WORD(w, k, row) EACH_BIT(row.word, b) {
            uint32_t column = (uint32_t)(64 * row.at + b), c = column / taps;
            int32_t m = number_at(x, g * w->channels + c);
            a->asked++;
            if (m != EMPTY && is_apart(r, a, map, m, column - c * taps)) into[row.at] |= (u64)1 << b, found++;
        }
    }
    return found;
}

/* The columns of channels that are anything but empty, for each group. */
static void mark_sources(const Rows *w, const int32_t *x, u64 *source) {
    if (w->taps == 1) {
        isize kept[2] = {0};
        pack_of(4)(x, source, w->groups, w->channels, 0, kept);
        return;
    }
    memset(source, 0, 8 * w->groups * w->width);
    for (isize g = 0; g < w->groups; g++, x += w->channels, source += w->width)
        for (isize c = 0; c < w->channels; c++)
            if (x[c] != EMPTY) mark_channel(w, source, c, NULL);
}

