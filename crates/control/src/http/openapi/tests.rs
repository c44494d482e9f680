//! The document as handlers and views define it.

use utoipa::OpenApi;

use crate::http::*;
use crate::view::EventView;

/// The body of every error.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "it stands for what `http::Refusal` renders")]
struct Refusal {
    /// What is wrong, where, and what to do.
    error: String,
    /// URL of the controller that leads, where this one does not (421) and knows it.
    leader: Option<String>,
}

/// The document of all endpoints.
macro_rules! document_of {
    ($($path:literal $($shared:ident)? { $($method:ident [$need:expr] $module:ident::$handler:ident),+ })+) => {
        #[derive(OpenApi)]
        #[openapi(
            info(
                title = "SRTM control plane",
                description = "Contracts of topics, publishers and their brokers."
            ),
            paths($($($module::$handler),+),+),
            // Whatever paths name is there by itself.
            components(schemas(EventView, Refusal))
        )]
        struct Document;
    };
}

endpoints!(document_of);

/// Where the file is; to be written by this test where `WRITE_OPENAPI` is set.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/http/openapi.json");

#[test]
fn the_file_is_what_the_code_says() {
    let mut said = Document::openapi().to_pretty_json().expect("plain values");
    said.push('\n');
    if std::env::var_os("WRITE_OPENAPI").is_some() {
        std::fs::write(FILE, &said).expect("the source folder can be written");
    }
    let kept = std::fs::read_to_string(FILE).expect("the file is part of the sources");
    assert!(
        kept == said,
        "handlers or views changed: WRITE_OPENAPI=1 cargo test -p control openapi"
    );
}
