// Sixteen numbers at a time, in four registers.  A model's rows are float32, or bfloat16 and computed in float32.
//
// Included once for each set of instructions; with CEDE_DOT the processor has some for products of bytes.

struct Vector {
    float32x4_t a, b, c, d;
};

constexpr int SUMS_AT_ONCE = 4;  // for which the registers have room, beside what is multiplied

inline Vector splat(float x) { return {vdupq_n_f32(x), vdupq_n_f32(x), vdupq_n_f32(x), vdupq_n_f32(x)}; }
inline Vector add(Vector x, Vector y) {
    return {vaddq_f32(x.a, y.a), vaddq_f32(x.b, y.b), vaddq_f32(x.c, y.c), vaddq_f32(x.d, y.d)};
}
inline Vector subtract(Vector x, Vector y) {
    return {vsubq_f32(x.a, y.a), vsubq_f32(x.b, y.b), vsubq_f32(x.c, y.c), vsubq_f32(x.d, y.d)};
}
inline Vector times(Vector x, Vector y) {
    return {vmulq_f32(x.a, y.a), vmulq_f32(x.b, y.b), vmulq_f32(x.c, y.c), vmulq_f32(x.d, y.d)};
}
inline Vector divide(Vector x, Vector y) {
    return {vdivq_f32(x.a, y.a), vdivq_f32(x.b, y.b), vdivq_f32(x.c, y.c), vdivq_f32(x.d, y.d)};
}
inline Vector times_plus(Vector x, Vector y, Vector z) {  // x y + z
    return {vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b), vfmaq_f32(z.c, x.c, y.c), vfmaq_f32(z.d, x.d, y.d)};
}
inline Vector minus_times(Vector x, Vector y, Vector z) {  // z - x y
    return {vfmsq_f32(z.a, x.a, y.a), vfmsq_f32(z.b, x.b, y.b), vfmsq_f32(z.c, x.c, y.c), vfmsq_f32(z.d, x.d, y.d)};
}

// By a comparison: the instructions for the smaller and the larger give no number where either is none.
inline float32x4_t smaller(float32x4_t x, float32x4_t y) { return vbslq_f32(vcltq_f32(x, y), x, y); }
inline float32x4_t larger(float32x4_t x, float32x4_t y) { return vbslq_f32(vcgtq_f32(x, y), x, y); }
inline Vector smaller(Vector x, Vector y) {  // y, if either is not a number
    return {smaller(x.a, y.a), smaller(x.b, y.b), smaller(x.c, y.c), smaller(x.d, y.d)};
}
inline Vector larger(Vector x, Vector y) {  // likewise
    return {larger(x.a, y.a), larger(x.b, y.b), larger(x.c, y.c), larger(x.d, y.d)};
}
inline float32x4_t where_at_least(float32x4_t x, float32x4_t least, float32x4_t y) {
    return vbslq_f32(vcgeq_f32(x, least), y, vdupq_n_f32(0.0f));
}
inline Vector where_at_least(Vector x, Vector least, Vector y) {  // y where x is at least so much, else 0
    return {where_at_least(x.a, least.a, y.a), where_at_least(x.b, least.b, y.b), where_at_least(x.c, least.c, y.c),
            where_at_least(x.d, least.d, y.d)};
}

// In AVX2's order, to the same bits.
inline float32x4_t sum_to_four(Vector x) { return vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d)); }
inline float sum(Vector x) {
    const float32x4_t four = sum_to_four(x);
    return vpadds_f32(vadd_f32(vget_low_f32(four), vget_high_f32(four)));
}

// The sums of two, before the last addition of each.
inline float32x4_t pairs_of(Vector x, Vector y) {
    const float64x2_t one = vreinterpretq_f64_f32(sum_to_four(x)), other = vreinterpretq_f64_f32(sum_to_four(y));
    return vaddq_f32(vreinterpretq_f32_f64(vzip1q_f64(one, other)), vreinterpretq_f32_f64(vzip2q_f64(one, other)));
}
inline float32x4_t sums_of(Vector x, Vector y, Vector z, Vector w) { return vpaddq_f32(pairs_of(x, y), pairs_of(z, w)); }
// The sums of sixteen, each to the bits that `sum` gives: number 4 j + m is that of `each[4 m + j]`.
inline Vector sums_of(const Vector (&each)[16]) {
    return {sums_of(each[0], each[4], each[8], each[12]), sums_of(each[1], each[5], each[9], each[13]),
            sums_of(each[2], each[6], each[10], each[14]), sums_of(each[3], each[7], each[11], each[15])};
}

