//! Clients in other languages: building them, giving them a place to live and starting them.
//!
//! Their sources are in `e2e/clients`. What they need to be built and run goes into the target folder and is made once;
//! the first time needs a network.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, OnceLock, PoisonError},
};

use crate::{process::Running, server::Server};

const GO: &str = "WINDLASS_GO";
pub(crate) const GO_HINT: &str = "put Go 1.26 or newer on the PATH, or name it in WINDLASS_GO";

const PYTHON: &str = "WINDLASS_PYTHON";
const PYTHON_HINT: &str = "install Python 3.9 or newer with its venv module, or name it in WINDLASS_PYTHON";

const JAVA: &str = "WINDLASS_JAVA";
const MAVEN: &str = "WINDLASS_MVN";
pub(crate) const JAVA_HINT: &str =
    "put a JDK 11 or newer and Maven on the PATH, or name them in WINDLASS_JAVA and WINDLASS_MVN";

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

    /// Starts fabric8's client of `e2e/clients/java`, as `what` says, with the administrator's kubeconfig.
    #[must_use]
    #[track_caller]
    pub fn fabric8(&self, what: &str, arguments: &[&str]) -> Running {
        let mut command = java_program("fabric8", &sources("java"));
        command.arg(what).arg(self.kubeconfig()).args(arguments);
        // It looks for a configuration in more places than it is told of.
        command.env_remove("KUBECONFIG").env("HOME", self.directory());
        Running::spawn_listening(command.current_dir(self.directory()), JAVA_HINT)
    }
}

fn sources(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(language)
}

/// Where things are made that outlive a run of the tests.
fn workshop() -> PathBuf {
    let test = env::current_exe().expect("a test is a file");
    // TARGET/PROFILE/deps/TEST
    test.ancestors().nth(3).expect("cargo's folders").join("e2e")
}

fn chosen(variable: &str, usual: &str) -> PathBuf {
    env::var_os(variable).filter(|path| !path.is_empty()).unwrap_or_else(|| usual.into()).into()
}

#[track_caller]
fn must_succeed(command: &mut Command, hint: &str) {
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

/// The driver that is compiled from Java sources beside a pom.xml, ready to be run. Both are kept under `name`.
#[track_caller]
pub(crate) fn java_program(name: &'static str, sources: &Path) -> Command {
    static MADE: Mutex<BTreeMap<&str, OsString>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let classes = made.entry(name).or_insert_with(|| java_classes(&workshop().join(name), sources));
    let mut command = Command::new(chosen(JAVA, "java"));
    // Starting fast matters more here than running fast.
    command
        .args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m", "-cp"])
        .arg(classes)
        .arg("Driver");
    command
}

/// Where Java finds the driver and what it needs. It is made again when its sources have changed.
#[track_caller]
fn java_classes(home: &Path, sources: &Path) -> OsString {
    let text = |name: &str| fs::read_to_string(sources.join(name)).expect("it is part of the sources");
    let (wanted, done) = (text("pom.xml") + &text("Driver.java"), home.join("made-of.txt"));
    let (libraries, classes) = (home.join("libraries"), home.join("classes"));
    let made = fs::read_to_string(&done).is_ok_and(|made| made == wanted);
    if !made {
        // It is not there the first time.
        let _ = fs::remove_dir_all(home);
        let mut fetch = Command::new(chosen(MAVEN, "mvn"));
        fetch.args([
            "--quiet",
            "--batch-mode",
            "-Dstyle.color=never",
            "dependency:copy-dependencies",
            "--file",
        ]);
        fetch.arg(sources.join("pom.xml")).arg(option("-DoutputDirectory=", &libraries));
        must_succeed(&mut fetch, JAVA_HINT);
    }
    let jars = fs::read_dir(&libraries).expect("Maven has made it");
    let mut path: Vec<PathBuf> = jars.map(|jar| jar.expect("a file").path()).collect();
    path.sort();
    path.insert(0, classes.clone());
    let path = env::join_paths(path).expect("no colons in names");
    if !made {
        let mut compile = Command::new(chosen(JAVA, "java"));
        compile.args(["-m", "jdk.compiler/com.sun.tools.javac.Main", "-d"]).arg(&classes);
        must_succeed(compile.arg("-cp").arg(&path).arg(sources.join("Driver.java")), JAVA_HINT);
        fs::write(&done, wanted).expect("the folder is ours");
    }
    path
}

fn option(name: &str, value: &Path) -> OsString {
    let mut option = OsString::from(name);
    option.push(value);
    option
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
