//! See `tests/system/fuzz/targets`, where the target is.
#![no_main]

#[path = "../../tests/system/fuzz/targets/mod.rs"]
#[allow(dead_code)]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::api_answer(data));
