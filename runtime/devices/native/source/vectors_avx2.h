// Sixteen numbers at a time, in two registers.  A model's rows are float32, or bfloat16 and computed in float32.

struct Vector {
    __m256 low, high;
};

constexpr int SUMS_AT_ONCE = 4;  // for which the registers have room, beside what is multiplied

inline Vector splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Vector add(Vector x, Vector y) { return {_mm256_add_ps(x.low, y.low), _mm256_add_ps(x.high, y.high)}; }
inline Vector subtract(Vector x, Vector y) { return {_mm256_sub_ps(x.low, y.low), _mm256_sub_ps(x.high, y.high)}; }
inline Vector times(Vector x, Vector y) { return {_mm256_mul_ps(x.low, y.low), _mm256_mul_ps(x.high, y.high)}; }
inline Vector divide(Vector x, Vector y) { return {_mm256_div_ps(x.low, y.low), _mm256_div_ps(x.high, y.high)}; }
inline Vector times_plus(Vector x, Vector y, Vector z) {  // x y + z
    return {_mm256_fmadd_ps(x.low, y.low, z.low), _mm256_fmadd_ps(x.high, y.high, z.high)};
}
inline Vector minus_times(Vector x, Vector y, Vector z) {  // z - x y
    return {_mm256_fnmadd_ps(x.low, y.low, z.low), _mm256_fnmadd_ps(x.high, y.high, z.high)};
}
inline Vector smaller(Vector x, Vector y) {  // y, if either is not a number
    return {_mm256_min_ps(x.low, y.low), _mm256_min_ps(x.high, y.high)};
}
inline Vector larger(Vector x, Vector y) {  // likewise
    return {_mm256_max_ps(x.low, y.low), _mm256_max_ps(x.high, y.high)};
}
inline Vector where_at_least(Vector x, Vector least, Vector y) {  // y where x is at least so much, else 0
    return {_mm256_and_ps(_mm256_cmp_ps(x.low, least.low, _CMP_GE_OQ), y.low),
            _mm256_and_ps(_mm256_cmp_ps(x.high, least.high, _CMP_GE_OQ), y.high)};
}

inline float sum(Vector x) {
    const __m256 eight = _mm256_add_ps(x.low, x.high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// The sums of sixteen: number 4 j + m is that of `each[4 m + j]`.
inline Vector sums_of(const Vector (&each)[16]) {
    alignas(32) float sums[16];
    for (int j = 0; j < 4; ++j)
        for (int m = 0; m < 4; ++m) sums[4 * j + m] = sum(each[4 * m + j]);
    return {_mm256_load_ps(sums), _mm256_load_ps(sums + 8)};
}

inline Vector nearest(Vector x) {
    constexpr int HOW = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(x.low, HOW), _mm256_round_ps(x.high, HOW)};
}

// n is whole, and not so small that a number loses bits: the exponent's bits are those of a float32.
inline __m256 times_power_of_2(__m256 x, __m256 n) {
    const __m256i bits = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(x, _mm256_castsi256_ps(bits));
}
inline Vector times_power_of_2(Vector x, Vector n) {
    return {times_power_of_2(x.low, n.low), times_power_of_2(x.high, n.high)};
}

inline __m256 widen(__m128i halves) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

// To the nearest, of two that are as near to the even one; in the upper half of each number.
inline __m256 rounded_to_bfloat16(__m256 x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i kept = _mm256_and_si256(up, _mm256_set1_epi32(static_cast<int>(0xffff0000)));
    const __m256 none = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
    return _mm256_blendv_ps(_mm256_castsi256_ps(kept), _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)), none);
}
inline Vector rounded_to_bfloat16(Vector x) { return {rounded_to_bfloat16(x.low), rounded_to_bfloat16(x.high)}; }

inline Vector load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
inline Vector load(const Bfloat16* from) {
    const auto* halves = reinterpret_cast<const __m128i*>(from);
    return {widen(_mm_loadu_si128(halves)), widen(_mm_loadu_si128(halves + 1))};
}
inline Vector load(const Float16* from) {
    const auto* halves = reinterpret_cast<const __m128i*>(from);
    return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
}
inline Vector load(const int8_t* from) {
    const auto* eight = reinterpret_cast<const __m128i*>(from);
    const auto* others = reinterpret_cast<const __m128i*>(from + 8);
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(eight))),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(others)))};
}
// The low halves of sixteen bytes as numbers, and the high ones.
inline Vector widen_low_halves(__m128i bytes) {
    bytes = _mm_and_si128(bytes, _mm_set1_epi8(15));
    return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))};
}
inline Vector load_low_halves(const uint8_t* from) {
    return widen_low_halves(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
inline Vector load_high_halves(const uint8_t* from) {
    return widen_low_halves(_mm_srli_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)), 4));
}

inline void store(float* to, Vector x) {
    _mm256_storeu_ps(to, x.low);
    _mm256_storeu_ps(to + 8, x.high);
}
inline void store(Bfloat16* to, Vector x) {
    const Vector rounded = rounded_to_bfloat16(x);
    const __m256i low = _mm256_srli_epi32(_mm256_castps_si256(rounded.low), 16);
    const __m256i high = _mm256_srli_epi32(_mm256_castps_si256(rounded.high), 16);
    const __m256i mixed = _mm256_packus_epi32(low, high);  // in fours: low, high, low, high
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(mixed, 0xd8));
}
// To the nearest whole number.
inline void store(int16_t* to, Vector x) {
    const __m256i mixed = _mm256_packs_epi32(_mm256_cvtps_epi32(x.low), _mm256_cvtps_epi32(x.high));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(mixed, 0xd8));
}

