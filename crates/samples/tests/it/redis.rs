//! Real Redis servers, and a client of our own to look at them.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// How long a test waits for something that should happen soon.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// A server, for as long as there is this.
pub(crate) struct Redis {
    process: Child,
    port: u16,
    _dir: TempDir,
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Text(String),
    Error(String),
    Number(i64),
    Bytes(Vec<u8>),
    Nothing,
    List(Vec<Said>),
}

impl Redis {
    pub(crate) fn start() -> Self {
        let program = std::env::var_os("WINDLASS_REDIS").expect(
            "WINDLASS_REDIS must name a redis-server, such as /usr/bin/redis-server (Debian: apt-get install redis-server)",
        );
        // Somebody else may take the port in between.
        for _ in 0..10 {
            let port = TcpListener::bind("127.0.0.1:0")
                .and_then(|own| own.local_addr())
                .expect("a free port")
                .port();
            let dir = TempDir::new().expect("a directory");
            let mut command = Command::new(&program);
            command.args([
                "--port",
                &port.to_string(),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
            ]);
            command.arg("--dir").arg(dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
            let process = command.spawn().expect("WINDLASS_REDIS can be started");
            let mut redis = Redis { process, port, _dir: dir };
            if redis.is_up() {
                return redis;
            }
        }
        panic!("redis-server does not start");
    }

    fn is_up(&mut self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < DEADLINE && self.process.try_wait().expect("a process").is_none() {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok()
                && self.ask(&["PING"]) == Said::Text("PONG".into())
            {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn connect(&self) -> Client {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        Client(BufReader::new(stream))
    }

    /// Asks one thing.
    pub(crate) fn ask<W: AsRef<[u8]>>(&self, words: &[W]) -> Said {
        self.connect().ask(words)
    }

    /// Has a server without keys and without a past.
    pub(crate) fn clear(&self) {
        self.ask(&["FLUSHALL"]);
        self.ask(&["CONFIG", "RESETSTAT"]);
    }

    pub(crate) fn n_keys(&self) -> i64 {
        match self.ask(&["DBSIZE"]) {
            Said::Number(number) => number,
            other => panic!("{other:?}"),
        }
    }

    /// Every key with its value, and how long it lives.
    pub(crate) fn everything(&self) -> BTreeMap<Vec<u8>, (Vec<u8>, i64)> {
        let mut client = self.connect();
        let Said::List(keys) = client.ask(&["KEYS", "*"]) else { panic!("no keys") };
        let mut all = BTreeMap::new();
        for key in keys {
            let Said::Bytes(key) = key else { panic!("{key:?}") };
            let (Said::Bytes(value), Said::Number(time)) =
                (client.ask(&[b"DUMP", key.as_slice()]), client.ask(&[b"PTTL", key.as_slice()]))
            else {
                continue;
            };
            all.insert(key, (value, time));
        }
        all
    }

    /// How many keys it has been given by RESTORE.
    pub(crate) fn n_restored(&self) -> u64 {
        let Said::Bytes(stats) = self.ask(&["INFO", "commandstats"]) else { panic!("no statistics") };
        let stats = String::from_utf8(stats).expect("text");
        let Some(line) = stats.lines().find_map(|line| line.strip_prefix("cmdstat_restore:")) else {
            return 0;
        };
        let field = |name: &str| -> u64 {
            let value = line.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
            value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {line}"))
        };
        field("calls") - field("failed_calls")
    }
}

/// A connection of a test.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Said {
        let mut text = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            let word = word.as_ref();
            text.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            text.extend_from_slice(word);
            text.extend_from_slice(b"\r\n");
        }
        self.0.get_mut().write_all(&text).expect("it is sent");
        self.said()
    }

    fn said(&mut self) -> Said {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        let (kind, rest) = line.trim_end().split_at(1);
        let number = || rest.parse::<i64>().expect("a number");
        match (kind, rest) {
            ("+", text) => Said::Text(text.to_owned()),
            ("-", text) => Said::Error(text.to_owned()),
            (":", _) => Said::Number(number()),
            (_, "-1") => Said::Nothing,
            ("$", _) => {
                let mut bytes = vec![0; number() as usize + 2];
                self.0.read_exact(&mut bytes).expect("a value");
                bytes.truncate(bytes.len() - 2);
                Said::Bytes(bytes)
            }
            ("*", _) => Said::List((0..number()).map(|_| self.said()).collect()),
            _ => panic!("{line:?}"),
        }
    }
}
