//! Collectives, between processes and within one.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr::null_mut;

use crate::support::{Api, Player, UniqueId, alone, cue, part, say, until};

const NOT_READY: i32 = 600;
const INT64: c_int = 4;
const HALF: c_int = 6;
const FLOAT: c_int = 7;
const BYTE: c_int = 1;
const SUM: c_int = 0;
const MAXIMUM: c_int = 2;
const AVERAGE: c_int = 4;
/// More than the buffers between ranks hold at once, and no multiple of them.
const MANY: usize = 300_001;

/// One rank of a communicator, with a stream.
struct Rank {
    api: Api,
    comm: *mut c_void,
    stream: *mut c_void,
}

impl Rank {
    /// Meets the other processes by a file beside the device's, as a launcher would arrange it.
    fn join(rank: c_int, ranks: c_int) -> Self {
        let api = Api::ready();
        let state = std::env::var("BROWNOUT_GPU_STATE").expect("shared");
        let place = PathBuf::from(state + ".id");
        let mut id = UniqueId([0; 128]);
        if rank == 0 {
            assert_eq!(api.ncclGetUniqueId(&mut id), 0);
            std::fs::write(place.with_extension("new"), id.0).expect("written");
            std::fs::rename(place.with_extension("new"), &place).expect("named");
        } else {
            until("the first rank says where to meet", || place.exists());
            id.0.copy_from_slice(&std::fs::read(&place).expect("there"));
        }
        let mut comm = null_mut();
        assert_eq!(api.ncclCommInitRank(&mut comm, ranks, id, rank), 0);
        let stream = api.stream();
        Self { api, comm, stream }
    }

    /// What comes out of a collective for what goes in.
    fn get<const SIZE: usize>(
        &self,
        sent: &[[u8; SIZE]],
        received: usize,
        call: impl FnOnce(u64, u64) -> c_int,
    ) -> Vec<[u8; SIZE]> {
        let mut got = vec![[0; SIZE]; received];
        let (from, to) = (self.api.malloc(sent.len() * SIZE), self.api.malloc(received * SIZE));
        let upload =
            self.api.cuMemcpyHtoDAsync_v2(from, sent.as_ptr().cast(), sent.len() * SIZE, self.stream);
        assert_eq!((upload, call(from, to)), (0, 0));
        assert_eq!(self.api.cudaStreamSynchronize(self.stream), 0);
        assert_eq!(self.api.cuMemcpyDtoH_v2(got.as_mut_ptr().cast(), to, received * SIZE), 0);
        assert_eq!((self.api.cudaFree(from), self.api.cudaFree(to)), (0, 0));
        got
    }
}

fn folder() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("gpu").to_str().expect("text").to_owned();
    (folder, path)
}

/// Plays all ranks of a test in processes of their own, and gives them back where they have not ended.
fn players(test: &str, ranks: usize, path: &str) -> Vec<Player> {
    let variables = [("BROWNOUT_GPU_STATE", path)];
    (0..ranks).map(|rank| Player::new(test, &rank.to_string(), &variables)).collect()
}

