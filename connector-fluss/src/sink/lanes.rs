//! The connections of a sink's writers, and which of them a row goes through.
//!
//! Each chain has a connection of its own. Where rows are dealt out by bucket, those of one bucket all go through one
//! chain's connection, whichever chain wrote them: batches are fuller then, and fewer.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use connector_core::{Error, ErrorKind, Result, arrow::array::RecordBatch};
use fluss::{
    metadata::{RowType, TableInfo},
    row::{ColumnarRow, KeyEncoder, encode::KeyEncoderFactory},
};
use hashbrown::HashMap;

use crate::{
    client::Client,
    error::from_client,
    options::{DistributionMode, FlussOptions},
    types::PartitionValues,
};

#[derive(Default)]
pub(crate) struct Lanes {
    clients: Mutex<Vec<Weak<Client>>>,
    weights: Mutex<Weights>,
}

/// Rows that went through each lane, and which lane a partition has.
#[derive(Default)]
struct Weights {
    lanes: Vec<u64>,
    partitions: HashMap<PartitionValues, (usize, u64)>,
}

impl Lanes {
    /// The client of a lane, made when nobody has it.
    pub(crate) fn client(&self, lane: usize, options: &FlussOptions) -> Arc<Client> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() <= lane {
            clients.resize(lane + 1, Weak::new());
        }
        if let Some(client) = clients[lane].upgrade() {
            return client;
        }
        let client = Arc::new(Client::new(options));
        clients[lane] = Arc::downgrade(&client);
        client
    }

    /// A client that is of no use any more: the next writer makes another one.
    pub(crate) fn give_up(&self, client: &Arc<Client>) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        for lane in clients.iter_mut().filter(|lane| std::ptr::eq(lane.as_ptr(), Arc::as_ptr(client))) {
            *lane = Weak::new();
        }
    }

    /// The lane for `rows` of a partition: the one it had, unless it is heavy; else the one with the fewest rows.
    pub(crate) fn of_partition(&self, values: &PartitionValues, rows: usize, lanes: usize) -> usize {
        let mut weights = self.weights.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = rows as u64;
        weights.lanes.resize(lanes, 0);
        let total: u64 = weights.lanes.iter().sum();
        let lightest = (0..lanes).min_by_key(|lane| weights.lanes[*lane]).unwrap_or(0);
        let fair = (total + rows) / lanes.max(1) as u64;
        let entry = weights.partitions.entry(values.clone()).or_insert((lightest, 0));
        // One partition with more than a lane's share goes where there is room.
        if entry.1 > fair {
            entry.0 = lightest;
        }
        entry.1 += rows;
        let lane = entry.0.min(lanes.saturating_sub(1));
        weights.lanes[lane] += rows;
        lane
    }
}

/// How the rows of a table find their lane.
pub(crate) enum Routing {
    /// All through the chain's own.
    Own,
    Bucket(Box<Buckets>),
    Partition,
}

impl Routing {
    pub(crate) fn new(info: &TableInfo, options: &FlussOptions, lanes: usize) -> Result<Self> {
        let mode = match options.distribution() {
            DistributionMode::Auto => DistributionMode::Bucket,
            mode => mode,
        };
        Ok(match mode {
            DistributionMode::PartitionDynamic if lanes > 1 => Self::Partition,
            DistributionMode::Bucket if lanes > 1 && info.has_bucket_key() => {
                Self::Bucket(Box::new(Buckets::new(info)?))
            }
            _ => Self::Own,
        })
    }
}

/// Bucket numbers as the client reckons them.
pub(crate) struct Buckets {
    encoder: Mutex<Box<dyn KeyEncoder>>,
    row_type: Arc<RowType>,
    count: i32,
}

impl Buckets {
    fn new(info: &TableInfo) -> Result<Self> {
        let lake = info.get_table_config().get_datalake_format().map_err(|e| from_client(&e))?;
        let encoder =
            KeyEncoderFactory::of_bucket_key_encoder(info.row_type(), info.get_bucket_keys(), &lake)
                .map_err(|e| from_client(&e))?;
        Ok(Self {
            encoder: Mutex::new(encoder),
            row_type: Arc::new(info.row_type().clone()),
            count: info.get_num_buckets(),
        })
    }

