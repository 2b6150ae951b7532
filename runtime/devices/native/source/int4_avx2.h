// Four bits in blocks of 32 outputs, for AVX2.
//
// Inputs are whole numbers (`whole.h`), and so are codes: an instruction multiplies sixteen of each and adds them up in
// pairs, without loss.

constexpr int BLOCK = 32;               // outputs
constexpr int VECTORS = BLOCK / LANES;  // of a block
constexpr int ROWS_AT_ONCE = 2;         // for whose sums, and a block's codes, there are registers
constexpr bool IS_FOR_MANY_ROWS = true;  // faster than full weights in PyTorch's products, bench/LOG.md

using Inputs = WholeInputs;

// Unpack the codes of two inputs and the block's outputs: of eight outputs in each vector, a pair for each.
//
// weight: the first input's bytes, and the second's.
inline void unpack(const uint8_t* weight, __m256i (&pairs)[2 * VECTORS]) {
    const __m256i fours = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    const __m256i order = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,  //
                                           0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m256i nibble = _mm256_set1_epi16(15);
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weight));
    // Each four bytes are those of output i and i + 8 of the first input, and the same of the second.
    const __m256i mixed = _mm256_shuffle_epi8(_mm256_permutevar8x32_epi32(bytes, fours), order);
    pairs[0] = _mm256_and_si256(mixed, nibble);
    pairs[1] = _mm256_and_si256(_mm256_srli_epi16(mixed, 8), nibble);
    pairs[2] = _mm256_and_si256(_mm256_srli_epi16(mixed, 4), nibble);
    pairs[3] = _mm256_srli_epi16(mixed, 12);
}

// A group's codes, unpacked as they are read.
class CodesInPlace {
   public:
    // weight: the group's bytes of a block.
    CodesInPlace(const uint8_t* weight, int) : weight_(weight) {}
    void get(int k, __m256i (&pairs)[2 * VECTORS]) const { unpack(weight_ + static_cast<size_t>(k) * (BLOCK / 2), pairs); }

   private:
    const uint8_t* weight_;
};

// A group's codes, unpacked before, for whoever reads them again and again.
class CodesUnpacked {
   public:
    CodesUnpacked(const uint8_t* weight, int group) {
        for (int k = 0; k < group; k += 2) {
            __m256i pairs[2 * VECTORS];
            unpack(weight + static_cast<size_t>(k) * (BLOCK / 2), pairs);
            for (int j = 0; j < 2 * VECTORS; ++j) _mm256_store_si256(own_ + k * VECTORS + j, pairs[j]);
        }
    }
    void get(int k, __m256i (&pairs)[2 * VECTORS]) const {
        for (int j = 0; j < 2 * VECTORS; ++j) pairs[j] = _mm256_load_si256(own_ + k * VECTORS + j);
    }

   private:
    __m256i own_[MOST_IN_GROUP * VECTORS];
};

// Sums of inputs times codes, of a group.
template <int ROWS, class GroupCodes>
inline void multiply_group(const Inputs& x, size_t first, int group, const GroupCodes& weight, Vector (&y)[ROWS][VECTORS]) {
    const int16_t* own[ROWS];
    __m256i total[ROWS][2 * VECTORS];
    for (int row = 0; row < ROWS; ++row) {
        own[row] = x.of(first + row, group);
        for (__m256i& one : total[row]) one = _mm256_setzero_si256();
    }
    for (int k = 0; k < x.group_size(); k += 2) {
        __m256i pairs[2 * VECTORS];
        weight.get(k, pairs);
        for (int row = 0; row < ROWS; ++row) {
            int32_t two;
            std::memcpy(&two, own[row] + k, sizeof two);
            const __m256i inputs = _mm256_set1_epi32(two);
            for (int j = 0; j < 2 * VECTORS; ++j)
                total[row][j] = _mm256_add_epi32(total[row][j], _mm256_madd_epi16(inputs, pairs[j]));
        }
    }
    for (int row = 0; row < ROWS; ++row) {
        const Vector scale = splat(x.scale(first + row, group));
        for (int j = 0; j < VECTORS; ++j)
            y[row][j] = times(scale, {_mm256_cvtepi32_ps(total[row][2 * j]), _mm256_cvtepi32_ps(total[row][2 * j + 1])});
    }
}
