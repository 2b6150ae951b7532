// Products of few rows with weights of four bits (`structures.h`), a block of outputs at a time.
//
// The scale is applied to a group's sum: sum(x ((c - 8) s + z)) = s sum(x c) + (z - 8 s) sum(x).

constexpr size_t LINE = 64;           // bytes of a line of a cache
constexpr size_t BYTES_AHEAD = 2048;  // of what is asked for before it is needed
constexpr int GROUPS_AHEAD = 4;       // likewise; a block's scales are apart from one another

// One block's outputs of some rows, rounded to bfloat16 as PyTorch's kernel does, and the bias added.
//
// first: of the rows; sums: `[rows, groups]`, of each group of a row's inputs.
template <int ROWS>
[[gnu::noinline]] void multiply_block(const Inputs& x, const float* sums, int first, const Matrix& matrix, int block,
                                      Vector (*y)[VECTORS]) {
    const int groups = matrix.in / matrix.group;
    const uint8_t* weight = static_cast<const uint8_t*>(matrix.weight) + static_cast<size_t>(block) * matrix.in * (BLOCK / 2);
    for (int row = 0; row < ROWS; ++row)
        for (int j = 0; j < VECTORS; ++j) y[row][j] = splat(0.0f);
    const size_t bytes = static_cast<size_t>(matrix.group) * (BLOCK / 2);  // of a group
    const auto scales = [&](int group, int j) {
        return matrix.scales + 2 * (static_cast<size_t>(group) * matrix.out + block * BLOCK + j * LANES);
    };
    for (int group = 0; group < groups; ++group) {
        for (size_t i = 0; i < bytes; i += LINE) prefetch(weight + group * bytes + BYTES_AHEAD + i);
        if (group + GROUPS_AHEAD < groups)
            for (int j = 0; j < VECTORS; ++j) prefetch(scales(group + GROUPS_AHEAD, j));
        Vector own[ROWS][VECTORS];
        multiply_group<ROWS>(x, first, group, weight + group * bytes, own);
        for (int j = 0; j < VECTORS; ++j) {
            Vector scale, zero;
            load_pairs(scales(group, j), scale, zero);
            const Vector offset = minus_times(splat(8.0f), scale, zero);
            for (int row = 0; row < ROWS; ++row) {
                y[row][j] = times_plus(scale, own[row][j], y[row][j]);
                y[row][j] = times_plus(offset, splat(sums[(first + row) * groups + group]), y[row][j]);
            }
        }
    }
    for (int row = 0; row < ROWS; ++row)
        for (int j = 0; j < VECTORS; ++j)
            y[row][j] = with_bias(matrix, block * BLOCK + j * LANES, rounded<Bfloat16>(y[row][j]));
}

struct FourBits {
    static constexpr int OUTPUTS = BLOCK;

    // x: `[rows, in]`
    FourBits(Context& context, const Matrix& matrix, const float* x, int rows)
        : matrix(matrix), rows(rows), rounded(rounded_inputs(context, x, static_cast<size_t>(rows) * matrix.in)),
          inputs(context, rounded, rows, matrix.in, matrix.group) {
        context.sums.resize(static_cast<size_t>(rows) * matrix.in / matrix.group);
        for (size_t i = 0; i < context.sums.size(); ++i) {
            Vector total = splat(0.0f);
            for (int k = 0; k < matrix.group; k += LANES) total = add(total, load(rounded + i * matrix.group + k));
            context.sums[i] = sum(total);
        }
        sums = context.sums.data();
    }

    // The outputs of one block.
    void operator()(int block, Vector (*y)[VECTORS]) const {
        by_fours(rows, [&](auto count, int first) { multiply_block<count()>(inputs, sums, first, matrix, block, y + first); });
    }

    const Matrix& matrix;
    int rows;
    const float* rounded;
    Inputs inputs;
    const float* sums;
};

// All weights of a matrix in full, `[in, out]`, for products of many rows, each rounded once.
template <class T>
void expand(Context& context, const Matrix& matrix, T* y) {
    const __m128i nibble = _mm_set1_epi8(15);
    context.workers.run(matrix.in / matrix.group, [&](int group) {
        const size_t first = static_cast<size_t>(group) * matrix.group;
        for (int output = 0; output < matrix.out; output += BLOCK) {
            const auto* weight = static_cast<const uint8_t*>(matrix.weight) + (output / BLOCK * static_cast<size_t>(matrix.in) + first) * (BLOCK / 2);
            const Bfloat16* scales = matrix.scales + 2 * (static_cast<size_t>(group) * matrix.out + output);
            Vector scale[VECTORS], zero[VECTORS];
            for (int j = 0; j < VECTORS; ++j) load_pairs(scales + 2 * j * LANES, scale[j], zero[j]);
            for (int k = 0; k < matrix.group; ++k) {
                T* row = y + (first + k) * matrix.out + output;
                for (int j = 0; j < VECTORS / 2; ++j) {
                    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(weight + k * (BLOCK / 2) + j * LANES));
                    const __m128i halves[2] = {_mm_and_si128(bytes, nibble), _mm_and_si128(_mm_srli_epi16(bytes, 4), nibble)};
                    for (int half = 0; half < 2; ++half) {
                        const int place = half * (VECTORS / 2) + j;
                        const Vector code = subtract(widen_bytes(halves[half]), splat(8.0f));
                        store(row + place * LANES, times_plus(code, scale[place], zero[place]));
                    }
                }
            }
        }
    });
}
