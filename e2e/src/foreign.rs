//! Clients in other languages: building them, giving them a place to live and starting them.
//!
//! Their sources are in `e2e/clients`. What they need to be built and run goes into the target folder and is made once;
//! the first time needs a network.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use crate::{process::Running, server::Server};

const GO: &str = "WINDLASS_GO";
pub(crate) const GO_HINT: &str = "put Go 1.26 or newer on the PATH, or name it in WINDLASS_GO";

const PYTHON: &str = "WINDLASS_PYTHON";
const PYTHON_HINT: &str = "install Python 3.9 or newer with its venv module, or name it in WINDLASS_PYTHON";

impl Server {
    /// Starts the informer of `e2e/clients/go` on the ConfigMaps of `namespace`.
    #[must_use]
    #[track_caller]
    pub fn informer(&self, namespace: &str, until: &str, watch_list: bool) -> Running {
        self.informer_with(&self.kubeconfig(), namespace, until, watch_list)
    }

    /// The same with another kubeconfig.
    #[must_use]
    #[track_caller]
    pub fn informer_with(
        &self,
        kubeconfig: &Path,
        namespace: &str,
        until: &str,
        watch_list: bool,
    ) -> Running {
        let mut command = Command::new(informer());
        command.arg("-kubeconfig").arg(kubeconfig);
        command.args(["-namespace", namespace, "-until", until]);
        command.env("KUBE_FEATURE_WatchListClient", watch_list.to_string());
        Running::spawn(command.current_dir(self.directory()), GO_HINT)
    }

    /// Starts `e2e/clients/python/config_maps.py`, as `what` says.
    #[must_use]
    #[track_caller]
    pub fn python(&self, what: &str, arguments: &[&str]) -> Running {
        let mut command = Command::new(python());
        command.arg(sources("python").join("config_maps.py"));
        command.arg(what).arg(self.kubeconfig()).args(arguments);
        Running::spawn(command.current_dir(self.directory()), PYTHON_HINT)
    }
}

fn sources(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(language)
}

/// Where things are made that outlive a run of the tests.
pub(crate) fn workshop() -> PathBuf {
    let test = env::current_exe().expect("a test is a file");
    // TARGET/PROFILE/deps/TEST
    test.ancestors().nth(3).expect("cargo's folders").join("e2e")
}

pub(crate) fn chosen(variable: &str, usual: &str) -> PathBuf {
    env::var_os(variable).filter(|path| !path.is_empty()).unwrap_or_else(|| usual.into()).into()
}

#[track_caller]
pub(crate) fn must_succeed(command: &mut Command, hint: &str) {
    match command.status() {
        Ok(status) => assert!(status.success(), "{command:?} ended with {status}: {hint}"),
        Err(error) => panic!("{command:?} does not start: {error}: {hint}"),
    }
}

fn informer() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| go_program("informer", &sources("go")))
}

/// The program that is built from Go sources. Go itself knows what of it has to be built again.
#[track_caller]
pub(crate) fn go_program(name: &str, sources: &Path) -> PathBuf {
    let program = workshop().join(name);
    let mut command = Command::new(chosen(GO, "go"));
    command.args(["build", "-o"]).arg(&program).arg(".").current_dir(sources);
    must_succeed(&mut command, GO_HINT);
    program
}

/// A Python that has what the requirements ask for, in an environment of its own.
fn python() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let environment = workshop().join("python");
        let python = environment.join("bin/python");
        let requirements = sources("python").join("requirements.txt");
        let wanted = fs::read_to_string(&requirements).expect("it is part of the sources");
        let done = environment.join("installed.txt");
        if fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) {
            return python;
        }
        let mut make = Command::new(chosen(PYTHON, "python3"));
        must_succeed(make.args(["-m", "venv", "--clear"]).arg(&environment), PYTHON_HINT);
        let mut install = Command::new(&python);
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
        must_succeed(install.arg(&requirements), "pip needs a network the first time");
        fs::write(&done, wanted).expect("the environment is ours");
        python
    })
}
