// Sixteen numbers at a time, in one register.  A model's rows are float32, or bfloat16 and computed in float32.
//
// Included once for each set of instructions; with CEDE_BFLOAT16 the processor has some for bfloat16.

using Vector = __m512;

constexpr int SUMS_AT_ONCE = 16;  // for which the registers have room, beside what is multiplied

inline Vector splat(float x) { return _mm512_set1_ps(x); }
inline Vector add(Vector x, Vector y) { return _mm512_add_ps(x, y); }
inline Vector subtract(Vector x, Vector y) { return _mm512_sub_ps(x, y); }
inline Vector times(Vector x, Vector y) { return _mm512_mul_ps(x, y); }
inline Vector divide(Vector x, Vector y) { return _mm512_div_ps(x, y); }
inline Vector times_plus(Vector x, Vector y, Vector z) { return _mm512_fmadd_ps(x, y, z); }    // x y + z
inline Vector minus_times(Vector x, Vector y, Vector z) { return _mm512_fnmadd_ps(x, y, z); }  // z - x y
inline Vector smaller(Vector x, Vector y) { return _mm512_min_ps(x, y); }  // y, if either is not a number
inline Vector larger(Vector x, Vector y) { return _mm512_max_ps(x, y); }   // likewise
inline Vector where_at_least(Vector x, Vector least, Vector y) {  // y where x is at least so much, else 0
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, least, _CMP_GE_OQ), y);
}
inline float sum(Vector x) { return _mm512_reduce_add_ps(x); }
// The sums of sixteen, each to the bits that `sum` gives: number 4 j + m is that of `each[4 m + j]`.
inline Vector sums_of(const Vector (&each)[16]) {
    Vector halves[8], quarters[4], pairs[2];
    for (int i = 0; i < 8; ++i)
        halves[i] = _mm512_add_ps(_mm512_shuffle_f32x4(each[2 * i], each[2 * i + 1], 0x44),
                                  _mm512_shuffle_f32x4(each[2 * i], each[2 * i + 1], 0xee));
    for (int i = 0; i < 4; ++i)
        quarters[i] = _mm512_add_ps(_mm512_shuffle_f32x4(halves[2 * i], halves[2 * i + 1], 0x88),
                                    _mm512_shuffle_f32x4(halves[2 * i], halves[2 * i + 1], 0xdd));
    for (int i = 0; i < 2; ++i) {
        const __m512d x = _mm512_castps_pd(quarters[2 * i]), y = _mm512_castps_pd(quarters[2 * i + 1]);
        pairs[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)), _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
    }
    return _mm512_add_ps(_mm512_shuffle_ps(pairs[0], pairs[1], 0x88), _mm512_shuffle_ps(pairs[0], pairs[1], 0xdd));
}
inline Vector nearest(Vector x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline Vector times_power_of_2(Vector x, Vector n) { return _mm512_scalef_ps(x, n); }

inline Vector widen(__m256i halves) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

// To the nearest; of two that are as near, to the even one.
inline __m256i narrow(Vector x) {
#ifdef CEDE_BFLOAT16
    return (__m256i)_mm512_cvtneps_pbh(x);
#else
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __mmask16 none = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_mov_epi32(up, none, _mm512_set1_epi32(0x7fc00000)), 16));
#endif
}

inline Vector load(const float* from) { return _mm512_loadu_ps(from); }
inline Vector load(const Bfloat16* from) { return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))); }
inline Vector load(const Float16* from) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))); }
inline Vector load(const int8_t* from) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
// The low halves of sixteen bytes as numbers, and the high ones.
inline Vector widen_low_halves(__m128i bytes) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_and_si128(bytes, _mm_set1_epi8(15))));
}
inline Vector load_low_halves(const uint8_t* from) {
    return widen_low_halves(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
inline Vector load_high_halves(const uint8_t* from) {
    return widen_low_halves(_mm_srli_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)), 4));
}

inline void store(float* to, Vector x) { _mm512_storeu_ps(to, x); }
inline void store(Bfloat16* to, Vector x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), narrow(x)); }

// To the nearest whole number.
inline void store(int16_t* to, Vector x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(x)));
}

// Sixteen whole numbers of 32 bits, or 32 of sixteen.
using Whole = __m512i;

inline Whole nothing() { return _mm512_setzero_si512(); }
inline Whole load_whole(const int16_t* from) { return _mm512_loadu_si512(from); }
inline Whole load_whole(const int8_t* from) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
inline Vector as_numbers(Whole x) { return _mm512_cvtepi32_ps(x); }

