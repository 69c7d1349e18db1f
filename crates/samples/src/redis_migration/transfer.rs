//! Two connections, and keys that go from one to the other.

use kube::ResourceExt;
use windlass_runtime::phase::StepError;

use super::{
    RedisMigration,
    resp::{Command, Connection, MOST_REPLY, Reply, RespError},
};

/// The values of several keys together may be so large; a key alone may be as large as Redis allows.
const MOST_TOGETHER: usize = 64 << 20;
const MOST_ALONE: usize = 512 << 20;

/// How much is restored before replies are read.
const MOST_UNCONFIRMED: usize = 4 << 20;

/// The names of keys that are about to be moved are kept in the status: so long they may be together.
const MOST_NAMES: usize = 256 << 10;

/// What the names of records at the source begin with, which are not moved, and how long they stay when nobody goes on.
const RECORDS: &str = "windlass:held:";
const RECORDS_FOR: &str = "604800";

/// How often a key is tried that somebody changes all the time.
const MOST_TRIES: usize = 20;

impl From<RespError> for Failure {
    fn from(error: RespError) -> Self {
        Failure::Resp(error)
    }
}

/// Why keys did not go.
enum Failure {
    Resp(RespError),
    /// Somebody has changed one of them.
    Changed,
}

/// A key as the source has it.
struct Kept<'a> {
    key: &'a [u8],
    value: Vec<u8>,
    /// As RESTORE takes it: 0 is for ever.
    time_to_live: String,
}

/// What moves keys.
pub(super) struct Transfer {
    addresses: [String; 2],
    db: u32,
    /// What the connections are known by.
    names: [String; 2],
    /// What the servers say they are.
    servers: [String; 2],
    /// Where the source has on record what is about to be brought. A key is struck off as it is taken, in one
    /// transaction. So one that is on record and not at the source has been deleted by somebody: whichever process of
    /// ours looks, it knows. Without a record, which may expire, nothing is ever deleted.
    held: String,
    source: Connection,
    dest: Connection,
}

impl Transfer {
    pub(super) async fn open(migration: &RedisMigration) -> Result<Self, StepError> {
        let addresses = [migration.spec.source.clone(), migration.spec.dest.clone()];
        let (db, name) = (migration.spec.db.unwrap_or_default(), migration.uid().unwrap_or_default());
        let names = [format!("windlass-{name}-source"), format!("windlass-{name}-dest")];
        Self::open_at(addresses, db, names, format!("{RECORDS}{name}")).await
    }

    async fn open_at(
        addresses: [String; 2],
        db: u32,
        names: [String; 2],
        held: String,
    ) -> Result<Self, StepError> {
        let mut source = connect(&addresses[0], db, &names[0]).await.map_err(told)?;
        let mut dest = connect(&addresses[1], db, &names[1]).await.map_err(told)?;
        // A server that moves keys to itself would lose them all.
        let servers = [run_id(&mut source).await?, run_id(&mut dest).await?];
        if servers[0] == servers[1] {
            let [source, dest] = &addresses;
            return Err(StepError::fatal(format!("{source} and {dest} are the same server")));
        }
        Ok(Transfer { addresses, db, names, servers, held, source, dest })
    }

    /// Whether keys can go at all.
    pub(super) async fn check(&mut self) -> Result<(), StepError> {
        for (connection, address) in [&mut self.source, &mut self.dest].into_iter().zip(&self.addresses) {
            let about = info(connection, "replication").await?;
            if field(&about, "role") == Some("slave") {
                let text =
                    format!("{address} is a replica: keys can neither be brought there nor taken away");
                return Err(StepError::fatal(text));
            }
        }
        Ok(())
    }

    /// How many keys the source has, about: some may have expired.
    pub(super) async fn n_keys(&mut self) -> Result<u64, StepError> {
        match self.source.call(&[b"DBSIZE"]).await.map_err(told)? {
            Reply::Number(number) => Ok(u64::try_from(number).unwrap_or_default()),
            _ => Err(told(self.source.garbled())),
        }
    }

    /// Some keys of the source, each once, and where to go on. What does not fit is found by the next look through.
    pub(super) async fn scan(&mut self, cursor: u64, count: u32) -> Result<(u64, Vec<Vec<u8>>), StepError> {
        let (cursor, count) = (cursor.to_string(), count.to_string());
        let words: [&[u8]; 4] = [b"SCAN", cursor.as_bytes(), b"COUNT", count.as_bytes()];
        let reply = self.source.call(&words).await.map_err(told)?;
        let (cursor, keys) = self.page(reply).ok_or_else(|| told(self.source.garbled()))?;
        let mut page = vec![];
        let mut n_bytes = 0;
        for key in keys {
            n_bytes += key.len();
            if n_bytes > MOST_NAMES && page.is_empty() {
                return Err(StepError::fatal(format!("a key has a name of {n_bytes} bytes")));
            }
            if n_bytes > MOST_NAMES {
                break;
            }
            page.push(key);
        }
        Ok((cursor, page))
    }

