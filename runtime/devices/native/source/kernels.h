// All kernels, over the functions of sixteen numbers and the products of four bits of one set of instructions.  Included once
// for each, in a namespace of its own.

#include "products.h"
#include "attention.h"
#include "convolution.h"
#include "recurrence.h"
#include "int4.h"
#include "rows.h"
#include "int8.h"
#include "bytes.h"
#include "codes.h"
#include "panels.h"
#ifdef CEDE_TILES
#include "tiles.h"
#endif
#include "kinds.h"
#include "layer.h"
#include "multiply.h"
#include "draw.h"