// Sixteen whole numbers of 32 bits, or 32 of sixteen.
struct Whole {
    __m256i low, high;
};

inline Whole nothing() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
inline Whole load_whole(const int16_t* from) {
    const auto* halves = reinterpret_cast<const __m256i*>(from);
    return {_mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1)};
}
inline Whole load_whole(const int8_t* from) {
    const auto* halves = reinterpret_cast<const __m128i*>(from);
    return {_mm256_cvtepi8_epi16(_mm_loadu_si128(halves)), _mm256_cvtepi8_epi16(_mm_loadu_si128(halves + 1))};
}
inline Vector as_numbers(Whole x) { return {_mm256_cvtepi32_ps(x.low), _mm256_cvtepi32_ps(x.high)}; }

// Add the products of 32 numbers of sixteen bits, two to each sum.
inline Whole add_products(Whole total, Whole x, Whole y) {
    return {_mm256_add_epi32(total.low, _mm256_madd_epi16(x.low, y.low)),
            _mm256_add_epi32(total.high, _mm256_madd_epi16(x.high, y.high))};
}

inline Whole repeat(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
inline Whole plus(Whole x, Whole y) { return {_mm256_add_epi32(x.low, y.low), _mm256_add_epi32(x.high, y.high)}; }
inline Whole minus(Whole x, int32_t y) {
    return {_mm256_sub_epi32(x.low, _mm256_set1_epi32(y)), _mm256_sub_epi32(x.high, _mm256_set1_epi32(y))};
}

// To the nearest whole number.
inline void store(int8_t* to, Vector x) {
    int16_t wide[LANES];
    store(wide, x);
    for (int i = 0; i < LANES; ++i) to[i] = static_cast<int8_t>(wide[i]);
}

using Bytes64 = Whole;

inline Bytes64 load_bytes(const uint8_t* from) {
    const auto* halves = reinterpret_cast<const __m256i*>(from);
    return {_mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1)};
}
inline Bytes64 low_halves(Bytes64 x) {
    const __m256i low = _mm256_set1_epi8(15);
    return {_mm256_and_si256(x.low, low), _mm256_and_si256(x.high, low)};
}
inline Bytes64 high_halves(Bytes64 x) {
    return low_halves(Bytes64{_mm256_srli_epi16(x.low, 4), _mm256_srli_epi16(x.high, 4)});
}
inline Bytes64 either(Bytes64 x, Bytes64 y) { return {_mm256_or_si256(x.low, y.low), _mm256_or_si256(x.high, y.high)}; }

// Two bits of each byte, of which the lowest two are place 0, as bits 4 and 5.
template <int PLACE>
inline Bytes64 two_bits(Bytes64 x) {
    const __m256i kept = _mm256_set1_epi8(0x30);
    if constexpr (PLACE < 2)
        x = {_mm256_slli_epi16(x.low, 4 - 2 * PLACE), _mm256_slli_epi16(x.high, 4 - 2 * PLACE)};
    else
        x = {_mm256_srli_epi16(x.low, 2 * PLACE - 4), _mm256_srli_epi16(x.high, 2 * PLACE - 4)};
    return {_mm256_and_si256(x.low, kept), _mm256_and_si256(x.high, kept)};
}

inline Bytes64 repeat_four(const int8_t* from) {
    int32_t four;
    std::memcpy(&four, from, sizeof four);
    return {_mm256_set1_epi32(four), _mm256_set1_epi32(four)};
}

// A product's first factor has no sign, so weights of eight bits stay 128 too high.
constexpr int LEFT_OF_OFFSET = 128;
inline Bytes64 load_weights(const uint8_t* from) { return load_bytes(from); }

// Add the products of bytes, in fours: those of `x` have no sign.  Sums of two products have sixteen bits where `x` has
// seven; so its eighth is multiplied by itself.
inline __m256i add_products(__m256i total, __m256i x, __m256i y) {
    const __m256i low = _mm256_maddubs_epi16(_mm256_and_si256(x, _mm256_set1_epi8(127)), y);
    const __m256i high = _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(x, 7), _mm256_set1_epi8(1)), y);
    total = _mm256_add_epi32(total, _mm256_madd_epi16(low, _mm256_set1_epi16(1)));
    return _mm256_add_epi32(total, _mm256_madd_epi16(high, _mm256_set1_epi16(128)));
}
inline Whole add_byte_products(Whole total, Bytes64 x, Bytes64 y) {
    return {add_products(total.low, x.low, y.low), add_products(total.high, x.high, y.high)};
}

// Sixteen numbers times the Hadamard matrix of their size, whose numbers are 1 and -1.
inline Vector spread(Vector x) {
    alignas(32) float each[LANES];
    store(each, x);
    for (int distance = 1; distance < LANES; distance *= 2)
        for (int i = 0; i < LANES; ++i) {
            if (i & distance) continue;
            const float own = each[i], other = each[i + distance];
            each[i] = own + other;
            each[i + distance] = own - other;
        }
    return load(each);
}

// The numbers of eight pairs.
inline __m256 first_of(__m256i pairs) { return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)); }
inline __m256 second_of(__m256i pairs) {
    return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xffff0000))));
}

// Load sixteen pairs.
inline void load_pairs(const Bfloat16* from, Vector& first, Vector& second) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from) + 1);
    first = {first_of(low), first_of(high)};
    second = {second_of(low), second_of(high)};
}
