// A gated convolution in the place of attention: each channel by itself, over a row and the few before it.

// Mix the rows of a sequence, and leave the states that are wanted of it.
//
// A state is `[width - 1, channels]`, the last rows as they go into the sums; one may be written where the first is read.
//
// projected: of all rows of the step, `[3, channels]` each: what comes before the sums, what behind, and what is between
//     these.  The first of them is written.
// mixed: of all rows, `[channels]` each, rounded as T.
template <class T>
void convolve(const Convolution& own, const Segment& segment, int64_t shift, float* projected, float* mixed) {
    const size_t channels = own.channels;
    const int before = own.width - 1;
    const auto of_layer = [&](void* state) { return reinterpret_cast<T*>(static_cast<char*>(state) + shift); };
    const T* first = of_layer(segment.state);
    for (size_t c = 0; c < channels; c += LANES) {
        float* rows = projected + segment.first_row * 3 * channels + c;
        const auto seen = [&](int row) {
            return row < 0 ? load(first + (before + row) * channels + c) : load(rows + row * 3 * channels);
        };
        for (int row = 0; row < segment.rows; ++row) {
            float* place = rows + row * 3 * channels;
            store(place, rounded<T>(times(load(place), load(place + 2 * channels))));
            Vector y = own.bias ? load(own.bias + c) : splat(0.0f);
            for (int i = 0; i <= before; ++i) y = times_plus(seen(row - before + i), load(own.taps + i * channels + c), y);
            store(mixed + (segment.first_row + row) * channels + c, rounded<T>(times(rounded<T>(y), load(place + channels))));
        }
        for (const State* state = segment.states; state < segment.states + segment.wanted; ++state)
            for (int i = 0; i < before; ++i)
                store(of_layer(state->place) + i * channels + c, seen(state->rows - before + i));
    }
}
