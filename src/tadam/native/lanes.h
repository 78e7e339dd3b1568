// As many floats as one register has, in GCC's and Clang's portable vector syntax. Longer vectors would be
// kept in memory. setup.py compiles the kernels once for each kind of processor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#define INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)
constexpr int64_t LANES = 16;
#elif defined(__AVX__)
constexpr int64_t LANES = 8;
#else  // SSE, NEON
constexpr int64_t LANES = 4;
#endif

typedef float Lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t Bits __attribute__((vector_size(LANES * sizeof(float))));

// Channels that lie, and are multiplied, together: two registers of them.
constexpr int64_t PANEL = 2 * LANES;

// Rounded up to whole lanes.
INLINE int64_t whole(int64_t channels) { return (channels + LANES - 1) / LANES * LANES; }

// Rows and planes a power of two apart would compete for the same cache lines.
INLINE int64_t spaced(int64_t floats) { return floats % 128 ? floats : floats + LANES; }

#if defined(__AVX512F__) && defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define HAS_HALF_LANES  // put together in registers: through memory, each would wait for its store
typedef float Half __attribute__((vector_size(32)));
#endif
#endif

// The first `count` lanes from memory, the others zero.
INLINE void load(Lanes &lanes, const float *from, int64_t count) {
    if (count == LANES) {
        std::memcpy(&lanes, from, sizeof(Lanes));
        return;
    }
#ifdef HAS_HALF_LANES
    if (count == LANES / 2) {
        Half half;
        std::memcpy(&half, from, sizeof(Half));
        lanes = __builtin_shufflevector(half, Half{}, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,
                                        14, 15);
        return;
    }
#endif
    lanes = Lanes{};
    for (int64_t i = 0; i < count; i++) lanes[i] = from[i];
}

INLINE void store(float *to, const Lanes &lanes, int64_t count) {
    if (count == LANES) {
        std::memcpy(to, &lanes, sizeof(Lanes));
        return;
    }
#ifdef HAS_HALF_LANES
    if (count == LANES / 2) {
        Half half = __builtin_shufflevector(lanes, lanes, 0, 1, 2, 3, 4, 5, 6, 7);
        std::memcpy(to, &half, sizeof(Half));
        return;
    }
#endif
    // not a copy of `count` floats, which compilers turn into slow string instructions
    for (int64_t i = 0; i < count; i++) to[i] = lanes[i];
}

// Calls `work(c, count)` for the channels from c on, all lanes of them but the last. A pixel's channels
// follow each other in memory, and so must the calls: with a loop over pixels inside one over channels,
// the processor would not see in time what is needed next.
template <class Work>
INLINE void for_lanes(int64_t channels, const Work &work) {
    int64_t c = 0;
    for (; c + LANES <= channels; c += LANES) work(c, LANES);
    if (c < channels) work(c, channels - c);
}

#define WORK [&](int64_t c, int64_t count) __attribute__((always_inline))

INLINE void add_to(float *to, const Lanes &value, int64_t count) {
    Lanes sum;
    load(sum, to, count);
    store(to, sum + value, count);
}

// Comparisons are made of signs and bits: where GCC cannot use one at once, it makes scalars of it.

// All bits set where x is below zero or -0; none from +0 on, and any where it is no number.
INLINE void below_zero(Bits &mask, const Lanes &x) { mask = (Bits)x >> 31; }

INLINE void no_number(Bits &mask, const Lanes &x) {
    mask = (0x7f800000 - ((Bits)x & 0x7fffffff)) >> 31;
}

// Where a maximum takes the new value: if it is larger, or no number, as PyTorch has it.
INLINE void beats(Bits &mask, const Lanes &value, const Lanes &most) {
    Bits smaller, unknown, lost;
    below_zero(smaller, most - value);
    no_number(unknown, value);
    no_number(lost, most);
    mask = unknown | (smaller & ~lost);
}

// Takes the value where the mask is set.
INLINE void replace(Bits &kept, const Bits &mask, const Bits &value) {
    kept = (value & mask) | (kept & ~mask);
}

INLINE void replace(Lanes &kept, const Bits &mask, const Lanes &value) {
    kept = (Lanes)(((Bits)value & mask) | ((Bits)kept & ~mask));
}

// 1 / x for x from 1 on: a guess from the bits, 5% off, and two steps that cube its error. A division
// takes as long as thirty other operations.
INLINE void reciprocal(Lanes &out, const Lanes &x) {
    out = (Lanes)(0x7ef311c3 - (Bits)x);
    for (int i = 0; i < 2; i++) {
        Lanes off = 1.0f - x * out;
        out += out * (off + off * off);
    }
}

// 1 / (1 + exp(-x)), with exp as 2^n times a polynomial on [-ln2/2, ln2/2]; relative error below 5e-7.
INLINE void sigmoid(Lanes &out, const Lanes &x) {
    const Lanes most = Lanes{} + 87.0f, least = Lanes{} - 87.0f;  // exp stays a normal float
    Lanes z = most < x ? most : x;
    z = least > z ? least : z;
    const float to_int = 12582912.0f + 127;  // 1.5 * 2^23: adding it leaves n + 127 in the low bits
    Lanes shifted = to_int - z * 1.44269504f;
    Lanes r = z + (shifted - to_int) * 0.693147181f;
    Lanes p = 0.0418901555f - 0.00831252057f * r;
    p = 0.166671142f - p * r;
    p = 0.499992311f - p * r;
    p = 1.0f - p * r;
    p = 1.0f - p * r;
    reciprocal(out, 1.0f + p * (Lanes)((Bits)shifted << 23));
}

// The activation of a value, and its slope there.
INLINE void activate(Lanes &out, Lanes &slope, const Lanes &value, bool relu) {
    if (relu) {
        Bits positive, unknown;
        below_zero(positive, 0.0f - value);
        no_number(unknown, value);
        slope = (Lanes)((Bits)(Lanes{} + 1.0f) & positive);
        out = (Lanes)((Bits)value & (positive | unknown));
    } else {
        Lanes gate;
        sigmoid(gate, value);
        out = value * gate;
        slope = gate + out * (1.0f - gate);
    }
}
