// A decoder layer of few rows.
//
// PyTorch's operations are the reference (`runtime/nn/layers/`): numbers are rounded where those round them.

constexpr int RANGES_OF_THREAD = 4;  // of a layer's product: so many that nobody waits long for another thread's last

// Attend from all rows, behind their keys and values, which are written.
template <class T>
void attend_all(Context& context, const Layer& layer, const Step& step) {
    const int dim = layer.dim, heads = layer.heads, kv_heads = layer.kv_heads;
    const int group = heads / kv_heads, query = heads * dim, gate = (heads + 2 * kv_heads) * dim;
    const int all_heads = gate + (layer.is_gated ? query : 0);
    size_t longest = 0;
    for (int i = 0; i < step.segments; ++i)
        if (static_cast<size_t>(step.segment[i].length) > longest) longest = step.segment[i].length;
    longest = whole_vectors(longest);
    context.scores.resize(longest * step.segments * kv_heads * MOST_QUERIES);
    context.workers.run(step.segments * kv_heads, [&](int piece) {
        const Segment& segment = step.segment[piece / kv_heads];
        const int kv_head = piece % kv_heads;
        const auto of_layer = [&](void* first) {
            return reinterpret_cast<T*>(static_cast<char*>(first) + step.shift) + segment.head_stride * kv_head;
        };
        T *keys = of_layer(segment.keys), *values = of_layer(segment.values);
        const Pages pages{segment.pages, segment.first};
        for (int i = 0; i < segment.rows; ++i) {
            const size_t row = segment.first_row + i, position = segment.length - segment.rows + i;
            float* own = context.projected.data() + row * all_heads;
            const T* cos = static_cast<const T*>(step.cos) + row * layer.rotary;
            const T* sin = static_cast<const T*>(step.sin) + row * layer.rotary;
            const auto prepare = [&](int head) {
                float* numbers = own + static_cast<size_t>(head) * dim;
                const auto norm = [&] {
                    normalise(numbers, layer.head.weight + static_cast<size_t>(head) * dim, layer.head.least, dim, numbers);
                    for (int d = 0; d < dim; d += LANES) store(numbers + d, rounded<T>(load(numbers + d)));
                };
                if (layer.head.weight && !layer.norms_rotated) norm();
                rotate(numbers, cos, sin, layer.rotary);
                if (layer.head.weight && layer.norms_rotated) norm();
            };
            for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
                prepare(head);
                float* numbers = own + static_cast<size_t>(head) * dim;
                for (int d = 0; step.query_scale && d < dim; d += LANES)
                    store(numbers + d, rounded<T>(times(load(numbers + d), splat(step.query_scale[row]))));
            }
            prepare(heads + kv_head);
            const size_t place = position + pages.shift(position);
            for (int d = 0; d < dim; d += LANES) {
                store(keys + place * dim + d, load(own + static_cast<size_t>(heads + kv_head) * dim + d));
                store(values + place * dim + d, load(own + static_cast<size_t>(heads + kv_heads + kv_head) * dim + d));
            }
        }
        in_turns<MOST_QUERIES>(segment.rows * group, [&](auto count, int place) {
            Query queries[count()];
            for (int i = 0; i < count(); ++i) {
                const int own = (place + i) / group, head = kv_head * group + (place + i) % group;
                const size_t row = segment.first_row + own;
                const int end = segment.length - segment.rows + own + 1;
                queries[i] = {context.projected.data() + row * all_heads + static_cast<size_t>(head) * dim,
                              layer.window && end > layer.window ? end - layer.window : 0, end,
                              context.scores.data() + longest * (static_cast<size_t>(piece) * MOST_QUERIES + i),
                              context.mixed.data() + row * query + static_cast<size_t>(head) * dim};
            }
            attend<count()>(queries, keys, values, pages, dim, layer.attention_scale);
        });
        for (int i = 0; layer.is_gated && i < segment.rows; ++i) {
            const size_t row = segment.first_row + i;
            for (int d = kv_head * group * dim; d < (kv_head + 1) * group * dim; d += LANES) {
                float* numbers = context.mixed.data() + row * query + d;
                const Vector open = rounded<T>(sigmoid(load(context.projected.data() + row * all_heads + gate + d)));
                store(numbers, rounded<T>(times(load(numbers), open)));
            }
        }
    });
}

// Mix rows in a recurrent layer, from what its input gives to what its output takes.
template <class T>
void mix(Context& context, const Layer& layer, const Step& step, float* projected, size_t stride, float* mixed) {
    if (layer.recurrence.rule == GATE)
        convolve_between_gates<T>(context, layer, step, projected, mixed);
    else
        recur<T>(context, layer, step, projected, stride, mixed);
}

