//! Several processes, and several copies in one.

use std::ptr::null_mut;

use crate::support::{Api, Player, alone, built, cue, part, say, until};

const MIB: usize = 1 << 20;

/// A device that processes share, for as long as the folder lives.
fn shared() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("gpu").to_str().expect("text").to_owned();
    (folder, path)
}

fn variables<'a>(path: &'a str, memory: &'a str) -> [(&'a str, &'a str); 2] {
    [("BROWNOUT_GPU_STATE", path), ("BROWNOUT_GPU_MEMORY", memory)]
}

#[test]
fn memory_of_a_killed_process_comes_back() {
    let test = "processes::memory_of_a_killed_process_comes_back";
    match part().as_deref() {
        Some("holder") => {
            Api::ready().malloc(3 * MIB);
            say("holding");
            cue();
        }
        Some(_) => {
            let api = Api::ready();
            say(&api.free_bytes().to_string());
            cue();
            // Nobody has waited for the dead one yet; to be killed takes a moment.
            until("its memory comes back", || api.free_bytes() == 4 * MIB);
            api.malloc(4 * MIB);
        }
        None => {
            let (_folder, path) = shared();
            let variables = variables(&path, "4194304");
            let mut holder = Player::new(test, "holder", &variables);
            assert_eq!(holder.hear(), "holding");
            let mut other = Player::new(test, "other", &variables);
            assert_eq!(other.hear(), MIB.to_string());
            holder.kill();
            other.cue();
            other.finish();
        }
    }
}

#[test]
fn a_process_killed_at_any_moment_leaves_nothing() {
    let test = "processes::a_process_killed_at_any_moment_leaves_nothing";
    match part().as_deref() {
        Some("busy") => {
            let api = Api::ready();
            say("busy");
            loop {
                let held: Vec<u64> = (1..20).map(|size| api.malloc(size * 1000)).collect();
                held.into_iter().for_each(|address| assert_eq!(api.cudaFree(address), 0));
            }
        }
        Some(_) => {
            let api = Api::ready();
            for _ in 0..40 {
                let mut busy = Player::new(test, "busy", &[]);
                busy.hear();
                // Sees it at work, and so does not kill at the same moment each time.
                until("the other one works", || api.free_bytes() < 16 * MIB);
                busy.kill();
                until("all is free again", || api.free_bytes() == 16 * MIB);
            }
        }
        None => {
            let (_folder, path) = shared();
            alone(test, &variables(&path, "16777216"), || {});
        }
    }
}

#[test]
fn the_first_process_says_how_large_the_device_is_until_all_are_gone() {
    let test = "processes::the_first_process_says_how_large_the_device_is_until_all_are_gone";
    if part().is_some() {
        let api = Api::ready();
        api.malloc(1);
        let (mut free, mut total) = (0, 0);
        assert_eq!(api.cuMemGetInfo_v2(&mut free, &mut total), 0);
        say(&total.to_string());
        return cue();
    }
    let (_folder, path) = shared();
    let total = |memory: &str| {
        let mut player = Player::new(test, "part", &variables(&path, memory));
        (player.hear(), player)
    };
    let (size, first) = total("4096");
    assert_eq!(size, "4096");
    let (size, second) = total("8192");
    assert_eq!(size, "4096");
    drop((first, second));
    assert_eq!(total("8192").0, "8192");
}

#[test]
fn another_builds_file_is_left_alone() {
    let test = "processes::another_builds_file_is_left_alone";
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notes");
    if part().is_none() {
        std::fs::write(&path, "something of value").expect("written");
    }
    alone(test, &[("BROWNOUT_GPU_STATE", path.to_str().expect("text"))], || {
        assert_eq!(Api::built().cuInit(0), 803);
    });
    if part().is_none() {
        assert_eq!(std::fs::read(&path).expect("there"), b"something of value");
    }
}

#[test]
fn copies_of_the_library_in_one_process_are_one() {
    alone(
        "processes::copies_of_the_library_in_one_process_are_one",
        &[("BROWNOUT_GPU_DEVICES", "2")],
        || {
            let folder = tempfile::tempdir().expect("a folder");
            let [driver, runtime, nccl] = ["libcuda.so.1", "libcudart.so", "libnccl.so.2"].map(|name| {
                let path = folder.path().join(name);
                std::fs::copy(built(), &path).expect("copied");
                Api::open(&path)
            });
            assert_ne!(driver.symbol("cuInit"), runtime.symbol("cuInit"), "two copies");
            assert_eq!(driver.cuInit(0), 0);
            assert_eq!(runtime.cudaSetDevice(1), 0);
            let (free, address) = (runtime.free_bytes(), runtime.malloc(MIB));
            assert_eq!(driver.cuMemFree_v2(address), 0);
            assert_eq!(runtime.free_bytes(), free);

            let (mut id, mut comm, mut device) = (crate::support::UniqueId([0; 128]), null_mut(), -1);
            assert_eq!(nccl.ncclGetUniqueId(&mut id), 0);
            assert_eq!(nccl.ncclCommInitRank(&mut comm, 1, id, 0), 0);
            assert_eq!(nccl.ncclCommCuDevice(comm, &mut device), 0);
            assert_eq!(device, 1);
            let (stream, number) = (runtime.stream(), runtime.malloc(4));
            let (sent, mut got, mut flag) = (7f32.to_le_bytes(), [0; 4], 0u32);
            assert_eq!(driver.cuMemcpyHtoD_v2(number, sent.as_ptr(), 4), 0);
            assert_eq!(driver.cuStreamWaitValue32_v2(stream, &raw mut flag as u64, 1, 0), 0);
            assert_eq!(nccl.ncclAllReduce(number, number, 1, 7, 0, comm, stream), 0);
            assert_eq!(runtime.cudaStreamQuery(stream), 600);
            // SAFETY: the stream only reads it.
            unsafe { (&raw mut flag).write_volatile(1) };
            assert_eq!(driver.cuMemcpyDtoH_v2(got.as_mut_ptr(), number, 4), 0);
            assert_eq!(got, sent);
        },
    );
}

#[test]
fn a_child_forked_after_initialisation_can_do_nothing() {
    alone("processes::a_child_forked_after_initialisation_can_do_nothing", &[], || {
        let forked = |api: &Api| {
            // SAFETY: the child calls the library and ends.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    libc::_exit(api.cudaMalloc(&mut null_mut(), 1));
                }
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &mut status, 0), child);
                libc::WEXITSTATUS(status)
            }
        };
        let api = Api::built();
        assert_eq!(forked(&api), 0, "before it, it can");
        assert_eq!(api.cuInit(0), 0);
        assert_eq!(forked(&api), 3);
    });
}
