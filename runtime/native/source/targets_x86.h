// What is compiled for x86-64, and how a processor says that it has it.

#include <immintrin.h>

CEDE_BEGIN_TARGET("avx2,fma,f16c")  // every processor with AVX2 has the last
namespace cede::avx2 {
#include "vectors_avx2.h"
#include "functions.h"
#include "whole.h"
#include "int4_avx2.h"
#include "kernels.h"
}  // namespace cede::avx2
CEDE_END_TARGET

CEDE_BEGIN_TARGET("avx512f,avx512bw,avx512vl,avx512dq,fma")
namespace cede::avx512 {
#include "vectors_avx512.h"
#include "functions.h"
#include "whole.h"
#include "int4_avx512.h"
#include "kernels.h"
}  // namespace cede::avx512
CEDE_END_TARGET

#define CEDE_BFLOAT16 1
#define CEDE_VNNI 1
CEDE_BEGIN_TARGET("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx512vnni,fma")
namespace cede::avx512_bf16 {
#include "vectors_avx512.h"
#include "functions.h"
#include "whole.h"
#include "int4_avx512.h"
#include "kernels.h"
}  // namespace cede::avx512_bf16
CEDE_END_TARGET

namespace cede {

inline bool has_avx2() {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
inline bool has_avx512() {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq");
}
inline bool multiplies_bytes() {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512vnni");
}
inline bool has_avx512_bf16() { return has_avx512() && __builtin_cpu_supports("avx512bf16") && multiplies_bytes(); }

const Target TARGETS[] = {
    CEDE_TARGET(avx512_bf16, has_avx512_bf16),
    CEDE_TARGET(avx512, has_avx512),
    CEDE_TARGET(avx2, has_avx2),
};

}  // namespace cede
