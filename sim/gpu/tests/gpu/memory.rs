//! Device memory: limits, errors, both ways to hold it.

use std::ffi::c_void;
use std::ptr::null_mut;

use crate::support::{Api, alone};

const LIMIT: (&str, &str) = ("BROWNOUT_GPU_MEMORY", "4194304");
const MIB: usize = 1 << 20;
const OUT_OF_MEMORY: i32 = 2;

#[test]
fn every_way_to_allocate_ends_at_the_limit() {
    alone("memory::every_way_to_allocate_ends_at_the_limit", &[LIMIT], || {
        let api = Api::ready();
        let held = api.malloc(3 * MIB);
        let (mut pointer, mut address, mut handle) = (null_mut(), 0, 0);
        let more = MIB + 1;
        assert_eq!(api.cudaMalloc(&mut pointer, more), OUT_OF_MEMORY);
        assert_eq!(api.cudaMallocAsync(&mut pointer, more, null_mut()), OUT_OF_MEMORY);
        assert_eq!(api.cudaMallocFromPoolAsync(&mut pointer, more, null_mut(), null_mut()), OUT_OF_MEMORY);
        assert_eq!(api.cuMemAlloc_v2(&mut address, more), OUT_OF_MEMORY);
        assert_eq!(api.cuMemAllocAsync(&mut address, more, null_mut()), OUT_OF_MEMORY);
        assert_eq!(api.cuMemCreate(&mut handle, 2 * MIB, [1, 0, 1, 0].as_ptr(), 0), OUT_OF_MEMORY);
        assert_eq!((pointer, address, handle), (null_mut::<c_void>(), 0, 0));
        assert_eq!(api.cudaPeekAtLastError(), OUT_OF_MEMORY);
        assert_eq!(api.cudaGetLastError(), OUT_OF_MEMORY);
        assert_eq!(api.cudaGetLastError(), 0, "an error is told once");

        let rest = api.malloc(MIB);
        assert_eq!(api.free_bytes(), 0);
        assert_eq!(api.cudaFree(held), 0);
        assert_eq!(api.cudaFree(rest), 0);
        assert_eq!(api.free_bytes(), 4 * MIB);
    });
}

#[test]
fn driver_runtime_and_nvml_tell_the_same() {
    alone("memory::driver_runtime_and_nvml_tell_the_same", &[LIMIT], || {
        let api = Api::ready();
        let mut device = null_mut();
        let (mut one, mut two) = ([0; 3], [0; 5]);
        assert_eq!(api.nvmlDeviceGetHandleByIndex_v2(0, &mut device), 1, "not opened yet");
        assert_eq!(api.nvmlInit_v2(), 0);
        assert_eq!(api.nvmlDeviceGetHandleByIndex_v2(1, &mut device), 2, "there is one");
        assert_eq!(api.nvmlDeviceGetHandleByIndex_v2(0, &mut device), 0);
        api.malloc(MIB);
        let (mut free, mut total, mut all) = (0, 0, 0);
        assert_eq!(api.cuMemGetInfo_v2(&mut free, &mut total), 0);
        assert_eq!(api.cuDeviceTotalMem_v2(&mut all, 0), 0);
        assert_eq!((free, total, all), (3 * MIB, 4 * MIB, 4 * MIB));
        assert_eq!(api.free_bytes(), free);
        assert_eq!(api.nvmlDeviceGetMemoryInfo(device, &mut one), 0);
        assert_eq!(one.map(|bytes| bytes as usize / MIB), [4, 3, 1]);
        assert_eq!(api.nvmlDeviceGetMemoryInfo_v2(device, &mut two), 2, "no version given");
        two[0] = 40 | 2 << 24;
        assert_eq!(api.nvmlDeviceGetMemoryInfo_v2(device, &mut two), 0);
        assert_eq!(two[1..], [one[0], 0, one[1], one[2]]);
        assert_eq!(api.nvmlShutdown(), 0);
        assert_eq!(api.nvmlShutdown(), 1);
    });
}

#[test]
fn what_is_copied_arrives() {
    alone("memory::what_is_copied_arrives", &[], || {
        let api = Api::ready();
        let sent: Vec<u8> = (0..=255).cycle().take(MIB + 7).collect();
        let (first, second) = (api.malloc(sent.len()), api.malloc(sent.len()));
        assert_ne!(first, second);
        let mut got = vec![0; sent.len()];
        assert_eq!(api.cuMemcpyHtoD_v2(first, sent.as_ptr(), sent.len()), 0);
        assert_eq!(api.cuMemcpyDtoD_v2(second, first, sent.len()), 0);
        assert_eq!(api.cuMemsetD8_v2(second, 9, 3), 0);
        assert_eq!(api.cuMemcpyDtoH_v2(got.as_mut_ptr(), second, sent.len()), 0);
        assert_eq!(got[..3], [9; 3]);
        assert_eq!(got[3..], sent[3..]);
        assert_eq!(api.cudaMemcpy(null_mut(), got.as_ptr().cast(), 1, 1), 1, "nowhere to copy to");
        assert_eq!(api.cudaMemcpy(first as *mut c_void, got.as_ptr().cast(), 1, 5), 1, "no such kind");
    });
}

