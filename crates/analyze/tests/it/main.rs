//! Integration tests of `uroce-analyze`, as one program: each is linked once.

mod capture;
mod clean_captures;
mod dissect;
mod fields_by_hand;
mod golden;
mod judged_by_the_book;
mod ladders_and_numbers;
mod learn_captures;
mod mutated;
mod mutation;
mod packets_by_the_book;
mod reader;
mod readers_by_the_book;
mod rxe_captures;
mod track;
mod tshark;
