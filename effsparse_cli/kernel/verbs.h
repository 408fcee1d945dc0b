/* The verbs of path rules (paths/algebra.py). `args` are what Python's recorder has written down for each; ASK says that
   Python has to do it, NULL that there is no memory. */

/* The union or the intersection of two values. */
static const Value *combine(Arena *arena, const Value *a, const Value *b, int both) {
    u64 mapped = mapped_axes(a) | mapped_axes(b);
    if (!(a = regroup(arena, a, ~mapped)) || !(b = regroup(arena, b, ~mapped))) return NULL;
    if (a->maps && b->maps && mapped_axes(a) != mapped_axes(b)) return &ASK;
    const Value *form = a->maps ? a : b;
    Value found = *form;
    isize *sizes = new_sizes(arena, form->rank), a_steps[RANKS], b_steps[RANKS];
    Walk walk = {0};
    if (!sizes) return NULL;
    find_steps(a, a_steps), find_steps(b, b_steps);
    found.axes = a->axes | b->axes, found.n = 1, found.sizes = sizes;
    for (int i = 0; i < form->rank; i++) {
        sizes[i] = a->sizes[i] > b->sizes[i] ? a->sizes[i] : b->sizes[i];
        if (is_channel(&found, i)) add_axis(&walk, sizes[i], a_steps[i], b_steps[i], 0), found.n *= sizes[i];
    }
    int32_t *numbers = take(arena, 4 * found.n + 4);
    if (!numbers) return NULL;
    found.numbers = numbers;
    isize c = 0;
    if (!form->maps) {
        do {
            int32_t i = a->numbers[walk.offset[0]], j = b->numbers[walk.offset[1]];
            numbers[c++] = both ? i & j : i | j;
        } while (advance(&walk));
        return settled(arena, found);
    }
    Numbering n;
    Arena own = {0};
    start_numbering(&n, form->positions);
    isize many = a->maps ? a->count : 2, others = b->maps ? b->count : 2;
    int32_t *known = many * others <= 1 << 16 ? take(&own, 4 * many * others) : NULL; /* one more than the number */
    u64 *joined = take(&own, 8 * n.width + 8);
    do {
        int32_t i = a->numbers[walk.offset[0]], j = b->numbers[walk.offset[1]], *was = known ? &known[i * others + j] : NULL;
        if (!joined || n.failed) break;
        if (was && *was) { numbers[c++] = *was - 1; continue; }
        const u64 *x = (a->maps ? a->maps : n.maps) + i * n.width, *y = (b->maps ? b->maps : n.maps) + j * n.width;
        for (isize k = 0; k < n.width; k++) joined[k] = both ? x[k] & y[k] : x[k] | y[k];
        numbers[c] = number_of(&n, joined);
        if (was) *was = numbers[c] + 1;
        c++;
    } while (advance(&walk));
    arena->failed |= own.failed;
    release(&own);
    return numbered_value(arena, found, &n);
}

/* plus and the elementwise product. */
static const Value *fold(Arena *arena, const Value **xs, isize count, int both) {
    const Value *found = NULL;
    for (isize i = 0; i < count; i++)
        if (xs[i]->kind == (both ? EMPTY : FULL)) return xs[i];
    for (isize i = 0; i < count; i++) {
        if (is_uniform(xs[i]) || found == xs[i]) continue;
        found = found ? combine(arena, found, xs[i], both) : xs[i];
        if (!found || found == &ASK || is_uniform(found)) return found;
    }
    return found ? found : xs[0];
}

/* args: how many letters there are, and for each its axis in a, in b and in the result, or -1. */
static const Value *product(Arena *arena, const Value *a, const Value *b, int rank, const int64_t *args) {
    if (a->kind == EMPTY || b->kind == EMPTY) return &EVERYWHERE[EMPTY];
    if (is_uniform(a) && is_uniform(b)) return a;
    if (a->maps || b->maps) return &ASK;
    isize *sizes = new_sizes(arena, rank), a_steps[RANKS], b_steps[RANKS], to[RANKS], all = 1;
    Value found = {.rank = rank, .n = 1, .positions = 1, .sizes = sizes};
    Walk walk = {0};
    if (!sizes) return NULL;
    find_steps(a, a_steps), find_steps(b, b_steps);
    for (isize k = 0; k < args[0]; k++) {
        const int64_t *axis = args + 1 + 3 * k;
        isize of_a = axis[0] < 0 ? 1 : size_on(a, (int)axis[0]), of_b = axis[1] < 0 ? 1 : size_on(b, (int)axis[1]);
        if (axis[2] >= 0) sizes[axis[2]] = of_a > of_b ? of_a : of_b, found.axes |= (u64)(sizes[axis[2]] > 1) << axis[2];
    }
    for (int i = rank; i-- > 0; found.n *= sizes[i]) to[i] = found.n;
    for (isize k = 0; k < args[0]; k++) {
        const int64_t *axis = args + 1 + 3 * k;
        isize of_a = axis[0] < 0 ? 1 : size_on(a, (int)axis[0]), of_b = axis[1] < 0 ? 1 : size_on(b, (int)axis[1]);
        isize size = of_a > of_b ? of_a : of_b;
        add_axis(&walk, size, of_a > 1 ? a_steps[axis[0]] : 0, of_b > 1 ? b_steps[axis[1]] : 0, axis[2] < 0 ? 0 : to[axis[2]]);
        all *= size;
    }
    if (all > 1 << 20) return &ASK;
    int32_t *numbers = take(arena, 4 * found.n + 4);
    if (!numbers) return NULL;
    /* The last axis in a loop of its own: mostly it is the one that is summed, and what is full already stays so. */
    isize size = walk.count ? walk.size[--walk.count] : 1, *by[3] = {walk.by[0], walk.by[1], walk.by[2]};
    isize i = by[0][walk.count], j = by[1][walk.count], k = by[2][walk.count];
    do {
        const int32_t *x = a->numbers + walk.offset[0], *y = b->numbers + walk.offset[1];
        int32_t *into = numbers + walk.offset[2];
        if (k) for (isize c = 0; c < size; c++) into[c * k] |= x[c * i] & y[c * j];
        else for (isize c = 0; c < size && !*into; c++) *into |= x[c * i] & y[c * j];
    } while (advance(&walk));
    found.numbers = numbers;
    return settled(arena, found);
}