#[test]
fn what_is_no_memory_cannot_be_freed() {
    alone("memory::what_is_no_memory_cannot_be_freed", &[], || {
        let api = Api::ready();
        let before = api.free_bytes();
        let address = api.malloc(100);
        assert_eq!(before - api.free_bytes(), 512, "in steps");
        assert_eq!(api.cudaFree(address + 4), 1);
        assert_eq!(api.cudaFree(address), 0);
        assert_eq!(api.cudaFree(address), 1);
        assert_eq!(api.cudaFree(0), 0);
        assert_eq!(api.malloc(0), 0);
        assert_eq!(api.cuMemAlloc_v2(&mut 0, 0), 1);
        assert_eq!(api.cudaMalloc(null_mut(), 1), 1);
        assert_eq!(api.free_bytes(), before);
    });
}

#[test]
fn mapped_memory_shows_at_two_places_and_counts_until_it_is_nowhere() {
    let test = "memory::mapped_memory_shows_at_two_places_and_counts_until_it_is_nowhere";
    alone(test, &[LIMIT], || {
        let api = Api::ready();
        let size = 2 * MIB;
        let (mut handle, mut range) = (0, 0);
        let access = [1, 0, 3];
        assert_eq!(api.cuMemCreate(&mut handle, 12345, [1, 0, 1, 0].as_ptr(), 0), 1, "no multiple");
        assert_eq!(api.cuMemCreate(&mut handle, size, [1, 0, 1, 7].as_ptr(), 0), 101, "no such device");
        assert_eq!(api.cuMemCreate(&mut handle, size, [1, 0, 1, 0].as_ptr(), 0), 0);
        assert_eq!(api.cuMemAddressReserve(&mut range, 2 * size, 0, 0, 0), 0);
        assert_eq!(api.free_bytes(), 2 * MIB, "addresses take no memory");
        let second = range + size as u64;
        for place in [range, second] {
            assert_eq!(api.cuMemMap(place, size, 0, handle, 0), 0);
            assert_eq!(api.cuMemSetAccess(place, size, access.as_ptr(), 1), 0);
        }
        let mut got = [0; 5];
        assert_eq!(api.cuMemcpyHtoD_v2(range, b"hello".as_ptr(), 5), 0);
        assert_eq!(api.cuMemcpyDtoH_v2(got.as_mut_ptr(), second, 5), 0);
        assert_eq!(&got, b"hello");

        assert_eq!(api.cuMemRelease(handle), 0);
        assert_eq!(api.cuMemRelease(handle), 1, "released already");
        assert_eq!(api.cuMemUnmap(range, size), 0);
        assert_eq!(api.free_bytes(), 2 * MIB, "still mapped at the second place");
        assert_eq!(api.cuMemcpyDtoH_v2(got.as_mut_ptr(), second, 5), 0);
        assert_eq!(&got, b"hello");
        assert_eq!(api.cuMemUnmap(second, size), 0);
        assert_eq!(api.free_bytes(), 4 * MIB);
        assert_eq!(api.cuMemUnmap(second, size), 1);
        assert_eq!(api.cuMemAddressFree(range, 2 * size), 0);
    });
}

#[test]
fn the_driver_wants_to_be_initialised_and_to_have_a_context() {
    alone("memory::the_driver_wants_to_be_initialised_and_to_have_a_context", &[], || {
        let api = Api::built();
        let (mut address, mut context) = (0, null_mut());
        assert_eq!(api.cuMemAlloc_v2(&mut address, 1), 3);
        assert_eq!(api.cuInit(0), 0);
        assert_eq!(api.cuMemAlloc_v2(&mut address, 1), 201);
        assert_eq!(api.cuCtxCreate_v2(&mut context, 0, 1), 101, "there is one device");
        assert_eq!(api.cuCtxCreate_v2(&mut context, 0, 0), 0);
        assert_eq!(api.cuMemAlloc_v2(&mut address, 1), 0);
        assert_eq!(api.cuCtxDestroy_v2(context), 0);
        assert_eq!(api.cuCtxSetCurrent(context), 201);
        assert_eq!(api.cuMemAlloc_v2(&mut address, 1), 201);
        let mut current = context;
        assert_eq!(api.cuCtxGetCurrent(&mut current), 0);
        assert!(current.is_null());
    });
}
