//! Resources and prompts.

use serde::Deserialize;
use serde_json::json;

use crate::client::Client;
use crate::{Failure, tools};

/// Uses each kind of thing that the server says it has.
pub(crate) async fn use_all(client: &Client) -> Result<(), Failure> {
    if client.offers("tools") {
        tools::call_all(client).await?;
    }
    if client.offers("resources") {
        read_resources(client).await?;
    }
    if client.offers("prompts") {
        get_prompts(client).await?;
    }
    Ok(())
}

async fn read_resources(client: &Client) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct List {
        resources: Vec<Resource>,
    }
    #[derive(Deserialize)]
    struct Resource {
        uri: String,
    }

    let list: List = client.call("resources/list", json!({})).await?.to()?;
    for resource in list.resources {
        client.call("resources/read", json!({ "uri": resource.uri })).await?;
    }
    Ok(())
}

async fn get_prompts(client: &Client) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct List {
        prompts: Vec<Prompt>,
    }
    #[derive(Deserialize)]
    struct Prompt {
        name: String,
    }

    let list: List = client.call("prompts/list", json!({})).await?.to()?;
    for prompt in list.prompts {
        client.call("prompts/get", json!({ "name": prompt.name })).await?;
    }
    Ok(())
}