#[test]
fn three_processes_come_to_the_same() {
    let test = "collectives::three_processes_come_to_the_same";
    let Some(part) = part() else {
        let (_folder, path) = folder();
        return players(test, 3, &path).into_iter().for_each(Player::finish);
    };
    let me: usize = part.parse().expect("a rank");
    let rank = Rank::join(me as c_int, 3);
    let (api, comm, stream) = (&rank.api, rank.comm, rank.stream);
    let (mut ranks, mut own) = (0, -1);
    assert_eq!((api.ncclCommCount(comm, &mut ranks), api.ncclCommUserRank(comm, &mut own)), (0, 0));
    assert_eq!((ranks, own), (3, me as c_int));

    // Small whole numbers: sums of them are exact.
    let value = |rank: usize, at: usize| ((rank + 1) * (at % 1000)) as f32;
    let floats: Vec<_> = (0..MANY).map(|at| value(me, at).to_le_bytes()).collect();
    let sum: Vec<_> = (0..MANY).map(|at| (value(0, at) * 6.0).to_le_bytes()).collect();
    let got = rank.get(&floats, MANY, |from, to| api.ncclAllReduce(from, to, MANY, FLOAT, SUM, comm, stream));
    assert!(got == sum, "all-reduce");

    let got =
        rank.get(&floats, MANY, |from, to| api.ncclReduce(from, to, MANY, FLOAT, AVERAGE, 2, comm, stream));
    let average: Vec<_> = (0..MANY).map(|at| (value(0, at) * 2.0).to_le_bytes()).collect();
    assert!(if me == 2 { got == average } else { got.iter().all(|bytes| *bytes == [0; 4]) }, "reduce");

    let got = rank.get(&floats, MANY, |from, to| api.ncclBroadcast(from, to, MANY, FLOAT, 1, comm, stream));
    assert!(got == (0..MANY).map(|at| value(1, at).to_le_bytes()).collect::<Vec<_>>(), "broadcast");

    let got = rank.get(&floats, 3 * MANY, |from, to| api.ncclAllGather(from, to, MANY, FLOAT, comm, stream));
    let all = (0..3).flat_map(|rank| (0..MANY).map(move |at| value(rank, at).to_le_bytes()));
    assert!(got == all.collect::<Vec<_>>(), "all-gather");

    let part = MANY / 3;
    let got = rank.get(&floats[..3 * part], part, |from, to| {
        api.ncclReduceScatter(from, to, part, FLOAT, SUM, comm, stream)
    });
    assert!(got == sum[me * part..][..part], "reduce-scatter");

    let halves = [[0x00, 0x3c], [0x00, 0xc0]]; // 1 and -2
    let got = rank.get(&halves, 2, |from, to| api.ncclAllReduce(from, to, 2, HALF, SUM, comm, stream));
    assert_eq!(got, [[0x00, 0x42], [0x00, 0xc6]]); // 3 and -6
    let longs = [i64::MIN + me as i64, -(me as i64)].map(i64::to_le_bytes);
    let got = rank.get(&longs, 2, |from, to| api.ncclAllReduce(from, to, 2, INT64, MAXIMUM, comm, stream));
    assert_eq!(got.into_iter().map(i64::from_le_bytes).collect::<Vec<_>>(), [i64::MIN + 2, 0]);

    // Around the ring, all at once.
    let (next, last) = (((me + 1) % 3) as c_int, ((me + 2) % 3) as c_int);
    let got = rank.get(&floats, MANY, |from, to| {
        assert_eq!(api.ncclGroupStart(), 0);
        assert_eq!(api.ncclSend(from, MANY, FLOAT, next, comm, stream), 0);
        assert_eq!(api.ncclRecv(to, MANY, FLOAT, last, comm, stream), 0);
        api.ncclGroupEnd()
    });
    assert!(got == (0..MANY).map(|at| value(last as usize, at).to_le_bytes()).collect::<Vec<_>>(), "ring");
    assert_eq!(api.ncclCommDestroy(comm), 0);
}

/// Two ranks on two devices of one process.
fn pair() -> (Api, [*mut c_void; 2], [*mut c_void; 2]) {
    let api = Api::ready();
    let mut comms = [null_mut(); 2];
    assert_eq!(api.ncclCommInitAll(comms.as_mut_ptr(), 2, [0, 1].as_ptr()), 0);
    let streams = [api.stream(), api.stream()];
    (api, comms, streams)
}

const TWO: (&str, &str) = ("BROWNOUT_GPU_DEVICES", "2");

