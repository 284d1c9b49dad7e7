//! Many records a call: the only place of this crate that speaks to librdkafka's C interface itself.
//!
//! The binding hands out one record a call, with an allocation and an event object for each. Taking
//! them by the hundred halves the CPU of the reading side, and the errors that come along name
//! their topic, partition and offset, which the binding drops.
//!
//! All partitions of a reader are forwarded to one queue of ours. The forwarding is set up before a
//! partition is assigned, so no record ever takes the way to the binding's own queue.

#![allow(unsafe_code)]

use std::{
    ffi::{CStr, CString},
    fmt,
    ptr::{self, NonNull},
    time::Duration,
};

use rdkafka::{
    TopicPartitionList, bindings as c,
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    types::{RDKafkaErrorCode, RDKafkaEvent, RDKafkaMessage, RDKafkaQueue},
};

use crate::format::metadata::Header;

/// A queue of librdkafka's, destroyed on drop.
struct Queue(NonNull<RDKafkaQueue>);

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the pointer came from librdkafka, is owned by this value alone, and the client still
        // lives: every `Queue` sits in a `BatchQueue`, which borrows the consumer.
        unsafe { c::rd_kafka_queue_destroy(self.0.as_ptr()) }
    }
}

/// The one queue into which all partitions of a reader are forwarded.
///
/// It stays on the thread that made it (raw pointers are not `Send`) and cannot outlive its consumer.
pub(crate) struct BatchQueue<'c, C: ConsumerContext> {
    consumer: &'c BaseConsumer<C>,
    queue: Queue,
    buffer: Vec<*mut RDKafkaMessage>,
}

impl<C: ConsumerContext> fmt::Debug for BatchQueue<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchQueue").field("capacity", &self.buffer.capacity()).finish_non_exhaustive()
    }
}

/// An error that librdkafka put between the records.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: RDKafkaErrorCode,
    pub(crate) text: String,
    /// The partition it is about, where it is about one.
    pub(crate) partition: Option<(String, i32)>,
    /// The offset it is about; negative for none.
    pub(crate) offset: i64,
}

/// A record or an error, in the order in which librdkafka queued them.
pub(crate) enum Item<'m> {
    Record(Record<'m>),
    Failure(Failure),
}

/// A record, valid until the [`Messages`] it came from are dropped.
#[derive(Clone, Copy)]
pub(crate) struct Record<'m> {
    message: &'m RDKafkaMessage,
}

impl<'m> Record<'m> {
    /// Tells topics apart cheaply: equal while the client keeps the topic.
    pub(crate) fn topic_tag(&self) -> usize {
        self.message.rkt.addr()
    }

    pub(crate) fn topic(&self) -> String {
        topic_name(self.message).unwrap_or_default()
    }

    pub(crate) fn partition(&self) -> i32 {
        self.message.partition
    }

    pub(crate) fn offset(&self) -> i64 {
        self.message.offset
    }

    /// The value; `None` for a record without one (a tombstone).
    pub(crate) fn value(&self) -> Option<&'m [u8]> {
        bytes(self.message.payload.cast(), self.message.len)
    }

    pub(crate) fn key(&self) -> Option<&'m [u8]> {
        bytes(self.message.key.cast(), self.message.key_len)
    }

    /// The headers in their order: names may stand twice, values may be missing. Parsed anew with each call.
    pub(crate) fn headers(&self) -> Vec<Header> {
        let mut found = Vec::new();
        let mut headers = ptr::null_mut();
        // SAFETY: the message is alive and came from librdkafka, which parses its headers in place and keeps them with
        // it; no other thread has this message. `headers` is a valid place to write.
        let code = unsafe { c::rd_kafka_message_headers(ptr::from_ref(self.message), &raw mut headers) };
        if code != c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR || headers.is_null() {
            return found;
        }
        loop {
            let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
            // SAFETY: the headers live as long as the message, and the three places can be written to. An index
            // behind the last header is an error code and nothing else.
            let code = unsafe {
                c::rd_kafka_header_get_all(headers, found.len(), &raw mut name, &raw mut value, &raw mut size)
            };
            if code != c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR || name.is_null() {
                return found;
            }
            // SAFETY: the name is a C string that lives as long as the headers.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
            found.push((name, bytes(value.cast(), size).map(<[u8]>::to_vec)));
        }
    }

    /// Milliseconds since 1970, where the record has a time.
    pub(crate) fn timestamp(&self) -> Option<i64> {
        let mut kind = c::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message is alive (`'m`) and came from librdkafka; `kind` is a valid place to write.
        let millis = unsafe { c::rd_kafka_message_timestamp(self.message, &raw mut kind) };
        (kind != c::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE && millis >= 0)
            .then_some(millis)
    }
}

