// The thread behind SchemaChecks: it says that it is ready; then one delivery in, one answer out.
import { parentPort } from 'node:worker_threads';
import type { SchemaAnswer, SchemaQuestion } from './schema-checks.ts';
import { schemaErrors } from './schema.ts';

parentPort!.on('message', (question: SchemaQuestion) =>
  parentPort!.postMessage(answerTo(question)),
);
parentPort!.postMessage('ready');

function answerTo({ schema, bytes }: SchemaQuestion): SchemaAnswer {
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(bytes).toString('utf8'));
  } catch {
    return { json: false };
  }
  try {
    return { json: true, errors: schemaErrors(schema, value) };
  } catch (error) {
    return { broken: `failed: ${(error as Error).message}` };
  }
}
