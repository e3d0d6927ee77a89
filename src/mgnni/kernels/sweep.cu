// A whole sweep of products with a sparse matrix P in one cooperative launch.
//
//   t_0 given,  t_k = P t_{k-1}             (powers), or
//               t_k = 2 P t_{k-1} - t_{k-2} (Chebyshev; t_1 = P t_0),
//   total = sum_k coefficient[k] * t_k,     column by column.
//
// Columns are processed in groups of eight; a group is skipped once its degree is reached. Every
// block owns a range of rows, so that a step needs one grid barrier and no atomics, and sums are
// always added in the same order. With few groups, a step is bound by latency: rows are split into
// parts short enough to be read at once, and a block keeps its part of P in shared memory if it
// fits.

#define COLUMNS 8     // columns per group
#define TEAM 8        // lanes per part
#define NEIGHBOURS 4  // entries that a team reads at once: two lanes each, four columns per lane

__device__ __forceinline__ void barrier(unsigned* arrived, unsigned goal) {
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned seen;
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(arrived) : "memory");
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(arrived) : "memory");
    } while (seen < goal);
  }
  __syncthreads();
}

__device__ __forceinline__ void add(float4& sum, float v, float4 x) {
  sum.x = fmaf(v, x.x, sum.x);
  sum.y = fmaf(v, x.y, sum.y);
  sum.z = fmaf(v, x.z, sum.z);
  sum.w = fmaf(v, x.w, sum.w);
}

