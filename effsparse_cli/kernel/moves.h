/* The verbs of path rules that move data. `args`, ASK and NULL as in sums.h. */

/* args: the axis of the input that each axis of the output is. */
static const Value *permute(Arena *arena, const Value *a, const int64_t *args) {
    if (is_uniform(a)) return a;
    isize *sizes = new_sizes(arena, a->rank), steps[RANKS];
    Value *found = take(arena, sizeof *found);
    Walk walk = {0};
    if (!found || !sizes) return NULL;
    find_steps(a, steps);
    *found = *a, found->sizes = sizes, found->axes = 0;
    int64_t last[2] = {-1, -1};
    int turned = 0;
    for (int i = 0; i < a->rank; i++) {
        int channel = is_channel(a, (int)args[i]);
        sizes[i] = a->sizes[args[i]], found->axes |= (u64)channel << i;
        if (channel) add_axis(&walk, sizes[i], steps[args[i]], 0, 0);
        if (sizes[i] == 1) continue;
        if (args[i] < last[channel]) {
            if (!channel) return &ASK;
            turned = 1;
        }
        last[channel] = args[i];
    }
    if (!turned) return found;
    int32_t *numbers = claim(arena, 4 * a->n + 4);
    isize c = 0;
    if (!numbers) return NULL;
    Line line = last_line(&walk);
    do copy_line(numbers + c, a->numbers + walk.offset[0], line.a, line.size), c += line.size; while (advance(&walk));
    found->numbers = numbers;
    return found;
}

/* Axes from the first of each on that hold the same elements: as few as can be, and those of size one behind them. */
static int same_elements(const int64_t *old, isize m, const int64_t *new, isize n, isize *ends) {
    int64_t a = 1, b = 1;
    isize i = ends[0], j = ends[1];
    while (i < m || j < n) {
        if (i < m && old[i] == 1) i++;
        else if (j < n && new[j] == 1) j++;
        else if (a == b && a > 1) break;
        else if (i < m && a <= b) a *= old[i++];
        else b *= new[j++];
    }
    int more = i > ends[0] || j > ends[1];
    ends[0] = i, ends[1] = j;
    return more;
}

/* args: how many axes before and after, and their sizes. */
static const Value *reshape(Arena *arena, const Value *a, const int64_t *args) {
    if (is_uniform(a)) return a;
    const int64_t *old = args + 2, *new = old + args[0];
    isize *sizes = new_sizes(arena, (int)args[1]), ends[2] = {0}, first[2] = {0};
    Value *found = take(arena, sizeof *found);
    if (!found || !sizes) return NULL;
    *found = *a, found->rank = (int)args[1], found->sizes = sizes, found->axes = 0;
    for (; same_elements(old, args[0], new, args[1], ends); first[0] = ends[0], first[1] = ends[1]) {
        isize stored = 0, real = 0, channels = 0;
        u64 group = 0;
        for (isize i = first[0]; i < ends[0]; i++) {
            real += old[i] > 1, stored += a->sizes[i] > 1 && a->sizes[i] == old[i];
            channels += is_channel(a, (int)i), group |= (u64)(a->sizes[i] == 1 && old[i] > 1) << i;
        }
        if (!stored) continue;
        if (stored != real || (channels && channels != stored)) {
            /* Some of these axes become one, of which only a part is stored, or only a part has channels. */
            const Value *flat = unfold(arena, a, old, group);
            return !flat || flat == &ASK || is_uniform(flat) ? flat : reshape(arena, flat, args);
        }
        for (isize j = first[1]; j < ends[1]; j++) {
            sizes[j] = new[j];
            if (channels && new[j] > 1) found->axes |= (u64)1 << j;
        }
    }
    return found;
}

/* Along an axis that has no maps: n places, from `first` on or as an index has them, -1 for an empty one; or, if it is
   `put`, what stands there is put to these places of `size`. */
