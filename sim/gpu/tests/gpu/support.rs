//! Processes to play in, and the library's functions.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Long enough for a slow machine; a test that comes so far has failed.
const PATIENCE: Duration = Duration::from_secs(60);
const PART: &str = "BROWNOUT_GPU_TEST_PART";

/// Plays `body` in a process of its own, with these variables. `test` is the test that calls.
pub(crate) fn alone(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    play(test, "alone", variables, body);
}

fn play(test: &str, part: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var(PART).as_deref() == Ok(part) {
        return body();
    }
    let output = command(test, part, variables).output().expect("this program runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{test} is no test: {text}");
}

/// The part that this process plays in a test with several.
pub(crate) fn part() -> Option<String> {
    std::env::var(PART).ok()
}

fn command(test: &str, part: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a name"));
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(PART, part);
    command.envs(variables.iter().copied());
    command
}

/// A process that plays a part; killed when dropped.
pub(crate) struct Player {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Player {
    pub(crate) fn new(test: &str, part: &str, variables: &[(&str, &str)]) -> Self {
        let mut command = command(test, part, variables);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("this program runs");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, input, output }
    }

    /// What it says next, by `say`.
    pub(crate) fn hear(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).expect("text"), 0, "the player has ended");
            if let Some((_, said)) = line.split_once('@') {
                return said.trim().to_owned();
            }
        }
    }

    /// Lets it go on from `cue`.
    pub(crate) fn cue(&mut self) {
        self.input.write_all(b"\n").expect("the player listens");
    }

    /// Ends it as the kernel's out-of-memory killer does. It stays a zombie.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it lives");
    }

    /// Waits for its end, which must be a good one.
    pub(crate) fn finish(mut self) {
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.output, &mut rest).expect("text");
        assert!(self.child.wait().expect("a child").success(), "{rest}");
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        // Both fail where it has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Tells whoever plays the main part.
pub(crate) fn say(what: &str) {
    println!("@{what}");
}

/// Waits until told to go on, or until there is nobody left to tell.
pub(crate) fn cue() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("text");
}

/// Waits for a state.
pub(crate) fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < PATIENCE, "never came: {what}");
        std::thread::yield_now();
    }
}

/// Where cargo has put the library: beside this program, or one above.
pub(crate) fn built() -> PathBuf {
    let program = std::env::current_exe().expect("a name");
    let places = program.ancestors().skip(1).take(2).map(|place| place.join("libbrownout_gpu.so"));
    let found = places.into_iter().find(|place| place.exists());
    found.unwrap_or_else(|| panic!("no libbrownout_gpu.so beside {}", program.display()))
}

/// The functions of one copy of the library.
pub(crate) struct Api(*mut c_void);

// SAFETY: the handle of a library that stays open.
unsafe impl Send for Api {}

impl Api {
    /// The same copy once more, for another thread.
    pub(crate) fn same(&self) -> Self {
        Self(self.0)
    }

    pub(crate) fn built() -> Self {
        Self::open(&built())
    }

    pub(crate) fn open(path: &Path) -> Self {
        let path = CString::new(path.to_str().expect("text")).expect("no 0 inside");
        // SAFETY: our own library.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{path:?} does not load");
        Self(handle)
    }

    /// Opened and initialised, with the first device's context.
    pub(crate) fn ready() -> Self {
        let api = Self::built();
        assert_eq!(api.cuInit(0), 0);
        assert_eq!(api.cudaSetDevice(0), 0);
        api
    }

    /// A function's address, or null.
    pub(crate) fn symbol(&self, name: &str) -> *const c_void {
        let name = CString::new(name).expect("no 0 inside");
        // SAFETY: an open library and a C string.
        unsafe { libc::dlsym(self.0, name.as_ptr()) }
    }

    pub(crate) fn malloc(&self, size: usize) -> u64 {
        let mut address = std::ptr::null_mut();
        assert_eq!(self.cudaMalloc(&mut address, size), 0);
        address as u64
    }

    pub(crate) fn free_bytes(&self) -> usize {
        let (mut free, mut total) = (0, 0);
        assert_eq!(self.cudaMemGetInfo(&mut free, &mut total), 0);
        assert!(free <= total);
        free
    }