fn bytes<'m>(start: *const u8, length: usize) -> Option<&'m [u8]> {
    // SAFETY: librdkafka gives a null pointer for "none", else a pointer to `length` bytes that live
    // as long as the message; the callers tie `'m` to it.
    (!start.is_null()).then(|| unsafe { std::slice::from_raw_parts(start, length) })
}

fn topic_name(message: &RDKafkaMessage) -> Option<String> {
    if message.rkt.is_null() {
        return None;
    }
    // SAFETY: the message holds a reference to its topic, whose name is a C string that lives as long.
    let name = unsafe { CStr::from_ptr(c::rd_kafka_topic_name(message.rkt)) };
    Some(name.to_string_lossy().into_owned())
}

/// Who frees what the pointers of a [`Messages`] point to.
enum Owner {
    /// Each message for itself.
    Messages,
    /// The event they came in.
    Event(NonNull<RDKafkaEvent>),
}

/// Records and errors taken from the queue; given back to librdkafka on drop.
pub(crate) struct Messages<'q> {
    messages: &'q [*mut RDKafkaMessage],
    owner: Owner,
    failure: Option<Failure>,
}

impl<'q> Messages<'q> {
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.failure.is_none()
    }

    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(crate) fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    /// The items in order. They borrow from `self`, so none outlives the messages.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Item<'_>> {
        self.messages.iter().map(|message| {
            // SAFETY: every pointer of the slice is a live message until `self` is dropped.
            let message: &RDKafkaMessage = unsafe { &**message };
            if message.err == c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                return Item::Record(Record { message });
            }
            // An error carries its text in the place of the value.
            let text = bytes(message.payload.cast(), message.len).unwrap_or_default();
            Item::Failure(Failure {
                code: message.err.into(),
                text: String::from_utf8_lossy(text).trim_end_matches('\0').to_owned(),
                partition: topic_name(message).map(|topic| (topic, message.partition)),
                offset: message.offset,
            })
        })
    }
}

impl Drop for Messages<'_> {
    fn drop(&mut self) {
        match self.owner {
            Owner::Messages => {
                for message in self.messages {
                    // SAFETY: the message was handed to us by `rd_kafka_consume_batch_queue`, is destroyed
                    // only here, and no `Record` is left: they all borrow from `self`.
                    unsafe { c::rd_kafka_message_destroy(*message) }
                }
            }
            // SAFETY: the event was handed to us by `rd_kafka_queue_poll` and is destroyed only here, and
            // with it the messages that it owns.
            Owner::Event(event) => unsafe { c::rd_kafka_event_destroy(event.as_ptr()) },
        }
    }
}

impl<'c, C: ConsumerContext> BatchQueue<'c, C> {
    /// A queue that takes up to `capacity` records a call; `None` when librdkafka has no memory for it.
    pub(crate) fn new(consumer: &'c BaseConsumer<C>, capacity: usize) -> Option<Self> {
        // SAFETY: the client is alive as long as `consumer` is borrowed.
        let queue = unsafe { c::rd_kafka_queue_new(consumer.client().native_ptr()) };
        let queue = Queue(NonNull::new(queue)?);
        Some(Self { consumer, queue, buffer: vec![ptr::null_mut(); capacity.max(1)] })
    }

    /// Forwards a partition to this queue. Must come before the partition is assigned. Doing it again
    /// is harmless, and needed when a partition comes back that was given up before: stopping it
    /// ends the forwarding some time later. False when librdkafka does not know such a partition.
    pub(crate) fn forward(&self, topic: &CStr, partition: i32) -> bool {
        // SAFETY: the client is alive, `topic` is a C string; the result is null or a queue that we own.
        let from = unsafe {
            c::rd_kafka_queue_get_partition(self.consumer.client().native_ptr(), topic.as_ptr(), partition)
        };
        let Some(from) = NonNull::new(from).map(Queue) else { return false };
        // SAFETY: both queues are alive. librdkafka keeps references of its own to what it forwards to, so
        // dropping our handle of the partition's queue afterwards is what its documentation asks for.
        unsafe { c::rd_kafka_queue_forward(from.0.as_ptr(), self.queue.0.as_ptr()) }
        true
    }

