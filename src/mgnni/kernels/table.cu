// Coefficients and degrees of the polynomials that a sweep applies, one thread per column. Columns
// are sorted by the rank of their eigenvalues, over all equations.

#define MOST_ROOTS 16

struct Complex {
  double re, im;
};
__device__ __forceinline__ Complex times(Complex a, Complex b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
__device__ __forceinline__ Complex over(Complex a, Complex b) {
  const double size = b.re * b.re + b.im * b.im;
  return {(a.re * b.re + a.im * b.im) / size, (a.im * b.re - a.re * b.im) / size};
}
__device__ __forceinline__ Complex root(Complex a) {  // the principal square root
  const double size = hypot(a.re, a.im);
  const double re = sqrt(fmax(0.5 * (size + a.re), 0.0));
  const double im = sqrt(fmax(0.5 * (size - a.re), 0.0));
  return {re, copysign(im, a.im)};
}

extern "C" __global__ void table(
    const double* __restrict__ values,  // (equations, padded): eigenvalues of the weights
    const int* __restrict__ scales,     // (equations)
    float* coefficient,                 // (terms, width)
    int* degree,                        // (groups): the largest of its columns
    int* column_degree,                 // (width)
    int* needed,                        // (equations): the largest of all, zero on entry
    int equations, int padded, int terms, int chebyshev, double gamma, double bound, double tol) {
  const int width = equations * padded, c = blockIdx.x * blockDim.x + threadIdx.x;
  int own = 0;
  if (c < width) {
    const int equation = c % equations;
    const int m = scales[equation];
    const double mu = gamma * values[equation * padded + c / equations];
    const double scaled = mu * pow(bound, (double)m), rate = fabs(scaled);
    if (chebyshev) {
      Complex front[MOST_ROOTS], rho[MOST_ROOTS];
      double slowest = 0, tail = 0;
      for (int r = 0; r < m; ++r) {
        const double angle = (2 * r + (mu < 0)) * 3.14159265358979323846 / m;
        const double size = pow(rate, 1.0 / m);
        const Complex a = {size * cos(angle), size * sin(angle)};
        const Complex aa = times(a, a), square = root({1 - aa.re, -aa.im});
        front[r] = over({2.0 / m, 0}, square);
        rho[r] = over(a, {1 + square.re, square.im});
        const double length = fmin(hypot(rho[r].re, rho[r].im), 1 - 1e-12);
        slowest = fmax(slowest, length);
        tail += hypot(front[r].re, front[r].im) / (1 - length);
      }
      if (slowest > 1e-300)
        own = (int)fmin(fmax(ceil(log(tol / 2 / tail) / log(slowest) - 1), 0.0), terms - 1.0);
      for (int k = 0; k < terms; ++k) {
        double sum = 0;
        for (int r = 0; r < m; ++r) {
          sum += front[r].re;
          front[r] = times(front[r], rho[r]);
        }
        coefficient[(long)k * width + c] = k > own ? 0.f : (float)(k ? sum : sum / 2);
      }
    } else {
      if (rate > 1e-300)
        own = m * (int)fmin(fmax(ceil(log(tol) / log(rate)), 0.0), (terms - 1) / m * 1.0);
      double power = 1;
      for (int k = 0; k < terms; ++k) {
        const bool hit = k % m == 0;
        coefficient[(long)k * width + c] = hit && k <= own ? (float)power : 0.f;
        if (hit) power *= mu;
      }
    }
    column_degree[c] = own;
    atomicMax(needed + equation, own);
  }
  for (int step = 1; step < 8; step *= 2) own = max(own, __shfl_xor_sync(~0u, own, step));
  if (c < width && c % 8 == 0) degree[c / 8] = own;
}
