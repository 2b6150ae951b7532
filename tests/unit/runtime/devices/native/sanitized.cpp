// Layers of several sizes with random numbers, by each set of instructions that the processor has, on one thread and on
// three, with weights read in order by one of these and in several streams by the other: the same bits, and nothing for a
// sanitizer.

#include <cstdio>

#include "drawn.h"

#ifdef CEDE_HAS_KERNELS

namespace {

using namespace cede;
using namespace cede::drawn;

#ifndef TIMES  // how often each is computed
#define TIMES 2
#endif

template <class T>
bool are_same(const std::vector<T>& x, const std::vector<T>& y) {
    return x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0;
}

template <class T>
bool same_layer(int target, Kind kind, const Shape& shape, int rows_of_each, int sequences, int length) {
    const auto one = run_layer<T>(target, kind, shape, rows_of_each, sequences, length, 1, TIMES);
    const auto three = run_layer<T>(target, kind, shape, rows_of_each, sequences, length, 3, TIMES);
    return are_same(one.hidden, three.hidden) && are_same(one.kept, three.kept) && are_same(one.matrices, three.matrices);
}

template <class T>
bool same_expanded(int target, int out, int in, int group) {
    return are_same(expand<T>(target, out, in, group, 1, TIMES), expand<T>(target, out, in, group, 3, TIMES));
}

template <class T>
bool same_product(int target, Kind kind, int out, int in, int rows) {
    return are_same(multiply<T>(target, kind, out, in, 32, rows, 1, TIMES), multiply<T>(target, kind, out, in, 32, rows, 3, TIMES));
}

// Several numbers of rows, behind several lengths.
bool all_same(int target, Kind kind, const Shape& shape) {
    for (const int rows : {1, 2, 3, 9})
        for (const int length : {rows, 17, 70}) {
            if (length < rows) continue;
            if (same_layer<float>(target, kind, shape, rows, 1, length) && same_layer<Bfloat16>(target, kind, shape, 1, rows, length))
                continue;
            std::printf("%s, kind %d, hidden %d, %d rows, length %d: threads differ\n", cede_target(target), kind,
                        shape.hidden, rows, length);
            return false;
        }
    return true;
}

}  // namespace

int main() {
    bool is_supported = false;
    for (int target = 0; cede_target(target); ++target) {
        if (!cede_is_supported(target)) continue;
        is_supported = true;
        for (const int group : {16, 32, 64})
            if (!same_expanded<float>(target, 192, 128, group) || !same_expanded<Bfloat16>(target, 64, 192, group)) {
                std::printf("%s, groups of %d: threads expand differently\n", cede_target(target), group);
                return 1;
            }
        for (const int vocab : {1, 2, 63, 64, 65, 1000})
            if (!are_same(draw(target, vocab, 1, TIMES), draw(target, vocab, 3, TIMES))) {
                std::printf("%s, %d tokens: threads draw differently\n", cede_target(target), vocab);
                return 1;
            }
        for (const Kind kind : KINDS) {
            for (const int rows : {1, 8, 32, 131}) {
                if (!takes_rows(kind, rows)) continue;
                const int in = takes_rows(kind, MOST_ROWS + 1) && kind != FOUR_BITS ? 128 : 96;
                if (same_product<float>(target, kind, 192, 64, rows) && same_product<Bfloat16>(target, kind, 64, in, rows))
                    continue;
                std::printf("%s, kind %d: threads multiply differently\n", cede_target(target), kind);
                return 1;
            }
            for (const Shape& shape : shapes_for(kind))
                if (!all_same(target, kind, shape)) return 1;
        }
    }
    std::puts(is_supported ? "same" : "not supported");
    return 0;
}

#else

int main() { return std::puts("not supported") < 0; }

#endif
