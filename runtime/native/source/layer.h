// A decoder layer of few rows.
//
// PyTorch's operations are the reference (`runtime/nn/layers/`): numbers are rounded where those round them.

template <class T>
void run(Context& context, const Layer& layer, const Step& step) {
    const int rows = step.rows, hidden = layer.hidden, dim = layer.dim, heads = layer.heads, kv_heads = layer.kv_heads;
    const int group = heads / kv_heads, all_heads = (heads + 2 * kv_heads) * dim, query = heads * dim;
    T* states = static_cast<T*>(step.hidden);
    context.workers.use(step.threads);
    context.normed.resize(static_cast<size_t>(rows) * hidden);
    context.attended.resize(static_cast<size_t>(rows) * query);
    context.activated.resize(static_cast<size_t>(rows) * layer.inner);
    context.qkv.resize(static_cast<size_t>(rows) * all_heads);
    Bfloat16* normed = context.normed.data();

    const auto sums_for = [&](const Bfloat16* x, const Int4& matrix) {
        context.sums.resize(static_cast<size_t>(rows) * (matrix.in / matrix.group));
        sum_groups(x, rows, matrix, context.sums.data());
        return context.sums.data();
    };
    const auto inputs_for = [&](const Bfloat16* x, const Int4& matrix) {
        return inputs_of(context.inputs, x, static_cast<size_t>(rows) * matrix.in);
    };
    const auto norm_rows = [&](const float* weight, float least) {
        std::vector<T> row(hidden);  // rounded as the model's rows are, and then as the products take them
        for (int r = 0; r < rows; ++r) {
            normalise(states + static_cast<size_t>(r) * hidden, weight, least, hidden, row.data());
            for (int i = 0; i < hidden; i += LANES)
                store(normed + static_cast<size_t>(r) * hidden + i, load(row.data() + i));
        }
    };
    // Multiply, and add the result to the hidden states.
    const auto add_product = [&](const Bfloat16* x, const Int4& matrix) {
        const float* sums = sums_for(x, matrix);
        const Input* inputs = inputs_for(x, matrix);
        context.workers.run(matrix.out / BLOCK, [&](int block) {
            Vector y[MOST_ROWS][VECTORS];
            multiply(inputs, sums, matrix, block, rows, y);
            for (int r = 0; r < rows; ++r)
                for (int j = 0; j < VECTORS; ++j) {
                    T* state = states + static_cast<size_t>(r) * hidden + block * BLOCK + j * LANES;
                    store(state, times_plus(rounded<T>(y[r][j]), splat(layer.residual_scale), load(state)));
                }
        });
    };

    norm_rows(layer.attention_norm, layer.attention_least);
    const float* sums = sums_for(normed, layer.qkv);
    const Input* inputs = inputs_for(normed, layer.qkv);
    context.workers.run(all_heads / BLOCK, [&](int block) {
        Vector y[MOST_ROWS][VECTORS];
        multiply(inputs, sums, layer.qkv, block, rows, y);
        for (int r = 0; r < rows; ++r)
            for (int j = 0; j < VECTORS; ++j)
                store(context.qkv.data() + static_cast<size_t>(r) * all_heads + block * BLOCK + j * LANES,
                      rounded<T>(y[r][j]));
    });

    size_t longest = 0;
    for (int i = 0; i < step.segments; ++i)
        if (static_cast<size_t>(step.segment[i].length) > longest) longest = step.segment[i].length;
    longest = (longest + LANES - 1) / LANES * LANES;
    context.scores.resize(longest * step.segments * kv_heads);
    context.workers.run(step.segments * kv_heads, [&](int piece) {
        const Segment& segment = step.segment[piece / kv_heads];
        const int kv_head = piece % kv_heads;
        T* keys = static_cast<T*>(segment.keys) + segment.head_stride * kv_head;
        T* values = static_cast<T*>(segment.values) + segment.head_stride * kv_head;
        for (int i = 0; i < segment.rows; ++i) {
            const size_t row = segment.first_row + i, position = segment.length - segment.rows + i;
            float* own = context.qkv.data() + row * all_heads;
            const T *cos = static_cast<const T*>(step.cos) + row * dim, *sin = static_cast<const T*>(step.sin) + row * dim;
            const auto prepare = [&](int head) {
                float* numbers = own + static_cast<size_t>(head) * dim;
                if (layer.head_norm) {
                    normalise(numbers, layer.head_norm + static_cast<size_t>(head) * dim, layer.head_least, dim, numbers);
                    for (int d = 0; d < dim; d += LANES) store(numbers + d, rounded<T>(load(numbers + d)));
                }
                rotate(numbers, cos, sin, dim);
            };
            for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) prepare(head);
            prepare(heads + kv_head);
            for (int d = 0; d < dim; d += LANES) {
                store(keys + position * dim + d, load(own + static_cast<size_t>(heads + kv_head) * dim + d));
                store(values + position * dim + d, load(own + static_cast<size_t>(heads + kv_heads + kv_head) * dim + d));
            }
        }
        float* scores = context.scores.data() + longest * piece;
        for (int i = 0; i < segment.rows; ++i)
            for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
                const size_t row = segment.first_row + i;
                attend(context.qkv.data() + row * all_heads + static_cast<size_t>(head) * dim, keys, values,
                       segment.length - segment.rows + i + 1, dim, layer.attention_scale, scores,
                       context.attended.data() + row * query + static_cast<size_t>(head) * dim);
            }
    });
    add_product(context.attended.data(), layer.output);

    norm_rows(layer.mlp_norm, layer.mlp_least);
    const float* mlp_sums = sums_for(normed, layer.gate_up);
    const Input* mlp_inputs = inputs_for(normed, layer.gate_up);
    const int blocks = layer.inner / BLOCK;
    context.workers.run(blocks, [&](int block) {
        Vector gate[MOST_ROWS][VECTORS], up[MOST_ROWS][VECTORS];
        multiply(mlp_inputs, mlp_sums, layer.gate_up, block, rows, gate);
        multiply(mlp_inputs, mlp_sums, layer.gate_up, block + blocks, rows, up);
        for (int r = 0; r < rows; ++r)
            for (int j = 0; j < VECTORS; ++j) {
                const Vector activated = rounded<T>(silu(rounded<T>(gate[r][j])));
                store(context.activated.data() + static_cast<size_t>(r) * layer.inner + block * BLOCK + j * LANES,
                      rounded<T>(times(activated, rounded<T>(up[r][j]))));
            }
    });
    add_product(context.activated.data(), layer.down);
}
