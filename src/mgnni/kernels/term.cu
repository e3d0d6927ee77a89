// One term of a sweep, or a single product, in one pass over memory:
//
//   next  = factor * P now + keep * next,
//   total = total + coefficient * next,     if there is a total.
//
// A warp takes a row; several blocks share a long row, each with some of the columns. The lanes of a
// warp lie side by side over the columns, up to four columns each; remaining lanes take other
// entries of the row. Sums are always added in the same order, and rows are independent. Only the
// leading columns are processed, so finished columns cost nothing.
//
// With few columns a row is bound by latency. Then eight lanes take a row, so that four times as
// many rows are in flight.

#define FULL 0xFFFFFFFFu
#define MOST_WARPS 32
#define TEAM 8

template <typename T, int V>
struct alignas(sizeof(T) * V) Pack {
  T v[V];
};

template <typename T, int V>
__device__ __forceinline__ Pack<T, V> load(const T* from) {
  return *reinterpret_cast<const Pack<T, V>*>(from);
}

template <typename T, int V>
__device__ __forceinline__ void add(Pack<T, V>& sum, T v, const Pack<T, V>& x) {
#pragma unroll
  for (int i = 0; i < V; ++i) sum.v[i] = fma(v, x.v[i], sum.v[i]);
}

template <typename T, int V>
__device__ __forceinline__ void run(
    const int* __restrict__ crow, const int* __restrict__ col, const T* __restrict__ value,
    const int* __restrict__ chosen, int rows, int longest, const T* __restrict__ now, T* next,
    T* total, const T* __restrict__ coefficient, int width, long long pitch, T factor, T keep,
    int warps, int lanes) {
  __shared__ Pack<T, V> partial[MOST_WARPS][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int member = warp % warps, teams = blockDim.x / 32 / warps;
  const long long index = (long long)blockIdx.x * teams + warp / warps;
  if (index >= rows) return;  // the whole block, if its warps share a row
  const int row = chosen ? chosen[index] : (int)index;
  const int begin = crow[row], stop = crow[row + 1];
  if (!chosen && stop - begin > longest) return;
  const int side = 32 / lanes, place = lane / lanes, slot = lane % lanes;
  const int tile = V * lanes;  // columns processed at once
  for (int base = tile * blockIdx.y; base < width; base += tile * gridDim.y) {
    const int column = base + V * slot;
    const bool mine = column < width;
    const T* x = now + (mine ? column : base);
    Pack<T, V> sum = {};
    for (int from = begin + 32 * member; from < stop; from += 32 * warps) {
      // All lanes load entries together and exchange them.
      const int e = min(from + lane, stop - 1);
      const int c = __ldcs(col + e);
      const T v = from + lane < stop ? __ldcs(value + e) : T(0);
      const int count = min(32, stop - from);
      int j = place;
      for (; j - place + 3 * side < count; j += 4 * side) {  // four loads in flight
        Pack<T, V> y[4];
#pragma unroll
        for (int u = 0; u < 4; ++u)
          y[u] = load<T, V>(x + __shfl_sync(FULL, c, j + u * side) * pitch);
#pragma unroll
        for (int u = 0; u < 4; ++u) add(sum, __shfl_sync(FULL, v, j + u * side), y[u]);
      }
      for (; j - place < count; j += side) {
        const Pack<T, V> y = load<T, V>(x + __shfl_sync(FULL, c, j) * pitch);
        add(sum, __shfl_sync(FULL, v, j), y);
      }
    }
    for (int step = lanes; step < 32; step *= 2) {
#pragma unroll
      for (int i = 0; i < V; ++i) sum.v[i] += __shfl_xor_sync(FULL, sum.v[i], step);
    }
    if (warps > 1) {
      partial[warp][lane] = sum;
      __syncthreads();
      if (member == 0)
        for (int other = 1; other < warps; ++other) add(sum, T(1), partial[other][lane]);
      __syncthreads();
    }
    if (member || place || !mine) continue;
    const long long at = row * pitch + column;
    Pack<T, V> t = {};
    add(t, factor, sum);
    if (keep != 0) add(t, keep, load<T, V>(next + at));
    *reinterpret_cast<Pack<T, V>*>(next + at) = t;
    if (!total) continue;
    Pack<T, V> s = load<T, V>(total + at), a = load<T, V>(coefficient + column);
#pragma unroll
    for (int i = 0; i < V; ++i) s.v[i] = fma(a.v[i], t.v[i], s.v[i]);
    *reinterpret_cast<Pack<T, V>*>(total + at) = s;
  }
}

template <typename T, int V>
__device__ __forceinline__ void run_narrow(
    const int* __restrict__ crow, const int* __restrict__ col, const T* __restrict__ value,
    int rows, int longest, const T* __restrict__ now, T* next, T* total,
    const T* __restrict__ coefficient, int width, long long pitch, T factor, T keep, int lanes) {
  const long long index = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / TEAM;
  const int lane = threadIdx.x % TEAM, place = lane / lanes, slot = lane % lanes;
  const int side = TEAM / lanes, column = V * slot;
  const int row = (int)min(index, rows - 1LL);
  const int begin = crow[row], end = crow[row + 1];
  const bool theirs = index >= rows || end - begin > longest;
  const int stop = theirs ? begin : end;
  const bool mine = !theirs && place == 0 && column < width;
  const long long at = row * pitch + column;
  Pack<T, V> old = {}, s = {}, a = {}, sum = {}, t = {};
  if (mine) {  // load early what is needed at the end
    if (keep != 0) old = load<T, V>(next + at);
    if (total) s = load<T, V>(total + at), a = load<T, V>(coefficient + column);
  }
  const T* x = now + (column < width ? column : 0);
  for (int e = begin + place; e < stop; e += 4 * side) {
    int c[4];
    T v[4];
    Pack<T, V> y[4];
#pragma unroll
    for (int u = 0; u < 4; ++u) {  // past the end, the last entry has weight zero
      const int i = min(e + u * side, stop - 1);
      c[u] = __ldcs(col + i);
      v[u] = e + u * side < stop ? __ldcs(value + i) : T(0);
    }
#pragma unroll
    for (int u = 0; u < 4; ++u) y[u] = load<T, V>(x + c[u] * pitch);
#pragma unroll
    for (int u = 0; u < 4; ++u) add(sum, v[u], y[u]);
  }
  for (int step = lanes; step < TEAM; step *= 2) {
#pragma unroll
    for (int i = 0; i < V; ++i) sum.v[i] += __shfl_xor_sync(FULL, sum.v[i], step);
  }
  if (!mine) return;
  add(t, factor, sum);
  add(t, keep, old);
  *reinterpret_cast<Pack<T, V>*>(next + at) = t;
  if (!total) return;
#pragma unroll
  for (int i = 0; i < V; ++i) s.v[i] = fma(a.v[i], t.v[i], s.v[i]);
  *reinterpret_cast<Pack<T, V>*>(total + at) = s;
}

#define KERNEL(T, V)                                                                              \
  extern "C" __global__ void __launch_bounds__(1024) term_##T##V(                                 \
      const int* crow, const int* col, const T* value,                                            \
      const int* chosen,      /* rows to take; none: all of them but long ones */                 \
      int rows, int longest,  /* rows; entries past which a row is a long one */                  \
      const T* now, T* next, T* total, /* rows of pitch numbers */                                \
      const T* coefficient, int width, long long pitch, double factor, double keep,               \
      int warps,    /* that share a row: one, or all of a block */                                \
      int lanes) {  /* that take an entry, a power of two */                                      \
    run<T, V>(crow, col, value, chosen, rows, longest, now, next, total, coefficient, width,      \
              pitch, (T)factor, (T)keep, warps, lanes);                                           \
  }                                                                                               \
  extern "C" __global__ void __launch_bounds__(256) term_narrow_##T##V(                           \
      const int* crow, const int* col, const T* value, int rows, int longest, const T* now,       \
      T* next, T* total, const T* coefficient, int width, long long pitch, double factor,         \
      double keep, int lanes) {                                                                   \
    run_narrow<T, V>(crow, col, value, rows, longest, now, next, total, coefficient, width,       \
                     pitch, (T)factor, (T)keep, lanes);                                           \
  }

KERNEL(float, 4)
KERNEL(float, 2)
KERNEL(float, 1)
KERNEL(double, 2)
KERNEL(double, 1)
