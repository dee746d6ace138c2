//! What one process has: its view of the devices, contexts and streams. Several copies of the library in one process (under several
//! names) share it: the first to come leaves a pointer to it in a mapping that the others find by name.

use std::ffi::c_void;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::comm::Comm;
use crate::error::{Error, Outcome};
use crate::settings::Settings;
use crate::state::{DEVICES, State, memory_file};
use crate::stream::{Event, Stream, Worker};

const MAPPING: &std::ffi::CStr = c"brownout-gpu-process-1";

/// The things of one process.
pub(crate) struct Root {
    /// Whose it is: after a fork the child has a copy.
    pid: u32,
    pub(crate) settings: Settings,
    state: Outcome<&'static State>,
    initialised: AtomicBool,
    /// The calling thread's context, in all copies of the library.
    current: libc::pthread_key_t,
    primaries: [Context; DEVICES],
    contexts: Mutex<Vec<Arc<Context>>>,
    pub(crate) streams: Mutex<Vec<Arc<Stream>>>,
    pub(crate) events: Mutex<Vec<Arc<Event>>>,
    pub(crate) comms: Mutex<Vec<Arc<Comm>>>,
    pub(crate) worker: Worker,
}

/// A context: a device, as seen by threads that have chosen it.
pub(crate) struct Context {
    pub(crate) device: usize,
    /// How often a primary context was asked for.
    pub(crate) retained: AtomicU32,
}

impl Context {
    fn new(device: usize) -> Self {
        Self { device, retained: AtomicU32::new(0) }
    }

    pub(crate) fn handle(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

/// Locks; nobody panics while holding one of ours.
pub(crate) fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What this process has. As with the real driver, a child forked after initialisation can do nothing.
pub(crate) fn root() -> Outcome<&'static Root> {
    static ROOT: AtomicPtr<Root> = AtomicPtr::new(std::ptr::null_mut());
    static MAKING: Mutex<()> = Mutex::new(());
    // SAFETY: what is stored is never freed.
    let known = || unsafe { ROOT.load(Ordering::Acquire).as_ref() };
    let own = std::process::id();
    if let Some(root) = known().filter(|root| root.pid == own) {
        return Ok(root);
    }
    let _making = hold(&MAKING);
    if let Some(root) = known() {
        if root.pid == own {
            return Ok(root);
        }
        if root.initialised.load(Ordering::Acquire) {
            return Err(Error::NOT_INITIALIZED);
        }
    }
    let root = shared_root(own)?;
    ROOT.store(std::ptr::from_ref(root).cast_mut(), Ordering::Release);
    Ok(root)
}

/// Copies meet when they are loaded, under the loader's lock, and so never at the same time.
#[used]
#[unsafe(link_section = ".init_array")]
static MEET: extern "C" fn() = {
    extern "C" fn meet() {
        // Who comes too early to be served will be told so by the first call.
        let _ = root();
    }
    meet
};

fn shared_root(own: u32) -> Outcome<&'static Root> {
    let place = match mapped() {
        Some(place) => place,
        None => map_place()?,
    };
    // SAFETY: the mapping is private to us and the other copies, starts zeroed, and is never unmapped.
    let place = unsafe { &*place.cast::<AtomicPtr<Root>>() };
    // SAFETY: what is stored there is never freed.
    match unsafe { place.load(Ordering::Acquire).as_ref() } {
        Some(root) if root.pid == own => Ok(root),
        _ => {
            let root = Box::leak(Box::new(Root::new(own)?));
            place.store(root, Ordering::Release);
            Ok(root)
        }
    }
}

/// Where the mapping is, if another copy has made it.
fn mapped() -> Option<*mut c_void> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let name = MAPPING.to_str().ok()?;
    let line = maps.lines().find(|line| line.contains("/memfd:") && line.contains(name))?;
    let start = usize::from_str_radix(line.split('-').next()?, 16).ok()?;
    Some(start as *mut c_void)
}