inline Vector nearest(Vector x) { return {vrndnq_f32(x.a), vrndnq_f32(x.b), vrndnq_f32(x.c), vrndnq_f32(x.d)}; }

// n is whole, and not so small that a number loses bits: the exponent's bits are those of a float32.
inline float32x4_t times_power_of_2(float32x4_t x, float32x4_t n) {
    const int32x4_t bits = vshlq_n_s32(vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127)), 23);
    return vmulq_f32(x, vreinterpretq_f32_s32(bits));
}
inline Vector times_power_of_2(Vector x, Vector n) {
    return {times_power_of_2(x.a, n.a), times_power_of_2(x.b, n.b), times_power_of_2(x.c, n.c), times_power_of_2(x.d, n.d)};
}

inline float32x4_t widen(uint16x4_t halves) { return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(halves), 16)); }

// To the nearest, of two that are as near to the even one; in the upper half of each number.
inline uint32x4_t rounded_bits(float32x4_t x) {
    const uint32x4_t bits = vreinterpretq_u32_f32(x);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t up = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    return vbslq_u32(vceqq_f32(x, x), up, vdupq_n_u32(0x7fc00000));  // the latter for what is not a number
}
inline float32x4_t rounded_to_bfloat16(float32x4_t x) {
    return vreinterpretq_f32_u32(vandq_u32(rounded_bits(x), vdupq_n_u32(0xffff0000)));
}
inline Vector rounded_to_bfloat16(Vector x) {
    return {rounded_to_bfloat16(x.a), rounded_to_bfloat16(x.b), rounded_to_bfloat16(x.c), rounded_to_bfloat16(x.d)};
}

inline Vector load(const float* from) {
    return {vld1q_f32(from), vld1q_f32(from + 4), vld1q_f32(from + 8), vld1q_f32(from + 12)};
}
inline Vector load(const Bfloat16* from) {
    const uint16x8_t low = vld1q_u16(from), high = vld1q_u16(from + 8);
    return {widen(vget_low_u16(low)), widen(vget_high_u16(low)), widen(vget_low_u16(high)), widen(vget_high_u16(high))};
}
inline float32x4_t widen_half(uint16x4_t halves) { return vcvt_f32_f16(vreinterpret_f16_u16(halves)); }
inline Vector load(const Float16* from) {
    const auto* halves = reinterpret_cast<const uint16_t*>(from);
    const uint16x8_t low = vld1q_u16(halves), high = vld1q_u16(halves + 8);
    return {widen_half(vget_low_u16(low)), widen_half(vget_high_u16(low)), widen_half(vget_low_u16(high)), widen_half(vget_high_u16(high))};
}
inline float32x4_t as_numbers(int16x4_t x) { return vcvtq_f32_s32(vmovl_s16(x)); }
inline Vector as_numbers(int16x8_t x, int16x8_t y) {
    return {as_numbers(vget_low_s16(x)), as_numbers(vget_high_s16(x)), as_numbers(vget_low_s16(y)), as_numbers(vget_high_s16(y))};
}
inline Vector as_numbers(int8x16_t x) { return as_numbers(vmovl_s8(vget_low_s8(x)), vmovl_high_s8(x)); }
inline Vector load(const int8_t* from) { return as_numbers(vld1q_s8(from)); }
// The low halves of sixteen bytes as numbers, and the high ones.
inline Vector load_low_halves(const uint8_t* from) {
    return as_numbers(vreinterpretq_s8_u8(vandq_u8(vld1q_u8(from), vdupq_n_u8(15))));
}
inline Vector load_high_halves(const uint8_t* from) { return as_numbers(vreinterpretq_s8_u8(vshrq_n_u8(vld1q_u8(from), 4))); }

