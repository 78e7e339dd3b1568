// How threads share a 3x3 convolution and its scratch memory, and the products they make.
//
// Where the transformed weights stay in the cache, each thread takes runs of tiles all the way from
// pixels to pixels ("alone"). Where they are large or tiles are few, the threads share each stage
// ("together"): tiles to transform, then products to multiply, then tiles to transform back.
#pragma once

#ifdef _OPENMP
#include <omp.h>
#else
static inline int omp_get_thread_num() { return 0; }
static inline int omp_get_num_threads() { return 1; }
#endif

#include "input_tiles.h"
#include "product.h"

// Each file of kernels has its own copy of these, to inline as it likes.
namespace {

constexpr int64_t ENOUGH = 128;  // tiles for each thread to work alone
constexpr int64_t RUN_FLOATS = 4096;  // of each plane of the tiles that a thread takes alone, if they
constexpr int64_t RUN[] = {32, 64};  // are at least and at most so many
constexpr int64_t SMALL_WEIGHTS = 640 * 1024;  // floats of transformed weights that stay in the cache
constexpr int64_t SHARED_FLOATS = 8 * 1024 * 1024;  // of transformed tiles at a time, together
constexpr int64_t FEW = 32;  // tiles of a thread's turn, together, or a whole row of them
constexpr int64_t BLOCK = 64;  // filters whose gradient is made at once, if tiles are so few that
constexpr int64_t BLOCK_TILES = 96;  // theirs stay in the cache
constexpr int64_t DEPTH = 256;  // of a product at a time: a panel of weights stays in the cache

struct Plan {
    Shape in, out;
    int64_t threads, in_channels, out_channels;  // whole lanes of them
    bool alone;
    int64_t run;  // tiles at a time: whole rows of them alone, whole images together

    // Of the arguments of any kernel that has a convolution's sizes.
    template <class Arguments>
    explicit Plan(const Arguments &a)
        : in{a.images, a.height, a.width, a.channels}, out{a.images, a.height, a.width, a.filters},
          threads(a.threads), in_channels(whole(a.channels)), out_channels(whole(a.filters)) {
        alone = TAPS * in_channels * out_channels <= SMALL_WEIGHTS && tiles() >= ENOUGH * threads;
        int64_t unit = alone ? in.tile_columns() : in.tiles_per_image();
        int64_t both = in_channels + out_channels;
        int64_t most = alone ? std::clamp(RUN_FLOATS / both, RUN[0], RUN[1])
                             : SHARED_FLOATS / (TAPS * both);
        run = std::min(std::max<int64_t>(1, most / unit) * unit, tiles());
    }
    int64_t tiles() const { return in.tiles(); }
    int64_t workers() const { return alone ? threads : 1; }
    bool at_once() const { return !alone && run == tiles() && run <= BLOCK_TILES; }

    // Scratch memory: each worker's tiles and each thread's rows; then the moments of each part of the
    // output, or each thread's gradient of the weights and other rows, and the sums of each image.
    int64_t panel() const { return spaced(run * PANEL); }
    int64_t in_plane() const { return panels(in_channels) * panel(); }
    int64_t out_plane() const { return panels(out_channels) * panel(); }
    int64_t tile_floats() const { return TAPS * (in_plane() + out_plane()); }
    Tiles in_tiles(float *own, int64_t first, int64_t count) const {
        return {first, count, own, in_channels, panel(), in_plane()};
    }
    Tiles out_tiles(float *own, int64_t first, int64_t count) const {
        return {first, count, own + TAPS * in_plane(), out_channels, panel(), out_plane()};
    }
    // Panels one after the other at the same place, which stays in the cache.
    Tiles out_panel(float *own, int64_t first, int64_t count) const {
        return {first, count, own + TAPS * in_plane(), out_channels, 0, panel()};
    }
    // Each worker's gradient of the transformed weights, or each thread's block of it.
    int64_t share_plane() const { return at_once() ? BLOCK * PANEL : spaced(out.channels * in_channels); }
    int64_t share_floats() const { return TAPS * share_plane(); }
    int64_t shares() const { return at_once() ? threads : workers(); }
    int64_t few() const { return std::max<int64_t>(1, FEW / in.tile_columns()) * in.tile_columns(); }
    int64_t part() const { return alone ? run : few(); }  // tiles
    int64_t parts_of_run() const { return (run + part() - 1) / part(); }
    int64_t parts() const { return (tiles() + run - 1) / run * parts_of_run(); }
    int64_t part_floats() const { return 2 * out_channels + LANES; }
    int64_t base_floats() const { return workers() * tile_floats() + threads * rows_floats(in); }
    int64_t forward_floats() const { return base_floats() + parts() * part_floats(); }
    int64_t backward_floats() const {
        return base_floats() + shares() * share_floats() + threads * rows_floats(in) +
               in.images * 2 * in_channels;
    }
    float *own_rows(float *scratch) const {
        return scratch + workers() * tile_floats() + omp_get_thread_num() * rows_floats(in);
    }
};

Tiles some_of(const Tiles &tiles, int64_t start, int64_t count) {
    return {tiles.first + start, std::min(count, tiles.count - start), tiles.at(start, 0),
            tiles.channels, tiles.panel, tiles.plane};
}

// to = from * weights: one of the 36 products, one panel of columns.
void multiply(const Tiles &from, int64_t depth, const float *packed, const Tiles &to, int64_t q,
              int64_t panel) {
    int64_t columns = panel_width(to.channels, panel);
    const float *weights = packed + q * packed_plane(depth, to.channels) + panel * PANEL * depth;
    for (int64_t k = 0; k < depth; k += DEPTH)
        product({from.at(0, k) + q * from.plane, from.row(), 1, from.panel, PANEL,
                 weights + k * columns, columns, to.at(0, panel * PANEL) + q * to.plane, to.row(),
                 from.count, std::min(DEPTH, depth - k), columns, k > 0,
                 weights + std::min(k + DEPTH, depth) * columns});
}

}  // namespace
