// Products with weights of eight bits, of any number of rows, which are rounded to eight bits, too.
//
// Rows and weights are spread before, in blocks of 64 inputs, by a matrix that is its own inverse: `hadamard_rotate` in
// `runtime/nn/matrices/arithmetic.py` says why.  Sums are of whole numbers, so that no order of theirs matters.  On
// x86 the instruction takes one factor without a sign; so the weights are kept 128 too high, on every processor:
// sum(x w) = sum(x (w + 128)) - 128 sum(x).

constexpr int SPREAD = 64;        // inputs of a block, and numbers that are multiplied at a time
constexpr float NORM = 0.125f;    // of the matrix: 1 / sqrt(SPREAD)
constexpr float MOST_BYTE = 127.0f;
constexpr float LEAST = 1e-30f;   // of a row's largest number, for which 127 / it is finite

// A block of inputs, spread but for `NORM`.
template <class T>
inline void spread_block(const T* x, Vector (&y)[SPREAD / LANES]) {
    Vector own[SPREAD / LANES];
    for (int i = 0; i < SPREAD / LANES; ++i) own[i] = spread(load(x + i * LANES));
    const Vector sums[2] = {add(own[0], own[1]), add(own[2], own[3])};
    const Vector differences[2] = {subtract(own[0], own[1]), subtract(own[2], own[3])};
    y[0] = add(sums[0], sums[1]);
    y[1] = add(differences[0], differences[1]);
    y[2] = subtract(sums[0], sums[1]);
    y[3] = subtract(differences[0], differences[1]);
}

// Rows as bytes.
class ByteInputs {
   public:
    ByteInputs(Context& context, int rows, int in) : in_(in) {
        context.bytes.resize(static_cast<size_t>(rows) * in + SPREAD);
        context.scales.resize(rows);
        context.totals.resize(rows);
        // From the beginning of a line of the cache, so that no load takes two of them.
        const auto address = reinterpret_cast<uintptr_t>(context.bytes.data());
        bytes_ = context.bytes.data() + (SPREAD - address % SPREAD) % SPREAD;
        scales_ = context.scales.data();
        totals_ = context.totals.data();
    }

    // x: `[in]`
    template <class T>
    void take(size_t row, const T* x) {
        Vector most = splat(0.0f), nothing = splat(0.0f), own[SPREAD / LANES];
        for (int k = 0; k < in_; k += SPREAD) {
            spread_block(x + k, own);
            for (const Vector& one : own) {
                most = larger(larger(one, subtract(splat(0.0f), one)), most);
                nothing = times_plus(one, splat(0.0f), nothing);
            }
        }
        const float largest = largest_number(most);
        const Vector factor = splat(largest > LEAST ? MOST_BYTE / largest : 0.0f);
        Vector total = splat(0.0f);  // of whole numbers, so few that it is exact
        for (int k = 0; k < in_; k += SPREAD) {
            spread_block(x + k, own);
            for (int i = 0; i < SPREAD / LANES; ++i) {
                const Vector whole = nearest(times(own[i], factor));
                store(bytes_ + row * in_ + k + i * LANES, whole);
                total = add(total, whole);
            }
        }
        // Where an input is infinite or no number, the scale is none, so that the row's products are none.
        scales_[row] = largest * (NORM / MOST_BYTE) + sum(nothing);
        totals_[row] = static_cast<int32_t>(sum(total));
    }

    const int8_t* of(size_t row) const { return bytes_ + row * in_; }
    float scale(size_t row) const { return scales_[row]; }
    int32_t total(size_t row) const { return totals_[row]; }

   private:
    int in_;
    int8_t* bytes_;
    float* scales_;
    int32_t* totals_;
};

constexpr int FOUR = 4;          // inputs that are multiplied at a time, of each of sixteen outputs
constexpr int TOGETHER = 8;      // rows for which weights are loaded once
constexpr int LEAST_SUMS = 4;    // that are added up at a time, so that none waits for itself

// Sums of sixteen outputs.
//
// weight: `[in / 4, 16, 4]`; y: of each row.
template <int ROWS>
inline void add_up(const ByteInputs& x, size_t first, const uint8_t* weight, int in, Whole* y) {
    constexpr int IN_TURN = (LEAST_SUMS + ROWS - 1) / ROWS;
    Whole sums[ROWS][IN_TURN];
    for (auto& row : sums)
        for (Whole& one : row) one = nothing();
    static_assert(SPREAD / FOUR % IN_TURN == 0, "a block of inputs is in whole turns");
    for (int k = 0; k < in; k += FOUR * IN_TURN)
        for (int turn = 0; turn < IN_TURN; ++turn) {
            const uint8_t* place = weight + static_cast<size_t>(k + FOUR * turn) * LANES;
            prefetch(place + BYTES_AHEAD);
            const Bytes64 own = load_weights(place);
            for (int row = 0; row < ROWS; ++row)
                sums[row][turn] = add_byte_products(sums[row][turn], own, repeat_four(x.of(first + row) + k + FOUR * turn));
        }
    for (int row = 0; row < ROWS; ++row) {
        y[row] = sums[row][0];
        for (int turn = 1; turn < IN_TURN; ++turn) y[row] = plus(y[row], sums[row][turn]);
    }
}

// Likewise of at most `ROWS` rows.
template <int ROWS>
inline void add_up_at_most(int rows, const ByteInputs& x, size_t first, const uint8_t* weight, int in, Whole* y) {
    if constexpr (ROWS > 1)
        if (rows < ROWS) return add_up_at_most<ROWS - 1>(rows, x, first, weight, in, y);
    add_up<ROWS>(x, first, weight, in, y);
}

struct Bytes {
    static constexpr int OUTPUTS = LANES;

    // x: `[rows, in]`
    template <class T>
    Bytes(Context& context, const Matrix& matrix, const T* x, int rows)
        : matrix(matrix), rows(rows), inputs(context, rows, matrix.in) {
        take_in_turns(context, rows, [&](size_t row) { inputs.take(row, x + row * matrix.in); });
    }

    // Sixteen outputs, of all rows.
    void operator()(int piece, Vector (*y)[1]) const { multiply(piece, 0, rows, y); }

    // Sixteen outputs, of some rows.
    [[gnu::noinline]] void multiply(int piece, int first, int count, Vector (*y)[1]) const {
        const auto* weight = static_cast<const uint8_t*>(matrix.weight) + static_cast<size_t>(piece) * LANES * matrix.in;
        const Vector scale = load(static_cast<const float*>(matrix.scales) + piece * LANES);
        for (int place = 0; place < count; place += TOGETHER) {
            const int own = count - place < TOGETHER ? count - place : TOGETHER;
            Whole sums[TOGETHER];
            add_up_at_most<TOGETHER>(own, inputs, first + place, weight, matrix.in, sums);
            for (int i = 0; i < own; ++i) {
                const size_t row = first + place + i;
                const Vector numbers = as_numbers(minus(sums[i], LEFT_OF_OFFSET * inputs.total(row)));
                y[place + i][0] = with_bias(matrix, piece * LANES, times(numbers, times(scale, splat(inputs.scale(row)))));
            }
        }
    }

    const Matrix& matrix;
    int rows;
    ByteInputs inputs;
};
