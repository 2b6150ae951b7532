// Recurrences in the place of attention: behind a convolution, a matrix of each head decays and takes up row by row.
//
// PyTorch's operations are the reference (`runtime/nn/recurrent/`, `runtime/nn/layers/`).  A head's
// matrix is read from one buffer and written to another in one pass; what a row makes of it does not depend on how many
// rows there are.

constexpr int COLUMNS = SUMS_AT_ONCE < 16 ? 4 : 8;  // vectors of a matrix's columns that go through all rows together

// Call `take(row, from, to)` for each row of a sequence, with the matrices of a head before it and behind it.
//
// What is behind a row and not wanted lies meanwhile where the last that is wanted goes.
template <class Take>
inline void in_rows(const Recurrence& own, const Segment& segment, int head, Take&& take) {
    const size_t numbers = static_cast<size_t>(own.dim) * own.size;
    const auto matrix = [&](int buffer) { return reinterpret_cast<float*>(own.states.of(buffer)) + head * numbers; };
    const State *wanted = segment.states, *end = wanted + segment.wanted;
    std::vector<float> unwanted(segment.wanted ? 0 : numbers);
    float* last = segment.wanted ? matrix(end[-1].buffer) : unwanted.data();
    const float* from = matrix(segment.state);
    for (int row = 0; row < segment.rows; ++row) {
        float* to = last;
        if (wanted == end || wanted->rows > row + 1) take(static_cast<size_t>(segment.first_row + row), from, to);
        for (; wanted < end && wanted->rows == row + 1; ++wanted)
            take(static_cast<size_t>(segment.first_row + row), from, to = matrix(wanted->buffer));
        from = to;
    }
}

// Divide by the length, as `l2norm` of PyTorch's does, and multiply.
inline void make_unit(float* x, int size, float factor) {
    Vector squares = splat(0.0f);
    for (int i = 0; i < size; i += LANES) squares = times_plus(load(x + i), load(x + i), squares);
    const Vector scale = splat(factor / std::sqrt(sum(squares) + 1e-6f));
    for (int i = 0; i < size; i += LANES) store(x + i, times(load(x + i), scale));
}

// One row of the gated delta rule, of `COUNT` vectors of a head's columns.
//
// from, to: `[size, dim]`, moved to the first of the columns, as is the value.  What the matrix holds for the key and for the query
// is asked before it decays, which is the same but for a factor.
template <int COUNT>
inline void delta(const float* from, float* to, const float* query, const float* key, const float* value, float decay, float share,
                  float alike, int size, size_t dim, Vector (&out)[COUNT]) {
    Vector held[COUNT], correction[COUNT];
    for (int j = 0; j < COUNT; ++j) out[j] = held[j] = splat(0.0f);
    for (int i = 0; i < size; ++i)
        for (int j = 0; j < COUNT; ++j) {
            const Vector own = load(from + i * dim + j * LANES);
            held[j] = times_plus(splat(key[i]), own, held[j]);
            out[j] = times_plus(splat(query[i]), own, out[j]);
        }
    for (int j = 0; j < COUNT; ++j) {
        correction[j] = times(splat(share), minus_times(splat(decay), held[j], load(value + j * LANES)));
        out[j] = times_plus(splat(alike), correction[j], times(splat(decay), out[j]));
    }
    for (int i = 0; i < size; ++i)
        for (int j = 0; j < COUNT; ++j)
            store(to + i * dim + j * LANES,
                  times_plus(splat(key[i]), correction[j], times(splat(decay), load(from + i * dim + j * LANES))));
}

// Run the heads of one group of keys over the rows of a sequence.
//
// convolved: of all rows of the step, `[channels]` each: queries and keys, `[groups, size]`, and values, `[heads, dim]`.  Queries and
//     keys of the group are written.
// rates: likewise, `[2, heads]` each, in whole vectors: how a head's matrix decays, and the share that is corrected.
// projected: likewise, `stride` each, with the gates.
// mixed: likewise, `[heads, dim]`, rounded as T.
template <class T>
void delta_group(const Recurrence& own, const Segment& segment, int group, float* convolved, size_t channels, const float* rates,
                 const float* projected, size_t stride, float* mixed) {
    const size_t size = own.size, dim = own.dim, keys = own.groups * size, heads = whole_vectors(own.heads);
    const auto query = [&](size_t row) { return convolved + row * channels + group * size; };
    alignas(64) float alike[MOST_ROWS];
    for (int i = 0; i < segment.rows; ++i) {
        float *asking = query(segment.first_row + i), *key = asking + keys;
        make_unit(asking, own.size, 1.0f / std::sqrt(static_cast<float>(own.size)));
        make_unit(key, own.size, 1.0f);
        Vector products = splat(0.0f);
        for (size_t k = 0; k < size; k += LANES) products = times_plus(load(asking + k), load(key + k), products);
        alike[i] = sum(products);
    }
    const int at_once = own.heads / own.groups;
    for (int head = group * at_once; head < (group + 1) * at_once; ++head) {
        const auto columns = [&](auto count, size_t c) {
            in_rows(own, segment, head, [&](size_t row, const float* from, float* to) {
                const float *rate = rates + row * 2 * heads + head, *value = convolved + row * channels + 2 * keys + head * dim;
                Vector out[count()];
                delta<count()>(from + c, to + c, query(row), query(row) + keys, value + c, rate[0], rate[heads],
                               alike[row - segment.first_row], own.size, dim, out);
                for (int j = 0; j < count(); ++j) store(mixed + (row * own.heads + head) * dim + c + j * LANES, rounded<T>(out[j]));
            });
        };
        size_t c = 0;
        for (; c + COLUMNS * LANES <= dim; c += COLUMNS * LANES) columns(std::integral_constant<int, COLUMNS>(), c);
        for (; c + COLUMNS / 2 * LANES <= dim; c += COLUMNS / 2 * LANES) columns(std::integral_constant<int, COLUMNS / 2>(), c);
        for (; c < dim; c += LANES) columns(std::integral_constant<int, 1>(), c);
        for (int i = 0; i < segment.rows; ++i) {
            const size_t row = segment.first_row + i;
            float* numbers = mixed + (row * own.heads + head) * dim;
            const float* gate = projected + row * stride + own.gate + head * dim;
            normalise(numbers, own.norm.weight, own.norm.least, own.dim, numbers);
            for (size_t d = 0; d < dim; d += LANES)
                store(numbers + d, rounded<T>(times(rounded<T>(load(numbers + d)), silu(load(gate + d)))));
        }
    }
}

