// Four bits in blocks of 32 outputs, for AVX2: a code becomes a float32 number, one input at a time.

constexpr int BLOCK = 32;               // outputs
constexpr int VECTORS = BLOCK / LANES;  // of a block

using Input = float;  // a product's inputs as they are multiplied

inline const Input* inputs_of(Context& context, const float* x, size_t count) { return rounded_inputs(context, x, count); }

// Sums of inputs times codes.
//
// x: `[ROWS, group]`, `stride` numbers from one row to the next; weight: the group's bytes of a block.
// There are sixteen registers, which have room for four rows' sums of half a block; so the halves come one by one.
template <int ROWS>
inline void multiply_group(const Input* x, int stride, int group, const uint8_t* weight, Vector (&y)[ROWS][VECTORS]) {
    const __m128i nibble = _mm_set1_epi8(15);
    for (int half = 0; half < VECTORS; ++half) {
        Vector total[ROWS];
        for (Vector& one : total) one = splat(0.0f);
        for (int k = 0; k < group; ++k) {
            const auto* place = reinterpret_cast<const __m128i*>(weight + static_cast<size_t>(k) * (BLOCK / 2));
            const __m128i bytes = _mm_loadu_si128(place);
            const Vector codes = widen_bytes(_mm_and_si128(half ? _mm_srli_epi16(bytes, 4) : bytes, nibble));
            for (int row = 0; row < ROWS; ++row)
                total[row] = times_plus(splat(x[static_cast<size_t>(row) * stride + k]), codes, total[row]);
        }
        for (int row = 0; row < ROWS; ++row) y[row][half] = total[row];
    }
}
