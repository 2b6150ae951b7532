// A product's inputs as whole numbers of sixteen bits, with a power of two for each group of them.
//
// Products with weights that are whole numbers, too, are then sums without loss.  Inputs have eight bits, since they are
// bfloat16; so only what is below a 128th of the group's largest is rounded at all.

class WholeInputs {
   public:
    WholeInputs(Context& context, int rows, int in, int group) : in_(in), group_(group) {
        context.whole.resize(static_cast<size_t>(rows) * in);
        context.scales.resize(static_cast<size_t>(rows) * (in / group));
        numbers_ = context.whole.data();
        scales_ = context.scales.data();
    }

    // x: `[in]`, of numbers that bfloat16 can hold
    void take(size_t row, const float* x) {
        for (int first = 0; first < in_; first += group_) {
            const float scale = scale_for(largest_of(x + first, group_));
            const Vector factor = splat(scale > 0.0f ? 1.0f / scale : 0.0f);
            Vector nothing = splat(0.0f);
            int16_t* to = numbers_ + row * in_ + first;
            for (int k = 0; k < group_; k += LANES) {
                const Vector own = load(x + first + k);
                nothing = times_plus(own, splat(0.0f), nothing);
                store(to + k, times(own, factor));
            }
            // Where an input is infinite or no number, the scale is none, so that the group's products are none.
            scales_[row * (in_ / group_) + first / group_] = scale + sum(nothing);
        }
    }

    const int16_t* of(size_t row, int group) const { return numbers_ + row * in_ + group * group_; }
    float scale(size_t row, int group) const { return scales_[row * (in_ / group_) + group]; }
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
        return largest_number(most);
    }

    int in_, group_;
    int16_t* numbers_;
    float* scales_;
};
