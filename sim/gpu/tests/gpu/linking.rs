//! A C program that was linked against the library under a name of the real one, as a compiler does it.

use std::process::Command;

use crate::support::built;

const PROGRAM: &str = r#"
#include <stddef.h>
#include <stdio.h>
int cudaMalloc(void **, size_t);
int cudaFree(void *);
int cudaMemGetInfo(size_t *, size_t *);
int main(void) {
    void *memory = 0;
    size_t before = 0, between = 0, total = 0;
    int looked = cudaMemGetInfo(&before, &total);
    int got = cudaMalloc(&memory, 1 << 20);
    int again = cudaMemGetInfo(&between, &total);
    int refused = cudaMalloc(&memory, total);
    printf("%d %d %d %d %zu %zu\n", looked, got, again, refused, before - between, total);
    return cudaFree(memory);
}
"#;

#[test]
fn a_stranger_links_to_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    std::fs::write(place.join("program.c"), PROGRAM).expect("written");
    std::os::unix::fs::symlink(built(), place.join("libcudart.so")).expect("linked");
    let compiled = Command::new("cc")
        .current_dir(place)
        .args(["program.c", "-o", "program", "-L.", "-lcudart", "-Wl,-z,now", "-Wl,-rpath,$ORIGIN"])
        .output()
        .expect("there is a C compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let mut program = Command::new(place.join("program"));
    let output = program.env("BROWNOUT_GPU_MEMORY", "4194304").output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0 0 0 2 1048576 4194304\n");
}
