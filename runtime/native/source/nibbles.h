// Products with weights of four bits, of any number of rows, which are rounded to eight bits by blocks of 32 inputs.
//
// A weight is `(code - 8) * scale + zero`, with a scale and a zero for each group of inputs and each output; so of a group
// sum(x w) = scale sum(x code) + (zero - 8 scale) sum(x).  Sums of a block are of whole numbers.

constexpr int ROUNDED = 32;                        // inputs of a row that share a scale
constexpr int SCALES = 2 * LANES * sizeof(Bfloat16);  // bytes of sixteen outputs' scales and zeros, before their group's codes
constexpr int EIGHT = 8;                           // inputs whose codes of sixteen outputs are a line of the cache

// Rows as bytes, with what each block and each group of inputs needs.
//
// The rows of a block of `TOGETHER` lie side by side, four inputs of each, so that one address leads to all of them.
class RoundedInputs {
   public:
    RoundedInputs(Context& context, int rows, int in, int group) : rows_(rows), in_(in), group_(group) {
        context.bytes.resize(static_cast<size_t>(rows) * in);
        context.scales.resize(static_cast<size_t>(rows) * (in / ROUNDED));
        context.sums.resize(static_cast<size_t>(rows) * (in / group));
        bytes_ = context.bytes.data();
        scales_ = context.scales.data();
        sums_ = context.sums.data();
    }

    // x: `[in]`
    template <class T>
    void take(int row, const T* x) {
        const int first = row - row % TOGETHER, place = row % TOGETHER;
        const int count = rows_ - first < TOGETHER ? rows_ - first : TOGETHER;
        int8_t* bytes = bytes_ + static_cast<size_t>(first) * in_ + place * FOUR;
        float* scales = scales_ + static_cast<size_t>(first) * (in_ / ROUNDED) + place;
        float* sums = sums_ + static_cast<size_t>(first) * (in_ / group_) + place;
        for (int group = 0; group < in_ / group_; ++group, sums += count) {
            *sums = 0.0f;
            for (int k = 0; k < group_; k += ROUNDED, x += ROUNDED, scales += count) {
                const Vector own[2] = {load(x), load(x + LANES)};
                Vector most = splat(0.0f), nothing = splat(0.0f);
                for (const Vector& one : own) {
                    most = larger(larger(one, subtract(splat(0.0f), one)), most);
                    nothing = times_plus(one, splat(0.0f), nothing);
                }
                const float largest = largest_number(most);
                const Vector factor = splat(largest > LEAST ? MOST_BYTE / largest : 0.0f);
                const Vector whole[2] = {nearest(times(own[0], factor)), nearest(times(own[1], factor))};
                int8_t together[ROUNDED];
                store(together, whole[0]);
                store(together + LANES, whole[1]);
                for (int i = 0; i < ROUNDED; i += FOUR, bytes += count * FOUR) std::memcpy(bytes, together + i, FOUR);
                // Where an input is infinite or no number, the scale is none, so that the block's products are none.
                *scales = largest / MOST_BYTE + sum(nothing);
                *sums += *scales * sum(add(whole[0], whole[1]));
            }
        }
    }

    // first: the first row of a block.
    const int8_t* bytes(int first) const { return bytes_ + static_cast<size_t>(first) * in_; }
    const float* scales(int first) const { return scales_ + static_cast<size_t>(first) * (in_ / ROUNDED); }
    const float* sums(int first) const { return sums_ + static_cast<size_t>(first) * (in_ / group_); }

   private:
    int rows_, in_, group_;
    int8_t* bytes_;
    float *scales_, *sums_;
};

// Products of sixteen outputs with the rows of a block.
//
// weight: `[in / group]`, each with its scales and then `[group / 8, 16, 4]`, whose low halves are the codes of four inputs
// and whose high halves those of the next four; y: of each row.
template <int ROWS>
inline void multiply_nibbles(const RoundedInputs& x, int first, const uint8_t* weight, int in, int group, Vector* y) {
    const int8_t* bytes = x.bytes(first);
    const float *scales = x.scales(first), *sums_of_inputs = x.sums(first);
    Vector total[ROWS];
    for (Vector& one : total) one = splat(0.0f);
    for (int k = 0; k < in; k += group, sums_of_inputs += ROWS) {
        Vector scale, zero;
        load_pairs(reinterpret_cast<const Bfloat16*>(weight), scale, zero);
        prefetch(weight + BYTES_AHEAD);
        weight += SCALES;
        for (int end = group; end; end -= ROUNDED, scales += ROWS) {
            Whole sums[ROWS];
            for (Whole& one : sums) one = nothing();
            for (int i = 0; i < ROUNDED; i += EIGHT, weight += EIGHT / 2 * LANES, bytes += EIGHT * ROWS) {
                prefetch(weight + BYTES_AHEAD);
                const Bytes64 codes = load_bytes(weight), low = low_halves(codes), high = high_halves(codes);
                for (int row = 0; row < ROWS; ++row) sums[row] = add_byte_products(sums[row], low, repeat_four(bytes + row * FOUR));
                for (int row = 0; row < ROWS; ++row)
                    sums[row] = add_byte_products(sums[row], high, repeat_four(bytes + (ROWS + row) * FOUR));
            }
            for (int row = 0; row < ROWS; ++row)
                total[row] = times_plus(as_numbers(sums[row]), times(scale, splat(scales[row])), total[row]);
        }
        const Vector offset = minus_times(splat(8.0f), scale, zero);
        for (int row = 0; row < ROWS; ++row) total[row] = times_plus(offset, splat(sums_of_inputs[row]), total[row]);
    }
    for (int row = 0; row < ROWS; ++row) y[row] = total[row];
}

// Likewise of at most `ROWS` rows.
template <int ROWS>
inline void multiply_nibbles_at_most(int rows, const RoundedInputs& x, int first, const uint8_t* weight, int in, int group,
                                     Vector* y) {
    if constexpr (ROWS > 1)
        if (rows < ROWS) return multiply_nibbles_at_most<ROWS - 1>(rows, x, first, weight, in, group, y);
    multiply_nibbles<ROWS>(x, first, weight, in, group, y);
}

struct Nibbles {
    static constexpr int OUTPUTS = LANES;

    // x: `[rows, in]`
    template <class T>
    Nibbles(Context& context, const Matrix& matrix, const T* x, int rows)
        : matrix(matrix), rows(rows), inputs(context, rows, matrix.in, matrix.group) {
        take_in_turns(context, rows, [&](size_t row) { inputs.take(row, x + static_cast<size_t>(row) * matrix.in); });
    }

    // Sixteen outputs, of all rows.
    void operator()(int piece, Vector (*y)[1]) const { multiply(piece, 0, rows, y); }

    // Sixteen outputs, of some rows from the first of a block on, to the end of one.
    [[gnu::noinline]] void multiply(int piece, int first, int count, Vector (*y)[1]) const {
        const size_t bytes = static_cast<size_t>(matrix.in / matrix.group) * (SCALES + matrix.group / 2 * LANES);
        const auto* weight = static_cast<const uint8_t*>(matrix.weight) + piece * bytes;
        for (int place = 0; place < count; place += TOGETHER) {
            const int own = count - place < TOGETHER ? count - place : TOGETHER;
            Vector products[TOGETHER];
            multiply_nibbles_at_most<TOGETHER>(own, inputs, first + place, weight, matrix.in, matrix.group, products);
            for (int i = 0; i < own; ++i) y[place + i][0] = with_bias(matrix, piece * LANES, products[i]);
        }
    }

    const Matrix& matrix;
    int rows;
    RoundedInputs inputs;
};
