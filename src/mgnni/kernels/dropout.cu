// Dropout with masks that are a function of key and counter, as in Dropout of the layers.

extern "C" __global__ void dropout(
    const float* __restrict__ x, float* out,  // (runs, size)
    const long long* __restrict__ key,        // (runs)
    const int* __restrict__ place,            // (size), or null to count the entries
    long long all, long long size, int threshold, float rest) {
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < all;
       i += (long long)gridDim.x * blockDim.x) {
    const long long run = i / size, j = i - run * size;
    const unsigned low = (unsigned)key[run], high = (unsigned)(key[run] >> 32);
    unsigned bits = (place ? (unsigned)place[j] : (unsigned)j) * 2654435761u + low;
    bits = (bits ^ bits >> 16) * 2146121005u + high;
    bits = (bits ^ bits >> 15) * 2221713035u;
    bits = (bits ^ bits >> 16) * 2146121005u;
    out[i] = (int)bits >= threshold ? __fdiv_rn(x[i], rest) : 0.f;
  }
}
