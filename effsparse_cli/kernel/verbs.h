/* The verbs of path rules (paths/algebra.py) on values that are the same everywhere or by channels. `args` are what
   Python's recorder has written down for each; ASK says that Python has to do it. */

static int is_uniform(const Value *a) { return a->kind < BY_CHANNEL; }

/* plus and the elementwise product. */
static const Value *fold(Arena *arena, const Value **xs, isize count, int both) {
    const Value *found = NULL;
    for (isize i = 0; i < count; i++)
        if (xs[i]->kind == (both ? EMPTY : FULL)) return xs[i];
    for (isize i = 0; i < count && found != &ASK; i++) {
        if (is_uniform(xs[i])) continue;
        if (!found) found = xs[i];
        else if (found == xs[i]) continue;
        else if (found->kind == FOREIGN || xs[i]->kind == FOREIGN) found = &ASK;
        else if (!(found = combine(arena, found, xs[i], both))) return NULL;
        if (found != &ASK && is_uniform(found)) return found;
    }
    return found ? found : xs[0];
}

/* Of any einsum, where both factors are the same everywhere. */
static const Value *product(const Value *a, const Value *b) {
    if (a->kind == EMPTY || b->kind == EMPTY) return &EVERYWHERE[EMPTY];
    return is_uniform(a) && is_uniform(b) ? &EVERYWHERE[a->kind & b->kind] : &ASK;
}

/* The union of all maps, as one channel. */
static const Value *total_channels(Arena *arena, const Value *a) {
    isize width = WORDS(a->positions);
    u64 *all = take(arena, 8 * width);
    int32_t *number = take(arena, 4);
    Numbering n;
    if (start_numbering(&n, a->positions) || !all || !number) { end_numbering(&n), arena->failed = 1; return NULL; }
    for (isize c = 0; c < a->n; c++)
        if (a->numbers[c] != EMPTY) or_into(all, a->maps + a->numbers[c] * width, width);
    number[0] = number_of(&n, all);
    Value found = *a;
    found.n = 1, found.numbers = number;
    return numbered_value(arena, found, &n);
}

/* args: one bit for each axis that is summed. */
static const Value *total(Arena *arena, const Value *a, const int64_t *args) {
    u64 axes = (u64)args[0], left = 0, gone = 0;
    if (is_uniform(a)) return a;
    if (a->kind == FOREIGN) return &ASK;
    for (int i = 0; a->maps && i < a->rank - 1; i++)
        if (a->rest[i] > 1) *(axes >> (i < a->axis ? i : i + 1) & 1 ? &gone : &left) |= 1;
    int channels = axes >> a->axis & 1;
    if (channels && !left) return &EVERYWHERE[FULL]; /* something is there, or it would be empty everywhere */
    if (channels) return gone ? &ASK : total_channels(arena, a);
    if (!gone) return a;
    if (left) return &ASK;
    Value found = *a;
    int32_t *numbers = take(arena, 4 * a->n);
    if (!numbers) return NULL;
    for (isize c = 0; c < a->n; c++) numbers[c] = a->numbers[c] != EMPTY;
    found.numbers = numbers;
    return settled(arena, found);
}

/* args: the axis of the input that each axis of the output is. */
static const Value *permute(Arena *arena, const Value *a, const int64_t *args) {
    if (is_uniform(a)) return a;
    if (a->kind == FOREIGN) return &ASK;
    Value *found = take(arena, sizeof *found);
    isize *rest = take(arena, sizeof(isize) * a->rank);
    if (!found || !rest) return NULL;
    *found = *a;
    int64_t last = -1;
    for (int i = 0, k = 0; i < a->rank; i++) {
        if (args[i] == a->axis) { found->axis = i; continue; }
        if (!a->maps) continue;
        rest[k++] = a->rest[args[i] < a->axis ? args[i] : args[i] - 1];
        if (rest[k - 1] == 1) continue;
        if (args[i] < last) return &ASK;
        last = args[i];
    }
    if (a->maps) found->rest = rest;
    return found;
}

/* args: how many axes before and after, and their sizes. The channels have to stay an axis, and maps have to be stored
   in full or not to change. */
static const Value *reshape(Arena *arena, const Value *a, const int64_t *args) {
    if (is_uniform(a)) return a;
    if (a->kind == FOREIGN) return &ASK;
    const int64_t *old = args + 2, *new = old + args[0];
    int64_t before = 1, n = 1;
    int axis = 0;
    for (int i = 0; i < a->axis; i++) before *= old[i];
    while (axis < args[1] && !(n == before && new[axis] == old[a->axis])) n *= new[axis++];
    if (axis == args[1]) return &ASK;
    Value *found = take(arena, sizeof *found);
    isize *rest = take(arena, sizeof(isize) * args[1]);
    if (!found || !rest) return NULL;
    *found = *a, found->axis = axis, found->rank = (int)args[1];
    if (!a->maps) return found;
    for (int i = 0; i < args[0] - 1; i++)
        if (a->rest[i] != old[i < a->axis ? i : i + 1]) return &ASK;
    for (int i = 0; i < args[1] - 1; i++) rest[i] = new[i < axis ? i : i + 1];
    found->rest = rest;
    return found;
}

