// From norms to certificates: one thread per equation and graph.

extern "C" __global__ void conclude(
    const double* __restrict__ found,    // (6, equations, graphs), from norms.cu
    const double* __restrict__ values,   // (equations, padded): eigenvalues, falling
    const double* __restrict__ steps,    // (equations): gamma times a bound on the norm of P^m
    const double* __restrict__ factors,  // (equations): rounding factors of a residual
    const double* __restrict__ turned,   // (graphs): factor to the Frobenius norm, or null
    const int* __restrict__ needed,      // (equations)
    double* numbers,  // (5, equations, graphs): residual, reference, bound, contraction, iterations
    int equations, int graphs, int padded, int other, double unit,
    double left) {  // bound on the error of an eigenvalue
  const int i = blockIdx.x * blockDim.x + threadIdx.x, all = equations * graphs;
  if (i >= all) return;
  const int equation = i / graphs, graph = i - equation * graphs;
  const double r = sqrt(found[i]), z = sqrt(found[all + i]), b = sqrt(found[2 * all + i]);
  const double own_r = other ? found[3 * all + i] : r, own_z = other ? found[4 * all + i] : z,
               own_b = other ? found[5 * all + i] : b;
  const double contraction = steps[equation] * (values[equation * padded] + left);
  const double rounding = unit * (factors[equation] * own_z + 2 * (own_z + own_b));
  const double bound = (own_r + rounding) / (1 - contraction);
  numbers[i] = r;
  numbers[all + i] = z >= b ? z : b;
  numbers[2 * all + i] = turned ? bound * turned[graph] : bound;
  numbers[3 * all + i] = contraction;
  numbers[4 * all + i] = needed[equation];
}
