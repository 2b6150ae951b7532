// A product alone, such as that of a model's head.

constexpr int MOST_TICKETS = 512;  // of a product that may be a head's
constexpr int SLAB = 64;           // rows whose outputs of a block stay in the first cache

// Of many rows, in slabs.
template <class T, class Product>
void multiply_many(Context& context, const Product& product, int outputs, int rows, float* y) {
    constexpr int OUTPUTS = Product::OUTPUTS;
    const int slabs = (rows + SLAB - 1) / SLAB;
    run_pieces(context.workers, outputs / OUTPUTS * slabs, MOST_TICKETS, [&](int ticket) {
        const int piece = ticket / slabs, first = ticket % slabs * SLAB;
        const int count = rows - first < SLAB ? rows - first : SLAB;
        Vector own[SLAB][OUTPUTS / LANES];
        product.multiply(piece, first, count, own);
        for (int r = 0; r < count; ++r)
            for (int j = 0; j < OUTPUTS / LANES; ++j)
                store(y + static_cast<size_t>(first + r) * outputs + piece * OUTPUTS + j * LANES, rounded<T>(own[r][j]));
    });
}

// x: `[rows, in]`, of codes or bytes of any number of rows, else `MOST_ROWS` at most; y: `[rows, out]`, rounded as the
// model's rows are.
template <class T>
void multiply(Context& context, const Matrix& matrix, const T* x, int rows, float* y) {
    if (rows > MOST_ROWS) {
        with_product_of_any_rows(context, matrix, x, rows, [&](const auto& product) {
            multiply_many<T>(context, product, matrix.out, rows, y);
        });
        return;
    }
    context.normed.resize(static_cast<size_t>(rows) * matrix.in);
    for (size_t i = 0; i < context.normed.size(); i += LANES) store(context.normed.data() + i, load(x + i));
    with_product<T>(context, matrix, context.normed.data(), rows, [&](const auto& product) {
        constexpr int OUTPUTS = std::decay_t<decltype(product)>::OUTPUTS;
        run_pieces(context.workers, matrix.out / OUTPUTS, MOST_TICKETS, [&](int piece) {
            Vector own[MOST_ROWS][OUTPUTS / LANES];
            product(piece, own);
            for (int r = 0; r < rows; ++r)
                for (int j = 0; j < OUTPUTS / LANES; ++j)
                    store(y + static_cast<size_t>(r) * matrix.out + piece * OUTPUTS + j * LANES, rounded<T>(own[r][j]));
        });
    });
}