    /// Takes up to `max` records that are there already. Never waits.
    pub(crate) fn poll(&mut self, max: usize) -> Messages<'_> {
        let room = max.clamp(1, self.buffer.len());
        // SAFETY: the queue is alive and the buffer has room for `room` pointers, which librdkafka fills from
        // the front and counts in its result. A time-out of 0 makes it return at once.
        let taken = unsafe {
            c::rd_kafka_consume_batch_queue(self.queue.0.as_ptr(), 0, self.buffer.as_mut_ptr(), room)
        };
        // A negative count reports an error of the call itself; there is none for a queue that exists.
        let taken = usize::try_from(taken).unwrap_or(0).min(room);
        Messages { messages: &self.buffer[..taken], owner: Owner::Messages, failure: None }
    }

    /// Waits for one record or error, at most `timeout`. Unlike [`Self::poll`] it also sees errors about
    /// the partition that are no consumer errors, such as a topic that was deleted.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Messages<'_> {
        let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the queue is alive; the result is null or an event that we own.
        let event = unsafe { c::rd_kafka_queue_poll(self.queue.0.as_ptr(), millis) };
        let Some(event) = NonNull::new(event) else {
            return Messages { messages: &[], owner: Owner::Messages, failure: None };
        };
        // From here on the guard frees the event, whatever happens.
        let mut messages = Messages { messages: &[], owner: Owner::Event(event), failure: None };
        // SAFETY: the event is alive.
        let kind = unsafe { c::rd_kafka_event_type(event.as_ptr()) };
        if kind == c::RD_KAFKA_EVENT_FETCH {
            // SAFETY: the event is alive; the message belongs to it and dies with it.
            let message = unsafe { c::rd_kafka_event_message_next(event.as_ptr()) };
            if !message.is_null() {
                self.buffer[0] = message.cast_mut();
                messages.messages = &self.buffer[..1];
            }
        } else if kind == c::RD_KAFKA_EVENT_ERROR {
            messages.failure = Some(failure_of(event));
        }
        messages
    }

    /// The end of a partition as the last fetch saw it. Asks nobody. `None` before the first fetch.
    pub(crate) fn cached_end(&self, topic: &CStr, partition: i32) -> Option<i64> {
        let (mut low, mut high) = (-1, -1);
        // SAFETY: the client is alive, `topic` is a C string, and both places can be written to.
        let result = unsafe {
            c::rd_kafka_get_watermark_offsets(
                self.consumer.client().native_ptr(),
                topic.as_ptr(),
                partition,
                &raw mut low,
                &raw mut high,
            )
        };
        (result == c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR && high >= 0).then_some(high)
    }
}

/// Commits offsets to the group and takes the results.
///
/// Without a membership it does so as an administrator does, not as a member of the group. The ordinary commit belongs to the
/// consumer's life: a consumer with one that nobody answers cannot be closed for a minute, and the
/// binding does not pass its result on.
pub(crate) struct CommitQueue<'c, C: ConsumerContext> {
    consumer: &'c BaseConsumer<C>,
    queue: Queue,
    group: CString,
}

impl<'c, C: ConsumerContext> CommitQueue<'c, C> {
    /// `None` when librdkafka has no memory for it.
    pub(crate) fn new(consumer: &'c BaseConsumer<C>, group: CString) -> Option<Self> {
        // SAFETY: the client is alive as long as `consumer` is borrowed.
        let queue = unsafe { c::rd_kafka_queue_new(consumer.client().native_ptr()) };
        Some(Self { consumer, queue: Queue(NonNull::new(queue)?), group })
    }

