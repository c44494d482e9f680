//! `srtm access`: tokens for access files.

use access::{Holder, Pattern, Role, Token, TokenHash};
use clap::{Args, Subcommand};
use control::random::random_bytes;

use crate::error::Failure;

const EXAMPLES: &str = "\
Examples:
  srtm access token --name gateway-7 --role publish --topics 'sensors.*'
  srtm access token --name archive --role subscribe --topics '*' --channels 'archive*'
  srtm access token --name operator --role admin --topics '*' >> access.toml     the token goes to standard error
  srtm broker --tcp-address :4150 --http-address :4151 --access access.toml";

/// What is to be done about access.
#[derive(Debug, Subcommand)]
pub(crate) enum AccessCommand {
    /// Makes a token, and prints it with the lines for an access file.
    Token(TokenArguments),
}

/// Flags of `srtm access token`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TokenArguments {
    /// Who will hold the token; logs and /stats say so.
    #[arg(long, value_name = "NAME")]
    name: String,
    /// What it is for: read, publish, subscribe or admin. May be repeated.
    #[arg(long, value_name = "ROLE", required = true, value_delimiter = ',')]
    role: Vec<Role>,
    /// Topics that it is for, with * for any characters, such as 'sensors.*'. May be repeated.
    #[arg(long, value_name = "PATTERN", required = true, value_delimiter = ',')]
    topics: Vec<Pattern>,
    /// Channels that it may subscribe to [default: all].
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    channels: Vec<Pattern>,
}

/// Does it.
pub(crate) fn run(command: AccessCommand) -> Result<(), Failure> {
    let AccessCommand::Token(arguments) = command;
    let token = Token::new(random_bytes()?);
    let channels = match arguments.channels.is_empty() {
        true => vec![Pattern::everything()],
        false => arguments.channels,
    };
    let holder = Holder {
        name: arguments.name,
        roles: arguments.role.into_iter().collect(),
        topics: arguments.topics,
        channels,
    };
    let lines = holder.lines(TokenHash::of(token.secret().as_bytes()));
    // Lines that no daemon would read are none.
    access::AccessList::parse(&lines).map_err(|error| Failure::Usage(error.to_string()))?;
    eprintln!(
        "The token, which nobody can show again:\n\n{}\n",
        token.secret()
    );
    eprintln!("Lines for the access file:\n");
    print!("{lines}");
    Ok(())
}
