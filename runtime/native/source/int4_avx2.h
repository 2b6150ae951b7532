// Four bits in blocks of 32 outputs, for AVX2.
//
// Inputs become whole numbers of sixteen bits with a power of two for each group, and codes stay whole: an instruction
// multiplies sixteen of each and adds them up in pairs, without loss.  Inputs have eight bits, since they are bfloat16; so
// only what is below a 128th of the group's largest is rounded at all.

constexpr int BLOCK = 32;               // outputs
constexpr int VECTORS = BLOCK / LANES;  // of a block

// A product's inputs as they are multiplied.
//
// What is not a number, or infinite, becomes any number here; the sum of its group spoils the result.
class Inputs {
   public:
    // x: `[rows, in]`, of numbers that bfloat16 can hold
    Inputs(Context& context, const float* x, int rows, int in, int group) : in_(in), group_(group) {
        const size_t count = static_cast<size_t>(rows) * in;
        context.whole.resize(count);
        context.scales.resize(count / group);
        for (size_t i = 0; i < context.scales.size(); ++i) {
            const float* own = x + i * group;
            const float largest = largest_of(own, group);
            const float scale = scale_for(largest);
            const Vector factor = splat(scale > 0.0f ? 1.0f / scale : 0.0f);
            for (int k = 0; k < group; k += LANES) store(context.whole.data() + i * group + k, times(load(own + k), factor));
            context.scales[i] = scale;
        }
        numbers_ = context.whole.data();
        scales_ = context.scales.data();
    }

    const int16_t* of(int row, int group) const { return numbers_ + static_cast<size_t>(row) * in_ + group * group_; }
    float scale(int row, int group) const { return scales_[row * (in_ / group_) + group]; }
    int group_size() const { return group_; }

   private:
    // The power of two of which the largest is 2^14 to 2^15 times; 0 if it is so small that this has no inverse.
    static float scale_for(float largest) {
        uint32_t bits;
        std::memcpy(&bits, &largest, sizeof bits);
        const uint32_t exponent = bits >> 23;
        const uint32_t own = exponent > 14 ? (exponent - 14) << 23 : 0;
        float scale;
        std::memcpy(&scale, &own, sizeof scale);
        return scale;
    }

    static float largest_of(const float* x, int count) {
        Vector most = splat(0.0f);
        for (int k = 0; k < count; k += LANES) {
            const Vector own = load(x + k);
            most = larger(larger(own, subtract(splat(0.0f), own)), most);
        }
        alignas(32) float each[LANES];
        store(each, most);
        float largest = 0.0f;
        for (const float one : each) largest = one > largest ? one : largest;
        return largest;
    }

    int in_, group_;
    const int16_t* numbers_;
    const float* scales_;
};

// The codes of two inputs and the block's outputs: of eight outputs in each vector, a pair for each.
struct Codes {
    __m256i pairs[2 * VECTORS];
};

// weight: the first input's bytes, and the second's.
inline Codes codes_of(const uint8_t* weight) {
    const __m256i fours = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    const __m256i order = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,  //
                                           0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m256i nibble = _mm256_set1_epi16(15);
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weight));
    // Each four bytes are those of output i and i + 8 of the first input, and the same of the second.
    const __m256i mixed = _mm256_shuffle_epi8(_mm256_permutevar8x32_epi32(bytes, fours), order);
    return {{_mm256_and_si256(mixed, nibble), _mm256_and_si256(_mm256_srli_epi16(mixed, 8), nibble),
             _mm256_and_si256(_mm256_srli_epi16(mixed, 4), nibble), _mm256_srli_epi16(mixed, 12)}};
}

// Sums of inputs times codes, of a group.
//
// weight: the group's bytes of a block.  There are sixteen registers, which have room for two rows' sums.
template <int ROWS>
inline void multiply_group(const Inputs& x, int first, int group, const uint8_t* weight, Vector (&y)[ROWS][VECTORS]) {
    constexpr int AT_ONCE = ROWS < 2 ? 1 : 2;
    for (int from = 0; from < ROWS; from += AT_ONCE) {
        const int16_t* own[AT_ONCE];
        __m256i total[AT_ONCE][2 * VECTORS];
        for (int i = 0; i < AT_ONCE; ++i) {
            own[i] = x.of(first + (from + i < ROWS ? from + i : from), group);
            for (__m256i& one : total[i]) one = _mm256_setzero_si256();
        }
        for (int k = 0; k < x.group_size(); k += 2) {
            const Codes codes = codes_of(weight + static_cast<size_t>(k) * (BLOCK / 2));
            for (int i = 0; i < AT_ONCE; ++i) {
                int32_t two;
                std::memcpy(&two, own[i] + k, sizeof two);
                const __m256i inputs = _mm256_set1_epi32(two);
                for (int j = 0; j < 2 * VECTORS; ++j)
                    total[i][j] = _mm256_add_epi32(total[i][j], _mm256_madd_epi16(inputs, codes.pairs[j]));
            }
        }
        for (int i = 0; i < AT_ONCE && from + i < ROWS; ++i) {
            const Vector scale = splat(x.scale(first + from + i, group));
            for (int j = 0; j < VECTORS; ++j)
                y[from + i][j] = times(scale, {_mm256_cvtepi32_ps(total[i][2 * j]), _mm256_cvtepi32_ps(total[i][2 * j + 1])});
        }
    }
}
