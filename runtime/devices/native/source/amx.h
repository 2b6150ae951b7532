// AMX, by which a processor multiplies tiles: sixteen rows with sixteen outputs, of 32 inputs at a time, in float32.
//
// Only this needs its instructions.  The products that call it (`tiles.h`) are compiled for AVX-512 with bfloat16.

constexpr int TILE_ROWS = 16, TILE_INPUTS = 32;

// How a thread's tiles are set up: 0 and 1 are sums of the first rows, 2 and 3 of the others, 4 and 5 rows, 6 and 7 weights.
struct alignas(64) TileShapes {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t bytes[16] = {};
    uint8_t rows[16] = {};

    TileShapes(int first, int others) {
        for (int tile = 0; tile < 8; ++tile) bytes[tile] = 64;
        rows[0] = rows[1] = rows[4] = static_cast<uint8_t>(first);
        rows[2] = rows[3] = rows[5] = static_cast<uint8_t>(others > 0 ? others : 1);
        rows[6] = rows[7] = TILE_ROWS;
    }
};

// The sums of one panel's products, where there are more than `TILE_ROWS` rows or not.
template <bool WITH_OTHERS>
inline void add_tiles(const Bfloat16* weight, const Bfloat16* x, int in, float* sums) {
    constexpr size_t OF_WEIGHTS = 2 * NARROW * sizeof(Bfloat16), OF_SUMS = NARROW * sizeof(float);
    const size_t of_rows = in * sizeof(Bfloat16);
    _tile_zero(0);
    _tile_zero(1);
    if (WITH_OTHERS) {
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int k = 0; k < in; k += TILE_INPUTS) {
        const Bfloat16* own = weight + static_cast<size_t>(k) * NARROW;
        _tile_loadd(4, x + k, of_rows);
        _tile_loadd(6, own, OF_WEIGHTS);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, own + 2 * LANES, OF_WEIGHTS);
        _tile_dpbf16ps(1, 4, 7);
        if (WITH_OTHERS) {
            _tile_loadd(5, x + static_cast<size_t>(TILE_ROWS) * in + k, of_rows);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, sums, OF_SUMS);
    _tile_stored(1, sums + LANES, OF_SUMS);
    if (WITH_OTHERS) {
        _tile_stored(2, sums + TILE_ROWS * NARROW, OF_SUMS);
        _tile_stored(3, sums + TILE_ROWS * NARROW + LANES, OF_SUMS);
    }
}

// Multiply `x`, `[rows, in]`, with the weights of a narrow panel (`structures.h`); `sums`: `[rows, NARROW]`.
//
// Pairs of inputs lie together in a panel as a tile wants them.  Of one row as of many: in what order a row's numbers are
// added does not depend on how many there are.
inline void multiply_tiles(const Bfloat16* weight, const Bfloat16* x, int in, int rows, float* sums) {
    const int first = rows < TILE_ROWS ? rows : TILE_ROWS;
    const TileShapes shapes(first, rows - first);
    __asm__ __volatile__("" : : "r"(&shapes) : "memory");  // GCC takes the next line to read eight bytes of it
    _tile_loadconfig(&shapes);
    if (rows > first)
        add_tiles<true>(weight, x, in, sums);
    else
        add_tiles<false>(weight, x, in, sums);
    _tile_release();
}