    fn page(&self, reply: Reply) -> Option<(u64, Vec<Vec<u8>>)> {
        let Reply::List(parts) = reply else { return None };
        let [Reply::Bytes(cursor), Reply::List(keys)] = <[Reply; 2]>::try_from(parts).ok()? else {
            return None;
        };
        let cursor = std::str::from_utf8(&cursor).ok()?.parse().ok()?;
        let keys = keys.into_iter().map(|key| match key {
            Reply::Bytes(key) => Some(key),
            _ => None,
        });
        let mut keys: Vec<Vec<u8>> = keys.collect::<Option<_>>()?;
        keys.retain(|key| !key.starts_with(RECORDS.as_bytes()));
        keys.sort_unstable();
        keys.dedup();
        Some((cursor, keys))
    }

    /// Moves keys. Those that have been moved before are not moved again. How many are nowhere: they have expired, or
    /// somebody has deleted them.
    pub(super) async fn move_keys(&mut self, keys: &[Vec<u8>]) -> Result<u64, StepError> {
        match self.try_keys(keys, MOST_TOGETHER).await {
            Ok(n_gone) => return Ok(n_gone),
            Err(Failure::Changed) => {}
            Err(Failure::Resp(RespError::TooLarge(..))) => self.reconnect().await?,
            Err(Failure::Resp(error)) => return Err(told(error)),
        }
        let mut n_gone = 0;
        for key in keys {
            n_gone += self.move_alone(key).await?;
        }
        Ok(n_gone)
    }

    async fn move_alone(&mut self, key: &[u8]) -> Result<u64, StepError> {
        let keys = [key.to_vec()];
        for _ in 0..MOST_TRIES {
            match self.try_keys(&keys, MOST_ALONE).await {
                Ok(n_gone) => return Ok(n_gone),
                Err(Failure::Changed) => {}
                Err(Failure::Resp(error @ RespError::TooLarge(..))) => {
                    return Err(StepError::fatal(format!("{}: {error}", key.escape_ascii())));
                }
                Err(Failure::Resp(error)) => return Err(told(error)),
            }
        }
        Err(StepError::retry(format!("somebody changes the key {} all the time", key.escape_ascii())))
    }

    async fn reconnect(&mut self) -> Result<(), StepError> {
        let (addresses, names) = (self.addresses.clone(), self.names.clone());
        let new = Self::open_at(addresses, self.db, names, self.held.clone()).await?;
        if new.servers != self.servers {
            return Err(StepError::retry("a server has been replaced by another in the middle of a batch"));
        }
        *self = new;
        Ok(())
    }

    /// Moves keys, unless somebody changes one of them meanwhile.
    async fn try_keys(&mut self, keys: &[Vec<u8>], most_bytes: usize) -> Result<u64, Failure> {
        let watch: Command<'_> = [&b"WATCH"[..]].into_iter().chain(keys.iter().map(Vec::as_slice)).collect();
        self.source.call(&watch).await?;
        let (kept, absent) = self.read(keys, most_bytes).await?;
        self.hold(&kept).await?;
        let mut part = vec![];
        let mut n_bytes = 0;
        for own in &kept {
            n_bytes += own.value.len();
            part.push(own);
            if n_bytes >= MOST_UNCONFIRMED {
                self.restore(&std::mem::take(&mut part)).await?;
                n_bytes = 0;
            }
        }
        self.restore(&part).await?;
        self.forget(&kept).await?;
        self.settle(&absent).await
    }

