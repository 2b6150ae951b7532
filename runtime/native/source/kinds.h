// Chooses a matrix's product by its kind.

// Call `use` with the product of `x`, `[rows, in]`, and a matrix.
template <class Use>
inline void with_product(Context& context, const Matrix& matrix, const float* x, int rows, Use&& use) {
    switch (matrix.kind) {
        case FOUR_BITS: return use(FourBits(context, matrix, x, rows));
        case ROWS_OF_FLOAT32: return use(Rows<float>(context, matrix, x, rows));
        case ROWS_OF_BFLOAT16: return use(Rows<Bfloat16>(context, matrix, x, rows));
        case ROWS_OF_INT8: return use(EightBits(context, matrix, x, rows));
        case PANELS_OF_FLOAT32: return use(Panels<float>(context, matrix, x, rows));
        case PANELS_OF_BFLOAT16: return use(Panels<Bfloat16>(context, matrix, x, rows));
        case SPREAD_BYTES: return use(Bytes(context, matrix, x, rows));
        case NIBBLES: return use(Nibbles(context, matrix, x, rows));
    }
}
