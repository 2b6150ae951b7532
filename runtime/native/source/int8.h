// Products of few rows with weights of eight bits, `[out, in]`: sixteen outputs at a time, each a sum along its inputs.
//
// Inputs are whole numbers (`whole.h`), and so are weights.

constexpr int WHOLE = 2 * LANES;  // whole numbers that are multiplied at a time

constexpr int ROWS_TOGETHER = SUMS_AT_ONCE < 16 ? 2 : 4;  // for whose sums there are registers

// Sums for some of sixteen outputs.
//
// weight: `[OUTPUTS, in]`; y: of the first one, `[ROWS, LANES]`.
template <int ROWS, int OUTPUTS>
inline void add_up(const WholeInputs& x, size_t first, const int8_t* weight, size_t in, float* y) {
    Vector total[ROWS][OUTPUTS];
    for (auto& row : total)
        for (Vector& one : row) one = splat(0.0f);
    for (size_t group = 0, from = 0; from < in; ++group, from += x.group_size()) {
        if constexpr (OUTPUTS > 1)
            for (int i = 0; i < OUTPUTS; ++i) prefetch(weight + (STEP + i) * in + from);
        Whole sums[ROWS][OUTPUTS];
        for (auto& row : sums)
            for (Whole& one : row) one = nothing();
        for (int k = 0; k < x.group_size(); k += WHOLE) {
            Whole own[OUTPUTS];
            for (int i = 0; i < OUTPUTS; ++i) own[i] = load_whole(weight + i * in + from + k);
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
        : matrix(matrix), rows(rows), inputs(context, rows, matrix.in, matrix.in % (2 * WHOLE) ? WHOLE : 2 * WHOLE) {
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
        const auto add_up_some = [&](auto at_once, int output) {
            in_turns<ROWS_TOGETHER>(rows, [&](auto count, int first) {
                for (int i = output; i < output + STEP; i += at_once())
                    add_up<count(), at_once()>(inputs, first, weight + static_cast<size_t>(i) * matrix.in, matrix.in,
                                               sums + first * LANES + i);
            });
        };
        for (int output = 0; output < LANES; output += STEP)
            is_one_at_a_time(rows) ? add_up_some(std::integral_constant<int, 1>(), output)
                                   : add_up_some(std::integral_constant<int, 2>(), output);
        for (int row = 0; row < rows; ++row) {
            const Vector outputs = rounded<Bfloat16>(times(load(sums + row * LANES), load(matrix.scales + piece * LANES)));
            y[row][0] = with_bias(matrix, piece * LANES, outputs);
        }
    }

    const Matrix& matrix;
    int rows;
    WholeInputs inputs;
};