    /// What the source has of some keys, and what it has not.
    async fn read<'a>(
        &mut self,
        keys: &'a [Vec<u8>],
        most_bytes: usize,
    ) -> Result<(Vec<Kept<'a>>, Vec<&'a [u8]>), Failure> {
        let commands: Vec<Command<'_>> =
            keys.iter().flat_map(|key| [vec![&b"PTTL"[..], key], vec![&b"DUMP"[..], key]]).collect();
        let mut replies = self.source.exchange(&commands, most_bytes).await?.into_iter();
        let (mut kept, mut absent) = (vec![], vec![]);
        for key in keys {
            let (time, value) = (replies.next(), replies.next());
            let time = self.source.accepted(time.unwrap_or(Reply::Nothing))?;
            match (time, self.source.accepted(value.unwrap_or(Reply::Nothing))?) {
                (Reply::Number(-2), _) | (_, Reply::Nothing) => absent.push(key.as_slice()),
                (Reply::Number(time), Reply::Bytes(value)) => {
                    // One that has less than a millisecond must not live for ever.
                    let time_to_live = if time == -1 { 0 } else { time.max(1) };
                    kept.push(Kept { key, value, time_to_live: time_to_live.to_string() });
                }
                _ => return Err(self.source.garbled().into()),
            }
        }
        Ok((kept, absent))
    }

    /// Writes down what is about to be brought.
    async fn hold(&mut self, kept: &[Kept<'_>]) -> Result<(), Failure> {
        if kept.is_empty() {
            return Ok(());
        }
        let add: Command<'_> =
            [&b"SADD"[..], self.held.as_bytes()].into_iter().chain(kept.iter().map(|own| own.key)).collect();
        let expire = vec![&b"EXPIRE"[..], self.held.as_bytes(), RECORDS_FOR.as_bytes()];
        for reply in self.source.exchange(&[add, expire], MOST_REPLY).await? {
            self.source.accepted(reply)?;
        }
        Ok(())
    }

    /// Brings keys to the other server, whatever it has of them: perhaps a process before us has brought them.
    async fn restore(&mut self, kept: &[&Kept<'_>]) -> Result<(), Failure> {
        let commands: Vec<Command<'_>> = kept
            .iter()
            .map(|own| vec![&b"RESTORE"[..], own.key, own.time_to_live.as_bytes(), &own.value, b"REPLACE"])
            .collect();
        for reply in self.dest.exchange(&commands, MOST_REPLY).await? {
            self.dest.accepted(reply)?;
        }
        Ok(())
    }

    /// Takes keys from the source and strikes them off the record, unless one of them has changed since it was read.
    async fn forget(&mut self, kept: &[Kept<'_>]) -> Result<(), Failure> {
        if kept.is_empty() {
            self.source.call(&[b"UNWATCH"]).await?;
            return Ok(());
        }
        // Without it, keys would go whether or not they have changed: nothing is said before it is accepted.
        self.source.call(&[b"MULTI"]).await?;
        let keys = || kept.iter().map(|own| own.key);
        let del: Command<'_> = [&b"DEL"[..]].into_iter().chain(keys()).collect();
        let strike: Command<'_> = [&b"SREM"[..], self.held.as_bytes()].into_iter().chain(keys()).collect();
        let mut done = Reply::Nothing;
        for reply in self.source.exchange(&[del, strike, vec![b"EXEC"]], MOST_REPLY).await? {
            // The first refusal says why.
            done = self.source.accepted(reply)?;
        }
        match done {
            Reply::List(replies) => {
                replies.into_iter().try_for_each(|reply| self.source.accepted(reply).map(drop))?;
                Ok(())
            }
            Reply::Nothing => Err(Failure::Changed),
            _ => Err(self.source.garbled().into()),
        }
    }

    /// Removes keys from the other server that somebody has deleted at the source after we had written them down. How
    /// many of these that the source has not are not at the other server, either.
    async fn settle(&mut self, absent: &[&[u8]]) -> Result<u64, Failure> {
        let asks: Vec<Command<'_>> =
            absent.iter().map(|key| vec![&b"SISMEMBER"[..], self.held.as_bytes(), key]).collect();
        let mut deleted = vec![];
        for (key, reply) in absent.iter().zip(self.source.exchange(&asks, MOST_REPLY).await?) {
            if self.source.accepted(reply)? == Reply::Number(1) {
                deleted.push(*key);
            }
        }
        if !deleted.is_empty() {
            let del: Command<'_> = [&b"DEL"[..]].into_iter().chain(deleted.iter().copied()).collect();
            self.dest.call(&del).await?;
            let strike = [&b"SREM"[..], self.held.as_bytes()];
            let strike: Command<'_> = strike.into_iter().chain(deleted).collect();
            self.source.call(&strike).await?;
        }
        self.count_gone(absent).await
    }

    /// How many keys that the source has not are not at the other server, either.
    async fn count_gone(&mut self, absent: &[&[u8]]) -> Result<u64, Failure> {
        let commands: Vec<Command<'_>> = absent.iter().map(|key| vec![&b"EXISTS"[..], key]).collect();
        let replies = self.dest.exchange(&commands, MOST_REPLY).await?;
        let mut n_gone = 0;
        for reply in replies {
            n_gone += u64::from(self.dest.accepted(reply)? == Reply::Number(0));
        }
        Ok(n_gone)
    }
}

/// Opens a connection that is known by a name, and cuts off those of the same name: a process that was killed may have
/// left commands that would come after ours.
async fn connect(address: &str, db: u32, name: &str) -> Result<Connection, RespError> {
    let mut connection = Connection::open(address).await?;
    if db != 0 {
        connection.call(&[b"SELECT", db.to_string().as_bytes()]).await?;
    } else {
        connection.call(&[b"PING"]).await?;
    }
    let own = if_known(connection.call(&[b"CLIENT", b"ID"]).await)?;
    let list = if_known(connection.call(&[b"CLIENT", b"LIST"]).await)?;
    let (Some(Reply::Number(own)), Some(Reply::Bytes(list))) = (own, list) else {
        // A server that knows nothing of its clients has none to cut off.
        return Ok(connection);
    };
    let list = String::from_utf8_lossy(&list);
    let name_field = format!("name={name}");
    for line in list.lines().filter(|line| line.split(' ').any(|field| field == name_field)) {
        let id = line.split(' ').find_map(|field| field.strip_prefix("id="));
        if let Some(id) = id.filter(|id| *id != own.to_string()) {
            // It may have gone by itself.
            let _ = connection.exchange(&[vec![b"CLIENT", b"KILL", b"ID", id.as_bytes()]], 1 << 10).await?;
        }
    }
    connection.call(&[b"CLIENT", b"SETNAME", name.as_bytes()]).await?;
    Ok(connection)
}

/// The reply to a command that not every server has. One that does not answer at all is no such server.
fn if_known(replied: Result<Reply, RespError>) -> Result<Option<Reply>, RespError> {
    match replied {
        Err(RespError::Refused(..)) => Ok(None),
        replied => replied.map(Some),
    }
}

async fn info(connection: &mut Connection, section: &str) -> Result<String, StepError> {
    match connection.call(&[b"INFO", section.as_bytes()]).await.map_err(told)? {
        Reply::Bytes(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
        _ => Err(told(connection.garbled())),
    }
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// What tells one server from another.
async fn run_id(connection: &mut Connection) -> Result<String, StepError> {
    let about = info(connection, "server").await?;
    let id = field(&about, "run_id").filter(|id| !id.is_empty());
    id.map(str::to_owned).ok_or_else(|| StepError::fatal("a server does not say which one it is (run_id)"))
}

/// Whether another try is worth it. Servers mostly begin a refusal with a word that says what it is.
fn told(error: RespError) -> StepError {
    const PASSING: [&str; 9] = [
        "LOADING",
        "BUSY",
        "TRYAGAIN",
        "MASTERDOWN",
        "OOM",
        "MISCONF",
        "CLUSTERDOWN",
        "READONLY",
        "NOREPLICAS",
    ];
    const TOO_MANY: &str = "ERR max number of clients";
    let is_passing = match &error {
        RespError::Refused(_, text) => {
            let word = text.split(' ').next().unwrap_or_default();
            PASSING.contains(&word) || text.starts_with(TOO_MANY)
        }
        RespError::Garbled(_) => false,
        _ => true,
    };
    let error = StepError::from(error);
    if is_passing { error } else { StepError::fatal(error) }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    /// What becomes of a client when a server says these things, one to each request, and then goes.
    async fn connected(says: &'static [&'static str]) -> Result<Connection, RespError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut request = [0; 1 << 10];
            for text in says {
                let _ = stream.read(&mut request).await.expect("a request");
                stream.write_all(text.as_bytes()).await.expect("an answer");
            }
        });
        connect(&address, 0, "me").await
    }

    #[tokio::test]
    async fn only_servers_that_say_so_know_nothing_of_their_clients() {
        const UNKNOWN: &str = "-ERR unknown command\r\n";
        assert!(connected(&["+PONG\r\n", UNKNOWN, UNKNOWN]).await.is_ok());
        // A connection whose answers are late would take them for those to other questions.
        for says in [&["+PONG\r\n"][..], &["+PONG\r\n", UNKNOWN], &["+PONG\r\n", ":7\r\n"]] {
            let ended = connected(says).await.err();
            assert!(matches!(ended, Some(RespError::Broken(..))), "{says:?}: {ended:?}");
        }
    }

    #[test]
    fn what_passes_is_tried_again() {
        let refused = |text: &str| told(RespError::Refused("a:1".to_owned(), text.to_owned()));
        for text in ["READONLY no", "MISCONF no", "NOREPLICAS no", "ERR max number of clients reached"] {
            assert_eq!(refused(text), StepError::retry(format!("a:1 answers: {text}")));
        }
        for text in ["NOPERM no", "ERR no", "WRONGTYPE no"] {
            assert_eq!(refused(text), StepError::fatal(format!("a:1 answers: {text}")));
        }
    }
}