inline void store(float* to, Vector x) {
    vst1q_f32(to, x.a);
    vst1q_f32(to + 4, x.b);
    vst1q_f32(to + 8, x.c);
    vst1q_f32(to + 12, x.d);
}
inline void store(Bfloat16* to, Vector x) {
    vst1q_u16(to, vcombine_u16(vshrn_n_u32(rounded_bits(x.a), 16), vshrn_n_u32(rounded_bits(x.b), 16)));
    vst1q_u16(to + 8, vcombine_u16(vshrn_n_u32(rounded_bits(x.c), 16), vshrn_n_u32(rounded_bits(x.d), 16)));
}
// To the nearest whole number.
inline int16x8_t whole(float32x4_t x, float32x4_t y) {
    return vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(x)), vqmovn_s32(vcvtnq_s32_f32(y)));
}
inline void store(int16_t* to, Vector x) {
    vst1q_s16(to, whole(x.a, x.b));
    vst1q_s16(to + 8, whole(x.c, x.d));
}
inline void store(int8_t* to, Vector x) {
    vst1q_s8(to, vcombine_s8(vqmovn_s16(whole(x.a, x.b)), vqmovn_s16(whole(x.c, x.d))));
}

// Sixteen whole numbers of 32 bits, or 32 of sixteen.
struct Whole {
    int32x4_t a, b, c, d;
};

inline Whole repeat(int32_t x) { return {vdupq_n_s32(x), vdupq_n_s32(x), vdupq_n_s32(x), vdupq_n_s32(x)}; }
inline Whole nothing() { return repeat(0); }
inline Whole load_whole(const int16_t* from) {
    return {vreinterpretq_s32_s16(vld1q_s16(from)), vreinterpretq_s32_s16(vld1q_s16(from + 8)),
            vreinterpretq_s32_s16(vld1q_s16(from + 16)), vreinterpretq_s32_s16(vld1q_s16(from + 24))};
}
inline Whole load_whole(const int8_t* from) {
    const int8x16_t low = vld1q_s8(from), high = vld1q_s8(from + 16);
    return {vreinterpretq_s32_s16(vmovl_s8(vget_low_s8(low))), vreinterpretq_s32_s16(vmovl_high_s8(low)),
            vreinterpretq_s32_s16(vmovl_s8(vget_low_s8(high))), vreinterpretq_s32_s16(vmovl_high_s8(high))};
}
inline Vector as_numbers(Whole x) { return {vcvtq_f32_s32(x.a), vcvtq_f32_s32(x.b), vcvtq_f32_s32(x.c), vcvtq_f32_s32(x.d)}; }
inline Whole plus(Whole x, Whole y) {
    return {vaddq_s32(x.a, y.a), vaddq_s32(x.b, y.b), vaddq_s32(x.c, y.c), vaddq_s32(x.d, y.d)};
}
inline Whole minus(Whole x, int32_t y) { return plus(x, repeat(-y)); }

// Add the products of 32 numbers of sixteen bits, two to each sum.
inline int32x4_t add_products(int32x4_t total, int32x4_t x, int32x4_t y) {
    const int16x8_t own = vreinterpretq_s16_s32(x), other = vreinterpretq_s16_s32(y);
    return vmlal_high_s16(vmlal_s16(total, vget_low_s16(own), vget_low_s16(other)), own, other);
}
inline Whole add_products(Whole total, Whole x, Whole y) {
    return {add_products(total.a, x.a, y.a), add_products(total.b, x.b, y.b), add_products(total.c, x.c, y.c),
            add_products(total.d, x.d, y.d)};
}

struct Bytes64 {
    uint8x16_t a, b, c, d;
};

inline Bytes64 load_bytes(const uint8_t* from) {
    return {vld1q_u8(from), vld1q_u8(from + 16), vld1q_u8(from + 32), vld1q_u8(from + 48)};
}
inline Bytes64 low_halves(Bytes64 x) {
    const uint8x16_t low = vdupq_n_u8(15);
    return {vandq_u8(x.a, low), vandq_u8(x.b, low), vandq_u8(x.c, low), vandq_u8(x.d, low)};
}
inline Bytes64 high_halves(Bytes64 x) { return {vshrq_n_u8(x.a, 4), vshrq_n_u8(x.b, 4), vshrq_n_u8(x.c, 4), vshrq_n_u8(x.d, 4)}; }
inline Bytes64 either(Bytes64 x, Bytes64 y) {
    return {vorrq_u8(x.a, y.a), vorrq_u8(x.b, y.b), vorrq_u8(x.c, y.c), vorrq_u8(x.d, y.d)};
}

