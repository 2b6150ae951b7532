// Products of few rows with weights `[out, in]`: sixteen outputs at a time, each a sum along its inputs.

constexpr int STEP = 4;  // outputs, whose weights stay in the cache for all rows

// Whether outputs are added up one by one.  It is so for one row or two, whose weights come from memory as fast as they
// are multiplied: then each output's are read from the first to the last, which is what the processor foresees.
constexpr bool is_one_at_a_time(int rows) { return rows <= 2; }

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
            prefetch(place + (OUTPUTS == 1 ? BYTES_AHEAD / sizeof(Weight) : static_cast<size_t>(STEP) * in));
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
    Rows(Context&, const Matrix& matrix, const float* x, int rows) : matrix(matrix), rows(rows), inputs(x) {}

    // Sixteen outputs.
    [[gnu::noinline]] void operator()(int piece, Vector (*y)[1]) const {
        const auto* weight = static_cast<const Weight*>(matrix.weight);
        const size_t in = matrix.in;
        float sums[MOST_ROWS * LANES];
        for (int output = 0; output < LANES; output += STEP)
            in_turns<4>(rows, [&](auto count, int first) {
                constexpr int ROWS = count(), AT_ONCE = is_one_at_a_time(ROWS) ? 1 : sums_of_each(ROWS);
                for (int i = output; i < output + STEP; i += AT_ONCE)
                    add_up<ROWS, AT_ONCE>(inputs + first * in, weight + (static_cast<size_t>(piece) * LANES + i) * in, matrix.in,
                                          sums + first * LANES + i);
            });
        for (int row = 0; row < rows; ++row) {
            y[row][0] = with_bias(matrix, piece * LANES, load(sums + row * LANES));
        }
    }

    const Matrix& matrix;
    int rows;
    const float* inputs;
};
