// Layers, products and matrices of random numbers, computed by one set of instructions.
// Every buffer is as large as it has to be and no larger, so that a read behind its end is found.

#pragma once

#include <cstring>
#include <random>
#include <utility>

#include "layer.cpp"

#ifdef CEDE_HAS_KERNELS

namespace cede::drawn {

// The same numbers everywhere, as those of the standard library's distributions need not be.
inline std::mt19937 dice(1);

// From -1 to 1.
inline float number() { return static_cast<float>(static_cast<int>(dice() >> 8) - (1 << 23)) / (1 << 23); }

inline Bfloat16 half(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return static_cast<Bfloat16>(bits >> 16);
}

template <class T>
T as(float x);
template <>
inline float as<float>(float x) { return x; }
template <>
inline Bfloat16 as<Bfloat16>(float x) { return half(x); }

template <class T>
std::vector<T> numbers(size_t count, float scale = 1.0f) {
    std::vector<T> made(count);
    for (T& one : made) one = as<T>(scale * number());
    made.shrink_to_fit();
    return made;
}

inline bool is_of_codes(Kind kind) { return kind == NIBBLES || kind == NIBBLES_WITHOUT_ZEROS || kind == SIX_BITS; }

// A matrix of some kind with random weights, as many as it has.
struct Drawn {
    Drawn(Kind kind, int out, int in, int group, bool has_bias) {
        void* weight = nullptr;
        if (is_of_codes(kind)) {
            const size_t scales = kind == NIBBLES ? 64 : 32, codes = static_cast<size_t>(group) * (kind == SIX_BITS ? 12 : 8);
            weight = bytes_of((scales + codes) * (in / group) * (out / 16));
            for (size_t i = 0; i < bytes.size(); i += scales + codes) {
                const auto own = numbers<Bfloat16>(scales / sizeof(Bfloat16), 0.02f);
                std::memcpy(bytes.data() + i, own.data(), scales);
            }
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
        } else {  // of float16 the same bits, which are numbers of up to 1.5
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
    int width = 0;  // of a convolution; 0 for attention
    Rule rule = GATE;  // behind that, with the heads of keys for groups
    int size = 0;      // numbers of a group

    size_t inner_numbers() const { return static_cast<size_t>(heads) * dim; }
    size_t channels() const { return inner_numbers() + 2ul * kv_heads * size; }
};

// Weights are read in order by one thread, and in several streams by more.
inline void* open(int threads) {
    auto* context = static_cast<Context*>(cede_open(threads));
    context->in_order = threads == 1;
    return context;
}

constexpr int PAGE_ROWS = 64;  // as in `attention.h`

// What is left of a run: hidden states; keys and values, or rows that convolutions have kept; and matrices of heads.
template <class T>
struct Left {
    std::vector<T> hidden, kept;
    std::vector<float> matrices;
};

// Run two layers of the same weights some times, always of the same random numbers.
template <class T>
Left<T> run_layer(int target, Kind kind, const Shape& shape, int rows_of_each, int sequences, int length, int threads, int times) {
    dice.seed(1);
    const auto [hidden, heads, kv_heads, dim, inner, group, extras, width, rule, size] = shape;
    const int numbers_of_heads = heads * dim, channels = static_cast<int>(shape.channels()), rows = rows_of_each * sequences;
    const int rotary = extras && dim % (4 * LANES) == 0 ? dim / 2 : dim, whole = (heads + LANES - 1) / LANES * LANES;
    const int projected = rule ? channels + numbers_of_heads : width ? 3 * channels : numbers_of_heads + 2 * kv_heads * dim;
    // Of a shape with extras, values and gates, and the second half of what is gated, are matrices of their own.
    const bool is_gated = extras && !width;
    const int values = extras ? kv_heads * dim : 0, gates = is_gated ? numbers_of_heads : 0, up = extras ? inner : 0;
    Drawn input(kind, projected - values, hidden, group, extras), output(kind, hidden, numbers_of_heads, group, false);
    Drawn gate_up(kind, 2 * inner - up, hidden, group, extras), down(kind, hidden, inner, group, extras);
    const Drawn rates(sizeof(T) == sizeof(float) ? ROWS_OF_FLOAT32 : ROWS_OF_BFLOAT16, 2 * whole, hidden, group, false);
    Drawn own_values(kind, values + gates, hidden, group, false);
    const Drawn own_up(kind, up, hidden, group, true);
    if (rule) (extras ? own_values : input).own.next = &rates.own;
    if (extras) {
        input.own.next = &own_values.own;
        gate_up.own.next = &own_up.own;
    }
    const auto first_norm = numbers<float>(hidden), second_norm = numbers<float>(hidden);
    const auto head_norm = numbers<float>(static_cast<size_t>(heads + kv_heads) * dim);
    const auto after = numbers<float>(hidden);
    const Norm none{nullptr, 0.0f}, norm_after{extras ? after.data() : nullptr, 0.01f};
    const Norm before_attention{first_norm.data(), 0.01f}, before_mlp{second_norm.data(), 0.01f};
    const auto taps = numbers<float>(static_cast<size_t>(width) * channels), bias = numbers<float>(channels);
    auto decay = numbers<float>(whole), rate_bias = numbers<float>(whole), skip = numbers<float>(heads);
    for (float& one : decay) one = -std::fabs(one);
    // Of a sequence, keys and values; or what is kept before its rows, behind its first, and behind its last.
    std::vector<int32_t> pages((length + PAGE_ROWS - 1) / PAGE_ROWS);  // the last first
    for (size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<int32_t>(pages.size() - 1 - i);
    const size_t head = pages.size() * PAGE_ROWS * dim;
    const size_t one = kv_heads * head, state = width ? static_cast<size_t>(width - 1) * channels : 0;
    const size_t of_sequence = width ? 3 * state : 2 * one, matrix = rule ? static_cast<size_t>(numbers_of_heads) * size : 0;
    Left<T> left{numbers<T>(static_cast<size_t>(rows) * hidden), numbers<T>(2 * of_sequence * sequences),
                 numbers<float>(2 * 3 * matrix * sequences)};
    const auto in_bytes = [](auto& all, size_t second, size_t each) {
        return Part{reinterpret_cast<char*>(all.data() + second * all.size() / 2), static_cast<int64_t>(each * sizeof all[0])};
    };
    const auto layer_of = [&](size_t i) {
        const Convolution convolution{taps.data(), extras ? bias.data() : nullptr, width, width ? channels : 0, in_bytes(left.kept, i, state)};
        const int before = rule == STATE_SPACE ? numbers_of_heads : 0;  // what is convolved, or behind it
        const Recurrence recurrence{rule, heads, kv_heads, dim, size, before, before ? 0 : channels, channels + numbers_of_heads,
                                    decay.data(), rate_bias.data(), skip.data(), extras ? 2.0f : 1.0f, Norm{head_norm.data(), 0.01f},
                                    in_bytes(left.matrices, i, matrix)};
        return Layer{hidden, heads, kv_heads, dim, sizeof(T) == sizeof(Bfloat16), inner, extras ? 9 : 0, extras, rotary,
                     extras && kv_heads > 1, is_gated, before_attention, norm_after, before_mlp, norm_after,
                     extras ? Norm{head_norm.data(), 0.01f} : none, 0.1f, 1.0f, convolution, recurrence,
                     input.own, output.own, gate_up.own, down.own};
    };
    const Layer first = layer_of(0), second = layer_of(1);
    const auto cos = numbers<T>(static_cast<size_t>(rows) * rotary), sin = numbers<T>(static_cast<size_t>(rows) * rotary);
    const auto query_scale = numbers<float>(rows);
    std::vector<Segment> segments;
    std::vector<State> wanted;
    for (int i = 0; i < sequences; ++i) {
        wanted.push_back({1, 3 * i + 1});
        wanted.push_back({rows_of_each, 3 * i + 2});
    }
    for (int i = 0; i < sequences; ++i) {
        T* own = left.kept.data() + i * of_sequence;
        segments.push_back({i * rows_of_each, rows_of_each, own, own + one, static_cast<int64_t>(head), length, 0, pages.data(),
                            3 * i, 2, wanted.data() + 2 * i});
    }
    const Step step{rows, sequences, threads, left.hidden.data(), cos.data(), sin.data(),
                    extras ? query_scale.data() : nullptr, segments.data(), 0, nullptr, nullptr};
    void* context = open(threads);
    const int32_t targets[] = {target, target};
    const Layer* const layers[] = {&first, &second};
    const int64_t shifts[] = {0, static_cast<int64_t>(left.kept.size() / 2 * sizeof(T))};
    const Stack stack{2, targets, layers, shifts};
    const int32_t unset = 0;
    const int32_t* const mark = &unset;
    const Marks marks{1, &mark};
    int64_t ended[2];
    for (int again = 0; again < times; ++again) cede_run_layers(context, &stack, 0, &step, &marks, INT64_MAX, ended);
    cede_close(context);
    return left;
}

// All weights of a matrix of four bits, in full, likewise.
template <class T>
std::vector<T> expand(int target, int out, int in, int group, int threads, int times) {
    dice.seed(1);
    const Drawn matrix(FOUR_BITS, out, in, group, false);
    std::vector<T> own(static_cast<size_t>(out) * in);
    own.shrink_to_fit();
    void* context = open(threads);
    for (int again = 0; again < times; ++again)
        cede_expand(context, target, threads, &matrix.own, sizeof(T) == sizeof(Bfloat16), own.data());
    cede_close(context);
    return own;
}

// A product alone, likewise.
template <class T>
std::vector<float> multiply(int target, Kind kind, int out, int in, int group, int rows, int threads, int times) {
    dice.seed(1);
    const Drawn matrix(kind, out, in, group, true);
    const auto x = numbers<T>(static_cast<size_t>(rows) * in);
    std::vector<float> own(static_cast<size_t>(rows) * out);
    own.shrink_to_fit();
    void* context = open(threads);
    for (int again = 0; again < times; ++again)
        cede_multiply(context, target, threads, &matrix.own, sizeof(T) == sizeof(Bfloat16), x.data(), rows, own.data());
    cede_close(context);
    return own;
}

// The tokens of rows of logits, likewise: in whole numbers, so that many are alike, or not, and some of them banned.
inline std::vector<float> draw(int target, int vocab, int threads, int times) {
    dice.seed(1);
    std::vector<Draw> draws;
    for (const float temperature : {0.0f, 0.5f, 3.0f})
        for (const int top_k : {0, 1, 20})
            for (const float top_p : {0.0f, 0.7f, 1.0f})
                for (const float min_p : {0.0f, 0.1f}) draws.push_back({temperature, top_k, top_p, min_p, 0.5f + 0.499f * number()});
    const int rows = static_cast<int>(draws.size());
    auto logits = numbers<float>(static_cast<size_t>(rows) * vocab, 6.0f);
    for (size_t i = 0; i < logits.size(); ++i) {
        if (i / vocab % 2 == 0) logits[i] = std::round(logits[i]);
        if (i % 5 == 0) logits[i] = -INFINITY;
    }
    std::vector<float> weights(static_cast<size_t>((vocab + 63) / 64 * 64) * rows);
    std::vector<int64_t> tokens(rows);
    void* context = open(threads);
    for (int again = 0; again < times; ++again)
        cede_draw(context, target, threads, logits.data(), rows, vocab, draws.data(), weights.data(), tokens.data());
    cede_close(context);
    return {tokens.begin(), tokens.end()};
}

constexpr Kind KINDS[] = {FOUR_BITS,         ROWS_OF_FLOAT32,    ROWS_OF_BFLOAT16, ROWS_OF_FLOAT16, ROWS_OF_INT8,
                          PANELS_OF_FLOAT32, PANELS_OF_BFLOAT16, SPREAD_BYTES,     NIBBLES,         NIBBLES_WITHOUT_ZEROS,
                          SIX_BITS,          NARROW_PANELS_OF_BFLOAT16};
constexpr Shape SHAPES[] = {{64, 2, 1, 32, 64, 32, false}, {128, 6, 2, 64, 192, 64, true}, {192, 3, 3, 64, 128, 16, false},
                            {64, 2, 1, 32, 64, 32, false, 3}, {64, 4, 2, 80, 64, 32, false, 3, GATED_DELTA, 32},
                            {64, 16, 2, 32, 64, 32, false, 4, STATE_SPACE, 48}};
// In no larger pieces than rows are, and than those of int8.
constexpr Shape ODD{80, 5, 1, 32, 48, 16, true}, ODD_INT8{96, 5, 1, 32, 160, 16, true}, ODD_CONVOLUTION{80, 5, 1, 16, 48, 16, true, 4};
constexpr Shape ODD_DELTA{80, 20, 10, 16, 48, 16, true, 4, GATED_DELTA, 48}, ODD_SPACE{80, 16, 1, 16, 48, 16, true, 3, STATE_SPACE, 16};

// The shapes of layers whose matrices are of a kind.
inline std::vector<Shape> shapes_for(Kind kind) {
    std::vector<Shape> found;
    for (const Shape& shape : SHAPES)
        if (kind == FOUR_BITS || (shape.extras && (!is_of_codes(kind) || kind == SIX_BITS || shape.group % 32 == 0)))
            found.push_back(shape);
    if (kind == ROWS_OF_FLOAT32 || kind == ROWS_OF_BFLOAT16 || kind == ROWS_OF_FLOAT16) found.push_back(ODD);
    if (kind == ROWS_OF_FLOAT32) found.insert(found.end(), {ODD_CONVOLUTION, ODD_DELTA, ODD_SPACE});
    if (kind == ROWS_OF_INT8) found.push_back(ODD_INT8);
    return found;
}

// Whether a product of a kind may have so many rows.
inline bool takes_rows(Kind kind, int rows) {
    return rows <= MOST_ROWS || kind == FOUR_BITS || kind == SPREAD_BYTES || is_of_codes(kind);
}

}  // namespace cede::drawn

#endif
