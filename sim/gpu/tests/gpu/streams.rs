//! Streams and events: order, waiting, time.

use std::ffi::c_void;
use std::ptr::{dangling_mut, null_mut};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use crate::support::{Api, alone, until};

const NOT_READY: i32 = 600;
const AT_LEAST: u32 = 0;
const EQUAL: u32 = 1;
const AND: u32 = 2;
const NOR: u32 = 3;

fn address(flag: &AtomicU32) -> u64 {
    flag.as_ptr() as u64
}

#[test]
fn a_stream_waits_for_a_value_and_so_does_all_that_comes_after() {
    alone("streams::a_stream_waits_for_a_value_and_so_does_all_that_comes_after", &[], || {
        let api = Api::ready();
        let (stream, event, memory) = (api.stream(), api.event(), api.malloc(1));
        let (flag, answer) = (AtomicU32::new(0), AtomicU32::new(0));
        assert_eq!(api.cuMemsetD8_v2(memory, 1, 1), 0);
        assert_eq!(api.cuStreamWaitValue32_v2(stream, address(&flag), 5, AT_LEAST), 0);
        let source = AtomicU8::new(2);
        assert_eq!(api.cuMemcpyHtoDAsync_v2(memory, source.as_ptr(), 1, stream), 0);
        source.store(3, Ordering::Release);
        assert_eq!(api.cudaEventRecord(event, stream), 0);
        assert_eq!(api.cuStreamWriteValue32_v2(stream, address(&answer), 6, 0), 0);
        flag.store(4, Ordering::Release);
        assert_eq!(api.cudaStreamQuery(stream), NOT_READY);
        assert_eq!(api.cudaEventQuery(event), NOT_READY);
        assert_eq!(answer.load(Ordering::Acquire), 0);
        // SAFETY: device memory is the process's own.
        let seen = || unsafe { (memory as *const u8).read_volatile() };
        assert_eq!(seen(), 1);

        flag.store(5, Ordering::Release);
        // Nobody waits for the stream, and it moves.
        until("the stream writes", || answer.load(Ordering::Acquire) == 6);
        assert_eq!(seen(), 2, "as it was when given");
        assert_eq!(api.cudaEventQuery(event), 0);
        assert_eq!(api.cudaStreamSynchronize(stream), 0);
        assert_eq!(api.cudaStreamQuery(stream), 0);
    });
}

#[test]
fn a_value_can_be_waited_for_in_four_ways() {
    alone("streams::a_value_can_be_waited_for_in_four_ways", &[], || {
        let api = Api::ready();
        for (condition, value, before, after) in [
            (AT_LEAST, 1, u32::MAX, 1), // as differences go: u32::MAX is one less than 0
            (EQUAL, 7, 8, 7),
            (AND, 6, 1, 3),
            (NOR, u32::MAX - 1, 1, 2),
        ] {
            let (stream, flag) = (api.stream(), AtomicU32::new(before));
            assert_eq!(api.cuStreamWaitValue32_v2(stream, address(&flag), value, condition), 0);
            assert_eq!(api.cudaStreamQuery(stream), NOT_READY, "{condition}");
            flag.store(after, Ordering::Release);
            assert_eq!(api.cudaStreamQuery(stream), 0, "{condition}");
        }
        assert_eq!(api.cuStreamWaitValue32_v2(api.stream(), 3, 0, EQUAL), 1, "no address of a word");
    });
}

#[test]
fn kernels_take_their_time_one_after_the_other() {
    let variables = [("BROWNOUT_GPU_KERNEL_US", "100000")];
    alone("streams::kernels_take_their_time_one_after_the_other", &variables, || {
        let api = Api::ready();
        let (stream, from, to) = (api.stream(), api.event(), api.event());
        let (mut device, mut rates, mut time) = (null_mut(), [0; 2], 0.0);
        let graph = dangling_mut::<c_void>();
        assert_eq!(api.nvmlInit_v2(), 0);
        assert_eq!(api.nvmlDeviceGetHandleByIndex_v2(0, &mut device), 0);
        assert_eq!(api.cudaEventElapsedTime(&mut time, from, to), 400, "not recorded");
        // All is given before anything begins, so that it does not matter how long we take to give it.
        let flag = AtomicU32::new(0);
        assert_eq!(api.cuStreamWaitValue32_v2(stream, address(&flag), 1, EQUAL), 0);
        assert_eq!(api.cudaEventRecord(from, stream), 0);
        assert_eq!(api.cudaGraphLaunch(graph, stream), 0);
        assert_eq!(api.cuGraphLaunch(graph, stream), 0);
        assert_eq!(api.cudaEventRecord(to, stream), 0);
        assert_eq!(api.cudaEventElapsedTime(&mut time, from, to), NOT_READY);
        assert_eq!(api.cudaStreamQuery(stream), NOT_READY);
        assert_eq!(api.nvmlDeviceGetUtilizationRates(device, &mut rates), 0);
        assert_eq!(rates[0], 0, "it waits");
        flag.store(1, Ordering::Release);
        until("the device works", || {
            assert_eq!(api.nvmlDeviceGetUtilizationRates(device, &mut rates), 0);
            rates[0] == 100
        });
        assert_eq!(api.cudaEventSynchronize(to), 0);
        assert_eq!(api.cudaEventElapsedTime(&mut time, from, to), 0);
        assert!((time - 200.0).abs() < 0.1, "{time} ms: each begins when the one before ends");
        assert_eq!(api.cudaStreamSynchronize(stream), 0);
        until("the device rests", || {
            assert_eq!(api.nvmlDeviceGetUtilizationRates(device, &mut rates), 0);
            rates[0] == 0
        });
    });
}

