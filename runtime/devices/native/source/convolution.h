// Convolutions in the place of attention: each channel by itself, over a row and the few before it.

constexpr int CHANNELS_AT_ONCE = 512;  // that one thread convolves

// Call `some(segment, first, end)` for ranges of the channels of each segment, on several threads.
template <class Some>
inline void run_channels(Context& context, const Step& step, int channels, Some&& some) {
    const int ranges = (channels + CHANNELS_AT_ONCE - 1) / CHANNELS_AT_ONCE;
    context.workers.run(step.segments * ranges, [&](int piece) {
        const int first = piece % ranges * CHANNELS_AT_ONCE, left = channels - first;
        some(step.segment[piece / ranges], first, first + (left < CHANNELS_AT_ONCE ? left : CHANNELS_AT_ONCE));
    });
}

// Convolve a range of the channels of a sequence's rows, and keep the last rows for the states that are wanted.
//
// rows: of all rows of the step, each `stride` numbers behind the one before.
// take: `take(row, channel, y)` gets sixteen sums at a time, rounded as T.
template <class T, class Take>
void convolve(const Convolution& own, const Segment& segment, const float* rows, size_t stride, int first, int end, Take&& take) {
    const size_t channels = own.channels;
    const int before = own.width - 1;
    const auto kept = [&](int buffer) { return reinterpret_cast<T*>(own.kept.of(buffer)); };
    const T* past = kept(segment.state);
    rows += segment.first_row * stride;
    for (size_t c = first; c < static_cast<size_t>(end); c += LANES) {
        const auto seen = [&](int row) {
            return row < 0 ? load(past + (before + row) * channels + c) : load(rows + row * stride + c);
        };
        for (int row = 0; row < segment.rows; ++row) {
            Vector y = own.bias ? load(own.bias + c) : splat(0.0f);
            for (int i = 0; i <= before; ++i) y = times_plus(seen(row - before + i), load(own.taps + i * channels + c), y);
            take(static_cast<size_t>(segment.first_row + row), c, rounded<T>(y));
        }
        for (const State* state = segment.states; state < segment.states + segment.wanted; ++state)
            for (int i = 0; i < before; ++i) store(kept(state->buffer) + i * channels + c, seen(state->rows - before + i));
    }
}

// Convolve all rows between two gates.
//
// projected: `[rows, 3, channels]`: what comes before the sums, what behind, and what is between these.  The first is written.
// mixed: `[rows, channels]`, rounded as T.
template <class T>
void convolve_between_gates(Context& context, const Layer& layer, const Step& step, float* projected, float* mixed) {
    const size_t channels = layer.convolution.channels, stride = 3 * channels;
    run_channels(context, step, layer.convolution.channels, [&](const Segment& segment, int first, int end) {
        for (size_t row = segment.first_row; row < static_cast<size_t>(segment.first_row + segment.rows); ++row)
            for (float* place = projected + row * stride + first; place < projected + row * stride + end; place += LANES)
                store(place, rounded<T>(times(load(place), load(place + 2 * channels))));
        convolve<T>(layer.convolution, segment, projected, stride, first, end, [&](size_t row, size_t c, Vector y) {
            store(mixed + row * channels + c, rounded<T>(times(y, load(projected + row * stride + channels + c))));
        });
    });
}
