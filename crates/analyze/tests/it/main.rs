//! Integration tests of `uroce-analyze`, as one program: each is linked once.

mod capture;
mod clean_captures;
mod dissect;
mod fields_by_hand;
mod filters;
mod golden;
mod judged_by_the_book;
mod ladders_and_numbers;
mod learn_captures;
mod link_layers;
mod mutated;
mod mutation;
mod packets_by_the_book;
mod pages;
mod reader;
mod readers_by_the_book;
mod reports;
mod rxe_captures;
mod scripts;
mod talk;
mod track;
mod tshark;
mod written;
