// Eigenpairs of small symmetric positive semidefinite matrices, one block a matrix, in float64.
//
// Jacobi's method from one side: columns of W V are rotated in pairs until they are orthogonal;
// then W V = V diag(lambda). Eight lanes take a pair, and all pairs of a round are disjoint. It
// starts from the V of the last time, if there is one: after a step of training that is nearly right.
//
// Both are in shared memory, or of wide matrices W V alone, which is read in every round; V is only
// written when something is turned.

#define MOST_SWEEPS 30
#define TEAM 8
#define MOST_PAIRS 8  // of rows, a lane
#define AT_A_TIME 4   // columns of W V
#define SLIGHT 1e-5   // after turns by no more, what is left to turn is of the size of its square

template <bool APART>  // whether V is in other memory
__device__ __forceinline__ void run(
    const float* __restrict__ weight, float* vectors, double* values, double* basis, double* room,
    int h, int padded, double close) {
  extern __shared__ __align__(16) double store[];
  const int ld = h + (h & 1);  // columns in one piece, read two numbers at a time
  double* a = store;
  double* v = APART ? room + (long)blockIdx.x * h * ld : store + h * ld;
  double* square = store + (APART ? 1 : 2) * h * ld;
  __shared__ int turned;
  const int team = threadIdx.x / TEAM, teams = blockDim.x / TEAM, lane = threadIdx.x % TEAM;
  const unsigned mask = 0xFFu << (threadIdx.x % 32 / TEAM * TEAM);
  const float* w = weight + (long)blockIdx.x * h * h;
  double* last = basis + (long)blockIdx.x * (h * h + 1);
  const bool warm = last[h * h] == 1.0;
  for (int i = threadIdx.x; i < h * ld; i += blockDim.x) a[i] = v[i] = 0;  // an odd row is zero
  __syncthreads();
  for (int i = threadIdx.x; i < h * h; i += blockDim.x)
    v[i / h * ld + i % h] = warm ? last[i] : i % (h + 1) == 0;
  __syncthreads();
  for (int i = threadIdx.x; i < (h + AT_A_TIME - 1) / AT_A_TIME * h; i += blockDim.x) {
    const int first = i / h * AT_A_TIME, row = i % h;
    double sum[AT_A_TIME] = {};
    if (warm)
      for (int k = 0; k < h; ++k) {
        const double x = w[k * h + row];
#pragma unroll
        for (int u = 0; u < AT_A_TIME; ++u) sum[u] += x * v[min(first + u, h - 1) * ld + k];
      }
#pragma unroll
    for (int u = 0; u < AT_A_TIME; ++u)
      if (first + u < h) a[(first + u) * ld + row] = warm ? sum[u] : w[(first + u) * h + row];
  }
  const int players = h + (h & 1);  // an odd one out rests
  for (int sweep = 0; sweep < MOST_SWEEPS; ++sweep) {
    __syncthreads();
    if (threadIdx.x == 0) turned = 0;
    for (int j = team; j < h; j += teams) {
      double sum = 0;
      for (int r = lane; r < h; r += TEAM) sum += a[j * ld + r] * a[j * ld + r];
      for (int step = TEAM / 2; step; step /= 2) sum += __shfl_xor_sync(mask, sum, step);
      if (lane == 0) square[j] = sum;
    }
    for (int round = 0; round < players - 1; ++round) {
      __syncthreads();
      for (int i = team; i < players / 2; i += teams) {
        int p = players - 1, q = round;
        if (i) {
          p = round + i, q = round - i;
          if (p >= players - 1) p -= players - 1;
          if (q < 0) q += players - 1;
        }
        if (p >= h || q >= h) continue;
        double2 *ap = (double2*)(a + p * ld), *aq = (double2*)(a + q * ld);
        double2 *vp = (double2*)(v + p * ld), *vq = (double2*)(v + q * ld);
        const double alpha = square[p], beta = square[q];
        double2 x[MOST_PAIRS], y[MOST_PAIRS];
        double dot = 0, other = 0;
#pragma unroll
        for (int u = 0; u < MOST_PAIRS; ++u) {
          const int r = lane + TEAM * u;
          if (2 * r >= h) break;
          x[u] = ap[r], y[u] = aq[r];
          dot += x[u].x * y[u].x;
          other += x[u].y * y[u].y;
        }
        dot += other;
#pragma unroll
        for (int step = TEAM / 2; step; step /= 2) dot += __shfl_xor_sync(mask, dot, step);
        if (!(dot * dot > close * close * fmax(alpha, beta))) continue;
        // The angle needs no more than single precision; that it is a rotation does.
        const float zeta = (float)((beta - alpha) * 0.5) / (float)dot;
        const float root = sqrtf(fmaf(zeta, zeta, 1.f));
        const double t = isinf(root) ? 0.5f / zeta : copysignf(1.f, zeta) / (fabsf(zeta) + root);
        const double length = 1 + t * t;
        double c = rsqrtf((float)length);  // and two of Newton's steps, faster than a root in float64
        c *= 1.5 - 0.5 * length * c * c;
        c *= 1.5 - 0.5 * length * c * c;
        const double s = c * t;
#pragma unroll
        for (int u = 0; u < MOST_PAIRS; ++u) {
          const int r = lane + TEAM * u;
          if (2 * r >= h) break;
          const double2 g = vp[r], z = vq[r];
          ap[r] = make_double2(c * x[u].x - s * y[u].x, c * x[u].y - s * y[u].y);
          aq[r] = make_double2(s * x[u].x + c * y[u].x, s * x[u].y + c * y[u].y);
          vp[r] = make_double2(c * g.x - s * z.x, c * g.y - s * z.y);
          vq[r] = make_double2(s * g.x + c * z.x, s * g.y + c * z.y);
        }
        __syncwarp(mask);
        if (lane == 0) {
          square[p] = fmax(alpha - t * dot, 0.0);
          square[q] = beta + t * dot;
          if (fabs(t) > SLIGHT) turned = 1;
        }
      }
    }
    __syncthreads();
    if (!turned) break;
  }
  for (int j = team; j < h; j += teams) {
    double sum = 0;
    for (int r = lane; r < h; r += TEAM) sum += a[j * ld + r] * a[j * ld + r];
    for (int step = TEAM / 2; step; step /= 2) sum += __shfl_xor_sync(mask, sum, step);
    if (lane == 0) square[j] = sqrt(sum);
  }
  for (int i = threadIdx.x; i < h * h; i += blockDim.x) last[i] = v[i / h * ld + i % h];
  __syncthreads();
  if (threadIdx.x == 0) {
    double sum = 0;
    for (int j = 0; j < h; ++j) sum += square[j];
    last[h * h] = isfinite(sum) ? 1.0 : 0.0;  // nothing is built on what is not finite
  }
  for (int j = team; j < padded; j += teams) {
    float* out = vectors + (long)blockIdx.x * h * padded;
    double* value = values + (long)blockIdx.x * padded;
    if (j >= h) {
      for (int r = lane; r < h; r += TEAM) out[r * padded + j] = 0.f;
      if (lane == 0) value[j] = 0;
      continue;
    }
    int rank = 0;
    for (int i = 0; i < h; ++i) rank += square[i] > square[j] || (square[i] == square[j] && i < j);
    for (int r = lane; r < h; r += TEAM) out[r * padded + rank] = (float)v[j * ld + r];
    if (lane == 0) value[rank] = square[j];
  }
}

#define KERNEL(NAME, APART)                                                                       \
  extern "C" __global__ void __launch_bounds__(512, 1) NAME(                                      \
      const float* weight, /* (matrices, h, h) */                                                 \
      float* vectors,      /* (matrices, h, padded): columns by falling eigenvalue */             \
      double* values,      /* (matrices, padded) */                                               \
      double* basis,       /* (matrices, h * h + 1): V, and whether there is one */               \
      double* room,        /* for V, whole pairs of rows, if it is apart */                       \
      int h, int padded, double close) {                                                          \
    run<APART>(weight, vectors, values, basis, room, h, padded, close);                           \
  }

KERNEL(eigen, false)
KERNEL(eigen_wide, true)
