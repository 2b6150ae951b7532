// Layers of several sizes with random numbers, by each set of instructions that the processor has, on one thread and on
// three, with weights read in order by one of these and in several streams by the other: the same bits, and nothing for a
// sanitizer.
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

void* open(int threads) {
    auto* context = static_cast<Context*>(cede_open(threads));
    context->in_order = threads == 1;
    return context;
}

bool is_of_codes(Kind kind) { return kind == NIBBLES || kind == NIBBLES_WITHOUT_ZEROS || kind == SIX_BITS; }

// A matrix of some kind with random weights, as many as it has.
struct Drawn {
    Drawn(Kind kind, int out, int in, int group, bool has_bias) {
        void* weight = nullptr;
        if (is_of_codes(kind)) {
            const size_t scales = kind == NIBBLES ? 64 : 32, codes = static_cast<size_t>(group) * (kind == SIX_BITS ? 12 : 8);
            weight = bytes_of((scales + codes) * (in / group) * (out / 16));
            for (size_t i = 0; i < bytes.size(); i += scales + codes) std::memset(bytes.data() + i, 0x3c, scales);  // of 0.01
        } else if (kind == FOUR_BITS) {
            scales = numbers<Bfloat16>(2ul * out * in / group, 0.02f);
            weight = bytes_of(static_cast<size_t>(out) * in / 2);
        } else if (kind == ROWS_OF_INT8) {
            scales = numbers<Bfloat16>(out, 0.002f);
            weight = bytes_of(static_cast<size_t>(out) * in);
        } else if (kind == SPREAD_BYTES) {
            full = numbers<float>(out, 0.002f);
            weight = bytes_of(static_cast<size_t>(out) * in);
        } else if (kind == ROWS_OF_FLOAT32 || kind == PANELS_OF_FLOAT32) {
            full = numbers<float>(static_cast<size_t>(out) * in, 0.1f);
            weight = full.data();
        } else {
            half = numbers<Bfloat16>(static_cast<size_t>(out) * in, 0.1f);
            weight = half.data();
        }
        if (has_bias) bias = numbers<float>(out);
        const void* own_scales = kind == SPREAD_BYTES ? static_cast<const void*>(full.data()) : scales.data();
        own = {weight, own_scales, has_bias ? bias.data() : nullptr, kind, out, in, group, nullptr};
    }
    void* bytes_of(size_t count) {
        bytes.resize(count);
        for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(dice());
        bytes.shrink_to_fit();
        return bytes.data();
    }
    std::vector<uint8_t> bytes;
    std::vector<float> full, bias;
    std::vector<Bfloat16> half, scales;
    Matrix own;
};

struct Shape {
    int hidden, heads, kv_heads, dim, inner, group;
    bool extras;
};

template <class T>
bool same(int target, Kind kind, const Shape& shape, int rows_of_each, int sequences, int length) {
    const auto [hidden, heads, kv_heads, dim, inner, group, extras] = shape;
    const int all_heads = heads + 2 * kv_heads, rows = rows_of_each * sequences;
    const int rotary = extras && dim % (4 * LANES) == 0 ? dim / 2 : dim;
    // Of a shape with extras, values and the second half of what is gated are matrices of their own.
    const int values = extras ? kv_heads * dim : 0, up = extras ? inner : 0;
    Drawn qkv(kind, all_heads * dim - values, hidden, group, extras), output(kind, hidden, heads * dim, group, false);
    Drawn gate_up(kind, 2 * inner - up, hidden, group, extras), down(kind, hidden, inner, group, extras);
    const Drawn own_values(kind, values, hidden, group, false), own_up(kind, up, hidden, group, true);
    if (extras) {
        qkv.own.next = &own_values.own;
        gate_up.own.next = &own_up.own;
    }
    const auto first_norm = numbers<float>(hidden), second_norm = numbers<float>(hidden);
    const auto head_norm = numbers<float>(static_cast<size_t>(heads + kv_heads) * dim);
    const auto after = numbers<float>(hidden);
    const Norm none{nullptr, 0.0f}, norm_after{extras ? after.data() : nullptr, 0.01f};
    const Norm before_attention{first_norm.data(), 0.01f}, before_mlp{second_norm.data(), 0.01f};
    const Layer layer{hidden, heads, kv_heads, dim, inner, sizeof(T) == sizeof(Bfloat16), extras ? 9 : 0, extras, rotary,
                      before_attention, norm_after, before_mlp, norm_after,
                      extras ? Norm{head_norm.data(), 0.01f} : none, 0.1f, 1.0f,
                      qkv.own, output.own, gate_up.own, down.own};
    const auto states = numbers<T>(static_cast<size_t>(rows) * hidden), kv = numbers<T>(2ul * kv_heads * length * dim * sequences);
    const auto cos = numbers<T>(static_cast<size_t>(rows) * rotary), sin = numbers<T>(static_cast<size_t>(rows) * rotary);
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
        void* context = open(threads);
        for (int again = 0; again < 10; ++again) cede_run_layer(context, target, &layer, &step);
        cede_close(context);
    }
    return std::memcmp(results[0].data(), results[1].data(), results[0].size() * sizeof(T)) == 0 &&
           std::memcmp(caches[0].data(), caches[1].data(), caches[0].size() * sizeof(T)) == 0;
}

