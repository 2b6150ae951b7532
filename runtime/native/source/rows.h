// Products of few rows with weights `[out, in]`: sixteen outputs at a time, each a sum along its inputs.

constexpr int STEP = 4;  // outputs, whose weights stay in the cache for all rows

// Sums for some of sixteen outputs.
//
// x: `[ROWS, in]`; weight: `[OUTPUTS, in]`; y: of the first one, `[ROWS, LANES]`.
template <int ROWS, int OUTPUTS, class Weight>
inline void add_up(const float* x, const Weight* weight, int in, float* y) {
    Vector total[ROWS][OUTPUTS];
    for (auto& row : total)
        for (Vector& one : row) one = splat(0.0f);
    for (int k = 0; k < in; k += LANES) {
        Vector own[OUTPUTS];
        for (int i = 0; i < OUTPUTS; ++i) {
            const Weight* place = weight + static_cast<size_t>(i) * in + k;
            prefetch(place + static_cast<size_t>(STEP) * in);
            own[i] = load(place);
        }
        for (int row = 0; row < ROWS; ++row) {
            const Vector input = load(x + static_cast<size_t>(row) * in + k);
            for (int i = 0; i < OUTPUTS; ++i) total[row][i] = times_plus(input, own[i], total[row][i]);
        }
    }
    for (int row = 0; row < ROWS; ++row)
        for (int i = 0; i < OUTPUTS; ++i) y[row * LANES + i] = sum(total[row][i]);
}

template <class Weight>
struct Rows {
    static constexpr int OUTPUTS = LANES;
    static constexpr bool IS_INT8 = std::is_same_v<Weight, int8_t>;

    // x: `[rows, in]`
    Rows(Context& context, const Matrix& matrix, const float* x, int rows) : matrix(matrix), rows(rows), inputs(x) {
        if constexpr (IS_INT8) inputs = rounded_inputs(context, x, static_cast<size_t>(rows) * matrix.in);
    }

    // Sixteen outputs.  Of int8 they are rounded to bfloat16 before the bias is added, as PyTorch's kernel does.
    [[gnu::noinline]] void operator()(int piece, Vector (*y)[1]) const {
        const auto* weight = static_cast<const Weight*>(matrix.weight);
        const size_t in = matrix.in;
        float sums[MOST_ROWS * LANES];
        for (int output = 0; output < LANES; output += STEP)
            in_turns<4>(rows, [&](auto count, int first) {
                constexpr int ROWS = count(), AT_ONCE = sums_of_each(ROWS);
                for (int i = output; i < output + STEP; i += AT_ONCE)
                    add_up<ROWS, AT_ONCE>(inputs + first * in, weight + (static_cast<size_t>(piece) * LANES + i) * in, matrix.in,
                                          sums + first * LANES + i);
            });
        for (int row = 0; row < rows; ++row) {
            Vector outputs = load(sums + row * LANES);
            if constexpr (IS_INT8) outputs = rounded<Bfloat16>(times(outputs, load(matrix.scales + piece * LANES)));
            y[row][0] = with_bias(matrix, piece * LANES, outputs);
        }
    }

    const Matrix& matrix;
    int rows;
    const float* inputs;
};
