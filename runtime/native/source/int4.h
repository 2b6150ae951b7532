// Products of few rows with weights of four bits (`structures.h`), a block of outputs at a time.
//
// The scale is applied to a group's sum: sum(x ((c - 8) s + z)) = s sum(x c) + (z - 8 s) sum(x).

// Sums of each group of a row's inputs, `[rows, groups]`.
inline void sum_groups(const Bfloat16* x, int rows, const Int4& matrix, float* sums) {
    for (int i = 0; i < rows * (matrix.in / matrix.group); ++i) {
        Vector total = splat(0.0f);
        for (int k = 0; k < matrix.group; k += LANES)
            total = add(total, load(x + static_cast<size_t>(i) * matrix.group + k));
        sums[i] = sum(total);
    }
}

// One block's outputs of some rows, rounded to bfloat16 as PyTorch's kernel does, and the bias added.
//
// x: `[ROWS, in]`; sums: `[ROWS, groups]`.
template <int ROWS>
inline void multiply_rows(const Input* x, const float* sums, const Int4& matrix, int block,
                          Vector (&y)[MOST_ROWS][VECTORS]) {
    const int groups = matrix.in / matrix.group;
    const uint8_t* weight = matrix.weight + static_cast<size_t>(block) * matrix.in * (BLOCK / 2);
    for (int row = 0; row < ROWS; ++row)
        for (int j = 0; j < VECTORS; ++j) y[row][j] = splat(0.0f);
    for (int group = 0; group < groups; ++group) {
        Vector own[ROWS][VECTORS];
        multiply_group<ROWS>(x + static_cast<size_t>(group) * matrix.group, matrix.in, matrix.group,
                             weight + static_cast<size_t>(group) * matrix.group * (BLOCK / 2), own);
        for (int j = 0; j < VECTORS; ++j) {
            Vector scale, zero;
            load_pairs(matrix.scales_zeros + 2 * (static_cast<size_t>(group) * matrix.out + block * BLOCK + j * LANES),
                       scale, zero);
            const Vector offset = minus_times(splat(8.0f), scale, zero);
            for (int row = 0; row < ROWS; ++row) {
                y[row][j] = times_plus(scale, own[row][j], y[row][j]);
                y[row][j] = times_plus(offset, splat(sums[row * groups + group]), y[row][j]);
            }
        }
    }
    for (int row = 0; row < ROWS; ++row)
        for (int j = 0; j < VECTORS; ++j) {
            y[row][j] = rounded<Bfloat16>(y[row][j]);
            if (matrix.bias) y[row][j] = add(y[row][j], load(matrix.bias + block * BLOCK + j * LANES));
        }
}

// One block's outputs of up to `MOST_ROWS` rows; as many at a time as have room for their sums in the registers.
inline void multiply(const Input* x, const float* sums, const Int4& matrix, int block, int rows,
                     Vector (&y)[MOST_ROWS][VECTORS]) {
    const int groups = matrix.in / matrix.group;
    for (int first = 0; first < rows; first += ROWS_AT_ONCE) {
        Vector some[MOST_ROWS][VECTORS];
        const Input* own = x + static_cast<size_t>(first) * matrix.in;
        const float* own_sums = sums + first * groups;
        const int count = rows - first < ROWS_AT_ONCE ? rows - first : ROWS_AT_ONCE;
        switch (count) {
            case 1: multiply_rows<1>(own, own_sums, matrix, block, some); break;
            case 2: multiply_rows<2>(own, own_sums, matrix, block, some); break;
            case 3: multiply_rows<3>(own, own_sums, matrix, block, some); break;
            default: multiply_rows<4>(own, own_sums, matrix, block, some);
        }
        for (int row = 0; row < count; ++row)
            for (int j = 0; j < VECTORS; ++j) y[first + row][j] = some[row][j];
    }
}
