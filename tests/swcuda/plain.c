// SPDX-License-Identifier: Apache-2.0
/*
 * A program as others write them: the vendor's cuda.h, linked with -lcuda, the NULL stream, contexts of
 * its own. It knows nothing of the software driver, and expects what a GPU's driver answers.
 */
#include <cuda.h>
#include <stdio.h>
#include <string.h>

#define NR	1000u
#define BYTES	(NR * sizeof(unsigned int))

static int failed;

static void expect(CUresult got, CUresult want, const char *call)
{
	const char *name = "an unknown result";

	if (got == want)
		return;
	cuGetErrorName(got, &name);
	printf("%s: %s\n", call, name);
	failed++;
}

#define IS(want, call)	expect(call, want, #call)
#define OK(call)	IS(CUDA_SUCCESS, call)

static unsigned int data[NR], back[NR];

static void expect_back(unsigned int first, unsigned int step, const char *what)
{
	for (unsigned int i = 0; i < NR; i++)
		if (back[i] != first + i * step) {
			printf("%s: word %u is %u\n", what, i, back[i]);
			failed++;
			return;
		}
}

static void copy_and_fill(CUdeviceptr one, CUdeviceptr two)
{
	OK(cuMemcpyHtoD(one, data, BYTES));
	OK(cuMemcpyDtoD(two, one, BYTES));
	OK(cuMemcpyDtoH(back, two, BYTES));
	expect_back(7, 3, "there and back");
	OK(cuMemsetD32(two, 42, NR));
	OK(cuMemcpy((CUdeviceptr)back, two, BYTES));
	expect_back(42, 0, "words");
	OK(cuMemsetD16(two, 0, 2 * NR));
	OK(cuMemsetD8(two, 0, BYTES));
	OK(cuMemcpyDtoH(back, two, BYTES));
	expect_back(0, 0, "bytes");
	IS(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(two + 2, 0, 1));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&one, 0));
}

static void stream(CUdeviceptr one, CUdeviceptr two)
{
	unsigned int *pinned = NULL;
	CUevent from, to;
	CUstream stream;
	float ms = -1;

	OK(cuMemAllocHost((void **)&pinned, BYTES));
	memcpy(pinned, data, BYTES);
	OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	OK(cuEventCreate(&from, CU_EVENT_DEFAULT));
	OK(cuEventCreate(&to, CU_EVENT_DEFAULT));
	OK(cuEventRecord(from, stream));
	OK(cuMemcpyHtoDAsync(one, pinned, BYTES, stream));
	OK(cuMemcpyDtoDAsync(two, one, BYTES, 0));	/* after it, for the stream is a blocking one */
	OK(cuMemcpyDtoHAsync(pinned, two, BYTES, stream));
	OK(cuEventRecord(to, stream));
	OK(cuEventSynchronize(to));
	OK(cuEventQuery(from));
	OK(cuEventElapsedTime(&ms, from, to));
	if (ms < 0)
		failed++, printf("elapsed: %f\n", ms);
	OK(cuStreamSynchronize(stream));
	OK(cuStreamQuery(stream));
	memcpy(back, pinned, BYTES);
	expect_back(7, 3, "through streams");
	OK(cuMemsetD32Async(one, 1, NR, stream));
	OK(cuMemsetD16Async(two, 1, NR, stream));
	OK(cuMemsetD8Async(two, 1, NR, stream));
	OK(cuCtxSynchronize());
	OK(cuEventDestroy(from));
	OK(cuEventDestroy(to));
	OK(cuStreamDestroy(stream));
	OK(cuMemFreeHost(pinned));
}

static void contexts(CUcontext own, CUdevice device)
{
	CUcontext context = NULL;
	CUdeviceptr addr;
	int least, greatest;

	OK(cuCtxGetCurrent(&context));
	if (context != own)
		failed++, printf("another context is current\n");
	OK(cuCtxGetDevice(&device));
	OK(cuCtxGetStreamPriorityRange(&least, &greatest));
	OK(cuCtxSetCurrent(NULL));
	IS(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&addr, 1));
	OK(cuCtxSetCurrent(own));
}

int main(void)
{
	CUdeviceptr one = 0, two = 0, base = 0;
	CUcontext context = NULL;
	CUdevice device = -1;
	size_t bytes = 0;
	char name[64];

	for (unsigned int i = 0; i < NR; i++)
		data[i] = 7 + i * 3;
	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	OK(cuDeviceGetName(name, sizeof(name), device));
#if CUDA_VERSION >= 13000
	OK(cuCtxCreate(&context, NULL, 0, device));
#else
	OK(cuCtxCreate(&context, 0, device));
#endif
	OK(cuMemAlloc(&one, BYTES));
	OK(cuMemAlloc(&two, BYTES));
	OK(cuMemGetAddressRange(&base, &bytes, two + 5));
	if (base != two || bytes != BYTES)
		failed++, printf("another range\n");
	copy_and_fill(one, two);
	stream(one, two);
	contexts(context, device);
	OK(cuMemFree(one));
	OK(cuMemFree(two));
	OK(cuCtxDestroy(context));
	printf("%s: %d failed\n", name, failed);
	return failed != 0;
}