    /// The lane of each row. Where a lake has a hash of its own the lanes are other ones, and as good.
    pub(crate) fn lanes(&self, rows: &RecordBatch, lanes: usize) -> Result<Vec<usize>> {
        let mut encoder = self.encoder.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |e| from_client(&e);
        let mut row =
            ColumnarRow::new(Arc::new(rows.clone()), Arc::clone(&self.row_type), 0, None).map_err(failed)?;
        let mut found = Vec::with_capacity(rows.num_rows());
        for place in 0..rows.num_rows() {
            row.set_row_id(place);
            let key = encoder.encode_key(&row).map_err(failed)?;
            let bucket = bucket(&key, self.count);
            found.push(
                usize::try_from(bucket)
                    .map_err(|_| Error::new(ErrorKind::Unexpected, "a bucket key has a negative bucket"))?
                    % lanes.max(1),
            );
        }
        Ok(found)
    }
}

/// Fluss's bucket of an encoded key: Murmur3 of its bytes with seed 42, whose tail goes byte by byte, mixed once more.
fn bucket(key: &[u8], count: i32) -> i32 {
    mixed(hash(key)).checked_rem(count).unwrap_or(0)
}

const C1: u32 = 0xcc9e_2d51;
const C2: u32 = 0x1b87_3593;

fn mix_key(k: u32) -> u32 {
    k.wrapping_mul(C1).rotate_left(15).wrapping_mul(C2)
}

fn mix_hash(h: u32, k: u32) -> u32 {
    (h ^ k).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
}

fn avalanche(mut h: u32) -> u32 {
    h ^= h >> 16;
    h = h.wrapping_mul(0x85eb_ca6b);
    h ^= h >> 13;
    h = h.wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

fn hash(bytes: &[u8]) -> u32 {
    let mut words = bytes.chunks_exact(4);
    let mut h = 42u32;
    for word in words.by_ref() {
        h = mix_hash(h, mix_key(u32::from_le_bytes([word[0], word[1], word[2], word[3]])));
    }
    for byte in words.remainder() {
        h = mix_hash(h, mix_key(u32::from(*byte)));
    }
    avalanche(h ^ u32::try_from(bytes.len()).unwrap_or(u32::MAX))
}

/// One hash more, and its absolute value.
fn mixed(hash: u32) -> i32 {
    let h = (mix_key(hash).rotate_left(13)).wrapping_mul(5).wrapping_add(0xe654_6b64);
    let signed = avalanche(h ^ 4).cast_signed();
    signed.checked_abs().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of Fluss's own tests.
    #[test]
    fn buckets_are_those_of_the_client() {
        assert_eq!(bucket(&[0, 10], 7), 1);
        assert_eq!(bucket(&[0, 10, 10, 10], 12), 0);
        assert_eq!(bucket(b"2bb87d68-baf9-4e64-90f9-f80910419fa6", 16), 6);
        assert_eq!(bucket(b"The quick brown fox jumps over the lazy dog", 8), 6);
    }

    #[test]
    fn partitions_keep_their_lane_and_heavy_ones_are_spread() {
        let lanes = Lanes::default();
        let part = |name: &str| vec![name.to_owned()];
        let first = lanes.of_partition(&part("a"), 10, 3);
        let second = lanes.of_partition(&part("b"), 10, 3);
        let third = lanes.of_partition(&part("c"), 10, 3);
        let mut all = [first, second, third];
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
        assert_eq!(lanes.of_partition(&part("b"), 1, 3), second);
        let heavy: std::collections::BTreeSet<usize> =
            (0..30).map(|_| lanes.of_partition(&part("a"), 1000, 3)).collect();
        assert_eq!(heavy.len(), 3);
    }

    #[test]
    fn a_lane_has_one_connection_until_it_is_given_up() {
        let options = FlussOptions::from_options([("bootstrap.servers", "a:1")]).unwrap();
        let lanes = Lanes::default();
        let one = lanes.client(1, &options);
        assert!(Arc::ptr_eq(&one, &lanes.client(1, &options)));
        assert!(!Arc::ptr_eq(&one, &lanes.client(0, &options)));
        lanes.give_up(&one);
        assert!(!Arc::ptr_eq(&one, &lanes.client(1, &options)));
    }
}
