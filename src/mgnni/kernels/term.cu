// One term of a sweep over a large graph, in one pass over memory:
//
//   next  = factor * P now + keep * next,
//   total = total + coefficient * next,     if there is a total.
//
// A warp takes a row, whole blocks take a long one, some columns each. Its lanes stand side by side over the columns, four
// columns each; if that leaves lanes over, they take other entries of the row at the same time.
// Sums always add in one order. Only the first columns of the rows are touched, so columns that are
// finished cost nothing, and nothing has to be moved together.

#define FULL 0xFFFFFFFFu
#define MOST_WARPS 32

__device__ __forceinline__ void add(float4& sum, float v, float4 x) {
  sum.x = fmaf(v, x.x, sum.x);
  sum.y = fmaf(v, x.y, sum.y);
  sum.z = fmaf(v, x.z, sum.z);
  sum.w = fmaf(v, x.w, sum.w);
}

__device__ __forceinline__ void add(float4& sum, float4 v, float4 x) {
  sum.x = fmaf(v.x, x.x, sum.x);
  sum.y = fmaf(v.y, x.y, sum.y);
  sum.z = fmaf(v.z, x.z, sum.z);
  sum.w = fmaf(v.w, x.w, sum.w);
}

extern "C" __global__ void __launch_bounds__(1024) term(
    const int* __restrict__ crow, const int* __restrict__ col, const float* __restrict__ value,
    const int* __restrict__ chosen,  // rows to take; none: all of them but long ones
    int rows, int longest,           // rows; entries past which a row is a long one
    const float* __restrict__ now, float* next, float* total,  // rows of pitch numbers
    const float* __restrict__ coefficient, int width, long long pitch,
    float factor, float keep,
    int warps,    // that share a row: one, or all of a block
    int lanes) {  // that take an entry, a power of two
  __shared__ float4 partial[MOST_WARPS][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int member = warp % warps, teams = blockDim.x / 32 / warps;
  const long long index = (long long)blockIdx.x * teams + warp / warps;
  if (index >= rows) return;  // a whole block, if its warps share a row
  const int row = chosen ? chosen[index] : (int)index;
  const int begin = crow[row], stop = crow[row + 1];
  if (!chosen && stop - begin > longest) return;
  const int side = 32 / lanes, place = lane / lanes, slot = lane % lanes;
  const int tile = 4 * lanes;  // columns taken at one time
  for (int base = tile * blockIdx.y; base < width; base += tile * gridDim.y) {
    const int column = base + 4 * slot;
    const bool mine = column < width;
    const float* x = now + (mine ? column : base);
    float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int from = begin + 32 * member; from < stop; from += 32 * warps) {
      // All lanes read entries together, and hand them on to one another.
      const int e = min(from + lane, stop - 1);
      const int c = __ldcs(col + e);
      const float v = from + lane < stop ? __ldcs(value + e) : 0.f;
      const int count = min(32, stop - from);
      int j = place;
      for (; j - place + 3 * side < count; j += 4 * side) {  // four loads under way at a time
        float4 y[4];
#pragma unroll
        for (int u = 0; u < 4; ++u)
          y[u] = __ldg((const float4*)(x + __shfl_sync(FULL, c, j + u * side) * pitch));
#pragma unroll
        for (int u = 0; u < 4; ++u) add(sum, __shfl_sync(FULL, v, j + u * side), y[u]);
      }
      for (; j - place < count; j += side) {
        const float4 y = __ldg((const float4*)(x + __shfl_sync(FULL, c, j) * pitch));
        add(sum, __shfl_sync(FULL, v, j), y);
      }
    }
    for (int step = lanes; step < 32; step *= 2) {
      sum.x += __shfl_xor_sync(FULL, sum.x, step);
      sum.y += __shfl_xor_sync(FULL, sum.y, step);
      sum.z += __shfl_xor_sync(FULL, sum.z, step);
      sum.w += __shfl_xor_sync(FULL, sum.w, step);
    }
    if (warps > 1) {
      partial[warp][lane] = sum;
      __syncthreads();
      if (member == 0)
        for (int other = 1; other < warps; ++other) add(sum, 1.f, partial[other][lane]);
      __syncthreads();
    }
    if (member || place || !mine) continue;
    const long long at = row * pitch + column;
    float4 t = make_float4(factor * sum.x, factor * sum.y, factor * sum.z, factor * sum.w);
    if (keep != 0.f) add(t, keep, __ldcs((const float4*)(next + at)));
    *(float4*)(next + at) = t;
    if (!total) continue;
    float4 s = __ldcs((const float4*)(total + at));
    add(s, __ldg((const float4*)(coefficient + column)), t);
    __stcs((float4*)(total + at), s);
  }
}
