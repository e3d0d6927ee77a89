// Eigenpairs of small symmetric positive semidefinite matrices, one block per matrix, in float64.
//
// Jacobi's method: C = V^T W V is rotated in pairs of rows and columns until it is diagonal. All
// pairs of a round are disjoint: their rotations are computed first, and then applied to all of C,
// in blocks of two by two, and to V. It starts from the V of the last call, if there is one: after a
// training step it is nearly right, and for the same W the result is the same to the last bit.
//
// An odd row is paired with a row of zeros. C is in shared memory, and so is V if it fits.

#define MOST_SWEEPS 30
#define AT_A_TIME 4  // entries of a column per thread in a product
#define TINY 1e-12   // eigenvalues up to this are treated as equal and keep their order

// The i-th pair of a round, in round-robin ordering.
__device__ __forceinline__ int2 pair_of(int round, int i, int players) {
  if (i == 0) return make_int2(players - 1, round);
  int p = round + i, q = round - i;
  if (p >= players - 1) p -= players - 1;
  if (q < 0) q += players - 1;
  return make_int2(p, q);
}

// out = left^T right, h by h; rows of out and right have stride n, and those of left as given.
template <typename T>
__device__ __forceinline__ void product(
    double* out, const T* left, long next_k, long next_row, const double* right, int h, int n) {
  for (int i = threadIdx.x; i < (h + AT_A_TIME - 1) / AT_A_TIME * h; i += blockDim.x) {
    const int first = i / h * AT_A_TIME, c = i % h;
    double sum[AT_A_TIME] = {};
    for (int k = 0; k < h; ++k) {
      const double x = right[(long)k * n + c];
#pragma unroll
      for (int u = 0; u < AT_A_TIME; ++u)
        sum[u] += (double)left[k * next_k + min(first + u, h - 1) * next_row] * x;
    }
#pragma unroll
    for (int u = 0; u < AT_A_TIME; ++u)
      if (first + u < h) out[(long)(first + u) * n + c] = sum[u];
  }
}