/// Private: a forked child changes its own.
fn map_place() -> Outcome<*mut c_void> {
    let file = memory_file(MAPPING)?;
    let size = size_of::<AtomicPtr<Root>>();
    // SAFETY: a new mapping of a file that we own.
    let address = unsafe {
        if libc::ftruncate(file.as_raw_fd(), size as libc::off_t) != 0 {
            return Err(Error::OPERATING_SYSTEM);
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(std::ptr::null_mut(), size, access, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
    };
    if address == libc::MAP_FAILED { Err(Error::OPERATING_SYSTEM) } else { Ok(address) }
}

impl Root {
    fn new(pid: u32) -> Outcome<Self> {
        let settings = Settings::from_environment();
        let mut current = 0;
        // SAFETY: a plain call; the values need no destructor.
        if unsafe { libc::pthread_key_create(&mut current, None) } != 0 {
            return Err(Error::OPERATING_SYSTEM);
        }
        Ok(Self {
            pid,
            state: State::open(&settings),
            settings,
            initialised: AtomicBool::new(false),
            current,
            primaries: std::array::from_fn(Context::new),
            contexts: Mutex::default(),
            streams: Mutex::default(),
            events: Mutex::default(),
            comms: Mutex::default(),
            worker: Worker::default(),
        })
    }

    /// The devices' state, where it could be opened.
    pub(crate) fn state(&self) -> Outcome<&'static State> {
        self.state
    }

    /// `cuInit`, which the runtime does by itself.
    pub(crate) fn initialise(&self) -> Outcome {
        if self.state?.devices() == 0 {
            return Err(Error::NO_DEVICE);
        }
        self.initialised.store(true, Ordering::Release);
        Ok(())
    }

    pub(crate) fn initialised(&self) -> Outcome {
        if self.initialised.load(Ordering::Acquire) { Ok(()) } else { Err(Error::NOT_INITIALIZED) }
    }

    /// A device by its number.
    pub(crate) fn device(&self, number: i32) -> Outcome<usize> {
        let device = usize::try_from(number).map_err(|_| Error::INVALID_DEVICE)?;
        if device < self.state?.devices() { Ok(device) } else { Err(Error::INVALID_DEVICE) }
    }

    /// The context that belongs to a device itself.
    pub(crate) fn primary(&self, device: usize) -> &Context {
        &self.primaries[device]
    }

    pub(crate) fn create_context(&self, device: usize) -> *mut c_void {
        let context = Arc::new(Context::new(device));
        let handle = context.handle();
        hold(&self.contexts).push(context);
        handle
    }

    pub(crate) fn destroy_context(&self, handle: *mut c_void) -> Outcome {
        let mut contexts = hold(&self.contexts);
        let found = contexts.iter().position(|context| context.handle() == handle);
        contexts.swap_remove(found.ok_or(Error::INVALID_CONTEXT)?);
        Ok(())
    }

    /// The device of a context; null and what was destroyed have none.
    pub(crate) fn device_of(&self, handle: *mut c_void) -> Outcome<usize> {
        let primary = self.primaries.iter().find(|context| context.handle() == handle);
        if let Some(context) = primary {
            return Ok(context.device);
        }
        let contexts = hold(&self.contexts);
        let made = contexts.iter().find(|context| context.handle() == handle);
        made.map(|context| context.device).ok_or(Error::INVALID_CONTEXT)
    }

    /// Makes a context the calling thread's.
    pub(crate) fn set_current(&self, handle: *mut c_void) {
        // SAFETY: the key is ours and lives as long as the process. It fails only where there is no memory.
        unsafe { libc::pthread_setspecific(self.current, handle) };
    }

    /// The calling thread's context, or null.
    pub(crate) fn current(&self) -> *mut c_void {
        // SAFETY: as above.
        unsafe { libc::pthread_getspecific(self.current) }
    }

    /// The calling thread's device, as the driver wants it: there must be a context.
    pub(crate) fn driver_device(&self) -> Outcome<usize> {
        self.initialised()?;
        self.device_of(self.current())
    }

    /// The calling thread's device, as the runtime and NCCL want it: the first one where none was chosen.
    pub(crate) fn runtime_device(&self) -> Outcome<usize> {
        self.initialise()?;
        if self.current().is_null() {
            self.set_current(self.primary(0).handle());
        }
        self.device_of(self.current())
    }
}
