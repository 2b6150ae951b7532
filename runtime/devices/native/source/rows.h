// Products of few rows with weights `[out, in]`: sixteen outputs at a time, each a sum along its inputs.

constexpr int STEP = 4;  // outputs, whose weights stay in the cache for all rows

constexpr int ROWS_TOGETHER = SUMS_AT_ONCE < 16 ? 2 : 4;  // for whose sums there are registers

// Whether outputs are added up one by one, so that their weights are read from the first to the last: for few rows, whose
// weights are read once for all of them, where the processor reads so the fastest.
inline bool is_one_at_a_time(const Context& context, int rows) { return rows <= ROWS_TOGETHER && context.in_order; }

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
            if constexpr (OUTPUTS > 1)
                prefetch(place + static_cast<size_t>(STEP) * in);
            else if constexpr (ROWS > 1)  // of one row's sums the processor foresees what is read (bench/LOG.md)
                prefetch(place + BYTES_AHEAD / sizeof(Weight));
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

    // x: `[rows, in]`
    Rows(Context& context, const Matrix& matrix, const float* x, int rows)
        : matrix(matrix), rows(rows), one_at_a_time(is_one_at_a_time(context, rows)), inputs(x) {}

    // Sixteen outputs.
    [[gnu::noinline]] void operator()(int piece, Vector (*y)[1]) const {
        const auto* weight = static_cast<const Weight*>(matrix.weight);
        const size_t in = matrix.in;
        float sums[MOST_ROWS * LANES];
        for (int output = 0; output < LANES; output += STEP)
            in_turns<4>(rows, [&](auto count, int first) {
                const auto add_up_some = [&](auto at_once) {
                    for (int i = output; i < output + STEP; i += at_once())
                        add_up<count(), at_once()>(inputs + first * in, weight + (static_cast<size_t>(piece) * LANES + i) * in,
                                                   matrix.in, sums + first * LANES + i);
                };
                one_at_a_time ? add_up_some(std::integral_constant<int, 1>())
                              : add_up_some(std::integral_constant<int, sums_of_each(count())>());
            });
        for (int row = 0; row < rows; ++row) y[row][0] = with_bias(matrix, piece * LANES, load(sums + row * LANES));
    }

    const Matrix& matrix;
    int rows;
    bool one_at_a_time;
    const float* inputs;
};