// All weights of a matrix of four bits, in full.
template <class T>
bool same_expanded(int target, int out, int in, int group) {
    const Drawn matrix(FOUR_BITS, out, in, group, false);
    std::vector<T> results[2];
    for (const int threads : {1, 3}) {
        auto& own = results[threads / 2];
        own.resize(static_cast<size_t>(out) * in);
        own.shrink_to_fit();
        void* context = cede_open(threads);
        for (int again = 0; again < 10; ++again)
            cede_expand(context, target, threads, &matrix.own, sizeof(T) == sizeof(Bfloat16), own.data());
        cede_close(context);
    }
    return std::memcmp(results[0].data(), results[1].data(), results[0].size() * sizeof(T)) == 0;
}

// A product alone.
template <class T>
bool same_product(int target, Kind kind, int out, int in, int rows) {
    const Drawn matrix(kind, out, in, 32, true);
    const auto x = numbers<T>(static_cast<size_t>(rows) * in);
    std::vector<float> results[2];
    for (const int threads : {1, 3}) {
        auto& own = results[threads / 2];
        own.resize(static_cast<size_t>(rows) * out);
        own.shrink_to_fit();
        void* context = open(threads);
        for (int again = 0; again < 10; ++again)
            cede_multiply(context, target, threads, &matrix.own, sizeof(T) == sizeof(Bfloat16), x.data(), rows, own.data());
        cede_close(context);
    }
    return std::memcmp(results[0].data(), results[1].data(), results[0].size() * sizeof(float)) == 0;
}

// Several numbers of rows, behind several lengths.
bool all_same(int target, Kind kind, const Shape& shape) {
    for (const int rows : {1, 2, 3, 9})
        for (const int length : {rows, 17, 40}) {
            if (length < rows) continue;
            if (same<float>(target, kind, shape, rows, 1, length) && same<Bfloat16>(target, kind, shape, 1, rows, length))
                continue;
            std::printf("%s, kind %d, hidden %d, %d rows, length %d: threads differ\n", cede_target(target), kind,
                        shape.hidden, rows, length);
            return false;
        }
    return true;
}

}  // namespace

int main() {
    const Shape shapes[] = {{64, 2, 1, 32, 64, 32, false}, {128, 6, 2, 64, 192, 64, true}, {192, 3, 3, 64, 128, 16, false}};
    // In no larger pieces than rows are, and than those of int8.
    const Shape odd{80, 5, 1, 32, 48, 16, true}, odd_int8{96, 5, 1, 32, 160, 16, true};
    bool is_supported = false;
    for (int target = 0; cede_target(target); ++target) {
        if (!cede_is_supported(target)) continue;
        is_supported = true;
        for (const int group : {16, 32, 64})
            if (!same_expanded<float>(target, 192, 128, group) || !same_expanded<Bfloat16>(target, 64, 192, group)) {
                std::printf("%s, groups of %d: threads expand differently\n", cede_target(target), group);
                return 1;
            }
        for (const Kind kind :
             {FOUR_BITS, ROWS_OF_FLOAT32, ROWS_OF_BFLOAT16, ROWS_OF_INT8, PANELS_OF_FLOAT32, PANELS_OF_BFLOAT16,
              SPREAD_BYTES, NIBBLES, NIBBLES_WITHOUT_ZEROS, SIX_BITS}) {
            const bool of_bytes = kind == SPREAD_BYTES || is_of_codes(kind);
            for (const int rows : {1, 8, 32, 131}) {
                if (rows > MOST_ROWS && kind != FOUR_BITS && !of_bytes) continue;
                const int in = of_bytes ? 128 : 96;
                if (same_product<float>(target, kind, 192, 64, rows) && same_product<Bfloat16>(target, kind, 64, in, rows))
                    continue;
                std::printf("%s, kind %d: threads multiply differently\n", cede_target(target), kind);
                return 1;
            }
            for (const Shape& shape : shapes) {
                const bool takes = kind == FOUR_BITS || (shape.extras && (!is_of_codes(kind) || kind == SIX_BITS || shape.group % 32 == 0));
                if (takes && !all_same(target, kind, shape)) return 1;
            }
            const bool in_rows = kind == ROWS_OF_FLOAT32 || kind == ROWS_OF_BFLOAT16;
            if (in_rows && !all_same(target, kind, odd)) return 1;
            if (kind == ROWS_OF_INT8 && !all_same(target, kind, odd_int8)) return 1;
        }
    }
    std::puts(is_supported ? "same" : "not supported");
    return 0;
}

#else

int main() { return std::puts("not supported") < 0; }

#endif
