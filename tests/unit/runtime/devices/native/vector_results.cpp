// Writes what each function of `vectors_….h` gives for chosen and random numbers: a line of a name and the bits of all.

#if defined(__aarch64__)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>

#include "structures.h"

namespace cede {
#include VECTORS
#include "functions.h"
}  // namespace cede

namespace {

using namespace cede;

std::mt19937 dice(1);

template <class T>
void write(const char* name, const T* numbers, int count) {
    std::printf("%s:", name);
    for (int i = 0; i < count; ++i) {
        uint32_t bits = 0;
        std::memcpy(&bits, numbers + i, sizeof(T));
        std::printf(" %08x", bits);
    }
    std::puts("");
}

void write(const char* name, float x) { write(name, &x, 1); }
void write(const char* name, Vector x) {
    float numbers[LANES];
    store(numbers, x);
    write(name, numbers, LANES);
}
// Sixteen whole numbers, of a size that float32 has.
void write(const char* name, Whole x) { write(name, as_numbers(x)); }

// Any bits, so among them what is infinite, not normal, or no number.
float any() {
    const uint32_t bits = dice();
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}
float number(float most) { return most * (static_cast<float>(static_cast<int>(dice() >> 8) - (1 << 23)) / (1 << 23)); }

template <class Make>
Vector drawn(Make make) {
    float numbers[LANES];
    for (float& x : numbers) x = make();
    return load(numbers);
}

void write_arithmetic(Vector x, Vector y, Vector z) {
    write("add", add(x, y));
    write("subtract", subtract(x, y));
    write("times", times(x, y));
    write("divide", divide(x, y));
    write("times_plus", times_plus(x, y, z));
    write("minus_times", minus_times(x, y, z));
    write("smaller", smaller(x, y));
    write("larger", larger(x, y));
    write("where_at_least", where_at_least(x, y, z));
    write("sum", sum(x));
    write("nearest", nearest(x));
    write("rounded_to_bfloat16", rounded_to_bfloat16(x));
    write("spread", spread(x));
    Bfloat16 narrow[LANES];
    store(narrow, x);
    write("store of bfloat16", narrow, LANES);
    write("load of bfloat16", load(narrow));
    write("load of float16", load(reinterpret_cast<const Float16*>(narrow)));  // the same bits
    write("exponential", exponential(x));
    write("silu", silu(x));
    write("sigmoid", sigmoid(x));
    write("softplus", softplus(x));
    write("gelu", gelu(x));
    write("largest_number", largest_number(x));
}

template <class Make>
void write_arithmetic_of(Make make) {
    const Vector x = drawn(make), y = drawn(make), z = drawn(make);
    write_arithmetic(x, y, z);
}

void write_sums() {
    Vector each[16];
    for (Vector& one : each) one = drawn([] { return number(8.0f); });
    write("sums_of", sums_of(each));
    for (const Vector& one : each) write("sum", sum(one));
}

// x: within what an int16 holds.
void write_whole(Vector x) {
    int16_t wide[2 * LANES];
    store(wide, x);
    write("store of int16", wide, LANES);
    int8_t bytes[2 * LANES];
    store(bytes, times(x, splat(127.0f / 32768.0f)));
    store(bytes + LANES, times(x, splat(-1.0f / 512.0f)));
    write("store of int8", bytes, 2 * LANES);
    write("load of int8", load(bytes));
    // Which products share a sum is for each set of instructions to say.  All of them are so small that float32 has their sum.
    store(wide, times(x, splat(1.0f / 64.0f)));
    store(wide + LANES, times(x, splat(-1.0f / 128.0f)));
    const Whole products = add_products(nothing(), load_whole(wide), load_whole(bytes));
    write("add_products", sum(as_numbers(add_products(products, load_whole(bytes), load_whole(bytes)))));
    write("times_power_of_2", times_power_of_2(x, nearest(drawn([] { return number(30.0f); }))));
}

void write_bytes() {
    uint8_t own[64];
    for (uint8_t& byte : own) byte = static_cast<uint8_t>(dice());
    int8_t four[4];
    int32_t total = 0;
    for (int8_t& byte : four) total += byte = static_cast<int8_t>(static_cast<int>(dice() % 255) - 127);
    const Bytes64 x = load_bytes(own), y = repeat_four(four);
    const Whole start = repeat(static_cast<int32_t>(dice() % 1000) - 500);
    write("low_halves", add_byte_products(start, low_halves(x), y));
    write("high_halves", add_byte_products(start, high_halves(x), y));
    write("two_bits 0", add_byte_products(start, either(low_halves(x), two_bits<0>(x)), y));
    write("two_bits 1", add_byte_products(start, either(high_halves(x), two_bits<1>(x)), y));
    write("two_bits 2", add_byte_products(start, either(low_halves(x), two_bits<2>(x)), y));
    write("two_bits 3", add_byte_products(start, either(high_halves(x), two_bits<3>(x)), y));
    write("load_weights", minus(plus(start, add_byte_products(nothing(), load_weights(own), y)), LEFT_OF_OFFSET * total));
    write("load_low_halves", load_low_halves(own));
    write("load_high_halves", load_high_halves(own));
    Bfloat16 pairs[2 * LANES];
    std::memcpy(pairs, own, sizeof pairs);
    Vector first, second;
    load_pairs(pairs, first, second);
    write("first of pairs", first);
    write("second of pairs", second);
}

}  // namespace

int main() {
    const float special[LANES] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1.0f, -1.0f, 0.5f, 1.5f, 2.5f, -2.5f, 1e-40f, 3e38f, 88.5f, -88.0f, 1e10f};
    for (int shift = 0; shift < LANES; ++shift) {  // each with each
        float moved[LANES];
        for (int i = 0; i < LANES; ++i) moved[i] = special[(i + shift) % LANES];
        write_arithmetic(load(special), load(moved), splat(special[shift]));
    }
    // Halfway between two of bfloat16, and next to that.
    for (const uint32_t bits : {0x3f808000u, 0x3f818000u, 0x3f807fffu, 0x3f808001u, 0xbf818000u, 0x7f7fffffu, 0xff7fffffu}) {
        float x;
        std::memcpy(&x, &bits, sizeof x);
        write("rounded_to_bfloat16", rounded_to_bfloat16(splat(x)));
    }
    for (int again = 0; again < 200; ++again) {
        write_arithmetic_of([] { return number(8.0f); });
        write_arithmetic_of(any);
        write_sums();
        write_whole(drawn([] { return number(32767.0f); }));
        write_bytes();
    }
    write_whole(drawn([] { return std::round(number(1000.0f)) * 0.5f; }));  // of halves the even one
    write_whole(splat(32767.0f));
    write_whole(splat(-32768.0f));
    return 0;
}