    pub(crate) fn stream(&self) -> *mut c_void {
        let mut stream = std::ptr::null_mut();
        assert_eq!(self.cudaStreamCreate(&mut stream), 0);
        stream
    }

    pub(crate) fn event(&self) -> *mut c_void {
        let mut event = std::ptr::null_mut();
        assert_eq!(self.cudaEventCreate(&mut event), 0);
        event
    }
}

macro_rules! functions {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        impl Api {
            $(pub(crate) fn $name(&self, $($argument: $type),*) -> c_int {
                let address = self.symbol(stringify!($name));
                assert!(!address.is_null(), stringify!($name));
                // SAFETY: the signature is that of the public header.
                let function: extern "C" fn($($type),*) -> c_int = unsafe { std::mem::transmute(address) };
                function($($argument),*)
            })*
        }
    };
}

/// `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UniqueId(pub(crate) [u8; 128]);

pub(crate) type Out<T> = *mut T;

functions! {
    fn cuInit(flags: c_uint);
    fn cuDeviceGetCount(count: Out<c_int>);
    fn cuDeviceTotalMem_v2(total: Out<usize>, device: c_int);
    fn cuCtxCreate_v2(context: Out<*mut c_void>, flags: c_uint, device: c_int);
    fn cuCtxGetCurrent(context: Out<*mut c_void>);
    fn cuCtxSetCurrent(context: *mut c_void);
    fn cuCtxDestroy_v2(context: *mut c_void);
    fn cuMemAlloc_v2(address: Out<u64>, size: usize);
    fn cuMemAllocAsync(address: Out<u64>, size: usize, stream: *mut c_void);
    fn cuMemFree_v2(address: u64);
    fn cuMemFreeAsync(address: u64, stream: *mut c_void);
    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>);
    fn cuMemCreate(handle: Out<u64>, size: usize, properties: *const c_int, flags: u64);
    fn cuMemRelease(handle: u64);
    fn cuMemAddressReserve(address: Out<u64>, size: usize, alignment: usize, wish: u64, flags: u64);
    fn cuMemAddressFree(address: u64, size: usize);
    fn cuMemMap(address: u64, size: usize, offset: usize, handle: u64, flags: u64);
    fn cuMemUnmap(address: u64, size: usize);
    fn cuMemSetAccess(address: u64, size: usize, descriptors: *const c_int, count: usize);
    fn cuMemcpyHtoD_v2(to: u64, from: *const u8, size: usize);
    fn cuMemcpyDtoH_v2(to: Out<u8>, from: u64, size: usize);
    fn cuMemcpyDtoD_v2(to: u64, from: u64, size: usize);
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const u8, size: usize, stream: *mut c_void);
    fn cuMemsetD8_v2(to: u64, value: u8, size: usize);
    fn cuStreamWaitValue32_v2(stream: *mut c_void, address: u64, value: u32, flags: c_uint);
    fn cuStreamWriteValue32_v2(stream: *mut c_void, address: u64, value: u32, flags: c_uint);
    fn cuGetErrorName(number: c_int, text: Out<*const c_char>);
    fn cuGetProcAddress(name: *const c_char, address: Out<*const c_void>, version: c_int, flags: u64);
    fn cuGetProcAddress_v2(
        name: *const c_char,
        address: Out<*const c_void>,
        version: c_int,
        flags: u64,
        status: Out<c_int>,
    );
    fn cuGraphLaunch(graph: *mut c_void, stream: *mut c_void);
    fn cudaMalloc(address: Out<*mut c_void>, size: usize);
    fn cudaMallocAsync(address: Out<*mut c_void>, size: usize, stream: *mut c_void);
    fn cudaMallocFromPoolAsync(
        address: Out<*mut c_void>,
        size: usize,
        pool: *mut c_void,
        stream: *mut c_void,
    );
    fn cudaFree(address: u64);
    fn cudaMemGetInfo(free: Out<usize>, total: Out<usize>);
    fn cudaMemcpy(to: *mut c_void, from: *const c_void, size: usize, kind: c_int);
    fn cudaGetDeviceCount(count: Out<c_int>);
    fn cudaSetDevice(device: c_int);
    fn cudaGetDevice(device: Out<c_int>);
    fn cudaDeviceSynchronize();
    fn cudaStreamCreate(stream: Out<*mut c_void>);
    fn cudaStreamDestroy(stream: *mut c_void);
    fn cudaStreamSynchronize(stream: *mut c_void);
    fn cudaStreamQuery(stream: *mut c_void);
    fn cudaStreamWaitEvent(stream: *mut c_void, event: *mut c_void, flags: c_uint);
    fn cudaStreamIsCapturing(stream: *mut c_void, status: Out<c_int>);
    fn cudaThreadExchangeStreamCaptureMode(mode: Out<c_int>);
    fn cudaEventCreate(event: Out<*mut c_void>);
    fn cudaEventRecord(event: *mut c_void, stream: *mut c_void);
    fn cudaEventSynchronize(event: *mut c_void);
    fn cudaEventQuery(event: *mut c_void);
    fn cudaEventElapsedTime(milliseconds: Out<f32>, from: *mut c_void, to: *mut c_void);
    fn cudaEventDestroy(event: *mut c_void);
    fn cudaGraphLaunch(graph: *mut c_void, stream: *mut c_void);
    fn cudaGetLastError();
    fn cudaPeekAtLastError();
    fn ncclGetUniqueId(id: Out<UniqueId>);
    fn ncclCommInitRank(comm: Out<*mut c_void>, ranks: c_int, id: UniqueId, rank: c_int);
    fn ncclCommInitRankConfig(
        comm: Out<*mut c_void>,
        ranks: c_int,
        id: UniqueId,
        rank: c_int,
        config: *const c_int,
    );
    fn ncclCommInitAll(comms: Out<*mut c_void>, ranks: c_int, devices: *const c_int);
    fn ncclCommDestroy(comm: *mut c_void);
    fn ncclCommAbort(comm: *mut c_void);
    fn ncclCommCount(comm: *mut c_void, out: Out<c_int>);
    fn ncclCommUserRank(comm: *mut c_void, out: Out<c_int>);
    fn ncclCommCuDevice(comm: *mut c_void, out: Out<c_int>);
    fn ncclCommGetAsyncError(comm: *mut c_void, out: Out<c_int>);
    fn ncclGroupStart();
    fn ncclGroupEnd();
    fn ncclAllReduce(
        send: u64,
        receive: u64,
        count: usize,
        numbers: c_int,
        operation: c_int,
        comm: *mut c_void,
        stream: *mut c_void,
    );
    fn ncclAllGather(
        send: u64,
        receive: u64,
        count: usize,
        numbers: c_int,
        comm: *mut c_void,
        stream: *mut c_void,
    );
    fn ncclReduceScatter(
        send: u64,
        receive: u64,
        count: usize,
        numbers: c_int,
        operation: c_int,
        comm: *mut c_void,
        stream: *mut c_void,
    );
    fn ncclBroadcast(
        send: u64,
        receive: u64,
        count: usize,
        numbers: c_int,
        root: c_int,
        comm: *mut c_void,
        stream: *mut c_void,
    );
    fn ncclReduce(
        send: u64,
        receive: u64,
        count: usize,
        numbers: c_int,
        operation: c_int,
        root: c_int,
        comm: *mut c_void,
        stream: *mut c_void,
    );
    fn ncclSend(
        address: u64,
        count: usize,
        numbers: c_int,
        peer: c_int,
        comm: *mut c_void,
        stream: *mut c_void,
    );
    fn ncclRecv(
        address: u64,
        count: usize,
        numbers: c_int,
        peer: c_int,
        comm: *mut c_void,
        stream: *mut c_void,
    );
    fn nvmlInit_v2();
    fn nvmlShutdown();
    fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: Out<*mut c_void>);
    fn nvmlDeviceGetMemoryInfo(device: *mut c_void, memory: Out<[u64; 3]>);
    fn nvmlDeviceGetMemoryInfo_v2(device: *mut c_void, memory: Out<[u64; 5]>);
    fn nvmlDeviceGetUtilizationRates(device: *mut c_void, rates: Out<[c_uint; 2]>);
}
