// Layers of several sizes with random numbers, by each set of instructions that the processor has, on one thread and on
// three: the same bits, and nothing for a sanitizer.
// Every buffer is as large as it has to be and no larger, so that a read behind its end is found.

#include <cstdio>
#include <cstring>
#include <random>

#include "layer.cpp"

#ifdef CEDE_HAS_KERNELS

namespace {

using namespace cede;

std::mt19937 dice(1);

float number() { return std::uniform_real_distribution<float>(-1.0f, 1.0f)(dice); }

Bfloat16 half(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return static_cast<Bfloat16>(bits >> 16);
}

template <class T>
T as(float x);
template <>
float as<float>(float x) { return x; }
template <>
Bfloat16 as<Bfloat16>(float x) { return half(x); }

template <class T>
std::vector<T> numbers(size_t count, float scale = 1.0f) {
    std::vector<T> made(count);
    for (T& one : made) one = as<T>(scale * number());
    made.shrink_to_fit();
    return made;
}

struct Matrix {
    Matrix(int out, int in, int group, bool has_bias)
        : codes(static_cast<size_t>(out) * in / 2), scales_zeros(numbers<Bfloat16>(2ul * out * in / group, 0.02f)) {
        for (uint8_t& byte : codes) byte = static_cast<uint8_t>(dice());
        if (has_bias) bias = numbers<float>(out);
        own = {codes.data(), scales_zeros.data(), has_bias ? bias.data() : nullptr, out, in, group};
    }
    std::vector<uint8_t> codes;
    std::vector<Bfloat16> scales_zeros;
    std::vector<float> bias;
    Int4 own;
};

struct Shape {
    int hidden, heads, kv_heads, dim, inner, group;
    bool extras;
};

template <class T>
bool same(int target, const Shape& shape, int rows_of_each, int sequences, int length) {
    const auto [hidden, heads, kv_heads, dim, inner, group, extras] = shape;
    const int all_heads = heads + 2 * kv_heads, rows = rows_of_each * sequences;
    const Matrix qkv(all_heads * dim, hidden, group, extras), output(hidden, heads * dim, group, false);
    const Matrix gate_up(2 * inner, hidden, group, extras), down(hidden, inner, group, extras);
    const auto first_norm = numbers<float>(hidden), second_norm = numbers<float>(hidden);
    const auto head_norm = numbers<float>(static_cast<size_t>(heads + kv_heads) * dim);
    const Layer layer{hidden,  heads,      kv_heads,   dim, inner, sizeof(T) == sizeof(Bfloat16), first_norm.data(),
                      second_norm.data(), extras ? head_norm.data() : nullptr, 0.01f, 0.01f, 0.01f, 0.1f, 1.0f,
                      qkv.own, output.own, gate_up.own, down.own};
    const auto states = numbers<T>(static_cast<size_t>(rows) * hidden), kv = numbers<T>(2ul * kv_heads * length * dim * sequences);
    const auto cos = numbers<T>(static_cast<size_t>(rows) * dim), sin = numbers<T>(static_cast<size_t>(rows) * dim);
    std::vector<T> results[2], caches[2];
    for (const int threads : {1, 3}) {
        auto &own = results[threads / 2], &cache = caches[threads / 2];
        own = states;
        cache = kv;
        std::vector<Segment> segments;
        const size_t one = static_cast<size_t>(kv_heads) * length * dim;
        for (int i = 0; i < sequences; ++i)
            segments.push_back({i * rows_of_each, rows_of_each, cache.data() + 2 * i * one,
                                cache.data() + (2 * i + 1) * one, static_cast<int64_t>(length) * dim, length});
        const Step step{rows, sequences, threads, own.data(), cos.data(), sin.data(), segments.data()};
        void* context = cede_open(threads);
        for (int again = 0; again < 20; ++again) cede_run_layer(context, target, &layer, &step);
        cede_close(context);
    }
    return std::memcmp(results[0].data(), results[1].data(), results[0].size() * sizeof(T)) == 0 &&
           std::memcmp(caches[0].data(), caches[1].data(), caches[0].size() * sizeof(T)) == 0;
}

}  // namespace

int main() {
    const Shape shapes[] = {{64, 2, 1, 32, 64, 32, false}, {128, 6, 2, 32, 192, 64, true}, {192, 3, 3, 64, 128, 16, true}};
    bool is_supported = false;
    for (int target = 0; cede_target(target); ++target) {
        if (!cede_is_supported(target)) continue;
        is_supported = true;
        for (const Shape& shape : shapes)
            for (const int rows : {1, 2, 3, 8})
                for (const int length : {rows, 17, 40}) {
                    if (length < rows) continue;
                    if (same<float>(target, shape, rows, 1, length) && same<Bfloat16>(target, shape, 1, rows, length))
                        continue;
                    std::printf("%s, hidden %d, %d rows, length %d: threads differ\n", cede_target(target), shape.hidden,
                                rows, length);
                    return 1;
                }
    }
    std::puts(is_supported ? "same" : "not supported");
    return 0;
}

#else

int main() { return std::puts("not supported") < 0; }

#endif
