// Products with weights of four bits (`structures.h`), a block of outputs at a time, of any number of rows.
//
// The scale is applied to a group's sum: sum(x ((c - 8) s + z)) = s sum(x c) + (z - 8 s) sum(x).

constexpr size_t LINE = 64;           // bytes of a line of a cache
constexpr int GROUPS_AHEAD = 4;       // which are asked for before they are needed; a block's scales are apart

struct FourBits {
    static constexpr int OUTPUTS = BLOCK;

    // x: `[rows, in]`
    template <class T>
    FourBits(Context& context, const Matrix& matrix, const T* x, int rows)
        : matrix(matrix), rows(rows), groups(matrix.in / matrix.group), inputs(context, rows, matrix.in, matrix.group) {
        context.inputs.resize(static_cast<size_t>(rows) * matrix.in);
        context.sums.resize(static_cast<size_t>(rows) * groups);
        sums = context.sums.data();
        const auto take = [&](size_t row) {
            float* rounded = context.inputs.data() + row * matrix.in;
            for (int i = 0; i < matrix.in; i += LANES) store(rounded + i, rounded_to_bfloat16(load(x + row * matrix.in + i)));
            for (int group = 0; group < groups; ++group) {
                Vector total = splat(0.0f);
                for (int k = 0; k < matrix.group; k += LANES) total = add(total, load(rounded + group * matrix.group + k));
                context.sums[row * groups + group] = sum(total);
            }
            inputs.take(row, rounded);
        };
        take_in_turns(context, rows, take);
    }

    // The outputs of one block, of all rows.
    void operator()(int block, Vector (*y)[VECTORS]) const { multiply(block, 0, rows, y); }

    // The outputs of one block, of some rows, rounded to bfloat16 as PyTorch's kernel does, and the bias added.
    void multiply(int block, int first, int count, Vector (*y)[VECTORS]) const {
        if (count <= ROWS_AT_ONCE || matrix.group > MOST_IN_GROUP)
            multiply_by<CodesInPlace>(block, first, count, y);
        else
            multiply_by<CodesUnpacked>(block, first, count, y);
    }

    template <class GroupCodes>
    [[gnu::noinline]] void multiply_by(int block, int first, int count, Vector (*y)[VECTORS]) const {
        const size_t bytes = static_cast<size_t>(matrix.group) * (BLOCK / 2);  // of a group
        const uint8_t* weight = static_cast<const uint8_t*>(matrix.weight) + static_cast<size_t>(block) * groups * bytes;
        const auto scales = [&](int group, int j) {
            return static_cast<const Bfloat16*>(matrix.scales) + 2 * (static_cast<size_t>(group) * matrix.out + block * BLOCK + j * LANES);
        };
        for (int row = 0; row < count; ++row)
            for (int j = 0; j < VECTORS; ++j) y[row][j] = splat(0.0f);
        for (int group = 0; group < groups; ++group) {
            for (size_t i = 0; i < bytes; i += LINE) prefetch(weight + group * bytes + BYTES_AHEAD + i);
            if (group + GROUPS_AHEAD < groups)
                for (int j = 0; j < VECTORS; ++j) prefetch(scales(group + GROUPS_AHEAD, j));
            const GroupCodes codes(weight + group * bytes, matrix.group);
            Vector scale[VECTORS], offset[VECTORS];
            for (int j = 0; j < VECTORS; ++j) {
                Vector zero;
                load_pairs(scales(group, j), scale[j], zero);
                offset[j] = minus_times(splat(8.0f), scale[j], zero);
            }
            in_turns<ROWS_AT_ONCE>(count, [&](auto constant, int place) {
                constexpr int ROWS = constant();
                const size_t row = first + place;
                Vector own[ROWS][VECTORS];
                multiply_group<ROWS>(inputs, row, group, codes, own);
                for (int i = 0; i < ROWS; ++i) {
                    const Vector total = splat(sums[(row + i) * groups + group]);
                    for (int j = 0; j < VECTORS; ++j)
                        y[place + i][j] = times_plus(offset[j], total, times_plus(scale[j], own[i][j], y[place + i][j]));
                }
            });
        }
        for (int row = 0; row < count; ++row)
            for (int j = 0; j < VECTORS; ++j)
                y[row][j] = with_bias(matrix, block * BLOCK + j * LANES, rounded<Bfloat16>(y[row][j]));
    }

    const Matrix& matrix;
    int rows, groups;
    Inputs inputs;
    const float* sums;
};

// All weights of a matrix in full, `[in, out]`, for products of many rows, each rounded once.
template <class T>
void expand(Context& context, const Matrix& matrix, T* y) {
    context.workers.run(matrix.in / matrix.group, [&](int group) {
        const size_t first = static_cast<size_t>(group) * matrix.group;
        for (int output = 0; output < matrix.out; output += BLOCK) {
            const auto* weight = static_cast<const uint8_t*>(matrix.weight) + (output / BLOCK * static_cast<size_t>(matrix.in) + first) * (BLOCK / 2);
            const Bfloat16* scales = static_cast<const Bfloat16*>(matrix.scales) + 2 * (static_cast<size_t>(group) * matrix.out + output);
            Vector scale[VECTORS], zero[VECTORS];
            for (int j = 0; j < VECTORS; ++j) load_pairs(scales + 2 * j * LANES, scale[j], zero[j]);
            for (int k = 0; k < matrix.group; ++k) {
                T* row = y + (first + k) * matrix.out + output;
                const auto write = [&](int place, Vector code) {
                    store(row + place * LANES, times_plus(subtract(code, splat(8.0f)), scale[place], zero[place]));
                };
                for (int j = 0; j < VECTORS / 2; ++j) {
                    const uint8_t* bytes = weight + k * (BLOCK / 2) + j * LANES;
                    write(j, load_low_halves(bytes));
                    write(VECTORS / 2 + j, load_high_halves(bytes));
                }
            }
        }
    });
}
