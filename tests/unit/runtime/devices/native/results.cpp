// Writes what one set of instructions, the program's first argument, computes of random numbers: for each layer, product and
// matrix in full a line, of a name and the bits of all results as float32.

#include <cstdio>
#include <string>

#include "drawn.h"

namespace {

using namespace cede;
using namespace cede::drawn;

constexpr int THREADS = 2, VOCABULARIES[] = {1, 64, 100, 1000};

void write(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    std::printf(" %08x", bits);
}
void write(Bfloat16 x) { std::printf(" %08x", static_cast<uint32_t>(x) << 16); }

template <class T>
void write(const std::string& name, const std::vector<T>& numbers) {
    std::printf("%s:", name.c_str());
    for (const T x : numbers) write(x);
    std::puts("");
}

template <class T>
const char* name_of = sizeof(T) == sizeof(float) ? "float32" : "bfloat16";

template <class T>
void write_all(int target) {
    const std::string type = name_of<T>;
    for (const int group : {16, 32, 64})
        write("expand/" + type + "/" + std::to_string(group), expand<T>(target, 64, 192, group, THREADS, 1));
    for (const Kind kind : KINDS) {
        const std::string own = "/" + std::to_string(kind) + "/" + type + "/";
        for (const int rows : {1, 2, 3, 8, 32, 131})
            if (takes_rows(kind, rows))
                write("product" + own + std::to_string(rows), multiply<T>(target, kind, 128, 192, 32, rows, THREADS, 1));
        for (const Shape& shape : shapes_for(kind))
            for (const int rows : {1, 2, 9}) {
                const std::string place = own + std::to_string(shape.hidden) + "/" + std::to_string(rows);
                for (const bool one : {true, false}) {
                    const auto left = run_layer<T>(target, kind, shape, one ? rows : 1, one ? 1 : rows, 70, THREADS, 1);
                    const std::string whose = (one ? "" : " of sequences") + place;
                    write("hidden" + whose, left.hidden);
                    write("kept" + whose, left.kept);
                    write("matrices" + whose, left.matrices);
                }
            }
    }
}

}  // namespace

int main(int, char** arguments) {
    for (int target = 0; cede_target(target); ++target) {
        if (std::strcmp(cede_target(target), arguments[1]) != 0 || !cede_is_supported(target)) continue;
        write_all<float>(target);
        write_all<Bfloat16>(target);
        for (const int vocab : VOCABULARIES) write("tokens/" + std::to_string(vocab), draw(target, vocab, THREADS, 1));
        return 0;
    }
    return 1;
}
