//! Measures Windlass against yardsticks taken in the same run, over the system's allocator.

use std::process::ExitCode;

fn main() -> ExitCode {
    windlass_bench::main()
}
