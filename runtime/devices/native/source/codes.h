// Products with weights of four or six bits, of any number of rows, which are rounded to eight bits by blocks of 32 inputs.
//
// A weight is `(code - middle) * scale + zero`, with a scale and a zero for each group of inputs and each output; so of a
// group sum(x w) = scale (sum(x code) - middle sum(x)) + zero sum(x).  Sums of a block are of whole numbers.
//
// A matrix lies as `[out / 16, in / group]`: of sixteen outputs and a group of inputs first the scales in bfloat16, each with
// its zero behind it if there are zeros, and then the codes as a form has them.

constexpr int ROUNDED = 32;  // inputs of a row that share a scale

// Codes of four bits: of eight inputs and sixteen outputs a line of the cache, `[16, 4]` bytes, whose low halves are the codes
// of the first four inputs and whose high halves those of the next four.
template <bool ZEROS>
struct FourBits16 {
    static constexpr bool HAS_ZEROS = ZEROS;
    static constexpr int MIDDLE = 8, SHARE = ROUNDED;  // the latter: inputs that a group has multiples of
    static constexpr int INPUTS = 8, BYTES = INPUTS / 2 * LANES, OPERANDS = INPUTS / FOUR;

    static void operands(const uint8_t* weight, Bytes64 (&own)[OPERANDS]) {
        prefetch(weight + BYTES_AHEAD);
        const Bytes64 codes = load_bytes(weight);
        own[0] = low_halves(codes);
        own[1] = high_halves(codes);
    }
};

// Codes of six bits: of sixteen inputs two such lines with the low four bits, and a third one: of a byte in it the lowest two
// bits are the high ones of the first four inputs' code, and so on.
struct SixBits16 {
    static constexpr bool HAS_ZEROS = false;
    static constexpr int MIDDLE = 32, SHARE = ROUNDED / 2;
    static constexpr int INPUTS = 16, BYTES = INPUTS * 6 / 8 * LANES, OPERANDS = INPUTS / FOUR;

    static void operands(const uint8_t* weight, Bytes64 (&own)[OPERANDS]) {
        for (int line = 0; line < 3; ++line) prefetch(weight + line * FOUR * LANES + BYTES_AHEAD);
        const Bytes64 first = load_bytes(weight), second = load_bytes(weight + FOUR * LANES);
        const Bytes64 high = load_bytes(weight + 2 * FOUR * LANES);
        own[0] = either(low_halves(first), two_bits<0>(high));
        own[1] = either(high_halves(first), two_bits<1>(high));
        own[2] = either(low_halves(second), two_bits<2>(high));
        own[3] = either(high_halves(second), two_bits<3>(high));
    }
};

// Rows as bytes, with what each block and each group of inputs needs.
//
// The rows of a block of `TOGETHER` lie side by side, four inputs of each, so that one address leads to all of them.  With
// each row by itself the compiler keeps sums in memory (bench/LOG.md).
template <class Form>
class RoundedInputs {
   public:
    RoundedInputs(Context& context, int rows, int in, int group) : rows_(rows), in_(in), group_(group) {
        context.bytes.resize(static_cast<size_t>(rows) * in);
        context.scales.resize(static_cast<size_t>(rows) * (in / ROUNDED));
        context.totals.resize(static_cast<size_t>(rows) * (in / Form::SHARE));
        bytes_ = context.bytes.data();
        scales_ = context.scales.data();
        starts_ = context.totals.data();
        if constexpr (Form::HAS_ZEROS) {
            context.sums.resize(static_cast<size_t>(rows) * (in / group));
            sums_ = context.sums.data();
        }
    }

    // x: `[in]`
    template <class T>
    void take(int row, const T* x) {
        const int first = row - row % TOGETHER, place = row % TOGETHER;
        const int count = rows_ - first < TOGETHER ? rows_ - first : TOGETHER;
        int8_t* bytes = bytes_ + static_cast<size_t>(first) * in_ + place * FOUR;
        float* scales = scales_ + static_cast<size_t>(first) * (in_ / ROUNDED) + place;
        int32_t* starts = starts_ + static_cast<size_t>(first) * (in_ / Form::SHARE) + place;
        for (int k = 0; k < in_; k += ROUNDED, x += ROUNDED, scales += count) {
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
            if constexpr (Form::SHARE == ROUNDED) {
                const float total = sum(add(whole[0], whole[1]));
                *starts = start(total);
                if constexpr (Form::HAS_ZEROS) add_to_group(first, place, count, k, *scales * total);
                starts += count;
            } else {
                for (const Vector& half : whole) *starts = start(sum(half)), starts += count;
            }
        }
    }

    // first: the first row of a block.
    const int8_t* bytes(int first) const { return bytes_ + static_cast<size_t>(first) * in_; }
    const float* scales(int first) const { return scales_ + static_cast<size_t>(first) * (in_ / ROUNDED); }
    const int32_t* starts(int first) const { return starts_ + static_cast<size_t>(first) * (in_ / Form::SHARE); }
    const float* sums(int first) const { return sums_ + static_cast<size_t>(first) * (in_ / group_); }