/* args: one bit for each axis that is summed. */
static const Value *total(Arena *arena, const Value *a, const int64_t *args) {
    u64 summed = (u64)args[0], mapped = mapped_axes(a);
    if (is_uniform(a) || !(summed & (a->axes | mapped))) return a;
    if ((mapped & summed) && (mapped & ~summed)) return &ASK;
    int flat = !a->maps || (mapped & summed);
    isize *sizes = new_sizes(arena, a->rank), steps[RANKS], step = 1, width = WORDS(a->positions), c = 0;
    Value found = *a;
    Walk walk = {0};
    if (!sizes) return NULL;
    find_steps(a, steps);
    found.axes = a->axes & ~summed, found.sizes = sizes, found.n = 1;
    for (int i = 0; i < a->rank; i++) {
        if (!(summed >> i & 1) && !(flat && !is_channel(a, i))) sizes[i] = a->sizes[i];
        if (is_channel(&found, i)) found.n *= sizes[i];
    }
    isize to[RANKS];
    for (int i = a->rank; i-- > 0;) to[i] = is_channel(&found, i) ? step : 0, step *= is_channel(&found, i) ? sizes[i] : 1;
    for (int i = 0; i < a->rank; i++)
        if (is_channel(a, i)) add_axis(&walk, a->sizes[i], to[i], 0, 0);
    int32_t *numbers = take(arena, 4 * found.n + 4);
    if (!numbers) return NULL;
    found.numbers = numbers;
    if (flat) {
        do numbers[walk.offset[0]] |= a->numbers[c++] != EMPTY; while (advance(&walk));
        found.maps = NULL, found.count = 0, found.positions = 1;
        return settled(arena, found);
    }
    Arena own = {0};
    Numbering n;
    u64 *sums = take(&own, 8 * found.n * width + 8);
    start_numbering(&n, a->positions);
    if (sums) {
        do or_into(sums + walk.offset[0] * width, a->maps + a->numbers[c++] * width, width); while (advance(&walk));
        for (c = 0; c < found.n; c++) numbers[c] = number_of(&n, sums + c * width);
    }
    arena->failed |= own.failed;
    release(&own);
    return numbered_value(arena, found, &n);
}

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
    int32_t *numbers = take(arena, 4 * a->n + 4);
    isize c = 0;
    if (!numbers) return NULL;
    do numbers[c++] = a->numbers[walk.offset[0]]; while (advance(&walk));
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

/* Along an axis that has no maps: the places of an index, -1 for an empty one; or, if it is `put`, what stands there is
   put to these places. */
static const Value *replaced(Arena *arena, const Value *a, int rank, int axis, const int64_t *index, isize n, isize size,
                             int put) {
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
    for (isize o = 0; o < outer; o++)
        for (isize i = 0; i < n; i++) {
            if (index[i] < 0) continue;
            const int32_t *from = a->numbers + (o * stored + (stored > 1 ? put ? i : index[i] : 0)) * inner;
            int32_t *to = numbers + (o * into + (put ? index[i] : i)) * inner;
            for (isize k = 0; k < inner; k++) {
                if (to[k] > FULL && from[k] > FULL && to[k] != from[k]) return &ASK; /* a sum of maps */
                to[k] = to[k] == FULL || from[k] == FULL ? FULL : to[k] | from[k];
            }
        }
    return settled(arena, found);
}

/* args: the axis, and the places. */
static const Value *take_places(Arena *arena, const Value *a, int rank, const int64_t *args, isize count) {
    int whole = size_on(a, (int)args[0]) == 1;
    for (isize i = 1; whole && i < count; i++) whole = args[i] >= 0;
    return a->kind == EMPTY || whole ? a : replaced(arena, a, rank, (int)args[0], args + 1, count - 1, 0, 0);
}

