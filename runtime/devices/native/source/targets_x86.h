// What is compiled for x86-64, and how a processor says that it has it.

#include <immintrin.h>

// Compilers that have AMX, and a system that lends it to programs that ask.
#if defined(__linux__) && (defined(__clang__) ? __clang_major__ >= 14 : __GNUC__ >= 12)
#define CEDE_HAS_AMX 1
#include <sys/syscall.h>
#include <unistd.h>
#endif

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

#ifdef CEDE_HAS_AMX
#define CEDE_TILES 1
CEDE_BEGIN_TARGET("amx-tile,amx-bf16")
namespace cede {
#include "amx.h"
}  // namespace cede
CEDE_END_TARGET
#endif

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

#ifdef CEDE_HAS_AMX
inline bool has_amx() {
    constexpr long REQUEST = 0x1023, TILES = 18;  // ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA of Linux, for the whole process
    return has_avx512_bf16() && __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
           syscall(SYS_arch_prctl, REQUEST, TILES) == 0;
}
#endif

const Target TARGETS[] = {
#ifdef CEDE_HAS_AMX
    {"amx", has_amx, true, CEDE_KERNELS(avx512_bf16)},
#endif
    {"avx512_bf16", has_avx512_bf16, false, CEDE_KERNELS(avx512_bf16)},
    {"avx512", has_avx512, false, CEDE_KERNELS(avx512)},
    {"avx2", has_avx2, false, CEDE_KERNELS(avx2)},
};

}  // namespace cede
