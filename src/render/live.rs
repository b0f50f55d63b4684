//! Progress while a run goes on, on stderr: a changing line for each lane on a terminal, a plain
//! line for each phase elsewhere. Nothing of the terminal is switched, so an interrupt at any
//! moment leaves it as it was.

use std::{
    io::{self, Write},
    sync::mpsc::{Receiver, RecvTimeoutError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use super::{
    style::{self, DIM, PLAIN, of_letter, of_verdict},
    text::pack_line,
    words,
};
use crate::{event::Event, report::PackReport, verdict::Verdict};

/// The least time between two drawings.
const FRAME: Duration = Duration::from_millis(100);
/// From here on a start is slow enough to say what it may be waiting for.
const SLOW_START: Duration = Duration::from_secs(5);

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// Whether stderr is a terminal, where lines can be drawn again.
    pub terminal: bool,
    /// Whether ANSI colours are written.
    pub colour: bool,
    /// Nothing at all.
    pub quiet: bool,
    /// Columns of the terminal; a drawn line never reaches the last one.
    pub width: usize,
}

impl Default for Live {
    fn default() -> Self {
        Self { terminal: false, colour: false, quiet: false, width: 80 }
    }
}

/// Shows events on stderr until their sender is gone. Join the handle before writing a report, so
/// that the last drawing is wiped.
pub fn follow(events: Receiver<Event>, live: Live) -> JoinHandle<()> {
    std::thread::spawn(move || show(&events, live, &mut io::stderr()))
}

/// A lane as it is drawn.
struct Lane {
    name: &'static str,
    since: Instant,
    phase: Phase,
    answers: u64,
}

enum Phase {
    Starting,
    Ready(usize),
    Asking(String),
    /// With the seconds it took, since its clock stands.
    Closed(Duration),
    Lost(String, Duration),
}

fn show(events: &Receiver<Event>, live: Live, out: &mut dyn Write) {
    let mut screen = Screen { live, lanes: Vec::new(), drawn: 0, last: None, out };
    loop {
        match events.recv_timeout(FRAME) {
            // A writer that is gone must not stop the run: events are read to the end.
            Ok(event) => drop(screen.tell(event)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        let due = screen.last.is_none_or(|last| last.elapsed() >= FRAME);
        if due && live.terminal && !live.quiet {
            let _ = screen.draw();
        }
    }
    let _ = screen.wipe();
}

struct Screen<'a> {
    live: Live,
    lanes: Vec<Lane>,
    /// Lines of the last drawing; the cursor stands below them.
    drawn: usize,
    last: Option<Instant>,
    out: &'a mut dyn Write,
}

impl Screen<'_> {
    fn tell(&mut self, event: Event) -> io::Result<()> {
        if self.live.quiet {
            return Ok(());
        }
        match event {
            Event::Note { what } => {
                self.wipe()?;
                self.last = None;
                writeln!(self.out, "{}", words::sentence(&what))
            }
            Event::Starting { lane } => {
                self.lane(lane).phase = Phase::Starting;
                self.phase(lane, "starting")
            }
            Event::Ready { lane, tools, ms } => {
                self.lane(lane).phase = Phase::Ready(tools);
                let tools = words::count(tools, "tool");
                self.phase(lane, &format!("ready, {tools}, {}", words::duration(ms)))
            }
            Event::Lost { lane, why } => {
                let why = words::sentence(why.lines().next().unwrap_or_default());
                let lane = self.lane(lane);
                let (name, after) = (lane.name, lane.since.elapsed());
                lane.phase = Phase::Lost(why.clone(), after);
                self.phase(name, &format!("lost: {why}"))
            }
            Event::Asking { lane, check } => {
                self.lane(lane).phase = Phase::Asking(words::name(&check));
                Ok(())
            }
            Event::Answered { lane } => {
                self.lane(lane).answers += 1;
                Ok(())
            }
            Event::Closed { lane } => {
                let lane = self.lane(lane);
                if !matches!(lane.phase, Phase::Lost(..)) {
                    lane.phase = Phase::Closed(lane.since.elapsed());
                }
                Ok(())
            }
            Event::Decided { pack } => self.decided(&pack),
        }
    }

    fn lane(&mut self, name: &'static str) -> &mut Lane {
        let at = self.lanes.iter().position(|lane| lane.name == name).unwrap_or_else(|| {
            let since = Instant::now();
            self.lanes.push(Lane { name, since, phase: Phase::Starting, answers: 0 });
            self.lanes.len() - 1
        });
        &mut self.lanes[at]
    }

    /// A line for a log; on a terminal the drawing says the same.
    fn phase(&mut self, lane: &str, text: &str) -> io::Result<()> {
        if self.live.terminal {
            return Ok(());
        }
        writeln!(self.out, "{lane}: {text}")
    }

    fn decided(&mut self, pack: &PackReport) -> io::Result<()> {
        self.wipe()?;
        let ink = pack.letter.map_or(PLAIN, of_letter);
        let line = style::paint(self.live.colour, ink, &pack_line(pack));
        writeln!(self.out, "{line}")?;
        for check in pack.checks.iter().filter(|check| words::is_critical_part(check)) {
            let ink = of_verdict(Verdict::Part);
            let line = style::paint(self.live.colour, ink, &words::critical_part(check));
            writeln!(self.out, "{line}")?;
        }
        // The lanes stand below what is decided, at the next drawing.
        self.last = None;
        Ok(())
    }

    /// Draws the lanes over their last drawing.
    fn draw(&mut self) -> io::Result<()> {
        self.last = Some(Instant::now());
        let mut text = up(self.drawn);
        let most = self.live.width.saturating_sub(1).max(20);
        for lane in &self.lanes {
            let (line, ink) = lane.line();
            text += &style::paint(self.live.colour, ink, style::head(&line, most));
            text += "\x1b[K\n";
        }
        self.drawn = self.lanes.len();
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Takes the drawing away.
    fn wipe(&mut self) -> io::Result<()> {
        if self.drawn > 0 {
            let text = up(self.drawn) + "\x1b[J";
            self.drawn = 0;
            self.out.write_all(text.as_bytes())?;
        }
        self.out.flush()
    }
}

/// To the first column of the line so many lines above.
fn up(lines: usize) -> String {
    if lines == 0 { String::new() } else { format!("\x1b[{lines}A\r") }
}

impl Lane {
    fn line(&self) -> (String, anstyle::Style) {
        let running = self.since.elapsed();
        let answers = words::count(usize::try_from(self.answers).unwrap_or(usize::MAX), "answer");
        let (doing, after, ink) = match &self.phase {
            Phase::Starting if running > SLOW_START => {
                let hint = "starting (a first npx or uvx start downloads the package)";
                return (format!("{:<8}  {hint}  {}", self.name, tenths(running)), PLAIN);
            }
            Phase::Starting => ("starting".to_owned(), running, PLAIN),
            Phase::Ready(tools) => {
                (format!("ready, {}", words::count(*tools, "tool")), running, PLAIN)
            }
            Phase::Asking(check) => (check.clone(), running, PLAIN),
            Phase::Closed(after) => ("done".to_owned(), *after, DIM),
            Phase::Lost(why, after) => {
                let line = format!("{:<8}  lost: {why}  {}", self.name, tenths(*after));
                return (line, of_verdict(Verdict::Fail));
            }
        };
        (format!("{:<8}  {doing:<24}  {answers:>12}  {:>8}", self.name, tenths(after)), ink)
    }
}

/// `1.4 s`: the same number of digits while it runs, so that nothing jumps.
fn tenths(time: Duration) -> String {
    format!("{}.{} s", time.as_secs(), time.subsec_millis() / 100)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::render::sample::sample;

    fn events() -> Vec<Event> {
        let pack = Box::new(sample().packs.swap_remove(1));
        vec![
            Event::Starting { lane: "main" },
            Event::Ready { lane: "main", tools: 3, ms: 240 },
            Event::Asking { lane: "main", check: "robust-input".into() },
            Event::Answered { lane: "main" },
            Event::Starting { lane: "hostile" },
            Event::Lost { lane: "hostile", why: "exit 1\x1b[2J\nmore".into() },
            Event::Closed { lane: "main" },
            Event::Decided { pack },
        ]
    }

    fn shown(live: Live) -> String {
        let (sender, receiver) = channel();
        for event in events() {
            sender.send(event).unwrap();
        }
        drop(sender);
        let mut out = Vec::new();
        show(&receiver, live, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_log_gets_a_plain_line_per_phase_and_no_control_codes() {
        assert_eq!(
            shown(Live::default()),
            "main: starting\nmain: ready, 3 tools, 240 ms\nhostile: starting\n\
             hostile: lost: exit 1\\u{1b}[2J\n\
             PACK fs GRADE D (capped) (2.5/4 points, 62%)\n\
             critical part: fs-write-escape (indirect-breached)\n"
        );
    }

    #[test]
    fn quiet_shows_nothing() {
        assert_eq!(shown(Live { quiet: true, ..Live::default() }), "");
        assert_eq!(shown(Live { quiet: true, terminal: true, ..Live::default() }), "");
    }

    /// What a terminal shows after these bytes: moves up, carriage returns, erasing to the end.
    fn screen(bytes: &str) -> Vec<String> {
        let (mut lines, mut row) = (vec![String::new()], 0usize);
        let mut rest = bytes;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            match c {
                '\n' => {
                    row += 1;
                    lines.resize(lines.len().max(row + 1), String::new());
                }
                '\r' => {}
                '\x1b' => {
                    let end = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap();
                    let n: usize = rest[1..end].parse().unwrap_or(0);
                    match &rest[end..=end] {
                        "A" => {
                            row -= n;
                            // What is drawn next replaces the lines.
                            lines[row..].iter_mut().for_each(String::clear);
                        }
                        "J" => lines.truncate(row + 1),
                        "K" => {}
                        other => panic!("unexpected code {other}"),
                    }
                    rest = &rest[end + 1..];
                }
                c => lines[row].push(c),
            }
        }
        lines
    }

    #[test]
    fn on_a_terminal_only_decided_packs_stay() {
        let bytes = shown(Live { terminal: true, ..Live::default() });
        assert_eq!(
            screen(&bytes),
            [
                "PACK fs GRADE D (capped) (2.5/4 points, 62%)",
                "critical part: fs-write-escape (indirect-breached)",
                ""
            ]
        );
        // Neither the cursor is hidden nor a mode is set.
        assert!(!bytes.contains("\x1b[?") && !bytes.contains("\x1b[2J"));
    }

    #[test]
    fn a_lane_is_one_aligned_line_that_fits_the_terminal() {
        let mut out = Vec::new();
        let live = Live { terminal: true, width: 40, ..Live::default() };
        let mut screen = Screen { live, lanes: Vec::new(), drawn: 0, last: None, out: &mut out };
        for event in events().into_iter().take(6) {
            screen.tell(event).unwrap();
        }
        screen.lane("main").answers = 212;
        let (line, _) = screen.lanes[0].line();
        assert_eq!(line, "main      robust-input               212 answers     0.0 s");
        screen.draw().unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.trim_end_matches("\x1b[K").len() < 40), "{text:?}");
    }

    #[test]
    fn many_answers_are_drawn_ten_times_a_second_at_most() {
        let (sender, receiver) = channel();
        for _ in 0..20_000 {
            sender.send(Event::Answered { lane: "main" }).unwrap();
        }
        drop(sender);
        let mut out = Vec::new();
        let started = Instant::now();
        show(&receiver, Live { terminal: true, ..Live::default() }, &mut out);
        let frames = String::from_utf8(out).unwrap().matches("\x1b[K").count();
        let most = 2 + started.elapsed().as_millis() / FRAME.as_millis();
        assert!(frames as u128 <= most, "{frames} drawings, at most {most}");
    }
}