template <bool APART>  // whether V is in global memory
__device__ __forceinline__ void run(
    const float* __restrict__ weight, float* vectors, double* values, double* basis, double* room,
    int h, int padded, double close) {
  extern __shared__ __align__(16) double store[];
  const int n = h + (h & 1), half = n / 2;
  double* rooms = room + (long)blockIdx.x * 2 * n * n;
  double *c = store, *v = APART ? rooms + n * n : store + n * n;
  double2* turn = (double2*)(store + (APART ? 1 : 2) * n * n);  // cosine and sine of each pair
  double* value_of = (double*)(turn + half);
  const int col = threadIdx.x % half, first = threadIdx.x / half, step = blockDim.x / half;
  const float* w = weight + (long)blockIdx.x * h * h;
  double* last = basis + (long)blockIdx.x * (h * h + 1);
  const bool warm = last[h * h] == 1.0;
  for (int i = threadIdx.x; i < n * n; i += blockDim.x) {
    const int row = i / n, col = i % n;
    const bool inside = row < h && col < h;
    v[i] = !inside ? 0.0 : warm ? last[row * h + col] : row == col;
    c[i] = inside && !warm ? w[row * h + col] : 0.0;
  }
  __syncthreads();
  if (warm) {
    product(rooms, w, 1, h, v, h, n);  // W V
    __syncthreads();
    product(c, v, n, 1, rooms, h, n);  // V^T W V
  }
  for (int sweep = 0; sweep < MOST_SWEEPS; ++sweep) {
    bool turned = false;  // the same in all threads
    for (int round = 0; round < n - 1; ++round) {
      __syncthreads();
      bool turns = false;
      if (threadIdx.x < half) {
        const int2 pq = pair_of(round, threadIdx.x, n);
        const double x = c[pq.x * n + pq.y];
        double2 cs = make_double2(1, 0);
        if (fabs(x) > close) {
          // The angle needs single precision only, but the rotation must be orthogonal.
          const double apart = c[pq.y * n + pq.y] - c[pq.x * n + pq.x];
          const float zeta = (float)(apart * 0.5) / (float)x;
          const float root = sqrtf(fmaf(zeta, zeta, 1.f));
          const double t = isinf(root) ? 0.5f / zeta : copysignf(1.f, zeta) / (fabsf(zeta) + root);
          const double length = 1 + t * t;
          double y = rsqrtf((float)length);  // followed by two Newton steps, faster than a root
          y *= 1.5 - 0.5 * length * y * y;
          y *= 1.5 - 0.5 * length * y * y;
          cs = make_double2(y, y * t);
          turns = true;
        }
        turn[threadIdx.x] = cs;
      }
      if (!__syncthreads_or(turns)) continue;
      turned = true;
      const double2 right = turn[col];
      const int2 k = pair_of(round, col, n);
      for (int row = first; row < half; row += step) {
        const double2 left = turn[row];
        if (left.y == 0 && right.y == 0) continue;
        const int2 r = pair_of(round, row, n);
        double *top = c + r.x * n, *low = c + r.y * n;
        const double a = left.x * top[k.x] - left.y * low[k.x];
        const double b = left.x * top[k.y] - left.y * low[k.y];
        const double d = left.y * top[k.x] + left.x * low[k.x];
        const double e = left.y * top[k.y] + left.x * low[k.y];
        top[k.x] = right.x * a - right.y * b;
        low[k.y] = right.y * d + right.x * e;
        top[k.y] = right.y * a + right.x * b;  // not quite zero within a pair, because the angle is rounded
        low[k.x] = right.x * d - right.y * e;
      }
      if (right.y == 0) continue;
      for (int row = first; row < h; row += step) {
        const double x = v[row * n + k.x], y = v[row * n + k.y];
        v[row * n + k.x] = right.x * x - right.y * y;
        v[row * n + k.y] = right.y * x + right.x * y;
      }
    }
    if (!turned) break;
  }
  // Computed from V and W alone, so that equal V give equal results.
  __syncthreads();
  product(rooms, w, 1, h, v, h, n);
  __syncthreads();
  for (int j = threadIdx.x; j < h; j += blockDim.x) {
    double sum = 0;
    for (int k = 0; k < h; ++k) sum += v[k * n + j] * rooms[k * n + j];
    value_of[j] = sum < TINY ? 0 : sum;
  }
  __syncthreads();
  double trace = 0;
  for (int j = 0; j < h; ++j) trace += value_of[j];
  const bool finite = isfinite(trace);
  float* out = vectors + (long)blockIdx.x * h * padded;
  double* value = values + (long)blockIdx.x * padded;
  int* rank_of = (int*)turn;
  for (int j = threadIdx.x; j < padded; j += blockDim.x) {
    if (j >= h) {
      value[j] = 0;
      continue;
    }
    const double own = value_of[j];
    int rank = 0;
    for (int i = 0; i < h; ++i) rank += value_of[i] > own || (value_of[i] == own && i < j);
    rank_of[j] = finite ? rank : j;
    value[rank_of[j]] = own;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < h * padded; i += blockDim.x) {
    const int row = i / padded, col = i - row * padded;
    if (col >= h) {
      out[i] = 0.f;
      continue;
    }
    const int rank = rank_of[col];
    out[row * padded + rank] = (float)v[row * n + col];
    last[row * h + rank] = v[row * n + col];
  }
  if (threadIdx.x == 0) last[h * h] = finite ? 1.0 : 0.0;  // do not start from non-finite vectors
}

#define KERNEL(NAME, APART)                                                                       \
  extern "C" __global__ void __launch_bounds__(512, 1) NAME(                                      \
      const float* weight, /* (matrices, h, h) */                                                 \
      float* vectors,      /* (matrices, h, padded): columns by falling eigenvalue */             \
      double* values,      /* (matrices, padded) */                                               \
      double* basis,       /* (matrices, h * h + 1): V, and whether there is one */               \
      double* room,        /* (matrices, 2, n, n), with n even: to work in */                     \
      int h, int padded, double close) {                                                          \
    run<APART>(weight, vectors, values, basis, room, h, padded, close);                           \
  }

KERNEL(eigen, false)
KERNEL(eigen_wide, true)