// Two bits of each byte, of which the lowest two are place 0, as bits 4 and 5.
template <int PLACE>
inline uint8x16_t two_bits(uint8x16_t x) {
    if constexpr (PLACE < 2)
        x = vshlq_n_u8(x, 4 - 2 * PLACE);
    else if constexpr (PLACE > 2)
        x = vshrq_n_u8(x, 2 * PLACE - 4);
    return vandq_u8(x, vdupq_n_u8(0x30));
}
template <int PLACE>
inline Bytes64 two_bits(Bytes64 x) {
    return {two_bits<PLACE>(x.a), two_bits<PLACE>(x.b), two_bits<PLACE>(x.c), two_bits<PLACE>(x.d)};
}

inline Bytes64 repeat_four(const int8_t* from) {
    uint32_t four;
    std::memcpy(&four, from, sizeof four);
    const uint8x16_t own = vreinterpretq_u8_u32(vdupq_n_u32(four));
    return {own, own, own, own};
}

// Both factors of a product have a sign, so weights of eight bits get theirs back as they are loaded.
constexpr int LEFT_OF_OFFSET = 0;
inline Bytes64 load_weights(const uint8_t* from) {
    const Bytes64 x = load_bytes(from);
    const uint8x16_t offset = vdupq_n_u8(128);
    return {veorq_u8(x.a, offset), veorq_u8(x.b, offset), veorq_u8(x.c, offset), veorq_u8(x.d, offset)};
}

// Add the products of bytes, in fours: those of `x` are codes below 128, or of `load_weights`; of `y` none is -128.
inline int32x4_t add_byte_products(int32x4_t total, uint8x16_t x, uint8x16_t y) {
    const int8x16_t own = vreinterpretq_s8_u8(x), other = vreinterpretq_s8_u8(y);
#ifdef CEDE_DOT
    return vdotq_s32(total, own, other);
#else
    // Sums of two products have sixteen bits.
    const int16x8_t low = vmull_s8(vget_low_s8(own), vget_low_s8(other)), high = vmull_high_s8(own, other);
    return vpadalq_s16(total, vpaddq_s16(low, high));
#endif
}
inline Whole add_byte_products(Whole total, Bytes64 x, Bytes64 y) {
    return {add_byte_products(total.a, x.a, y.a), add_byte_products(total.b, x.b, y.b),
            add_byte_products(total.c, x.c, y.c), add_byte_products(total.d, x.d, y.d)};
}

// `y` plus `x`, or minus it where `signs` has a number's sign.
inline float32x4_t sum_or_difference(float32x4_t x, float32x4_t y, uint32x4_t signs) {
    return vaddq_f32(y, vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(x), signs)));
}
// Four numbers times the Hadamard matrix of their size.
inline float32x4_t spread(float32x4_t x) {
    constexpr uint32_t MINUS = 0x80000000;
    const uint32x4_t odd = {0, MINUS, 0, MINUS}, second = {0, 0, MINUS, MINUS};
    x = sum_or_difference(x, vrev64q_f32(x), odd);
    return sum_or_difference(x, vextq_f32(x, x, 2), second);
}
// Sixteen numbers times the Hadamard matrix of their size, whose numbers are 1 and -1.
inline Vector spread(Vector x) {
    x = {spread(x.a), spread(x.b), spread(x.c), spread(x.d)};
    x = {vaddq_f32(x.a, x.b), vsubq_f32(x.a, x.b), vaddq_f32(x.c, x.d), vsubq_f32(x.c, x.d)};
    return {vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d), vsubq_f32(x.a, x.c), vsubq_f32(x.b, x.d)};
}

// The numbers of four pairs.
inline float32x4_t first_of(uint32x4_t pairs) { return vreinterpretq_f32_u32(vshlq_n_u32(pairs, 16)); }
inline float32x4_t second_of(uint32x4_t pairs) { return vreinterpretq_f32_u32(vandq_u32(pairs, vdupq_n_u32(0xffff0000))); }

// Load sixteen pairs.
inline void load_pairs(const Bfloat16* from, Vector& first, Vector& second) {
    const uint32x4_t pairs[4] = {vreinterpretq_u32_u16(vld1q_u16(from)), vreinterpretq_u32_u16(vld1q_u16(from + 8)),
                                 vreinterpretq_u32_u16(vld1q_u16(from + 16)), vreinterpretq_u32_u16(vld1q_u16(from + 24))};
    first = {first_of(pairs[0]), first_of(pairs[1]), first_of(pairs[2]), first_of(pairs[3])};
    second = {second_of(pairs[0]), second_of(pairs[1]), second_of(pairs[2]), second_of(pairs[3])};
}
