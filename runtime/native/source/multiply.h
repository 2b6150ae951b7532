// A product alone, such as that of a model's head.

constexpr int MOST_TICKETS = 512;  // of one product: a head has thousands of pieces
constexpr int SLAB = 64;           // rows whose outputs of a block stay in the first cache

// Call `piece(i)` for each i below `count`, on several threads, some in turn.
template <class Piece>
void run_pieces(Workers& workers, int count, Piece&& piece) {
    const int at_once = (count + MOST_TICKETS - 1) / MOST_TICKETS;
    workers.run((count + at_once - 1) / at_once, [&](int ticket) {
        const int end = (ticket + 1) * at_once < count ? (ticket + 1) * at_once : count;
        for (int i = ticket * at_once; i < end; ++i) piece(i);
    });
}

// x: `[rows, in]`, of four bits of any number of rows, else `MOST_ROWS` at most; y: `[rows, out]`, rounded as the model's
// rows are.
template <class T>
void multiply(Context& context, const Matrix& matrix, const T* x, int rows, float* y) {
    const auto keep = [&](size_t row, int output, Vector own) { store(y + row * matrix.out + output, rounded<T>(own)); };
    if (rows > MOST_ROWS) {
        const FourBits product(context, matrix, x, rows);
        const int slabs = (rows + SLAB - 1) / SLAB;
        run_pieces(context.workers, matrix.out / BLOCK * slabs, [&](int piece) {
            const int block = piece / slabs, first = piece % slabs * SLAB;
            const int count = rows - first < SLAB ? rows - first : SLAB;
            Vector own[SLAB][VECTORS];
            product.multiply(block, first, count, own);
            for (int r = 0; r < count; ++r)
                for (int j = 0; j < VECTORS; ++j) keep(first + r, block * BLOCK + j * LANES, own[r][j]);
        });
        return;
    }
    context.normed.resize(static_cast<size_t>(rows) * matrix.in);
    for (size_t i = 0; i < context.normed.size(); i += LANES) store(context.normed.data() + i, load(x + i));
    with_product(context, matrix, context.normed.data(), rows, [&](const auto& product) {
        constexpr int OUTPUTS = std::decay_t<decltype(product)>::OUTPUTS;
        run_pieces(context.workers, matrix.out / OUTPUTS, [&](int piece) {
            Vector own[MOST_ROWS][OUTPUTS / LANES];
            product(piece, own);
            for (int r = 0; r < rows; ++r)
                for (int j = 0; j < OUTPUTS / LANES; ++j) keep(r, piece * OUTPUTS + j * LANES, own[r][j]);
        });
    });
}