/* args: the axis, its size, and the places. */
static const Value *put_places(Arena *arena, const Value *a, int rank, const int64_t *args, isize count) {
    return a->kind == EMPTY ? a : replaced(arena, a, rank, (int)args[0], args + 2, count - 2, args[1], 1);
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
            if (axes >> k & 1) add_axis(&walk, k == axis ? args[i + 1] : sizes[k], size_on(part, k) > 1 ? steps[k] : 0, to[k], 0);
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
    if (size_on(a, axis) == 1) return a;
    int64_t *index = take(arena, 8 * n + 8);
    for (int64_t i = 0; index && i < n; i++) index[i] = first + i;
    return index ? replaced(arena, a, rank, axis, index, n, 0, 0) : NULL;
}

/* What a tap brings from one map to another: positions `from` along an axis to positions `to`, -1 for none, n of them,
   each of which stands for `inner` positions that lie together. */
static void bring(const Reader *r, const u64 *map, u64 *into, const int64_t *from, const int64_t *to, isize n, isize inner) {
    isize first = 0, by = 0, over = 0, k;
    while (first < n && (from[first] < 0 || to[first] < 0)) first++;
    if (first == n) return;
    if (first + 1 < n) by = from[first + 1] - from[first], over = to[first + 1] - to[first];
    for (k = first + 1; k < n && from[k] >= 0 && to[k] >= 0; k++)
        if (from[k] - from[k - 1] != by || to[k] - to[k - 1] != over) break;
    if (inner == 1 && (k == first + 1 || (by > 0 && over > 0)))
        read_line(r, map, into, to[first], k > first + 1 ? over : 1, from[first], k > first + 1 ? by : 1, k - first);
    else
        for (isize i = first; i < k; i++) read_line(r, map, into, to[i] * inner, 1, from[i] * inner, 1, inner);
    bring(r, map, into, from + k, to + k, n - k, inner);
}

/* args: the axis, whether every position of the result reads anything, whether it is the adjoint, how many positions the
   result has, taps, outputs, and the table of what each tap reads for each output. */
static const Value *window(Arena *arena, const Value *a, const int64_t *args) {
    int axis = (int)args[0], back = args[2] != 0;
    isize stored = size_on(a, axis), taps = args[4], n = args[5], inner = 1, outer = 1;
    if (a->kind == EMPTY || (args[1] && stored == 1)) return a;
    if (is_uniform(a) || !a->maps || stored == 1 || is_channel(a, axis)) return &ASK;
    isize *sizes = new_sizes(arena, a->rank);
    int32_t *numbers = take(arena, 4 * a->n + 4);
    Arena own = {0};
    int64_t *places = take(&own, 8 * n + 8);
    int32_t *known = take(&own, 4 * a->count + 4); /* one more than the number */
    if (!sizes || !numbers || !places || !known) { release(&own); return NULL; }
    for (int i = 0; i < a->rank; i++) {
        sizes[i] = i == axis ? args[3] : a->sizes[i];
        if (i != axis && !is_channel(a, i)) *(i < axis ? &outer : &inner) *= sizes[i];
    }
    Value found = *a;
    found.sizes = sizes, found.numbers = numbers, found.positions = outer * args[3] * inner;
    Numbering numbering;
    start_numbering(&numbering, found.positions);
    Reader reader = {.in = WORDS(a->positions), .out = numbering.width};
    /* One line of positions after another, so that the places along the axis are places in the map. */
    u64 *map = take(&own, 8 * numbering.width + 8), *line = take(&own, 8 * WORDS(stored * inner) + 8);
    u64 *result = take(&own, 8 * WORDS(args[3] * inner) + 8);
    for (isize k = 0; k < n; k++) places[k] = k;
    for (isize c = 0; c < a->n && result && line && map; c++) {
        int32_t number = a->numbers[c];
        if (number == EMPTY) { numbers[c] = EMPTY; continue; }
        if (!known[number]) {
            memset(map, 0, 8 * numbering.width);
            for (isize o = 0; o < outer; o++) {
                memset(line, 0, 8 * WORDS(stored * inner)), memset(result, 0, 8 * WORDS(args[3] * inner));
                reader.in = WORDS(a->positions), reader.out = WORDS(stored * inner);
                read_line(&reader, a->maps + number * reader.in, line, 0, 1, o * stored * inner, 1, stored * inner);
                reader.in = reader.out, reader.out = WORDS(args[3] * inner);
                for (isize t = 0; t < taps; t++) {
                    const int64_t *reads = args + 6 + t * n;
                    bring(&reader, line, result, back ? places : reads, back ? reads : places, n, inner);
                }
                reader.in = reader.out, reader.out = numbering.width;
                read_line(&reader, result, map, o * args[3] * inner, 1, 0, 1, args[3] * inner);
            }
            known[number] = number_of(&numbering, map) + 1;
        }
        numbers[c] = known[number] - 1;
    }
    arena->failed |= own.failed;
    release(&own);
    return numbered_value(arena, found, &numbering);
}
