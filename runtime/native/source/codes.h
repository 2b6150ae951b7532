// Products with weights of four or six bits, of any number of rows, which are rounded to eight bits by blocks of 32 inputs.
//
// A weight is `(code - middle) * scale + zero`, with a scale and a zero for each group of inputs and each output; so of a
// group sum(x w) = scale sum(x code) + (zero - middle scale) sum(x).  Sums of a block are of whole numbers.
//
// A matrix lies as `[out / 16, in / group]`: of sixteen outputs and a group of inputs first the scales in bfloat16, each with
// its zero behind it if there are zeros, and then the codes as a form has them.

constexpr int ROUNDED = 32;  // inputs of a row that share a scale

// Codes of four bits: of eight inputs and sixteen outputs a line of the cache, `[16, 4]` bytes, whose low halves are the codes
// of the first four inputs and whose high halves those of the next four.
template <bool ZEROS>
struct FourBits16 {
    static constexpr bool HAS_ZEROS = ZEROS;
    static constexpr float MIDDLE = 8.0f;
    static constexpr int SHARE = ROUNDED;  // inputs that a group has multiples of
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
    static constexpr float MIDDLE = 32.0f;
    static constexpr int SHARE = ROUNDED / 2;
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
            float* own_sum = sums + static_cast<size_t>(k / group_) * count;
            if (group_ < ROUNDED) {
                own_sum[0] = *scales * sum(whole[0]);
                own_sum[count] = *scales * sum(whole[1]);
            } else {
                if (k % group_ == 0) *own_sum = 0.0f;
                *own_sum += *scales * sum(add(whole[0], whole[1]));
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

template <class Form>
constexpr int scale_bytes() {
    return (Form::HAS_ZEROS ? 2 : 1) * LANES * sizeof(Bfloat16);
}

// Load sixteen outputs' scales of a group, and what is to be added for its inputs' sum.
template <class Form>
inline void load_scales(const uint8_t* weight, Vector& scale, Vector& offset) {
    const auto* numbers = reinterpret_cast<const Bfloat16*>(weight);
    Vector zero = splat(0.0f);
    if constexpr (Form::HAS_ZEROS)
        load_pairs(numbers, scale, zero);
    else
        scale = load(numbers);
    offset = minus_times(splat(Form::MIDDLE), scale, zero);
}

// Products of sixteen outputs with the rows of a block.
//
// weight: `[in / group]`, each with its scales and codes; y: of each row.
template <class Form, int ROWS>
inline void multiply_codes(const RoundedInputs& x, int first, const uint8_t* weight, int in, int group, Vector* y) {
    const int8_t* bytes = x.bytes(first);
    const float *scales = x.scales(first), *sums_of_inputs = x.sums(first);
    Vector total[ROWS];
    for (Vector& one : total) one = splat(0.0f);
    for (int k = 0; k < in; k += group, sums_of_inputs += ROWS) {
        Vector scale, offset;
        load_scales<Form>(weight, scale, offset);
        prefetch(weight + BYTES_AHEAD);
        weight += scale_bytes<Form>();
        for (int i = 0; i < group; i += Form::SHARE) {
            Whole sums[ROWS];
            for (Whole& one : sums) one = nothing();
            for (int end = Form::SHARE; end; end -= Form::INPUTS, weight += Form::BYTES, bytes += Form::INPUTS * ROWS) {
                Bytes64 own[Form::OPERANDS];
                Form::operands(weight, own);
                for (int j = 0; j < Form::OPERANDS; ++j)
                    for (int row = 0; row < ROWS; ++row)
                        sums[row] = add_byte_products(sums[row], own[j], repeat_four(bytes + (j * ROWS + row) * FOUR));
            }
            const float* own_scales = scales + static_cast<unsigned>(k + i) / ROUNDED * ROWS;
            for (int row = 0; row < ROWS; ++row)
                total[row] = times_plus(as_numbers(sums[row]), times(scale, splat(own_scales[row])), total[row]);
        }
        for (int row = 0; row < ROWS; ++row) total[row] = times_plus(offset, splat(sums_of_inputs[row]), total[row]);
    }
    for (int row = 0; row < ROWS; ++row) y[row] = total[row];
}

// Likewise of at most `ROWS` rows.
template <class Form, int ROWS>
inline void multiply_codes_at_most(int rows, const RoundedInputs& x, int first, const uint8_t* weight, int in, int group,
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
    RoundedInputs inputs;
};
