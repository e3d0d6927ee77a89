// Norms of residual, state and bias, graph by graph, in float64: sums of squares, and the norm in
// which the operator contracts (a largest row or a sum of rows, weighted), if that is another one.

#define TEAM 8  // lanes that take a row
#define ROWS 4  // that they take, one after another

__device__ __forceinline__ double size(const float* x, int h, int lane, unsigned mask) {
  double sum = 0;
  for (int c = lane; c < h; c += TEAM) sum += (double)x[c] * x[c];
  for (int step = TEAM / 2; step; step /= 2) sum += __shfl_xor_sync(mask, sum, step);
  return sum;
}

extern "C" __global__ void norms(
    const float* __restrict__ residual, const float* __restrict__ z,  // (equations, nodes, h)
    const float* __restrict__ bias,                                   // one, or as many
    const long long* __restrict__ batch,                              // (nodes), or null
    const double* __restrict__ weight,                                // (nodes), or null
    double* found,  // (6, equations, graphs), zero before
    int equations, int nodes, int h, int graphs, int shared, int largest) {
  const int lane = threadIdx.x % TEAM;
  const unsigned mask = 0xFFu << (threadIdx.x % 32 / TEAM * TEAM);
  const long team = ((long)blockIdx.x * blockDim.x + threadIdx.x) / TEAM;
  const long each = (nodes + ROWS - 1) / ROWS;
  const int equation = team / each;
  if (equation >= equations) return;
  const int from = (team - equation * each) * ROWS, to = min(from + ROWS, nodes);
  double plain[3] = {0, 0, 0}, own[3] = {0, 0, 0};
  const long step = (long)equations * graphs;
  for (int node = from; node < to; ++node) {
    const long at = ((long)equation * nodes + node) * h;
    const double squares[3] = {
        size(residual + at, h, lane, mask), size(z + at, h, lane, mask),
        size(bias + (shared ? (long)node * h : at), h, lane, mask)};
    const int graph = batch ? (int)batch[node] : 0;
    const bool ends = node + 1 == to || (batch && batch[node + 1] != graph);
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      plain[i] += squares[i];
      if (weight) {
        const double row = sqrt(squares[i]);
        const double over = row / weight[node];
        if (largest)
          own[i] = own[i] >= over || isnan(own[i]) ? own[i] : over;  // keeps a nan
        else
          own[i] += row * weight[node];
      }
      if (ends && lane == 0) {
        double* place = found + i * step + (long)equation * graphs + graph;
        atomicAdd(place, plain[i]);
        if (weight && largest)  // of numbers that are not negative, as bits
          atomicMax((unsigned long long*)(place + 3 * step), __double_as_longlong(own[i]));
        else if (weight)
          atomicAdd(place + 3 * step, own[i]);
      }
      if (ends) plain[i] = own[i] = 0;
    }
  }
}