template <class T>
void run(Context& context, const Layer& layer, const Step& step) {
    const int rows = step.rows, hidden = layer.hidden;
    size_t projected = 0;
    for (const Matrix* part = &layer.input; part; part = part->next) projected += part->out;
    T* states = static_cast<T*>(step.hidden);
    context.workers.use(step.threads);
    if (step.projected) return mix<T>(context, layer, step, step.projected, projected, step.mixed);
    const int most_ranges = RANGES_OF_THREAD * step.threads;
    context.normed.resize(static_cast<size_t>(rows) * hidden);
    context.projected.resize(rows * projected);
    context.mixed.resize(static_cast<size_t>(rows) * layer.output.in);
    context.activated.resize(static_cast<size_t>(rows) * layer.inner);
    float* normed = context.normed.data();

    const auto norm_row = [&](const auto* from, const Norm& norm, float* to) {
        normalise(from, norm.weight, norm.least, hidden, to);
        for (int i = 0; i < hidden; i += LANES) store(to + i, rounded<T>(load(to + i)));
    };
    const auto norm_rows = [&](const Norm& norm) {
        for (size_t r = 0; r < static_cast<size_t>(rows); ++r) norm_row(states + r * hidden, norm, normed + r * hidden);
    };
    // Multiply; `take(row, output, y)` gets sixteen outputs at a time.
    const auto multiply = [&](const float* x, const Matrix& matrix, auto&& take) {
        with_product<T>(context, matrix, x, rows, [&](const auto& product) {
            constexpr int OUTPUTS = std::decay_t<decltype(product)>::OUTPUTS;
            run_pieces(context.workers, matrix.out / OUTPUTS, most_ranges, [&](int piece) {
                Vector y[MOST_ROWS][OUTPUTS / LANES];
                product(piece, y);
                for (int r = 0; r < rows; ++r)
                    for (int j = 0; j < OUTPUTS / LANES; ++j) take(r, piece * OUTPUTS + j * LANES, rounded<T>(y[r][j]));
            });
        });
    };
    // Likewise with matrices that follow each other.
    const auto multiply_all = [&](const float* x, const Matrix& first, auto&& take) {
        int done = 0;
        for (const Matrix* part = &first; part; done += part->out, part = part->next)
            multiply(x, *part, [&](int r, int output, Vector y) { take(r, done + output, y); });
    };
    const auto add_to_state = [&](size_t place, Vector y) {
        store(states + place, times_plus(y, splat(layer.residual_scale), load(states + place)));
    };
    // Multiply, normalise where there is a norm, and add the result to the hidden states.
    const auto add_product = [&](const float* x, const Matrix& matrix, const Norm& norm) {
        if (!norm.weight) {
            multiply(x, matrix, [&](int r, int output, Vector y) {
                add_to_state(static_cast<size_t>(r) * hidden + output, y);
            });
            return;
        }
        context.product.resize(static_cast<size_t>(rows) * hidden);
        float* whole = context.product.data();
        multiply(x, matrix, [&](int r, int output, Vector y) { store(whole + static_cast<size_t>(r) * hidden + output, y); });
        for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
            norm_row(whole + r * hidden, norm, whole + r * hidden);
            for (size_t i = r * hidden; i < (r + 1) * hidden; i += LANES) add_to_state(i, load(whole + i));
        }
    };

    norm_rows(layer.before_attention);
    multiply_all(normed, layer.input, [&](int r, int output, Vector y) {
        store(context.projected.data() + r * projected + output, y);
    });
    if (!layer.convolution.channels)
        attend_all<T>(context, layer, step);
    else
        mix<T>(context, layer, step, context.projected.data(), projected, context.mixed.data());
    add_product(context.mixed.data(), layer.output, layer.after_attention);
    if (!layer.inner) return;

    norm_rows(layer.before_mlp);
    float* activated = context.activated.data();
    const auto take_gate = [&](float* place, Vector gate) {
        store(place, rounded<T>(layer.is_gelu ? gelu(gate) : silu(gate)));
    };
    const auto take_up = [&](float* place, Vector up) { store(place, rounded<T>(times(load(place), up))); };
    if (layer.gate_up.next) {
        const size_t inner = layer.inner;
        multiply(normed, layer.gate_up, [&](int r, int output, Vector y) { take_gate(activated + r * inner + output, y); });
        multiply(normed, *layer.gate_up.next, [&](int r, int output, Vector y) { take_up(activated + r * inner + output, y); });
    } else {
        with_product<T>(context, layer.gate_up, normed, rows, [&](const auto& product) {
            constexpr int OUTPUTS = std::decay_t<decltype(product)>::OUTPUTS;
            const int pieces = layer.inner / OUTPUTS;
            run_ranges(context.workers, pieces, most_ranges, [&](int first, int end) {
                const auto each = [&](int piece, int offset, auto&& take) {  // `take(place, y)` gets sixteen at a time
                    Vector y[MOST_ROWS][OUTPUTS / LANES];
                    product(piece + offset, y);
                    for (int r = 0; r < rows; ++r)
                        for (int j = 0; j < OUTPUTS / LANES; ++j)
                            take(activated + static_cast<size_t>(r) * layer.inner + piece * OUTPUTS + j * LANES, rounded<T>(y[r][j]));
                };
                for (int piece = first; piece < end; ++piece) each(piece, 0, take_gate);
                for (int piece = first; piece < end; ++piece) each(piece, pieces, take_up);
            });
        });
    }
    add_product(context.activated.data(), layer.down, layer.after_mlp);
}