// Run a head of a state space over the rows of a sequence, sixteen rows of its matrix, `[dim, size]`, at a time.
//
// convolved: of all rows of the step, `[channels]` each: what goes in, `[heads, dim]`, and its directions, of writing and of
//     reading, `[groups, size]` each.
// rates: likewise, `[2, heads]` each, in whole vectors: how a head's matrix decays, and the time that passes.
// projected: likewise, `stride` each, with the gates.
// mixed: likewise, `[heads, dim]`, behind the gates.
template <class T>
void state_space_head(const Recurrence& own, const Segment& segment, int head, const float* convolved, size_t channels,
                      const float* rates, const float* projected, size_t stride, float* mixed) {
    const size_t size = own.size, dim = own.dim, inner = own.heads * dim, heads = whole_vectors(own.heads);
    const size_t first = head / (own.heads / own.groups) * size;  // of the group's numbers
    for (size_t d = 0; d < dim; d += LANES)
        in_rows(own, segment, head, [&](size_t row, const float* from, float* to) {
            const float* given = convolved + row * channels + head * dim + d;
            const float *written = convolved + row * channels + inner + first, *read = written + own.groups * size;
            const Vector decay = splat(rates[row * 2 * heads + head]);
            const float time = rates[row * 2 * heads + heads + head];
            Vector each[LANES];
            for (int i = 0; i < LANES; ++i) {
                const size_t place = (d + i) * size;
                const Vector drive = splat(time * given[i]);
                Vector total = splat(0.0f);
                for (size_t k = 0; k < size; k += LANES) {
                    const Vector state = times_plus(drive, load(written + k), times(decay, load(from + place + k)));
                    store(to + place + k, state);
                    total = times_plus(state, load(read + k), total);
                }
                each[4 * (i % 4) + i / 4] = total;
            }
            const Vector y = rounded<T>(times_plus(splat(own.skip[head]), load(given), sums_of(each)));
            const Vector gate = load(projected + row * stride + own.gate + head * dim + d);
            store(mixed + row * inner + head * dim + d, times(y, silu(gate)));
        });
}

// Run a layer's rule over all rows.
//
// projected: `[rows, stride]`, what the layer's input gives.
// mixed: `[rows, heads, dim]`, rounded as T.
template <class T>
void recur(Context& context, const Layer& layer, const Step& step, const float* projected, size_t stride, float* mixed) {
    const Recurrence& own = layer.recurrence;
    const size_t channels = layer.convolution.channels, heads = whole_vectors(own.heads), inner = static_cast<size_t>(own.heads) * own.dim;
    context.convolved.resize(step.rows * channels);
    context.rates.resize(step.rows * 2 * heads);
    float *convolved = context.convolved.data(), *rates = context.rates.data();
    for (int row = 0; row < step.rows; ++row)
        for (size_t head = 0; head < heads; head += LANES) {
            const float* given = projected + row * stride + own.rates + head;
            float* rate = rates + row * 2 * heads + head;
            const Vector time = softplus(add(load(given), load(own.rate_bias + head)));
            store(rate, exponential(times(load(own.decay + head), time)));
            store(rate + heads, own.rule == GATED_DELTA ? times(splat(own.share), sigmoid(load(given + heads))) : time);
        }
    run_channels(context, step, layer.convolution.channels, [&](const Segment& segment, int first, int end) {
        convolve<T>(layer.convolution, segment, projected + own.convolved, stride, first, end, [&](size_t row, size_t c, Vector y) {
            store(convolved + row * channels + c, rounded<T>(silu(y)));
        });
    });
    if (own.rule == GATED_DELTA) {
        context.workers.run(step.segments * own.groups, [&](int piece) {
            delta_group<T>(own, step.segment[piece / own.groups], piece % own.groups, convolved, channels, rates, projected, stride, mixed);
        });
        return;
    }
    context.workers.run(step.segments * own.heads, [&](int piece) {
        state_space_head<T>(own, step.segment[piece / own.heads], piece % own.heads, convolved, channels, rates, projected, stride, mixed);
    });
    const size_t group = inner / own.groups;
    take_in_turns(context, step.rows, [&](int row) {
        for (size_t first = 0; first < inner; first += group) {
            float* numbers = mixed + row * inner + first;
            normalise(numbers, own.norm.weight + first, own.norm.least, static_cast<int>(group), numbers);
            for (size_t i = 0; i < group; i += LANES) store(numbers + i, rounded<T>(load(numbers + i)));
        }
    });
}
