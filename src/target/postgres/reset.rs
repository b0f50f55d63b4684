pub struct Reset {
    pub terminated: bool,
}
