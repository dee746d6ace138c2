//! Names: what is exported, and who finds it.

use std::ffi::{CStr, CString};
use std::ptr::null;

use crate::support::{Api, alone};

/// What callers of the four libraries look for.
const NAMES: &str = "
    cuInit cuDriverGetVersion cuDeviceGetCount cuDeviceGet cuDeviceGetName cuDeviceTotalMem_v2 cuDeviceGetAttribute cuCtxCreate_v2
    cuCtxDestroy_v2 cuCtxSetCurrent cuCtxGetCurrent cuCtxSynchronize cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRelease cuMemAlloc_v2
    cuMemFree_v2 cuMemGetInfo_v2 cuMemAllocAsync cuMemFreeAsync cuMemCreate cuMemRelease cuMemMap cuMemUnmap cuMemAddressReserve
    cuMemAddressFree cuMemSetAccess cuMemcpyHtoD_v2 cuMemcpyDtoH_v2 cuMemcpyDtoD_v2 cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2
    cuMemcpyDtoDAsync_v2 cuMemsetD8_v2 cuStreamCreate cuStreamDestroy_v2 cuStreamSynchronize cuStreamQuery cuStreamWaitValue32_v2
    cuStreamWriteValue32_v2 cuEventCreate cuEventRecord cuEventSynchronize cuEventQuery cuEventElapsedTime cuEventDestroy_v2
    cuLaunchKernel cuLaunchKernelEx cuGraphLaunch cuGetErrorName cuGetErrorString cuGetProcAddress_v2 cuGetProcAddress
    cudaMalloc cudaFree cudaMallocAsync cudaFreeAsync cudaMallocFromPoolAsync cudaMemGetInfo cudaMemcpy cudaMemcpyAsync cudaMemset
    cudaGetDeviceCount cudaSetDevice cudaGetDevice cudaDeviceSynchronize cudaStreamCreate cudaStreamCreateWithFlags
    cudaStreamDestroy cudaStreamSynchronize cudaStreamQuery cudaEventCreate cudaEventCreateWithFlags cudaEventRecord
    cudaEventSynchronize cudaEventQuery cudaEventElapsedTime cudaEventDestroy cudaLaunchKernel cudaGraphLaunch cudaStreamIsCapturing
    cudaThreadExchangeStreamCaptureMode cudaGetLastError cudaPeekAtLastError cudaGetErrorString cudaGetErrorName
    cudaRuntimeGetVersion cudaDriverGetVersion
    ncclGetVersion ncclGetUniqueId ncclCommInitRank ncclCommInitRankConfig ncclCommInitAll ncclCommDestroy ncclCommAbort
    ncclCommFinalize ncclCommCount ncclCommUserRank ncclCommCuDevice ncclCommGetAsyncError ncclGetErrorString ncclGetLastError
    ncclGroupStart ncclGroupEnd ncclAllReduce ncclAllGather ncclReduceScatter ncclBroadcast ncclReduce ncclSend ncclRecv
    nvmlInit_v2 nvmlShutdown nvmlDeviceGetCount_v2 nvmlDeviceGetHandleByIndex_v2 nvmlDeviceGetMemoryInfo
    nvmlDeviceGetMemoryInfo_v2 nvmlDeviceGetName nvmlDeviceGetUtilizationRates nvmlErrorString";

#[test]
fn all_names_are_there() {
    alone("symbols::all_names_are_there", &[], || {
        let api = Api::built();
        let missing: Vec<&str> =
            NAMES.split_ascii_whitespace().filter(|name| api.symbol(name).is_null()).collect();
        assert!(missing.is_empty(), "{missing:?}");
    });
}

#[test]
fn the_driver_finds_the_same_functions_as_the_loader() {
    alone("symbols::the_driver_finds_the_same_functions_as_the_loader", &[], || {
        let api = Api::built();
        let driver =
            NAMES.split_ascii_whitespace().filter(|name| name.starts_with("cu") && !name.starts_with("cuda"));
        let mut seen = 0;
        for symbol in driver.filter(|name| *name != "cuGetProcAddress") {
            // It is asked for a function as the headers name it.
            let name = CString::new(symbol.trim_end_matches("_v2")).expect("no 0 inside");
            let (mut found, mut status) = (null(), -1);
            assert_eq!(
                api.cuGetProcAddress_v2(name.as_ptr(), &mut found, 12000, 2, &mut status),
                0,
                "{name:?}"
            );
            let newer = api.symbol(&format!("{}_v2", symbol.trim_end_matches("_v2")));
            let expected = if newer.is_null() { api.symbol(symbol) } else { newer };
            assert_eq!((found, status), (expected, 0), "{name:?}");
            seen += 1;
        }
        assert!(seen > 50, "{seen}");

        let name = c"cuGetProcAddress".as_ptr();
        let mut found = null();
        assert_eq!(api.cuGetProcAddress(name, &mut found, 11030, 0), 0);
        assert_eq!(found, api.symbol("cuGetProcAddress"), "four arguments before 12");
        assert_eq!(api.cuGetProcAddress(name, &mut found, 12000, 0), 0);
        assert_eq!(found, api.symbol("cuGetProcAddress_v2"), "five since");
        let mut status = -1;
        assert_eq!(api.cuGetProcAddress_v2(c"cuNothing".as_ptr(), &mut found, 12000, 0, &mut status), 500);
        assert_eq!((found, status), (null(), 1));
    });
}

#[test]
fn errors_have_names() {
    alone("symbols::errors_have_names", &[], || {
        let api = Api::built();
        let mut text = null();
        assert_eq!(api.cuGetErrorName(2, &mut text), 0);
        // SAFETY: a text of the library.
        assert_eq!(unsafe { CStr::from_ptr(text) }, c"CUDA_ERROR_OUT_OF_MEMORY");
        assert_eq!(api.cuGetErrorName(12345, &mut text), 1);
        assert!(text.is_null());
    });
}
