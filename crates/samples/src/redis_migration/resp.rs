//! A connection to a server that speaks Redis's protocol: commands in, replies out, nothing without a limit.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    time::timeout,
};

/// How long a server may take to let us in, and to say or take the next part of something.
const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(30);

/// How long all of it may take: a server that says a byte now and then keeps nobody for ever.
const ALL: Duration = Duration::from_secs(300);

/// How much a server may say to a command, unless it is asked for values.
pub(super) const MOST_REPLY: usize = 16 << 20;

/// What a reply takes in memory besides its bytes, about: many small ones are large, too.
const ITEM: usize = 64;

/// The longest line.
const MOST_LINE: usize = 64 << 10;

/// The most replies within a reply, and how deep.
const MOST_ITEMS: usize = 1 << 20;
const MOST_DEPTH: usize = 4;

/// How much is read or written at a time.
const CHUNK: usize = 64 << 10;

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub(super) enum RespError {
    /// The connection broke.
    #[error("the connection to {0} failed")]
    Broken(String, #[source] io::Error),
    /// The server takes too long.
    #[error("{0} does not answer")]
    Silent(String),
    /// What the server says makes no sense.
    #[error("{0} does not speak Redis's protocol")]
    Garbled(String),
    /// The replies are larger than they may be.
    #[error("{0} answers more than {1} bytes")]
    TooLarge(String, usize),
    /// The server refuses.
    #[error("{0} answers: {1}")]
    Refused(String, String),
}

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Text(String),
    Error(String),
    Number(i64),
    Bytes(Vec<u8>),
    Nothing,
    List(Vec<Reply>),
}

/// The words of a command.
pub(super) type Command<'a> = Vec<&'a [u8]>;

/// A connection.
pub(super) struct Connection {
    address: String,
    stream: BufReader<TcpStream>,
    /// How many bytes may be read in this exchange, and how many of them still.
    most: usize,
    left: usize,
}

impl Connection {
    pub(super) async fn open(address: &str) -> Result<Self, RespError> {
        let connected = timeout(CONNECT, TcpStream::connect(address)).await;
        let stream = connected.map_err(|_| RespError::Silent(address.to_owned()))?;
        let stream = stream.map_err(|error| RespError::Broken(address.to_owned(), error))?;
        // It is faster with it, and works without.
        let _ = stream.set_nodelay(true);
        Ok(Connection {
            address: address.to_owned(),
            stream: BufReader::with_capacity(CHUNK, stream),
            most: 0,
            left: 0,
        })
    }

    /// Sends one command; a refusal is an error.
    pub(super) async fn call(&mut self, words: &[&[u8]]) -> Result<Reply, RespError> {
        let mut replies = self.exchange(&[words.to_vec()], MOST_REPLY).await?;
        self.accepted(replies.pop().unwrap_or(Reply::Nothing))
    }

    /// A reply that is no refusal.
    pub(super) fn accepted(&self, reply: Reply) -> Result<Reply, RespError> {
        match reply {
            Reply::Error(text) => Err(RespError::Refused(self.address.clone(), text)),
            reply => Ok(reply),
        }
    }

    /// What the server says makes no sense.
    pub(super) fn garbled(&self) -> RespError {
        RespError::Garbled(self.address.clone())
    }