   private:
    // What the sum of a block's products starts with: its bytes' total is a whole number, and so is this.
    static int32_t start(float total) { return -Form::MIDDLE * static_cast<int32_t>(total); }

    void add_to_group(int first, int place, int count, int k, float block) {
        float* own = sums_ + static_cast<size_t>(first) * (in_ / group_) + static_cast<size_t>(k / group_) * count + place;
        *own = k % group_ ? *own + block : block;
    }

    int rows_, in_, group_;
    int8_t* bytes_;
    float *scales_, *sums_ = nullptr;
    int32_t* starts_;
};

template <class Form>
constexpr int scale_bytes() {
    return (Form::HAS_ZEROS ? 2 : 1) * LANES * sizeof(Bfloat16);
}

// Products of sixteen outputs with the rows of a block.
//
// weight: `[in / group]`, each with its scales and codes; y: of each row.
template <class Form, int ROWS>
inline void multiply_codes(const RoundedInputs<Form>& x, int first, const uint8_t* weight, int in, int group, Vector* y) {
    const int8_t* bytes = x.bytes(first);
    const int32_t* starts = x.starts(first);
    const float *scales = x.scales(first), *sums_of_inputs = x.sums(first);
    Vector total[ROWS], scale = splat(0.0f);
    for (Vector& one : total) one = splat(0.0f);
    int left = 0;  // inputs of the group
    for (int k = 0; k < in; k += ROUNDED, scales += ROWS) {
        Vector block[ROWS];
        for (int half = 0; half < ROUNDED / Form::SHARE; ++half, starts += ROWS, left -= Form::SHARE) {
            if (left == 0) {
                prefetch(weight + BYTES_AHEAD);
                const auto* numbers = reinterpret_cast<const Bfloat16*>(weight);
                if constexpr (Form::HAS_ZEROS) {
                    Vector zero;
                    load_pairs(numbers, scale, zero);
                    for (int row = 0; row < ROWS; ++row) total[row] = times_plus(zero, splat(sums_of_inputs[row]), total[row]);
                    sums_of_inputs += ROWS;
                } else {
                    scale = load(numbers);
                }
                weight += scale_bytes<Form>();
                left = group;
            }
            Whole sums[ROWS];
            for (int row = 0; row < ROWS; ++row) sums[row] = repeat(starts[row]);
            for (int end = Form::SHARE; end; end -= Form::INPUTS, weight += Form::BYTES, bytes += Form::INPUTS * ROWS) {
                Bytes64 own[Form::OPERANDS];
                Form::operands(weight, own);
                for (int j = 0; j < Form::OPERANDS; ++j)
                    for (int row = 0; row < ROWS; ++row)
                        sums[row] = add_byte_products(sums[row], own[j], repeat_four(bytes + (j * ROWS + row) * FOUR));
            }
            for (int row = 0; row < ROWS; ++row)
                block[row] = half ? times_plus(as_numbers(sums[row]), scale, block[row]) : times(as_numbers(sums[row]), scale);
        }
        for (int row = 0; row < ROWS; ++row) total[row] = times_plus(block[row], splat(scales[row]), total[row]);
    }
    for (int row = 0; row < ROWS; ++row) y[row] = total[row];
}

// Likewise of at most `ROWS` rows.
template <class Form, int ROWS>
inline void multiply_codes_at_most(int rows, const RoundedInputs<Form>& x, int first, const uint8_t* weight, int in, int group,
                                   Vector* y) {
    if constexpr (ROWS > 1)
        if (rows < ROWS) return multiply_codes_at_most<Form, ROWS - 1>(rows, x, first, weight, in, group, y);
    multiply_codes<Form, ROWS>(x, first, weight, in, group, y);
}

template <class Form>
struct Codes {
    static constexpr int OUTPUTS = LANES;

    // x: `[rows, in]`
    template <class T>
    Codes(Context& context, const Matrix& matrix, const T* x, int rows)
        : matrix(matrix), rows(rows), inputs(context, rows, matrix.in, matrix.group) {
        take_in_turns(context, rows, [&](size_t row) { inputs.take(row, x + static_cast<size_t>(row) * matrix.in); });
    }

    // Sixteen outputs, of all rows.
    void operator()(int piece, Vector (*y)[1]) const { multiply(piece, 0, rows, y); }

    // Sixteen outputs, of some rows from the first of a block on, to the end of one.
    [[gnu::noinline]] void multiply(int piece, int first, int count, Vector (*y)[1]) const {
        const size_t of_group = scale_bytes<Form>() + static_cast<size_t>(matrix.group / Form::INPUTS * Form::BYTES);
        const auto* weight = static_cast<const uint8_t*>(matrix.weight) + piece * (matrix.in / matrix.group) * of_group;
        for (int place = 0; place < count; place += TOGETHER) {
            const int own = count - place < TOGETHER ? count - place : TOGETHER;
            Vector products[TOGETHER];
            multiply_codes_at_most<Form, TOGETHER>(own, inputs, first + place, weight, matrix.in, matrix.group, products);
            for (int i = 0; i < own; ++i) y[place + i][0] = with_bias(matrix, piece * LANES, products[i]);
        }
    }

    const Matrix& matrix;
    int rows;
    RoundedInputs<Form> inputs;
};