#[test]
fn a_rank_that_does_not_come_is_waited_for_until_it_comes_or_someone_aborts() {
    let test = "collectives::a_rank_that_does_not_come_is_waited_for_until_it_comes_or_someone_aborts";
    alone(test, &[TWO], || {
        let (api, comms, streams) = pair();
        let [first, second] = [api.malloc(4), api.malloc(4)];
        let reduce = |rank: usize, address| {
            api.ncclAllReduce(address, address, 1, FLOAT, SUM, comms[rank], streams[rank])
        };
        assert_eq!(reduce(0, first), 0, "the call itself returns");
        assert_eq!(api.cudaStreamQuery(streams[0]), NOT_READY);
        assert_eq!(reduce(1, second), 0);
        assert_eq!(api.cudaStreamSynchronize(streams[0]), 0);
        assert_eq!(api.cudaStreamSynchronize(streams[1]), 0);

        assert_eq!(reduce(0, first), 0);
        let mut error = -1;
        assert_eq!(api.ncclCommGetAsyncError(comms[0], &mut error), 0);
        assert_eq!(error, 0, "nobody notices");
        assert_eq!(api.cudaStreamQuery(streams[0]), NOT_READY);
        assert_eq!(api.ncclCommAbort(comms[0]), 0);
        assert_eq!(api.cudaStreamSynchronize(streams[0]), 0);
        assert_eq!(api.ncclCommAbort(comms[0]), 4, "it is gone");

        // What the other had given before it ended may still be used; after that it is missed.
        assert_eq!((reduce(1, second), reduce(1, second)), (0, 0));
        assert_eq!(api.cudaStreamQuery(streams[1]), NOT_READY, "an abort is one rank's own");
        assert_eq!(api.ncclCommAbort(comms[1]), 0);
        assert_eq!(api.cudaStreamSynchronize(streams[1]), 0);
    });
}

#[test]
fn a_dead_rank_is_waited_for_like_a_late_one() {
    let test = "collectives::a_dead_rank_is_waited_for_like_a_late_one";
    match part().as_deref() {
        None => {
            let (_folder, path) = folder();
            let mut players = players(test, 2, &path);
            players.iter_mut().for_each(|player| assert_eq!(player.hear(), "joined"));
            let mut dies = players.pop().expect("two");
            let mut waits = players.pop().expect("two");
            dies.kill();
            waits.cue();
            waits.finish();
        }
        Some("1") => {
            let _rank = Rank::join(1, 2);
            say("joined");
            cue();
        }
        Some(_) => {
            let rank = Rank::join(0, 2);
            say("joined");
            cue();
            let number = rank.api.malloc(4);
            let reduced = rank.api.ncclAllReduce(number, number, 1, FLOAT, SUM, rank.comm, rank.stream);
            assert_eq!(reduced, 0);
            assert_eq!(rank.api.cudaStreamQuery(rank.stream), NOT_READY);
            let mut error = -1;
            assert_eq!(rank.api.ncclCommGetAsyncError(rank.comm, &mut error), 0);
            assert_eq!(error, 0);
            // Someone else aborts while this thread waits.
            let (api, comm) = (rank.api.same(), rank.comm as usize);
            let abort = std::thread::spawn(move || api.ncclCommAbort(comm as *mut c_void));
            assert_eq!(rank.api.cudaStreamSynchronize(rank.stream), 0);
            assert_eq!(abort.join().expect("ends"), 0);
        }
    }
}

#[test]
fn communicators_can_be_made_without_end() {
    alone("collectives::communicators_can_be_made_without_end", &[TWO], || {
        for round in 0..100 {
            let (api, comms, _) = pair();
            for comm in comms {
                let end = if round % 2 == 0 { api.ncclCommDestroy(comm) } else { api.ncclCommAbort(comm) };
                assert_eq!(end, 0);
            }
        }
    });
}