    /// Sends offsets, none of them negative, to the group. What becomes of them is told by [`Self::result`],
    /// once for each call that gives true. Never waits. False when librdkafka makes no request of them.
    pub(crate) fn commit(&self, offsets: &TopicPartitionList) -> bool {
        let client = self.consumer.client().native_ptr();
        // SAFETY: client, group, list and queue are alive. librdkafka copies the group and the list into the
        // request, and the request and its options into its own books, so both are destroyed here; a null
        // request or null options are destroyed as nothing, and the null request is never sent.
        unsafe {
            let mut request = c::rd_kafka_AlterConsumerGroupOffsets_new(self.group.as_ptr(), offsets.ptr());
            if request.is_null() {
                return false;
            }
            let kind = c::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_ALTERCONSUMERGROUPOFFSETS;
            let options = c::rd_kafka_AdminOptions_new(client, kind);
            c::rd_kafka_AlterConsumerGroupOffsets(
                client,
                &raw mut request,
                1,
                options,
                self.queue.0.as_ptr(),
            );
            c::rd_kafka_AdminOptions_destroy(options);
            c::rd_kafka_AlterConsumerGroupOffsets_destroy(request);
        }
        true
    }

    /// The same as a member of the group, which is the ordinary way.
    pub(crate) fn commit_as_member(&self, offsets: &TopicPartitionList) -> bool {
        // SAFETY: client, list and queue are alive. librdkafka copies the list; without a callback it puts the result
        // into the queue.
        let code = unsafe {
            c::rd_kafka_commit_queue(
                self.consumer.client().native_ptr(),
                offsets.ptr(),
                self.queue.0.as_ptr(),
                None,
                ptr::null_mut(),
            )
        };
        code == c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR
    }

    /// The result of one commit, if there is one within `timeout`.
    pub(crate) fn result(&self, timeout: Duration) -> Option<Result<(), RDKafkaErrorCode>> {
        let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the queue is alive; the result is null or an event that we own.
        let event = NonNull::new(unsafe { c::rd_kafka_queue_poll(self.queue.0.as_ptr(), millis) })?;
        let code = commit_error(event);
        // SAFETY: the event is destroyed once, after its last use.
        unsafe { c::rd_kafka_event_destroy(event.as_ptr()) }
        Some(match code {
            c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(()),
            code => Err(code.into()),
        })
    }
}

/// The first error of a commit: of the whole request, or of one partition.
fn commit_error(event: NonNull<RDKafkaEvent>) -> c::rd_kafka_resp_err_t {
    let fine = c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;
    // SAFETY: the event is alive. What it gives out is null, which is looked for, or lives as long as it does;
    // the counts say how many elements there are behind a pointer.
    unsafe {
        let code = c::rd_kafka_event_error(event.as_ptr());
        let result = c::rd_kafka_event_AlterConsumerGroupOffsets_result(event.as_ptr());
        if code != fine || result.is_null() {
            return code;
        }
        let mut groups = 0;
        let group = c::rd_kafka_AlterConsumerGroupOffsets_result_groups(result, &raw mut groups);
        if group.is_null() || groups == 0 {
            return fine;
        }
        let error = c::rd_kafka_group_result_error(*group);
        if !error.is_null() {
            return c::rd_kafka_error_code(error);
        }
        let partitions = c::rd_kafka_group_result_partitions(*group);
        if partitions.is_null() || (*partitions).elems.is_null() {
            return fine;
        }
        let count = usize::try_from((*partitions).cnt).unwrap_or(0);
        let partitions = std::slice::from_raw_parts((*partitions).elems, count);
        partitions.iter().map(|partition| partition.err).find(|code| *code != fine).unwrap_or(fine)
    }
}

fn failure_of(event: NonNull<RDKafkaEvent>) -> Failure {
    // SAFETY: the event is alive; the text is null or a C string that lives as long as the event.
    let (code, text) = unsafe {
        let text = c::rd_kafka_event_error_string(event.as_ptr());
        let text =
            if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() };
        (c::rd_kafka_event_error(event.as_ptr()), text)
    };
    // SAFETY: the event is alive; the result is null or a partition that we own and free below.
    let place = unsafe { c::rd_kafka_event_topic_partition(event.as_ptr()) };
    let (partition, offset) = if place.is_null() {
        (None, -1)
    } else {
        // SAFETY: `place` is not null, its topic is a C string, and it is freed once, after the last use.
        unsafe {
            let topic = CStr::from_ptr((*place).topic).to_string_lossy().into_owned();
            let found = (Some((topic, (*place).partition)), (*place).offset);
            c::rd_kafka_topic_partition_destroy(place);
            found
        }
    };
    Failure { code: code.into(), text, partition, offset }
}

/// A topic's name for [`BatchQueue`]; `None` for one with a zero byte, which no topic has.
pub(crate) fn topic_cstring(topic: &str) -> Option<CString> {
    CString::new(topic).ok()
}
