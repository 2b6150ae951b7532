// What is compiled for 64-bit Arm, and how a processor says that it has it.

#include <arm_neon.h>

#if defined(__APPLE__)
#include <sys/sysctl.h>
#else
#include <sys/auxv.h>
#endif

namespace cede::neon {
#include "vectors_neon.h"
#include "functions.h"
#include "whole.h"
#include "int4_neon.h"
#include "kernels.h"
}  // namespace cede::neon

// Products of bytes.  Clang before 16 has them only where all is compiled for them.
#if !defined(__clang__)
#define CEDE_DOT "arch=armv8.2-a+dotprod"
#elif __clang_major__ >= 16 || defined(__ARM_FEATURE_DOTPROD)
#define CEDE_DOT "dotprod"
#endif

#ifdef CEDE_DOT
CEDE_BEGIN_TARGET(CEDE_DOT)
namespace cede::neon_dot {
#include "vectors_neon.h"
#include "functions.h"
#include "whole.h"
#include "int4_neon.h"
#include "kernels.h"
}  // namespace cede::neon_dot
CEDE_END_TARGET
#endif

namespace cede {

inline bool has_neon() { return true; }  // as all of them
inline bool has_neon_dot() {
#if defined(__APPLE__)
    int found = 0;
    size_t size = sizeof found;
    return sysctlbyname("hw.optional.arm.FEAT_DotProd", &found, &size, nullptr, 0) == 0 && found;
#elif defined(HWCAP_ASIMDDP)
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
#else
    return false;
#endif
}

// With whatever instructions: PyTorch packs four bits in no blocks there, so that nothing else has kernels.
inline bool multiplies_bytes() { return true; }

const Target TARGETS[] = {
#ifdef CEDE_DOT
    {"neon_dot", has_neon_dot, false, CEDE_KERNELS(neon_dot)},
#endif
    {"neon", has_neon, false, CEDE_KERNELS(neon)},
};

}  // namespace cede
