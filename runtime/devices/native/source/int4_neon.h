// Four bits in blocks of 32 outputs, for NEON.
//
// Inputs are whole numbers (`whole.h`), and so are codes: an instruction multiplies one input with the codes of four
// outputs and adds them up, without loss.

constexpr int BLOCK = 32;               // outputs
constexpr int VECTORS = BLOCK / LANES;  // of a block
constexpr int ROWS_AT_ONCE = 2;         // for whose sums, and a block's codes, there are registers
constexpr bool IS_FOR_MANY_ROWS = true;  // never measured

using Inputs = WholeInputs;

constexpr int EIGHTS = BLOCK / 8;  // of a block's outputs

// Unpack the codes of an input and the block's outputs: of eight outputs in each vector.
inline void unpack(const uint8_t* weight, int16x8_t (&codes)[EIGHTS]) {
    const uint8x16_t bytes = vld1q_u8(weight);
    const int8x16_t low = vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(15)));
    const int8x16_t high = vreinterpretq_s8_u8(vshrq_n_u8(bytes, 4));
    codes[0] = vmovl_s8(vget_low_s8(low));
    codes[1] = vmovl_high_s8(low);
    codes[2] = vmovl_s8(vget_low_s8(high));
    codes[3] = vmovl_high_s8(high);
}

// A group's codes, unpacked as they are read.
class CodesInPlace {
   public:
    // weight: the group's bytes of a block.
    CodesInPlace(const uint8_t* weight, int) : weight_(weight) {}
    void get(int k, int16x8_t (&codes)[EIGHTS]) const { unpack(weight_ + static_cast<size_t>(k) * (BLOCK / 2), codes); }

   private:
    const uint8_t* weight_;
};

// A group's codes, unpacked before, for whoever reads them again and again.
class CodesUnpacked {
   public:
    CodesUnpacked(const uint8_t* weight, int group) {
        for (int k = 0; k < group; ++k) {
            int16x8_t codes[EIGHTS];
            unpack(weight + static_cast<size_t>(k) * (BLOCK / 2), codes);
            for (int j = 0; j < EIGHTS; ++j) own_[k * EIGHTS + j] = codes[j];
        }
    }
    void get(int k, int16x8_t (&codes)[EIGHTS]) const {
        for (int j = 0; j < EIGHTS; ++j) codes[j] = own_[k * EIGHTS + j];
    }

   private:
    int16x8_t own_[MOST_IN_GROUP * EIGHTS];
};

// Sums of inputs times codes, of a group.
template <int ROWS, class GroupCodes>
inline void multiply_group(const Inputs& x, size_t first, int group, const GroupCodes& weight, Vector (&y)[ROWS][VECTORS]) {
    const int16_t* own[ROWS];
    int32x4_t total[ROWS][2 * EIGHTS];
    for (int row = 0; row < ROWS; ++row) {
        own[row] = x.of(first + row, group);
        for (int32x4_t& one : total[row]) one = vdupq_n_s32(0);
    }
    for (int k = 0; k < x.group_size(); ++k) {
        int16x8_t codes[EIGHTS];
        weight.get(k, codes);
        for (int row = 0; row < ROWS; ++row)
            for (int j = 0; j < EIGHTS; ++j) {
                total[row][2 * j] = vmlal_n_s16(total[row][2 * j], vget_low_s16(codes[j]), own[row][k]);
                total[row][2 * j + 1] = vmlal_high_n_s16(total[row][2 * j + 1], codes[j], own[row][k]);
            }
    }
    for (int row = 0; row < ROWS; ++row) {
        const Vector scale = splat(x.scale(first + row, group));
        for (int j = 0; j < VECTORS; ++j) {
            const int32x4_t* sums = total[row] + 4 * j;
            y[row][j] = times(scale, as_numbers(Whole{sums[0], sums[1], sums[2], sums[3]}));
        }
    }
}