extern "C" __global__ void __launch_bounds__(1024, 1) sweep(
    const int* __restrict__ row_of,    // (blocks + 1): first row of each block
    const int* __restrict__ entry_of,  // (blocks + 1): first entry of each block
    const int* __restrict__ part,      // (2, most_starts): first entry of each part
    const int* __restrict__ first,     // (2, all_rows + 1): first part of each row
    const int* __restrict__ col, const float* __restrict__ value,
    float* now, float* next, float* total,  // (rows, width)
    const float* __restrict__ coefficient,  // (terms, width)
    const int* __restrict__ degree,         // (groups)
    unsigned* arrived, int width, int few, int together, int fine, int coarse,
    int all_parts, int all_rows, int most_entries, int most_rows, int chebyshev, float inverse) {
  extern __shared__ __align__(16) float memory[];
  const int groups = width / COLUMNS;
  float* partial = memory;  // partial sums
  int* own_col = (int*)(partial + (long)max(few * fine, together * coarse) * COLUMNS);
  float* own_value = (float*)(own_col + most_entries);
  int* own_part = (int*)(own_value + most_entries);  // short parts, then long parts
  int* own_first = own_part + (most_entries ? fine + coarse + 2 : 0);
  int* active = own_first + 2 * most_rows;           // groups
  __shared__ int count, least;
  const int team = threadIdx.x / TEAM, teams = blockDim.x / TEAM;
  const int lane = threadIdx.x % TEAM, half = lane & 1, place = lane >> 1;
  const unsigned mask = 0xFFu << (threadIdx.x % 32 / TEAM * TEAM);
  const int row = row_of[blockIdx.x], rows = row_of[blockIdx.x + 1] - row;
  const int begin = entry_of[blockIdx.x], entries = entry_of[blockIdx.x + 1] - begin;

  // Entries are counted from the first one of the block.
  const int* from_col = col + begin;
  const float* from_value = value + begin;
  if (most_entries) {
    for (int way = 0; way < 2; ++way) {
      const int* from = first + way * (all_rows + 1) + row;
      for (int i = threadIdx.x; i <= rows; i += blockDim.x) own_first[way * most_rows + i] = from[i];
      const int* starts = part + way * (all_parts + 1);
      for (int i = from[0] + threadIdx.x; i <= from[rows]; i += blockDim.x)
        own_part[way * (fine + 1) + i - from[0]] = starts[i];
    }
    for (int i = threadIdx.x; i < entries; i += blockDim.x) {
      own_col[i] = from_col[i];
      own_value[i] = from_value[i];
    }
    from_col = own_col;
    from_value = own_value;
  }
  {
    const long from = (long)row * width, to = (long)(row + rows) * width;
    for (long i = from + 4 * threadIdx.x; i < to; i += 4 * blockDim.x) {
      const float4 a = __ldg((const float4*)(coefficient + i % width));
      const float4 t = __ldcg((const float4*)(now + i));
      __stcg((float4*)(total + i), make_float4(a.x * t.x, a.y * t.y, a.z * t.z, a.w * t.w));
    }
  }
  int until = 0, wanted = 0, most = 0, part_first = 0, parts = 0;
  const int *from_part = 0, *from_first = 0;
  for (int k = 1;; ++k) {
    if (k > until) {  // some groups have reached their degree; the same in all blocks
      __syncthreads();
      if (threadIdx.x == 0) count = 0, least = 1 << 30;
      __syncthreads();
      for (int g = threadIdx.x; g < groups; g += blockDim.x) {
        const int d = __ldg(degree + g);
        if (d < k) continue;
        active[atomicAdd(&count, 1)] = g;
        atomicMin(&least, d);
      }
      __syncthreads();
      wanted = count, until = least;
      if (wanted == 0) return;
      const int way = wanted > few;  // with many groups, long parts occupy all teams
      most = way ? together : few;
      from_first = most_entries ? own_first + way * most_rows : first + way * (all_rows + 1) + row;
      part_first = from_first[0], parts = from_first[rows] - part_first;
      from_part = most_entries ? own_part + way * (fine + 1)
                               : part + way * (all_parts + 1) + part_first;
    }
    if (k > 1) barrier(arrived, (k - 1) * gridDim.x);
    const float factor = !chebyshev ? 1.f : k == 1 ? inverse : 2.f * inverse;
    const bool recurs = chebyshev && k > 1;
    const float* a_k = coefficient + (long)k * width;
    for (int from = 0; from < wanted; from += most) {
      const int some = min(most, wanted - from);
      const float share = 1.f / max(parts, 1);  // a division of small integers
      if (from) __syncthreads();  // the previous partial sums have been read
      for (int i = team; i < parts * some; i += teams) {
        const int which = __float2int_rd((i + 0.5f) * share), p = i - which * parts;
        const int stop = from_part[p + 1] - begin;
        const float* x = now + active[from + which] * COLUMNS + 4 * half;
        float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
        int e = from_part[p] - begin + place;
        for (; e + 3 * NEIGHBOURS < stop; e += 4 * NEIGHBOURS) {  // four loads in flight
          float4 y[4];
#pragma unroll
          for (int u = 0; u < 4; ++u)
            y[u] = __ldcg((const float4*)(x + (long)from_col[e + u * NEIGHBOURS] * width));
#pragma unroll
          for (int u = 0; u < 4; ++u) add(sum, from_value[e + u * NEIGHBOURS], y[u]);
        }
        for (; e < stop; e += NEIGHBOURS)
          add(sum, from_value[e], __ldcg((const float4*)(x + (long)from_col[e] * width)));
#pragma unroll
        for (int step = 2; step < TEAM; step *= 2) {
          sum.x += __shfl_xor_sync(mask, sum.x, step);
          sum.y += __shfl_xor_sync(mask, sum.y, step);
          sum.z += __shfl_xor_sync(mask, sum.z, step);
          sum.w += __shfl_xor_sync(mask, sum.w, step);
        }
        if (place == 0) *(float4*)(partial + (long)i * COLUMNS + 4 * half) = sum;
      }
      // Load what a row needs besides its partial sums before these have arrived in shared memory.
      int i = threadIdx.x;
      do {
        const bool mine = i < 2 * rows * some;
        const int pair = i >> 1, side = i & 1;
        const int which = some == 1 || !mine ? 0 : pair / rows, r = pair - which * rows;
        const int column = active[from + which] * COLUMNS + 4 * side;
        const long at = (long)(row + r) * width + column;
        float4 a, s, old = make_float4(0.f, 0.f, 0.f, 0.f), sum = old;
        int slot = 0, last = 0;
        if (mine) {
          a = __ldg((const float4*)(a_k + column));
          if (recurs) old = __ldcg((const float4*)(next + at));
          s = __ldcg((const float4*)(total + at));
          slot = from_first[r] - part_first, last = from_first[r + 1] - part_first;
        }
        if (i < blockDim.x) __syncthreads();
        if (mine) {
          for (; slot < last; ++slot)
            add(sum, 1.f, *(float4*)(partial + ((long)which * parts + slot) * COLUMNS + 4 * side));
          float4 t = make_float4(factor * sum.x, factor * sum.y, factor * sum.z, factor * sum.w);
          add(t, -1.f, old);
          __stcg((float4*)(next + at), t);
          s.x = fmaf(a.x, t.x, s.x);
          s.y = fmaf(a.y, t.y, s.y);
          s.z = fmaf(a.z, t.z, s.z);
          s.w = fmaf(a.w, t.w, s.w);
          __stcg((float4*)(total + at), s);
        }
        i += blockDim.x;
      } while (i < 2 * rows * some);
    }
    float* turned = now;
    now = next;
    next = turned;
  }
}
