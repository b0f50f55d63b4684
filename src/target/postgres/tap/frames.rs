//! Cuts a stream of Postgres messages into their kinds and heads without holding their bodies.

/// The longest message Postgres itself takes or sends, 1 GiB (`PQ_LARGE_MESSAGE_LIMIT`).
const LONGEST: u32 = 0x3fff_ffff;
/// Kind and length of a message.
const HEADER: usize = 5;

/// Whose messages a stream carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// The server under test, which is a client of Postgres.
    Client,
    /// Postgres.
    Postgres,
}

/// A message whose kind or length the protocol does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// What is kept of one message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) kind: u8,
    /// The beginning of its body, as much as its kind deserves.
    pub(super) head: &'a [u8],
}

/// Reads one direction of a connection, whatever the chunks it comes in.
#[derive(Debug)]
pub(super) struct Frames {
    from: From,
    header: [u8; HEADER],
    read: usize,
    /// Bytes of the body that are still to come.
    left: usize,
    keep: usize,
    head: Vec<u8>,
}

impl Frames {
    pub(super) fn new(from: From) -> Self {
        Self { from, header: [0; HEADER], read: 0, left: 0, keep: 0, head: Vec::new() }
    }

    /// Reads a chunk and gives each message that ends in it to `take`.
    pub(super) fn read(
        &mut self,
        mut chunk: &[u8],
        mut take: impl FnMut(Frame<'_>),
    ) -> Result<(), Malformed> {
        while !chunk.is_empty() {
            if self.read < HEADER {
                let part = chunk.len().min(HEADER - self.read);
                self.header[self.read..self.read + part].copy_from_slice(&chunk[..part]);
                self.read += part;
                chunk = &chunk[part..];
                if self.read < HEADER {
                    return Ok(());
                }
                self.begin()?;
            }
            let part = chunk.len().min(self.left);
            let kept = part.min(self.keep - self.head.len());
            self.head.extend_from_slice(&chunk[..kept]);
            self.left -= part;
            chunk = &chunk[part..];
            if self.left == 0 {
                self.read = 0;
                take(Frame { kind: self.header[0], head: &self.head });
            }
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), Malformed> {
        let [kind, length @ ..] = self.header;
        let length = u32::from_be_bytes(length);
        if !(4..=LONGEST).contains(&length) {
            return Err(Malformed);
        }
        self.keep = match self.from {
            From::Client => of_client(kind),
            From::Postgres => of_postgres(kind),
        }
        .ok_or(Malformed)?;
        // The bound above makes it fit where a pointer has 32 bits.
        self.left = length as usize - 4;
        self.head.clear();
        Ok(())
    }

    /// Bytes held, for the test of the bound.
    #[cfg(test)]
    fn held(&self) -> usize {
        self.head.capacity()
    }
}

/// Bytes kept of a client's message of this kind; `None` for a kind the protocol does not have.
/// Passwords (`p`) and data are passed on unread.
fn of_client(kind: u8) -> Option<usize> {
    Some(match kind {
        b'Q' => super::HEAD + 1,
        b'P' => super::NAME + super::HEAD + 2,
        b'B' => 2 * super::NAME + 2,
        b'E' | b'C' | b'D' => super::NAME + 2,
        b'F' | b'S' | b'H' | b'X' | b'p' | b'd' | b'c' | b'f' => 0,
        _ => return None,
    })
}

/// The same of what Postgres sends.
fn of_postgres(kind: u8) -> Option<usize> {
    Some(match kind {
        b'C' | b'S' => 2 * super::NAME,
        b'E' => 4_096,
        b'K' | b'R' | b'Z' => 8,
        b'A' | b'D' | b'G' | b'H' | b'I' | b'N' | b'T' | b'V' | b'W' | b'c' | b'd' | b'n'
        | b's' | b't' | b'v' | b'1' | b'2' | b'3' => 0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(from: From, chunks: &[&[u8]]) -> Result<Vec<(u8, Vec<u8>)>, Malformed> {
        let (mut frames, mut found) = (Frames::new(from), Vec::new());
        for chunk in chunks {
            frames.read(chunk, |frame| found.push((frame.kind, frame.head.to_vec())))?;
        }
        Ok(found)
    }

    #[test]
    fn messages_are_read_whatever_the_chunks() {
        let bytes = b"Q\0\0\0\x0dSELECT 1\0S\0\0\0\x04X\0\0\0\x04";
        let whole = read(From::Client, &[bytes]).unwrap();
        assert_eq!(whole, [(b'Q', b"SELECT 1\0".to_vec()), (b'S', Vec::new()), (b'X', Vec::new())]);
        for cut in 1..bytes.len() {
            assert_eq!(read(From::Client, &[&bytes[..cut], &bytes[cut..]]).unwrap(), whole);
        }
        let bytes: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read(From::Client, &bytes).unwrap(), whole);
    }

    #[test]
    fn a_row_of_fifty_megabytes_is_not_held() {
        let mut frames = Frames::new(From::Postgres);
        let body = vec![b'x'; 1 << 20];
        let mut ended = 0;
        let mut header = vec![b'D'];
        header.extend_from_slice(&(50 * (1_u32 << 20) + 4).to_be_bytes());
        frames.read(&header, |_| ended += 1).unwrap();
        for _ in 0..50 {
            assert_eq!(ended, 0);
            frames.read(&body, |_| ended += 1).unwrap();
        }
        assert_eq!((ended, frames.held()), (1, 0));
    }

    #[test]
    fn a_statement_of_any_length_leaves_its_head_alone() {
        let mut frames = Frames::new(From::Client);
        let body = vec![b'x'; 1 << 20];
        frames.read(b"Q\x00\x30\x00\x04", |_| ()).unwrap();
        let mut head = 0;
        for _ in 0..3 {
            frames.read(&body, |frame| head = frame.head.len()).unwrap();
        }
        assert_eq!(head, super::super::HEAD + 1);
        assert!(frames.held() < 3 * super::super::HEAD, "{}", frames.held());
    }

    #[test]
    fn lengths_and_kinds_outside_the_protocol_are_refused() {
        for bytes in [
            &b"Q\xff\xff\xff\xff"[..],
            b"Q\x40\0\0\0",
            b"Q\0\0\0\x03",
            b"Q\0\0\0\0",
            b"\x16\0\0\0\x10",
            b"G\0\0\0\x10",
            b"\0\0\0\0\x08",
        ] {
            assert_eq!(read(From::Client, &[bytes]), Err(Malformed), "{bytes:?}");
        }
        assert_eq!(read(From::Postgres, &[b"Q\0\0\0\x04"]), Err(Malformed));
        assert!(read(From::Client, &[b"Q\x3f\xff\xff\xff"]).is_ok());
    }
}
