// Eigenpairs of small symmetric positive semidefinite matrices, one block a matrix, in float64.
//
// Jacobi's method from one side: columns of W V are rotated in pairs until they are orthogonal;
// then W V = V diag(lambda). Eight lanes take a pair, and all pairs of a round are disjoint. It
// starts from the V of the last time, if there is one: after a step of training that is nearly right.

#define MOST_SWEEPS 30
#define TEAM 8
#define MOST_PAIRS 8  // of rows, a lane

extern "C" __global__ void __launch_bounds__(512, 1) eigen(
    const float* __restrict__ weight,  // (matrices, h, h)
    float* vectors,                    // (matrices, h, padded): columns by falling eigenvalue
    double* values,                    // (matrices, padded)
    double* basis,                     // (matrices, h * h + 1): V, and whether there is one
    int h, int padded, double close) {
  extern __shared__ __align__(16) double store[];
  const int ld = h + (h & 1);  // columns in one piece, read two numbers at a time
  double *a = store, *v = store + h * ld, *square = v + h * ld;
  __shared__ int turned;
  const int team = threadIdx.x / TEAM, teams = blockDim.x / TEAM, lane = threadIdx.x % TEAM;
  const unsigned mask = 0xFFu << (threadIdx.x % 32 / TEAM * TEAM);
  const float* w = weight + (long)blockIdx.x * h * h;
  double* last = basis + (long)blockIdx.x * (h * h + 1);
  const bool warm = last[h * h] == 1.0;
  for (int i = threadIdx.x; i < 2 * h * ld; i += blockDim.x) store[i] = 0;  // an odd row is zero
  __syncthreads();
  for (int i = threadIdx.x; i < h * h; i += blockDim.x)
    v[i / h * ld + i % h] = warm ? last[i] : i % (h + 1) == 0;
  __syncthreads();
  for (int i = threadIdx.x; i < h * h; i += blockDim.x) {
    const int col = i / h, row = i - col * h;
    double sum = 0;
    if (warm)
      for (int k = 0; k < h; ++k) sum += (double)w[k * h + row] * v[col * ld + k];
    else
      sum = w[col * h + row];
    a[col * ld + row] = sum;
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
        const double c = rsqrt(1 + t * t), s = c * t;
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
          turned = 1;
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
