// Norms of residual, state and bias per graph, in float64: sums of squares, and the norm in
// which the operator contracts (a weighted maximum or sum of rows), if it is a different one.
// Every team takes a range of rows. For a batch of graphs, teams add to the number of each graph. For
// a single graph, each block reduces first, because thousands of atomic adds to one number are slow.

#define TEAM 8    // lanes per row
#define TEAMS 32  // teams per block

__device__ __forceinline__ double size(const float* x, int h, int lane, unsigned mask) {
  double sum = 0;
  for (int c = lane; c < h; c += TEAM) sum += (double)x[c] * x[c];
  for (int step = TEAM / 2; step; step /= 2) sum += __shfl_xor_sync(mask, sum, step);
  return sum;
}

__device__ __forceinline__ double larger(double a, double b) {  // keeps a nan
  return a >= b || isnan(a) ? a : b;
}

__device__ __forceinline__ void put(double* place, double number, bool largest) {
  if (largest)  // non-negative numbers compare like their bits
    atomicMax((unsigned long long*)place, __double_as_longlong(number));
  else
    atomicAdd(place, number);
}

extern "C" __global__ void __launch_bounds__(TEAM * TEAMS) norms(
    const float* __restrict__ residual, const float* __restrict__ z,  // (equations, nodes, h)
    const float* __restrict__ bias,                                   // one, or one per equation
    const long long* __restrict__ batch,                              // (nodes), or null
    const double* __restrict__ weight,                                // (nodes), or null
    double* found,  // (6, equations, graphs), zero on entry
    int equations, int nodes, int h, int graphs, int shared, int largest, int blocks) {
  __shared__ double sums[6][TEAMS];
  const int lane = threadIdx.x % TEAM, team = threadIdx.x / TEAM;
  const unsigned mask = 0xFFu << (threadIdx.x % 32 / TEAM * TEAM);
  const int equation = blockIdx.x / blocks;
  const int rows = (nodes + blocks * TEAMS - 1) / (blocks * TEAMS);
  const long first = (long)(blockIdx.x % blocks * TEAMS + team) * rows;
  const int from = min(first, (long)nodes), to = min(first + rows, (long)nodes);
  const long step = (long)equations * graphs;
  double plain[3] = {0, 0, 0}, own[3] = {0, 0, 0};
  for (int node = from; node < to; ++node) {
    const long at = ((long)equation * nodes + node) * h;
    const double squares[3] = {
        size(residual + at, h, lane, mask), size(z + at, h, lane, mask),
        size(bias + (shared ? (long)node * h : at), h, lane, mask)};
    const int graph = batch ? (int)batch[node] : 0;
    const bool ends = batch && (node + 1 == to || batch[node + 1] != graph);
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      plain[i] += squares[i];
      if (weight) {
        const double row = sqrt(squares[i]);
        own[i] = largest ? larger(own[i], row / weight[node]) : own[i] + row * weight[node];
      }
      if (ends && lane == 0) {
        double* place = found + i * step + (long)equation * graphs + graph;
        put(place, plain[i], false);
        if (weight) put(place + 3 * step, own[i], largest);
      }
      if (ends) plain[i] = own[i] = 0;
    }
  }
  if (batch) return;
  if (lane == 0) {
#pragma unroll
    for (int i = 0; i < 3; ++i) sums[i][team] = plain[i], sums[3 + i][team] = own[i];
  }
  __syncthreads();
  const int which = threadIdx.x;
  if (which >= (weight ? 6 : 3)) return;
  const bool most = which >= 3 && largest;
  double all = 0;
  for (int i = 0; i < TEAMS; ++i) all = most ? larger(all, sums[which][i]) : all + sums[which][i];
  put(found + which * step + equation, all, most);
}
