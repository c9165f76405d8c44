//! A capture as one HTML page that needs nothing else: no server, no network, no other file.
//!
//! ```text
//!  frames  ->  [`Viewer`]: dissector, tracker, judge
//!                 |
//!                 +-> packet, bytes, what the tracker said  ->  [`ViewBuilder::handle_packet`]
//!                 +-> conversations and findings            ->  [`ViewBuilder::finish`]
//!                                                                      |
//!                                                    HTML  <-  [`Page::write_to`]
//! ```
//!
//! The page carries numbers as columns (one typed array each), texts once in a table, and of each
//! packet its headers. Payload stays out unless [`ViewConfig::payload_bytes`] asks for it.

mod base64;
mod builder;
mod column;
mod columns;
mod escape;
mod facts;
mod input;
mod kind;
mod layout;
mod layouts;
mod meta;
mod packet_table;
mod page;
mod shape;
mod statistics;
mod strings;
mod summary;
#[cfg(test)]
mod testing;
mod viewer;

pub use builder::{ViewBuilder, ViewConfig};
pub use input::{Facts, ViewConversation, ViewEnd, ViewFinding, ViewRow, ViewSummary};
pub use page::Page;
pub use viewer::Viewer;