static const Value *replaced(Arena *arena, const Value *a, int rank, int axis, const int64_t *index, isize first,
                             isize n, isize size, int put) {
    isize outer = 1, inner = 1, stored = size_on(a, axis), *sizes = new_sizes(arena, rank), into = put ? size : n;
    if (!is_uniform(a) && stored > 1 && !is_channel(a, axis)) return &ASK;
    for (int i = 0; i < rank && sizes; i++) {
        sizes[i] = size_on(a, i);
        if (is_channel(a, i) && i != axis) *(i < axis ? &outer : &inner) *= sizes[i];
    }
    Value found = *a;
    int32_t *numbers = take(arena, 4 * outer * into * inner + 4);
    if (!numbers || !sizes) return NULL;
    sizes[axis] = into;
    found.rank = rank, found.sizes = sizes, found.n = outer * into * inner, found.numbers = numbers;
    found.axes = (a->axes & ~((u64)1 << axis)) | (u64)(into > 1) << axis;
    if (is_uniform(a)) found.positions = 1;
    for (isize o = 0; o < outer; o++) {
        const int32_t *all = a->numbers + o * stored * inner;
        int32_t *results = numbers + o * into * inner;
        if (!index) memcpy(results, all + first * inner, 4 * n * inner);
        for (isize i = 0, run; index && i < n; i += run) {
            for (run = 1; stored > 1 && index[i] >= 0 && i + run < n && index[i + run] == index[i] + run;) run++;
            if (index[i] < 0) continue;
            const int32_t *from = all + (stored > 1 ? put ? i : index[i] : 0) * inner;
            int32_t *to = results + (put ? index[i] : i) * inner;
            if (!a->maps) for (isize k = 0; k < run * inner; k++) to[k] |= from[k];
            else for (isize k = 0; k < run * inner; k++) {
                if (to[k] > FULL && from[k] > FULL && to[k] != from[k]) return &ASK; /* a sum of maps */
                to[k] = to[k] == FULL || from[k] == FULL ? FULL : to[k] | from[k];
            }
        }
    }
    return settled(arena, found);
}

/* args: the axis, and the places. */
static const Value *take_places(Arena *arena, const Value *a, int rank, const int64_t *args, isize count) {
    int whole = size_on(a, (int)args[0]) == 1;
    for (isize i = 1; whole && i < count; i++) whole = args[i] >= 0;
    return a->kind == EMPTY || whole ? a : replaced(arena, a, rank, (int)args[0], args + 1, 0, count - 1, 0, 0);
}

/* args: the axis, its size, and the places. */
static const Value *put_places(Arena *arena, const Value *a, int rank, const int64_t *args, isize count) {
    return a->kind == EMPTY ? a : replaced(arena, a, rank, (int)args[0], args + 2, 0, count - 2, args[1], 1);
}

/* args: the axis, and the size of each part. */
static const Value *concat(Arena *arena, const Value **parts, isize count, int rank, const int64_t *args) {
    const Value *form = NULL;
    isize several = 0, same = 1, inner = 1, n = 0, *sizes = new_sizes(arena, rank);
    int axis = (int)args[0];
    u64 axes = 0, mapped = 0;
    if (!sizes) return NULL;
    for (isize i = 0; i < count; i++) {
        const Value *part = parts[i];
        same &= is_uniform(part) && part->kind == parts[0]->kind, n += args[i + 1];
        axes |= part->axes, mapped |= mapped_axes(part);
        for (int k = 0; k < rank; k++)
            if (size_on(part, k) > sizes[k]) sizes[k] = part->sizes[k];
        if (is_uniform(part) || !part->maps) continue;
        if (form && mapped_axes(form) != mapped_axes(part)) return &ASK;
        form = part, several++;
    }
    if (same) return parts[0];
    if ((axes | (u64)1 << axis) & mapped) return &ASK;
    sizes[axis] = n, axes |= (u64)1 << axis;
    Value found = form ? *form : (Value){.positions = 1};
    found.rank = rank, found.axes = axes, found.sizes = sizes, found.n = 1;
    isize to[RANKS] = {0};
    for (int i = rank; i-- > 0;) to[i] = found.n, found.n *= axes >> i & 1 ? sizes[i] : 1;
    inner = to[axis];
    int32_t *numbers = take(arena, 4 * found.n + 4);
    if (!numbers) return NULL;
    Numbering numbering;
    if (several > 1) start_numbering(&numbering, form->positions);
    for (isize i = 0, at = 0; i < count; at += args[++i]) {
        const Value *part = parts[i];
        isize steps[RANKS];
        Walk walk = {0};
        Arena own = {0};
        int32_t *known = several > 1 && part->maps ? take(&own, 4 * part->count) : NULL;
        find_steps(part, steps);
        for (int k = 0; k < rank; k++)
            if (axes >> k & 1) {
                isize size = k == axis ? args[i + 1] : sizes[k];
                add_axis(&walk, size, size_on(part, k) > 1 ? steps[k] : 0, to[k], 0);
            }
        do {
            int32_t number = part->numbers[walk.offset[0]];
            if (number > FULL && known) {
                if (!known[number]) known[number] = number_of(&numbering, part->maps + number * numbering.width);
                number = known[number];
            }
            numbers[at * inner + walk.offset[1]] = number;
        } while (advance(&walk));
        arena->failed |= own.failed;
        release(&own);
    }
    found.numbers = numbers;
    return several > 1 ? numbered_value(arena, found, &numbering) : settled(arena, found);
}

/* One of the parts that concat would join: it begins at `first`. */
static const Value *part_of(Arena *arena, const Value *a, int rank, int axis, int64_t first, int64_t n) {
    return size_on(a, axis) == 1 ? a : replaced(arena, a, rank, axis, NULL, first, n, 0, 0);
}