// Add the products of 32 numbers of sixteen bits, two to each sum.
inline Whole add_products(Whole total, Whole x, Whole y) {
#ifdef CEDE_VNNI
    return _mm512_dpwssd_epi32(total, x, y);
#else
    return _mm512_add_epi32(total, _mm512_madd_epi16(x, y));
#endif
}

inline Whole repeat(int32_t x) { return _mm512_set1_epi32(x); }
inline Whole plus(Whole x, Whole y) { return _mm512_add_epi32(x, y); }
inline Whole minus(Whole x, int32_t y) { return _mm512_sub_epi32(x, _mm512_set1_epi32(y)); }

// To the nearest whole number.
inline void store(int8_t* to, Vector x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(x)));
}

using Bytes64 = __m512i;

inline Bytes64 load_bytes(const uint8_t* from) { return _mm512_loadu_si512(from); }
inline Bytes64 low_halves(Bytes64 x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
inline Bytes64 high_halves(Bytes64 x) { return _mm512_and_si512(_mm512_srli_epi16(x, 4), _mm512_set1_epi8(15)); }
inline Bytes64 either(Bytes64 x, Bytes64 y) { return _mm512_or_si512(x, y); }

// Two bits of each byte, of which the lowest two are place 0, as bits 4 and 5.
template <int PLACE>
inline Bytes64 two_bits(Bytes64 x) {
    if constexpr (PLACE < 2)
        x = _mm512_slli_epi16(x, 4 - 2 * PLACE);
    else
        x = _mm512_srli_epi16(x, 2 * PLACE - 4);
    return _mm512_and_si512(x, _mm512_set1_epi8(0x30));
}

inline Bytes64 repeat_four(const int8_t* from) {
    int32_t four;
    std::memcpy(&four, from, sizeof four);
    return _mm512_set1_epi32(four);
}

// A product's first factor has no sign, so weights of eight bits stay 128 too high.
constexpr int LEFT_OF_OFFSET = 128;
inline Bytes64 load_weights(const uint8_t* from) { return load_bytes(from); }

// Add the products of 64 bytes, in fours: those of `x` have no sign.
inline Whole add_byte_products(Whole total, Bytes64 x, Bytes64 y) {
#ifdef CEDE_VNNI
    return _mm512_dpbusd_epi32(total, x, y);
#else
    // Sums of two products have sixteen bits where `x` has seven; so its eighth is multiplied by itself.
    const __m512i low = _mm512_maddubs_epi16(_mm512_and_si512(x, _mm512_set1_epi8(127)), y);
    const __m512i high = _mm512_maddubs_epi16(_mm512_and_si512(_mm512_srli_epi16(x, 7), _mm512_set1_epi8(1)), y);
    total = _mm512_add_epi32(total, _mm512_madd_epi16(low, _mm512_set1_epi16(1)));
    return _mm512_add_epi32(total, _mm512_madd_epi16(high, _mm512_set1_epi16(128)));
#endif
}

// Where `second` says so `y - x`, and else `x + y`.
inline Vector sum_or_difference(Vector x, Vector y, __mmask16 second) {
    return _mm512_mask_sub_ps(_mm512_add_ps(x, y), second, y, x);
}

// Sixteen numbers times the Hadamard matrix of their size, whose numbers are 1 and -1.
inline Vector spread(Vector x) {
    x = sum_or_difference(x, _mm512_permute_ps(x, 0xb1), 0xaaaa);
    x = sum_or_difference(x, _mm512_permute_ps(x, 0x4e), 0xcccc);
    x = sum_or_difference(x, _mm512_shuffle_f32x4(x, x, 0xb1), 0xf0f0);
    return sum_or_difference(x, _mm512_shuffle_f32x4(x, x, 0x4e), 0xff00);
}

inline Vector rounded_to_bfloat16(Vector x) { return widen(narrow(x)); }

// The numbers of sixteen pairs.
inline Vector first_of(__m512i pairs) { return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)); }
inline Vector second_of(__m512i pairs) {
    return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000))));
}

// Load sixteen pairs.
inline void load_pairs(const Bfloat16* from, Vector& first, Vector& second) {
    const __m512i pairs = _mm512_loadu_si512(from);
    first = first_of(pairs);
    second = second_of(pairs);
}