#[test]
fn synchronous_calls_wait_for_the_device() {
    let variables = [("BROWNOUT_GPU_KERNEL_US", "100000")];
    alone("streams::synchronous_calls_wait_for_the_device", &variables, || {
        let api = Api::ready();
        let (stream, memory, mut byte) = (api.stream(), api.malloc(8), 0);
        let mut calls: [Box<dyn FnMut() -> i32>; 4] = [
            Box::new(|| api.cudaDeviceSynchronize()),
            Box::new(|| api.cudaStreamSynchronize(stream)),
            Box::new(|| api.cuMemcpyDtoH_v2(&mut byte, memory, 1)),
            Box::new(|| api.cudaFree(memory)),
        ];
        for (number, call) in calls.iter_mut().enumerate() {
            let done = AtomicU32::new(0);
            assert_eq!(api.cudaGraphLaunch(dangling_mut(), stream), 0);
            assert_eq!(api.cuStreamWriteValue32_v2(stream, address(&done), 1, 0), 0);
            assert_eq!(done.load(Ordering::Acquire), 0);
            assert_eq!(call(), 0);
            assert_eq!(done.load(Ordering::Acquire), 1, "call {number} did not wait");
        }
    });
}

#[test]
fn a_stream_waits_for_an_event_of_another() {
    alone("streams::a_stream_waits_for_an_event_of_another", &[], || {
        let api = Api::ready();
        let (first, second, event, flag) = (api.stream(), api.stream(), api.event(), AtomicU32::new(0));
        assert_eq!(api.cudaStreamWaitEvent(second, event, 0), 0, "never recorded: nothing to wait for");
        assert_eq!(api.cudaStreamQuery(second), 0);
        assert_eq!(api.cuStreamWaitValue32_v2(first, address(&flag), 1, EQUAL), 0);
        assert_eq!(api.cudaEventRecord(event, first), 0);
        assert_eq!(api.cudaStreamWaitEvent(second, event, 0), 0);
        assert_eq!(api.cudaStreamQuery(second), NOT_READY);
        flag.store(1, Ordering::Release);
        assert_eq!(api.cudaStreamSynchronize(second), 0);
    });
}

#[test]
fn memory_is_freed_when_the_stream_comes_there() {
    alone("streams::memory_is_freed_when_the_stream_comes_there", &[], || {
        let api = Api::ready();
        let (before, stream, flag) = (api.free_bytes(), api.stream(), AtomicU32::new(0));
        let mut memory = 0;
        assert_eq!(api.cuMemAllocAsync(&mut memory, 512, stream), 0);
        assert_eq!(api.cuStreamWaitValue32_v2(stream, address(&flag), 1, EQUAL), 0);
        assert_eq!(api.cuMemFreeAsync(memory, stream), 0);
        assert_eq!(before - api.free_bytes(), 512);
        flag.store(1, Ordering::Release);
        assert_eq!(api.cudaStreamSynchronize(stream), 0);
        assert_eq!(api.free_bytes(), before);
    });
}

#[test]
fn each_thread_chooses_among_the_devices() {
    alone("streams::each_thread_chooses_among_the_devices", &[("BROWNOUT_GPU_DEVICES", "2")], || {
        let api = Api::built();
        let (mut driver, mut runtime, mut device) = (0, 0, -1);
        assert_eq!(api.cuDeviceGetCount(&mut driver), 3, "not initialised");
        assert_eq!(api.cudaGetDeviceCount(&mut runtime), 0);
        assert_eq!(api.cuDeviceGetCount(&mut driver), 0);
        assert_eq!((driver, runtime), (2, 2));
        assert_eq!(api.cudaSetDevice(2), 101);
        assert_eq!(api.cudaSetDevice(1), 0);
        let (full, other) = (api.free_bytes(), api.same());
        api.malloc(512);
        assert_eq!(full - api.free_bytes(), 512);
        let elsewhere =
            std::thread::spawn(move || (other.cudaGetDevice(&mut device), device, other.free_bytes()));
        assert_eq!(elsewhere.join().expect("ends"), (0, 0, full));
        assert_eq!(api.cudaGetDevice(&mut device), 0);
        assert_eq!(device, 1);
    });
}

#[test]
fn what_was_destroyed_is_no_handle_any_more() {
    alone("streams::what_was_destroyed_is_no_handle_any_more", &[], || {
        let api = Api::ready();
        let (stream, event) = (api.stream(), api.event());
        let (mut status, mut mode) = (-1, 2);
        assert_eq!(api.cudaStreamIsCapturing(stream, &mut status), 0);
        assert_eq!(status, 0);
        assert_eq!(api.cudaStreamDestroy(stream), 0);
        assert_eq!(api.cudaStreamSynchronize(stream), 400);
        assert_eq!(api.cudaEventDestroy(event), 0);
        assert_eq!(api.cudaEventRecord(event, null_mut()), 400);
        assert_eq!(api.cudaStreamSynchronize(null_mut()), 0);
        assert_eq!(api.cudaStreamDestroy(null_mut()), 400);
        assert_eq!(api.cudaThreadExchangeStreamCaptureMode(&mut mode), 0);
        assert_eq!(mode, 0);
        assert_eq!(api.cudaThreadExchangeStreamCaptureMode(&mut mode), 0);
        assert_eq!(mode, 2);
    });
}
