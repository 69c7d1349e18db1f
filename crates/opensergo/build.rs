//! Compiles the messages, in Rust alone.

use std::{env, error::Error, fs, path::Path};

/// Everything that goes over the wire.
const FILES: &[&str] = &["transport.proto", "fault_tolerance.proto", "router.proto", "envoy_route.proto"];

/// Messages beside which all others of a choice are small.
const LARGE: &[&str] = &["envoy.config.route.v3.Route.action.route"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).open_files(FILES)?;
    let descriptors = compiler.encode_file_descriptor_set();
    fs::write(Path::new(&env::var("OUT_DIR")?).join("descriptors.bin"), descriptors)?;
    let mut config = tonic_prost_build::Config::new();
    // Maps that are written down in another order each time would look like changes. What goes into an `Any` has to
    // know its own name.
    config.btree_map(["."]).enable_type_names();
    for message in LARGE {
        config.boxed(message);
    }
    tonic_prost_build::configure()
        .build_server(false)
        .build_transport(false)
        .compile_fds_with_config(compiler.file_descriptor_set(), config)?;
    Ok(())
}