#[test]
fn who_does_not_want_to_wait_for_the_others_asks_whether_they_have_come() {
    let test = "collectives::who_does_not_want_to_wait_for_the_others_asks_whether_they_have_come";
    alone(test, &[], || {
        let api = Api::ready();
        let (mut id, mut first, mut second, mut state) = (UniqueId([0; 128]), null_mut(), null_mut(), -1);
        // `ncclConfig_t`: size (two words), magic number, version, blocking.
        let config = [40, 0, 0xcafe_beef_u32 as c_int, 23007, 0, 0, 0, 0, 0, 0];
        assert_eq!(api.ncclGetUniqueId(&mut id), 0);
        assert_eq!(api.ncclCommInitRankConfig(&mut first, 2, id, 0, config.as_ptr()), 0);
        assert_eq!(api.ncclCommGetAsyncError(first, &mut state), 0);
        assert_eq!(state, 7);
        assert_eq!(api.ncclCommInitRank(&mut second, 2, id, 0), 4, "that rank is taken");
        assert_eq!(api.ncclCommInitRank(&mut second, 3, id, 1), 4, "there are two");
        assert_eq!(api.ncclCommInitRank(&mut second, 2, id, 1), 0);
        assert_eq!(api.ncclCommGetAsyncError(first, &mut state), 0);
        assert_eq!(state, 0);
    });
}

#[test]
fn a_group_sends_both_ways_at_once() {
    alone("collectives::a_group_sends_both_ways_at_once", &[TWO], || {
        let (api, comms, streams) = pair();
        let buffers = [1, 2, 0, 0].map(|value| {
            let address = api.malloc(MANY);
            assert_eq!(api.cuMemsetD8_v2(address, value, MANY), 0);
            address
        });
        assert_eq!(api.ncclGroupStart(), 0);
        for rank in [0, 1] {
            let (peer, comm, stream) = (1 - rank as c_int, comms[rank], streams[rank]);
            assert_eq!(api.ncclSend(buffers[rank], MANY, BYTE, peer, comm, stream), 0);
            assert_eq!(api.ncclRecv(buffers[2 + rank], MANY, BYTE, peer, comm, stream), 0);
        }
        assert_eq!(api.ncclGroupEnd(), 0);
        for rank in [0, 1] {
            assert_eq!(api.cudaStreamSynchronize(streams[rank]), 0);
            let mut got = vec![0; MANY];
            assert_eq!(api.cuMemcpyDtoH_v2(got.as_mut_ptr(), buffers[2 + rank], MANY), 0);
            assert!(got.iter().all(|byte| *byte == 2 - rank as u8));
        }
    });
}

#[test]
fn what_makes_no_sense_is_refused() {
    alone("collectives::what_makes_no_sense_is_refused", &[TWO], || {
        let (api, [comm, _], [stream, _]) = pair();
        let number = api.malloc(4);
        let reduce =
            |numbers, operation, comm| api.ncclAllReduce(number, number, 1, numbers, operation, comm, stream);
        assert_eq!(reduce(FLOAT, 99, comm), 4);
        assert_eq!(reduce(99, SUM, comm), 4);
        assert_eq!(reduce(FLOAT, SUM, null_mut()), 4);
        assert_eq!(api.ncclBroadcast(number, number, 1, FLOAT, 2, comm, stream), 4);
        assert_eq!(api.ncclAllReduce(0, number, 1, FLOAT, SUM, comm, stream), 4);
        // SAFETY: the signature is that of the public header.
        let last: extern "C" fn(*mut c_void) -> *const c_char =
            unsafe { std::mem::transmute(api.symbol("ncclGetLastError")) };
        // SAFETY: a text of the library.
        let text = unsafe { CStr::from_ptr(last(comm)) };
        assert!(text.to_str().expect("text").starts_with("invalid argument"));

        assert_eq!(api.ncclGroupEnd(), 5, "no group");
        assert_eq!(api.ncclGroupStart(), 0);
        assert_eq!(api.ncclGroupEnd(), 0, "what failed before is not the group's");
        assert_eq!(api.ncclGroupStart(), 0);
        assert_eq!(reduce(99, SUM, comm), 4);
        assert_eq!(api.ncclGroupEnd(), 4, "the group failed with it");
        assert_eq!(api.cudaStreamQuery(stream), 0, "nothing was begun");
    });
}
