//! The broker between publishers and subscribers of Tempo.