/* Channels of a value, by their places; -1 is an empty one. */
static const Value *chosen(Arena *arena, const Value *a, int axis, int rank, const int64_t *index, isize n) {
    Value found = *a;
    int32_t *numbers = take(arena, 4 * n + 4);
    if (!numbers) return NULL;
    for (isize c = 0; c < n; c++) numbers[c] = index[c] < 0 ? EMPTY : number_in(a, index[c]);
    found.axis = axis, found.rank = rank, found.n = n, found.numbers = numbers;
    return settled(arena, found);
}

/* args: the axis, and the places. */
static const Value *take_places(Arena *arena, const Value *a, int rank, const int64_t *args, isize count) {
    if (a->kind == EMPTY) return a;
    if (a->kind == FULL || (a->kind == BY_CHANNEL && a->axis == args[0]))
        return chosen(arena, a, (int)args[0], rank, args + 1, count - 1);
    return &ASK;
}

/* args: the axis, its size, and the places. */
static const Value *put_places(Arena *arena, const Value *a, int rank, const int64_t *args, isize count) {
    if (a->kind == EMPTY) return a;
    if (a->kind == FOREIGN || (a->kind == BY_CHANNEL && a->axis != args[0])) return &ASK;
    int64_t *from = take(arena, 8 * args[1] + 8);
    if (!from) return NULL;
    memset(from, 0xff, 8 * args[1]);
    for (isize i = 2; i < count; i++) {
        if (args[i] < 0) continue;
        if (from[args[i]] >= 0 && a->kind != FULL) return &ASK; /* a sum */
        from[args[i]] = i - 2;
    }
    return chosen(arena, a, (int)args[0], rank, from, args[1]);
}

/* args: the axis, and the size of each part. */
static const Value *concat(Arena *arena, const Value **parts, isize count, int rank, const int64_t *args) {
    const Value *form = NULL;
    isize mapped = 0, n = 0, same = 1;
    for (isize i = 0; i < count; i++) {
        const Value *part = parts[i];
        same &= is_uniform(part) && part->kind == parts[0]->kind, n += args[i + 1];
        if (part->kind == FOREIGN || (part->kind == BY_CHANNEL && part->axis != args[0])) return &ASK;
        if (is_uniform(part) || !part->maps) continue;
        if (form && !same_rest(form, part)) return &ASK;
        form = part, mapped++;
    }
    if (same) return parts[0];
    Value found = form ? *form : (Value){0};
    Numbering numbering;
    int32_t *numbers = take(arena, 4 * n + 4), *at = numbers;
    if (!numbers) return NULL;
    if (mapped > 1) start_numbering(&numbering, form->positions);
    for (isize i = 0; i < count; at += args[++i]) {
        const Value *part = parts[i];
        for (isize c = 0; c < args[i + 1]; c++) at[c] = number_in(part, c);
        if (mapped < 2 || is_uniform(part) || !part->maps) continue;
        Arena own = {0};
        int32_t *known = take(&own, 4 * part->count);
        for (isize c = 0; known && c < args[i + 1]; c++) {
            if (at[c] <= FULL) continue;
            if (!known[at[c]]) known[at[c]] = number_of(&numbering, part->maps + at[c] * numbering.width);
            at[c] = known[at[c]];
        }
        arena->failed |= own.failed;
        release(&own);
    }
    found.axis = (int)args[0], found.rank = rank, found.n = n, found.numbers = numbers;
    if (mapped > 1) return numbered_value(arena, found, &numbering);
    return settled(arena, found);
}

/* One of the parts that concat would join: `first` channels come before it. */
static const Value *part_of(Arena *arena, const Value *a, int64_t first, int64_t n, int axis) {
    if (is_uniform(a)) return a;
    if (a->kind == FOREIGN || a->axis != axis) return a->kind == FOREIGN || a->maps ? &ASK : a;
    if (a->n == 1) return a;
    Value found = *a;
    found.n = n, found.numbers = a->numbers + first;
    return settled(arena, found);
}

/* args: the axis, and whether every position of the result reads anything. */
static const Value *window(const Value *a, const int64_t *args) {
    if (a->kind == EMPTY) return a;
    return args[1] && (a->kind == FULL || (a->kind == BY_CHANNEL && !a->maps && a->axis != args[0])) ? a : &ASK;
}
