//! Compiles the messages, in Rust alone.

use std::{env, error::Error, fs, path::Path};

/// Everything that goes over the wire.
const FILES: &[&str] = &["transport.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).open_files(FILES)?;
    let descriptors = compiler.encode_file_descriptor_set();
    fs::write(Path::new(&env::var("OUT_DIR")?).join("descriptors.bin"), descriptors)?;
    tonic_prost_build::configure()
        .build_server(false)
        .build_transport(false)
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