    /// Sends commands and then reads a reply to each. When it fails, the connection is of no further use.
    pub(super) async fn exchange(
        &mut self,
        commands: &[Command<'_>],
        most_bytes: usize,
    ) -> Result<Vec<Reply>, RespError> {
        let address = self.address.clone();
        let exchanged = timeout(ALL, self.send_and_read(commands, most_bytes)).await;
        exchanged.unwrap_or(Err(RespError::Silent(address)))
    }

    async fn send_and_read(
        &mut self,
        commands: &[Command<'_>],
        most_bytes: usize,
    ) -> Result<Vec<Reply>, RespError> {
        self.send(commands).await?;
        (self.most, self.left) = (most_bytes, most_bytes.saturating_add(MOST_LINE));
        let mut replies = Vec::with_capacity(commands.len());
        for _ in commands {
            replies.push(self.reply(0).await?);
        }
        Ok(replies)
    }

    /// Words that are large go as they are, without another copy of them.
    async fn send(&mut self, commands: &[Command<'_>]) -> Result<(), RespError> {
        let mut text = vec![];
        for words in commands {
            text.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
            for word in words {
                text.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                if text.len() + word.len() > CHUNK {
                    self.write(&text).await?;
                    self.write(word).await?;
                    text.clear();
                } else {
                    text.extend_from_slice(word);
                }
                text.extend_from_slice(b"\r\n");
            }
        }
        self.write(&text).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), RespError> {
        for part in bytes.chunks(CHUNK) {
            let written = timeout(ANSWER, self.stream.write_all(part)).await;
            self.timely(written)?;
        }
        Ok(())
    }

    fn timely<T>(&self, ended: Result<io::Result<T>, tokio::time::error::Elapsed>) -> Result<T, RespError> {
        let ended = ended.map_err(|_| RespError::Silent(self.address.clone()))?;
        ended.map_err(|error| RespError::Broken(self.address.clone(), error))
    }

    async fn reply(&mut self, depth: usize) -> Result<Reply, RespError> {
        let line = self.line().await?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| self.garbled())?;
        let number = || rest.parse::<i64>().map_err(|_| self.garbled());
        match kind {
            "+" => Ok(Reply::Text(rest.to_owned())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            ":" => Ok(Reply::Number(number()?)),
            "$" => match number()? {
                -1 => Ok(Reply::Nothing),
                length => self.bytes(usize::try_from(length).map_err(|_| self.garbled())?).await,
            },
            "*" => match number()? {
                -1 => Ok(Reply::Nothing),
                length => self.list(usize::try_from(length).map_err(|_| self.garbled())?, depth).await,
            },
            _ => Err(self.garbled()),
        }
    }

    async fn line(&mut self) -> Result<String, RespError> {
        let mut line = vec![];
        loop {
            let byte = timeout(ANSWER, self.stream.read_u8()).await;
            match self.timely(byte)? {
                b'\n' if line.last() == Some(&b'\r') => break,
                byte => line.push(byte),
            }
            if line.len() > MOST_LINE {
                return Err(self.garbled());
            }
        }
        line.pop();
        self.spend(line.len())?;
        String::from_utf8(line).map_err(|_| self.garbled())
    }

    async fn bytes(&mut self, length: usize) -> Result<Reply, RespError> {
        self.spend(length)?;
        let mut bytes = vec![];
        while bytes.len() < length + 2 {
            let begun = bytes.len();
            // Memory is taken as it is filled: a length alone costs nothing.
            bytes.resize((begun + CHUNK).min(length + 2), 0);
            let read = timeout(ANSWER, self.stream.read_exact(&mut bytes[begun..])).await;
            self.timely(read)?;
        }
        if !bytes.ends_with(b"\r\n") {
            return Err(self.garbled());
        }
        bytes.truncate(length);
        Ok(Reply::Bytes(bytes))
    }

    async fn list(&mut self, length: usize, depth: usize) -> Result<Reply, RespError> {
        if depth >= MOST_DEPTH || length > MOST_ITEMS {
            return Err(self.garbled());
        }
        self.spend(length * ITEM)?;
        let mut items = vec![];
        for _ in 0..length {
            items.push(Box::pin(self.reply(depth + 1)).await?);
        }
        Ok(Reply::List(items))
    }

    fn spend(&mut self, n_bytes: usize) -> Result<(), RespError> {
        match self.left.checked_sub(n_bytes) {
            Some(left) => self.left = left,
            None => return Err(RespError::TooLarge(self.address.clone(), self.most)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// What becomes of one command when a server says this and ends the connection.
    async fn said(bytes: Vec<u8>) -> Result<Reply, RespError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut request = [0; 14];
            stream.read_exact(&mut request).await.expect("a request");
            assert_eq!(&request, b"*1\r\n$4\r\nPING\r\n");
            // A client that has heard enough goes.
            let _ = stream.write_all(&bytes).await;
        });
        let mut connection = Connection::open(&address).await?;
        let replies = connection.exchange(&[vec![b"PING"]], 100 << 10).await;
        drop(connection);
        server.await.expect("the server ends");
        Ok(replies?.remove(0))
    }

    #[tokio::test]
    async fn replies_are_read_as_they_are_meant() {
        let list = Reply::List(vec![Reply::Number(-7), Reply::Nothing, Reply::Bytes(b"a\r\nb".to_vec())]);
        for (text, reply) in [
            ("+PONG\r\n", Reply::Text("PONG".to_owned())),
            ("-ERR no\r\n", Reply::Error("ERR no".to_owned())),
            ("*3\r\n:-7\r\n$-1\r\n$4\r\na\r\nb\r\n", list),
            ("*-1\r\n", Reply::Nothing),
            ("$0\r\n\r\n", Reply::Bytes(vec![])),
        ] {
            let said = said(text.as_bytes().to_vec()).await;
            assert_eq!(said.unwrap_or_else(|error| panic!("{text:?}: {error}")), reply);
        }
    }

    #[tokio::test]
    async fn servers_that_say_too_much_or_nonsense_are_left() {
        for text in ["HTTP/1.1 200\r\n", "\r\n", ":x\r\n", "$-2\r\n", "*99999999999\r\n", "$1\r\nabc\r\n"] {
            let said = said(text.as_bytes().to_vec()).await;
            assert!(matches!(said, Err(RespError::Garbled(_))), "{text:?}: {said:?}");
        }
        let deep = said("*1\r\n".repeat(100).into_bytes()).await;
        assert!(matches!(deep, Err(RespError::Garbled(_))), "{deep:?}");
        let long = said(vec![b'+'; 1 << 20]).await;
        assert!(matches!(long, Err(RespError::Garbled(_))), "{long:?}");
        for text in ["$9223372036854775807\r\n", "$536870912\r\n", "*9999\r\n"] {
            let large = said(text.as_bytes().to_vec()).await;
            assert!(matches!(large, Err(RespError::TooLarge(..))), "{large:?}");
        }
        for text in ["", "$5\r\nab", "*2\r\n:1\r\n"] {
            let short = said(text.as_bytes().to_vec()).await;
            assert!(matches!(short, Err(RespError::Broken(..))), "{text:?}: {short:?}");
        }
    }
}
