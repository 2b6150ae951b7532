// Products of few rows with weights of eight bits, `[out, in]`: sixteen outputs at a time, each a sum along its inputs.
//
// Inputs are whole numbers (`whole.h`), and so are weights.

constexpr int WHOLE = 2 * LANES;  // whole numbers that are multiplied at a time

// How many inputs share a power of two: as many whole pieces as divide them all, and not so many that a large input
// rounds many others.
inline int inputs_of_group(int in) {
    int pieces = MOST_IN_GROUP / WHOLE;
    while (in / WHOLE % pieces) --pieces;
    return pieces * WHOLE;
}

// Sums for some of sixteen outputs.
//
// weight: `[OUTPUTS, in]`; y: of the first one, `[ROWS, LANES]`.
template <int ROWS, int OUTPUTS>
inline void add_up(const WholeInputs& x, size_t first, const int8_t* weight, size_t in, float* y) {
    Vector total[ROWS][OUTPUTS];
    for (auto& row : total)
        for (Vector& one : row) one = splat(0.0f);
    for (size_t group = 0, from = 0; from < in; ++group, from += x.group_size()) {
        Whole sums[ROWS][OUTPUTS];
        for (auto& row : sums)
            for (Whole& one : row) one = nothing();
        for (int k = 0; k < x.group_size(); k += WHOLE) {
            Whole own[OUTPUTS];
            for (int i = 0; i < OUTPUTS; ++i) {
                const int8_t* place = weight + i * in + from + k;
                prefetch(place + (OUTPUTS == 1 ? BYTES_AHEAD : OUTPUTS * in));
                own[i] = load_whole(place);
            }
            for (int row = 0; row < ROWS; ++row) {
                const Whole inputs = load_whole(x.of(first + row, group) + k);
                for (int i = 0; i < OUTPUTS; ++i) sums[row][i] = add_products(sums[row][i], inputs, own[i]);
            }
        }
        for (int row = 0; row < ROWS; ++row) {
            const Vector scale = splat(x.scale(first + row, group));
            for (int i = 0; i < OUTPUTS; ++i) total[row][i] = times_plus(scale, as_numbers(sums[row][i]), total[row][i]);
        }
    }
    for (int row = 0; row < ROWS; ++row)
        for (int i = 0; i < OUTPUTS; ++i) y[row * LANES + i] = sum(total[row][i]);
}

struct EightBits {
    static constexpr int OUTPUTS = LANES;

    // x: `[rows, in]`
    EightBits(Context& context, const Matrix& matrix, const float* x, int rows)
        : matrix(matrix), rows(rows), one_at_a_time(is_one_at_a_time(context, rows)),
          inputs(context, rows, matrix.in, inputs_of_group(matrix.in)) {
        context.inputs.resize(matrix.in);
        for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
            for (int i = 0; i < matrix.in; i += LANES)
                store(context.inputs.data() + i, rounded_to_bfloat16(load(x + row * matrix.in + i)));
            inputs.take(row, context.inputs.data());
        }
    }

    // Sixteen outputs, rounded to bfloat16 before the bias is added, as PyTorch's kernel does.
    [[gnu::noinline]] void operator()(int piece, Vector (*y)[1]) const {
        const auto* weight = static_cast<const int8_t*>(matrix.weight) + static_cast<size_t>(piece) * LANES * matrix.in;
        float sums[MOST_ROWS * LANES];
        // Some outputs, whose weights stay in the cache for all rows, and then the next.
        const auto add_up_by = [&](auto at_once) {
            for (int i = 0; i < LANES; i += at_once())
                in_turns<ROWS_TOGETHER>(rows, [&](auto count, int first) {
                    add_up<count(), at_once()>(inputs, first, weight + static_cast<size_t>(i) * matrix.in, matrix.in,
                                               sums + first * LANES + i);
                });
        };
        if (one_at_a_time)
            add_up_by(std::integral_constant<int, 1>());
        else if (rows == 1)
            add_up_by(std::integral_constant<int, 4>());
        else
            add_up_by(std::integral_constant<int, 2>());
        for (int row = 0; row < rows; ++row) {
            const Vector outputs = rounded<Bfloat16>(times(load(sums + row * LANES), load(static_cast<const Bfloat16*>(matrix.scales) + piece * LANES)));
            y[row][0] = with_bias(matrix, piece * LANES, outputs);
        }
    }

    const Matrix& matrix;
    int rows;
    bool one_at_a_time;
    WholeInputs inputs;
};
