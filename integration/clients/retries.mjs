// When the official openai client for Node tries again, and when not. Every check prints its name; the first that fails ends with 1.
//
// Usage: node retries.mjs FOLDER_OF_OPENAI BASE_URL KEY_WITHOUT_BUDGET KEY_WITH_A_LIMIT

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

const [folder, baseURL, poorKey, limitedKey] = process.argv.slice(2);
const OpenAI = createRequire(join(folder, "package.json"))("openai");
const TRIES_MAX = 500;
let attempts = 0;

function client(apiKey, maxRetries) {
  const counted = (url, init) => {
    attempts += 1;
    return fetch(url, init);
  };
  return new OpenAI({ baseURL, apiKey, maxRetries, timeout: 120_000, fetch: counted });
}

function ask(of) {
  const messages = [{ role: "user", content: "Hi." }];
  return of.chat.completions.create({ model: "smollm2-135m-instruct", messages, max_tokens: 1 });
}

async function refused(work, kind) {
  try {
    await work();
  } catch (error) {
    assert.ok(error instanceof kind, String(error));
    return error;
  }
  return assert.fail("it was answered");
}

async function lists_answers_and_streams() {
  const of = client(limitedKey, 0);
  const models = await of.models.list();
  assert.equal(models.data[0].id, "smollm2-135m-instruct");
  const answer = await ask(of);
  assert.ok(answer.usage.prompt_tokens > 0 && answer.choices[0].message.role === "assistant");
  const messages = [{ role: "user", content: "What is the capital of France?" }];
  const request = { model: models.data[0].id, messages, max_tokens: 8, temperature: 0 };
  const whole = await of.chat.completions.create(request);
  let text = "";
  for await (const chunk of await of.chat.completions.create({ ...request, stream: true })) {
    text += chunk.choices[0]?.delta?.content ?? "";
  }
  assert.equal(text, whole.choices[0].message.content);
}

async function does_not_try_a_spent_budget_again() {
  attempts = 0;
  const error = await refused(() => ask(client(poorKey, 2)), OpenAI.RateLimitError);
  assert.deepEqual([error.status, error.code, error.type], [429, "insufficient_quota", "insufficient_quota"]);
  assert.equal(attempts, 1);
}

async function does_not_try_a_wrong_key_again() {
  attempts = 0;
  const error = await refused(() => ask(client("bh_live_wrong", 2)), OpenAI.AuthenticationError);
  assert.equal(error.code, "invalid_api_key");
  assert.equal(attempts, 1);
}

async function waits_for_a_limit_and_is_answered() {
  const once = client(limitedKey, 0);
  let error;
  for (let tries = 0; error === undefined; tries += 1) {
    assert.ok(tries < TRIES_MAX, "the limit is never reached");
    error = await ask(once).then(() => undefined, (refusal) => refusal);
  }
  assert.ok(error instanceof OpenAI.RateLimitError && error.code === "rate_limit_exceeded", String(error));
  attempts = 0;
  await ask(client(limitedKey, 3));
  assert.ok(attempts > 1, "it was not told to wait");
}

for (const check of [
  lists_answers_and_streams,
  does_not_try_a_spent_budget_again,
  does_not_try_a_wrong_key_again,
  waits_for_a_limit_and_is_answered,
]) {
  await check();
  console.log(check.name);
}
