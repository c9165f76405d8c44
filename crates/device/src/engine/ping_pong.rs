//! Detection of request-response traffic.

/// Whether the two ends of a queue pair alternate: one message each way, one after the other. The
/// end that responds then has nothing more to post until the next request arrives, so coalescing
/// its doorbells only adds latency.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PingPong {
    /// Requests posted since the last message of the peer.
    posted: usize,
    /// Exactly one request was posted between the last two messages of the peer.
    alternate: bool,
}

impl PingPong {
    /// The last packet of a message of the peer has arrived.
    pub(crate) fn handle_message_end(&mut self) {
        self.alternate = self.posted == 1;
        self.posted = 0;
    }

    /// `count` requests are posted. True if they are the response in request-response traffic.
    pub(crate) fn handle_post(&mut self, count: usize) -> bool {
        let answer = self.alternate && self.posted == 0 && count == 1;
        self.posted = self.posted.saturating_add(count);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_each_way_is_a_conversation() {
        let mut ping_pong = PingPong::default();
        assert!(!ping_pong.handle_post(1), "nothing was heard yet");
        ping_pong.handle_message_end();
        assert!(ping_pong.handle_post(1));
        ping_pong.handle_message_end();
        assert!(ping_pong.handle_post(1));
        assert!(!ping_pong.handle_post(1), "the second is no answer");
        ping_pong.handle_message_end();
        assert!(!ping_pong.handle_post(1), "two went out since the one before");
    }

    #[test]
    fn messages_behind_each_other_are_none() {
        let mut ping_pong = PingPong::default();
        ping_pong.handle_post(1);
        ping_pong.handle_message_end();
        ping_pong.handle_message_end();
        assert!(!ping_pong.handle_post(1));
        ping_pong.handle_message_end();
        assert!(!ping_pong.handle_post(32), "a list is not an answer");
    }
}
