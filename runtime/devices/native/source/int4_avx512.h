// Four bits in blocks of 64 outputs, for AVX-512.
//
// A code is looked up as a bfloat16 number, which holds it exactly, and two inputs at a time are multiplied and added in
// float32.

constexpr int BLOCK = 64;               // outputs
constexpr int VECTORS = BLOCK / LANES;  // of a block
constexpr int ROWS_AT_ONCE = 4;         // for whose sums, and a block's codes, there are registers
constexpr bool IS_FOR_MANY_ROWS = false;  // never measured

// A product's inputs as they are multiplied.
class Inputs {
   public:
    Inputs(Context& context, int rows, int in, int group) : in_(in), group_(group) {
        context.narrow.resize(static_cast<size_t>(rows) * in);
        numbers_ = context.narrow.data();
    }

    // x: `[in]`, of numbers that bfloat16 can hold
    void take(size_t row, const float* x) {
        for (int k = 0; k < in_; k += LANES) store(numbers_ + row * in_ + k, load(x + k));
    }

    const Bfloat16* of(size_t row, int group) const { return numbers_ + row * in_ + group * group_; }
    int group_size() const { return group_; }

   private:
    int in_, group_;
    Bfloat16* numbers_;
};

// A group's codes as they are read by each row.
class CodesInPlace {
   public:
    // weight: the group's bytes of a block.
    CodesInPlace(const uint8_t* weight, int) : weight_(weight) {}
    const uint8_t* of(int k) const { return weight_ + static_cast<size_t>(k) * (BLOCK / 2); }

   private:
    const uint8_t* weight_;
};
using CodesUnpacked = CodesInPlace;

alignas(64) inline constexpr Bfloat16 CODES[32] = {  // 0 to 15, twice: a look-up takes five bits
    0x0000, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0x4100, 0x4110, 0x4120, 0x4130, 0x4140, 0x4150,
    0x4160, 0x4170, 0x0000, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0x4100, 0x4110, 0x4120, 0x4130,
    0x4140, 0x4150, 0x4160, 0x4170};

// Add the products of two inputs, which each number of `inputs` and `pairs` holds.
inline Vector add_products(Vector total, __m512i inputs, __m512i pairs) {
#ifdef CEDE_BFLOAT16
    return _mm512_dpbf16_ps(total, (__m512bh)inputs, (__m512bh)pairs);
#else
    total = _mm512_fmadd_ps(second_of(inputs), second_of(pairs), total);
    return _mm512_fmadd_ps(first_of(inputs), first_of(pairs), total);
#endif
}

// Sums of inputs times codes, of a group.
template <int ROWS>
inline void multiply_group(const Inputs& x, size_t first, int group, const CodesInPlace& weight, Vector (&y)[ROWS][VECTORS]) {
    const __m512i codes = _mm512_load_si512(CODES);
    // Outputs come out of the unpacking in fours: 0-3, 8-11, … in one vector and 4-7, 12-15, … in the next.
    const __m512i even = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i odd = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    Vector mixed[ROWS][VECTORS];
    for (int row = 0; row < ROWS; ++row)
        for (int j = 0; j < VECTORS; ++j) mixed[row][j] = splat(0.0f);
    for (int k = 0; k < x.group_size(); k += 2) {
        const auto* bytes = reinterpret_cast<const __m256i*>(weight.of(k));
        const __m512i one = _mm512_cvtepu8_epi16(_mm256_loadu_si256(bytes));
        const __m512i next = _mm512_cvtepu8_epi16(_mm256_loadu_si256(bytes + 1));
        const __m512i low = _mm512_unpacklo_epi16(one, next), high = _mm512_unpackhi_epi16(one, next);
        const __m512i pairs[VECTORS] = {
            _mm512_permutexvar_epi16(low, codes),
            _mm512_permutexvar_epi16(high, codes),
            _mm512_permutexvar_epi16(_mm512_srli_epi16(low, 4), codes),
            _mm512_permutexvar_epi16(_mm512_srli_epi16(high, 4), codes),
        };
        for (int row = 0; row < ROWS; ++row) {
            int32_t two;
            std::memcpy(&two, x.of(first + row, group) + k, sizeof two);
            const __m512i inputs = _mm512_set1_epi32(two);
            for (int j = 0; j < VECTORS; ++j) mixed[row][j] = add_products(mixed[row][j], inputs, pairs[j]);
        }
    }
    for (int row = 0; row < ROWS; ++row)
        for (int j = 0; j < VECTORS; ++j) {
            const Vector* pair = &mixed[row][j & 2];
            y[row][j] = _mm512_permutex2var_ps(pair[0], j & 1 ? odd : even, pair[1]);
        }
}
