// Products with weights of four bits, as PyTorch's kernel of AVX-512 has them in memory.
//
// Outputs lie in blocks of 64.  A block has 32 bytes for each input: byte i holds the codes of the outputs i (in its low
// half) and 32 + i.  A weight is `(code - 8) * scale + zero`, with a scale and a zero for each group of inputs and each
// output, `[groups, out, 2]` in bfloat16.
//
// A code is looked up as a bfloat16 number, which holds it exactly, and two inputs at a time are multiplied and added in
// float32.  The scale is applied to a group's sum: sum(x (c - 8) s + x z) = s sum(x c) + (z - 8 s) sum(x).

#pragma once

#include <cstddef>
#include <cstring>

#include "vectors.h"

namespace cede {

constexpr int BLOCK = 64;               // outputs
constexpr int VECTORS = BLOCK / LANES;  // of a block
constexpr int MOST_ROWS = 8;            // of a step

// A matrix, as `runtime/native/library.py` describes it.
struct Int4 {
    const uint8_t* weight;
    const Bfloat16* scales_zeros;
    const float* bias;  // null for none
    int32_t out, in, group;
};

// Sums of each group of a row's inputs, `[rows, groups]`.
inline void sum_groups(const Bfloat16* x, int rows, const Int4& matrix, float* sums) {
    for (int i = 0; i < rows * (matrix.in / matrix.group); ++i) {
        Vector sum = _mm512_setzero_ps();
        for (int k = 0; k < matrix.group; k += LANES)
            sum = _mm512_add_ps(sum, load(x + static_cast<size_t>(i) * matrix.group + k));
        sums[i] = _mm512_reduce_add_ps(sum);
    }
}

alignas(64) inline constexpr Bfloat16 CODES[32] = {  // 0 to 15, twice: a look-up takes five bits
    0x0000, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0x4100, 0x4110, 0x4120, 0x4130, 0x4140, 0x4150,
    0x4160, 0x4170, 0x0000, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0x4100, 0x4110, 0x4120, 0x4130,
    0x4140, 0x4150, 0x4160, 0x4170};

// One block's outputs of some rows, rounded to bfloat16 as PyTorch's kernel does, and the bias added.
//
// x: `[ROWS, in]`; sums: `[ROWS, groups]`.
template <int ROWS>
inline void multiply_block(const Bfloat16* x, const float* sums, const Int4& matrix, int block,
                           Vector (&y)[MOST_ROWS][VECTORS]) {
    const int groups = matrix.in / matrix.group;
    const __m512i codes = _mm512_load_si512(CODES);
    // Outputs come out of the unpacking in fours: 0-3, 8-11, … in one vector and 4-7, 12-15, … in the next.
    const __m512i even = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i odd = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    const uint8_t* weight = matrix.weight + static_cast<size_t>(block) * matrix.in * (BLOCK / 2);
    for (int row = 0; row < ROWS; ++row)
        for (int j = 0; j < VECTORS; ++j) y[row][j] = _mm512_setzero_ps();
    for (int group = 0; group < groups; ++group) {
        Vector sum[ROWS][VECTORS];
        for (int row = 0; row < ROWS; ++row)
            for (int j = 0; j < VECTORS; ++j) sum[row][j] = _mm512_setzero_ps();
        for (int k = group * matrix.group; k < (group + 1) * matrix.group; k += 2) {
            const auto* bytes = reinterpret_cast<const __m256i*>(weight + static_cast<size_t>(k) * (BLOCK / 2));
            const __m512i first = _mm512_cvtepu8_epi16(_mm256_loadu_si256(bytes));
            const __m512i second = _mm512_cvtepu8_epi16(_mm256_loadu_si256(bytes + 1));
            const __m512i low = _mm512_unpacklo_epi16(first, second), high = _mm512_unpackhi_epi16(first, second);
            const __m512bh pairs[VECTORS] = {
                (__m512bh)_mm512_permutexvar_epi16(low, codes),
                (__m512bh)_mm512_permutexvar_epi16(high, codes),
                (__m512bh)_mm512_permutexvar_epi16(_mm512_srli_epi16(low, 4), codes),
                (__m512bh)_mm512_permutexvar_epi16(_mm512_srli_epi16(high, 4), codes),
            };
            for (int row = 0; row < ROWS; ++row) {
                int32_t two;
                std::memcpy(&two, x + static_cast<size_t>(row) * matrix.in + k, sizeof two);
                const auto inputs = (__m512bh)_mm512_set1_epi32(two);
                for (int j = 0; j < VECTORS; ++j) sum[row][j] = _mm512_dpbf16_ps(sum[row][j], inputs, pairs[j]);
            }
        }
        for (int j = 0; j < VECTORS; ++j) {
            const size_t place = static_cast<size_t>(group) * matrix.out + block * BLOCK + j * LANES;
            const __m512i both = _mm512_loadu_si512(matrix.scales_zeros + 2 * place);
            const Vector scale = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
            const Vector zero = _mm512_castsi512_ps(_mm512_and_epi32(both, _mm512_set1_epi32(0xffff0000)));
            const Vector offset = _mm512_fnmadd_ps(splat(8.0f), scale, zero);
            for (int row = 0; row < ROWS; ++row) {
                const Vector *const pair = &sum[row][j & 2];
                const Vector ordered = _mm512_permutex2var_ps(pair[0], j & 1 ? odd : even, pair[1]);
                y[row][j] = _mm512_fmadd_ps(scale, ordered, y[row][j]);
                y[row][j] = _mm512_fmadd_ps(offset, splat(sums[row * groups + group]), y[row][j]);
            }
        }
    }
    for (int row = 0; row < ROWS; ++row)
        for (int j = 0; j < VECTORS; ++j) {
            y[row][j] = rounded<Bfloat16>(y[row][j]);
            if (matrix.bias)
                y[row][j] = _mm512_add_ps(y[row][j], load(matrix.bias + block * BLOCK + j * LANES));
        }
}

// One block's outputs of up to `MOST_ROWS` rows; four at a time, for so many sums fit into the registers.
inline void multiply(const Bfloat16* x, const float* sums, const Int4& matrix, int block, int rows,
                     Vector (&y)[MOST_ROWS][VECTORS]) {
    const int groups = matrix.in / matrix.group;
    for (int first = 0; first < rows; first += 4) {
        Vector some[MOST_ROWS][VECTORS];
        const Bfloat16* own = x + static_cast<size_t>(first) * matrix.in;
        const float* own_sums = sums + first * groups;
        const int count = rows - first < 4 ? rows - first : 4;
        switch (count) {
            case 1: multiply_block<1>(own, own_sums, matrix, block, some); break;
            case 2: multiply_block<2>(own, own_sums, matrix, block, some); break;
            case 3: multiply_block<3>(own, own_sums, matrix, block, some); break;
            default: multiply_block<4>(own, own_sums, matrix, block, some);
        }
        for (int row = 0; row < count; ++row)
            for (int j = 0; j < VECTORS; ++j) y[first + row][j] = some[row][j];
    }
}

}  // namespace cede
